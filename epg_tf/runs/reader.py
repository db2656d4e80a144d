"""Reads what a run has left in its folder."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

from epg_tf.core import files
from epg_tf.core.errors import ConfigError, RecordError
from epg_tf.core.old_settings import renamed
from epg_tf.runs.config_files import AnyExperiment
from epg_tf.runs.evolution import EVOLUTION
from epg_tf.runs.folder import CONFIG, kind_of
from epg_tf.runs.identity import beginning_in_words, beginning_of
from epg_tf.runs.maml import MAML
from epg_tf.runs.metagenrl import METAGENRL
from epg_tf.runs.metrics import MetricsFile
from epg_tf.runs.rl2 import RL2

_KINDS = {kind.name: kind for kind in (EVOLUTION, METAGENRL, MAML, RL2)}


@dataclasses.dataclass(frozen=True)
class RunRecord:
    """A run as its folder describes it, finished or not.

    Attributes:
      path: The folder.
      kind: "evolution", "metagenrl", "maml" or "rl2".
      experiment: Settings.
      seed: Of all randomness.
      metrics: One row per epoch (or round) done; numbers by the name of their column.
      summary: Content of summary.json; None until the run is finished.
      best: Folder of the best loss so far; None if there is none.
      final: Folder of the last loss or objective; None until the run is finished.
      beginning: What it began with, in words; None: a fresh vector.
    """

    path: Path
    kind: str
    experiment: AnyExperiment
    seed: int
    metrics: list[dict[str, Any]]
    summary: dict[str, Any] | None
    best: Path | None
    final: Path | None
    beginning: str | None = None

    @property
    def finished(self) -> bool:
        """Whether all epochs (or rounds) are done."""
        return self.summary is not None


def read_run(run_dir: files.PathLike) -> RunRecord:
    """Reads the folder of a run; changes nothing, so the run may still be going on.

    Raises:
      RecordError: The folder is not that of a run, or is damaged.
    """
    path = Path(run_dir)
    if not (path / CONFIG).is_file():
        raise RecordError(f"{path}: this is no run, it has no config.json; name the folder of one")
    description = files.read_json(path / CONFIG, "the run's config")
    seed, kind = description.get("seed"), _KINDS.get(kind_of(description))
    if kind is None or type(seed) is not int:
        raise RecordError(f"{path}: config.json is damaged, or of a later version; restore it")
    try:
        experiment = kind.from_mapping(renamed(description.get("config")))
    except ConfigError as error:
        raise RecordError(
            f"{path}: config.json is damaged, or of another version of epg_tf ({error}); restore it"
        ) from error
    summary = None
    if (path / "summary.json").is_file():
        summary = files.read_json(path / "summary.json", "the run's summary")
    return RunRecord(
        path=path,
        kind=kind.name,
        experiment=experiment,
        seed=seed,
        metrics=MetricsFile(path / "metrics.csv").read(),
        summary=summary,
        best=_existing(path / "best"),
        final=_existing(path / "final"),
        beginning=beginning_in_words(beginning_of(description)),
    )


def _existing(folder: Path) -> Path | None:
    return folder if folder.is_dir() else None
