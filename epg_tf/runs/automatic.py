"""Evolves a loss in a family of which nothing is known but itself, within a budget of minutes.

A part of the budget chooses settings (`settings_search`), which then evolve as an ordinary run in
the folder "1". A run that has stopped to improve ends; what is left of the budget goes to a run of
the next best candidate in "2", and so on. `search.json` keeps every choice, so that a stopped
budget goes on, and each run's own config, begun with what it began with, repeats it to the bit.
A run that fails ends like one that has stopped to improve.
"""

from __future__ import annotations

import dataclasses
import math
import shutil
import time
from collections.abc import Collection
from pathlib import Path
from typing import Any

import numpy as np

from epg_tf.artifacts.artifact import LearnedLoss, load_loss
from epg_tf.artifacts.loss_files import holds_loss
from epg_tf.core import files, formatting
from epg_tf.core.errors import Interrupted, RecordError, RunFailed
from epg_tf.epg import candidates as choices
from epg_tf.epg.candidates import AROUND_POLICY, Agents, fixed_settings
from epg_tf.epg.settings import Experiment
from epg_tf.epg.shards import Shards
from epg_tf.runs.evolution import EvolutionSystem
from epg_tf.runs.fixed_policy import FOLDER, evolved_policy
from epg_tf.runs.folder import CONFIG, RunTarget
from epg_tf.runs.folder_lock import FolderLock
from epg_tf.runs.metrics import MetricsFile
from epg_tf.runs.own_families import SETTINGS
from epg_tf.runs.progress import Write
from epg_tf.runs.session import Session
from epg_tf.runs.settings_search import SettingsSearch, Tried, begun_candidates, fitting, ranking
from epg_tf.runs.standstill import PATIENCE, has_stopped_improving
from epg_tf.runs.worth import Worth
from epg_tf.tasks.registry import make_family

_POLICY, _SEARCH, _EVOLUTION = 0.06, 0.1, 0.6
"""Shares of the budget for the fixed policy, the search, and runs; what is left says what the loss
is worth."""
_FINAL = 0.04  # of it for each of the last candidates, from the time for runs
_LEAST = 0.2  # share of the time for evolution below which nothing else begins
_LATE = 1.2  # times its time after which a run ends, though it has epochs left
_SLOW = 3.0  # times its time after which a search is said to be slow
_MOST_RUNS = 9
_VALIDATIONS = 10  # of a run, each of which takes about as long as an epoch

RECORD = "search.json"
STOPPED, FAILED = "stopped_improving", "failed"  # of a run in it
OWN = (RECORD, SETTINGS, "best", "test", FOLDER, *map(str, range(1, _MOST_RUNS + 1)))
"""What a budget writes into its folder."""


@dataclasses.dataclass(frozen=True)
class Budget:
    """What a user gives.

    Attributes:
      given: The family, and settings that are fixed: those that are not the default.
      named: "GROUP.FIELD" of further ones that are fixed, though they may have the default.
      seed: Of all randomness.
      minutes: For everything but the last tests; > 0.
    """

    given: Experiment
    named: Collection[str]
    seed: int
    minutes: float

    def seconds(self, share: float) -> float:
        """Returns a share of the budget."""
        return 60.0 * self.minutes * share

    def identity(self) -> dict[str, Any]:
        """Returns what a folder must agree with, to go on in it."""
        fixed = fixed_settings(self.given, self.named)
        return files.plain({"fixed": fixed, "seed": self.seed, "minutes": self.minutes})


