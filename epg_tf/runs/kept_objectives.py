"""Keeps objectives of a run of MetaGenRL: some in `objectives/`, the best one in `best/`."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

from epg_tf.artifacts.artifact import load_objective, save
from epg_tf.core import files
from epg_tf.core.errors import RecordError
from epg_tf.metagenrl.settings import MetaGenRLExperiment
from epg_tf.metagenrl.validation import best_round
from epg_tf.runs.folder import RunFolder

_KEPT = re.compile(r"round_(\d{8,})")


def kept_name(number: int) -> str:
    """Returns the name of the folder of the objective after a round."""
    return f"round_{number:08d}"


def kept_objectives(run: files.PathLike) -> list[tuple[int, Path]]:
    """Returns (round, folder) of the objectives that a run kept, oldest first; other folders beside
    them are not of the run.
    """
    named = [(_KEPT.fullmatch(path.name), path) for path in Path(run).glob("objectives/*")]
    return sorted((int(match[1]), path) for match, path in named if match)


def drop_after(run: files.PathLike, number: int) -> None:
    """Deletes the objectives of later rounds than `number`."""
    for later, folder in kept_objectives(run):
        if later > number:
            shutil.rmtree(folder)


def keep_best(folder: RunFolder, experiment: MetaGenRLExperiment) -> None:
    """Makes `best/` the best of the tested objectives, whatever is there.

    Raises:
      RecordError: That objective cannot be read.
    """
    path, best = folder.path, folder.path / "best"
    row = best_round(experiment, folder.metrics.read())
    if row is None:
        shutil.rmtree(best, ignore_errors=True)  # of a round that was dropped
        return
    number = int(row["epoch"])
    try:
        if load_objective(best).facts.get("round") == number:
            return
    except RecordError:
        pass  # there is none yet, or a kill left it half written
    try:
        found = load_objective(path / "objectives" / kept_name(number))
    except RecordError as error:
        raise RecordError(
            f"{path}: the objective of round {number}, the best in tests, cannot be read "
            f"({error}); restore its folder, or start another run"
        ) from error
    save(best, found.phi, experiment, found.facts)
