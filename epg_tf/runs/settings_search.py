"""Chooses among candidates for the settings of an evolution by successive halving (Jamieson and
Talwalkar 2016) of real evolutions, within a number of seconds.

First every candidate's loss, as it begins, trains agents at several learning rates; each keeps the
best. Then the candidates evolve, the best as they begin first, all if there is time. One that has
become worse evolves from its beginning again, by smaller steps. The best three evolve for longer,
because a loss that teaches may be worth little at first. The agents of the best one then try other
deviations and lifetimes. All live in tasks of their own, the same for all candidates, that neither
evolution nor any test meets.
"""

from __future__ import annotations

import contextlib
import dataclasses
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import partial
from operator import attrgetter
from typing import NamedTuple

import numpy as np

from epg_tf.artifacts.artifact import LearnedLoss
from epg_tf.core.errors import ConfigError
from epg_tf.core.failures import mean_return
from epg_tf.core.types import Array, EnvironmentSpec, LifeKey
from epg_tf.epg.candidates import AROUND_POLICY, INNER_RATES, Agents, gentler, neighbours
from epg_tf.epg.inner_loop import final_inner_settings
from epg_tf.epg.outer_loop import evolve
from epg_tf.epg.settings import Experiment
from epg_tf.epg.shards import Shards
from epg_tf.epg.state import EvolutionState
from epg_tf.evaluation.statistics import difference_row, surviving_interval
from epg_tf.losses.channels import declared_channels
from epg_tf.runs.beginning import beginning

AGENTS = 32
"""That value a candidate at a time."""

_AS_IT_BEGINS = 0.4  # most of the time that the losses as they begin may take
_EVOLVED = 0.8  # of the seconds after which no candidate evolves, but for two epochs at first
_LEAST_EVOLVE = 2  # candidates that evolve however long they take
_FINALISTS = 3  # candidates that evolve for long
_LATE = 1.5  # times the seconds after which no other agents and smaller steps are tried


@dataclasses.dataclass(frozen=True)
class Tried:
    """How a candidate did.

    Attributes:
      name: Of the candidate.
      rung: 0 before any evolution.
      agents: Settings of its agents.
      epochs: Epochs that it evolved for so far.
      mean: Mean final return; agents that failed count as the worst of the others.
      ci95: 95 % confidence interval of that.
      epoch_seconds: Time of an epoch, from its newest one; 0 before any.
      added: What evolution has added to the mean since the first rung; 0 where the 95 % confidence
        interval of that, agent by agent, includes 0, and with changed agents.
      kept: False of a change of its agents, or of its steps, that was given up.
      gentle: Whether it evolves by smaller steps, see `candidates.gentler`.
    """

    name: str
    rung: int
    agents: Agents
    epochs: int
    mean: float
    ci95: tuple[float, float]
    epoch_seconds: float = 0.0
    added: float = 0.0
    kept: bool = True
    gentle: bool = False

    @property
    def worth(self) -> float:
        """The mean; below all others where every agent failed."""
        return self.mean if np.isfinite(self.mean) else -np.inf


class Begun(NamedTuple):
    """Settings of a candidate, and its state before the first epoch."""

    experiment: Experiment
    state: EvolutionState


