"""Finds, reads and writes folders of learned losses: `loss.npz` (phi), `loss.json` (its
description).
"""

from __future__ import annotations

import difflib
import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from epg_tf.core import array_files, files
from epg_tf.core.errors import RecordError
from epg_tf.core.types import Array

PRETRAINED = Path(__file__).parents[1] / "pretrained"

_PHI_FILE, _DESCRIPTION_FILE = "loss.npz", "loss.json"
_PHI_LIMIT = 63 * 2**20  # bytes; the papers' losses take 0.1 to 1 MB
_FILE_LIMIT = 64 * 2**20  # bytes, packed or unpacked
_REMEDY = "name the folder of a run of epg-tf meta-train"


def save_loss(folder: files.PathLike, phi: Array, description: Mapping[str, Any]) -> None:
    """Saves a learned loss; `description` is completed by format version, number of parameters and
    checksum.

    Args:
      folder: Created if missing; a loss that is there is replaced.
      phi: [D] float32, finite.
      description: All that is needed to build the loss that `phi` belongs to, for JSON.

    Raises:
      ValueError: `phi` is not a finite float32 vector, or above 64 MB.
      TypeError: `description` cannot be written as JSON.
      OSError: A file cannot be written.
    """
    phi = np.asarray(phi)
    if problem := _problem(phi):
        raise ValueError(f"phi {problem}; a loss is a finite float32 vector")
    if phi.nbytes > _PHI_LIMIT:
        raise ValueError(
            f"phi takes {phi.nbytes} bytes, above the limit of {_PHI_LIMIT}; use fewer parameters"
        )
    facts = {
        "format_version": files.FORMAT_VERSION,
        "parameters": phi.size,
        "phi_sha256": checksum(phi),
    }
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    array_files.write_arrays(folder / _PHI_FILE, {"phi": phi})
    files.write_json(folder / _DESCRIPTION_FILE, {**description, **facts})


def holds_loss(folder: Path) -> bool:
    """Returns whether there is a description of a loss in `folder`."""
    return (folder / _DESCRIPTION_FILE).is_file()


def load_loss(folder: files.PathLike) -> tuple[Array, dict[str, Any]]:
    """Loads a learned loss, checking everything that can be checked.

    Returns:
      (phi, [D] float32; description as saved, with "format_version", "parameters" and
      "phi_sha256").

    Raises:
      RecordError: There is no loss in `folder`, or it is damaged; one line that begins with
        `folder`.
    """
    folder = Path(folder)
    try:
        if not folder.exists():
            raise RecordError("no such folder")
        if not folder.is_dir():
            raise RecordError("not a folder")
        for name in (_DESCRIPTION_FILE, _PHI_FILE):
            if not (folder / name).is_file():
                raise RecordError(f"the folder holds no {name}")
    except RecordError as error:
        raise RecordError(f"{folder}: {error}; {_remedy(folder)}") from error
    except OSError as error:
        raise RecordError(f"{folder}: {error.strerror}; {_remedy(folder)}") from error
    description = files.read_json(folder / _DESCRIPTION_FILE, "the description of the loss")
    try:
        if "format_version" not in description:
            raise RecordError(f"{_DESCRIPTION_FILE} has no format_version")
        return _read_phi(folder / _PHI_FILE, description), description
    except RecordError as error:
        raise RecordError(f"{folder}: {error}; restore both files, or fetch them again") from error


def _read_phi(path: Path, description: Mapping[str, Any]) -> Array:
    arrays = array_files.read_arrays(path, _FILE_LIMIT)
    if list(arrays) != ["phi"]:
        raise RecordError(
            f"{_PHI_FILE} holds {', '.join(map(repr, sorted(arrays))) or 'nothing'}, not 'phi'"
        )
    phi = arrays["phi"]
    if problem := _problem(phi):
        raise RecordError(f"phi in {_PHI_FILE} {problem}")
    if description.get("parameters") != phi.size:
        raise RecordError(
            f"phi has {phi.size} numbers, {_DESCRIPTION_FILE} states "
            f"parameters={description.get('parameters')!r:.50}"
        )
    if description.get("phi_sha256") != checksum(phi):
        raise RecordError(
            f"phi does not match phi_sha256 in {_DESCRIPTION_FILE}: they are from different saves, "
            "as after a kill between the two (a run that is resumed writes both again)"
        )
    return phi


def _problem(phi: Array) -> str:
    """Returns why an array cannot be phi; empty if it can."""
    if phi.dtype != np.float32:
        return f"has type {phi.dtype}, not float32"
    if phi.ndim != 1:
        return f"has shape {phi.shape}, not [D]"
    if phi.size == 0:
        return "is empty"
    if not np.isfinite(phi).all():
        return f"holds {np.count_nonzero(~np.isfinite(phi))} values that are not finite"
    return ""


def checksum(phi: Array) -> str:
    """Returns the SHA-256 of a phi, the same for every byte order of the machine."""
    return hashlib.sha256(phi.astype("<f4").tobytes()).hexdigest()


def _remedy(folder: Path) -> str:
    """Returns what to do: name the loss that was probably meant, or one from a run."""
    if folder.name in (_PHI_FILE, _DESCRIPTION_FILE) and folder.is_file():
        return f"did you mean {folder.parent}?"
    if not holds_loss(folder) and (folder / "saved_model.pb").is_file():
        return (
            f"it is a SavedModel of other origin, and losses are read from {_PHI_FILE} and "
            f"{_DESCRIPTION_FILE} alone, which epg-tf export writes beside it"
        )
    return _REMEDY


def pretrained_losses() -> list[str]:
    """Returns the names of the losses and objectives that come with the package."""
    return sorted(path.parent.name for path in PRETRAINED.glob("*/loss.json"))


def loss_folder(name: files.PathLike) -> Path:
    """Returns the folder that the artifact of this name is read from.

    Args:
      name: A folder that holds one; the folder of a run, whose `best/` is taken, or `final/` where
        there is no `best/`; or, where there is no such folder, the name of a pretrained one.

    Returns:
      That folder; `name` itself if it is something else that exists.

    Raises:
      RecordError: Nothing has this name, or the folder cannot be read.
    """
    folder = Path(name)
    try:
        if folder.exists():
            candidates = (folder, folder / "best", folder / "final")
            return next(filter(holds_loss, candidates), folder)
    except OSError as error:
        raise RecordError(f"{name}: {error.strerror}; name the folder of a run") from error

    known = pretrained_losses()
    if str(name).split("/")[0] in known and holds_loss(PRETRAINED / name):
        return PRETRAINED / name  # or what lies beside one, e.g. point_goal/zero_shot_linear
    beside = [file.parent for file in folder.parent.glob("*/loss.json")]
    beside += [file.parents[1] for file in folder.parent.glob("*/*/loss.json")]  # runs
    losses = {**{path.name: path for path in beside}, **{one: one for one in known}}
    near = [str(losses[one]) for one in difflib.get_close_matches(folder.name, losses, n=1)]
    question = f"did you mean {near[0]!r}?" if near else "name one of them, or a run's folder"
    raise RecordError(
        f"{name}: there is no such folder, and no pretrained loss of that name "
        f"({', '.join(known)}); {question}"
    )
