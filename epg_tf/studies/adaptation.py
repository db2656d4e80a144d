"""Measures whether a loss has learned to teach, or holds one policy.

Each agent is paired with the next one whose task is another. Its final return in its own task is
compared with that in the other's (transfer), with that after it was taught from the other's
experience (yoked), and with what it regains after its task has become the other's (switch).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from epg_tf.artifacts.artifact import LearnedLoss
from epg_tf.baselines.inner_loop_method import InnerLoops
from epg_tf.baselines.method import Request
from epg_tf.core.errors import ConfigError
from epg_tf.core.types import Array
from epg_tf.epg.conditions import Condition, Kind
from epg_tf.epg.inner_loop import final_inner_settings
from epg_tf.epg.lives import sample_tasks
from epg_tf.epg.memory_requirements import refuse_lives_that_cannot_fit
from epg_tf.epg.meta_parameters import evolves_loss
from epg_tf.evaluation import fixed_policies
from epg_tf.evaluation.checks import check_phi
from epg_tf.evaluation.methods import inner_loops
from epg_tf.evaluation.statistics import difference_row, interval_row
from epg_tf.tasks.quantities import Task
from epg_tf.tasks.registry import make_family


@dataclasses.dataclass(frozen=True)
class Measure:
    """One of the returns that are measured of every agent.

    Attributes:
      name: Key in files; of a switch also "before", "after" and "end".
      kind: Of the condition; None: an ordinary life.
      half: Whether the life ends where tasks switch in others.
    """

    name: str
    kind: Kind | None = None
    half: bool = False


MEASURES = (
    Measure("own"),
    Measure("transfer", "transfer"),
    Measure("yoked", "yoked"),
    Measure("before", half=True),
    Measure("after", "transfer", half=True),
    Measure("end", "switch"),
)
"""What is run, one life of each agent for each of them."""


def pairs(tasks: Sequence[Task]) -> tuple[tuple[int, ...], int]:
    """Pairs each agent with the next one, in a circle, that has another task; where all have the
    same task, with the next one.

    Args:
      tasks: Of the L agents.

    Returns:
      [L] number of each one's other agent, and how many of these have another task.
    """
    known = [tuple(sorted((name, value.tobytes()) for name, value in t.items())) for t in tasks]
    count = len(known)
    if len(set(known)) < 2:
        return tuple((agent + 1) % count for agent in range(count)), 0
    others = []
    for agent, own in enumerate(known):
        after = ((agent + step) % count for step in range(1, count))
        others.append(next(other for other in after if known[other] != own))
    return tuple(others), count


@dataclasses.dataclass(frozen=True)
class AdaptationTest:
    """The test of what the agents of a loss learn from.

    Attributes:
      learned: The loss; its experiment holds the settings of the test.
      request: Which agents; `own` are the final returns of a test with this request.
      fixed: Fixed policies to put into the same tasks.
    """

    learned: LearnedLoss
    request: Request
    fixed: Sequence[LearnedLoss] = ()

    def __post_init__(self) -> None:
        """Raises ConfigError where phi does not fit, or lives are too short or too few."""
        check_phi(self.learned.experiment, self.learned.phi)
        if self.updates < 2:
            raise ConfigError(
                f"updates={self.updates}: give agents 2 or more, since the task switches half-way"
            )
        if self.request.agents < 2:
            raise ConfigError(f"lives={self.request.agents} has no pairs; ask for 2 or more")
        experiment = self.learned.experiment
        if final_inner_settings(experiment).alpha < 1.0 and not evolves_loss(experiment):
            raise ConfigError(
                "config.evolution.moves='initialisation': there is a policy and no loss, so lives "
                f"of updates={self.updates} have nothing to learn from; name a loss"
            )
        refuse_lives_that_cannot_fit(experiment, self.request.agents)

    @property
    def updates(self) -> int:
        """Updates in a life."""
        return self.request.env_steps // self.learned.experiment.inner.update_period

    def pairs(self) -> tuple[tuple[int, ...], int]:
        """Returns `pairs` of the agents."""
        family = make_family(self.request.task)
        return pairs(sample_tasks(family, self.request.keys()))

    def run(self) -> Iterator[tuple[str, Array]]:
        """Yields the name and the final returns [L] of each measure as they are found, then of the
        fixed policies; NaN where an agent failed.
        """
        (others, _), phi = self.pairs(), self.learned.phi
        with inner_loops(self.learned.experiment) as loops:
            for measure in MEASURES:
                yield measure.name, self._lives(loops, measure, others, lambda agent: phi)
        for method in fixed_policies.methods(self.fixed):
            yield method.name, method.train(self.request).final_return

    def _lives(
        self,
        loops: InnerLoops,
        measure: Measure,
        others: tuple[int, ...],
        phi: Callable[[int], Array],
    ) -> Array:
        """Returns the final returns of the lives of one measure, [L]."""
        half, request = self.updates // 2, self.request
        inner_settings = final_inner_settings(self.learned.experiment)
        if measure.kind is not None:
            condition = Condition(measure.kind, others, half)
            inner_settings = dataclasses.replace(inner_settings, condition=condition)
        if measure.half:
            period = self.learned.experiment.inner.update_period
            request = dataclasses.replace(request, env_steps=half * period)
        return loops.run(request, phi, inner_settings).final_return


def summarize_adaptation(found: dict[str, Array], differing: int, switch: int) -> dict[str, Any]:
    """Returns what `adaptation.json` holds of the measures.

    Args:
      found: Name of a measure -> final returns [L].
      differing: How many agents are paired with one that has another task.
      switch: Updates before tasks switch.

    Returns:
      "own", "transfer", "yoked" and "switch", each with `mean`, `ci95`, `lives` and `failed_lives`;
      an agent that failed counts as the worst of the others. "transfer" and "yoked" also say how
      far they end above "own", agent by agent. Those of "switch" are of the end of the life.
    """
    own = found["own"]
    summary: dict[str, Any] = {"own": interval_row(own)}
    for name in ("transfer", "yoked"):
        summary[name] = {**interval_row(found[name]), "above_own": difference_row(found[name], own)}
    before, after, end = (found[name] for name in ("before", "after", "end"))
    summary["switch"] = {
        **interval_row(end),
        "updates_before": switch,
        "before": interval_row(before),
        "after": interval_row(after),
        "lost": difference_row(before, after),
        "regained": difference_row(end, after),
    }
    measured = {measure.name for measure in MEASURES}
    fixed = {name: interval_row(returns) for name, returns in found.items() if name not in measured}
    if fixed:
        summary["zero_shot"] = fixed
    summary["pairs"] = {"differing_tasks": differing, "all": len(own)}
    return summary
