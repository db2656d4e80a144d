"""Lives of one shard, in lockstep (Algorithm 2; the inner loop of Algorithm 1)."""

from __future__ import annotations

import contextlib
import dataclasses
import threading
import time
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from epg_tf.agents import normalizer
from epg_tf.agents.buffer import Buffer
from epg_tf.core.errors import Interrupted
from epg_tf.core.experiment import Experiment
from epg_tf.core.random_streams import life_generator
from epg_tf.core.types import Array, LifeKey, LifeResults
from epg_tf.epg.learner import Learner
from epg_tf.tasks.base import Simulation, StepResult, TaskFamily
from epg_tf.tasks.registry import simulate

PARTS = ("acting", "physics", "family", "updating", "rest")

Watch = Callable[[Simulation, StepResult], None]
"""Sees every env step of a shard: the simulation after it, and its result for the lives that were stepped."""


@dataclasses.dataclass(frozen=True)
class Teaching:
    """How lives are taught.

    Attributes:
      alpha: Weight of the surrogate: 0 the learned loss alone, 1 the surrogate alone.
      learning_rate: Of the agents' Adam; 0 teaches nothing.
      passes: Times an update goes over its M steps; the paper's answer is 1.
      fitness_from: Which episodes a life is judged by: "final_episodes", with the final policy
        after the life; "last_episodes", as many, the newest that ended within it; or "whole_life",
        all that did.
      final_noise: Factor of the noise on actions in final episodes; 0: the policy's most likely
        actions.
    """

    alpha: float
    learning_rate: float
    passes: int = 1
    fitness_from: str = "final_episodes"
    final_noise: float = 1.0


class Tally:
    """Sums up the episodes of P lives that have ended.

    Args:
      population: P.
      newest: Number of newest episodes a life is judged by; 0: all.
    """

    def __init__(self, population: int, newest: int):
        self._newest = newest
        self._returns: list[list[float]] = [[] for _ in range(population)]
        self._reached: list[list[bool]] = [[] for _ in range(population)]

    def add(self, ids: Array, returns: Array, reached: Array) -> None:
        """Counts an episode of each life in `ids`, [n], with its return and whether it ended at the
        goal.
        """
        for life, value, success in zip(ids, returns, reached, strict=True):
            self._returns[life].append(float(value))
            self._reached[life].append(bool(success))

    def means(self) -> tuple[Array, Array]:
        """Returns mean return and share of successes, [P]; NaN where no episode has ended."""
        return tuple(
            np.array([np.mean(row[-self._newest :]) if row else np.nan for row in rows])
            for rows in (self._returns, self._reached)
        )


