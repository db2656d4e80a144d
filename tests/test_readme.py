"""Checks what the README and the pages in docs/ state, where a machine can."""

import csv
import json
import re
from pathlib import Path

import pytest
from ml_collections import ConfigDict

from configs import point_goal
from epg_tf.evaluation.loss_methods import METHODS
from epg_tf.reports.plots import EvaluatedRun
from epg_tf.runs.study import summarize

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_python_example_runs_as_printed(tiny, monkeypatch, capsys):
    """Only the config is swapped for a tiny one."""
    (example,) = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    assert len([line for line in example.splitlines() if line.strip()]) <= 10
    monkeypatch.setattr(point_goal, "get_config", lambda: ConfigDict(tiny.to_mapping()))
    exec(compile(example.replace("lives=128", "lives=4"), "README.md", "exec"), {})
    printed = capsys.readouterr().out
    assert [line.split()[0] for line in printed.splitlines()] == ["1", "2", "3", *METHODS]


PAGES = [README, *(page.read_text(encoding="utf-8") for page in (ROOT / "docs").glob("*.md"))]
PATHS = set(
    re.findall(r"`((?:epg_tf|configs|launch|tests|docs|results|\.ci)/[\w./]+)`", " ".join(PAGES))
)
LINKS = set(re.findall(r"\]\(((?:docs|examples|results)/[\w./]+)\)", README))
LINKS |= {f"docs/{link}" for page in PAGES[1:] for link in re.findall(r"\]\(([\w./]+)\)", page)}


@pytest.mark.parametrize("path", sorted(PATHS | LINKS))
def test_named_files_exist(path):
    assert (ROOT / path).exists()


@pytest.mark.parametrize("target", sorted(set(re.findall(r"make ([a-z-]+)", README))))
def test_named_targets_exist(target):
    assert re.search(rf"^{target}:", (ROOT / "Makefile").read_text(), re.MULTILINE)


def test_named_commands_exist():
    for name in set(re.findall(r"launch\.([a-z_]\w*)", " ".join(PAGES))):
        assert (ROOT / "launch" / f"{name}.py").is_file(), name


@pytest.mark.parametrize("seed", range(3))
def test_the_demos_numbers_are_those_kept(seed):
    kept = json.loads((ROOT / "results" / f"demo_seed{seed}.json").read_text())["epg"]
    assert "**{:.2f}** [{:.2f}, {:.2f}]".format(kept["final_return_mean"], *kept["ci95"]) in README


def test_the_demos_length_is_the_configs():
    (epochs,) = re.findall(r"Evolution took (\d+) epochs", README)
    assert int(epochs) == point_goal.get_config().evolution.epochs


@pytest.mark.parametrize(
    "folder", sorted((ROOT / "results").glob("study_*")), ids=lambda path: path.name
)
def test_a_study_that_is_kept_adds_up(folder):
    """Its summary, and what docs/evolution.md says of it, follow from its tests."""
    with open(folder / "study.csv", newline="") as stream:
        rows = list(csv.DictReader(stream))
    runs = [
        EvaluatedRun(
            name,
            int(seed),
            [
                {key: float(row[key]) for key in ("epoch", "env_steps", "mean", "low", "high")}
                for row in rows
                if (row["estimator"], row["seed"]) == (name, seed)
            ],
        )
        for name, seed in dict.fromkeys((row["estimator"], row["seed"]) for row in rows)
    ]
    summary = json.loads((folder / "summary.json").read_text())
    assert summarize(runs, summary["ppo"]) == summary
    page = (ROOT / "docs" / "evolution.md").read_text(encoding="utf-8")
    for row in summary["runs"].values():
        first = row["env_steps_above_ppo"]
        assert first is None or f"{first / 1e6:.2f} M" in page


@pytest.mark.parametrize(
    "file", sorted((ROOT / "results").rglob("*.json")), ids=lambda path: path.name
)
def test_results_name_no_path_of_a_machine(file):
    assert not re.search(r'"/\w+/', file.read_text(encoding="utf-8"))


@pytest.mark.parametrize("number", range(2))
def test_examples_of_the_page_about_tasks_run_as_printed(number, capsys):
    examples = re.findall(
        r"```python\n(.*?)```", (ROOT / "docs" / "tasks.md").read_text(encoding="utf-8"), re.DOTALL
    )
    assert len(examples) == 2
    exec(compile(examples[number], "docs/tasks.md", "exec"), {})
    assert ("gravity", "(16, 17)")[number] in capsys.readouterr().out
