"""Plans the W lives of an epoch: their keys, their length and the phi of each (Algorithm 1)."""

from __future__ import annotations

import functools

import numpy as np

from epg_tf.core.optimizers import annealed
from epg_tf.core.random_streams import lifetime_generator, noise_vector
from epg_tf.core.types import Array, LifeKey
from epg_tf.epg import evolution_strategies
from epg_tf.epg.evolution_settings import EvolutionConfig
from epg_tf.epg.settings import Experiment
from epg_tf.epg.state import EvolutionState


def life_keys(evolution: EvolutionConfig, seed: int, epoch: int) -> list[LifeKey]:
    """Names the W lives of an epoch; with common random numbers the two of a pair share one key."""
    index = pairs(evolution) if evolution.common_random_numbers else np.arange(evolution.lives)
    return [LifeKey(seed, "evolution", epoch, int(number)) for number in index]


def pairs(evolution: EvolutionConfig) -> Array:
    """Numbers the antithetic pairs of lives: entry w is the pair of life w, [W] int."""
    lives = np.arange(evolution.lives)
    per_vector = evolution.lives // evolution.noise_vectors
    vectors = lives // per_vector
    return vectors // 2 * per_vector + lives % per_vector


def life_tasks(experiment: Experiment) -> list[int]:
    """Returns the number of the task of each of the W lives: the pairs take the tasks in turn."""
    if not experiment.mix.families:
        return [0] * experiment.evolution.lives
    return [int(number) for number in pairs(experiment.evolution) % len(experiment.tasks)]


def return_units(experiment: Experiment) -> Array:
    """Returns what a return is divided by in each of the experiment's tasks, float64."""
    return np.array(experiment.mix.return_units or (1.0,) * len(experiment.tasks))


def life_updates(experiment: Experiment, seed: int, epoch: int) -> int:
    """Returns the number of updates in the lives of an epoch.

    It is the same for all of them: long lives are not compared with short ones.
    """
    shortest, longest = experiment.evolution.life_lengths(experiment.inner.updates)
    if shortest == longest:
        return longest
    uniform = lifetime_generator(seed, epoch).random()
    return evolution_strategies.lifetime(uniform, shortest, longest)


def noise_deviation(evolution: EvolutionConfig, epoch: int) -> float:
    """Returns sigma, the deviation of the noise on phi, in an epoch; it anneals in a straight line
    to `final_sigma` where that is set.
    """
    if not evolution.final_sigma:
        return evolution.sigma
    return annealed(evolution.sigma, evolution.final_sigma, evolution.learning_rate_epochs, epoch)


class PerturbedPhi:
    """Maps the number of a life to its loss parameters phi + sigma epsilon_v (Algorithm 1).

    The noise epsilon_v is drawn when a life needs it; `outer_loop.es_step` draws the same again.

    Args:
      evolution: Settings.
      seed: Of the run.
      state: Holds phi and the epoch, which names the noise.
      cached: Number of noise vectors to keep for the lives that follow.
    """

    def __init__(
        self, evolution: EvolutionConfig, seed: int, state: EvolutionState, cached: int
    ) -> None:
        self._phi = state.phi
        self._evolution = evolution
        self._sigma = noise_deviation(evolution, state.epoch)

        @functools.lru_cache(maxsize=cached)
        def noise(vector: int) -> Array:
            return noise_vector(seed, state.epoch, vector, state.phi.size)

        self._noise = noise

    def __call__(self, life: int) -> Array:
        """Returns [D] float32."""
        evolution = self._evolution
        vector = evolution_strategies.vector_of_life(life, evolution.lives, evolution.noise_vectors)
        epsilon = evolution_strategies.perturbation(self._noise, vector, evolution.antithetic)
        return self._phi + np.float32(self._sigma) * epsilon
