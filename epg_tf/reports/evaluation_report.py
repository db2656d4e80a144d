"""Writes what a test leaves in its folder: the table, a picture and a summary."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from epg_tf.core import files
from epg_tf.evaluation.results import RESULTS_FILE, Results
from epg_tf.evaluation.summary import as_json, summarize
from epg_tf.reports.agent_plots import learning_figure
from epg_tf.reports.panels import objective_panels
from epg_tf.reports.plots import write_png

SUMMARY_FILE = "summary.json"
PICTURE_FILE = "curves.png"
OWN = (RESULTS_FILE, PICTURE_FILE, SUMMARY_FILE)


def write_report(
    folder: files.PathLike, results: Results, about: Mapping[str, Any], title: str
) -> Path:
    """Writes `curves.csv`, `curves.png` and `summary.json`; returns the picture.

    Raises:
      OSError: A file cannot be written.
    """
    summary = {**as_json(summarize(results)), "about": about}
    return _write(Path(folder), results, learning_figure(results, title), summary)


def write_grid(
    folder: files.PathLike, results: Results, trained: Mapping[str, str], about: Mapping[str, Any]
) -> Path:
    """Writes the files of `write_report` for objectives at stages of meta-training.

    Args:
      trained: Name of an objective -> how long it was trained, e.g. "500 env steps".
      about: What was tested and how, for the summary; its `environment` is the picture's title.

    Returns:
      The picture.

    Raises:
      OSError: A file cannot be written.
    """
    titles = {loss: f"after {steps} per agent" for loss, steps in trained.items()}
    figure = objective_panels(results, titles, f"Fresh agents in {about['environment']}")
    objectives = {
        loss: as_json(summarize(results.select(loss=loss)))["objective"] for loss in trained
    }
    return _write(Path(folder), results, figure, {"objectives": objectives, "about": about})


def _write(folder: Path, results: Results, figure: Figure, summary: Mapping[str, Any]) -> Path:
    results.write(folder / RESULTS_FILE)
    write_png(figure, folder / PICTURE_FILE)
    files.write_json(folder / SUMMARY_FILE, summary)
    return folder / PICTURE_FILE
