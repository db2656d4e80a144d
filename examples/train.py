"""Trains an agent in an environment of Gymnasium with an export, of a loss or of an objective.

epg-tf export --loss=random_hopper --output_dir=exported
python examples/train.py exported Hopper-v5
"""

import sys

import gymnasium
import numpy as np


def train(folder, env, env_steps=2048, seed=0):
    """Returns the learner, and [return, env steps] of its episodes."""
    sys.path.insert(0, folder)  # where learner.py is
    from learner import Learner

    episodes, total = [], np.zeros(2)
    learner = Learner(folder, env.action_space, seed=seed)
    observation, _ = env.reset(seed=seed)
    for _ in range(env_steps):
        observation, reward, terminated, truncated, _ = env.step(learner.act(observation))
        learner.record(observation, reward, terminated, truncated)
        total += reward, 1
        if terminated or truncated:
            (observation, _), episodes, total = env.reset(), [*episodes, total], np.zeros(2)
    return learner, episodes


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    environment = gymnasium.make(sys.argv[2])
    found = train(sys.argv[1], environment, *map(int, sys.argv[3:5]))[1]
    found = found or sys.exit("no episode ended")
    tenth = max(1, len(found) // 10)
    (first, begun), (last, lasted) = (np.mean(part, 0) for part in (found[:tenth], found[-tenth:]))
    print(f"{len(found)} episodes; the first {tenth}: return {first:.1f}, {begun:.0f} env steps")
    print(f"the last {tenth}: return {last:.1f}, {lasted:.0f} env steps")
