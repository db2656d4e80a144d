"""Makes the bodies of random tasks with MuJoCo's compiler, and compares a family's with them."""

from __future__ import annotations

from collections.abc import Callable

import mujoco
import numpy as np

from epg_tf.tasks.bodies import BodyFamily, State
from epg_tf.tasks.physics import BodySimulation
from epg_tf.tasks.quantities import Task

Compile = Callable[[BodyFamily, Task], mujoco.MjModel]


def walker(family: BodyFamily, task: Task) -> mujoco.MjModel:
    """Returns a hopper or walker with the masses, radii, friction and gravity of a task."""
    spec = mujoco.MjSpec.from_file(str(family.model_file))
    spec.option.gravity = [0, 0, task["gravity"]]
    for geom in spec.geoms:
        number = family.model.geom(geom.name).id
        geom.friction = np.array(geom.friction) * task["friction"][number]
        if number:
            geom.mass = family.model.body_mass[number] * task["mass"][number - 1]
            geom.size = [geom.size[0] * task["radius"][number - 1], geom.size[1], 0.0]
    return spec.compile()


def cheetah(family: BodyFamily, task: Task) -> mujoco.MjModel:
    """Returns a half-cheetah with the mass and friction of a task."""
    spec = mujoco.MjSpec.from_file(str(family.model_file))
    spec.compiler.settotalmass = 14 * task["mass"]
    for geom in spec.geoms:
        geom.friction = np.array(geom.friction) * task["friction"]
    return spec.compile()


def arm(family: BodyFamily, task: Task) -> mujoco.MjModel:
    """Returns an arm of the lengths of a task; masses follow from them, armature stays."""
    spec = mujoco.MjSpec.from_file(str(family.model_file))
    first, second = 0.1 * task["length"]
    spec.geom("link0").fromto = [0, 0, 0, first, 0, 0]
    spec.geom("link1").fromto = [0, 0, 0, second, 0, 0]
    spec.body("body1").pos = [first, 0, 0]
    spec.body("fingertip").pos = [second + 0.01, 0, 0]
    reach = max(first + second + 0.01, 0.27)
    for name in ("target_x", "target_y"):
        spec.joint(name).range = [-reach, reach]
    return spec.compile()


def point(family: BodyFamily, task: Task) -> mujoco.MjModel:
    """Returns the point of PointGoal with the mass, damping and motors of a task."""
    spec, model = mujoco.MjSpec.from_file(str(family.model_file)), family.model
    spec.geom("body").mass = model.body_mass[1] * task["mass"]
    for axis, joint in enumerate(spec.joints):
        first = np.arange(np.size(joint.damping)) == 0
        joint.damping = np.where(first, model.dof_damping[axis] * task["damping"], 0.0)
    for axis, actuator in enumerate(spec.actuators):
        actuator.gear = model.actuator_gear[axis] * task["gain"][axis]
    return spec.compile()


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
    family: BodyFamily, compiled: Compile, active: str, steps: int = 200, held: int = 1
) -> None:
    """The bodies move alike, and MjData's count `active` (contacts, ...) is often positive; random
    actions are held for some steps.
    """
    seeds = list(range(6))
    simulation, tasks = simulate(family, seeds)
    models = [compiled(family, task) for task in tasks]
    datas = [mujoco.MjData(model) for model in models]
    for row, data in enumerate(datas):
        data.qpos, data.qvel = simulation.state.qpos[row], simulation.state.qvel[row]
    acting = np.zeros(len(seeds), int)
    shape = steps // held, len(seeds), family.action_size
    for action in np.repeat(np.random.default_rng(2).uniform(-1, 1, shape), held, axis=0):
        simulation.step(action)
        for row, (model, data) in enumerate(zip(models, datas, strict=True)):
            data.ctrl = action[row]
            mujoco.mj_step(model, data, nstep=family.frame_skip)
            np.testing.assert_allclose(simulation.state.qpos[row], data.qpos, rtol=0, atol=1e-9)
            np.testing.assert_allclose(simulation.state.qvel[row], data.qvel, rtol=0, atol=1e-9)
            acting[row] += getattr(data, active) > 0
    assert (acting >= 5).all(), acting
