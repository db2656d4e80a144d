"""Tests epg_tf.reports.tables and evaluation_report: what a test prints and leaves on disk."""

from __future__ import annotations

import json

import pytest

from epg_tf.baselines.method import LossName
from epg_tf.evaluation.results import Results, read_results
from epg_tf.evaluation.summary import summarize
from epg_tf.reports.evaluation_report import OWN, write_grid, write_report
from epg_tf.reports.tables import label, meta_training_line, summary_table
from tests.evaluation.tables import NAN, table

LOSS = LossName("best", 3)


@pytest.fixture
def results() -> Results:
    """The learned loss is 5.00 above PPO and failed once; another method failed altogether."""
    return Results.join(
        [
            table("ppo", [0.0, 1.0, 2.0, 1.0], [[1.0]] * 4),
            table("untrained", [NAN] * 4, [[NAN]] * 4),
            table("epg", [5.0, 6.0, 8.0, NAN], [[4.0]] * 4, loss=LOSS),
        ]
    )


def test_the_best_method_comes_first_and_the_last_lines_compare(results):
    text = summary_table(summarize(results))
    lines = text.splitlines()
    start = next(number for number, line in enumerate(lines) if "IQM" in line)
    rows = lines[start + 1 : start + 4]
    assert [line.split()[0] for line in rows] == ["evolved", "PPO", "untrained"]
    # Failed, success, env steps, match.
    assert rows[0].split()[3] == "6.00" and rows[0].split()[-4:] == ["1", "-", "10", "10"]
    assert rows[1].split()[-4:-2] == ["never", "5.00"]  # match, ahead
    assert "evolved loss (EPG) ends 5.00 above the best of the others, PPO" in text
    assert "do not overlap" in text and text.endswith("it ends above: PPO")
    assert len({len(line) for line in (lines[start], rows[1])}) == 1  # columns are aligned


def test_without_a_learned_loss_nothing_is_compared(results):
    text = summary_table(summarize(results.select("ppo")))
    assert "best of the others" not in text and "PPO" in text


def test_labels_name_the_loss_where_there_are_several():
    assert label("epg runs/a b") == "evolved loss (EPG) runs/a b" and label("mine") == "mine"


def test_a_report_is_the_table_its_picture_and_its_summary(results, tmp_path):
    picture = write_report(tmp_path, results, {"seed": 4}, "T")
    assert picture == tmp_path / "curves.png"
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(OWN)
    summary = json.loads((tmp_path / "summary.json").read_text())
    assert summary["about"] == {"seed": 4} and summary["epg"]["failed_lives"] == 1
    assert summary["ppo"]["ahead_mean"] == 5.0 and summary["untrained"]["auc_mean"] is None
    found = summarize(read_results(tmp_path / "curves.csv"))
    assert str(found) == str(summarize(results))  # the file alone is enough


def test_a_grid_has_a_summary_per_objective(tmp_path):
    results = Results.join(
        [
            table("objective", [value], [[value]], explores=False, loss=LossName(name))
            for name, value in (("round_0", 1.0), ("round_1", 2.0))
        ]
    )
    trained = {"round_0": "0 env steps", "round_1": "9 env steps"}
    write_grid(tmp_path, results, trained, {"environment": "point_goal"})
    summary = json.loads((tmp_path / "summary.json").read_text())
    assert summary["objectives"]["round_1"]["final_return_mean"] == 2.0


def test_the_cost_of_meta_training_is_that_of_a_run_of_each_method():
    costs = {"epg a": 9_000_000, "epg b": 10_000_000, "epg c": None, "maml x": 4096, "rl2 y": None}
    assert meta_training_line(costs) == (
        "env steps of meta-training: evolved loss (EPG) 9.5 M (mean of 2 runs), "
        "MAML (1 step) 4.1 k, RL² not recorded"
    )


def test_the_sentences_below_a_table_leave_out_single_runs_of_a_mean():
    starts = [
        table("maml", [final] * 4, [[0.0]] * 4, loss=LossName(name))
        for name, final in (("x", 1.0), ("y", 7.0))
    ]
    learned = table("epg", [5.0, 6.0, 5.0, 6.0], [[4.0]] * 4, loss=LOSS)
    text = summary_table(summarize(Results.join([learned, *starts])))
    assert "ends 1.50 above the best of the others, MAML (1 step); " in text
    assert text.splitlines()[-1].endswith("it ends above: none of the others")
