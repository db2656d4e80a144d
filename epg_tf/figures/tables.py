"""Analyses that make tables: the settings of EPG's Table 1, and MetaGenRL's returns, from tests or
from those along meta-training.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping

import numpy as np

from epg_tf.core.errors import RecordError
from epg_tf.core.experiment import Experiment
from epg_tf.figures.declaration import Findings, Found, ProgressNeed, Row, TestNeed
from epg_tf.figures.records import FoundRun
from epg_tf.figures.settings import wanted
from epg_tf.figures.tidy import epochs_of, mean_with_interval, stated
from epg_tf.metagenrl.validation import COLUMN
from epg_tf.reports.table_pictures import table_picture
from epg_tf.reports.tables import label

ENVIRONMENTS = {
    "RandomHopper": "random_hopper",
    "RandomWalker": "random_walker",
    "RandomReacher": "random_reacher",
    "DirectionalHopper": "directional_hopper",
    "DirectionalHalfCheetah": "directional_half_cheetah",
    "GoalAnt": "goal_ant",
    "Fetch": "fetch",
}
"""Name in EPG's Table 1 -> config."""
_OBJECTIVE = "MetaGenRL, "


def settings_table(found: Found) -> Findings:
    """Reads workers, noise vectors, update period, updates and their product from the configs."""
    rows: list[Row] = []
    for name, config in ENVIRONMENTS.items():
        experiment = wanted(f"{config}:{found.scale}")
        assert isinstance(experiment, Experiment)
        rows.append(
            {
                "environment": name,
                "workers": experiment.evolution.lives,
                "noise_vectors": experiment.evolution.noise_vectors,
                "update_period": experiment.inner.update_period,
                "updates": experiment.inner.updates,
                "env_steps": experiment.life_steps,
            }
        )
    header = ("environment", "W", "V", "M", "updates", "env steps of a life")
    lines = [[str(cell) for cell in row.values()] for row in rows]
    numbers = [
        f"{row['environment']}: {row['updates']} updates x {row['update_period']} env steps = "
        f"{row['env_steps']}"
        for row in rows
    ]
    return Findings(rows, numbers, functools.partial(table_picture, header, lines))


def returns_table(found: Found) -> Findings:
    """Fills MetaGenRL's Table 2 from tests: one column for each environment, a row for each method;
    numbers are means over seeds of meta-training, with 95 % intervals over these or, where there is
    one test, over its agents. Agents of a rival count once, in whatever number of tests they are.
    """
    cells: dict[str, dict[str, list[Mapping[str, object]]]] = {}
    rows: list[Row] = []
    for need, method, row in _rows(found):
        name, place = _name(need, method), _place(need)
        cells.setdefault(name, {}).setdefault(place, []).append(row)
        rows.append(_cell(name, place, need.run.seed, row))
    places = list(dict.fromkeys(_place(need) for need, _ in found.tests))
    header = ("trained on / method", *places)
    objectives_first = sorted(cells, key=lambda name: not name.startswith(_OBJECTIVE))
    lines = [
        [name, *(_mean(cells[name].get(place, [])) for place in places)]
        for name in objectives_first
    ]
    numbers = [
        f"{name} in {place}: {text}"
        for name, *texts in lines
        for place, text in zip(places, texts, strict=True)
        if text != "-"
    ]
    return Findings(rows, numbers, functools.partial(table_picture, header, lines))


def _rows(found: Found) -> list[tuple[TestNeed, str, Mapping[str, object]]]:
    """Returns each row of tests of objectives, with its need and method. Of the rows of a rival in
    the same tasks, for as many env steps, only that of most agents: others repeat some of these. A
    test with the streams of published numbers comes before others, which have other agents.
    """
    rows = []
    best: dict[tuple[object, ...], tuple[tuple[bool, int], Mapping[str, object]]] = {}
    for need, test in found.tests:
        assert isinstance(need, TestNeed)
        for method, row in test.methods.items():
            key = (method, _place(need), test.about.get("seed"), row.get("env_steps"))
            rows.append((need, method, row, key))
            rank = (test.about.get("phase") == "objective_reporting", agents_of(row))
            if key not in best or rank > best[key][0]:
                best[key] = rank, row
    return [
        (need, method, row)
        for need, method, row, key in rows
        if method == "objective" or best[key][1] is row
    ]


