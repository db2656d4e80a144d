"""Matches what a figure needs with what was found, and says what is missing."""

from __future__ import annotations

import dataclasses
import functools
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from epg_tf.artifacts.artifact import (
    LearnedLoss,
    LearnedObjective,
    load_loss,
    load_objective,
    shipped_losses,
    shipped_objectives,
)
from epg_tf.core.config_files import AnyExperiment
from epg_tf.core.errors import ConfigError
from epg_tf.figures import commands, settings, tables
from epg_tf.figures.commands import Command
from epg_tf.figures.costs import whole_cost
from epg_tf.figures.declaration import (
    Declaration,
    Found,
    LossNeed,
    Need,
    ProgressNeed,
    RunNeed,
    TestNeed,
)
from epg_tf.figures.records import FoundLoss, FoundRun, FoundTest, Library
from epg_tf.runs.folder import beginning_in_words

State = Literal["ready", "missing", "interrupted", "not possible"]


@dataclasses.dataclass(frozen=True)
class Status:
    """What can be said of a figure before it is made.

    Attributes:
      declaration: The figure.
      state: "ready": it can be drawn; "interrupted": a run that it needs has begun and not ended.
      found: What is there for it.
      losses: Losses that are there, whose tests are missing.
      missing: What is not, in words; what a figure can do without, too.
      commands: Make what is missing, in their order.
      reason: Why it is not possible; empty if it is.
      env_steps: Cost of all that it needs, what is there included.
    """

    declaration: Declaration
    state: State
    found: Found
    losses: Sequence[Path] = ()
    missing: Sequence[str] = ()
    commands: Sequence[Command] = ()
    reason: str = ""
    env_steps: float = 0.0


def status_of(declaration: Declaration, scale: str, library: Library, folder: Path) -> Status:
    """Returns what can be said of a figure.

    Args:
      declaration: The figure.
      scale: Of `declaration.SCALES`.
      library: What was found.
      folder: Where commands are to write what is missing.
    """
    nothing = Found(scale)
    if scale not in declaration.needs:
        reason = declaration.reason or f"it is not declared at scale {scale}"
        return Status(declaration, "not possible", nothing, reason=reason)
    needs = tuple(declaration.needs[scale])
    search = _Search(library, folder)
    try:
        met = [search.meet(need) for need in needs]
        cost = whole_cost(needs)
    except ConfigError as error:  # e.g. a config without a variant of this scale
        return Status(declaration, "not possible", nothing, reason=str(error))
    found = _found(scale, zip(needs, met, strict=True))
    lacking = [need for need, one in zip(needs, met, strict=True) if one is None]
    state: State = "ready"
    if any(not need.optional for need in lacking) or (needs and len(lacking) == len(needs)):
        state = "interrupted" if search.interrupted else "missing"
    there = list(search.losses)
    return Status(
        declaration, state, found, there, search.missing, list(search.commands), env_steps=cost
    )


def _found(scale: str, pairs: Iterable[tuple[Need, object]]) -> Found:
    there = [(need, one) for need, one in pairs if one is not None]
    return Found(
        scale,
        [(n, one) for n, one in there if isinstance(n, RunNeed) and isinstance(one, FoundRun)],
        [
            (n, one)
            for n, one in there
            if isinstance(n, TestNeed | ProgressNeed) and isinstance(one, FoundTest)
        ],
        [(n, one) for n, one in there if isinstance(n, LossNeed) and isinstance(one, FoundLoss)],
    )