class InnerLoop:
    """Runs P lives at a time. One thread at a time may use it.

    Args:
      experiment: Settings.
      family: Where the agents live.
      measure_kl: Whether to measure the KL divergence of each update.
      stop: When set, lives end early with `Interrupted`.
      learner_kind: Who teaches.

    Attributes:
      learner: Its instance.
      seconds: Time spent so far (s), by `PARTS`: "physics" is the engine alone, "family" what the
        family adds to it.
    """

    def __init__(
        self,
        experiment: Experiment,
        family: TaskFamily,
        measure_kl: bool = False,
        stop: threading.Event | None = None,
        learner_kind: type[Learner] = Learner,
    ):
        inner, population = experiment.inner, experiment.compute.shard_lives
        self.experiment = experiment
        self.family = family
        self.population = population
        self._stop = stop or threading.Event()
        self._simulation = simulate(family, population)
        self.learner = learner_kind(population, family.spec, experiment, measure_kl)
        self._buffer = Buffer(
            population, experiment.loss.buffer_steps, inner.update_period, family.spec
        )
        self.seconds = dict.fromkeys(PARTS, 0.0)

    def run(
        self,
        keys: Sequence[LifeKey],
        phi: Array,
        teaching: Teaching,
        updates: int | None = None,
        watch: Watch | None = None,
    ) -> LifeResults:
        """Lives P whole lives and their final episodes.

        Args:
          keys: P keys.
          phi: [P, D] float32, one loss per life.
          teaching: How they are taught.
          updates: Number of updates, or None for the experiment's.
          watch: Called after every env step, before episodes that ended are followed by others.

        Returns:
          Results of the P lives.

        Raises:
          Interrupted: `stop` was set.
        """
        self.begin(keys, phi, teaching, watch)
        self._advance(self.experiment.inner.updates if updates is None else updates)
        if teaching.fitness_from != "final_episodes":
            return self._life.results(*self._life.tally.means())
        with self._timed():
            return self._life.results(*self._life.final_episodes(self._stop))

    def begin(
        self,
        keys: Sequence[LifeKey],
        phi: Array,
        teaching: Teaching,
        watch: Watch | None = None,
    ) -> None:
        """Lets P lives be born; arguments as in `run`."""
        with self._timed():
            self._life = _Life(self, keys, teaching, watch or (lambda simulation, result: None))
            self.learner.begin(keys, phi, teaching.alpha, teaching.learning_rate)
            self._life.take_weights()

    @property
    def observation_scaling(self) -> tuple[Array, Array]:
        """What the newest lives make of observations: shift and scale, [P, O], for (x - shift) *
        scale.
        """
        return self._life.observation_shift, self._life.observation_scale

    def _advance(self, updates: int) -> None:
        with self._timed():
            for _ in range(updates):
                if self._stop.is_set():
                    raise Interrupted
                self._life.live_one_period()
                self._life.learn()

    @contextlib.contextmanager
    def _timed(self) -> Iterator[None]:
        """Books what the simulation calls family time, and what nobody books as rest."""
        started = time.perf_counter()
        booked, in_family = sum(self.seconds.values()), self._simulation.family_seconds
        yield
        self.seconds["family"] += self._simulation.family_seconds - in_family
        self.seconds["rest"] += (
            time.perf_counter() - started - (sum(self.seconds.values()) - booked)
        )


