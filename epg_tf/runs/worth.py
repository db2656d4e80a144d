"""Says in a paragraph what a loss is worth: beside PPO and SAC, tuned unless their settings are
given, and a fixed policy that was evolved, on tasks that nothing before has met.
"""

from __future__ import annotations

import contextlib
import dataclasses
import math
import time
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

from epg_tf.artifacts.artifact import LearnedLoss, load_loss
from epg_tf.baselines.method import LossName, Request
from epg_tf.baselines.off_policy import has_bounds
from epg_tf.core import files, formatting
from epg_tf.core.errors import Interrupted
from epg_tf.core.types import Array
from epg_tf.epg.settings import Experiment
from epg_tf.evaluation.evaluate import Evaluation
from epg_tf.evaluation.requests import loss_request
from epg_tf.evaluation.results import Results
from epg_tf.evaluation.statistics import difference_row
from epg_tf.evaluation.summary import Summary, summarize
from epg_tf.evaluation.tuning import Search, Trial, rungs, winner, with_settings
from epg_tf.losses.extra_channels import sees_reward
from epg_tf.reports.evaluation_report import write_report
from epg_tf.reports.tables import label
from epg_tf.runs.fixed_policy import FOLDER
from epg_tf.studies.adaptation import AdaptationTest
from epg_tf.tasks.quantities import outside
from epg_tf.tasks.registry import make_family

AGENTS = 64
"""Of each method in the test."""

_BASELINES = {"ppo": 0.3, "sac": 0.4}  # share of the time for the search of each
_SETTINGS, _FIRST = 6, 4  # least settings of a baseline that are tried, agents of each at first
_SECONDS = 9.0  # of the whole, for each agent of a search with more settings than that


class Worth:
    """Measures a loss once.

    Args:
      folder: Holds the fixed policy, see `fixed_policy`; the test is written to "test" in it.
      seconds: For everything but the test itself.
      fixed: Groups of settings that are not to be chosen; baselines among them are not tuned.
    """

    def __init__(
        self,
        learned: LearnedLoss,
        folder: Path,
        seed: int,
        seconds: float,
        fixed: Collection[str] = (),
    ):
        self._learned, self._folder = learned, folder
        self._seed, self._seconds, self._fixed = seed, seconds, fixed
        self._stopped = False

    def stop(self) -> None:
        """Ends the measurement before its next part."""
        self._stopped = True

    def paragraph(self) -> str:
        """Returns the paragraph.

        Raises:
          Interrupted: `stop` was called.
        """
        experiment = self._learned.experiment.in_physics("exact")
        bounded = has_bounds(make_family(experiment.task))
        names = [name for name in _BASELINES if name != "sac" or bounded]
        for name in (each for each in names if each not in self._fixed):
            experiment = self._tuned(name, experiment)
        policy = load_loss(self._folder / FOLDER)
        learned = dataclasses.replace(self._learned, experiment=experiment)
        request = loss_request(experiment, self._seed, AGENTS)
        evaluation = Evaluation(
            learned, LossName("loss"), request, ("epg", *names, "untrained"), fixed=(policy,)
        )
        table = self._results(evaluation)
        (self._folder / "test").mkdir(exist_ok=True)
        title = f"{experiment.task.family}: fresh agents on unseen tasks"
        write_report(self._folder / "test", table, evaluation.about(), title)
        said = [*sentences(experiment, summarize(table))]
        said += [
            f"{label(name)} has the settings that were given; none were tried."
            for name in names
            if name in self._fixed
        ]
        test = AdaptationTest(learned, request)
        if test.pairs()[1]:
            said += adapts(*self._transfer(test))
        if request.task.range == "training":
            for words, task_range in outside(make_family(request.task).quantities).items():
                said.append(self._outside(learned, request, words, task_range))
        return " ".join(said)

    def _outside(self, learned: LearnedLoss, request: Request, words: str, task_range: str) -> str:
        """Returns a sentence on tasks that evolution did not draw."""
        task = dataclasses.replace(request.task, range=task_range)
        there = dataclasses.replace(request, task=task)
        try:
            found = self._results(Evaluation(learned, LossName("loss"), there, ("epg", "ppo")))
        except Interrupted:
            raise
        except Exception as error:  # a user's family may raise anything there
            return f"In tasks {words} nothing could be measured: {files.one_line(error)}."
        loss, ppo = summarize(found).values()
        return f"In tasks {words} it ends at {_mean(loss)}, PPO at {_mean(ppo)}."

    def _results(self, evaluation: Evaluation) -> Results:
        found = []
        for results in evaluation.run():
            found.append(results)
            self._check()
        return Results.join(found)

    def _check(self) -> None:
        if self._stopped:
            raise Interrupted

    def _tuned(self, name: str, experiment: Experiment) -> Experiment:
        """Returns the experiment with the best settings of a baseline that its time finds."""
        end = time.monotonic() + _BASELINES[name] * self._seconds
        trials: list[Trial] = []
        for trial in Search(name, experiment, self._seed, tried_in(self._seconds), _FIRST).run():
            trials.append(trial)
            self._check()
            if time.monotonic() > end:
                break
        return with_settings(experiment, name, winner(trials).settings)

    def _transfer(self, test: AdaptationTest) -> tuple[Array, Array, Array]:
        """Returns final returns of agents in their own task, in another agent's, and of those that
        were taught from another agent's experience.
        """
        self._check()
        measures: Iterator[tuple[str, Array]] = test.run()
        with contextlib.closing(measures):  # type: ignore[type-var]
            (_, own), (_, other), (_, taught) = (next(measures) for _ in range(3))
        return own, other, taught


