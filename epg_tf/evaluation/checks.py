"""Refuses evaluations of losses whose agents would not learn, or not be comparable."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from epg_tf.artifacts.artifact import Artifact, LearnedLoss, LearnedObjective
from epg_tf.baselines.method import LossName, Request, learned_name
from epg_tf.core.errors import ConfigError
from epg_tf.core.parameters import parameter_count
from epg_tf.core.settings import flat
from epg_tf.core.types import Array
from epg_tf.epg.memory_requirements import refuse_lives_that_cannot_fit
from epg_tf.epg.meta_parameters import evolves_loss, needed, vector_shapes
from epg_tf.epg.settings import Experiment

_NO_EFFECT = ("baseline", "failed_rounds", "objective_period", "threads")  # on an objective


def check_phi(experiment: Experiment, phi: Array) -> None:
    """Raises ConfigError if phi is not what these settings move: a loss, a policy or both."""
    if np.shape(phi) != (parameter_count(vector_shapes(experiment)),):
        raise ConfigError(f"phi has shape {np.shape(phi)}; {needed(experiment)}")


def check_objectives(objectives: Sequence[tuple[LossName, LearnedObjective]]) -> None:
    """Raises ConfigError where an objective is there twice, or settings that decide objectives or
    the lives of their agents differ.
    """
    _check_distinct(objectives)
    settings = objectives[0][1].experiment.to_mapping()
    deciding = [
        f"{name}." if isinstance(value, dict) else name
        for name, value in settings.items()
        if name not in _NO_EFFECT
    ]
    for other in objectives[1:]:
        _check_alike(objectives[0], other, deciding)


def check_losses(
    losses: Sequence[tuple[LossName, LearnedLoss]],
    request: Request,
    alpha: float | None,
    learning: bool,
) -> None:
    """Checks losses of EPG that are evaluated together.

    Losses of which evolution moved the same must agree in all that decides the lives of their
    agents; others (EPG, EPG+I, PPO+I) in how agents begin and how long they live.

    Args:
      alpha: Share of PPO in what agents minimise; None: as in each evolution.
      learning: Whether agents learn by the losses.

    Raises:
      ConfigError: They are not alike, phi does not fit the settings or cannot teach, or memory does
        not hold the lives.
    """
    _check_distinct(losses)
    firsts: dict[str, tuple[LossName, LearnedLoss]] = {}
    for named in losses:
        experiment = named[1].experiment
        first = firsts.setdefault(learned_name(experiment), named)
        groups = ["policy.", "loss.", "inner."]
        groups += ["evolution.final_guidance"] if alpha is None else []
        groups += ["surrogate."] if alpha_of(experiment, alpha) else []
        _check_alike(first, named, groups)
        _check_alike(losses[0], named, ("policy.", "inner.centred_observations"))
        _check_length(losses[0], named, request.env_steps)
        check_phi(dataclasses.replace(experiment, task=request.task), named[1].phi)
    for _, each in firsts.values():
        _check_learning(each.experiment, request, alpha, learning)


def alpha_of(experiment: Experiment, alpha: float | None) -> float:
    """Returns the share of PPO in what a loss's agents minimise."""
    return experiment.evolution.final_guidance if alpha is None else alpha


def _check_distinct(losses: Sequence[tuple[LossName, Artifact[Any]]]) -> None:
    """Raises ConfigError where two losses have the same name or come from the same folder."""
    folders = [Path(each.folder).resolve() for _, each in losses if each.folder is not None]
    for found in ([name.name for name, _ in losses], folders):
        if twice := [each for number, each in enumerate(found) if each in found[:number]]:
            raise ConfigError(f"loss={str(twice[0])!r} is there twice; name each loss once")


def _check_alike(
    first: tuple[LossName, Artifact[Any]],
    other: tuple[LossName, Artifact[Any]],
    deciding: Sequence[str],
) -> None:
    """Raises ConfigError where two differ in a setting whose name begins with one of some."""
    mine, its = (dict(flat(each.experiment.to_mapping())) for _, each in (first, other))
    for name, value in its.items():
        if name.startswith(tuple(f"config.{each}" for each in deciding)) and value != mine[name]:
            raise ConfigError(
                f"loss={other[0].name!r} has {name}={value!r}, {first[0].name!r} has "
                f"{mine[name]!r}; test such losses apart"
            )


def _check_length(
    first: tuple[LossName, LearnedLoss], other: tuple[LossName, LearnedLoss], steps: int
) -> None:
    """Raises ConfigError where a loss's agents do not live as long as those of the first."""
    mine, its = first[1].experiment, other[1].experiment
    if its.life_steps != mine.life_steps:
        raise ConfigError(
            f"loss={other[0].name!r} has lives of {its.life_steps} env steps, "
            f"{first[0].name!r} of {mine.life_steps}; test them apart"
        )
    period = its.inner.update_period
    if other is not first and steps % period:
        raise ConfigError(
            f"updates={steps // mine.inner.update_period} gives lives of {steps} env steps, no "
            f"multiple of config.inner.update_period={period} of loss={other[0].name!r}; choose "
            "another number of updates"
        )


def _check_learning(
    experiment: Experiment, request: Request, alpha: float | None, learning: bool
) -> None:
    """Refuses lives that nothing teaches, and those that memory does not hold."""
    if not request.env_steps or alpha_of(experiment, alpha) >= 1.0:
        return
    if not evolves_loss(experiment):
        by_ppo = experiment.evolution.final_guidance == 1.0
        remedy = (
            f"leave alpha={alpha} out, so that they learn by PPO alone"
            if by_ppo
            else "test it with as many as in evolution, 0"
        )
        raise ConfigError(
            "config.evolution.moves='initialisation': there is a policy and no loss, so lives "
            f"of updates={request.env_steps // experiment.inner.update_period} have "
            f"nothing to learn from; {remedy}"
        )
    if learning:
        refuse_lives_that_cannot_fit(experiment, request.agents)
