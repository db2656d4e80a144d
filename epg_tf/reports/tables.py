"""Writes summaries of a test as tables of text."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from epg_tf.baselines.method import LABELS
from epg_tf.core import formatting
from epg_tf.evaluation.summary import Summary

EXPLANATION = """\
mean: return of the final policy (sum of rewards in an episode), over agents; one that failed counts
as the worst of the others; auc: return, averaged over learning; match: env steps from which on a
method reaches the learned loss's final mean, to the end; ahead: how far the learned loss ends above
a method, agent by agent"""
"""Explains the columns of `summary_rows`."""
HEADER = (
    "", "mean", "95 % interval", "IQM", "auc", "agents", "failed", "success", "env steps", "match",
    "ahead", "95 % interval",
)  # fmt: skip
"""Names the columns of `summary_rows`."""


def label(name: str) -> str:
    """Returns what a picture or table calls a group of results; its key where it has no label."""
    method, _, loss = name.partition(" ")
    return f"{LABELS.get(method, method)} {loss}".rstrip()


def text_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Returns a table as lines; the first column to the left, others to the right."""
    widths = [max(map(len, cells)) for cells in zip(header, *rows, strict=True)]
    return "\n".join(
        "  ".join(
            f"{cell:>{width}}" if place else f"{cell:{width}}"
            for place, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in (header, *rows)
    )


def intervals_table(rows: Mapping[str, Mapping[str, Any]]) -> str:
    """Returns a line for each row: mean, 95 % interval, lives, failures."""
    return text_table(("", "mean", "95 % interval", "lives", "failed"), interval_cells(rows))


def interval_cells(rows: Mapping[str, Mapping[str, Any]]) -> list[tuple[str, ...]]:
    """Returns the cells of `intervals_table`.

    Args:
      rows: Label -> a row of `statistics.interval_row`.
    """
    return [
        (
            name,
            number(row["mean"]),
            interval(row["ci95"]),
            str(row["lives"]),
            str(row["failed_lives"]),
        )
        for name, row in rows.items()
    ]


def summary_table(summaries: Mapping[str, Summary]) -> str:
    """Returns a table of lines, the best method first, and how the learned loss compares."""
    table = text_table(HEADER, summary_rows(summaries))
    return "\n".join([EXPLANATION, "", table, "", *comparison(summaries)])


def summary_rows(summaries: Mapping[str, Summary]) -> list[tuple[str, ...]]:
    """Returns the cells of each method below `HEADER`, the best method first."""
    compared = any(row.steps_to_match is not None for row in summaries.values())
    never = "never" if compared else "-"
    return [
        (
            label(name),
            number(row.final_return_mean),
            interval(row.ci95),
            number(row.final_return_iqm),
            number(row.auc_mean),
            str(row.lives),
            str(row.failed_lives),
            "-" if math.isnan(row.success_rate) else f"{row.success_rate:.0%}",
            formatting.count(row.env_steps),
            never if row.steps_to_match is None else formatting.count(row.steps_to_match),
            "" if row.ahead_mean is None else number(row.ahead_mean),
            "" if row.ahead_ci95 is None else interval(row.ahead_ci95),
        )
        for name, row in _best_first(summaries).items()
    ]


def number(value: float | None) -> str:
    """Returns a return as text: two decimals, "-" where it is not known."""
    return "-" if value is None or not math.isfinite(value) else f"{value:.2f}"


def interval(ends: Sequence[float | None]) -> str:
    """Returns both ends of an interval as text."""
    low, high = ends
    return f"[{number(low)}, {number(high)}]"


def meta_training_line(env_steps: Mapping[str, int | None]) -> str:
    """Returns a sentence about what meta-training took, the mean over runs of each method.

    Args:
      env_steps: Keys of groups of results, "METHOD LOSS" -> env steps; None where unknown.
    """
    methods: dict[str, list[int | None]] = {}
    for name, steps in env_steps.items():
        methods.setdefault(name.partition(" ")[0], []).append(steps)
    parts = [f"{label(method)} {_mean_cost(costs)}" for method, costs in methods.items()]
    return f"env steps of meta-training: {', '.join(parts)}"


def _mean_cost(costs: Sequence[int | None]) -> str:
    known = [steps for steps in costs if steps is not None]
    if not known:
        return "not recorded"
    mean = formatting.count(round(sum(known) / len(known)))
    if len(costs) == 1:
        return mean
    return f"{mean} (mean of {len(known)} runs)"


def _best_first(summaries: Mapping[str, Summary]) -> dict[str, Summary]:
    def worth(item: tuple[str, Summary]) -> float:
        mean = item[1].final_return_mean
        return -math.inf if math.isnan(mean) else mean

    return dict(sorted(summaries.items(), key=worth, reverse=True))


def comparison(summaries: Mapping[str, Summary]) -> list[str]:
    """Returns sentences about the learned loss and the best of the others, if both are there."""
    others = {
        name: row
        for name, row in summaries.items()
        if row.ahead_mean is not None and not _is_one_of_several(name, summaries)
    }
    learned = [name for name, row in summaries.items() if row.ahead_mean is None]
    learned = [name for name in learned if summaries[name].losses is not None] or learned
    if not others or len(learned) != 1:
        return []
    mine, (best, other) = summaries[learned[0]], next(iter(_best_first(others).items()))
    gap = mine.final_return_mean - other.final_return_mean
    apart = mine.ci95[0] > other.ci95[1] or mine.ci95[1] < other.ci95[0]
    overlap = "do not overlap" if apart else "overlap"
    beaten = [
        label(name)
        for name, row in others.items()
        if row.ahead_ci95 is not None and row.ahead_ci95[0] > 0.0
    ]
    return [
        f"{label(learned[0])} ends {abs(gap):.2f} {'above' if gap > 0 else 'below'} the best of "
        f"the others, {label(best)}; their 95 % intervals {overlap}",
        "agent by agent, and beyond the 95 % interval of the difference, it ends above: "
        f"{', '.join(beaten) or 'none of the others'}",
    ]


def _is_one_of_several(name: str, summaries: Mapping[str, Summary]) -> bool:
    """Returns whether a row is of one of the runs that another row is the mean of."""
    method, space, _ = name.partition(" ")
    return bool(space) and method in summaries and summaries[method].losses is not None
