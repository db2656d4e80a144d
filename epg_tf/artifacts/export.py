"""Turns a learned loss into a SavedModel that needs only TensorFlow."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from epg_tf.artifacts import saved_models
from epg_tf.artifacts.cards import CARD_FILE, exported_card
from epg_tf.artifacts.description import channels_of, describe
from epg_tf.artifacts.exported_loss import ExportedLoss, input_specs
from epg_tf.artifacts.exported_start import ExportedStart
from epg_tf.artifacts.learned_loss import SHIPPED, LearnedLoss, interface, save_loss
from epg_tf.core import files
from epg_tf.core.errors import RecordError
from epg_tf.epg.meta_parameters import divided, initial_policy, moves_loss
from epg_tf.losses.channels import MINIBATCH

MARKERS = ("loss.json", CARD_FILE)  # of an export; a run's losses have no card

_BUFFER_LIMIT = 2**16  # steps; the papers' have 512 and 1024
_TOLERANCE = 1e-6  # relative, of losses and gradients that were written and read again


def export_loss(
    learned: LearnedLoss,
    folder: files.PathLike,
    card: str | None = None,
    *,
    overwrite: bool = False,
) -> float:
    """Writes a loss as a SavedModel, with phi, its description and a card, and reads it again.

    Args:
      learned: The loss, or the initial policy that was evolved with it or alone.
      folder: Created if missing; must be empty unless `overwrite` is set.
      card: Text of card.md; None for that of `cards.exported_card`.
      overwrite: Replace an export that is there, once the new one is complete; other files in the
        folder stay.

    Returns:
      The largest difference between the loss and what was read, see `largest_difference`.

    Raises:
      RecordError: The difference is above 1e-6, the buffer is too long, the folder cannot be used
        or holds something else, or files cannot be read or written; nothing was replaced.
    """
    loss = learned.experiment.loss
    if moves_loss(learned.experiment) and loss.buffer_steps > _BUFFER_LIMIT:
        raise RecordError(
            f"config.loss.buffer_steps={loss.buffer_steps} of the loss is above {_BUFFER_LIMIT}, "
            f"more than exports are tested with; use a loss with a shorter buffer"
        )
    text = exported_card(learned) if card is None else card

    def save_beside(temporary: str) -> None:
        save_loss(temporary, learned.phi, learned.experiment, learned.facts)

    return write_export(
        Exported(
            _module(learned),
            text,
            save_beside,
            lambda temporary: largest_difference(learned, temporary),
            learned.folder,
        ),
        folder,
        overwrite=overwrite,
    )


@dataclasses.dataclass(frozen=True)
class Exported:
    """What an export consists of.

    Attributes:
      module: Has the functions of the SavedModel, and returns them by `signatures`.
      card: Text of card.md.
      save_beside: Writes the parameters and their description into a folder.
      difference: Opens the SavedModel in a folder, and returns how far it differs.
      home: Folder that the loss was read from; None if it was not.
    """

    module: Any
    card: str
    save_beside: Callable[[str], None]
    difference: Callable[[str], float]
    home: Path | None


def write_export(exported: Exported, folder: files.PathLike, *, overwrite: bool) -> float:
    """Writes a SavedModel and what belongs to it; arguments as `export_loss`.

    Returns:
      The difference between what was written and what was read again.

    Raises:
      RecordError: As `export_loss`.
    """
    differences: list[float] = []
    _refuse_homes(exported.home, folder)
    saved_models.prepare_target(folder, overwrite, MARKERS)

    def write(temporary: str) -> None:
        options = tf.saved_model.SaveOptions(save_debug_info=False)
        signatures = exported.module.signatures()
        tf.saved_model.save(exported.module, temporary, signatures=signatures, options=options)
        exported.save_beside(temporary)
        (Path(temporary) / CARD_FILE).write_text(exported.card, encoding="utf-8")
        differences.append(exported.difference(temporary))
        if not differences[0] <= _TOLERANCE:
            raise RecordError(
                f"{folder}: the SavedModel that was read again differs by {differences[0]:.1e} and "
                "was not kept; check phi for huge parameters, which overflow, or report this"
            )

    saved_models.write_saved_model(folder, write)
    return differences[0]


def _refuse_homes(home: Path | None, folder: files.PathLike) -> None:
    """Raises RecordError if `folder` is, holds or lies among folders of losses."""
    target, shipped = Path(folder).resolve(), SHIPPED.resolve()
    home = home.resolve() if home is not None else shipped
    if target in (home, *home.parents) or shipped in (target, *target.parents):
        raise RecordError(f"{Path(folder)}: this is where losses are kept; choose another folder")


def largest_difference(learned: LearnedLoss, folder: files.PathLike, agents: int = 3) -> float:
    """Opens an exported loss and compares it with `learned` on random inputs.

    Returns:
      The largest difference of losses, the tape's gradients, the signature's, and the weights of
      an initial policy, each relative to the largest value.

    Raises:
      RecordError: What is in `folder` cannot be opened.
    """
    exported, own = saved_models.open_saved_model(folder), _module(learned)
    pairs = []
    if own.start:
        weights = exported.signatures["initial_policy"]()
        pairs += [(weights[name], expected) for name, expected in own.start.items()]
    if isinstance(own, ExportedLoss):
        pairs += _scores(learned, exported, own, agents)
    return largest([relative_difference(one, other) for one, other in pairs])


def _scores(
    learned: LearnedLoss, exported: Any, own: ExportedLoss, agents: int
) -> list[tuple[tf.Tensor, tf.Tensor]]:
    """Returns pairs of losses and gradients, of the export and of the package."""
    generator, inner = np.random.default_rng(0), learned.experiment.inner
    specs = input_specs(channels_of(interface(learned.experiment)), learned.experiment.loss)
    inputs = {
        name: tf.constant(generator.standard_normal([agents, *spec.shape[1:]]), tf.float32)
        for name, spec in specs.items()
        if name != MINIBATCH
    }
    order = generator.integers(inner.update_period, size=(agents, inner.minibatch))
    inputs[MINIBATCH] = tf.constant(order, tf.int32)
    gradients = own.gradients(inputs)
    moved = {name: inputs[name] for name in gradients}
    with tf.GradientTape() as tape:
        tape.watch(moved)
        found = exported.loss(inputs | moved)
        total = tf.reduce_sum(found["loss"])
    by_tape = tape.gradient(total, moved, unconnected_gradients="zero")
    by_name = exported.signatures["gradients"](**inputs)
    pairs = [(found["per_step"], own.loss(inputs)["per_step"])]
    return pairs + [
        (other[name], gradients[name]) for other in (by_tape, by_name) for name in moved
    ]


def largest(differences: Sequence[float]) -> float:
    """Returns the largest difference; NaN if one is, which `max` may drop."""
    return float(np.max(differences))


def relative_difference(found: tf.Tensor, expected: tf.Tensor) -> float:
    """Returns the largest difference, relative to the largest expected value."""
    scale = float(tf.reduce_max(tf.abs(expected)))
    return float(tf.reduce_max(tf.abs(found - expected))) / (scale or 1.0)


def _module(learned: LearnedLoss) -> ExportedStart:
    experiment = learned.experiment
    phi, start = divided(experiment, learned.phi)
    weights = initial_policy(experiment, start) if start.size else {}
    description = json.dumps(files.plain(describe(learned)))
    if not moves_loss(experiment):
        return ExportedStart(weights, description)
    return ExportedLoss(
        phi,
        channels_of(interface(experiment)),
        experiment.loss,
        experiment.inner.update_period,
        description,
        weights,
    )
