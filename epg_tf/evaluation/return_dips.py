"""Counts agents that try the wrong thing before they do the right one (EPG, Figure 8: the negative
spikes of the return on DirectionalHopper).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from epg_tf.core.types import Array
from epg_tf.evaluation.results import Results
from epg_tf.evaluation.statistics import share_interval


@dataclasses.dataclass(frozen=True, eq=False)
class ReturnDips:
    """Which of L agents dip, and what they lived in.

    Attributes:
      task: [L] str, kind of each agent's task; agents of a kind are counted together.
      lowest: [L] lowest return of an episode of learning; NaN where none ended.
      final: [L] return of the final policy; NaN where the agent failed.
    """

    task: Array
    lowest: Array
    final: Array

    @property
    def ends_positive(self) -> Array:
        """[L] bool, whether the final policy's return is above zero."""
        return self.final > 0.0

    @property
    def dips(self) -> Array:
        """[L] bool, whether an episode's return is below zero before the agent ends above it."""
        return self.ends_positive & (self.lowest < 0.0)


def return_dips(results: Results, tasks: Sequence[str]) -> ReturnDips:
    """Returns which agents of one method dip.

    Args:
      results: Rows of one method and one loss.
      tasks: [L] kind of each agent's task, in the order of `Results.agents`.

    Raises:
      ValueError: There are rows of several methods, or not one kind for each agent.
    """
    owners = results.agents()
    if len({owner[:3] for owner in owners}) > 1 or len(owners) != len(tasks):
        raise ValueError(
            f"{len(tasks)} tasks for {len(owners)} agents of "
            f"{sorted({owner[0] for owner in owners})}; select the rows of one method and loss"
        )
    _, returns = results.pivot()
    lowest = np.min(np.where(np.isnan(returns), np.inf, returns), axis=1, initial=np.inf)
    lowest = np.where(np.isinf(lowest), np.nan, lowest)
    return ReturnDips(np.array(tasks, object), lowest, results.final())


def summarize_return_dips(found: ReturnDips) -> dict[str, Any]:
    """Returns the numbers of Figure 8.

    Returns:
      Kind of task, and "all" -> `agents`, `dips`, `share` (of all agents, failed ones included),
      its `ci95` (Wilson's) and `ends_positive`, a count.
    """
    kinds = [*dict.fromkeys(found.task.tolist())]
    chosen = {kind: found.task == kind for kind in kinds} | {"all": np.ones(len(found.task), bool)}
    return {kind: _numbers(found, rows) for kind, rows in chosen.items()}


def _numbers(found: ReturnDips, rows: Array) -> dict[str, Any]:
    agents, dips = int(rows.sum()), int(found.dips[rows].sum())
    return {
        "agents": agents,
        "dips": dips,
        "share": dips / agents,
        "ci95": share_interval(dips, agents),
        "ends_positive": int(found.ends_positive[rows].sum()),
    }
