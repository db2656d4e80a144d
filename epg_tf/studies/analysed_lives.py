"""Runs the lives in which analyses look at what a learned loss does (EPG, Algorithm 2)."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import numpy as np
import tensorflow as tf

from epg_tf.artifacts.artifact import LearnedLoss
from epg_tf.baselines.method import Request
from epg_tf.core.errors import ConfigError
from epg_tf.core.threads import configure_tensorflow
from epg_tf.epg.inner_loop import InnerLoop, final_inner_settings
from epg_tf.epg.learner import Learner, RawExperience
from epg_tf.epg.meta_parameters import evolves_loss
from epg_tf.epg.settings import Experiment
from epg_tf.epg.shards import thread_count
from epg_tf.evaluation.checks import check_phi
from epg_tf.evaluation.methods import with_ppo
from epg_tf.evaluation.requests import loss_request
from epg_tf.tasks.registry import make_family

Observer = Callable[[Learner, RawExperience, tf.Tensor], None]
"""Looks at an update before it happens; see `Learner.observer`."""


def analysis_request(learned: LearnedLoss, lives: int = 32) -> Request:
    """Returns the request of an analysis: lives as in the test of the loss, in exact physics, on
    tasks that no evolution, test or tuning meets.

    Args:
      learned: The loss.
      lives: L.

    Raises:
      ConfigError: There is no loss that teaches: evolution moved an initial policy alone, phi does
        not fit the settings, or lives have no updates.
    """
    experiment = learned.experiment
    if not evolves_loss(experiment):
        raise ConfigError(
            "config.evolution.moves='initialisation': there is a policy and no loss to analyse; "
            "choose a run that moves 'loss' or 'both'"
        )
    check_phi(experiment, learned.phi)
    request = loss_request(experiment, 0, lives)
    if lives < 1 or not request.env_steps:
        raise ConfigError(
            f"lives={lives} of updates={request.env_steps // experiment.inner.update_period} hold "
            "no update to analyse; ask for 1 or more of both"
        )
    return dataclasses.replace(request, phase="analysis")


def analysis_settings(learned: LearnedLoss, request: Request) -> Experiment:
    """Returns the settings of the lives of an analysis: all of them are in one shard, so that all
    analyses meet the same lives to the bit; the surrogate is PPO.

    Args:
      learned: The loss.
      request: From `analysis_request`.
    """
    experiment = with_ppo(learned.experiment)
    compute = dataclasses.replace(experiment.compute, shard_lives=request.agents)
    return dataclasses.replace(experiment, task=request.task, compute=compute)


def observe_lives(learned: LearnedLoss, request: Request, observer: Observer) -> None:
    """Runs the lives of an analysis in lockstep, under the learned loss alone (alpha = 0), with an
    observer of each update; PPO moves nothing. No final episodes are played.

    Args:
      learned: The loss; its experiment holds the settings.
      request: From `analysis_request`.
      observer: Called before each update of all L lives.
    """
    experiment = analysis_settings(learned, request)
    configure_tensorflow(thread_count(experiment))
    loop = InnerLoop(experiment, make_family(request.task))
    loop.learner.observer = observer
    inner_settings = dataclasses.replace(
        final_inner_settings(experiment),
        alpha=0.0,
        fitness_from="whole_life",
        updates=request.env_steps // experiment.inner.update_period,
    )
    loop.run(request.keys(), np.repeat(learned.phi[None], request.agents, axis=0), inner_settings)
