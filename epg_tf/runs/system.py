"""Declares what a session needs to know of a system that it runs: EPG, MetaGenRL, MAML or RL²."""

from __future__ import annotations

import abc
import math
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Generic, NamedTuple, Protocol, TypeVar

from epg_tf.core.communication import Communicator, SingleProcess
from epg_tf.core.types import Array
from epg_tf.runs.checkpoints import Checkpoint, Wanted
from epg_tf.runs.folder import RunFolder, RunLength
from epg_tf.runs.identity import RunIdentity, RunKind
from epg_tf.runs.standstill import Standstill, is_most

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class StepResult(Protocol):
    """What a system yields after a step: an epoch, a round or an iteration."""

    @property
    def metrics(self) -> dict[str, float]:
        """Numbers by the name of their column; `epoch` is the number of the step."""


StepT = TypeVar("StepT", bound=StepResult)


class Failures(NamedTuple):
    """When a run has failed.

    Attributes:
      column: Number of failures in a step.
      most: What it is where everything failed.
      steps: So many steps in a row end the run; 0: none do.
      why: Returns, of so many newest steps, what failed in one line, with what to do.
    """

    column: str
    most: int
    steps: int
    why: Callable[[int], str]


class System(abc.ABC, Generic[StepT]):
    """One run of a system in memory; `Session` records it.

    Args:
      communicator: The ranks that share the work; None: one process.

    Attributes:
      kind: What is the same for all runs of the system.
      stopping: What users read when they stop the run.
      identity: What makes the run this run.
      length: How long it is.
      columns: Names of the numbers of a step.
      newer: Columns that metrics.csv of earlier versions may lack.
      lives: Of a step, which move the progress bar; 1: only whole steps do.
      curves: Panels of the learning curve against env steps, and their columns.
      failures: When the run has failed; None: the system itself says so.
      standstill: Finds steps that changed nothing; None: nothing does.

    Raises:
      ConfigError: The seed is not usable, or settings do not fit together.
    """

    kind: ClassVar[RunKind]
    stopping: ClassVar[str]
    length: RunLength
    columns: Sequence[str]
    newer: Sequence[str] = ()
    lives = 1
    curves: Mapping[str, str] = {}
    failures: Failures | None = None
    standstill: Standstill | None = None

    def __init__(
        self,
        experiment: Any,
        seed: int,
        communicator: Communicator | None = None,
        begun: Mapping[str, Any] | None = None,
    ):
        experiment.check()
        self._experiment, self._seed = experiment, seed
        self.identity = RunIdentity(self.kind, experiment.to_mapping(), seed, begun or {})
        self.communicator = communicator or SingleProcess()

    @property
    @abc.abstractmethod
    def done(self) -> int:
        """Number of steps done."""

    @abc.abstractmethod
    def steps(self, advance: Callable[[int], None]) -> Iterator[StepT]:
        """Runs from the present state to the end, and yields after each step.

        Args:
          advance: To be called with the number of lives that have ended on this rank.

        Raises:
          Interrupted: `stop` was called.
          RunFailed: The run cannot go on.
        """

    def stop(self) -> None:
        """Ends the step that runs now as soon as possible; it is repeated by a resumed run."""

    # What is saved

    @abc.abstractmethod
    def arrays(self) -> tuple[dict[str, Array], dict[str, Any]]:
        """Returns the arrays and the facts of a checkpoint, of which equal states have equal."""

    @abc.abstractmethod
    def restore(self, path: Path, folder: RunFolder | None) -> None:
        """Continues from the newest state that is saved; every rank calls it before its steps.

        Args:
          folder: The folder that this rank has just opened; None: another rank records, or the
            state in memory is the newest one.

        Raises:
          RecordError: No checkpoint can be read, though there is or was one; or it is of a run of
            another seed or other settings.
        """

    def keep(self, folder: RunFolder, result: StepT | None) -> None:
        """Writes what a step leaves besides its row and its checkpoint, which follows.

        Args:
          result: Of the step; None before the first one of this process, to make up for a kill.
        """

    def leave(self, folder: RunFolder) -> None:
        """Writes what a stopped run leaves besides its checkpoint."""

    @abc.abstractmethod
    def finish(self, folder: RunFolder, rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """Writes what a finished run leaves; returns what its summary has besides its facts."""

    # What is shown

    def figure(self, rows: Sequence[Mapping[str, Any]]) -> Figure:
        """Draws the learning curve."""
        # Imported here because `import epg_tf` needs no matplotlib.
        from epg_tf.reports.objective_plots import column_panels

        title = "Meta-training: mean return of episodes, with exploration"
        return column_panels({"": rows}, self.curves, title)

    @staticmethod
    @abc.abstractmethod
    def purpose(experiment: Any) -> str:
        """Returns what runs of some settings do, e.g. "evolving a loss for point_goal"."""

    @staticmethod
    @abc.abstractmethod
    def costs(experiment: Any, done: int = 0, ranks: int = 1) -> list[str]:
        """Returns lines on what a run does after some steps, on some ranks, and what it costs."""

    def opening(self, path: Path) -> list[str]:
        """Returns lines on what is left to do in the folder of the run, and what that costs."""
        unit, done, ranks = self.kind.unit, self.done, self.communicator.size
        if done == self.length.epochs:
            return [
                f"all {done} {unit}s of the run in {path} are done, and what a finished run leaves "
                f"is written; a larger {self.length.field} continues it"
            ]
        where = f"in {path}" + (f", on {ranks} ranks" if ranks > 1 else "")
        continued = f", continued after {unit} {done}" if done else ""
        return [
            f"{self.purpose(self._experiment)} {where}{continued}",
            *self.costs(self._experiment, done, ranks),
        ]

    @abc.abstractmethod
    def line(self, result: StepT) -> str:
        """Returns the numbers of a step in one line."""

    def notes(self, result: StepT) -> list[str]:
        """Returns lines that are shown after a step in any case."""
        del result
        return []

    @abc.abstractmethod
    def ending(self, summary: Mapping[str, Any]) -> list[str]:
        """Returns lines on how a finished run ended."""

    def what_it_did(self, summary: Mapping[str, Any], learned: str) -> str:
        """Returns what a finished run did, e.g. "evolved 5 parameters in"; but "ended after" where
        most of its steps changed nothing.
        """
        unit = self.kind.unit
        unchanged = summary.get(f"unchanged_{unit}s", 0)
        return "ended after" if is_most(unchanged, summary[f"{unit}s"]) else learned


def failures(rows: Sequence[Mapping[str, Any]], *columns: str) -> int:
    """Returns the sum of some columns; what was not counted, NaN, is 0. A row may lack columns."""
    counted = (row.get(column, 0) for row in rows for column in columns)
    return int(sum(number for number in counted if 0 < number < math.inf))


class OneCheckpoint(System[StepT]):
    """A system whose whole state is in one checkpoint a step.

    Attributes:
      finite: Names of its arrays whose numbers are always finite.
    """

    finite: Set[str]

    @abc.abstractmethod
    def load(self, checkpoint: Checkpoint) -> None:
        """Continues from a checkpoint that fits."""

    def restore(self, path: Path, folder: RunFolder | None) -> None:
        """Continues from the newest checkpoint that can be read; raises as `System.restore`."""
        del path
        if folder is None:
            return
        wanted = Wanted(self.identity, *self.arrays(), finite=self.finite)
        if checkpoint := folder.newest_checkpoint(wanted):
            self.load(checkpoint)