class AutomaticEvolution:
    """One budget and its folder.

    Args:
      target: The folder, and what happens to an earlier budget there.
      write: Called with lines about progress, e.g. print; None is silent.

    Raises:
      ConfigError: The fixed settings fit no candidate.
      RecordError: The folder cannot be used in this way; nothing has been deleted.
    """

    def __init__(self, budget: Budget, target: RunTarget, write: Write | None = None):
        self._budget, self._path = budget, Path(target.path)
        self._write: Write = write or (lambda line: None)
        self._target = target
        spec = make_family(budget.given.task).spec
        self._policy: LearnedLoss | None = None
        self._fixed = fixed_settings(budget.given, budget.named)
        self._candidates = fitting(choices.candidates(budget.given, self._fixed, spec), spec)
        self._running: Session | SettingsSearch | Worth | None = None
        self._stopped = False
        self._lock = FolderLock(self._path)
        try:
            self._record = self._opened()
        except BaseException:
            self._lock.release()
            raise

    def _opened(self) -> dict[str, Any]:
        """Locks and prepares the folder; returns its record, or a new one."""
        if self._path.is_dir():
            self._lock.acquire()
            self._check_replaceable()
        prepare = files.prepare_folder
        prepare(self._path, OWN, overwrite=self._target.overwrite, resume=self._target.resume)
        self._lock.acquire()
        return self._earlier() or {"budget": self._budget.identity(), "tried": [], "runs": []}

    def _check_replaceable(self) -> None:
        """Refuses a folder of something else."""
        there = [name for name in (CONFIG, *OWN) if (self._path / name).exists()]
        going_on = self._target.resume or self._target.overwrite
        if going_on and there and not (self._path / RECORD).is_file():
            raise RecordError(
                f"{self._path}: it holds {', '.join(there)}, which no search of settings has "
                "written; move them away or choose another folder"
            )

    def _earlier(self) -> dict[str, Any] | None:
        """Returns the record in the folder; None in a new one."""
        path = self._path / RECORD
        if not path.is_file():
            return None
        record = files.read_json(path, "the record of a search")
        if record.get("budget") != self._budget.identity():
            raise RecordError(
                f"{self._path}: the search there has another family, seed, budget or settings; "
                "repeat its command, or choose another folder"
            )
        order = record.get("order", ())
        known = all(each["name"] in self._candidates and "agents" in each for each in order)
        if "worth" not in record and not known:
            raise RecordError(f"{path}: another version wrote it; choose another folder")
        return record

    def run(self) -> Path:
        """Searches, evolves and says what the loss is worth; returns the folder of the best run.

        Raises:
          Interrupted: `stop` was called.
          RecordError, OSError, RunFailed: As of any run.
        """
        try:
            if not self._record["runs"]:
                self._search()
            best = self._best() if "worth" in self._record else self._evolve()
            if "worth" not in self._record:
                self._measure_worth(best)
            self._write(self._record["worth"])
            return best
        finally:
            self._lock.release()

    def _best(self) -> Path:
        """Returns the folder of the run with the best validation.

        Raises:
          RunFailed: None left a loss.
        """
        runs = self._record["runs"]
        folders = [self._path / str(number) for number in range(1, len(runs) + 1)]
        found = [folder for folder in folders if holds_loss(folder / "best")]
        if not found:
            raise RunFailed(runs[-1][FAILED])
        return max(found, key=lambda run: (_validation(run), FAILED not in runs[int(run.name) - 1]))

    def policy_of(self, run: Path) -> Path | None:
        """Returns the policy that a run of the budget began around; None where it did not."""
        around = self._record["runs"][int(run.name) - 1]["name"] == AROUND_POLICY
        return self._path / FOLDER if around else None

    def stop(self) -> None:
        """Ends what runs now."""
        self._stopped = True
        if self._running is not None:
            self._running.stop()

    @property
    def _epochs_are_fixed(self) -> bool:
        return "epochs" in self._fixed.get("evolution", {})

    def _begin(self, running: Any) -> Any:
        """Makes `stop` reach what runs from now on."""
        self._running = running
        self._check()
        return running

    def _search(self) -> None:
        """Tries the candidates, and plans the first run."""
        budget = self._budget
        self._write(f"evolving one linear policy for all tasks of {budget.given.task.family}")
        self._keep()  # whatever is written from now on is known to be of this budget
        earlier = self._earlier_of(AROUND_POLICY)
        candidates = begun_candidates(self._candidates, budget.seed, earlier)
        begun = time.monotonic()
        free = choices.free_fields(self._fixed, make_family(budget.given.task).spec)
        self._write(
            f"trying {len(candidates)} beginnings of a loss in {budget.given.task.family}: "
            + ", ".join(candidates)
        )
        seconds = budget.seconds(_SEARCH)
        final = budget.seconds(_FINAL)
        search = self._begin(SettingsSearch(candidates, free, budget.seed, seconds, final))
        tried: list[Tried] = list(search.run())
        widths = [np.ptp(each.ci95) for each in tried if np.isfinite(each.ci95).all()]
        if widths and not any(widths):
            self._write(
                "warning: all agents had the same return, so nothing tells losses apart; a reward "
                "that differs between lifetimes, or longer ones, may help"
            )
        order = ranking(tried)
        self._record |= {
            "tried": [dataclasses.asdict(each) for each in tried],
            "order": [dataclasses.asdict(each) for each in order],
            "search_seconds": (spent := time.monotonic() - begun),
        }
        if spent - 3 * final > _SLOW * seconds:
            self._write(
                f"warning: the search took {formatting.duration(spent)}, not "
                f"{formatting.duration(seconds)}: epochs are slow here; give more minutes"
            )
        best = order[0]
        self._write(
            f"tried {len(tried)} times in {formatting.duration(spent)}; best: "
            f"{best.name} with {best.agents}{', by smaller steps' * best.gentle}, mean return "
            f"{best.mean:.2f} "
            f"[{best.ci95[0]:.2f}, {best.ci95[1]:.2f}] after {best.epochs} epochs"
        )
        self._plan(0, self._evolution_seconds())

    def _earlier_of(self, name: str) -> LearnedLoss | None:
        """Returns what a candidate begins with: the fixed policy, or nothing."""
        if name != AROUND_POLICY:
            return None
        budget = self._budget
        if self._policy is None:
            seconds = budget.seconds(_POLICY)
            self._policy = evolved_policy(
                budget.given, budget.seed, seconds, self._path, self._check
            )
        return self._policy

    def _check(self) -> None:
        if self._stopped:
            raise Interrupted

    def _evolution_seconds(self) -> float:
        """Returns the time for evolution; a search that took too long leaves less."""
        both = self._budget.seconds(_SEARCH + _EVOLUTION) - self._record["search_seconds"]
        return max(0.0, min(both, self._budget.seconds(_EVOLUTION)))

    def _plan(self, place: int, seconds: float) -> None:
        """Adds a run of the candidate at a place of the order, for some time."""
        chosen = self._record["order"][place]
        settings = Agents(*chosen["agents"]).live_in(self._candidates[chosen["name"]])
        settings = choices.gentler(settings) if chosen.get("gentle") else settings
        slowest = max(each["epoch_seconds"] for each in self._record["order"])
        possible = int(seconds / max(chosen["epoch_seconds"] or slowest, 1e-3))
        epochs = min(max(_VALIDATIONS, possible - _VALIDATIONS), 10**6)
        planned = choices.in_time(settings, self._fixed, epochs)
        runs = self._record["runs"]
        run = {"config": planned.to_mapping(), "seconds": seconds, "least": chosen["epochs"]}
        runs.append({"name": chosen["name"], **run})
        self._keep()
        self._write(f"run {len(runs)}: {chosen['name']}, {planned.evolution.epochs} epochs")

    def _keep(self) -> None:
        files.write_json(self._path / RECORD, self._record)

    def _evolve(self) -> Path:
        """Evolves the planned run, and while there is time goes on with it or, where it has stopped
        to improve, with the next candidate; returns the folder of the run with the best validation.
        """
        runs, seconds = self._record["runs"], self._evolution_seconds()
        means = [each["mean"] for each in self._record["order"]]  # None or NaN where all failed
        known = [mean is not None and math.isfinite(mean) for mean in means]
        others = [place for place in range(1, len(means)) if known[place]]
        while True:
            number = len(runs)
            if FAILED not in runs[-1]:
                self._run(number)
            left = seconds - sum(map(self._seconds_of, range(1, number + 1)))
            if left < _LEAST * seconds or (self._epochs_are_fixed and FAILED not in runs[-1]):
                break
            if not (runs[-1].get(STOPPED) or FAILED in runs[-1]):
                self._lengthen(number, left)
            elif number < min(len(others) + 1, _MOST_RUNS):
                self._plan(others[number - 1], left)
            else:
                break
        best = self._best()
        with files.replaced(self._path, ("best",)):
            shutil.copytree(best / "best", self._path / "best")
        return best

    def _seconds_of(self, number: int) -> float:
        rows = MetricsFile(self._path / str(number) / "metrics.csv").read()
        return float(sum(row["seconds"] for row in rows))

    def _lengthen(self, number: int, seconds: float) -> None:
        """Gives a run more epochs, at its last learning rate: those that fit, and at most twice as
        many as it has done.
        """
        settings = self._settings_of(number)
        done = settings.evolution.epochs
        more = int(seconds / self._seconds_of(number) * done)
        self._record["runs"][number - 1]["seconds"] = self._seconds_of(number) + seconds
        self._change_epochs(number, done + max(1, min(more, 2 * done)))
        self._write(f"run {number} is faster than it was in the search, so it goes on")

    def _settings_of(self, number: int) -> Experiment:
        return Experiment.from_mapping(self._record["runs"][number - 1]["config"])

    def _change_epochs(self, number: int, epochs: int, stopped: bool = False) -> None:
        settings = self._settings_of(number)
        evolution = dataclasses.replace(settings.evolution, epochs=epochs)
        changed = dataclasses.replace(settings, evolution=evolution)
        self._record["runs"][number - 1] |= {"config": changed.to_mapping(), STOPPED: stopped}
        self._keep()

    def _run(self, number: int) -> None:
        """Evolves one run to its end, or until it has stopped to improve or its time is over: its
        length is then the epochs that it has done. One that fails is marked.
        """
        metrics = MetricsFile(self._path / str(number) / "metrics.csv")
        try:
            if self._session(number, metrics):
                return
        except RunFailed as error:
            self._record["runs"][number - 1][FAILED] = str(error)
            self._keep()
            self._write(f"run {number} ends: {error}")
            return
        rows = metrics.read()
        stopped = has_stopped_improving(rows)
        self._change_epochs(number, len(rows), stopped)
        reason = f"validation has not risen for {PATIENCE} times" if stopped else "its time is over"
        self._write(f"run {number} ends after {len(rows)} epochs: {reason}")
        self._session(number, metrics)

    def _session(self, number: int, metrics: MetricsFile) -> bool:
        """Runs to the end of the settings; returns False where it stopped to improve before, or its
        time is over.
        """
        settings, run = self._settings_of(number), self._record["runs"][number - 1]
        path = self._path / str(number)
        target = dataclasses.replace(self._target, path=path, resume=True, overwrite=False)
        rows = metrics.read()
        with Shards(settings) as shards:
            earlier = self._earlier_of(run["name"])
            system = EvolutionSystem(settings, self._budget.seed, shards, earlier=earlier)
            session = self._begin(Session(system, target, self._write))
            try:
                steps = session.steps()
                for result in steps:
                    rows = [*rows[: result.state.epoch - 1], result.metrics]
                    if self._epochs_are_fixed or result.state.epoch == settings.evolution.epochs:
                        continue
                    late = sum(row["seconds"] for row in rows) > _LATE * run["seconds"]
                    late = late and len(rows) >= run.get("least", 0)
                    if late or has_stopped_improving(rows):
                        session.silence()  # the search says why it ends
                        steps.close()
                        return False
            finally:
                session.close()
        return True

    def _measure_worth(self, best: Path) -> None:
        budget = self._budget
        seconds = budget.seconds(1.0 - _POLICY - _SEARCH - _EVOLUTION)
        learned, threads = load_loss(best), budget.given.compute.threads
        compute = dataclasses.replace(learned.experiment.compute, threads=threads)
        experiment = dataclasses.replace(learned.experiment, compute=compute)
        learned = dataclasses.replace(learned, experiment=experiment)
        worth = self._begin(Worth(learned, self._path, budget.seed, seconds, self._fixed))
        self._record["worth"] = worth.paragraph()
        self._keep()


def _validation(run: Path) -> float:
    """Returns the best one; minus infinity if there was none."""
    values = [row["validation_return_mean"] for row in MetricsFile(run / "metrics.csv").read()]
    return max((value for value in values if math.isfinite(value)), default=-math.inf)
