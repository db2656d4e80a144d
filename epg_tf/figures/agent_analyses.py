"""Analyses of tests of fresh agents: curves of one test, of several side by side, and single lives.

Each function here returns an analysis, which a declaration names.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence

import numpy as np

from epg_tf.core.errors import RecordError
from epg_tf.core.failures import worst_for_failed
from epg_tf.epg.settings import Experiment
from epg_tf.evaluation.results import Results, read_results
from epg_tf.figures.declaration import Match, Result, Row
from epg_tf.figures.tidy import chosen, mean_with_interval, rows_of, summary_lines
from epg_tf.reports import agent_plots, life_columns, panels
from epg_tf.reports.panels import Curves
from epg_tf.reports.tables import label
from epg_tf.studies.return_dips import return_dips

Analysis = Callable[[Match], Result]

LEARNED = ("epg", "epg_i", "ppo_i", "objective")
"""Keys of the methods that use what was learned."""
_COLUMNS = 6


def learning_curves(methods: Sequence[str], levels: Sequence[str] = ()) -> Analysis:
    """Returns the analysis of one test: curves in the layout of EPG's Figure 5.

    Args:
      methods: To draw beside the learned loss.
      levels: Those of them of which only the final return is drawn, as a horizontal line.
    """

    def analysis(found: Match) -> Result:
        ((_, path),) = found.tests
        results = chosen(read_results(path), (*LEARNED, *methods))
        return Result(
            rows_of(results),
            summary_lines(results),
            functools.partial(agent_plots.learning_figure, results, levels=levels),
        )

    return analysis


def side_by_side(methods: Sequence[str], mark_training: bool = False) -> Analysis:
    """Returns the analysis of several tests, one panel for each word before ": " of the labels.

    Args:
      methods: To draw beside what was learned.
      mark_training: Whether a vertical line marks the env steps of a life in evolution.
    """

    def analysis(found: Match) -> Result:
        grid: dict[str, dict[str, Curves]] = {}
        rows: list[Row] = []
        numbers: list[str] = []
        for test, path in found.tests:
            panel, _, own = test.label.partition(": ")
            results = chosen(read_results(path), (*LEARNED, *methods))
            rows += rows_of(results, test.label)
            numbers += summary_lines(results, test.label)
            for name in dict.fromkeys(results.method.tolist()):
                key = own if own and name in LEARNED else label(name)
                curves = Curves.of_agents(results.select(method=name))
                grid.setdefault(panel, {}).setdefault(key, curves)
        marks = _training_steps(found) if mark_training else []
        return Result(rows, numbers, functools.partial(panels.agent_panels, grid, marks=marks))

    return analysis


def _training_steps(found: Match) -> list[float]:
    """Returns the env steps of a life in the evolution of what was tested, each once."""
    experiments = [test.runs[0].experiment() for test, _ in found.tests]
    return sorted({float(e.life_steps) for e in experiments if isinstance(e, Experiment)})


def single_lives(found: Match) -> Result:
    """Draws single lives of the learned loss, one column a task, for each test (EPG, Figure 22)."""
    ((test, path),) = found.tests
    results = chosen(read_results(path), LEARNED)
    agents = life_columns.spread(results, _COLUMNS)
    rows = results.rows(np.isin(results.agent, agents))
    finals = dict(zip((agent for *_, agent in results.agents()), results.final(), strict=True))
    numbers = [
        f"task {agent}: mean return of the final episodes {finals[agent]:.2f}" for agent in agents
    ]
    mean = mean_with_interval(worst_for_failed(results.final()))
    numbers.append(f"mean over all {len(finals)} agents: {mean}")
    return Result(
        rows_of(rows, test.label),
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

    def analysis(found: Match) -> Result:
        ((_, path),) = found.tests
        results = chosen(read_results(path), (*LEARNED, *methods))
        groups = results.groups()
        learned = next((rows for rows in groups.values() if rows.method[0] in LEARNED), None)
        if learned is None:
            raise RecordError(f"{path}: the test has no learned loss; run it again")
        agents = life_columns.spread(learned, _COLUMNS)
        numbers = summary_lines(results)
        numbers += [f"{label(name)}: {_dips(rows)}" for name, rows in groups.items()]
        return Result(
            rows_of(results.rows(np.isin(results.agent, agents))),
            numbers,
            functools.partial(life_columns.compared_columns, groups, agents),
        )

    return analysis


def _dips(rows: Results) -> str:
    """Returns how many agents had a return below zero before they ended above it."""
    found = return_dips(rows)
    low, high = found["ci95"]
    return (
        f"{found['dips']} of {found['agents']} agents dip below zero and end above, a share of "
        f"{found['share']:.2f} [{low:.2f}, {high:.2f}]"
    )
