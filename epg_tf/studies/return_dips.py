"""Counts agents that try the wrong thing before they do the right one (EPG, Figure 8: the negative
spikes of the return on DirectionalHopper).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from epg_tf.evaluation.results import Results
from epg_tf.evaluation.statistics import share_interval


def return_dips(results: Results) -> dict[str, Any]:
    """Returns how many agents have an episode of learning with a return below zero, and end above
    it.

    Args:
      results: Rows of one method and one loss.

    Returns:
      `agents`, `dips`, `share` (of all agents, failed ones included) and its `ci95` (Wilson's).
    """
    _, returns = results.pivot()
    lowest = np.min(np.where(np.isnan(returns), np.inf, returns), axis=1, initial=np.inf)
    agents, dips = len(lowest), int(((results.final() > 0.0) & (lowest < 0.0)).sum())
    return {
        "agents": agents,
        "dips": dips,
        "share": dips / agents,
        "ci95": share_interval(dips, agents),
    }
