"""Defines FetchReach: move the gripper of an arm to a target (EPG, Appendix A, Figures 3 and 11).

It equals Gymnasium-Robotics' FetchReach (Plappert et al. 2018) step for step, but uses only its
model files. In the paper, the loss sees the target and not the reward, only the target is random,
and it does not say how often the target is drawn. Here every episode draws one, as in FetchReach,
because the running normalisation would subtract the only target of a life. A task therefore sets
the region of the targets: the cube of FetchReach, or out of distribution a region beside it.
"""

from __future__ import annotations

import importlib.util
import pathlib

import mujoco
import numpy as np

from epg_tf.core.errors import ConfigError
from epg_tf.core.types import Array
from epg_tf.tasks.bodies import BodyFamily, CoarsePhysics, State
from epg_tf.tasks.quantities import Quantity, Task

MOVE = 0.05  # m, commanded movement of the gripper for an action of 1
ROTATION = np.array([1.0, 0.0, 1.0, 0.0])  # quaternion of the gripper, which points down
EXTENT = 0.15  # m, largest distance of targets from the gripper's start along each axis
TARGET_RADIUS = 0.05  # m, distance at which the target is reached
# Position of the robot's base (m).
BASE = {"robot0:slide0": 0.4049, "robot0:slide1": 0.48, "robot0:slide2": 0.0}
# From the gripper in the model's first state to its start above the table (m).
SETUP_OFFSET = np.array([-0.498, 0.005, -0.231])
ARM = tuple(
    "shoulder_pan shoulder_lift upperarm_roll elbow_flex forearm_roll wrist_flex wrist_roll".split()
)
START_NOISE = 0.01  # rad, in FetchTarget
SETUP_STEPS = 200  # physics steps in which the arm reaches its start


class FetchReach(BodyFamily):
    """Rewards a small distance of the gripper to a target (m) in every env step.

    Episodes end only at the time limit. Three actions move the gripper along x, y and z. The fourth
    would open it and has no effect, as in FetchReach.

    Attributes:
      middle: [3] middle of the region of targets, where the gripper starts (m).

    Raises:
      ConfigError: Gymnasium-Robotics is not installed.
    """

    name = "fetch"
    default_frame_skip = 20
    default_episode_limit = 50
    observation_size = 9
    goal_size = 3
    goal_reaching = True
    settles = True
    coarse = CoarsePhysics(timestep_factor=4.0)  # with 10 targets are reached sooner
    quantities: tuple[Quantity, ...] = (
        Quantity(
            "nearest",
            "m along x and y each, from the gripper's start to the next target",
            (0.0, 0.0),
            (EXTENT, 0.2),
            nominal=0.0,
            possible=(0.0, 0.2),
        ),
        Quantity(
            "width",
            "m along x and y each, from the next to the farthest target",
            (EXTENT, EXTENT),
            (0.05, 0.05),
            nominal=EXTENT,
            possible=(0.0, EXTENT),
        ),
    )
    sensed = ("mocap_pos", "mocap_quat", "xpos", "xquat", "site_xpos", "cvel", "subtree_com")

    def __init__(self, frame_skip: int, episode_limit: int, task_range: str = "training"):
        self.model_file = _model_file()
        super().__init__(frame_skip, episode_limit, task_range)
        self.set_view(center=(1.3, 0.75, 0.5), extent=0.9, azimuth=132.0, elevation=-14.0)
        self.action_size = 4
        self.action_bounds = -np.ones(4), np.ones(4)
        # The gripper is welded to the mocap body that moves it, with the same position.
        self.model.eq_data[:, :7] = [0, 0, 0, 0, 0, 0, 1]
        self._site = self.model.site("robot0:grip").id
        self._body = self.model.body("robot0:gripper_link").id
        self._root = self.model.body_rootid[self._body]
        self._fingers = [
            self.model.joint(f"robot0:{side}_gripper_finger_joint").qposadr.item() for side in "rl"
        ]
        self._arm = [self.model.joint(f"robot0:{name}_joint").qposadr.item() for name in ARM]
        self._qpos, self._qvel, self.middle = self._set_up()

    def _set_up(self) -> tuple[Array, Array, Array]:
        """Returns qpos, qvel and the gripper's position [3] (m) at the start above the table."""
        data = mujoco.MjData(self.model)
        for joint, position in BASE.items():
            data.joint(joint).qpos = position
        mujoco.mj_forward(self.model, data)
        data.mocap_pos[0], data.mocap_quat[0] = data.site_xpos[self._site] + SETUP_OFFSET, ROTATION
        mujoco.mj_step(self.model, data, nstep=SETUP_STEPS)
        return data.qpos.copy(), data.qvel.copy(), data.site_xpos[self._site].copy()

    def start(self, generator: np.random.Generator, task: Task) -> tuple[Array, Array, Array]:
        """Draws the target; the start of the arm is always the same."""
        offset = generator.uniform(-1.0, 1.0, 3)
        offset[:2] = np.copysign(task["nearest"], offset[:2]) + task["width"] * offset[:2]
        offset[2] *= EXTENT
        return self._qpos.copy(), self._qvel.copy(), self.middle + offset

    def control(self, state: State, controls: Array, rows: Array, action: Array) -> None:
        """Places the mocap body, which the gripper follows, at the gripper plus the action."""
        del controls  # the model has no actuators
        sensed = state.sensed
        sensed["mocap_pos"][rows, 0] = sensed["xpos"][rows, self._body] + MOVE * action[:, :3]
        # MuJoCo normalises this sum to a rotation halfway between the current and the wanted one.
        sensed["mocap_quat"][rows, 0] = sensed["xquat"][rows, self._body] + ROTATION

    def settle(self, state: State, rows: Array) -> None:
        """Closes the fingers."""
        state.qpos[rows[:, None], self._fingers] = 0.0

    def gripper(self, state: State) -> Array:
        """Returns the positions of the grippers, [P, 3] in m."""
        return state.sensed["site_xpos"][:, self._site]

    def velocity(self, state: State) -> Array:
        """Returns the velocities of the grippers, [P, 3] in m/s.

        FetchReach multiplies them by the duration of an env step.
        """
        # MuJoCo gives angular, then linear velocity, at the robot's centre of mass.
        angular, linear = np.split(state.sensed["cvel"][:, self._body], 2, axis=1)
        return linear + np.cross(
            angular, self.gripper(state) - state.sensed["subtree_com"][:, self._root]
        )

    def observe(self, state: State) -> Array:
        """Returns target - gripper (m), gripper (m), velocity of the gripper (m/s).

        Unlike FetchReach, it omits the fingers, which do not move, and gives the target relative to
        the gripper.
        """
        gripper = self.gripper(state)
        return np.concatenate([state.goal - gripper, gripper, self.velocity(state)], axis=1)

    def _distance(self, state: State) -> Array:
        return np.sqrt(np.square(state.goal - self.gripper(state)).sum(axis=1))

    def reward(self, before: State, after: State, action: Array) -> Array:
        """Returns minus the distance to the target (m)."""
        del before, action
        return -self._distance(after)

    def succeeded(self, state: State) -> Array:
        """Returns True within 0.05 m of the target; the episode continues there."""
        return self._distance(state) < TARGET_RADIUS

    def marker(self, state: State) -> Array:
        """Returns the target."""
        return state.goal.copy()


