"""Runs any system in a folder: starts or resumes it, records every step, stops and finishes it."""

from __future__ import annotations

import contextlib
import dataclasses
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Generic

from epg_tf.core import files
from epg_tf.core.errors import Interrupted, RunFailed, Stopped
from epg_tf.runs import checkpoints
from epg_tf.runs.folder import RunFolder, RunTarget
from epg_tf.runs.progress import Progress, Write
from epg_tf.runs.system import StepT, System

_PICTURES = 0.01  # share of a run's time for drawing, which takes longer the more rows there are


def run_in_folder(
    system: System[StepT], target: RunTarget, write: Write | None = None
) -> Iterator[StepT]:
    """Runs a system to its end and records it; the caller may leave the loop at any step.

    Stopped in any way, the run can be resumed, and ends with the same bits as without the stop.

    Args:
      system: As new.
      write: Called with lines about progress, e.g. print; None is silent.

    Yields:
      A result per step, after it is recorded.

    Raises:
      RecordError, OSError, RunFailed: As `Session.steps`.
    """
    with contextlib.closing(Session(system, target, write)) as session:
        yield from session.steps()


class Session(Generic[StepT]):
    """What one rank does in a run. Only rank 0 opens the folder and shows progress.

    Args:
      system: What runs; equal on every rank.
      write: Called with lines about progress on rank 0; None is silent.
    """

    def __init__(self, system: System[StepT], target: RunTarget, write: Write | None = None):
        self._system, self._target = system, target
        self._path = Path(target.path)
        self._folder: RunFolder | None = None
        self._write = write
        shown = None if write is None else self._show
        self._progress = Progress(system.kind.unit, self._path, shown, system.lives)
        self._next_picture = 0.0  # s, on the clock of `time.perf_counter`
        self._continued = self._begun = self._stopped = False
        self._failed_steps = 0

    def steps(self) -> Iterator[StepT]:
        """Runs and records to the end, from the state in the folder.

        Elastic Horovod calls this again after ranks were lost or joined.

        Yields:
          A result per step, after it is recorded. After the last one the files of a finished run
          are written.

        Raises:
          Interrupted, Stopped: `stop` was called.
          RecordError: The folder cannot be used in this way; nothing has been deleted. Or it was
            moved or deleted meanwhile; nothing is written to what is there now.
          OSError: A file cannot be written; earlier checkpoints are unchanged.
          RunFailed: Too many steps in a row failed.
        """
        system = self._system
        try:
            self.begin()
            for result in system.steps(self._progress.advance):
                self._record(result)
                yield result
                self._check_failures(result)
                if self._stopped:
                    raise Interrupted
                system.communicator.admit()
        except (Interrupted, Stopped, KeyboardInterrupt, GeneratorExit):
            self._leave()
            raise
        except RunFailed as error:
            if self._folder is not None:
                self._folder.log(f"error: {error}")
            raise
        finally:
            self._progress.close()
        self._finish()

    def _show(self, line: str) -> None:
        """Writes a line, also into the log of the run."""
        if self._folder is not None:
            self._folder.log(line)
        if self._write is not None:
            self._write(line)

    def begin(self) -> None:
        """Restores the newest state on all ranks, and shows what is left to do on rank 0.

        Raises:
          RecordError, OSError: As `steps`, which calls this.
        """
        system, communicator = self._system, self._system.communicator
        communicator.check_same(
            "what the run does (settings, seed, versions)", system.identity.digest()
        )
        opened = self._open() if communicator.rank == 0 and self._folder is None else None
        system.restore(self._path, opened)
        if self._folder is not None:
            self._continue(self._folder)
            self._progress.lines(system.opening(self._path))
            self._progress.begin(system.done, system.length.epochs, communicator.size)
        self._begun = True
        # The same on every rank, or one alone would end the run.
        self._failed_steps = communicator.broadcast_number(self._count_failed_steps())

    def _continue(self, folder: RunFolder) -> None:
        """Drops what was recorded after the restored state, once after the folder was opened."""
        if not self._continued:
            system = self._system
            folder.continue_after(system.done, system.length, system.columns, system.newer)
            self._progress.lines(folder.warnings)
            system.keep(folder, None)
            self._save(folder)
            self._continued = True

    def _open(self) -> RunFolder:
        """Opens the folder; where this rank replaces a rank 0 that was lost, it resumes."""
        target = self._target
        if self._begun:
            target = dataclasses.replace(target, resume=True, overwrite=False)
        self._folder = RunFolder(self._system.identity, target)
        return self._folder

    def _count_failed_steps(self) -> int:
        """Reads it from the folder, so that stops do not matter; 0 on ranks without one."""
        failures = self._system.failures
        if self._folder is None or failures is None:
            return 0
        return self._folder.metrics.newest_in_a_row(failures.column, failures.most)

    def _check_failures(self, result: StepT) -> None:
        failures = self._system.failures
        if failures is None:
            return
        failed = result.metrics[failures.column] == failures.most
        self._failed_steps = self._failed_steps + 1 if failed else 0
        if failures.steps and self._failed_steps >= failures.steps:
            raise RunFailed(failures.why(self._failed_steps))

    def _record(self, result: StepT) -> None:
        """Writes a step; the checkpoint last, so that after a kill the step is repeated."""
        system, folder = self._system, self._folder
        if folder is None:
            return
        folder.check()
        folder.metrics.append(result.metrics)
        numbers = {name: value for name, value in result.metrics.items() if name != "epoch"}
        folder.board.scalars(system.done, numbers, system.kind.name)
        system.keep(folder, result)
        self._save(folder)
        if time.perf_counter() >= self._next_picture:
            self._draw(folder)
        self._progress.show(system.done, system.line(result), system.notes(result))
        if system.standstill and (notice := system.standstill.notice(result.metrics)):
            self._progress.lines([notice])

    def _save(self, folder: RunFolder) -> None:
        system = self._system
        arrays, facts = system.arrays()
        path = folder.path / "checkpoints"
        checkpoints.save(path, system.done, arrays, facts, identity=folder.identity)

    def _draw(self, folder: RunFolder) -> None:
        """Draws the learning curve; the next one is due once this took its share of the time."""
        from epg_tf.reports import plots  # here: `import epg_tf` needs no matplotlib

        folder.check()
        began = time.perf_counter()
        figure = self._system.figure(folder.metrics.read())
        plots.write_png(figure, folder.path / "learning_curve.png")
        ended = time.perf_counter()
        self._next_picture = ended + (ended - began) / _PICTURES

    def _leave(self) -> None:
        """Records that the run was stopped, if it had begun."""
        if self._folder is not None and self._begun:
            self._folder.check()
            self._system.leave(self._folder)
            self._progress.stopped(self._system.done)

    def _finish(self) -> None:
        """Writes what a finished run leaves."""
        folder = self._folder
        if folder is None:
            return
        folder.check()
        rows, unit = folder.metrics.read(), self._system.kind.unit
        summary = {
            f"{unit}s": self._system.done,
            "seconds": sum(row["seconds"] for row in rows),
            **self._system.finish(folder, rows),
        }
        if still := self._system.standstill:
            summary[f"unchanged_{unit}s"] = still.count(rows)
            summary["standstill"] = still.conclusion(rows)
        self._draw(folder)
        folder.board.picture("learning curve", folder.path / "learning_curve.png")
        files.write_json(folder.path / "summary.json", summary | folder.facts)
        if line := summary.get("standstill"):
            self._progress.lines([line])
        self._progress.lines(self._system.ending(summary))

    def silence(self) -> None:
        """Shows nothing from now on; the log of the run goes on."""
        self._write = None

    def stop(self) -> None:
        """Ends the step that runs now, or the run after it, and the waiting for other ranks."""
        self._stopped = True
        self._system.stop()
        self._system.communicator.stop()

    def close(self) -> None:
        """Lets other processes use the folder."""
        self._progress.close()
        if self._folder is not None:
            self._folder.close()
