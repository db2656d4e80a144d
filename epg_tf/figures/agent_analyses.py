"""Analyses of tests of fresh agents: curves of one test, of several side by side, and single lives.

Each function here returns an analysis, which a declaration names.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence

import numpy as np

from epg_tf.core.errors import RecordError
from epg_tf.core.experiment import Experiment
from epg_tf.core.failures import worst_for_failed
from epg_tf.evaluation.results import Results
from epg_tf.evaluation.return_dips import return_dips, summarize_return_dips
from epg_tf.figures.declaration import Findings, Found, Row
from epg_tf.figures.settings import wanted
from epg_tf.figures.tidy import chosen, mean_with_interval, rows_of, summary_lines
from epg_tf.reports import agent_plots, life_columns, panels
from epg_tf.reports.panels import Curves
from epg_tf.reports.tables import label

Analysis = Callable[[Found], Findings]

LEARNED = ("epg", "epg_i", "ppo_i", "objective")
"""Keys of the methods that use what was learned."""
_COLUMNS = 6


def learning_curves(methods: Sequence[str], levels: Sequence[str] = ()) -> Analysis:
    """Returns the analysis of one test: curves in the layout of EPG's Figure 5.

    Args:
      methods: To draw beside the learned loss.
      levels: Those of them of which only the final return is drawn, as a horizontal line.
    """

    def analysis(found: Found) -> Findings:
        _, test = found.tests[-1]  # of several the one with most rivals
        results = chosen(test.results(), (*LEARNED, *methods))
        return Findings(
            rows_of(results),
            summary_lines(results),
            functools.partial(agent_plots.learning_figure, results, levels=levels),
        )

    return analysis


def side_by_side(methods: Sequence[str], mark_training: bool = False) -> Analysis:
    """Returns the analysis of several tests, one panel for each label of the needs; tests of the
    same label share a panel.

    Args:
      methods: To draw beside what was learned.
      mark_training: Whether a vertical line marks the env steps of a life in evolution.
    """

    def analysis(found: Found) -> Findings:
        grid: dict[str, dict[str, list[Results]]] = {}
        rows: list[Row] = []
        numbers: list[str] = []
        labels = [need.label for need, _ in found.tests]
        for need, test in found.tests:
            above, _, own = need.label.partition(": ")
            one_of_several = f", seed {need.run.seed}" if labels.count(need.label) > 1 else ""
            results = chosen(test.results(), (*LEARNED, *methods))
            rows += rows_of(results, need.label)
            numbers += summary_lines(results, need.label + one_of_several)
            for group in results.groups().values():
                key = own if own and group.method[0] in LEARNED else label(str(group.method[0]))
                grid.setdefault(above, {}).setdefault(key, []).append(group)
        curves = {
            above: {key: _joined(tables) for key, tables in groups.items()}
            for above, groups in grid.items()
        }
        marks = _training_steps(found) if mark_training else []
        return Findings(rows, numbers, functools.partial(panels.agent_panels, curves, marks=marks))

    return analysis


def _joined(tables: Sequence[Results]) -> Curves:
    """Returns the curves of the agents of several tables over the env steps of all of them."""
    pivots = [table.pivot() for table in tables]
    steps = np.unique(np.concatenate([each for each, _ in pivots]))
    whole = []
    for mine, values in pivots:
        wide = np.full((len(values), len(steps)), np.nan)
        wide[:, np.searchsorted(steps, mine)] = values
        whole.append(wide)
    return Curves(steps, np.concatenate(whole))


def _training_steps(found: Found) -> list[float]:
    """Returns the env steps of a life in the evolution of what was tested, each once."""
    runs = [wanted(need.run.config, need.run.changes) for need, _ in found.tests]
    return sorted({float(run.life_steps) for run in runs if isinstance(run, Experiment)})


def single_lives(found: Found) -> Findings:
    """Draws single lives of the learned loss, one column a task, for each test (EPG, Figure 22)."""
    need, test = found.tests[0]
    results = chosen(test.results(), LEARNED)
    agents = life_columns.spread(results, _COLUMNS)
    rows = results.rows(np.isin(results.agent, agents))
    finals = dict(zip((agent for *_, agent in results.agents()), results.final(), strict=True))
    numbers = [
        f"task {agent}: mean return of the final episodes {finals[agent]:.2f}" for agent in agents
    ]
    mean = mean_with_interval(worst_for_failed(results.final()))
    numbers.append(f"mean over all {len(finals)} agents: {mean}")
    return Findings(
        rows_of(rows, need.label),
        numbers,
        functools.partial(life_columns.life_columns, results, agents),
    )


def compared_lives(methods: Sequence[str]) -> Analysis:
    """Returns the analysis that draws the learned loss and others in the same tasks, one column a
    task, and counts how many agents go below zero on their way to a positive return (EPG, Figure 8
    and first version, Figures 4, 5, 7 and 8).

    Args:
      methods: To draw beside the learned loss.
    """

    def analysis(found: Found) -> Findings:
        ((_, test),) = found.tests
        results = chosen(test.results(), (*LEARNED, *methods))
        groups = results.groups()
        learned = next((rows for rows in groups.values() if rows.method[0] in LEARNED), None)
        if learned is None:
            raise RecordError(f"{test.shown}: the test has no learned loss; run it again")
        agents = life_columns.spread(learned, _COLUMNS)
        numbers = summary_lines(results)
        numbers += [f"{label(name)}: {_dips(rows)}" for name, rows in groups.items()]
        return Findings(
            rows_of(results.rows(np.isin(results.agent, agents))),
            numbers,
            functools.partial(life_columns.compared_columns, groups, agents),
        )

    return analysis


def _dips(rows: Results) -> str:
    """Returns how many agents had a return below zero before they ended above it."""
    dips = return_dips(rows, ["any"] * len(rows.agents()))
    found = summarize_return_dips(dips)["all"]
    low, high = found["ci95"]
    return (
        f"{found['dips']} of {found['agents']} agents dip below zero and end above, a share of "
        f"{found['share']:.2f} [{low:.2f}, {high:.2f}]"
    )
