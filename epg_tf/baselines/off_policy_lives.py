"""SAC and TD3 of TF-Agents on the terms of the test of a loss of EPG (Algorithm 2's lives).

An agent lives in the task, and starts from the resets, of the learned loss's agent of the same
number, for as many env steps. Its curve is of the newest
episode, with exploration, at the same env steps as that of EPG; its final episodes are played with
the most likely actions.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

import numpy as np
import tensorflow as tf

from epg_tf.baselines.lived_shards import KeptShards, LivedShard, live_in_shards, outcome
from epg_tf.baselines.method import Baseline, LearningCurves, Request
from epg_tf.baselines.parallel_agents import ParallelAgents, Settings
from epg_tf.core.errors import ConfigError
from epg_tf.core.types import Array, LifeKey
from epg_tf.epg.lives import life_streams, sample_tasks
from epg_tf.epg.settings import ComputeConfig
from epg_tf.tasks.base import TaskFamily
from epg_tf.tasks.episodes import Episodes, play_episodes
from epg_tf.tasks.registry import make_family, simulate

_NOISE_STEPS = 32  # env steps whose random numbers are drawn together; part of the numbers


@dataclasses.dataclass(frozen=True)
class OffPolicyRival(Baseline):
    """Trains agents by SAC or TD3.

    Attributes:
      name: "sac" or "td3".
      settings: Of that method.
      compute: How agents are distributed over the machine.
      period: Env steps between points of the curve.
      kept: Shards of the same request that have lived, and where others are added as they end.
    """

    settings: Settings
    compute: ComputeConfig
    period: int
    kept: KeptShards | None = None

    def train(self, request: Request) -> LearningCurves:
        """Trains L agents, `shard_lives` together; NaN where one failed.

        Raises:
          ConfigError: Actions have no bounds, or are choices.
        """
        family = make_family(request.task)
        if not has_bounds(family):
            raise ConfigError(
                f"config.{self.name} needs actions with bounds, which {family.name} does not have; "
                "compare with other methods"
                + ("" if family.discrete_actions else f", or {family.how_to_bound}")
            )
        size = min(self.compute.shard_lives, request.agents)
        return live_in_shards(
            lambda shard: self._train_or_read(shard, request),
            request.keys(),
            size,
            self.compute.threads,
            self.period,
        )

    def _train_or_read(self, keys: list[LifeKey], request: Request) -> LivedShard:
        """Returns how the agents of one shard lived, from what is `kept` if it is there."""
        if self.kept is None:
            return self._train_some(keys, len(keys), request)
        ends = keys[0].index, keys[-1].index
        shard = self.kept.read(ends, (len(keys), request.env_steps // self.period))
        if shard is None:
            shard = self._train_some(keys, len(keys), request)
            self.kept.write(ends, shard)
        return shard

    def _train_some(self, keys: list[LifeKey], size: int, request: Request) -> LivedShard:
        """Returns how K agents lived.

        TF-Agents stops a shard when the loss of one agent is not finite; then its halves run again,
        down to the one that failed. Copies fill each shard, whose size is part of the numbers.

        Args:
          keys: K of them, 1 to `size`.
          size: Of a shard.
          request: What is tested.
        """
        filled = (keys * -(-size // len(keys)))[:size]
        try:
            found = Shard(filled, self.settings, request).live(self.period)
            return LivedShard(*(part[: len(keys)] for part in found))
        except tf.errors.InvalidArgumentError:
            if len(keys) == 1:
                none = np.zeros((1, request.env_steps // self.period))
                return outcome(
                    make_family(request.task), none, none[:, 0], none[:, 0], np.ones(1, bool)
                )
        half = len(keys) // 2
        parts = [self._train_some(some, size, request) for some in (keys[:half], keys[half:])]
        return LivedShard(*map(np.concatenate, zip(*parts, strict=True)))


def has_bounds(family: TaskFamily) -> bool:
    """Returns whether actions are numbers within bounds, as SAC and TD3 need."""
    return not family.discrete_actions and bool(np.isfinite(family.action_bounds).all())


class Shard:
    """P agents and what they have lived through so far.

    Args:
      keys: P keys, which name the random streams.
      settings: Of SAC or TD3.
      request: Task, env steps and final episodes.

    Attributes:
      tasks: [P], what they live in.
    """

    def __init__(self, keys: Sequence[LifeKey], settings: Settings, request: Request) -> None:
        self._keys, self._settings, self._request = keys, settings, request
        family = make_family(request.task)
        self._simulation = simulate(family, len(keys))
        self.tasks = sample_tasks(family, keys)
        self._simulation.set_tasks(self.tasks)
        self._episodes = Episodes(self._simulation, life_streams(keys, "reset"))
        self._agents = ParallelAgents(
            settings, family.spec, (life_streams(keys, "policy"), life_streams(keys, "critic"))
        )
        self._family: TaskFamily = family
        self._steps = _Steps(len(keys), request.env_steps, family)
        self._actions, self._draws, self._noises = (
            life_streams(keys, purpose) for purpose in ("action", "minibatch", "target_noise")
        )

    def live(self, period: int) -> LivedShard:
        """Lives to the end.

        Args:
          period: Env steps between points of the curves.

        Raises:
          tf.errors.InvalidArgumentError: The loss of an agent is not finite.
        """
        population, env_steps = len(self._keys), self._request.env_steps
        newest, curve = np.full(population, np.nan), []
        failed = np.zeros(population, bool)
        for start in range(0, env_steps, _NOISE_STEPS):
            drawn = self._drawn(min(_NOISE_STEPS, env_steps - start))
            for step, numbers in enumerate(drawn, start + 1):
                ids, returns, diverged = self._take_step(step, numbers)
                newest[ids] = returns
                failed |= diverged
                if step % period == 0:
                    curve.append(newest.copy())
        no_noise = np.zeros((population, self._family.action_size), np.float32)
        played = play_episodes(
            self._simulation,
            lambda observation: self._agents.act(observation, no_noise),
            life_streams(self._keys, "final_reset"),
            self._request.episodes,
        )
        failed |= played.diverged | ~np.isfinite(played.mean_return)
        curves = np.stack(curve, axis=1)
        return outcome(self._family, curves, played.mean_return, played.success_rate, failed)

    def _drawn(self, steps: int) -> list[_Numbers]:
        """Returns the random numbers of the next env steps."""
        settings, size = self._settings, self._family.action_size
        updates, batch = settings.updates_per_step, settings.batch
        shape = (steps, updates, self._agents.noises, batch, size)
        random = _each(self._actions, lambda s: s.uniform(-1.0, 1.0, (steps, size)))
        noise = _each(self._actions, lambda s: s.standard_normal((steps, size)))
        # float64: rounded to float32 the largest would be 1.
        places = np.stack([stream.random((steps, updates, batch)) for stream in self._draws])
        update = _each(self._noises, lambda s: s.standard_normal(shape, np.float32))
        return [
            _Numbers(
                random[:, step], noise[:, step], places[:, step], np.moveaxis(update[:, step], 0, 3)
            )
            for step in range(steps)
        ]

    def _take_step(self, step: int, numbers: _Numbers) -> tuple[Array, Array, Array]:
        """Takes env step number `step`, from 1, and the updates after it.

        Returns:
          Ids and returns of the episodes that ended with it, and [P] whether physics diverged.
        """
        settings, observation = self._settings, self._episodes.observation
        if step <= settings.random_steps:
            action = numbers.random
        else:
            action = self._agents.act(observation, numbers.noise)
        result, ended = self._episodes.step(action)
        self._steps.write(
            (observation, action, result.reward, result.terminated, result.observation)
        )
        if step > settings.random_steps:
            for update in range(settings.updates_per_step):
                rows = (numbers.places[:, update] * step).astype(np.int64)
                self._agents.train(self._steps.drawn(rows), numbers.update[update])
        return ended.ids, ended.returns, result.diverged


@dataclasses.dataclass(frozen=True)
class _Numbers:
    """Random numbers of one env step of P agents.

    Attributes:
      random: [P, A] uniform within [-1, 1].
      noise: [P, A] standard normal.
      places: [P, updates, B] uniform within [0, 1): which of the steps so far.
      update: [updates, K, B, P, A] standard normal.
    """

    random: Array
    noise: Array
    places: Array
    update: Array


def _each(
    streams: Sequence[np.random.Generator], draw: Callable[[np.random.Generator], Array]
) -> Array:
    """Returns what each of P streams draws, stacked, float32."""
    return np.stack([draw(stream) for stream in streams]).astype(np.float32)


class _Steps:
    """All env steps of P lives, each drawn as often as any other.

    Args:
      population: P.
      env_steps: Of a life.
      family: Where the agents live.
    """

    def __init__(self, population: int, env_steps: int, family: TaskFamily) -> None:
        observed, acted = family.observation_size, family.action_size
        shapes = ((observed,), (acted,), (), (), (observed,))
        self._columns = [np.zeros((population, env_steps, *shape), np.float32) for shape in shapes]
        self._members = np.arange(population)
        self._written = 0

    def write(self, step: tuple[Array, ...]) -> None:
        """Adds observation [P, O], action [P, A], reward [P], terminated [P] and the observation
        that followed, [P, O].
        """
        for column, values in zip(self._columns, step, strict=True):
            column[:, self._written] = values
        self._written += 1

    def drawn(self, rows: Array) -> tuple[Array, ...]:
        """Returns the steps of numbers `rows`, [P, B]: fields as written, each [B, P, ...]."""
        return tuple(column[self._members, rows.T] for column in self._columns)
