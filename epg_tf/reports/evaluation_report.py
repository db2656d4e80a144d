"""Writes what a test leaves in its folder: the table, a picture and a summary."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from epg_tf.core import files
from epg_tf.evaluation.results import RESULTS_FILE, Results
from epg_tf.evaluation.summary import as_json, summarize
from epg_tf.reports.agent_plots import learning_figure
from epg_tf.reports.panels import objective_panels
from epg_tf.reports.plots import write_png

SUMMARY_FILE = "summary.json"
OWN = (RESULTS_FILE, "curves.png", SUMMARY_FILE)


def write_report(
    folder: files.PathLike, results: Results, about: Mapping[str, Any], title: str
) -> Path:
    """Writes `curves.csv`, `curves.png` and `summary.json`; returns the picture.

    Args:
      folder: Exists.
      results: What was found.
      about: What was tested and how, for the summary.
      title: Line above the picture.

    Raises:
      OSError: A file cannot be written.
    """
    folder = Path(folder)
    results.write(folder / RESULTS_FILE)
    write_png(learning_figure(results, title), folder / "curves.png")
    summary = {**as_json(summarize(results)), "about": about}
    files.write_json(folder / SUMMARY_FILE, summary)
    return folder / "curves.png"


def write_grid(
    folder: files.PathLike, results: Results, trained: Mapping[str, str], about: Mapping[str, Any]
) -> Path:
    """Writes the files of `write_report` for objectives at stages of meta-training.

    Args:
      folder: Exists.
      results: What was found with each of them.
      trained: Name of an objective -> how long it was trained, e.g. "500 env steps".
      about: What was tested and how, for the summary; its `environment` is the picture's title.

    Returns:
      The picture.

    Raises:
      OSError: A file cannot be written.
    """
    folder = Path(folder)
    results.write(folder / RESULTS_FILE)
    titles = {loss: f"after {steps} per agent" for loss, steps in trained.items()}
    title = f"Fresh agents in {about['environment']}"
    write_png(objective_panels(results, titles, title), folder / "curves.png")
    objectives = {
        loss: as_json(summarize(results.select(loss=loss)))["objective"] for loss in trained
    }
    files.write_json(folder / SUMMARY_FILE, {"objectives": objectives, "about": about})
    return folder / "curves.png"
