"""Tests epg_tf.runs.pages: what a page says of runs and tests, and what it refuses."""

from __future__ import annotations

import base64
import dataclasses
import json
import re
import shlex
from pathlib import Path

import numpy as np
import pytest

from epg_tf.baselines.method import LossName
from epg_tf.core.errors import RecordError
from epg_tf.evaluation.results import Results
from epg_tf.evaluation.summary import as_json
from epg_tf.metagenrl.population import metric_columns
from epg_tf.reports.evaluation_report import write_report
from epg_tf.reports.html_page import Code, Fold, Picture, Table, Text
from epg_tf.runs import config_files, pages
from epg_tf.runs.evolution import EVOLUTION
from epg_tf.runs.folder import RunFolder, RunTarget
from epg_tf.runs.identity import RunIdentity
from epg_tf.runs.metrics import MetricsFile
from epg_tf.runs.page_entry import film_section
from epg_tf.tasks.settings import TaskConfig
from tests.evaluation.tables import NAN, table

ROOT = Path(__file__).resolve().parents[2]
EVIL = "</script><script>evil</script>"
SOME = ("epoch", "env_steps", "fitness_mean", "validation_return_mean", "signal_to_noise")


def metrics(path, epochs=3, columns=SOME, **given):
    file = MetricsFile(path / "metrics.csv")
    for epoch in range(1, epochs + 1):
        row = {name: 0.5 * epoch for name in columns}
        file.append({**row, "epoch": epoch, "env_steps": 192 * epoch, "seconds": 20.0, **given})


@pytest.fixture
def run(tiny, tmp_path):
    """A run of three epochs."""
    path = tmp_path / "run"
    RunFolder(RunIdentity(EVOLUTION, tiny.to_mapping(), 5), RunTarget(path)).close()
    metrics(path)
    return path


@pytest.fixture
def tested(tmp_path):
    """The folder of a test of three agents for each method, one of which failed."""
    path = tmp_path / "run-test"
    path.mkdir()
    curve = np.arange(12.0).reshape(3, 4)
    results = Results.join(
        [
            table("epg", [3.0, 5.0, 4.25], curve, loss=LossName("runs/a b/best", 0)),
            table("ppo", [1.0, NAN, 2.0], curve - 1.0),
        ]
    )
    about = {
        "loss": "runs/a b/best",
        "other_losses": [],
        "phase": "test",
        "task": dataclasses.asdict(TaskConfig()),
        "seed": 7,
        "updates": 4,
        "alpha": 0.0,
        "compare_updates": 2,
        "replaced": {"config.task.episode_limit": [25, 50]},
    }
    write_report(path, results, about, "title")
    return path


def state(path, **changes):
    """Changes what the summary of a test states."""
    summary = json.loads((path / "summary.json").read_text())
    summary["about"] |= changes
    (path / "summary.json").write_text(json.dumps(summary))


def blocks(entry, kind) -> list:
    return [
        block for section in entry.sections for block in section.blocks if isinstance(block, kind)
    ]


def cells(entry) -> dict[str, tuple[str, ...]]:
    """Returns first cell -> the others, of all tables."""
    return {row[0]: tuple(row[1:]) for one in blocks(entry, Table) for row in one.rows}


def words(entry) -> dict[str, str]:
    """Returns the flags of the command that an entry ends with."""
    (command,) = blocks(entry, Code)
    given = shlex.split(command.text.replace("\\\n", " "))[2:]
    return dict(word.removeprefix("--").partition("=")[::2] for word in given)


def test_a_run_says_what_it_was(run):
    entry = pages.read_entry(run)
    found = cells(entry)
    assert found["seed"] == ("5",) and found["tasks"] == ("point_goal",)
    assert found["state"] == ("3 of 3 epochs, not finished",)
    assert found["cost"] == ("576 env steps, 1 min 00 s of work",)
    assert re.search(r"cpus \d+", found["machine"][0]) and "mujoco" in found["versions"][0]
    assert found["task.episode_limit"][:2] == ("6", "50")
    assert "task.family" not in found  # it has its default
    assert b"mean fitness</text>" in blocks(entry, Picture)[0].svg
    (fold,) = [block for block in blocks(entry, Fold) if block.summary == "other columns"]
    assert b"signal_to_noise</text>" in fold.block.svg
    assert words(entry) == {"config": str(run), "seed": "5", "run_dir": f"{run}-again"}
    assert config_files.run_settings(words(entry)["config"]).to_mapping() == entry.settings


