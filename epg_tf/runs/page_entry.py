"""Defines what a page shows of one folder, and the film strip that runs and tests share."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from epg_tf.artifacts.artifact import is_objective, load_loss
from epg_tf.core.errors import ConfigError, RecordError, RenderError
from epg_tf.core.files import PathLike
from epg_tf.core.types import LifeKey
from epg_tf.evaluation.summary import Summary
from epg_tf.reports.html_page import Block, Picture, Section, Text
from epg_tf.reports.life_pictures import film_of_life
from epg_tf.reports.objective_plots import Rows
from epg_tf.reports.plots import svg


@dataclasses.dataclass(frozen=True)
class Entry:
    """What a page shows of one folder.

    Attributes:
      path: The folder.
      what: E.g. "evolution of a loss".
      sections: From top to bottom.
      settings: Of the experiment, nested; empty where they are not known.
      rows: Of a run: its metrics.
      summaries: Of a test: how each method did.
    """

    path: Path
    what: str
    sections: Sequence[Section]
    settings: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    rows: Rows = ()
    summaries: Mapping[str, Summary] = dataclasses.field(default_factory=dict)


def film_section(loss: PathLike) -> Section:
    """Returns the film strip of one life with a loss, or the reason why there is none.

    Args:
      loss: Folder of a loss or of a run, or name of a pretrained loss.
    """
    blocks: list[Block]
    try:
        if is_objective(loss):
            raise RenderError("objectives of MetaGenRL have no film strips yet")
        learned = load_loss(loss)
        film = film_of_life(learned.experiment, learned.phi, LifeKey(0, "test", 0, 0))
    except (ConfigError, RecordError, RenderError) as error:
        blocks = [Text(f"There is no film strip here: {error}.", note=True)]
    else:
        remark = "One agent in an unseen task: four episodes, from first to final policy."
        blocks = [Text(remark, note=True), Picture(svg(film), f"One agent that learns with {loss}")]
    return Section("Film strip", blocks)
