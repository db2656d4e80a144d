"""Plays the start of an episode of a Gymnasium environment twice, before anything is learned in it,
and names what does not follow Gymnasium's interface.
"""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np

from epg_tf.core.errors import ConfigError
from epg_tf.core.files import one_line
from epg_tf.tasks.checks import check_sizes, reraise_as_config_error
from epg_tf.tasks.gymnasium_family import SUCCESS, GymnasiumFamily
from epg_tf.tasks.quantities import Task

_STEPS = 50  # env steps of the episodes that are compared, if they last so long
_REMEDY = (
    "correct the environment, whose values must fit its spaces; gymnasium.utils.env_checker."
    "check_env may help"
)


def probe(family: GymnasiumFamily, task: Task) -> None:
    """Checks that the environment follows Gymnasium's interface and that a seed decides an episode.

    A family whose environment reports in `info` whether it succeeds becomes `goal_reaching`.

    Raises:
      ConfigError: The environment is at fault.
    """
    check_sizes(family, "give its spaces at least one number each")
    with contextlib.closing(family.make()) as environment:
        episodes = _Episodes(family, environment, task)
        if episodes.play() != episodes.play():
            raise ConfigError(
                f"{episodes.named}: two episodes from the same seed and with the same actions "
                "differ; let the environment draw all random numbers from self.np_random, which "
                "super().reset(seed=seed) seeds, and let reset() set all of its state"
            )
    family.goal_reaching = family.goal_reaching or episodes.reports_success


class _Episodes:
    """Plays the start of one episode, each time the same.

    Attributes:
      named: How messages name the environment.
      reports_success: Whether `info` has said so far whether the goal is reached.
    """

    def __init__(self, family: GymnasiumFamily, environment: gymnasium.Env, task: Task):
        self._family, self._environment = family, environment
        self.named = f"config.task.family={family.name!r}"
        self.reports_success = False
        with reraise_as_config_error(family.name, "configure()", _REMEDY):
            family.configure(environment, task)
        with reraise_as_config_error(family.name, "reset_options()", _REMEDY):
            self._options = family.reset_options(task)
        self._check_reset_parameters()

    def play(self) -> list[bytes]:
        """Returns observations and rewards of a reset and a few env steps, as bytes."""
        space = self._environment.action_space
        space.seed(0)
        found = [self._reset()]
        for _ in range(_STEPS):
            with reraise_as_config_error(self._family.name, "drawing an action", _REMEDY):
                action = space.sample()
            part, over = self._step(action)
            found.append(part)
            if over:
                break
        return found

    def _check_reset_parameters(self) -> None:
        try:
            parameters = inspect.signature(self._environment.unwrapped.reset).parameters
        except (TypeError, ValueError):  # of compiled code
            return
        takes_all = any(found.kind is found.VAR_KEYWORD for found in parameters.values())
        missing = [name for name in ("seed", "options") if name not in parameters]
        if missing and not takes_all:
            self._refuse(
                f"its reset() takes no {missing[0]}",
                "write def reset(self, *, seed=None, options=None), and call "
                "super().reset(seed=seed) in it",
            )

    def _reset(self) -> bytes:
        def call() -> Any:
            return self._environment.reset(seed=0, options=dict(self._options))

        what = "two values, an observation and a dict: return observation, {}"
        observation, info = self._called(call, "reset", 2, what)
        self._note_success(info)
        return self._observation(observation, "reset")

    def _step(self, action: Any) -> tuple[bytes, bool]:
        what = "five values: observation, reward, terminated, truncated and a dict"
        values = self._called(lambda: self._environment.step(action), "step", 5, what)
        observation, reward, terminated, truncated, info = values
        self._note_success(info)
        kind = np.asarray(reward).dtype.kind
        if np.ndim(reward) or kind not in "fiub":
            self._refuse(
                f"its step() returns the reward {one_line(repr(reward)):.50}, which is "
                + (f"an array of shape {np.shape(reward)}" if np.ndim(reward) else "no number"),
                "return one number, e.g. float(reward)",
            )
        if not np.isfinite(reward):
            self._refuse(f"its step() returns the reward {reward}", "return a finite number")
        for name, flag in (("terminated", terminated), ("truncated", truncated)):
            if np.ndim(flag) or np.asarray(flag).dtype.kind not in "bi":
                self._refuse(
                    f"its step() returns {name}={one_line(repr(flag)):.50}", "return True or False"
                )
        seen = self._observation(observation, "step")
        return seen + np.float64(reward).tobytes(), bool(terminated or truncated)

    def _called(self, call: Callable[[], Any], method: str, count: int, what: str) -> Any:
        """Returns the `count` values of a method, the last of which is a dict."""
        try:
            with reraise_as_config_error(self._family.name, method, _REMEDY):
                values = call()
        except ConfigError as error:
            if "values to unpack" not in str(error):  # a wrapper of Gymnasium unpacks them
                raise
            values = None
        whole = isinstance(values, tuple) and len(values) == count
        if not (whole and isinstance(values[-1], dict)):
            self._refuse(f"its {method}() does not return what Gymnasium expects", f"return {what}")
        return values

    def _observation(self, observation: Any, method: str) -> bytes:
        space, values = self._family.observation_space, np.asarray(observation)
        if values.shape != space.shape:
            self._refuse(
                f"its {method}() returns an observation of shape {values.shape}, but its "
                f"observation_space has {space.shape}",
                "make them equal",
            )
        if not np.can_cast(values.dtype, space.dtype, "same_kind"):
            self._refuse(
                f"its {method}() returns an observation of {values.dtype}, which does not fit its "
                f"observation_space of {space.dtype}",
                "make them equal",
            )
        if not np.isfinite(values).all():
            self._refuse(
                f"its {method}() returns an observation that is not finite",
                "return finite numbers",
            )
        with np.errstate(all="ignore"):
            rounded = values.astype(np.float32)
        if (~np.isfinite(rounded) | ((rounded == 0.0) & (values != 0.0))).any():
            self._refuse(
                f"its {method}() returns an observation that float32 does not hold, "
                f"{one_line(values):.60}",
                "use units in which its numbers are within 1e-37 and 1e38",
            )
        return values.tobytes()

    def _note_success(self, info: dict[str, Any]) -> None:
        for name in (name for name in SUCCESS if name in info):
            value = np.asarray(info[name])
            if value.ndim or value.dtype.kind not in "biuf":
                self._refuse(
                    f"its info has {name}={one_line(repr(info[name])):.50}", "report True or False"
                )
            self.reports_success = True

    def _refuse(self, fault: str, remedy: str) -> None:
        raise ConfigError(f"{self.named}: {fault}; {remedy}")
