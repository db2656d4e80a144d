"""Writes what the pages take from the kept results: tables, numbers and pictures.

    make pages

A page marks what is written here. Between `<!-- begin: NAME -->` and `<!-- end -->` stands the
table NAME of docs/tables.txt, or, where NAME is `printed MODULE FLAG`, what a module prints.
Between `<!--=NUMBER-->` and `<!--/-->` stands a number of the data set. Cells in braces of
docs/tables.txt are numbers, too; after `±` the mean and half of its interval. A number is one of
these; colons may stand for blanks:

    RECORD ROW           final return of a row of results/evaluations.csv, with its 95 % interval
    RECORD ROW MEASURE   its `ahead`, `auc` or `initial` return, or the column MEASURE
    RUN COLUMN           a cell of results/runs.csv, or the newest one of the run's metrics.csv
    FILE.json KEY/KEY    a mean or a number of a record, where no row of a table has it

ROW is a method, `epg`, or one of its losses by the seed of their evolution, `epg@1`.
"""

from __future__ import annotations

import csv
import functools
import io
import json
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from epg_tf.figures.results import unpacked  # noqa: E402

RESULTS = ROOT / "results"
_TEXT = (ROOT / "docs" / "tables.txt").read_text("utf-8")
PAGES = (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")))
_LOSSES = {"epg": "evolved loss", "sac": "SAC", "ppo": "PPO", "untrained": "never learns"}
_OBJECTIVES = {
    "objective": "learned objective",
    "ddpg_with_td3": "DDPG with TD3's parts",
    "ppo": "PPO",
}
_LONG = "metagenrl_night/cheetah_lunar_{}_100k"
PICTURES = {
    "directional_hopper.svg": (_LOSSES, {"": ("tests/directional_hopper-night",)}),
    "objective_100k.svg": (
        _OBJECTIVES,
        {
            "HalfCheetah": (_LONG.format("half_cheetah"),),
            "LunarLanderContinuous": (_LONG.format("lunar"),),
            "Hopper, unseen": (_LONG.format("hopper"), _LONG.format("hopper") + "_ppo"),
        },
    ),
}
"""Picture of a page -> its methods, and the evaluations whose learning curves each panel shows."""
TABLES = dict(part.split("\n", 1) for part in re.split(r"^# ", _TEXT, flags=re.MULTILINE) if part)
MEASURES = ("ahead", "auc", "initial")
_REGION = re.compile(r"(<!-- begin: ([^>]*?) -->)(.*?)(<!-- end -->)", re.DOTALL)
_NUMBER = re.compile(r"(<!--=([^>]*?)-->)(.*?)(<!--/-->)")
_EVALUATION = (
    "evaluation", "family", "range", "physics", "method", "loss", "seed", "agents", "failed",
    "env_steps", "final", "final_low", "final_high", "final_iqm", "auc", "auc_low", "auc_high",
    "initial", "initial_low", "initial_high", "ahead", "ahead_low", "ahead_high", "improvement",
    "success",
)  # fmt: skip
_RUN = (
    "run", "system", "family", "seed", "steps", "env_steps", "seconds", "parameters", "first",
    "last", "best", "commit",
)  # fmt: skip
Row = dict[str, Any]


@functools.cache
def evaluations() -> list[Row]:
    """Returns the rows of evaluations.csv."""
    return [row for name, summary in _summaries() for row in _methods(name, summary)]


def _summaries() -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yields name and content of each kept evaluation."""
    records = unpacked(RESULTS)
    for path in sorted(records.rglob("*.json")):
        content = record(str(path.relative_to(records)))
        if any(isinstance(each, dict) and "final_return_mean" in each for each in content.values()):
            name = path.parent if path.name == "summary.json" else path.with_suffix("")
            yield str(name.relative_to(records)), content


def _methods(name: str, summary: Mapping[str, Any]) -> Iterator[Row]:
    """Yields a row for each method, and for each loss where there are several."""
    about = summary["about"]
    task = about.get("task", {})
    seeds = {key: facts.get("seed") for key, facts in about.get("other_loss_facts", {}).items()}
    seeds[about["loss"]] = about.get("loss_facts", {}).get("seed")
    for key, cells in summary.items():
        if key == "about" or not isinstance(cells, dict):
            continue
        method, _, loss = key.partition(" ")
        numbers = re.findall(r"\d+", loss)
        low, high = cells["ci95"]
        row = {
            "evaluation": name,
            "family": task.get("family", about.get("environment")),
            "range": task.get("range"),
            "physics": task.get("physics", "exact"),
            "method": method,
            "loss": loss,
            "seed": seeds.get(loss, numbers[-1] if numbers else None),
            "agents": cells.get("lives"),
            "failed": cells.get("failed_lives"),
            "env_steps": cells.get("env_steps"),
            "final": cells["final_return_mean"],
            "final_low": low,
            "final_high": high,
            "final_iqm": cells.get("final_return_iqm"),
            "improvement": cells.get("improvement"),
            "success": cells.get("success_rate"),
        }
        for measure in MEASURES:
            mean = {"initial": "initial_return_mean"}.get(measure, f"{measure}_mean")
            ends = cells.get(f"{measure}_ci95") or (None, None)
            row |= dict(zip((measure, f"{measure}_low", f"{measure}_high"),
                            (cells.get(mean), *ends), strict=True))  # fmt: skip
        yield row


@functools.cache
def runs() -> list[Row]:
    """Returns the rows of runs.csv."""
    records = unpacked(RESULTS)
    return [
        _run(str(path.parent.relative_to(records)))
        for path in sorted(records.rglob("summary.json"))
        if (path.parent / "config.json").is_file()
    ]


def _run(folder: str) -> Row:
    summary = record(f"{folder}/summary.json")
    settings = record(f"{folder}/config.json").get("config", {})
    best = summary.get("best_validation_return_mean", summary.get("best_validation_return"))
    return {
        "run": folder,
        "system": next(
            (key for key in ("rl2", "maml") if f"-{key}-" in folder),
            "metagenrl" if "rounds" in summary else "epg",
        ),
        "family": settings.get("task", {}).get("family")
        or " ".join(settings.get("environments", ())),
        "seed": summary.get("seed"),
        "steps": summary.get("epochs", summary.get("rounds", summary.get("iterations"))),
        **{key: summary.get(key) for key in ("env_steps", "seconds", "parameters", "commit")},
        "first": summary.get("first_fitness_mean", summary.get("last_return_before_mean")),
        "last": summary.get("last_fitness_mean", summary.get("last_return_after_mean")),
        "best": best,
    }


@functools.cache
def record(path: str) -> Mapping[str, Any]:
    """Returns a JSON file of the records."""
    content: Mapping[str, Any] = json.loads((unpacked(RESULTS) / path).read_text("utf-8"))
    return content


def as_csv(rows: list[Row], header: tuple[str, ...]) -> str:
    """Returns rows as a CSV file; numbers have six digits, unknown ones are empty."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(header)
    for row in rows:
        cells = [row[name] for name in header]
        writer.writerow([f"{x:.6g}" if isinstance(x, float) else x for x in cells])
    return text.getvalue()


def number(query: str, half: bool = False) -> str:
    """Returns a number of the data set as text, its interval as two ends or as half of it.

    Raises:
      KeyError: There is none of that name.
    """
    place, _, rest = query.partition(" ")
    if place.endswith(".json"):
        found: Any = record(place)
        for key in rest.split("/"):
            found = found[int(key) if isinstance(found, list) else key]
        if not isinstance(found, dict):
            return _plain(found)
        mean = next(found[key] for key in ("mean", "median", "targets") if key in found)
        return _interval(mean, *found["ci95"], half)
    row, _, measure = rest.partition(" ")
    for each in runs():
        if each["run"] == place:
            return _plain(each[rest] if rest in each else _last(place, rest))
    method, _, seed = row.partition("@")
    for each in evaluations():
        several = bool(seed) == bool(each["loss"]) and (not seed or str(each["seed"]) == seed)
        if (each["evaluation"], each["method"]) == (place, method) and several:
            measure = measure or "final"
            if measure in ("final", *MEASURES):
                return _interval(*(each[measure + end] for end in ("", "_low", "_high")), half)
            return _plain(each[measure])
    raise KeyError(f"results have no {query!r}")


def _last(folder: str, column: str) -> float:
    """Returns the newest value of a column of a run's metrics."""
    with (unpacked(RESULTS) / folder / "metrics.csv").open() as file:
        return [float(row[column]) for row in csv.DictReader(file)][-1]


def _interval(mean: float, low: float | None, high: float | None, half: bool = False) -> str:
    """Returns a mean and its interval, with as many digits as it needs."""
    size = max(abs(x) for x in (mean, low, high) if x is not None)
    digits = 2 if size < 20 else 1 if size < 1000 else 0
    text = f"{mean + 0.0:.{digits}f}"
    if low is None or high is None:
        return text
    if half:
        return f"{text}\N{NO-BREAK SPACE}±\N{NO-BREAK SPACE}{(high - low) / 2:.{digits}f}"
    return f"{text} [{low:.{digits}f}, {high:.{digits}f}]"


def _plain(value: float) -> str:
    """Returns a number: counts in millions or thousands where they are large."""
    if isinstance(value, float) and not value.is_integer():
        return _interval(value, None, None)
    for size, letter in ((10**9, " G"), (10**6, " M"), (10**4, " k")):
        if value >= size:
            return f"{value / (size if size > 10**4 else 1000):.3g}{letter}"
    return f"{value:.0f}"


def table(name: str) -> str:
    """Returns a table of docs/tables.txt in Markdown; cells in braces are numbers."""
    header, *rows = TABLES[name].strip().splitlines()
    lines = [header, "|" + "---|" * (header.count("|") - 1), *rows]

    def cell(found: re.Match[str]) -> str:
        return number(found[2], half=bool(found[1]))

    return re.sub(r"\{(± )?(.*?)\}", cell, "\n".join(lines))


def printed(*words: str) -> str:
    """Returns what a command prints, as a block of text."""
    words = (sys.executable, "-m", *words)
    text = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return f"```text\n{text.strip()}\n```"


def page(text: str) -> str:
    """Returns a page with its marked regions as they should be."""

    def region(found: re.Match[str]) -> str:
        name, *words = found[2].split()
        inside = printed(*words) if name == "printed" else table(name)
        return f"{found[1]}\n\n{inside}\n\n{found[4]}"

    def value(found: re.Match[str]) -> str:
        return found[1] + number(found[2].replace(":", " ")) + found[4]

    return _NUMBER.sub(value, _REGION.sub(region, text))


def picture(methods: Mapping[str, str], panels: Mapping[str, tuple[str, ...]]) -> bytes:
    """Returns learning curves of evaluations as SVG: means and middle halves of agents.

    Args:
      methods: Method -> label.
      panels: Title -> evaluations; the curve of a method is of the first of them that has it.
    """
    from matplotlib.figure import Figure  # here: the other parts need no picture

    from epg_tf.evaluation.results import read_results
    from epg_tf.reports import plots

    figure = Figure(figsize=(8 if len(panels) == 1 else 11, 3.8), facecolor="white")
    row = figure.subplots(1, len(panels), squeeze=False)[0]
    for axes, (title, folders) in zip(row, panels.items(), strict=True):
        tables = [read_results(unpacked(RESULTS) / folder) for folder in folders]
        for (method, name), colour in zip(methods.items(), plots.COLOURS, strict=False):
            table = next(table for table in tables if method in table.method)
            plots.draw_statistics(axes, *table.select(method=method).pivot(), colour)
            axes.plot([], [], color=colour, label=name)
        plots.dress(axes, "env steps of learning", "return" if axes is row[0] else "")
        axes.set_title(title, fontsize=11, color=plots.INK)
        axes.locator_params(axis="x", nbins=4)
    figure.tight_layout(rect=(0, 0, 1, 0.92))
    handles, labels = row[0].get_legend_handles_labels()
    figure.legend(handles, labels, frameon=False, loc="upper left", ncols=len(methods))
    return plots.svg(figure)


def made() -> dict[Path, bytes]:
    """Returns each file that is written here, and its content."""
    texts = {
        RESULTS / "evaluations.csv": as_csv(evaluations(), _EVALUATION),
        RESULTS / "runs.csv": as_csv(runs(), _RUN),
        **{path: page(path.read_text("utf-8")) for path in PAGES},
    }
    pictures = {ROOT / "docs" / name: picture(*shown) for name, shown in PICTURES.items()}
    return {path: text.encode() for path, text in texts.items()} | pictures


if __name__ == "__main__":
    for path, content in made().items():
        path.write_bytes(content)
