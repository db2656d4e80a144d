"""Takes P lives through MAML's inner loop: samples, gradient steps, final episodes (Finn et al.
2017, Algorithm 3, lines 4 to 8).

Observations are normalised by the moments of meta-training, which stay as they are in a life: if
they moved with a life's own experience, the policy would change without a gradient step.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from epg_tf.agents import normalizer
from epg_tf.agents.acting import ActingPolicy
from epg_tf.agents.buffer import Buffer
from epg_tf.agents.policies import policy_class, policy_shapes
from epg_tf.baselines import linear_baseline
from epg_tf.baselines.maml_gradient import compiled
from epg_tf.baselines.maml_settings import MAMLExperiment
from epg_tf.core.errors import Interrupted
from epg_tf.core.gradients import finite_rows, per_row
from epg_tf.core.parameters import split
from epg_tf.core.types import Array, LifeKey
from epg_tf.epg.lives import life_streams, sample_tasks
from epg_tf.losses.surrogates import Steps, Targets
from epg_tf.tasks.base import TaskFamily
from epg_tf.tasks.episodes import Episodes, PlayedEpisodes, play_episodes
from epg_tf.tasks.registry import simulate

_NOISE_STEPS = 64  # env steps whose random numbers are drawn together; part of the numbers


class Initialisation(NamedTuple):
    """Where lives start.

    Attributes:
      weights: [D] float32, of the policy, in the order of `policies.policy_shapes`.
      shift: [O], of the normalisation of observations, (x - shift) * scale.
      scale: [O].
    """

    weights: Array
    shift: Array
    scale: Array


class Batch(NamedTuple):
    """Samples of P policies that do not learn meanwhile.

    Attributes:
      targets: What losses use of them; arrays.
      observation: [P, T, O], as observed.
      returns: [P] mean return of the episodes that ended; NaN where none did.
      curve: [P, T / period] return of the newest episode that ended, at the end of each period; NaN
        before the first.
    """

    targets: Targets
    observation: Array
    returns: Array
    curve: Array


class MAMLLives:
    """P lives at a time. One thread at a time may use it.

    Args:
      experiment: Settings; U and the number of steps are those of each call.
      family: Where the agents live.
      population: P.
      stop: When set, lives end early with `Interrupted`.

    Attributes:
      weights: [P, ...] each, of the policies as they are now.
      failed: [P] bool, whether physics or a gradient failed.
    """

    def __init__(
        self,
        experiment: MAMLExperiment,
        family: TaskFamily,
        population: int,
        stop: threading.Event | None = None,
    ):
        self._experiment, self._family, self._population = experiment, family, population
        self._stop = stop or threading.Event()
        self._simulation = simulate(family, population)
        self._kind = policy_class(family.spec, experiment.policy)
        rate, clip = experiment.adaptation.learning_rate, experiment.outer.clip
        self._compiled = compiled(family.spec, experiment.policy, rate, clip)
        self.weights: list[Array] = []
        self.failed = np.zeros(population, bool)

    def begin(self, keys: Sequence[LifeKey], start: Initialisation) -> None:
        """Starts P lives.

        Args:
          keys: P keys, which name tasks and random streams.
          start: Of all of them.
        """
        self._keys = keys
        self._shift, self._scale = start.shift[None], start.scale[None]
        self.weights = self.repeated(start.weights)
        self.failed = np.zeros(self._population, bool)
        self._actions = life_streams(keys, "action")
        self._simulation.set_tasks(sample_tasks(self._family, keys))
        self._resets = life_streams(keys, "reset")

    def repeated(self, weights: Array) -> list[Array]:
        """Returns weights [D] for P policies, [P, ...] each."""
        shapes = policy_shapes(self._family.spec, self._experiment.policy)
        flat = np.repeat(weights[None], self._population, axis=0)
        return list(split(flat, shapes).values())

    def sample(self, env_steps: int, period: int) -> Batch:
        """Takes env steps with the policies as they are, from the start of an episode.

        Args:
          env_steps: T.
          period: Env steps between points of the batch's curve; divides T.

        Raises:
          Interrupted: `stop` was set.
        """
        episodes, acting = Episodes(self._simulation, self._resets), self._acting()
        buffer = Buffer(self._population, env_steps, env_steps, self._family.spec)
        buffer.make_room()
        sums, counts = np.zeros(self._population), np.zeros(self._population)
        newest = np.full(self._population, np.nan)
        curve = []
        noise = self._noise(self._actions)
        for step in range(env_steps):
            observation = episodes.observation
            action = self._act(acting, observation, next(noise))
            result, ended = episodes.step(action)
            buffer.write(step, observation, action, result)
            self.failed |= result.diverged
            newest[ended.ids] = ended.returns
            sums[ended.ids] += ended.returns
            counts[ended.ids] += 1
            if (step + 1) % period == 0:
                curve.append(newest.copy())
        returns = np.divide(sums, counts, out=np.full_like(sums, np.nan), where=counts > 0)
        return Batch(self._targets(buffer), buffer.observation, returns, np.stack(curve, axis=1))

    def adapt(self, batch: Batch) -> None:
        """Takes one gradient step; policies that it makes useless stay as they were."""
        found = self._compiled.adapted(self.weights, [batch.targets])
        finite = finite_rows(found)
        self.failed |= ~finite.numpy()
        self.weights = [
            tf.where(per_row(finite, new), new, old).numpy()
            for new, old in zip(found, self.weights, strict=True)
        ]

    def meta_gradient(
        self, weights: Array, batches: Sequence[Batch], after: Batch
    ) -> tuple[Array, list[Array]]:
        """Returns `maml_gradient.meta_gradient` of these lives, as arrays.

        Args:
          weights: [D] float32, of the initialisation as it is now.
          batches: Samples before each gradient step, oldest first.
          after: Samples of the adapted policies.
        """
        losses, gradients = self._compiled.meta_gradient(
            self.repeated(weights), [batch.targets for batch in batches], after.targets
        )
        return losses.numpy(), [gradient.numpy() for gradient in gradients]

    def play(self, episodes: int) -> PlayedEpisodes:
        """Plays final episodes with the policies as they are, with exploration.

        Raises:
          Interrupted: `stop` was set.
        """
        acting, noise = self._acting(), self._noise(life_streams(self._keys, "final_action"))
        played = play_episodes(
            self._simulation,
            lambda observation: self._act(acting, observation, next(noise)),
            life_streams(self._keys, "final_reset"),
            episodes,
        )
        self.failed |= played.diverged
        return played

    def _acting(self) -> ActingPolicy:
        activation, parts = self._experiment.policy.activation, self._family.action_parts
        return self._kind.acting_kind(self.weights, activation, parts)

    def _act(self, acting: ActingPolicy, observation: Array, noise: Array) -> Array:
        seen = normalizer.normalize(observation, self._shift, self._scale)
        return acting.act(seen, noise)

    def _noise(self, streams: Sequence[np.random.Generator]) -> Iterator[Array]:
        """Yields the noise of every env step, [P, A]."""
        draw, shape = self._kind.acting_kind.draw_noise, (_NOISE_STEPS, self._family.action_size)
        while True:
            if self._stop.is_set():
                raise Interrupted
            drawn = np.stack([draw(stream, shape) for stream in streams])
            yield from drawn.transpose(1, 0, 2)

    def _targets(self, buffer: Buffer) -> Targets:
        """Returns what losses use of samples: advantages over the linear baseline."""
        settings, limit = self._experiment.adaptation, self._experiment.task.episode_limit
        shift, scale = self._shift[:, None], self._scale[:, None]
        ended = buffer.terminated + buffer.truncated > 0
        visited = linear_baseline.Visited(
            observation=normalizer.normalize(buffer.observation, shift, scale),
            reached=normalizer.normalize(buffer.next_observation, shift, scale),
            time=linear_baseline.steps_into_episode(ended) / limit,
            ended=ended,
        )
        # Copies, since these are views of one array.
        recorded = (buffer.reward, buffer.terminated, buffer.truncated, buffer.action)
        reward, terminated, truncated, action = (part.copy() for part in recorded)
        returns = linear_baseline.returns_to_go(reward, terminated, truncated, settings.discount)
        value, next_value = linear_baseline.values(visited, 1.0 / limit, returns.numpy())
        advantage = linear_baseline.standardised_advantages(
            Steps(reward, value, next_value, terminated, truncated),
            settings.discount,
            settings.gae_lambda,
        ).numpy()
        seen = visited.observation
        outputs = (part.numpy() for part in self._compiled.outputs(self.weights, seen))
        return Targets(seen, action, advantage, np.zeros_like(advantage), *outputs)
