"""Draws what runs of meta-training recorded, column by column."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.figure import Figure

from epg_tf.core.types import Array
from epg_tf.reports.panels import Curves, run_panels
from epg_tf.reports.plots import column

Rows = Sequence[Mapping[str, float]]
"""Of a metrics.csv, one for each epoch, round or iteration."""

STEPS = "environment steps of meta-training"


def column_panels(
    runs: Mapping[str, Rows], columns: Mapping[str, str], title: str, x: str = STEPS
) -> Figure:
    """Draws columns of runs, one panel each, through their known values.

    Args:
      columns: What a panel shows, e.g. "return in Hopper-v5" -> its column.
      x: "epoch", or `STEPS` for the column `env_steps`.
    """
    place = "env_steps" if x == STEPS else x
    panels = {
        shown: {run: _known(column(rows, place), column(rows, name)) for run, rows in runs.items()}
        for shown, name in columns.items()
    }
    return run_panels(panels, title, (x, ""))


def _known(x: Array, values: Array) -> Curves:
    known = np.isfinite(values)
    return Curves(x[known], values[None, known])


def varying_columns(rows: Rows, without: Sequence[str] = ()) -> dict[str, str]:
    """Returns name -> name of the columns with different values, but for those of `without`."""
    found = {}
    for name in rows[0] if rows else ():
        values = column(rows, name)
        if name not in without and len(np.unique(values[np.isfinite(values)])) > 1:
            found[name] = name
    return found
