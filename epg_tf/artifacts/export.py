"""Turns what was learned into a SavedModel that needs only TensorFlow."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from epg_tf.artifacts import saved_models
from epg_tf.artifacts.artifact import Artifact, interface, save
from epg_tf.artifacts.cards import CARD_FILE, exported_card
from epg_tf.artifacts.description import channels_of, describe
from epg_tf.artifacts.exported import (
    Exported,
    Scored,
    examples,
    further_channels,
    scored_loss,
    scored_objective,
)
from epg_tf.artifacts.loss_files import PRETRAINED
from epg_tf.core import files
from epg_tf.core.errors import RecordError
from epg_tf.epg.meta_parameters import divided, evolves_loss, initial_policy
from epg_tf.epg.settings import Experiment
from epg_tf.metagenrl.settings import MetaGenRLExperiment
from epg_tf.tasks.registry import make_family

MARKERS = ("loss.json", CARD_FILE)  # of an export; a run's losses have no card

_BUFFER_LIMIT = 2**16  # steps; the papers' have 512 and 1024
_TOLERANCE = 1e-6  # relative, of losses and gradients that were written and read again


def export(
    learned: Artifact[Any],
    folder: files.PathLike,
    card: str | None = None,
    *,
    overwrite: bool = False,
) -> float:
    """Writes a SavedModel, with phi, its description and a card, and reads it again.

    Args:
      learned: A loss of EPG, the initial policy that was evolved with it or alone, or an objective
        of MetaGenRL.
      folder: Created if missing; must be empty unless `overwrite` is set.
      card: Text of README.md; None for that of `cards.exported_card`.
      overwrite: Replace an export that is there, once the new one is complete; other files in the
        folder stay.

    Returns:
      The largest difference between it and what was read, see `largest_difference`.

    Raises:
      RecordError: The difference is above 1e-6, what was learned is of another kind, the buffer is
        too long, the folder cannot be used or holds something else, or files cannot be read or
        written; nothing was replaced.
    """
    _check(learned)
    text = exported_card(learned) if card is None else card
    module, _ = exported_module(learned)
    differences: list[float] = []
    _refuse_homes(learned.folder, folder)
    saved_models.prepare_target(folder, overwrite, MARKERS)

    def write(temporary: str) -> None:
        options = tf.saved_model.SaveOptions(save_debug_info=False)
        tf.saved_model.save(module, temporary, signatures=module.signatures(), options=options)
        save(temporary, learned.phi, learned.experiment, learned.facts)
        (Path(temporary) / CARD_FILE).write_text(text, encoding="utf-8")
        for name, source in programs(learned).items():
            shutil.copyfile(Path(__file__).parent / source, Path(temporary) / name)
        differences.append(largest_difference(learned, temporary))
        if not differences[0] <= _TOLERANCE:
            raise RecordError(
                f"{folder}: the SavedModel that was read again differs by {differences[0]:.1e} and "
                "was not kept; check phi for huge parameters, which overflow, or report this"
            )

    saved_models.write_saved_model(folder, write)
    return differences[0]


export_loss = export_objective = export


def programs(learned: Artifact[Any]) -> dict[str, str]:
    """Returns the modules that train agents with an export and need nothing of this package: name
    beside the SavedModel -> name in this folder.
    """
    if isinstance(learned.experiment, MetaGenRLExperiment):
        return {"learner.py": "objective_learner.py"}
    guided = describe(learned)["guidance"] > 0.0
    return {name: name for name in ["learner.py"] + ["guidance.py"] * guided}


def _check(learned: Artifact[Any]) -> None:
    """Raises RecordError if there is nothing to export, or too much."""
    experiment = learned.experiment
    if not isinstance(experiment, Experiment | MetaGenRLExperiment):
        raise RecordError(
            f"{learned.name}: it is a {interface(experiment)['kind']}, which has no export; name a "
            "loss or an initial policy of EPG, or an objective of MetaGenRL"
        )
    if isinstance(experiment, MetaGenRLExperiment) or not evolves_loss(experiment):
        return
    if experiment.loss.buffer_steps > _BUFFER_LIMIT:
        raise RecordError(
            f"config.loss.buffer_steps={experiment.loss.buffer_steps} of the loss is above "
            f"{_BUFFER_LIMIT}, more than exports are tested with; use a loss with a shorter buffer"
        )


def _refuse_homes(home: Path | None, folder: files.PathLike) -> None:
    """Raises RecordError if `folder` is, holds or lies among folders of losses."""
    target, pretrained = Path(folder).resolve(), PRETRAINED.resolve()
    home = home.resolve() if home is not None else pretrained
    if target in (home, *home.parents) or pretrained in (target, *target.parents):
        raise RecordError(f"{Path(folder)}: this is where losses are kept; choose another folder")


def exported_module(learned: Artifact[Any]) -> tuple[Exported, Scored | None]:
    """Returns what the SavedModel of an artifact is made from, and what agents minimise."""
    experiment, description = learned.experiment, json.dumps(files.plain(describe(learned)))
    if isinstance(experiment, MetaGenRLExperiment):
        scored: Scored | None = scored_objective(learned.phi, experiment)
        return Exported(description, {}, scored), scored
    phi, start = divided(experiment, learned.phi)
    weights, scored = initial_policy(experiment, start) if start.size else {}, None
    if evolves_loss(experiment):
        channels, period = channels_of(interface(experiment)), experiment.inner.update_period
        scored = scored_loss(phi, channels, experiment.loss, period)
    module = Exported(description, weights, scored)
    if scored and (experiment.loss.channels or experiment.loss.identifying):
        spec = make_family(experiment.task).spec
        module.further_channels = further_channels(spec, experiment.loss)
    return module, scored


def largest_difference(learned: Artifact[Any], folder: files.PathLike) -> float:
    """Opens an export and compares it with `learned` on random inputs.

    Returns:
      The largest difference of scores, the tape's gradients, the signature's, and the weights of
      an initial policy, each relative to the largest value.

    Raises:
      RecordError: What is in `folder` cannot be opened.
    """
    exported, (own, scored) = saved_models.open_saved_model(folder), exported_module(learned)
    pairs = []
    if own.start:
        weights = exported.signatures["initial_policy"]()
        pairs += [(weights[name], expected) for name, expected in own.start.items()]
    inner = getattr(learned.experiment, "inner", None)
    period = 1 if inner is None else inner.update_period  # no input of objectives is a step
    if scored is not None:
        for actions in (1, 3):
            pairs += _scores(exported, own, scored, examples(scored.specs, actions, period))
    return largest([_relative(one, other) for one, other in pairs])


def _scores(
    exported: Any, own: Exported, scored: Scored, inputs: dict[str, tf.Tensor]
) -> list[tuple[tf.Tensor, tf.Tensor]]:
    """Returns pairs of scores and gradients, of the export and of the package."""
    gradients = own.gradients(inputs)
    moved = {name: inputs[name] for name in gradients}
    with tf.GradientTape() as tape:
        tape.watch(moved)
        found = getattr(exported, scored.name)(inputs | moved)
        total = tf.reduce_sum(found[scored.name])
    by_tape = tape.gradient(total, moved, unconnected_gradients="zero")
    by_name = exported.signatures["gradients"](**inputs)
    pairs = [(found["per_step"], scored.scores(own.params, inputs)["per_step"])]
    return pairs + [
        (other[name], gradients[name]) for other in (by_tape, by_name) for name in moved
    ]


def largest(differences: Sequence[float]) -> float:
    """Returns the largest difference; NaN if one is, which `max` may drop."""
    return float(np.max(differences))


def _relative(found: tf.Tensor, expected: tf.Tensor) -> float:
    """Returns the largest difference, relative to the largest expected value."""
    scale = float(tf.reduce_max(tf.abs(expected)))
    return float(tf.reduce_max(tf.abs(found - expected))) / (scale or 1.0)