def test_a_page_begins_with_what_came_of_it(run, tested):
    entry = pages.read_entry(tested)
    first, other = pages.read_entry(run).sections[0], entry.sections[0]
    assert first.blocks[0].text == (
        "3 of 3 epochs are done; the validation return was 0.50 at first, 1.50 at best."
    )
    assert other.blocks[0].text.startswith("Evolved loss (EPG) ends ")
    meanings = [fold.block for fold in blocks(entry, Fold)]
    assert ("evolved loss (EPG)", "agents minimise the evolved loss") in meanings[0].rows


def test_a_run_without_an_epoch(run):
    (run / "metrics.csv").unlink()
    entry = pages.read_entry(run)
    assert cells(entry)["state"] == ("0 of 3 epochs, not finished",)
    assert "The run has no epoch yet." in [block.text for block in blocks(entry, Text)]
    assert blocks(entry, Picture) == []


@pytest.mark.slow
def test_a_run_of_metagenrl(tmp_path):
    experiment = config_files.load_experiment("metagenrl_small")
    description = {"kind": "metagenrl", "config": experiment.to_mapping(), "seed": 3}
    (tmp_path / "config.json").write_text(json.dumps(description))
    metrics(tmp_path, columns=metric_columns(experiment))
    entry = pages.read_entry(tmp_path)
    assert cells(entry)["commit"] == ("not recorded",)
    (picture,) = blocks(entry, Picture)
    for name in experiment.environments:
        for kind in ("training", "validation"):
            assert f"{kind} return in {name}</text>".encode() in picture.svg
    (command,) = blocks(entry, Code)
    assert command.text.startswith("epg-tf meta-train \\\n")


def test_a_test_s_numbers_are_those_of_its_summary(tested):
    entry = pages.read_entry(tested)
    summary = json.loads((tested / "summary.json").read_text())
    found = cells(entry)
    for name, key in (("evolved loss (EPG)", "epg"), ("PPO", "ppo")):
        row, interval = summary[key], "[{:.2f}, {:.2f}]".format(*summary[key]["ci95"])
        assert found[name][:2] == (f"{row['final_return_mean']:.2f}", interval)
        assert found[name][4:6] == (str(row["lives"]), str(row["failed_lives"]))
    assert found["PPO"][-2] == f"{summary['ppo']['ahead_mean']:.2f}"
    assert as_json(entry.summaries)["ppo"]["failed_lives"] == 1
    assert found["task.episode_limit"] == ("25", "50")
    assert blocks(entry, Code) == []
    state(tested, command="epg-tf meta-test --loss='runs/a b/best'")
    assert words(pages.read_entry(tested)) == {"loss": "runs/a b/best"}


def test_a_test_has_the_settings_that_it_states(tested, tiny):
    """Beside their defaults, as a run has; a test of an older version states none."""
    titles = [section.title for section in pages.read_entry(tested).sections]
    assert not any(title.startswith("Settings") for title in titles)
    settings = tiny.to_mapping()
    state(tested, config=settings)
    entry = pages.read_entry(tested)
    assert "Settings that differ from their defaults" in [s.title for s in entry.sections]
    assert cells(entry)["inner.updates"][:2] == ("3", "128")
    state(tested, config={**settings, "inner": {**settings["inner"], "updates": -1}})
    notes = [block.text for block in blocks(pages.read_entry(tested), Text)]
    assert any("settings cannot be read" in note and "updates=-1" in note for note in notes)


def test_a_test_that_went_on_elsewhere_says_where(tested):
    """Entries that somebody damaged are left out."""
    state(tested, continued_with=[{"commit": "0123abc"}, "elsewhere", None])
    assert cells(pages.read_entry(tested))["continued with"] == ("0123abc",)


def test_a_loss_that_is_not_here_leaves_a_note(tested):
    entry = pages.read_entry(tested, film=True)
    (section,) = [section for section in entry.sections if section.title == "Film strip"]
    assert section.blocks[0].text.startswith("There is no film strip here: ")


