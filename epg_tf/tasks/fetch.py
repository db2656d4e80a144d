"""FetchReach: move the gripper of the Fetch arm to a random target (EPG, Appendix A, Figures 3 and
11).

Gymnasium-Robotics' FetchReach (Plappert et al. 2018) step for step; its model files alone are used.
The paper's loss is shown the target and not the reward; nothing but the target is random, how often
it is drawn is left open. Here every episode draws its own, as FetchReach does: the running
normalisation would subtract a life's only target, relative to the gripper or not. So what a task
says is where targets may be: FetchReach's cube, or out of distribution beside it.
"""

from __future__ import annotations

import importlib.util
import pathlib

import mujoco
import numpy as np

from epg_tf.core.errors import ConfigError
from epg_tf.core.types import Array
from epg_tf.tasks.bodies import BodyFamily, State
from epg_tf.tasks.quantities import Quantity, Task

MOVE = 0.05  # m, of the gripper, wanted by an action of 1
ROTATION = np.array([1.0, 0.0, 1.0, 0.0])  # quaternion of the gripper, which points down
EXTENT = 0.15  # m, targets above or below the gripper's start; in training also beside it
NEAR = 0.05  # m, from the target, counts as reached
BASE = {
    "robot0:slide0": 0.4049,
    "robot0:slide1": 0.48,
    "robot0:slide2": 0.0,
}  # m, where the robot stands
LOWERED = np.array(
    [-0.498, 0.005, -0.231]
)  # m, from the gripper of the unmoved model to its start above the table
SETUP_STEPS = 200  # physics steps in which the arm gets there


class FetchReach(BodyFamily):
    """Reward -distance of the gripper to the target (m) per env step; episodes end at the time
    limit only.

    Three actions move the gripper along x, y and z; the fourth would open it and is blocked, as in
    FetchReach.

    Attributes:
      middle: [3] of the region of targets, where the gripper starts (m).

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
    quantities = (
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
        self.look(center=(1.3, 0.75, 0.5), extent=0.9, azimuth=132.0, elevation=-14.0)
        self.action_size = 4
        self.action_bounds = -np.ones(4), np.ones(4)
        # Pose of the welded gripper in the frame of the mocap body that drags it: the same place.
        self.model.eq_data[:, :7] = [0, 0, 0, 0, 0, 0, 1]
        self._site = self.model.site("robot0:grip").id
        self._body = self.model.body("robot0:gripper_link").id
        self._root = self.model.body_rootid[self._body]
        self._fingers = [
            self.model.joint(f"robot0:{side}_gripper_finger_joint").qposadr.item() for side in "rl"
        ]
        self._qpos, self._qvel, self.middle = self._set_up()

    def _set_up(self) -> tuple[Array, Array, Array]:
        """Returns qpos and qvel with the gripper above the table, and the middle of the targets
        [3], m.
        """
        data = mujoco.MjData(self.model)
        for joint, position in BASE.items():
            data.joint(joint).qpos = position
        mujoco.mj_forward(self.model, data)
        data.mocap_pos[0], data.mocap_quat[0] = data.site_xpos[self._site] + LOWERED, ROTATION
        mujoco.mj_step(self.model, data, nstep=SETUP_STEPS)
        return data.qpos.copy(), data.qvel.copy(), data.site_xpos[self._site].copy()

    def start(self, generator: np.random.Generator, task: Task) -> tuple[Array, Array, Array]:
        """Draws the target; the arm always starts alike."""
        offset = generator.uniform(-1.0, 1.0, 3)
        offset[:2] = np.copysign(task["nearest"], offset[:2]) + task["width"] * offset[:2]
        offset[2] *= EXTENT
        return self._qpos.copy(), self._qvel.copy(), self.middle + offset

    def control(self, state: State, controls: Array, rows: Array, action: Array) -> None:
        """Moves the mocap body, which drags the gripper, to where the gripper is and then by the
        action.
        """
        del controls  # the model has no actuators
        sensed = state.sensed
        sensed["mocap_pos"][rows, 0] = sensed["xpos"][rows, self._body] + MOVE * action[:, :3]
        # The sum of the rotation at hand and the wanted one lies between them, once MuJoCo has
        # normalised it.
        sensed["mocap_quat"][rows, 0] = sensed["xquat"][rows, self._body] + ROTATION

    def settle(self, state: State, rows: Array) -> None:
        """Closes the fingers."""
        state.qpos[rows[:, None], self._fingers] = 0.0

    def gripper(self, state: State) -> Array:
        """Returns where the gripper is, [P, 3] in m."""
        return state.sensed["site_xpos"][:, self._site]

    def velocity(self, state: State) -> Array:
        """Returns the gripper's velocity, [P, 3] in m/s; FetchReach's is this times the duration of
        an env step.
        """
        # MuJoCo's is angular, then linear, of the point of the gripper's body that is at the
        # robot's centre of mass.
        angular, linear = np.split(state.sensed["cvel"][:, self._body], 2, axis=1)
        return linear + np.cross(
            angular, self.gripper(state) - state.sensed["subtree_com"][:, self._root]
        )

    def observe(self, state: State) -> Array:
        """Returns target - gripper (m), gripper (m), its velocity (m/s).

        FetchReach's without the fingers, which do not move, and with the target relative to the
        gripper.
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
        """Returns True within 0.05 m of the target; it ends nothing, staying there is the task."""
        return self._distance(state) < NEAR

    def marker(self, state: State) -> Array:
        """Returns the target."""
        return state.goal.copy()


def _model_file() -> pathlib.Path:
    """Finds the model without importing Gymnasium-Robotics, which would register environments and
    print warnings.
    """
    package = importlib.util.find_spec("gymnasium_robotics")
    if package is None:
        raise ConfigError(
            "config.task.family='fetch' needs the model files of gymnasium-robotics, which is not "
            "installed; run pip install 'gymnasium-robotics==1.4.*'"
        )
    return (
        pathlib.Path(package.submodule_search_locations[0])
        / "envs"
        / "assets"
        / "fetch"
        / "reach.xml"
    )
