"""SAC, TD3 and DDPG of TF-Agents on the terms of the evaluation of a loss or of an objective.

An agent lives in the task of the learned loss's agent of the same number, for as many env steps.
Beside losses of EPG it starts from the same resets, and its curve is of the newest episode, with
exploration, at the same env steps. Beside objectives it is of evaluations, from the same starts,
the first one before any learning; new episodes begin after each, and exploration, sizes of
networks, updates per env step and transitions per update are those of the population's agents
(MetaGenRL, Appendix B.3), but not their layer norm and the clipping of their gradients.
Final episodes and evaluations are played with the most likely actions. Rewards are as received, but
where they are large before the first update, unlike in the papers, they are divided by their size.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

import numpy as np
import tensorflow as tf

from epg_tf.baselines.kept_shards import ShardFiles
from epg_tf.baselines.lived_shards import LivedShard, live_in_shards, outcome
from epg_tf.baselines.method import LearningCurves, Method, Request
from epg_tf.baselines.parallel_agents import ParallelAgents, Settings
from epg_tf.core.errors import ConfigError
from epg_tf.core.types import Array, LifeKey
from epg_tf.epg.baseline_settings import TD3Config
from epg_tf.epg.lives import life_streams, sample_tasks
from epg_tf.epg.settings import Experiment
from epg_tf.metagenrl.settings import MetaGenRLExperiment
from epg_tf.tasks.base import TaskFamily
from epg_tf.tasks.episodes import Episodes, PlayedEpisodes, play_episodes
from epg_tf.tasks.registry import make_family, simulate
from epg_tf.tasks.units import reward_units

_NOISE_STEPS = 32  # env steps whose random numbers are drawn together; part of the numbers


@dataclasses.dataclass(frozen=True)
class Terms:
    """Defines how agents live.

    Attributes:
      shard_agents: In lockstep, at most; part of the numbers.
      threads: Shards at once; 0: one per CPU.
      period: Env steps between points of the curve.
      evaluates: Whether these points are evaluations.
      updates_after: Env steps before the first update, >= 0.
      replay_steps: Newest env steps that updates draw from; None: all.
    """

    shard_agents: int
    threads: int
    period: int
    evaluates: bool
    updates_after: int
    replay_steps: int | None = None


@dataclasses.dataclass(frozen=True)
class OffPolicyMethod(Method):
    """Trains agents by SAC, TD3 or DDPG.

    Attributes:
      name: "sac", "td3" or "ddpg".
      settings: Of that method, see `ParallelAgents`.
      terms: How agents live.
      kept: Shards of the same request that have lived, and where others are added as they end.
    """

    settings: Settings
    terms: Terms
    kept: ShardFiles | None = None

    @property
    def explores(self) -> bool:
        """Whether the curve is of episodes while learning, not of evaluations."""
        return not self.terms.evaluates

    def train(self, request: Request) -> LearningCurves:
        """Trains L agents, `shard_agents` together; NaN where one failed.

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
        curves = live_in_shards(
            lambda shard: self._train_or_read(shard, request),
            request.keys(),
            min(self.terms.shard_agents, request.agents),
            self.terms.threads,
            self.terms.period,
        )
        if not self.terms.evaluates:
            return curves
        return dataclasses.replace(curves, env_steps=curves.env_steps - self.terms.period)

    def _train_or_read(self, keys: list[LifeKey], request: Request) -> LivedShard:
        """Returns how the agents of one shard lived, from what is `kept` if it is there."""
        if self.kept is None:
            return self._train_some(keys, len(keys), request)
        ends = keys[0].index, keys[-1].index
        shard = self.kept.read(ends, (len(keys), self._points(request)))
        if shard is None:
            shard = self._train_some(keys, len(keys), request)
            self.kept.write(ends, shard)
        return shard

    def _points(self, request: Request) -> int:
        """Returns the number of points of the curve."""
        return request.env_steps // self.terms.period + self.terms.evaluates

    def _train_some(self, keys: list[LifeKey], size: int, request: Request) -> LivedShard:
        """Returns how K agents lived.

        TF-Agents stops a shard when the loss of one agent is not finite; then its halves run again,
        down to the one that failed. Copies fill each shard, whose size is part of the numbers.

        Args:
          keys: K of them, 1 to `size`.
          size: Of a shard.
          request: What is evaluated.
        """
        filled = (keys * -(-size // len(keys)))[:size]
        try:
            found = Shard(filled, self, request).live()
            return LivedShard(*(part[: len(keys)] for part in found))
        except tf.errors.InvalidArgumentError:
            if len(keys) == 1:
                none = np.zeros((1, self._points(request)))
                return outcome(
                    make_family(request.task), none, none[:, 0], none[:, 0], np.ones(1, bool)
                )
        half = len(keys) // 2
        parts = [self._train_some(some, size, request) for some in (keys[:half], keys[half:])]
        return LivedShard(*map(np.concatenate, zip(*parts, strict=True)))


def beside_loss(
    name: str, experiment: Experiment, kept: ShardFiles | None = None
) -> OffPolicyMethod:
    """Returns "sac" or "td3" on the terms of the evaluation of a loss of EPG."""
    settings: Settings = experiment.sac if name == "sac" else experiment.td3
    compute, period = experiment.compute, experiment.inner.update_period
    terms = Terms(compute.shard_lives, compute.threads, period, False, settings.random_steps)
    return OffPolicyMethod(name, settings, terms, kept)


def beside_objective(
    name: str, experiment: MetaGenRLExperiment, kept: ShardFiles | None = None
) -> OffPolicyMethod:
    """Returns "td3" or "ddpg" on the terms of the evaluation of an objective."""
    agent, baseline = experiment.agent, experiment.baseline
    settings = TD3Config(
        learning_rate=baseline.td3_learning_rate if name == "td3" else baseline.ddpg_learning_rate,
        batch=agent.batch * agent.chunk,
        updates_per_step=1,
        random_steps=agent.random_steps,
        exploration=agent.exploration,
        target_policy_noise=agent.target_policy_noise,
        target_policy_noise_clip=agent.target_policy_noise_clip,
        discount=agent.discount,
        tau=agent.tau,
        hidden=agent.hidden,
    )
    terms = Terms(
        experiment.shard_agents,
        experiment.threads,
        experiment.round_steps,
        True,
        max(0, agent.updates_after - 1),
        agent.replay_steps,
    )
    return OffPolicyMethod(name, settings, terms, kept)


def has_bounds(family: TaskFamily) -> bool:
    """Returns whether actions are numbers within bounds, as TF-Agents' agents need."""
    return not family.discrete_actions and bool(np.isfinite(family.action_bounds).all())


class Shard:
    """P agents and what they have lived through so far.

    Args:
      keys: P keys, which name the random streams.
      method: How they learn and live.
      request: Task, env steps and final episodes.

    Attributes:
      tasks: [P], what they live in.
    """

    def __init__(self, keys: Sequence[LifeKey], method: OffPolicyMethod, request: Request) -> None:
        self._keys, self._settings, self._terms = keys, method.settings, method.terms
        self._request = request
        self._family: TaskFamily = make_family(request.task)
        self._simulation = simulate(self._family, len(keys))
        self.tasks = sample_tasks(self._family, keys)
        self._simulation.set_tasks(self.tasks)
        self._agents = ParallelAgents(
            method.name,
            method.settings,
            self._family.spec,
            (life_streams(keys, "policy"), life_streams(keys, "critic")),
        )
        capacity = min(request.env_steps, self._terms.replay_steps or request.env_steps)
        self._steps = _Steps(len(keys), capacity, self._family)
        self._resets, self._actions, self._draws, self._noises = (
            life_streams(keys, purpose)
            for purpose in ("reset", "action", "minibatch", "target_noise")
        )

    def live(self) -> LivedShard:
        """Lives to the end.

        Raises:
          tf.errors.InvalidArgumentError: The loss of an agent is not finite.
        """
        population, env_steps = len(self._keys), self._request.env_steps
        newest, failed = np.full(population, np.nan), np.zeros(population, bool)
        curve, played = [], self._evaluate(0) if self._terms.evaluates else None
        if played is not None:
            curve.append(played.mean_return)
        self._episodes = Episodes(self._simulation, self._resets)
        for start in range(0, env_steps, _NOISE_STEPS):
            drawn = self._drawn(min(_NOISE_STEPS, env_steps - start))
            for step, numbers in enumerate(drawn, start + 1):
                ids, returns, diverged = self._take_step(step, numbers)
                newest[ids] = returns
                failed |= diverged
                if step % self._terms.period:
                    continue
                if played is not None:
                    played = self._evaluate(step // self._terms.period)
                    self._episodes = Episodes(self._simulation, self._resets)
                curve.append(newest.copy() if played is None else played.mean_return)
        final = played or self._evaluate(0)
        failed |= final.diverged | ~np.isfinite(final.mean_return)
        return outcome(
            self._family, np.stack(curve, axis=1), final.mean_return, final.success_rate, failed
        )

    def _evaluate(self, number: int) -> PlayedEpisodes:
        """Plays the episodes of an evaluation, whose number names their starts."""
        keys = [dataclasses.replace(key, epoch=number) for key in self._keys]
        no_noise = np.zeros((len(keys), self._family.action_size), np.float32)
        return play_episodes(
            self._simulation,
            lambda observation: self._agents.act(observation, no_noise),
            life_streams(keys, "final_reset"),
            self._request.episodes,
        )

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
            _Numbers(random[:, step], noise[:, step], places[:, step], update[:, step])
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
        if step == self._terms.updates_after + 1:
            self._steps.measure_rewards()
        if step > self._terms.updates_after:
            self._agents.train(self._steps.drawn(numbers.places), numbers.update)
        return ended.ids, ended.returns, result.diverged


@dataclasses.dataclass(frozen=True)
class _Numbers:
    """Random numbers of one env step of P agents.

    Attributes:
      random: [P, A] uniform within [-1, 1].
      noise: [P, A] standard normal.
      places: [P, updates, B] uniform within [0, 1): which of the steps so far.
      update: [P, updates, K, B, A] standard normal.
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
    """The newest env steps of P lives, each drawn as often as any other.

    Args:
      population: P.
      capacity: Steps kept of each.
      family: Where the agents live.
    """

    def __init__(self, population: int, capacity: int, family: TaskFamily) -> None:
        self._reward = family.observation_size + family.action_size  # its place in a row
        width = self._reward + 2 + family.observation_size
        self._rows = np.zeros((population, capacity, width), np.float32)
        self._units = np.ones(population, np.float32)
        self._first = np.arange(population)[:, None, None] * capacity
        self._written, self._capacity = 0, capacity

    def write(self, step: tuple[Array, ...]) -> None:
        """Adds observation [P, O], action [P, A], reward [P], terminated [P] and the observation
        that followed, [P, O], over the oldest where there is no room.
        """
        self._rows[:, self._written % self._capacity] = np.column_stack(step)
        self._written += 1

    def measure_rewards(self) -> None:
        """Measures each agent's unit of rewards in what is kept, by which `drawn` then divides."""
        self._units = reward_units(self._rows[:, : self._written, self._reward])

    def drawn(self, places: Array) -> Array:
        """Returns the steps at `places`, [P, U, B] within [0, 1): [P, U, B, O + A + 1 + 1 + O], the
        fields side by side, rewards in the measured units.
        """
        numbers = (places * min(self._written, self._capacity)).astype(np.int64)
        steps = self._rows.reshape(-1, self._rows.shape[2])
        drawn = steps.take(self._first + numbers, axis=0)
        drawn[..., self._reward] /= self._units[:, None, None]
        return drawn
