"""Trains one agent of a test once more, to keep it."""

from __future__ import annotations

import dataclasses

import numpy as np

from epg_tf.core.experiment import Experiment
from epg_tf.core.random_streams import life_generator
from epg_tf.core.types import Array, LifeKey
from epg_tf.epg.inner_loop import InnerLoop, Teaching
from epg_tf.tasks.quantities import Task
from epg_tf.tasks.registry import make_family


@dataclasses.dataclass(frozen=True)
class TrainedAgent:
    """An agent at the end of its life.

    Attributes:
      weights: Of its policy, in the order of `Policy.variables_in_order`, without the population
        axis.
      shift: [O], of the normalisation of observations, (x - shift) * scale.
      scale: [O].
      task: What it lived in, name -> values.
      final_return: Mean return of its final episodes; NaN where it failed.
      policy_sha256: Hash of its policy and memory.
    """

    weights: list[Array]
    shift: Array
    scale: Array
    task: Task
    final_return: float
    policy_sha256: str


def trained_agent(
    experiment: Experiment, phi: Array, seed: int, lives: int, updates: int | None = None
) -> TrainedAgent:
    """Returns the first agent of a test, trained once more to the same bits; arguments as in
    `evaluate`.

    Its neighbours in the shard are trained as well: the size of a shard is part of the numbers.
    """
    family = make_family(experiment.task)
    keys = [
        LifeKey(seed, "test", 0, min(index, lives - 1))
        for index in range(experiment.compute.shard_lives)
    ]
    loop = InnerLoop(experiment, family, measure_kl=True)
    results = loop.run(
        keys,
        np.repeat(phi[None], len(keys), axis=0),
        Teaching(0.0, experiment.inner.learning_rate),
        updates,
    )
    shift, scale = (part[0] for part in loop.observation_scaling)
    return TrainedAgent(
        [weight[0] for weight in loop.learner.weights()],
        shift,
        scale,
        family.sample_task(life_generator(keys[0], "task")),
        float(results.final_return[0]),
        str(results.policy_hash[0]),
    )
