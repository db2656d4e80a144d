"""Turns a learned objective into a SavedModel that needs only TensorFlow."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import tensorflow as tf

from epg_tf.artifacts import export, saved_models
from epg_tf.artifacts.exported_objective import PREDICTED, ExportedObjective, input_specs
from epg_tf.artifacts.learned_objective import LearnedObjective, save_objective
from epg_tf.artifacts.objective_cards import exported_objective_card
from epg_tf.artifacts.objective_description import describe_objective
from epg_tf.core import files
from epg_tf.core.metagenrl_experiment import MetaGenRLExperiment
from epg_tf.core.types import Array
from epg_tf.losses.lstm_objective import LSTMObjective, stacked
from epg_tf.losses.objectives import Trajectories, total

_AGENTS, _CHUNKS = 3, 4


def export_objective(
    learned: LearnedObjective,
    folder: files.PathLike,
    card: str | None = None,
    *,
    overwrite: bool = False,
) -> float:
    """Writes an objective as a SavedModel, with its parameters, description and a card, and reads
    it again.

    Args:
      learned: The objective.
      folder: Created if missing; must be empty unless `overwrite` is set.
      card: Text of card.md; None for that of `objective_cards.exported_objective_card`.
      overwrite: Replace an export that is there, once the new one is complete; other files in the
        folder stay.

    Returns:
      The largest difference between the objective and what was read, see
      `largest_objective_difference`.

    Raises:
      RecordError: The difference is above 1e-6, the folder cannot be used or holds something else,
        or files cannot be read or written; nothing was replaced.
    """
    text = exported_objective_card(learned) if card is None else card
    description = json.dumps(files.plain(describe_objective(learned)))

    def save_beside(temporary: str) -> None:
        save_objective(temporary, learned.parameters, learned.experiment, learned.facts)

    return export.write_export(
        export.Exported(
            ExportedObjective(learned.parameters, learned.experiment, description),
            text,
            save_beside,
            lambda temporary: largest_objective_difference(learned, temporary),
            learned.folder,
        ),
        folder,
        overwrite=overwrite,
    )


def largest_objective_difference(learned: LearnedObjective, folder: files.PathLike) -> float:
    """Opens an exported objective and compares it with the package's own on random inputs, with
    one and three action dimensions.

    Returns:
      The largest difference of scores, the tape's gradients and the signature's, relative to the
      largest value.

    Raises:
      RecordError: What is in `folder` cannot be opened.
    """
    exported = saved_models.open_saved_model(folder)
    return export.largest([_difference(learned, exported, actions) for actions in (1, 3)])


def _difference(learned: LearnedObjective, exported: Any, actions: int) -> float:
    inputs = _random_inputs(learned.experiment, actions)
    predicted = inputs[PREDICTED]
    own = LSTMObjective(_AGENTS, learned.experiment.objective, learned.experiment.agent.discount)
    own.load(stacked(learned.parameters, _AGENTS))
    recorded = Trajectories(**{name: inputs[name] for name in Trajectories._fields})
    with tf.GradientTape(persistent=True, watch_accessed_variables=False) as tape:
        tape.watch(predicted)
        expected = own(recorded, predicted)
        value = tf.reduce_sum(total(expected))
        found = exported.objective(inputs)
        found_value = tf.reduce_sum(found["objective"])
    gradient = tape.gradient(value, predicted)
    by_name = exported.signatures["gradients"](**inputs)[PREDICTED]
    by_tape = tape.gradient(found_value, predicted)
    pairs = ((found["per_step"], expected), (by_tape, gradient), (by_name, gradient))
    return export.largest([export.relative_difference(one, other) for one, other in pairs])


def _random_inputs(experiment: MetaGenRLExperiment, actions: int) -> dict[str, tf.Tensor]:
    """Returns inputs by name: actions in [-1, 1], the rest normal, the last chunk half padding."""
    generator, steps = np.random.default_rng(actions), experiment.agent.chunk

    def drawn(name: str, rank: int) -> Array:
        shape = (_AGENTS, _CHUNKS, steps, actions)[:rank]
        normal = generator.standard_normal(shape)
        return np.tanh(normal) if rank == 4 else normal

    found = {name: drawn(name, len(spec.shape)) for name, spec in input_specs(steps).items()}
    found["mask"] = np.ones_like(found["mask"])
    found["mask"][:, -1, max(1, steps // 2) :] = 0.0
    return {name: tf.constant(values, tf.float32) for name, values in found.items()}
