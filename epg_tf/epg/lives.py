"""Takes P lives through their env steps and updates, in lockstep (the lines of Algorithm 2)."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Sequence

import numpy as np

from epg_tf.agents import normalizer
from epg_tf.agents.buffer import Buffer
from epg_tf.core.random_streams import life_generator
from epg_tf.core.types import Array, LifeKey, LifeResults, SavedAgent
from epg_tf.epg.learner import Learner
from epg_tf.epg.settings import InnerConfig
from epg_tf.tasks.base import TaskFamily
from epg_tf.tasks.episodes import (
    EndedEpisodes,
    Episodes,
    PlayedEpisodes,
    play_episodes,
    success_or_failure,
)
from epg_tf.tasks.quantities import Task


class Lives:
    """Holds the state of P lives between their start and their final episodes.

    What happens to one observation: `BodySimulation.step` advances the physics and calls the
    family's `observe`; `Episodes.step` returns the result in a policy's units. `take_steps` acts on
    it through the life's normalisation and writes it to the buffer as it is. At the next update
    `Learner.experience` normalises the buffer anew; the loss's `prepare` reads it by channels, and
    `minibatch_loss` adds the policy's outputs.

    Args:
      keys: P keys, which name the random streams.
      episodes: At the initial states, in P simulations of the lives' tasks.
      learner: Has begun with these lives.
      buffer: Of the lives, empty.
      seconds: Time spent (s), to which "acting", "physics" and "updating" are added.
      starts: P agents of earlier lives, whose normalisation goes on; None where a life begins
        afresh; empty: all do.

    Attributes:
      observation_shift: [P, O], the newest normalisation of observations, (x - shift) * scale.
      observation_scale: [P, O].
    """

    def __init__(
        self,
        keys: Sequence[LifeKey],
        episodes: Episodes,
        learner: Learner,
        buffer: Buffer,
        seconds: dict[str, float],
        starts: Sequence[SavedAgent | None] = (),
    ) -> None:
        self._family = episodes.simulation.family
        self._population = episodes.simulation.population
        self._keys = keys
        self._episodes = episodes
        self._learner = learner
        self._buffer = buffer
        self._seconds = seconds
        self._inner = learner.experiment.inner
        self._actions = life_streams(keys, "action")
        self._orders = life_streams(keys, "minibatch")
        size = self._family.observation_size + self._family.action_size + 1
        # Of an observation, an action and a reward side by side.
        self._moments = normalizer.empty_moments(self._population, size)
        if any(starts):
            earlier = [None if agent is None else agent.moments for agent in starts]
            self._moments = normalizer.unpacked(earlier, size)
        self._read_scaling()
        self._policy = learner.acting_policy()
        self._failed = np.zeros(self._population, bool)
        self._env_steps = np.zeros(self._population, np.int64)
        self._newest_return = np.full(self._population, np.nan)
        self._ended_returns: list[list[float]] = [[] for _ in range(self._population)]
        self._ended_success: list[list[bool]] = [[] for _ in range(self._population)]
        self._episode_returns: list[Array] = []
        self._kls: list[Array] = []
        self._final: PlayedEpisodes | None = None
        self._passive: Learner | None = None

    def _read_scaling(self) -> None:
        size = self._family.observation_size
        about_zero = 0 if self._inner.centred_observations else size
        self._shift, self._scale = normalizer.scaling(self._moments, about_zero)
        self.observation_shift = self._shift[:, :size]
        self.observation_scale = self._scale[:, :size]

    def _act(self, observation: Array, noise: Array) -> Array:
        """Returns the policies' actions [P, A] at observations [P, O], and counts the time."""
        started = time.perf_counter()
        normalised = normalizer.normalize(
            observation, self.observation_shift, self.observation_scale
        )
        action = self._policy.act(normalised, noise)
        self._seconds["acting"] += time.perf_counter() - started
        return action

    def _draw_noise(self, streams: Sequence[np.random.Generator], steps: int) -> Array:
        """Draws the noise of the next actions, [P, steps, A]."""
        shape = (steps, self._family.action_size)
        return np.stack([self._policy.draw_noise(stream, shape) for stream in streams])

    def take_steps(self, steps: int) -> None:
        """Takes M `steps` in every life and writes them to the buffer."""
        episodes = self._episodes
        in_engine = episodes.engine_seconds
        noise = self._draw_noise(self._actions, steps)
        self._buffer.make_room()
        for step in range(steps):
            observation = episodes.observation
            action = self._act(observation, noise[:, step])
            goals = episodes.simulation.goals() if self._buffer.goal.size else None
            result, ended = episodes.step(action)
            self._buffer.write(step, observation, action, result)
            if goals is not None:
                self._buffer.goal[:, step - steps] = goals
            self._failed |= result.diverged
            if ended.ids.size:
                self._record(ended)
        self._env_steps += steps
        self._seconds["physics"] += episodes.engine_seconds - in_engine

    def _record(self, ended: EndedEpisodes) -> None:
        """Keeps the returns and successes of ended episodes."""
        self._newest_return[ended.ids] = ended.returns
        for life, value, success in zip(ended.ids, ended.returns, ended.success, strict=True):
            self._ended_returns[life].append(float(value))
            self._ended_success[life].append(bool(success))

    def update_agents(self, epochs: int) -> None:
        """Updates normalisation, policies and memories, from the newest M steps `epochs` times."""
        started = time.perf_counter()
        self._moments = normalizer.merge(self._moments, self._buffer.newest())
        self._read_scaling()
        inputs = (
            self._buffer,
            self._shift,
            self._scale,
            minibatches(self._orders, self._inner, epochs),
        )
        finite, kl = self._learner.update(*inputs)
        self._failed |= ~finite
        if self._passive is not None:
            self._failed |= ~self._passive.update(*inputs)[0]
        self._policy = self._learner.acting_policy()
        self._episode_returns.append(self._newest_return.copy())
        self._kls.append(kl)
        self._seconds["updating"] += time.perf_counter() - started

    def switch_tasks(self, tasks: Sequence[Task]) -> None:
        """Goes on in P other tasks, from the start of an episode; agents and buffer stay."""
        self._episodes.simulation.set_tasks(tasks)
        self._episodes.begin_anew()
        self._buffer.cut()

    def add_passive_learner(self, learner: Learner) -> None:
        """Lets P passive agents, with which `learner` has begun, learn from all that these lives
        experience; they do not act.
        """
        self._passive = learner

    def continue_with_passive_learner(self, keys: Sequence[LifeKey]) -> None:
        """Lets the passive agents act from now on: the final episodes and the hashes are theirs.
        `keys` are those of the P passive agents.
        """
        if self._passive is None:
            raise ValueError("there is no passive learner; call add_passive_learner() first")
        self._learner, self._passive, self._keys = self._passive, None, keys
        self._policy = self._learner.acting_policy()

    def play_final_episodes(self, noise_factor: float, check_stop: Callable[[], None]) -> None:
        """Plays the final episodes with the final policies.

        Args:
          noise_factor: Factor of the noise on actions.
          check_stop: Called every M env steps; raises to give up.
        """
        noises = self._final_noises(noise_factor, check_stop)
        self._final = play_episodes(
            self._episodes.simulation,
            lambda observation: self._act(observation, next(noises)),
            life_streams(self._keys, "final_reset"),
            self._inner.final_episodes,
            self._episodes.watch,
        )
        self._env_steps += self._final.env_steps
        self._failed |= self._final.diverged
        self._seconds["physics"] += self._final.engine_seconds

    def _final_noises(self, factor: float, check_stop: Callable[[], None]) -> Iterator[Array]:
        """Yields the noise of every env step of the final episodes, [P, A], drawn M at a time."""
        streams = life_streams(self._keys, "final_action")
        period = self._inner.update_period
        while True:
            check_stop()
            noise = np.float32(factor) * self._draw_noise(streams, period)
            for step in range(period):
                yield noise[:, step]

    def results(self, fitness_from: str, kept: Collection[int]) -> LifeResults:
        """Returns the results of the P lives.

        Args:
          fitness_from: Which episodes give the return of a life, see
            `InnerLoopSettings.fitness_from`.
          kept: Numbers of the lives whose agents are returned.
        """
        if self._final is not None:
            final_return, success = self._final.mean_return, self._final.success_rate
            if fitness_from == "weighted":
                both = zip(self._ended_returns, final_return, strict=True)
                final_return = np.array([weighted_return(*returns) for returns in both])
        else:
            final_return = _means(self._ended_returns)
            success = _means(self._ended_success)
        failed = self._failed | ~np.isfinite(final_return)
        return LifeResults(
            final_return=np.where(failed, np.nan, final_return),
            success=success_or_failure(self._family, success, failed),
            failed=failed,
            env_steps=self._env_steps,
            goals_reached=self._goals_reached(),
            memory_norm=self._learner.agent.memory_norms(),
            means_beyond=self._means_beyond(),
            final_agent=self._agents(kept),
            episode_return=self._by_update(self._episode_returns),
            kl=self._by_update(self._kls),
            policy_hash=self._learner.hashes(),
        )

    def _goals_reached(self) -> Array:
        """Returns how many episodes of each life ended at the goal, [P]."""
        if not self._family.goal_reaching:
            return np.full(self._population, np.nan)
        return np.array([float(sum(successes)) for successes in self._ended_success])

    def _means_beyond(self) -> Array:
        """Returns the share of the components of the policies' mean actions that are beyond the
        bounds of actions, at the newest M env steps, [P].
        """
        steps = self._buffer.observation[:, -self._inner.update_period :]
        if self._family.discrete_actions or not self._buffer.lived[-1]:
            return np.full(self._population, np.nan)
        low, high = self._family.policy_bounds
        nothing = np.zeros((self._population, self._family.action_size), np.float32)
        means = np.stack([self._act(observation, nothing) for observation in steps.swapaxes(0, 1)])
        beyond: Array = ((means < low) | (means > high)).mean(axis=(0, 2))
        return beyond

    def _agents(self, kept: Collection[int]) -> Array:
        """Returns the agents of some lives as they are now, [P] objects; None of others."""
        agents = np.full(self._population, None)
        for life in kept:
            weights = self._learner.agent.weights_of(life)
            agents[life] = SavedAgent(weights, normalizer.packed(self._moments, life))
        return agents

    def _by_update(self, columns: list[Array]) -> Array:
        return np.stack(columns, axis=1) if columns else np.zeros((self._population, 0))


