"""Analyses that make tables: the settings of EPG's Table 1, and MetaGenRL's returns."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np

from epg_tf.core import files
from epg_tf.core.errors import RecordError
from epg_tf.epg.settings import Experiment
from epg_tf.figures.declaration import Match, Result, Row, Test
from epg_tf.figures.tidy import mean_with_interval, stated
from epg_tf.reports.table_pictures import table_picture
from epg_tf.reports.tables import label
from epg_tf.runs.config_files import load_experiment

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


def settings_table(found: Match) -> Result:
    """Reads workers, noise vectors, update period, updates and their product from the configs."""
    rows: list[Row] = []
    for name, config in ENVIRONMENTS.items():
        experiment = load_experiment(f"{config}:{found.scale}")
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
    return Result(rows, numbers, functools.partial(table_picture, header, lines))


def returns_table(found: Match) -> Result:
    """Fills MetaGenRL's Table 2 from evaluations: one column for each environment, a row for each
    method; numbers are means over seeds of meta-training, with 95 % intervals over these or, where
    there is one evaluation, over its agents.
    """
    cells: dict[str, dict[str, list[Mapping[str, object]]]] = {}
    rows: list[Row] = []
    for test, path in found.tests:
        trained_on, _, place = test.label.rpartition(": ")
        for method, seed, row in _rows(test, path):
            name = f"{_OBJECTIVE}{trained_on}" if method == "objective" else label(method)
            cells.setdefault(name, {}).setdefault(place, []).append(row)
            rows.append(_cell(name, place, seed, row))
    places = list(dict.fromkeys(test.label.rpartition(": ")[2] for test, _ in found.tests))
    lines = [
        [name, *(_mean(cells[name].get(place, [])) for place in places)]
        for name in sorted(cells, key=lambda name: not name.startswith(_OBJECTIVE))
    ]
    header = ("trained on / method", *places)
    numbers = [
        f"{name} in {place}: {text}"
        for name, *texts in lines
        for place, text in zip(places, texts, strict=True)
        if text != "-"
    ]
    return Result(rows, numbers, functools.partial(table_picture, header, lines))


def _rows(test: Test, path: Path) -> Iterator[tuple[str, int, Mapping[str, object]]]:
    """Yields method, seed of meta-training and row of a summary: each objective, then baselines if
    the declaration asks for some.

    Raises:
      RecordError: It has no row of an objective.
    """
    file = path / "summary.json" if path.is_dir() else path
    summary = files.read_json(file, "the summary")
    about = summary.get("about", {})
    facts = {about.get("loss"): about.get("loss_facts", {}), **about.get("other_loss_facts", {})}
    keys = {"objective": about.get("loss")}
    if len(facts) > 1:
        keys = {f"objective {name}": name for name in facts}
    for key, name in keys.items():
        if not isinstance(summary.get(key), dict):
            raise RecordError(f"{file}: it has no row of {key}; evaluate it again")
        yield "objective", int(facts[name].get("seed", -1)), summary[key]
    for method, row in summary.items():
        if test.compare and isinstance(row, dict) and "final_return_mean" in row:
            if method.partition(" ")[0] != "objective":
                yield method, test.runs[0].seed, row


def _cell(name: str, place: str, seed: int, row: Mapping[str, object]) -> Row:
    interval = row.get("ci95")
    older = (row.get("ci95_low"), row.get("ci95_high"))
    low, high = interval if isinstance(interval, list) else older
    return {
        "row": name,
        "environment": place,
        "seed": seed,
        "agents": int(str(row.get("lives", row.get("agents", 0)))),  # as it was named before
        "env_steps": int(str(row.get("env_steps", 0))),
        "mean": _number(row.get("final_return_mean")),
        "low": _number(low),
        "high": _number(high),
    }


def _number(value: object) -> float:
    """Returns a number of a summary; NaN for null."""
    return float(value) if isinstance(value, float | int) else float("nan")


def _mean(found: list[Mapping[str, object]]) -> str:
    """Returns a cell: the mean over evaluations, or what the only one states."""
    if not found:
        return "-"
    if len(found) == 1:
        return stated(found[0])
    return mean_with_interval(np.array([_number(row.get("final_return_mean")) for row in found]))