class _Search:
    """Meets the needs of one figure, and collects what is missing.

    Attributes:
      losses: Whose tests are missing; a dictionary, for each counts once.
      missing: In words.
      commands: Make it; a dictionary, for each counts once.
      interrupted: Whether a run has begun and not ended.
    """

    def __init__(self, library: Library, folder: Path):
        self._library, self._folder = library, folder
        self.losses: dict[Path, None] = {}
        self.missing: list[str] = []
        self.commands: dict[Command, None] = {}
        self.interrupted = False

    def meet(self, need: Need) -> FoundRun | FoundTest | FoundLoss | None:
        """Returns what meets a need; None where nothing does, which is then noted."""
        if isinstance(need, RunNeed):
            return self._run(need)
        if isinstance(need, LossNeed):
            return self._loss(need)
        return self._test(need) if isinstance(need, TestNeed) else self._progress(need)

    def _run(self, need: RunNeed) -> FoundRun | None:
        finished = [run for run in self._runs(need) if run.finished]
        if finished:  # the most alike; among equal ones the longest, then the first
            return min(finished, key=lambda run: _unlike(need, run))
        self._begin(need)
        return None

    def _runs(self, need: RunNeed) -> list[FoundRun]:
        return [run for run in self._library.runs if settings.is_run(need, run)]

    def _begin(self, need: RunNeed, afresh: bool = False) -> Path:
        """Notes the command that starts or continues a run; returns its folder. With `afresh` it
        continues none that began with another loss.
        """
        fitting = (run for run in self._runs(need) if not (afresh and run.record.beginning))
        begun = [run for run in fitting if run.can_continue]
        what = f"the run of {_words(need)}"
        if begun:
            path, self.interrupted = begun[0].shown, True
            self.missing.append(f"{what}: {path} is not finished")
            self.commands[commands.resume_run(need, path)] = None
            return path
        self.missing.append(what)
        self.commands[commands.make_run(need, self._folder)] = None
        return commands.run_folder(need, self._folder)

    def _loss(self, need: LossNeed) -> FoundLoss | None:
        loss = self._known_loss(need.run, need.afresh)
        if loss is None:
            self._begin(need.run, need.afresh)
        return loss

    def _known_loss(self, need: RunNeed, afresh: bool = False) -> FoundLoss | None:
        """Returns what a run learned, as alike as there is: from the folder of a run, from the
        package, or kept without its run; among equal ones the longest run, then this order. With
        `afresh` none that began with another loss.
        """
        there = [
            (_unlike(need, run), FoundLoss(str(run.shown), run.shown, run.record.beginning))
            for run in self._runs(need)
            if run.finished and run.loss is not None
        ]
        alone: list[tuple[str, AnyExperiment, Mapping[str, Any]]]
        alone = [(name, its.experiment, its.facts) for name, its in _shipped().items()]
        alone += [(str(kept.path), kept.experiment, kept.facts) for kept in self._library.losses]
        for name, experiment, facts in alone:
            if settings.is_loss(need, experiment, facts):
                beginning = beginning_in_words(facts)
                loss = FoundLoss(name, Path(name), beginning)
                there.append(((_changes(need, experiment, beginning), 0), loss))
        if afresh:
            there = [(unlike, loss) for unlike, loss in there if loss.beginning is None]
        return min(there, key=lambda pair: pair[0])[1] if there else None

    def _test(self, need: TestNeed) -> FoundTest | None:
        fitting = [test for test in self._library.tests if settings.is_test(need, test)]
        if fitting:  # the most alike; among equal ones that of most agents
            return min(fitting, key=lambda test: (_of_others(need, test), -_agents(test)))
        self.missing.append(f"a test of {_words(need.run)}{_of_test(need)}")
        loss = self._known_loss(need.run)
        if loss is not None:
            self.losses[loss.shown] = None
        named = str(self._begin(need.run)) if loss is None else loss.name
        trained = {name: self._trained(run) for name, run in need.trained}
        self.commands[commands.make_test(need, named, trained, self._folder)] = None
        return None

    def _trained(self, need: RunNeed) -> Path:
        there = [run for run in self._runs(need) if run.finished and run.loss is not None]
        if there:
            return min(there, key=lambda run: _unlike(need, run)).shown
        return self._begin(need)

    def _progress(self, need: ProgressNeed) -> FoundTest | None:
        runs = [run for run in self._runs(need.run) if run.finished and not run.archived]
        for test in self._library.tests:
            if settings.is_progress(need, test, runs):
                return test
        self.missing.append(f"a test of the objectives that {_words(need.run)} kept")
        path = runs[0].shown if runs else self._begin(need.run)
        self.commands[commands.make_progress(need, path, self._folder)] = None
        return None


def _agents(test: FoundTest) -> int:
    """Returns the number of agents of a test."""
    return max(tables.agents_of(row) for row in test.methods.values())


def _unlike(need: RunNeed, run: FoundRun) -> tuple[int, int]:
    """Returns in how many things a run differs from what is needed, and minus its length."""
    record = run.record
    return _changes(need, record.experiment, record.beginning), -len(record.metrics)


def _changes(need: RunNeed, found: AnyExperiment, beginning: str | None) -> int:
    """Returns in how many settings a run differs, one more if it did not begin afresh."""
    return len(settings.differences(need, found)) + (beginning is not None)


def _of_others(need: TestNeed, test: FoundTest) -> int:
    """Returns in how many things what was tested differs; many where they are not stated."""
    if test.experiment is None:
        return sys.maxsize
    return _changes(need.run, test.experiment, test.beginning)


def _words(need: RunNeed) -> str:
    changes = "".join(f", {name}={value}" for name, value in need.changes)
    return f"{need.config}{changes}, seed {need.seed}"


def _of_test(need: TestNeed) -> str:
    words = [f"{name}={value}" for name, value in need.changes]
    words += [f"in {need.environment}"] if need.environment else []
    words += [f"{need.updates} updates"] if need.updates else []
    words += [f"alpha {need.alpha}"] if need.alpha is not None else []
    rivals = [*need.methods, *(name for name, _ in need.trained)]
    words += [f"beside {', '.join(rivals)}"] if rivals else []
    return f" ({'; '.join(words)})" if words else ""


@functools.cache
def _shipped() -> dict[str, LearnedLoss | LearnedObjective]:
    """Returns the losses and objectives that come with the package."""
    objectives = {name: load_objective(name) for name in shipped_objectives()}
    losses = sorted({*shipped_losses()} - {*objectives})
    return {name: load_loss(name) for name in losses} | objectives