class _Candidate:
    """One candidate, its agents and how far it has evolved."""

    def __init__(self, name: str, begun: Begun, seed: int, make: Callable[[Experiment], Shards]):
        self.name, self.experiment, self._seed, self._make = name, begun.experiment, seed, make
        self._shards = make(begun.experiment)
        self._state: EvolutionState = begun.state
        self._epoch_seconds = 0.0
        self._returns = self._first = np.zeros(AGENTS)  # newest ones, and those of the first rung
        self._begun, self._gentle = begun, False

    def begin(self, rate: float) -> Tried:
        """Returns what the loss as it begins is worth at a learning rate of agents."""
        agents = Agents.of(self.experiment)._replace(learning_rate=rate)
        return self._tried(agents.live_in(self.experiment), 0, self._shards)[0]

    def measure(self, rung: int) -> Tried:
        """Returns what the loss is worth as it has evolved until now."""
        tried, self._returns = self._tried(self.experiment, rung, self._shards)
        if rung == 1:
            self._first = self._returns
        return dataclasses.replace(tried, added=_clear_difference(self._returns, self._first))

    def restart_gently(self, rung: int) -> Tried:
        """Evolves from the beginning again for two epochs with smaller steps; returns what the loss
        is worth then, with which the candidate goes on if that is more.
        """
        before = (self.experiment, self._state, self._epoch_seconds, self._returns)
        usual = mean_return(self._returns)  # NaN where all agents failed
        self.experiment, self._state = gentler(self.experiment), self._begun.state
        self._gentle = True
        self.evolve(0.0)
        tried = self.measure(rung)
        if not (tried.mean > usual or np.isnan(usual)):
            self.experiment, self._state, self._epoch_seconds, self._returns = before
            self._first, self._gentle = self._returns, False
            return dataclasses.replace(tried, kept=False)
        return tried

    def change(self, changed: Experiment, rung: int) -> Tried:
        """Returns what the loss is worth with other agents, which it keeps if they are clearly
        better, or live shorter and are hardly worse: by less than a quarter of the width of the
        confidence interval of the others, with 97.5 % confidence.
        """
        same = changed.policy == self.experiment.policy
        shards = self._shards if same else self._make(changed)
        tried, returns = self._tried(changed, rung, shards)
        times = changed.inner.updates / self.experiment.inner.updates
        lowest = difference_row(returns, self._returns)["ci95"][0]
        lower, upper = surviving_interval(self._returns)
        kept = lowest > 0.0 or (times < 1.0 and lowest >= (lower - upper) / 4.0)
        if kept:
            self.experiment, self._returns, self._shards = changed, returns, shards
            self._epoch_seconds *= times
        return dataclasses.replace(tried, kept=kept, epoch_seconds=self._epoch_seconds)

    def _tried(self, experiment: Experiment, rung: int, shards: Shards) -> tuple[Tried, Array]:
        """Returns what the loss is worth now, and the returns of all agents."""
        keys = [LifeKey(self._seed, "tuning", 0, index) for index in range(AGENTS)]
        settings = dataclasses.replace(
            final_inner_settings(experiment), updates=experiment.inner.updates
        )
        returns = shards.run(keys, lambda life: self._state.phi, settings).final_return
        tried = Tried(
            self.name,
            rung,
            Agents.of(experiment),
            self._state.epoch,
            mean_return(returns),
            surviving_interval(returns) if np.isfinite(returns).any() else (np.nan, np.nan),
            self._epoch_seconds,
            gentle=self._gentle,
        )
        return tried, returns

    def evolve(self, seconds: float) -> None:
        """Evolves for some time, by an epoch or more; two at first."""
        begun = last = time.monotonic()
        for result in evolve(self.experiment, self._seed, self._state, self._shards):
            self._state = result.state
            now = time.monotonic()
            self._epoch_seconds, last = now - last, now
            if now - begun >= seconds and result.state.epoch >= 2:
                return


def _clear_difference(one: Array, other: Array) -> float:
    """Returns how far [L] returns are above others in the mean; 0 where that is not clear."""
    row = difference_row(one, other)
    low, high = row["ci95"]
    return row["mean"] if low > 0.0 or high < 0.0 else 0.0