def test_a_film_strip_is_a_picture_in_the_page():
    """Of a tiny loss that is kept, where there is OpenGL."""
    section = film_section(ROOT / "tests" / "golden" / "run")
    pictures = [block for block in section.blocks if isinstance(block, Picture)]
    if not pictures:
        pytest.skip(section.blocks[0].text)
    assert pictures[0].svg.count(b"data:image/png;base64,") == 4 * 5  # episodes, frames
    assert b"final policy</text>" in pictures[0].svg


def test_side_by_side(run, tested, tmp_path):
    other = tmp_path / "other"
    other.mkdir()
    description = json.loads((run / "config.json").read_text())
    description["config"]["evolution"]["sigma"] = 0.25
    (other / "config.json").write_text(json.dumps(description))
    metrics(other, epochs=1)
    text = pages.make_page([run, other, tested], film=False)
    assert "<h2>Side by side</h2>" in text and "<h2>other: Result</h2>" in text
    assert "evolution.lives" not in text.split("<h2>run: What")[0]  # it is the same
    assert re.search(r"<td>evolution.sigma</td><td>[\d.]+</td><td>0.25</td>", text)


@pytest.mark.slow
def test_side_by_side_a_column_of_zeros_has_no_panel(tiny, tmp_path):
    for name, alpha in (("one", 0.0), ("two", 0.0), ("three", 0.5)):
        identity = RunIdentity(EVOLUTION, tiny.to_mapping(), 5)
        RunFolder(identity, RunTarget(tmp_path / name)).close()
        metrics(tmp_path / name, alpha=alpha)
    for names, shown in ((("one", "two"), False), (("one", "three"), True)):
        text = pages.make_page([tmp_path / name for name in names], film=False)
        first = re.findall(r"data:image/svg\+xml;base64,([^\"]*)", text)[0]
        assert (b">alpha: share" in base64.b64decode(first)) is shown


def test_what_folders_hold_is_text(run, tested):
    """Wherever a text of a file can be, it is not HTML."""
    path = run / "config.json"
    description = json.loads(path.read_text()) | {"commit": EVIL, "versions": {EVIL: EVIL}}
    path.write_text(json.dumps(description | {"machine": {EVIL: EVIL}}))
    table_file = tested / "curves.csv"
    table_file.write_text(table_file.read_text().replace("runs/a b/best", EVIL))
    table_file.write_text(table_file.read_text().replace("ppo", EVIL).replace("point_goal", EVIL))
    replaced = {EVIL: [EVIL, EVIL]}
    state(tested, loss=EVIL, phase=EVIL, replaced=replaced, loss_facts={EVIL: EVIL})
    text = pages.make_page([run, tested])
    assert "evil&lt;/script&gt;" in text and "<script" not in text
    for data in re.findall(r"data:image/svg\+xml;base64,([^\"]*)", text):
        assert b"<script" not in base64.b64decode(data)


@pytest.mark.parametrize(
    ("name", "old", "new", "message"),
    [
        ("run/metrics.csv", "20.0", "much", "run/metrics.csv: line 2 has 'much' in column"),
        ("run/config.json", '"seed": 5', '"seed": "x"', "run: config.json is damaged"),
        ("run-test/curves.csv", "final", "last", "run-test/curves.csv: episodes='last' is none"),
        ("run-test/curves.csv", "final", "learning", "run-test: curves.csv has no agents, or"),
        ("run-test/summary.json", '"about"', '"of"', "run-test: summary.json is damaged"),
        ("run-test/summary.json", '"seed"', '"seat"', "run-test: summary.json is damaged"),
    ],
)
def test_damage_is_one_line(run, tested, tmp_path, name, old, new, message):
    path = tmp_path / name
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))
    with pytest.raises(RecordError) as caught:
        pages.make_page([tmp_path / name.split("/")[0]], film=False)
    assert message in str(caught.value) and "\n" not in str(caught.value)
    assert str(caught.value).startswith(str(tmp_path))


def test_other_folders_are_refused(tmp_path):
    for path in (tmp_path, tmp_path / "nowhere"):
        with pytest.raises(RecordError, match="this is no run or test"):
            pages.read_entry(path)
