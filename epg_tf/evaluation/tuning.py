"""Tunes what a learned loss of EPG is compared with: random search with successive halving
(Jamieson and Talwalkar 2016), on tasks that neither evolution nor testing meets.

All settings learn in a few tasks; the better third of them in three times as many, and so on.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from operator import attrgetter
from typing import Any

import numpy as np

from epg_tf.baselines.method import LossName, Request
from epg_tf.core.errors import ConfigError
from epg_tf.core.failures import worst_for_failed
from epg_tf.core.random_streams import life_generator
from epg_tf.core.types import LifeKey
from epg_tf.epg.settings import Experiment
from epg_tf.epg.shards import thread_count
from epg_tf.evaluation.methods import LOSS_METHODS, Evaluated, inner_loops
from epg_tf.evaluation.statistics import surviving_interval

Space = Mapping[str, Sequence[float]]
"""Values to try of each setting, from low to high."""

_KEPT = 3  # one of so many settings is kept, and meets as many times the tasks

_PERIODS: Mapping[str, Sequence[float]] = {
    "update_period": (32, 64, 128, 256, 512),
    "minibatch": (8, 16, 32, 64, 128),
    "log_std": (-2.5, -2.0, -1.5, -1.0, -0.5, 0.0),
    "discount": (0.9, 0.95, 0.99, 0.995),
}
_REPLAYED: Mapping[str, Sequence[float]] = {
    "learning_rate": (3e-4, 1e-3, 3e-3, 1e-2),
    "batch": (32, 64, 128),
    "updates_per_step": (1, 2),
    "random_steps": (50, 100, 200, 400),
    "discount": (0.9, 0.95, 0.99),
    "tau": (0.005, 0.01, 0.02, 0.05),
}
SPACES: dict[str, tuple[str, Space]] = {
    "ppo": (
        "ppo",
        {
            **_PERIODS,
            "epochs": (4, 8, 16, 32, 64),
            "learning_rate": (1e-4, 3e-4, 1e-3, 3e-3, 1e-2),
            "gae_lambda": (0.8, 0.9, 0.95, 1.0),
        },
    ),
    "ppo_as_epg": (
        "surrogate",
        {
            "baseline_learning_rate": (1e-4, 3e-4, 1e-3, 3e-3, 1e-2, 3e-2),
            "baseline_epochs": (1, 4, 16, 32, 64),
        },
    ),
    "reinforce": (
        "reinforce",
        {**_PERIODS, "epochs": (1, 2, 4), "learning_rate": (3e-4, 1e-3, 3e-3, 1e-2, 3e-2)},
    ),
    "sac": (
        "sac",
        {
            **_REPLAYED,
            "target_entropy": (-2.0, -1.0, -0.5, 0.0),
            "temperature": (0.03, 0.1, 0.3, 1.0),
        },
    ),
    "td3": (
        "td3",
        {
            **_REPLAYED,
            "exploration": (0.05, 0.1, 0.2, 0.4),
            "target_policy_noise": (0.1, 0.2, 0.4),
        },
    ),
}
"""Baseline -> (group of its settings, what is tried)."""


@dataclasses.dataclass(frozen=True)
class Trial:
    """How one setting did in one rung.

    Attributes:
      number: Of the setting, from 0; 0 is the config's own.
      rung: From 0; later ones have more agents.
      agents: Number of agents.
      settings: Of the baseline, those of the space.
      mean: Mean final return; one that failed counts as the worst of the others; NaN if all did.
      ci95: 95 % confidence interval of the mean.
      failed: Agents that failed.
    """

    number: int
    rung: int
    agents: int
    settings: Mapping[str, float]
    mean: float
    ci95: tuple[float, float]
    failed: int

    @property
    def worth(self) -> tuple[bool, float]:
        """What trials are ranked by: the mean, those in which no agent failed above all others."""
        return not self.failed, -math.inf if math.isnan(self.mean) else self.mean


def rungs(budget: int, agents: int) -> list[tuple[int, int]]:
    """Returns (settings, agents of each) of every rung.

    Args:
      budget: Settings in the first rung, >= 2.
    """
    found = [(budget, agents)]
    while found[-1][0] > _KEPT:
        found.append((math.ceil(found[-1][0] / _KEPT), found[-1][1] * _KEPT))
    return found


def drawn(space: Space, seed: int, number: int) -> dict[str, float]:
    """Returns the settings of a trial, each uniform among its values, keyed by (seed, number)."""
    stream = life_generator(LifeKey(seed, "tuning", 1, number), "objective")
    found = {name: values[int(stream.integers(len(values)))] for name, values in space.items()}
    if "update_period" in found:
        found["minibatch"] = min(found["minibatch"], found["update_period"])
    return found


def tried(
    space: Space, own: Mapping[str, float], seed: int, budget: int
) -> dict[int, Mapping[str, float]]:
    """Returns number -> settings of the trials: the config's own, then what `drawn` gives, without
    repetition.

    Args:
      space: What to draw from, of at least `2 * budget` settings (`most_budget`).
      own: Trial 0.
    """
    found, numbers = {0: own}, itertools.count(1)
    while len(found) < budget:
        number = next(numbers)
        settings = drawn(space, seed, number)
        if settings not in found.values():
            found[number] = settings
    return found


def most_budget(space: Space) -> int:
    """Returns how many settings a search may try: half of them, so that draws soon find new ones.

    `drawn` turns 3 of 25 pairs of period and minibatch into others, so more than half are left.
    """
    return math.prod(len(values) for values in space.values()) // 2


def at_edge(space: Space, settings: Mapping[str, float]) -> dict[str, str]:
    """Returns "lowest" or "highest" for the settings that lie at an end of what was tried, or
    beyond it, as a config's own may.
    """
    found = {}
    for name, values in space.items():
        if settings[name] <= values[0]:
            found[name] = "lowest"
        elif settings[name] >= values[-1]:
            found[name] = "highest"
    return found


@dataclasses.dataclass(frozen=True)
class Search:
    """A search for the settings of a baseline.

    Attributes:
      baseline: A key of `SPACES`.
      experiment: All other settings; those of the baseline are tried first.
      seed: Of the settings and the tasks.
      budget: Settings tried, >= 2.
      agents: Agents of each of them in the first rung.
    """

    baseline: str
    experiment: Experiment
    seed: int
    budget: int
    agents: int

    def __post_init__(self) -> None:
        """Raises ConfigError where agents have no env steps to learn in."""
        if not self.experiment.life_steps:
            raise ConfigError(
                "config.inner.updates=0 leaves a baseline no env steps to learn in; set it above 0"
            )

    def run(
        self,
        measure: Callable[[Experiment, Request, str], Any] | None = None,
        earlier: Sequence[Trial] = (),
    ) -> Iterator[Trial]:
        """Yields the trials as they end; the best of the last rung is the winner.

        Args:
          measure: Maps settings, request and baseline to final returns [L]; trains agents by
            default.
          earlier: Trials of the same search that have ended before; they are yielded as they are.
        """
        ended = {(trial.rung, trial.number): trial for trial in earlier}
        group, space = SPACES[self.baseline]
        own = getattr(self.experiment, group)
        settings = tried(
            space, {name: getattr(own, name) for name in space}, self.seed, self.budget
        )
        kept = list(settings)
        for rung, (count, agents) in enumerate(rungs(self.budget, self.agents)):
            trials = []
            for number in kept[:count]:
                trial = ended.get((rung, number))
                if trial is None:
                    finals = (measure or final_returns)(
                        with_settings(self.experiment, self.baseline, settings[number]),
                        self._request(agents),
                        self.baseline,
                    )
                    trial = _trial(number, rung, settings[number], finals)
                trials.append(trial)
                yield trial
            kept = [each.number for each in sorted(trials, key=attrgetter("worth"), reverse=True)]

    def _request(self, agents: int) -> Request:
        inner = self.experiment.inner
        return Request(
            self.experiment.task,
            self.seed,
            "tuning",
            agents,
            self.experiment.life_steps,
            inner.final_episodes,
        )


def winner(trials: Sequence[Trial]) -> Trial:
    """Returns the best trial of the last rung."""
    last = max(trial.rung for trial in trials)
    return max((each for each in trials if each.rung == last), key=attrgetter("worth"))


def with_settings(
    experiment: Experiment, baseline: str, settings: Mapping[str, float]
) -> Experiment:
    """Returns the experiment with these settings of a baseline."""
    group = SPACES[baseline][0]
    changed = dataclasses.replace(getattr(experiment, group), **settings)
    return dataclasses.replace(experiment, **{group: changed})


def final_returns(experiment: Experiment, request: Request, baseline: str) -> Any:
    """Trains agents by a baseline; returns their final returns [L], NaN where one failed."""
    # As many shards as threads: few agents shall use all of them.
    lives = -(-request.agents // thread_count(experiment))
    compute = dataclasses.replace(experiment.compute, shard_lives=lives)
    settings = dataclasses.replace(experiment, compute=compute)
    with inner_loops(settings) as loops:
        nothing = np.zeros(1, np.float32)
        method = LOSS_METHODS.methods[baseline](Evaluated(settings, nothing, LossName(""), loops))
        return method.train(request).final_return


def _trial(number: int, rung: int, settings: Mapping[str, float], finals: Any) -> Trial:
    failed = int(np.isnan(finals).sum())
    returns = worst_for_failed(finals)
    interval = (np.nan, np.nan) if failed == len(finals) else surviving_interval(finals)
    return Trial(number, rung, len(finals), settings, float(np.mean(returns)), interval, failed)
