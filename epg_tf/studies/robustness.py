"""Measures what a loss is worth where something is not as in evolution: tasks from the ends of
their range and from outside it, policies of other shapes (as in EPG, Figure 17), longer lives.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from epg_tf.agents.settings import PolicyConfig
from epg_tf.artifacts.artifact import LearnedLoss
from epg_tf.baselines.inner_loop_method import InnerLoops
from epg_tf.baselines.method import Request
from epg_tf.core.errors import ConfigError
from epg_tf.core.types import Array
from epg_tf.epg.inner_loop import final_inner_settings
from epg_tf.epg.memory_requirements import refuse_lives_that_cannot_fit
from epg_tf.epg.settings import Experiment
from epg_tf.evaluation import fixed_policies
from epg_tf.evaluation.checks import check_phi
from epg_tf.evaluation.methods import inner_loops
from epg_tf.evaluation.statistics import difference_row, interval_row
from epg_tf.tasks.quantities import ranges
from epg_tf.tasks.registry import make_family

OWN = "own"
"""Name of lives in which nothing is changed."""

LOSS = "loss"
"""Key of the loss's returns, beside the names of fixed policies."""

_LONGER = 4  # times as many updates


@dataclasses.dataclass(frozen=True)
class Change:
    """One thing that is not as in evolution.

    Attributes:
      name: Key in files.
      label: In tables and pictures.
      task_range: Where tasks are drawn from; None: as in evolution.
      policy: Of the agents; None: as in evolution.
      times: How many times as many updates agents have.
    """

    name: str
    label: str
    task_range: str | None = None
    policy: PolicyConfig | None = None
    times: int = 1

    def apply(self, experiment: Experiment) -> Experiment:
        """Returns the settings of agents that live with this change."""
        task = experiment.task
        if self.task_range is not None:
            task = dataclasses.replace(task, range=self.task_range)
        return dataclasses.replace(experiment, task=task, policy=self.policy or experiment.policy)

    def facts(self) -> dict[str, Any]:
        """Returns the label and what is changed, for JSON; None stands for "as in evolution"."""
        return {
            "label": self.label,
            "task_range": self.task_range,
            "policy": None if self.policy is None else dataclasses.asdict(self.policy),
            "times": self.times,
        }


def changes(experiment: Experiment) -> tuple[Change, ...]:
    """Returns the changes that are measured, after the lives without any.

    Ends are those of the range that the loss had; where its tasks do not differ, there are none.
    "shifted" is left out where the family has no out-of-distribution tasks or the loss had these;
    policies that the loss was evolved with are no change, and a loss with an initial policy fits no
    other shape.
    """
    found = [Change(OWN, "as in evolution"), *_ranges(experiment)]
    tanh = dataclasses.replace(experiment.policy, activation="tanh")
    shapes = (
        ("wide", "policy of 2 x 256 tanh", dataclasses.replace(tanh, hidden=(256, 256))),
        ("deep", "policy of 4 x 64 tanh", dataclasses.replace(tanh, hidden=(64,) * 4)),
        (
            "relu",
            "policy of 2 x 64 ReLU",
            dataclasses.replace(tanh, hidden=(64, 64), activation="relu"),
        ),
    )
    if experiment.evolution.moves == "loss":
        for name, label, policy in shapes:
            if policy != experiment.policy:
                found.append(Change(name, label, policy=policy))
    return (*found, Change("longer", f"lives {_LONGER} times as long", times=_LONGER))


def _ranges(experiment: Experiment) -> list[Change]:
    """Returns the changes of where tasks are drawn from."""
    quantities = make_family(experiment.task).quantities
    own = ranges(quantities, experiment.task.range)
    found = []
    if any(bounds is not None and bounds[0] < bounds[1] for bounds in own.values()):
        for name, end in (("lowest", 0), ("highest", 1)):
            words = []
            for each in quantities:
                value = (own[each.name] or (each.nominal,) * 2)[end]
                words.append(f"{each.name}={value!r}:{value!r}")
            found.append(Change(name, f"every quantity at its {name}", ",".join(words)))
    shifted = "out_of_distribution"
    exists = any(each.shifted is not None for each in quantities)
    if exists and ranges(quantities, shifted) != own:
        found.append(Change("shifted", "tasks outside the training range", shifted))
    return found


@dataclasses.dataclass(frozen=True)
class RobustnessTest:
    """The test of a loss under each change.

    Attributes:
      learned: The loss; its experiment holds the settings of the test.
      request: Of the lives without any change.
      fixed: Fixed policies, which are put into the same tasks where these change.
    """

    learned: LearnedLoss
    request: Request
    fixed: Sequence[LearnedLoss] = ()

    def __post_init__(self) -> None:
        """Raises ConfigError where phi does not fit, a fixed policy does not fit the body, lives
        are too few or without updates, or memory does not hold them.
        """
        check_phi(self.learned.experiment, self.learned.phi)
        for policy in self.fixed:
            fixed_policies.check_body(policy, self.request.task)
        if self.request.agents < 2:
            raise ConfigError(f"lives={self.request.agents} gives no interval; ask for 2 or more")
        if not self.request.env_steps:
            raise ConfigError("updates=0: agents that do not learn cannot learn for longer")
        for change in changes(self.learned.experiment):
            refuse_lives_that_cannot_fit(change.apply(self.learned.experiment), self.request.agents)

    def run(self, known: Collection[str] = ()) -> Iterator[tuple[Change, dict[str, Array]]]:
        """Yields each change with the final returns [L] of the loss's agents and, where tasks are
        others, of the fixed policies by name; NaN where an agent failed. Agents with the same
        number have the same random streams under every change.

        Args:
          known: Names of changes that are left out. Lives without any change never are, because
            the others are compared with them.
        """
        fixed = fixed_policies.methods(self.fixed)
        for change in changes(self.learned.experiment):
            if change.name in known and change.name != OWN:
                continue
            experiment = change.apply(self.learned.experiment)
            request = dataclasses.replace(self.request, task=experiment.task)
            with inner_loops(experiment) as loops:
                found = {LOSS: self._returns(loops, request.of_length(change.times))}
            if change.name == OWN or change.task_range is not None:
                found |= {each.name: each.train(request).final_return for each in fixed}
            yield change, found

    def _returns(self, loops: InnerLoops, request: Request) -> Array:
        phi = self.learned.phi
        return loops.run(
            request, lambda agent: phi, final_inner_settings(loops.experiment)
        ).final_return


def summarize_robustness(
    found: Sequence[tuple[Change, Mapping[str, Array]]],
) -> dict[str, dict[str, Any]]:
    """Returns what `robustness.json` holds: by the name of a change what it changes, and `loss` and
    the fixed policies as of `statistics.interval_row`; `above_own` says how far the loss's agents
    end above those without any change, agent by agent.

    Args:
      found: From `RobustnessTest.run`; the first has no change.
    """
    own = found[0][1][LOSS]
    summary: dict[str, dict[str, Any]] = {}
    for change, returns in found:
        rows: dict[str, Any] = {name: interval_row(each) for name, each in returns.items()}
        if change.name != OWN:
            rows["above_own"] = difference_row(returns[LOSS], own)
        summary[change.name] = {**change.facts(), **rows}
    return summary
