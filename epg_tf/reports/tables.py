"""Writes summaries of a test as text."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from epg_tf.baselines.method import LABELS
from epg_tf.core import formatting
from epg_tf.evaluation.summary import Summary

_EXPLANATION = """\
return of the final policy (sum of rewards in an episode); auc: return, averaged over learning;
ahead: how far the learned loss ends above a method, agent by agent; match: env steps after which a
method first reaches the learned loss's final mean return"""


def label(name: str) -> str:
    """Returns what a picture or table calls a group of results; its key where it has no label."""
    method, _, loss = name.partition(" ")
    return f"{LABELS.get(method, method)} {loss}".rstrip()


def summary_table(summaries: Mapping[str, Summary]) -> str:
    """Returns a table of lines, the best method first, and how the learned loss compares.

    Args:
      summaries: Of each method, as of `summarize`.
    """
    width = max(22, *(len(label(name)) + 1 for name in summaries))
    lines = [
        _EXPLANATION,
        f"{'':{width}}{'mean':>9}  {'95 % interval':>20}  {'IQM':>9}  {'auc':>9}  {'agents':>6}  "
        f"{'failed':>6}  {'success':>7}  {'match':>8}  {'ahead':>8}  {'95 % interval':>18}",
    ]
    compared = any(row.steps_to_match is not None for row in summaries.values())
    lines += [
        _line(label(name), width, row, compared) for name, row in _best_first(summaries).items()
    ]
    return "\n".join([*lines, "", *_comparison(summaries)])


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


def _line(name: str, width: int, row: Summary, compared: bool) -> str:
    """Returns the line of a method; `compared`: whether there is a learned loss to match."""
    ahead = ""
    never = "never" if compared else "-"
    match = never if row.steps_to_match is None else str(row.steps_to_match)
    if row.ahead_mean is not None and row.ahead_ci95 is not None:
        ahead = f"{row.ahead_mean:8.2f}  {_interval(row.ahead_ci95):>18}"
    success = "-" if math.isnan(row.success_rate) else f"{row.success_rate:.0%}"
    auc = "-" if math.isnan(row.auc_mean) else f"{row.auc_mean:.2f}"
    return (
        f"{name:{width}}{row.final_return_mean:9.2f}  {_interval(row.ci95):>20}  "
        f"{row.final_return_iqm:9.2f}  {auc:>9}  {row.lives:6d}  {row.failed_lives:6d}  "
        f"{success:>7}  {match:>8}  {ahead}"
    ).rstrip()


def _interval(ends: tuple[float, float]) -> str:
    return f"[{ends[0]:.2f}, {ends[1]:.2f}]"


def _comparison(summaries: Mapping[str, Summary]) -> list[str]:
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
