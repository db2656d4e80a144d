"""launch.benchmark: the table of --cores follows from the times it measured."""

import json

import pytest

from tests.launch import commands

CONFIG = "--config=configs/point_goal.py"
_REPLACED = ("--config.compute.shard_lives=", "--config.compute.threads=")
SMALL = [flag for flag in commands.settings() if not flag.startswith(_REPLACED)]


@pytest.fixture(scope="module")
def numbers(tmp_path_factory):
    """What a tiny simulation wrote: 8 lives in shards of 1 and 4, on 1, 2 and 16 cores."""
    path = tmp_path_factory.mktemp("scaling") / "scaling.json"
    process = commands.run(
        "benchmark",
        CONFIG,
        *SMALL,
        "--shard_lives=1,4",
        "--cores=1,2,16",
        "--updates=2",
        "--config.evolution.fitness_from=final_episodes",
        "--network_milliseconds=50",
        f"--json={path}",
    )
    assert process.returncode == 0 and process.stderr == "", process.stderr
    assert process.stdout.count("\n| ") == 1 + 6
    return json.loads(path.read_text())


def test_an_epoch_takes_as_long_as_its_busiest_core(numbers):
    """All final episodes of PointGoal are equally long here: 3 of 6 env steps."""
    assert (numbers["final_steps_mean"], numbers["final_steps_deviation"]) == (18, 0)
    rounds = {
        (1, 1): 8,
        (1, 4): 2,
        (2, 1): 4,
        (2, 4): 1,
        (16, 1): 1,
        (16, 4): 1,
    }  # shards of the busiest core
    for row in numbers["rows"]:
        times = numbers["times"][str(row["shard_lives"])]
        shard = 3 * times["update"] + 18 * times["final_step"]
        network = 0.05 if row["cores"] > 1 else 0.0
        busiest = rounds[row["cores"], row["shard_lives"]] * shard
        assert row["seconds"] == pytest.approx(
            busiest + numbers["noise_seconds"] + network, rel=1e-6
        )


def test_efficiency_is_measured_by_the_best_single_core(numbers):
    alone = min(row["seconds"] for row in numbers["rows"] if row["cores"] == 1)
    for row in numbers["rows"]:
        assert row["efficiency"] == pytest.approx(alone / row["cores"] / row["seconds"])
        assert 0.0 <= row["waiting"] < 1.0


@pytest.mark.parametrize("flag", ["--cores=many", "--cores=0", "--cores=²", "--shard_lives="])
def test_bad_numbers_are_refused_in_one_line(flag):
    process = commands.run("benchmark", CONFIG, "--cores=1", flag)
    assert process.returncode == 2 and process.stderr.count("\n") == 1 and flag in process.stderr
