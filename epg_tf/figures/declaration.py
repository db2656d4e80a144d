"""Defines what a figure or table is: a name, the paper's claim, the folders that it reads, and the
analysis that draws it.

Another figure is one more `Declaration` in a catalogue. Its analysis is any function from `Match`
to a tidy table, numbers in words, and a drawing.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from epg_tf.runs.config_files import AnyExperiment, load_experiment, read_experiment

SCALES = ("laptop", "night", "paper")
"""How large the runs behind a figure are, smallest first."""

Changes = tuple[tuple[str, object], ...]
"""Settings, as ("evolution.moves", "both"), that are not those of a config."""
Row = Mapping[str, float | int | str]


@dataclasses.dataclass(frozen=True)
class Run:
    """A finished run of meta-training, of any system, or what it learned.

    Attributes:
      folder: Below the folder of runs, e.g. "night/goal_ant".
      config: NAME:VARIANT of a config, or NAME where it has no variants.
      seed: Of the run.
      changes: Settings that are not those of the config.
      label: What the figure calls it.
      optional: Whether the figure can be drawn without it.
      instead: What is read where the folder is missing: a pretrained loss or another folder.
    """

    folder: str
    config: str
    seed: int = 0
    changes: Changes = ()
    label: str = ""
    optional: bool = False
    instead: str = ""

    def experiment(self) -> AnyExperiment:
        """Returns the settings that are declared, which those of a folder may differ from."""
        settings: dict[str, Any] = load_experiment(self.config).to_mapping()
        for name, value in self.changes:
            group, _, field = name.rpartition(".")
            (settings[group] if group else settings)[field] = value
        return read_experiment(settings)


@dataclasses.dataclass(frozen=True)
class Test:
    """An evaluation of fresh agents by what runs learned.

    Attributes:
      folder: Below the folder of runs, e.g. "tests/random_hopper-laptop".
      runs: Whose losses or objectives are evaluated; all have one config.
      compare: Baselines, as the command names them; empty for none.
      trained: Baselines that are meta-trained before: key of the method and its run.
      flags: Further flags of the command and their values.
      lives: Agents of each method.
      label: What the figure calls it: "PANEL: CURVE".
      optional: Whether the figure can be drawn without it.
      curves: Whether curves are drawn; otherwise its summary is enough, also FOLDER.json alone.
      progress: Whether it is of the objectives that a run kept along meta-training.
    """

    __test__ = False  # for pytest

    folder: str
    runs: tuple[Run, ...]
    compare: tuple[str, ...] = ("ppo",)
    trained: tuple[tuple[str, Run], ...] = ()
    flags: tuple[tuple[str, object], ...] = ()
    lives: int = 64
    label: str = ""
    optional: bool = False
    curves: bool = True
    progress: bool = False


Source = Run | Test


@dataclasses.dataclass(frozen=True)
class Match:
    """What is there for a figure.

    Attributes:
      scale: Of `SCALES`.
      sources: What was declared and the path that is read, in the order of the declaration; a
        pretrained loss has its name as path.
    """

    scale: str
    sources: Sequence[tuple[Source, Path]] = ()

    @property
    def runs(self) -> list[tuple[Run, Path]]:
        """Those that are runs."""
        return [(each, path) for each, path in self.sources if isinstance(each, Run)]

    @property
    def tests(self) -> list[tuple[Test, Path]]:
        """Those that are evaluations."""
        return [(each, path) for each, path in self.sources if isinstance(each, Test)]


@dataclasses.dataclass(frozen=True)
class Result:
    """What an analysis returns.

    Attributes:
      table: Tidy data, one mapping a row, all with the same keys.
      numbers: Lines of the caption: numbers with their intervals.
      draw: Draws the picture under a title.
    """

    table: Sequence[Row]
    numbers: Sequence[str]
    draw: Callable[[str], Figure]


@dataclasses.dataclass(frozen=True)
class Declaration:
    """A figure or table of a paper.

    Attributes:
      name: As users type it, e.g. "epg.fig5".
      title: What it shows, one line.
      source: Where it is printed.
      claim: What the paper says that it shows, in our words.
      sources: Scale -> what it reads; a scale that is absent is not declared.
      analysis: Makes it.
      method: How our picture is made, where that needs a word.
    """

    name: str
    title: str
    source: str
    claim: str
    sources: Mapping[str, Sequence[Source]]
    analysis: Callable[[Match], Result]
    method: str = ""