def _place(need: TestNeed | ProgressNeed) -> str:
    return need.label.rpartition(": ")[2]


def _name(need: TestNeed, method: str) -> str:
    above = need.label.rpartition(": ")[0]
    return f"{_OBJECTIVE}{above}" if method == "objective" else label(method)


def _cell(name: str, place: str, seed: int, row: Mapping[str, object]) -> Row:
    mean, interval = row.get("final_return_mean"), row.get("ci95")
    older = (row.get("ci95_low"), row.get("ci95_high"))
    low, high = interval if isinstance(interval, list) else older
    return {
        "row": name,
        "environment": place,
        "seed": seed,
        "agents": agents_of(row),
        "env_steps": int(str(row.get("env_steps", 0))),
        "mean": _number(mean),
        "low": _number(low),
        "high": _number(high),
    }


def last_tests_table(found: Found) -> Findings:
    """Fills a table from the last test along each run of MetaGenRL: a row for each label of the
    needs, a column for each environment; a cell is the mean over seeds, and each seed's return.

    Raises:
      RecordError: A run has no test, or its last one is after another round than that of the first.
    """
    rows: list[Row] = []
    cells: dict[str, dict[str, list[float]]] = {}
    for need, run in found.runs:
        last = _last_test(run)
        if not last:
            raise RecordError(
                f"{run.shown}: this run was made without tests along the way "
                "(config.validation.period=0); make it again with tests"
            )
        for place, (tested, value) in last.items():
            if rows and tested != rows[0]["round"]:
                raise RecordError(
                    f"{run.shown}: its last test is after round {tested}, that of the first run "
                    f"after round {rows[0]['round']}; make it again with the same "
                    "config.validation.period"
                )
            rows.append(
                {
                    "row": need.label,
                    "environment": place,
                    "seed": run.record.seed,
                    "round": tested,
                    "mean": value,
                }
            )
            cells.setdefault(need.label, {}).setdefault(place, []).append(value)
    places = list(dict.fromkeys(str(row["environment"]) for row in rows))
    lines = [
        [name, *(_of_seeds(row.get(place, [])) for place in places)] for name, row in cells.items()
    ]
    numbers = [
        f"{name} in {place}: {text}"
        for name, *texts in lines
        for place, text in zip(places, texts, strict=True)
    ]
    shown = [place.removeprefix("gymnasium:") for place in places]
    return Findings(rows, numbers, functools.partial(table_picture, ("changed", *shown), lines))


def _last_test(run: FoundRun) -> dict[str, tuple[int, float]]:
    """Returns environment -> (round, mean final return) of the newest test along a run."""
    found: dict[str, tuple[int, float]] = {}
    epochs = epochs_of(run)
    for epoch, row in zip(epochs.tolist(), run.record.metrics, strict=True):
        for name, value in row.items():
            if name.startswith(COLUMN) and np.isfinite(value):
                found[name.removeprefix(COLUMN)] = (epoch, float(value))
    return found


def _of_seeds(values: list[float]) -> str:
    if not values:
        return "-"
    each = ", ".join(f"{value:.1f}" for value in values)
    return f"{np.mean(values):.1f} ({each})" if len(values) > 1 else each


def agents_of(row: Mapping[str, object]) -> int:
    """Returns the number of agents in a row of a summary, whose older name is `agents`."""
    return int(str(row.get("lives", row.get("agents", 0))))


def _number(value: object) -> float:
    """Returns a number of a summary; NaN for null."""
    return float(value) if isinstance(value, float | int) else float("nan")


def _mean(found: list[Mapping[str, object]]) -> str:
    """Returns a cell: the mean over tests, or what the only one states."""
    if not found:
        return "-"
    if len(found) == 1:
        return stated(found[0])
    return mean_with_interval(np.array([_number(row.get("final_return_mean")) for row in found]))