class _Life:
    """The state of P lives between their birth and their final episodes."""

    def __init__(self, loop: InnerLoop, keys: Sequence[LifeKey], teaching: Teaching, watch: Watch):
        family, population = loop.family, loop.population
        self.family, self.population = family, population
        self.inner, self.passes, self.watch = loop.experiment.inner, teaching.passes, watch
        self._final_noise = np.float32(teaching.final_noise)
        self.simulation, self.learner, self.buffer, self.seconds = (
            loop._simulation,
            loop.learner,
            loop._buffer,
            loop.seconds,
        )
        self.actions, self.resets, self.orders, self.final_actions, self.final_resets = (
            [life_generator(key, purpose) for key in keys]
            for purpose in ("action", "reset", "minibatch", "final_action", "final_reset")
        )
        self.simulation.set_tasks([family.sample_task(life_generator(key, "task")) for key in keys])
        self.buffer.clear()
        self._judged_by = (
            self.inner.final_episodes if teaching.fitness_from == "last_episodes" else 0
        )
        self.moments = normalizer.empty_moments(
            population, family.observation_size + family.action_size + 1
        )
        self._take_scaling()
        self.observation = self.simulation.reset(np.arange(population), self.resets)
        self.failed = np.zeros(population, bool)
        self.running_return = np.zeros(population)
        self.newest_return = np.full(population, np.nan)
        self.forget()

    def forget(self) -> None:
        """Starts counting anew what `results` sums up; failures are not forgotten."""
        self.env_steps = np.zeros(self.population, np.int64)
        self.tally = Tally(self.population, self._judged_by)
        self.episode_returns, self.kls = [], []

    def _take_scaling(self) -> None:
        self.shift, self.scale = normalizer.scaling(self.moments)
        size = self.family.observation_size
        self.observation_shift, self.observation_scale = self.shift[:, :size], self.scale[:, :size]

    def take_weights(self) -> None:
        """Copies the policies' weights for acting."""
        self.policy = self.learner.acting_policy()

    def _act(self, observation: Array, noise: Array) -> Array:
        return self.policy.act(
            (observation - self.observation_shift) * self.observation_scale, noise
        )

    def live_one_period(self) -> None:
        """Takes M env steps in every life."""
        clock, period, size = time.perf_counter, self.inner.update_period, self.family.action_size
        noise = np.stack([self.policy.draw_noise(g, (period, size)) for g in self.actions])
        self.buffer.make_room()
        acting = physics = 0.0
        for step in range(period):
            start = clock()
            action = self._act(self.observation, noise[:, step])
            acted = clock()
            in_family = self.simulation.family_seconds
            result = self.simulation.step(action)
            physics += clock() - acted - (self.simulation.family_seconds - in_family)
            acting += acted - start
            self.buffer.write(step, self.observation, action, result)
            self._close_episodes(result)
        self.env_steps += period
        self.seconds["acting"] += acting
        self.seconds["physics"] += physics

    def _close_episodes(self, result: StepResult) -> None:
        self.watch(self.simulation, result)
        self.running_return += result.reward
        self.failed |= result.diverged
        self.observation = result.observation
        ended = result.terminated | result.truncated
        if ended.any():
            ids = np.flatnonzero(ended)
            self.newest_return[ids] = self.running_return[ids]
            self.tally.add(ids, self.running_return[ids], result.success[ids])
            self.running_return[ids] = 0.0
            self.observation = result.observation.copy()
            self.observation[ids] = self.simulation.next_episode(ids, self.resets)

    def learn(self) -> None:
        """Updates normalisation, policies and memories from the newest M steps."""
        started = time.perf_counter()
        self.moments = normalizer.merge(self.moments, self.buffer.newest())
        self._take_scaling()
        finite, kl = self.learner.update(self.buffer, self.shift, self.scale, self._minibatches())
        self.failed |= ~finite
        self.take_weights()
        self.episode_returns.append(self.newest_return.copy())
        self.kls.append(kl)
        self.seconds["updating"] += time.perf_counter() - started

    def _minibatches(self) -> Array:
        """Shuffles the newest M steps, each used once per pass: [S, P, B] int32."""
        period, size = self.inner.update_period, self.inner.minibatch
        orders = [
            np.concatenate([g.permutation(period) for _ in range(self.passes)]) for g in self.orders
        ]
        return np.stack(orders).reshape(self.population, -1, size).swapaxes(0, 1).astype(np.int32)

    def final_episodes(self, stop: threading.Event) -> tuple[Array, Array]:
        """Plays the final episodes with the final policies; returns per life their mean return and
        success, [P].
        """
        clock, size = time.perf_counter, self.family.action_size
        everyone = np.arange(self.population)
        observation = self.simulation.reset(everyone, self.final_resets)
        left = np.full(self.population, self.inner.final_episodes)
        total, reached = np.zeros(self.population), np.zeros(self.population)
        playing, step, noise = everyone, 0, None
        while playing.size:
            if step % self.inner.update_period == 0:
                if stop.is_set():
                    raise Interrupted
                shape = (self.inner.update_period, size)
                noise = self._final_noise * np.stack(
                    [self.policy.draw_noise(g, shape) for g in self.final_actions]
                )
            start = clock()
            action = self._act(observation, noise[:, step % self.inner.update_period])
            acted, in_family = clock(), self.simulation.family_seconds
            result = self.simulation.step(
                action[playing], None if playing.size == self.population else playing
            )
            self.seconds["acting"] += acted - start
            self.seconds["physics"] += (
                clock() - acted - (self.simulation.family_seconds - in_family)
            )
            self.watch(self.simulation, result)
            total[playing] += result.reward
            self.env_steps[playing] += 1
            self.failed[playing] |= result.diverged
            observation[playing] = result.observation
            ended = result.terminated | result.truncated
            if ended.any():
                left[playing[ended]] -= 1
                reached[playing[ended]] += result.success[ended]
                again = playing[ended & (left[playing] > 0)]
                if again.size:
                    observation[again] = self.simulation.next_episode(again, self.final_resets)
                playing = playing[left[playing] > 0]
            step += 1
        return total / self.inner.final_episodes, reached / self.inner.final_episodes

    def results(self, final_return: Array, success: Array) -> LifeResults:
        """Sums up the P lives."""
        failed = self.failed | ~np.isfinite(final_return)

        def columns(rows):
            return np.stack(rows, axis=1) if rows else np.zeros((self.population, 0))

        success = (
            np.where(failed, 0.0, success)
            if self.family.goal_reaching
            else np.full(self.population, np.nan)
        )
        return LifeResults(
            np.where(failed, np.nan, final_return),
            success,
            failed,
            self.env_steps,
            columns(self.episode_returns),
            columns(self.kls),
            self.learner.hashes(),
        )