def weighted_return(returns: Sequence[float], final_return: float) -> float:
    """Returns what the first version of the paper maximises (its footnote 1): R_K + 1/K sum over t
    = 0 ... K of (t + 1)/K R_t.

    Args:
      returns: R_0 ... R_(K-1), of the K episodes that ended within a life, K >= 1.
      final_return: R_K, the mean return of its final episodes.
    """
    if not returns:
        return float("nan")
    every = np.array([*returns, final_return])
    count = len(returns)
    weights = np.arange(1, count + 2) / count
    return float(final_return + weights @ every / count)


def minibatches(streams: Sequence[np.random.Generator], inner: InnerConfig, epochs: int) -> Array:
    """Shuffles the newest M steps of P lives, each used once per epoch.

    Args:
      streams: P of them.
      inner: Settings.
      epochs: How often each of the steps is used.

    Returns:
      [S, P, B] int32.
    """
    orders = [
        np.concatenate([stream.permutation(inner.update_period) for _ in range(epochs)])
        for stream in streams
    ]
    stacked = np.stack(orders).reshape(len(streams), -1, inner.minibatch)
    return stacked.swapaxes(0, 1).astype(np.int32)


def life_streams(keys: Sequence[LifeKey], purpose: str) -> list[np.random.Generator]:
    """Returns the random stream of each of P lives for one purpose."""
    return [life_generator(key, purpose) for key in keys]


def sample_tasks(family: TaskFamily, keys: Sequence[LifeKey]) -> list[Task]:
    """Draws the task of each of P lives, M ~ p(M) of Algorithm 1."""
    return [family.sample_task(stream) for stream in life_streams(keys, "task")]


def _means(rows: Sequence[Sequence[float]]) -> Array:
    """Returns the mean of each row, [P]; NaN where it is empty."""
    return np.array([np.mean(row) if row else np.nan for row in rows])
