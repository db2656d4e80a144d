"""Evolves one linear policy for all tasks of a family, within a number of seconds: what a loss must
beat where its agents are to adapt, and what a loss can begin around.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from epg_tf.agents import normalizer
from epg_tf.artifacts.artifact import LearnedLoss, load_loss, save
from epg_tf.artifacts.loss_files import holds_loss
from epg_tf.core.errors import ConfigError
from epg_tf.core.types import Array, LifeKey
from epg_tf.epg import presets
from epg_tf.epg.inner_loop import InnerLoopSettings
from epg_tf.epg.meta_parameters import initial_policy
from epg_tf.epg.outer_loop import evolve
from epg_tf.epg.past_policies import Starts
from epg_tf.epg.settings import Experiment
from epg_tf.epg.shards import Shards
from epg_tf.epg.state import initial_state
from epg_tf.tasks.registry import make_family

FOLDER = "zero_shot_linear"
"""Its name beside a loss."""

_LIVES = 64  # over which a policy's normalisation is averaged


def evolved_policy(
    given: Experiment, seed: int, seconds: float, folder: Path, check: Callable[[], None]
) -> LearnedLoss:
    """Evolves the policy and writes it to `FOLDER` in a folder; returns the one that is there.

    Args:
      given: The family, and how many threads there are.
      seconds: After which no other epoch begins.
      check: Called after each epoch; may raise Interrupted.
    """
    path = folder / FOLDER
    if not holds_loss(path):  # its description is written last
        end = time.monotonic() + seconds
        settings = presets.fixed_policy(given.task)
        compute = dataclasses.replace(settings.compute, threads=given.compute.threads)
        settings = dataclasses.replace(settings, compute=compute)
        state = initial_state(settings, seed)
        with Shards(settings) as shards:
            for result in evolve(settings, seed, state, shards):
                state = result.state
                check()
                if time.monotonic() > end:
                    break
        facts = {"seed": seed, "env_steps": state.env_steps, "epoch": state.epoch}
        save(path, state.phi, settings, facts)
    return load_loss(path)


def on_observations_as_they_are(policy: LearnedLoss) -> tuple[Array, Array]:
    """Returns a fixed linear policy without its normalisation of observations, which differs from
    life to life: the mean of what it is in many. What does not vary within most of them counts
    nothing, as in each.

    Args:
      policy: Without hidden layers, products of pairs and deviations of its own.

    Returns:
      (kernel [O, A], bias [A]) of its mean actions at observations that are not normalised.

    Raises:
      ConfigError: It fails in every life.
    """
    experiment, phi = policy.experiment, policy.phi
    weights = initial_policy(experiment, phi)
    if not experiment.inner.updates:
        return weights["output/kernel"], weights["output/bias"]
    size = make_family(experiment.task).spec.observation_size
    keys = [LifeKey(0, "beginning", 0, index) for index in range(_LIVES)]
    starts = Starts([None] * _LIVES, range(_LIVES))
    settings = InnerLoopSettings(alpha=1.0, learning_rate=0.0, starts=starts)
    short = dataclasses.replace(
        experiment,
        inner=dataclasses.replace(experiment.inner, final_episodes=1),
        compute=dataclasses.replace(experiment.compute, parallel="threads"),  # start sooner
    )
    with Shards(short) as shards:
        results = shards.run(keys, lambda life: phi, settings)
    rows = [agent.moments for agent in results.final_agent[~results.failed]]
    if not rows:
        raise ConfigError(
            f"begin_with={policy.name}: it fails in each of {_LIVES} lives; evolve another policy"
        )
    moments = normalizer.unpacked(rows, (len(rows[0]) - 1) // 2)
    about_zero = 0 if experiment.inner.centred_observations else size
    shift, scale = (part[:, :size] for part in normalizer.scaling(moments, about_zero))
    varies = (scale < 1.0 / normalizer.DEVIATION_FLOOR).mean(axis=0) > 0.5
    kernels = (scale * varies)[:, :, None] * weights["output/kernel"]
    biases = weights["output/bias"] - np.einsum("po,poa->pa", shift, kernels)
    return kernels.mean(axis=0), biases.mean(axis=0)
