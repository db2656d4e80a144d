"""Makes P tasks of a family one vector environment of Gymnasium, which steps them in lockstep."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import gymnasium
import numpy as np
from gymnasium.utils import seeding
from gymnasium.vector import AutoresetMode
from gymnasium.vector.utils import batch_space

from epg_tf.core.types import Array
from epg_tf.tasks.gymnasium_environment import endless_family, plain, spaces_of, wanted_task
from epg_tf.tasks.quantities import Task
from epg_tf.tasks.registry import simulate


class TaskVectorEnv(gymnasium.vector.VectorEnv):
    """Is, to the bit, P environments `TaskEnv` under their time limit, member i with the seed of a
    reset + i; all members are reset together. After its last step, a member starts its next episode
    in the next step, which ignores its action.

    Args:
      num_envs: P, >= 1.
      family: Name of the family.
      max_episode_steps: Env steps after which an episode is truncated, >= 1.
      frame_skip: As of `TaskEnv`.
      task_range: As of `TaskEnv`.
      render_mode: None; other vector environments draw.

    Raises:
      ConfigError: No family has that name, or `task_range` does not fit it.
      ValueError: A setting is out of range.
    """

    metadata = {"render_modes": [], "autoreset_mode": AutoresetMode.NEXT_STEP}

    def __init__(
        self,
        num_envs: int,
        family: str,
        max_episode_steps: int,
        frame_skip: int | None = None,
        task_range: str = "training",
        render_mode: None = None,
    ):
        if render_mode is not None:
            raise ValueError(
                f"render_mode={render_mode!r}: tasks that are stepped in lockstep are not drawn; "
                "pass vectorization_mode='sync'"
            )
        self._family = endless_family(family, frame_skip, task_range)
        self.num_envs = num_envs
        self.single_observation_space, self.single_action_space = spaces_of(self._family)
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self._simulation = simulate(self._family, num_envs)
        self._limit = max_episode_steps
        self._streams: list[np.random.Generator] = []
        self._tasks: list[Task] = []
        self._infos: dict[str, Any] = {}
        self._observation = np.zeros((num_envs, self._family.observation_size), np.float32)
        self._taken = np.zeros(num_envs, int)
        self._terminated, self._ended = np.zeros((2, num_envs), bool)

    def reset(
        self,
        *,
        seed: int | Sequence[int] | None = None,
        options: Mapping[str, object] | None = None,
    ) -> tuple[Array, dict[str, Any]]:
        """Starts an episode of each member.

        Args:
          seed: Of member 0, or one of each; None continues the current streams.
          options: As of `TaskEnv.reset`, for all members.

        Returns:
          (observations [P, O] float32, infos).

        Raises:
          ValueError: `options` names something unknown, or there is not one seed for each member.
        """
        wanted, count = wanted_task(options), self.num_envs
        given = self._family.complete_task(wanted) if isinstance(wanted, Mapping) else None
        seeds: Sequence[int | None] = [None] * count if seed is None else _seeds(seed, count)
        fresh = not self._tasks or seed is not None or wanted is not None
        if not self._streams or seed is not None:
            self._streams = [seeding.np_random(number)[0] for number in seeds]
        if fresh:
            sample = self._family.sample_task
            self._tasks = [sample(each) if given is None else given for each in self._streams]
            self._simulation.set_tasks(self._tasks)
            self._infos = {}
            for member, task in enumerate(self._tasks):
                self._infos = self._add_info(self._infos, {"task": plain(task)}, member)
        self._start(np.arange(count), fresh)
        return self._observation.copy(), dict(self._infos)

    def _start(self, members: Array, fresh: bool) -> None:
        """Starts the next episodes of members; those of families that continue do so, see
        `TaskEnv`.
        """
        goes_on = self._family.continues and not fresh
        begun = members[self._terminated[members]] if goes_on else members
        if begun.size:
            self._observation[begun] = self._simulation.reset(begun, self._streams)
        self._taken[members] = 0
        self._terminated[members] = self._ended[members] = False

    def step(self, actions: Array) -> tuple[Array, Array, Array, Array, dict[str, Any]]:
        """Advances members within an episode by one env step, and starts episodes of the others.

        Args:
          actions: [P, A], clipped to the family's bounds, or if actions are discrete [P] or [P, K].

        Returns:
          (observations [P, O] float32, rewards [P], terminated [P], truncated [P], infos).

        Raises:
          ResetNeeded: No episode was started.
          ValueError: The actions are not valid.
        """
        if not self._tasks:
            raise gymnasium.error.ResetNeeded("call reset() before step()")
        rows = self._rows(actions)
        moves, moving = ~self._ended, np.flatnonzero(~self._ended)
        self._start(np.flatnonzero(self._ended), fresh=False)
        rewards = np.zeros(self.num_envs)
        truncated, diverged, success = np.zeros((3, self.num_envs), bool)
        if moving.size:
            result = self._simulation.step(rows[moving], moving)
            self._taken[moving] += 1
            self._observation[moving], rewards[moving] = result.observation, result.reward
            self._terminated[moving], diverged[moving] = result.terminated, result.diverged
            truncated[moving] = result.truncated | (self._taken[moving] >= self._limit)
            success[moving] = result.success
        self._ended = self._terminated | truncated
        infos = {**self._infos, "diverged": diverged, "_diverged": moves}
        if self._family.goal_reaching:
            infos |= {"success": success, "_success": moves}
        return self._observation.copy(), rewards, self._terminated.copy(), truncated, infos

    def _rows(self, actions: Array) -> Array:
        """Returns actions in the form that simulations take, [P, A]."""
        space = self.action_space
        if self._family.discrete_actions:
            if not space.contains(actions):
                raise ValueError(f"actions={actions!r} must be in {space}")
            return self._family.choice_rows(actions)
        rows = np.asarray(actions, np.float32)
        if rows.shape != space.shape:
            raise ValueError(f"actions have shape {rows.shape}; it must be {space.shape}")
        return rows


def _seeds(seed: int | Sequence[int], count: int) -> Sequence[int]:
    seeds = range(seed, seed + count) if isinstance(seed, int) else seed
    if len(seeds) != count:
        raise ValueError(f"seed={seed} must be one number, or one for each of {count} members")
    return seeds