class FetchTarget(FetchReach):
    """Rewards a small distance to a target that stays the same for a life and is not observed.

    So no fixed policy reaches it. Of the paper's family, whose loss sees the target and no reward
    (Appendix A), this is the reading in which a task is a target. A loss with the channel "goal" is
    told target - gripper, in steps of an action of 1.
    """

    name = "fetch_target"
    observation_size = 6
    quantities = (
        Quantity(
            "target",
            "m along x, y and z, from the gripper's start",
            (-EXTENT, EXTENT),
            (EXTENT, 0.2),
            nominal=EXTENT / 2,
            size=3,
            possible=(-0.2, 0.2),
        ),
    )

    def start(self, generator: np.random.Generator, task: Task) -> tuple[Array, Array, Array]:
        """Draws the arm's joints within 0.01 rad of the usual start; the target is the task's."""
        qpos = self._qpos.copy()
        qpos[self._arm] += generator.uniform(-START_NOISE, START_NOISE, len(self._arm))
        return qpos, self._qvel.copy(), self.middle + task["target"]

    def observe(self, state: State) -> Array:
        """Returns gripper - start (m), velocity of the gripper (m/s)."""
        return np.concatenate([self.gripper(state) - self.middle, self.velocity(state)], axis=1)

    def told_goal(self, state: State) -> Array:
        """Returns target - gripper in commanded movements of an action of 1 (0.05 m)."""
        return (state.goal - self.gripper(state)) / MOVE


def _model_file() -> pathlib.Path:
    """Finds the model file of FetchReach.

    It does not import Gymnasium-Robotics, which would register environments and print warnings.
    """
    package = importlib.util.find_spec("gymnasium_robotics")
    if package is None or not package.submodule_search_locations:
        raise ConfigError(
            "config.task.family='fetch' needs the model files of gymnasium-robotics, which is not "
            "installed; run pip install 'gymnasium-robotics==1.4.*'"
        )
    folder = pathlib.Path(package.submodule_search_locations[0])
    return folder / "envs" / "assets" / "fetch" / "reach.xml"
