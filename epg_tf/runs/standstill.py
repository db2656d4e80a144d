"""Says when a run does not learn: which of its epochs changed nothing, and why; or no longer."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from epg_tf.epg.settings import Experiment
from epg_tf.metagenrl.settings import MetaGenRLExperiment

Row = Mapping[str, Any]

IN_A_ROW = 5
"""Epochs without a change after which a run says so."""

PATIENCE = 4
"""Validations without a better one after which a run has stopped to improve."""

_FEW = 4  # noise vectors among which the signal-to-noise ratio may be NaN by chance


class Standstill:
    """Finds epochs that changed nothing in rows of metrics.

    Args:
      unit: What a row is of, e.g. "epoch".
      stands: Whether a row is of an epoch that changed nothing.
      line: Says so of some such rows, with the reason and what to do: (rows, which ones) -> line.
    """

    def __init__(
        self,
        unit: str,
        stands: Callable[[Row], bool],
        line: Callable[[Sequence[Row], str], str],
    ):
        self._unit, self._stands, self._line = unit, stands, line
        self._newest: list[Row] = []
        self._noticed = False

    def notice(self, row: Row) -> str | None:
        """Returns a line, once, after a row that ends `IN_A_ROW` ones without a change."""
        self._newest = [*self._newest, row][-IN_A_ROW:] if self._stands(row) else []
        if self._noticed or len(self._newest) < IN_A_ROW:
            return None
        self._noticed = True
        first, last = (int(self._newest[index]["epoch"]) for index in (0, -1))
        return self._line(self._newest, f"{self._unit}s {first} to {last}")

    def conclusion(self, rows: Sequence[Row]) -> str | None:
        """Returns a line on a run; None where at most half of it, and few, changed nothing."""
        found = [row for row in rows if self._stands(row)]
        if not is_most(len(found), len(rows)) and len(found) < IN_A_ROW:
            return None
        return self._line(found, f"{len(found)} of {len(rows)} {self._unit}s")

    def count(self, rows: Sequence[Row]) -> int:
        """Returns how many rows are of epochs that changed nothing."""
        return sum(map(self._stands, rows))


def is_most(part: int, whole: int) -> bool:
    """Returns whether a part is more than half of a whole."""
    return 2 * part > whole


def of_evolution(experiment: Experiment) -> Standstill:
    """Returns what finds the epochs of evolution in which no return told vectors apart.

    Epochs whose agents all learn from the surrogate alone are none of them, nor are those whose
    lives all failed.
    """
    evolution = experiment.evolution

    def stands(row: Row) -> bool:
        unused = evolution.moves == "loss" and row["alpha"] == 1.0
        if unused or row["failed_lives"] == evolution.lives:
            return False
        no_weights = evolution.noise_vectors > _FEW and math.isnan(row["signal_to_noise"])
        return _same_return(row) or row["update_norm"] == 0.0 or no_weights

    def line(rows: Sequence[Row], which: str) -> str:
        moved = any(row["update_norm"] != 0.0 for row in rows)
        what = {"loss": "the loss", "initialisation": "the initial policy"}
        changed = "changed by no return" if moved else "not changed"
        reason, use = (
            "the noise on it made no difference to a return",
            "actions that change the reward",
        )
        if all(map(_same_return, rows)):
            reason = "all their lifetimes had the same return"
            use = "a reward that differs between lifetimes"
        return (
            f"{what.get(evolution.moves, 'what evolves')} was {changed} in {which}, because "
            f"{reason}; use {use}, longer lifetimes or episodes, another initialisation (a seed, "
            f"or a loss to begin with), or config.evolution.sigma above {evolution.sigma:g}"
        )

    return Standstill("epoch", stands, line)


def _same_return(row: Row) -> bool:
    return not row["failed_lives"] and bool(row["fitness_min"] == row["fitness_max"])


def of_metagenrl(experiment: MetaGenRLExperiment) -> Standstill:
    """Returns what finds the rounds of MetaGenRL in which no agent had a gradient for the
    objective, though not all had failed.
    """

    def stands(row: Row) -> bool:
        return row["objective_gradient"] == 0.0 and row["failed_agents"] < experiment.agents

    def line(rows: Sequence[Row], which: str) -> str:
        del rows
        return (
            f"the objective was not changed in {which}, because its gradient was 0 for all agents; "
            "use observations, actions and rewards whose sizes are near 1, another seed, or "
            "config.agent.policy_learning_rate below "
            f"{experiment.agent.policy_learning_rate:g}"
        )

    return Standstill("round", stands, line)


def of_maml() -> Standstill:
    """Returns what finds the iterations of MAML whose meta-gradient was 0."""

    def stands(row: Row) -> bool:
        return bool(row["gradient_norm"] == 0.0)

    def line(rows: Sequence[Row], which: str) -> str:
        del rows
        return (
            f"the gradient of the initialisation was 0 in {which}: no reward told actions apart; "
            "use a reward that differs between lifetimes, or longer lifetimes or episodes"
        )

    return Standstill("iteration", stands, line)


def has_stopped_improving(rows: Sequence[Row]) -> bool:
    """Returns whether the newest validations of a run, `PATIENCE` of them, have not risen above
    the best before.
    """
    column = [row["validation_return_mean"] for row in rows]
    found = [value for value in column if value == value]  # NaN in other epochs
    return len(found) > PATIENCE and max(found[-PATIENCE:]) <= max(found[:-PATIENCE])
