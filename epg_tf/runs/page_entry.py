"""Defines what a page shows of one folder, and the film strip that runs and tests share."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from epg_tf.artifacts.learned_loss import load_loss
from epg_tf.artifacts.learned_objective import is_objective
from epg_tf.core.errors import ConfigError, RecordError, RenderError
from epg_tf.core.files import PathLike
from epg_tf.core.types import LifeKey
from epg_tf.evaluation.summary import Summary
from epg_tf.reports.html_page import Block, Picture, Section, Text
from epg_tf.reports.life_pictures import film_strip_of_life
from epg_tf.reports.run_charts import Rows


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
      loss: Folder of a loss or of a run, or name of a shipped loss.
    """
    return Section("Film strip", _film(loss))


def _film(loss: PathLike) -> list[Block]:
    try:
        if is_objective(loss):
            return [_none("objectives of MetaGenRL have no film strips yet")]
        learned = load_loss(loss)
        png = film_strip_of_life(learned.experiment, learned.phi, LifeKey(0, "test", 0, 0))
    except (ConfigError, RecordError, RenderError) as error:
        return [_none(str(error))]
    shows = f"Frames of one agent that learns with {loss}, four episodes of its life"
    remark = "One agent in an unseen task: four episodes of its life, from first to final policy."
    return [Text(remark, note=True), Picture(png, shows)]


def _none(reason: str) -> Text:
    return Text(f"There is no film strip here: {reason}.", note=True)
