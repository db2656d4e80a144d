"""Begins a run of evolution with what another run evolved, e.g. to go from easy tasks to all."""

from __future__ import annotations

import dataclasses
from typing import Any

from epg_tf.artifacts.learned_loss import LearnedLoss, interface
from epg_tf.artifacts.loss_files import checksum
from epg_tf.core.errors import ConfigError
from epg_tf.core.experiment import Experiment
from epg_tf.epg.state import EvolutionState, initial_state
from epg_tf.runs.folder import BEGUN_WITH

_SAME = ("kind", "channels", "parameter_shapes")  # of `interface`


def beginning(experiment: Experiment, seed: int, earlier: LearnedLoss | None) -> EvolutionState:
    """Returns the state before the first epoch: that of a fresh run, or the vector that an earlier
    run evolved, whose env steps count as spent.

    Args:
      experiment: Settings.
      seed: Of the run; an earlier vector does not depend on it, all later draws do.
      earlier: What the run begins with; None: a fresh vector.

    Raises:
      ConfigError: The vector is none of these settings.
    """
    fresh = initial_state(experiment, seed)
    if earlier is None:
        return fresh
    mine, its = interface(experiment), interface(earlier.experiment)
    for name in _SAME:
        if mine[name] != its[name]:
            raise ConfigError(
                f"begin_with={earlier.name}: its {name.replace('_', ' ')} differ from those of "
                f"these settings ({its[name]} and {mine[name]}); set config.loss, config.policy "
                "and config.evolution.moves as they were there"
            )
    spent = earlier.facts.get("env_steps", 0)
    return dataclasses.replace(
        fresh,
        phi=earlier.phi,
        best_phi=earlier.phi,
        env_steps=spent if isinstance(spent, int) else 0,
    )


def facts_of(earlier: LearnedLoss | None) -> dict[str, Any]:
    """Returns what a run states of what it began with, for JSON; nothing where that was fresh."""
    if earlier is None:
        return {}
    return {BEGUN_WITH: {"loss": earlier.name, "phi_sha256": checksum(earlier.phi)}}
