"""Defines what a figure or table is: a name, what it claims, what it needs, and what is made of
that.

Another figure is one more `Declaration` in a catalogue. Its `analysis` is any function from what
was found to a tidy table, numbers in words, and a drawing; `cost_table.meta_training_cost` is the
shortest example, and one that reads losses.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from matplotlib.figure import Figure

from epg_tf.figures.records import FoundLoss, FoundRun, FoundTest

SCALES = ("laptop", "night", "paper")
"""Words of the user for how large the runs behind a figure are, smallest first."""

Changes = tuple[tuple[str, object], ...]
"""Settings, as ("evolution.moves", "both"), that are not those of a config."""
Row = Mapping[str, float | int | str]


@dataclasses.dataclass(frozen=True)
class RunNeed:
    """A finished run of meta-training, of any system.

    Attributes:
      config: NAME:VARIANT of a shipped config, or NAME where it has no variants.
      seed: Of the run.
      changes: Settings that are not those of the config.
      label: What the figure calls it.
      optional: Whether the figure can be drawn without it.
    """

    config: str
    seed: int = 0
    changes: Changes = ()
    label: str = ""
    optional: bool = False


@dataclasses.dataclass(frozen=True)
class LossNeed:
    """A learned loss, whether it is in the folder of a run or comes with the package.

    Attributes:
      run: Which evolution it is of.
      label: What the figure calls it.
      optional: Whether the figure can be drawn without it.
      afresh: Whether its evolution must not have begun with another loss.
    """

    run: RunNeed
    label: str = ""
    optional: bool = False
    afresh: bool = False


@dataclasses.dataclass(frozen=True)
class TestNeed:
    """A test of fresh agents with what a run learned.

    Attributes:
      run: Which meta-training the loss or objective is of.
      methods: Keys of methods that must be in its table, beside the learned one.
      compare: Words with which a command asks for them.
      trained: Rivals that are meta-trained before: key of the method and its run.
      changes: Settings of the test, of task or policy, that are not those of the run.
      updates: Of a life; None: as in evolution.
      alpha: Share of PPO; None: as evolution ends.
      environment: Of an objective: FAMILY or FAMILY@EPISODE_LIMIT; None: the first one of
        meta-training.
      env_steps: Of an objective: of each agent; None: as in meta-training.
      curves: Whether curves are drawn; False: its summary is enough.
      lives: Agents, for the command.
      label: What the figure calls it.
      optional: Whether the figure can be drawn without it.
    """

    __test__ = False  # for pytest

    run: RunNeed
    methods: tuple[str, ...] = ("ppo", "ppo_as_epg")
    compare: tuple[str, ...] = ("ppo",)
    trained: tuple[tuple[str, RunNeed], ...] = ()
    changes: Changes = ()
    updates: int | None = None
    alpha: float | None = None
    environment: str | None = None
    env_steps: int | None = None
    curves: bool = True
    lives: int = 64
    label: str = ""
    optional: bool = False


@dataclasses.dataclass(frozen=True)
class ProgressNeed:
    """A test of the objectives that a run of MetaGenRL kept on its way.

    Attributes:
      run: Which meta-training they are of.
      environment: Where they were tested: FAMILY.
      env_steps: Of each agent; None: as in meta-training.
      label: What the figure calls it.
      optional: Whether the figure can be drawn without it.
    """

    run: RunNeed
    environment: str
    env_steps: int | None = None
    label: str = ""
    optional: bool = False


Need = RunNeed | LossNeed | TestNeed | ProgressNeed


@dataclasses.dataclass(frozen=True)
class Found:
    """What was found for the needs of a figure.

    Attributes:
      scale: Of `SCALES`.
      runs: Need and run, in the order of the declaration; needs that are missing are left out.
      tests: Need and test, of agents or of the objectives that a run kept.
      losses: Need and loss.
    """

    scale: str
    runs: Sequence[tuple[RunNeed, FoundRun]] = ()
    tests: Sequence[tuple[TestNeed | ProgressNeed, FoundTest]] = ()
    losses: Sequence[tuple[LossNeed, FoundLoss]] = ()

    @property
    def folders(self) -> list[Path]:
        """Where they are, each once."""
        paths = [run.shown for _, run in self.runs]
        paths += [test.shown for _, test in self.tests]
        paths += [loss.shown for _, loss in self.losses]
        return list(dict.fromkeys(paths))


@dataclasses.dataclass(frozen=True)
class Findings:
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
    """A figure or table, of a paper or of this package.

    Attributes:
      name: As users type it, e.g. "epg.fig5".
      title: What it shows, one line.
      source: Where it is printed.
      claim: What it is said to show, in our words.
      needs: Scale -> what it is made from; a scale that is absent is not possible.
      analysis: Makes it.
      reason: Why it is not possible, at the scales that are absent.
      method: How our picture is made, where that needs a word.
      claimant: Who says so.
    """

    name: str
    title: str
    source: str
    claim: str
    needs: Mapping[str, Sequence[Need]]
    analysis: Callable[[Found], Findings]
    reason: str = ""
    method: str = ""
    claimant: str = "The paper"