class SettingsSearch:
    """Searches among candidates.

    Args:
      free: Fields of `Agents` that are to be chosen, and "steps" where those of evolution are.
      seconds: For all but the last rung; two candidates have two epochs at least, however long they
        take, and changes of agents begin up to half as much later.
      final_seconds: For which each of the last three evolves.
    """

    def __init__(
        self,
        candidates: Mapping[str, Begun],
        free: Collection[str],
        seed: int,
        seconds: float,
        final_seconds: float,
    ):
        self._candidates, self._free = candidates, free
        self._seed, self._seconds, self._final_seconds = seed, seconds, final_seconds
        self._shards: list[Shards] = []
        self._stopped = False

    def run(self) -> Iterator[Tried]:
        """Yields what was tried, as it ends; `ranking` says what it means.

        Raises:
          Interrupted: `stop` was called.
        """
        begun = time.monotonic()

        def late(times: float) -> bool:
            return time.monotonic() - begun > times * self._seconds

        with contextlib.ExitStack() as stack:
            left = [
                _Candidate(name, begun_with, self._seed, partial(self._made, stack))
                for name, begun_with in self._candidates.items()
            ]
            tried = []
            for each in self._begin(left, lambda: late(_AS_IT_BEGINS)):
                tried.append(each)
                yield each
            left = _best_first(left, tried)
            remaining = _EVOLVED * self._seconds - (time.monotonic() - begun)
            share = remaining / len(left)
            for place, candidate in enumerate(left):
                if place >= _LEAST_EVOLVE and late(1.0):
                    del left[place:]
                    break
                for each in self._evolved(candidate, share, tried, not late(_LATE)):
                    tried.append(each)
                    yield each
            left = _best_first(left, tried)[:_FINALISTS]
            rung, final = 1, time.monotonic()
            for candidate in left if len(left) > 1 else ():
                rung = 2
                candidate.evolve(self._final_seconds)
                tried.append(candidate.measure(rung))
                yield tried[-1]
            left = _best_first(left, tried)
            begun += time.monotonic() - final  # its time is its own
            for field in ("log_std", "updates"):
                for changed in neighbours(left[0].experiment, field):
                    if field in self._free and not late(_LATE):
                        rung += 1  # the newest change that is kept counts
                        yield left[0].change(changed, rung)

    def _evolved(
        self, candidate: _Candidate, seconds: float, tried: Sequence[Tried], again: bool
    ) -> Iterator[Tried]:
        """Yields what a candidate is worth when it has evolved for some time and, if that has made
        it worse than it began, by smaller steps.

        Args:
          seconds: For the first evolution, of two epochs or more.
          again: Whether there is time for smaller steps.
        """
        as_begun = max(each.worth for each in tried if each.name == candidate.name)
        candidate.evolve(seconds)
        found = candidate.measure(1)
        yield found
        if again and "steps" in self._free and found.worth < as_begun:
            yield candidate.restart_gently(1)

    def _made(self, stack: contextlib.ExitStack, experiment: Experiment) -> Shards:
        """Returns what runs the agents of a candidate, without processes that must start first."""
        compute = dataclasses.replace(experiment.compute, parallel="threads")
        shards = stack.enter_context(Shards(dataclasses.replace(experiment, compute=compute)))
        self._shards.append(shards)
        if self._stopped:
            shards.stop()
        return shards

    def _begin(self, made: Sequence[_Candidate], late: Callable[[], bool]) -> Iterator[Tried]:
        """Yields what losses as they begin are worth at their own rate, then at others while there
        is time; each candidate keeps the best.
        """
        own = [each.experiment.inner.learning_rate for each in made]
        best: dict[str, Tried] = {}
        for rate in (None, *(INNER_RATES if "learning_rate" in self._free else ())):
            if rate is not None and late():
                break
            for each, usual in zip(made, own, strict=True):
                if rate != usual:
                    tried = each.begin(usual if rate is None else rate)
                    yield tried
                    best[each.name] = max(
                        best.get(each.name, tried), tried, key=attrgetter("worth")
                    )
        for each in made:
            each.experiment = best[each.name].agents.live_in(each.experiment)

    def stop(self) -> None:
        """Ends the search early."""
        self._stopped = True
        for shards in self._shards:
            shards.stop()


def fitting(candidates: Mapping[str, Experiment], spec: EnvironmentSpec) -> dict[str, Experiment]:
    """Returns the candidates whose losses fit a body.

    Raises:
      ConfigError: None does.
    """
    found, conflicts = {}, []
    for name, settings in candidates.items():
        try:
            declared_channels(spec, settings.loss, settings.policy.state_dependent_std)
            found[name] = settings
        except ConfigError as error:
            conflicts.append(error)
    if not found:
        raise conflicts[0]
    return found


def begun_candidates(
    candidates: Mapping[str, Experiment], seed: int, policy: LearnedLoss | None
) -> dict[str, Begun]:
    """Returns how candidates begin; without the one around the fixed policy where its settings do
    not fit that.
    """
    found = {}
    for name, settings in candidates.items():
        earlier = policy if name == AROUND_POLICY else None
        try:
            found[name] = Begun(settings, beginning(settings, seed, earlier))
        except ConfigError:
            if earlier is None:
                raise
    return found


def _best_first(candidates: Sequence[_Candidate], tried: Sequence[Tried]) -> list[_Candidate]:
    """Returns candidates in the order of `ranking`."""
    places = {each.name: place for place, each in enumerate(ranking(tried))}
    return sorted(candidates, key=lambda candidate: places[candidate.name])


def ranking(tried: Sequence[Tried]) -> list[Tried]:
    """Returns the newest of what was tried of each candidate, the best first: that of the last
    rungs, and in a rung that of the highest promise. This is the mean, and once more what evolution
    has clearly added to it since the first rung, because the evolution to come is longer.
    """
    newest: dict[str, Tried] = {}
    for each in tried:
        before = newest.get(each.name)
        if each.kept and (before is None or (each.rung, each.worth) > (before.rung, before.worth)):
            newest[each.name] = each
    return sorted(newest.values(), key=lambda each: (-each.rung, -(each.worth + each.added)))
