"""Holds the state of MAML's meta-training between two iterations."""

from __future__ import annotations

import dataclasses

import numpy as np

from epg_tf.agents import normalizer
from epg_tf.agents.normalizer import Moments
from epg_tf.agents.policies import fresh_weights
from epg_tf.baselines.maml_lives import Initialisation
from epg_tf.baselines.maml_settings import MAMLExperiment
from epg_tf.core.random_streams import start_generator
from epg_tf.core.types import Array
from epg_tf.tasks.registry import make_family


@dataclasses.dataclass(frozen=True)
class MAMLState:
    """Everything that meta-training continues from; keyed random streams need no state.

    Attributes:
      iteration: Iterations done.
      weights: [D] float32, of the initialisation.
      first_moment: [D] float32, of Adam.
      second_moment: [D] float32.
      observed: Of all observations so far; of one member, [1, O].
      env_steps: Spent so far, validation included.
      best: The start that did best in validation so far.
      best_return: Its mean return there; -inf before the first validation.
      best_iteration: After which it was found; 0 before the first validation.
    """

    iteration: int
    weights: Array
    first_moment: Array
    second_moment: Array
    observed: Moments
    env_steps: int
    best: Initialisation
    best_return: float
    best_iteration: int

    @property
    def start(self) -> Initialisation:
        """The initialisation with the normalisation of observations as it is now."""
        shift, scale = normalizer.scaling(self.observed)
        return Initialisation(self.weights, shift[0], scale[0])


@dataclasses.dataclass(frozen=True)
class IterationResult:
    """Holds the state after an iteration, and its numbers by the name of their column."""

    state: MAMLState
    metrics: dict[str, float]


def initial_state(experiment: MAMLExperiment, seed: int) -> MAMLState:
    """Returns the state before the first iteration: a fresh policy."""
    spec = make_family(experiment.task).spec
    parts = fresh_weights(start_generator(seed), spec, experiment.policy)
    weights = np.concatenate([part.ravel() for part in parts])
    observed = normalizer.empty_moments(1, spec.observation_size)
    return MAMLState(
        0,
        weights,
        np.zeros_like(weights),
        np.zeros_like(weights),
        observed,
        0,
        Initialisation(weights, *(part[0] for part in normalizer.scaling(observed))),
        -np.inf,
        0,
    )
