"""Tests epg_tf.evaluation.results: the table of results, in memory and on disk."""

from __future__ import annotations

import csv

import numpy as np
import pytest

from epg_tf.baselines.method import LossName
from epg_tf.core.errors import RecordError
from epg_tf.evaluation.results import HEADER, Results, read_results, task_name
from epg_tf.tasks.settings import TaskConfig
from tests.evaluation.tables import NAN, table

LOSS = LossName("runs/a, b/best", 7)


@pytest.fixture
def results() -> Results:
    """Two methods with curves of different lengths, two agents each, one of them failed."""
    learned = table(
        "epg", [1.5, NAN], [[NAN, 1.0, 2.0], [NAN, NAN, NAN]], kl=np.ones((2, 3)), loss=LOSS
    )
    return Results.join(
        [learned, table("td3", [0.1, 0.2], [[3.0, 4.0], [5.0, 6.0]], explores=False)]
    )


def test_every_agent_has_a_row_per_point_and_a_final_one(results):
    assert len(results) == 2 * (3 + 1) + 2 * (2 + 1)
    assert results.select("epg", episodes="learning").env_steps.tolist() == [10, 20, 30] * 2
    assert results.select("epg", episodes="final").env_steps.tolist() == [30, 30]
    assert set(results.select("td3").episodes) == {"evaluation", "final"}
    assert set(results.task) == {"point_goal@50"} and len(results.agents()) == 4
    assert set(results.select("epg").loss_seed) == {7} and set(results.select("td3").loss) == {""}


def test_failed_agents_stay_in_the_table(results):
    rows = results.select("epg").rows(results.select("epg").agent == 1)
    assert len(rows) == 4 and np.isnan(rows.returns).all()


def test_pivot_and_final_return_what_went_in(results):
    steps, returns = results.select("epg").pivot()
    assert steps.tolist() == [10, 20, 30]
    np.testing.assert_array_equal(returns, [[NAN, 1.0, 2.0], [NAN] * 3])
    np.testing.assert_array_equal(results.select("epg").pivot("kl")[1], np.ones((2, 3)))
    np.testing.assert_array_equal(results.final(), [1.5, NAN, 0.1, 0.2])
    steps, returns = results.pivot()  # of all: one axis of env steps, NaN where there is no row
    assert steps.tolist() == [10, 20, 30]
    np.testing.assert_array_equal(returns[2:], [[3.0, 4.0, NAN], [5.0, 6.0, NAN]])


def test_the_file_holds_every_number(results, tmp_path):
    results.write(tmp_path / "curves.csv")
    found = read_results(tmp_path / "curves.csv")
    for name in ("method", "loss", "task", "episodes", "policy_sha256", "loss_seed", "agent"):
        assert getattr(found, name).tolist() == getattr(results, name).tolist(), name
    for name in ("env_steps", "returns", "kl", "success"):
        np.testing.assert_array_equal(getattr(found, name), getattr(results, name), name)
    with open(tmp_path / "curves.csv", newline="") as stream:
        first = next(csv.DictReader(stream))
    assert (first["loss"], first["loss_seed"], first["return"]) == ("runs/a, b/best", "7", "nan")


def test_the_folder_of_a_test_is_read_by_its_table(results, tmp_path):
    with pytest.raises(RecordError, match="curves.csv: no such file; name the folder of a test"):
        read_results(tmp_path)
    results.write(tmp_path / "curves.csv")
    assert len(read_results(tmp_path)) == len(results)


def test_an_empty_table_can_be_written_and_read(tmp_path):
    Results.join([]).write(tmp_path / "curves.csv")
    assert len(read_results(tmp_path / "curves.csv")) == 0


def test_losses_of_one_method_are_groups_of_their_own():
    parts = [table("epg", [1.0], [[1.0]], loss=LossName(name)) for name in ("a", "b")]
    results = Results.join([*parts, table("ppo", [0.0], [[0.0]])])
    assert list(results.groups()) == ["epg a", "epg b", "ppo"]
    assert results.groups()["epg b"].final().tolist() == [1.0]


def test_a_table_cannot_be_changed(results):
    with pytest.raises(ValueError, match="read-only"):
        results.returns[0] = 1.0
    columns = {name: [1] for name in vars(results)}
    with pytest.raises(ValueError, match="must all be"):
        Results(**{**columns, "kl": [1, 2]})


def test_tasks_are_named_with_what_is_unusual():
    assert task_name(TaskConfig("ant", 5, 100)) == "ant@100"
    assert task_name(TaskConfig("ant", 5, 100, "nominal")) == "ant@100 nominal"


ROW = ",".join(["epg", "", "", "a@5", "0", "10", "final", "1.0", "nan", "nan", ""])


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (None, "no such file"),
        ("", "columns are not"),
        ("method,loss\n", "columns are not"),
        (f"{','.join(HEADER)}\n{ROW.replace('final', 'last')}\n", "episodes='last'"),
        (f"{','.join(HEADER)}\n{ROW.replace('1.0', 'much')}\n", "cannot be read"),
        (f"{','.join(HEADER)}\n{ROW},1\n", "cannot be read"),
        (f"{','.join(HEADER)}\n{ROW}\n{ROW},1\n", "cannot be read"),
    ],
)
def test_other_files_are_refused_in_one_line(tmp_path, text, reason):
    path = tmp_path / "curves.csv"
    if text is not None:
        path.write_text(text)
    with pytest.raises(RecordError) as caught:
        read_results(path)
    message = str(caught.value)
    assert message.startswith(f"{path}: ") and reason in message and "\n" not in message