def tried_in(seconds: float) -> int:
    """Returns how many settings of a baseline are tried, where all searches have so much time."""
    settings = _SETTINGS
    while sum(map(math.prod, rungs(settings + 1, _FIRST))) <= seconds / _SECONDS:
        settings += 1
    return settings


def sentences(experiment: Experiment, found: dict[str, Summary]) -> Iterator[str]:
    """Yields sentences on how the loss did beside the others."""
    loss = next(iter(found.values()))
    steps = formatting.count(experiment.life_steps)
    seen = "sees the reward" if sees_reward(experiment.loss) else "learns without any reward"
    start = found["untrained"]
    yield (
        f"{loss.lives} fresh agents that learn from this loss for {steps} env steps, each in an "
        f"unseen {experiment.task.family} task, end at {_mean(loss)}; an agent that never learns "
        f"at {_mean(start)}. The loss {seen}."
    )
    for name, summary in found.items():
        if summary.ahead_ci95 is None or name == "untrained":
            continue
        low, high = summary.ahead_ci95
        if min(_survivors(loss), _survivors(summary)) < 2:
            yield f"It cannot be compared with {label(name)} at {_mean(summary)}."
            continue
        place = "above" if low > 0.0 else "below" if high < 0.0 else "about as high as"
        yield (
            f"It ends {place} {label(name)} at {_mean(summary)} (difference "
            f"{summary.ahead_mean:.2f} [{low:.2f}, {high:.2f}])."
        )
    if "sac" not in found:
        yield "SAC is for continuous actions within bounds, which these are not."


def adapts(own: Array, other: Array, taught: Array) -> Iterator[str]:
    """Yields a sentence on whether agents adapt to their task.

    Args:
      own: [L] final returns of agents in the task that they learned in.
      other: [L] those in another agent's task.
      taught: [L] those of agents that learned from what an agent in another task experienced.
    """
    row: dict[str, Any] = difference_row(own, other)
    low, high = row["ci95"]
    if low > 0.0:
        word = "they adapt to their task"
    else:
        word = "it is not shown that they adapt to their task more than one policy would"
    learned: dict[str, Any] = difference_row(own, taught)
    least, most = learned["ci95"]
    yield (
        f"In another agent's task its agents lose {row['mean']:.2f} [{low:.2f}, {high:.2f}], and "
        f"taught from another agent's experience {learned['mean']:.2f} [{least:.2f}, {most:.2f}]: "
        f"{word}."
    )


def _survivors(summary: Summary) -> int:
    return summary.lives - summary.failed_lives


def _mean(summary: Summary) -> str:
    low, high = summary.ci95
    words = f"{summary.final_return_mean:.2f} [{low:.2f}, {high:.2f}]"
    if not summary.failed_lives:
        return words
    return f"{words} ({summary.failed_lives} of {summary.lives} agents failed)"
