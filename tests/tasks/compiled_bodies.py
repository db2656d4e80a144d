"""Compares the bodies of a family with the same bodies from MuJoCo's compiler."""

from __future__ import annotations

from collections.abc import Callable

import mujoco
import numpy as np

from epg_tf.tasks.bodies import BodyFamily, State
from epg_tf.tasks.physics import BodySimulation
from epg_tf.tasks.quantities import Task

Compile = Callable[[BodyFamily, Task], mujoco.MjModel]


def simulate(family: BodyFamily, seeds: list[int]) -> tuple[BodySimulation, list[Task]]:
    """Returns simulations at the start of an episode, each with a task of its own."""
    generators = [np.random.default_rng(seed) for seed in seeds]
    tasks = [family.sample_task(generator) for generator in generators]
    simulation = BodySimulation(family, len(seeds))
    simulation.set_tasks(tasks)
    simulation.reset(np.arange(len(seeds)), generators)
    return simulation, tasks


def states(
    qpos: object,
    qvel: object = 0.0,
    velocities: int = 0,
    task: dict | None = None,
    sensed: dict | None = None,
) -> State:
    """Returns states with given positions [P, nq], velocities [P, nv] (or one for all), quantities
    [P, ...], fields.
    """
    qpos, qvel = np.asarray(qpos, float), np.asarray(qvel, float)
    if not qvel.ndim:
        qvel = np.full((len(qpos), velocities or qpos.shape[1]), qvel)
    task = {name: np.asarray(value) for name, value in (task or {}).items()}
    return State(qpos, qvel, np.zeros((len(qpos), 0)), task, sensed or {})


def assert_same_numbers(family: BodyFamily, compiled: Compile, seeds: list[int]) -> None:
    """Every array of every model is the compiler's."""
    simulation, tasks = simulate(family, seeds)
    for row, task in enumerate(tasks):
        ours, theirs, compared = simulation.model(row), compiled(family, task), 0
        for name in dir(theirs):
            wanted = getattr(theirs, name)
            if isinstance(wanted, np.ndarray) and not name.startswith("_"):
                np.testing.assert_allclose(
                    getattr(ours, name), wanted, rtol=1e-9, atol=1e-12, err_msg=name
                )
                compared += 1
        assert compared > 200
        np.testing.assert_array_equal(ours.opt.gravity, theirs.opt.gravity)


def assert_same_motion(
    family: BodyFamily, compiled: Compile, seeds: list[int], active: str, steps: int = 200
) -> None:
    """The bodies move alike, and MjData's count `active` (contacts, ...) is often positive."""
    simulation, tasks = simulate(family, seeds)
    models = [compiled(family, task) for task in tasks]
    datas = [mujoco.MjData(model) for model in models]
    for row, data in enumerate(datas):
        data.qpos, data.qvel = simulation.state.qpos[row], simulation.state.qvel[row]
    acting = np.zeros(len(seeds), int)
    for action in np.random.default_rng(2).uniform(-1, 1, (steps, len(seeds), family.action_size)):
        simulation.step(action)
        for row, (model, data) in enumerate(zip(models, datas, strict=True)):
            data.ctrl = action[row]
            mujoco.mj_step(model, data, nstep=family.frame_skip)
            np.testing.assert_allclose(simulation.state.qpos[row], data.qpos, rtol=0, atol=1e-9)
            np.testing.assert_allclose(simulation.state.qvel[row], data.qvel, rtol=0, atol=1e-9)
            acting[row] += getattr(data, active) > 0
    assert (acting >= 5).all(), acting
