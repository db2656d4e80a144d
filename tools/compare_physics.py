"""Prints how bodies fare in exact and in coarse physics, as rows of the table of docs/physics.md.

    python tools/compare_physics.py

64 lives of each family, each with a random linear policy and noise, in the same tasks.
"""

from __future__ import annotations

import numpy as np

from epg_tf.core.experiment import TaskConfig
from epg_tf.core.random_streams import life_generator
from epg_tf.core.types import LifeKey
from epg_tf.tasks.episodes import Episodes
from epg_tf.tasks.registry import make_family, simulate

TASKS = {
    "random_hopper": (4, 250),
    "random_walker": (4, 250),
    "random_reacher": (2, 50),
    "directional_half_cheetah": (5, 100),
    "goal_ant": (5, 100),
    "fetch": (20, 25),
}
P = 64


def fare(task: TaskConfig) -> str:
    """Returns the cells of one family in one kind of physics."""
    family = make_family(task)
    simulation = simulate(family, P)
    keys = [LifeKey(0, "benchmark", 0, index) for index in range(P)]
    simulation.set_tasks([family.sample_task(life_generator(key, "task")) for key in keys])
    episodes = Episodes(simulation, [life_generator(key, "reset") for key in keys])
    generator = np.random.default_rng(0)
    shape = (P, family.observation_size, family.action_size)
    weights = 0.5 * generator.standard_normal(shape) / np.sqrt(family.observation_size)
    returns, diverged = [], 0
    steps = 8 * family.episode_limit
    for _ in range(steps):
        noise = 0.5 * generator.standard_normal((P, family.action_size))
        action = np.tanh(np.einsum("po,poa->pa", episodes.observation, weights)) + noise
        result, ended = episodes.step(action)
        returns += list(ended.returns)
        diverged += int(result.diverged.sum())
    micros = 1e6 * episodes.engine_seconds / steps / P
    error = 1.96 * np.std(returns) / np.sqrt(len(returns))
    length = steps * P / len(returns)
    return (
        f"{family.physics_steps} x {1e3 * family.model.opt.timestep:.3g} ms | "
        f"{np.mean(returns):.2f} ± {error:.2f} | {length:.0f} | {diverged} | {micros:.0f}"
    )


if __name__ == "__main__":
    for name, (frame_skip, limit) in TASKS.items():
        for physics in ("exact", "coarse"):
            cells = fare(TaskConfig(name, frame_skip, limit, physics=physics))
            print(f"| `{name}` | {physics} | {cells} |", flush=True)
