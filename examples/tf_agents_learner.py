"""Trains an agent of TF-Agents with a learned loss, without a reward, in the family that it is for.

python examples/tf_agents_learner.py point_goal
"""

import sys

import numpy as np
import tensorflow as tf
from tf_agents.drivers import dynamic_step_driver
from tf_agents.replay_buffers import tf_uniform_replay_buffer

import epg_tf


def train(name, seed=0):
    """Trains one agent; returns the return of each episode, which the agent does not see."""
    tf.random.set_seed(seed)
    loss = epg_tf.load_loss(name)
    environment = epg_tf.load_environment(loss.experiment.task, seed=seed)
    agent = epg_tf.LearnedLossAgent(
        environment.time_step_spec(), environment.action_spec(), loss, seed
    )
    period, returns = loss.experiment.inner.update_period, [0.0]
    replay = tf_uniform_replay_buffer.TFUniformReplayBuffer(
        agent.collect_data_spec, batch_size=1, max_length=2 * period
    )
    driver = dynamic_step_driver.DynamicStepDriver(
        environment, agent.collect_policy, [replay.add_batch], num_steps=period
    )
    for _ in range(loss.experiment.inner.updates):
        driver.run()
        experience = replay.gather_all()
        agent.train(experience)
        replay.clear()
        for reward, last in zip(experience.reward[0], experience.is_last()[0], strict=True):
            returns[-1] += float(reward)
            returns += [0.0] if last else []
    return returns[:-1]


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    found = train(sys.argv[1], *map(int, sys.argv[2:3])) or sys.exit("no episode ended")
    tenth = max(1, len(found) // 10)
    first, last = np.mean(found[:tenth]), np.mean(found[-tenth:])
    print(
        f"{len(found)} episodes; return of the first {tenth}: {first:.1f}, "
        f"of the last {tenth}: {last:.1f}"
    )
