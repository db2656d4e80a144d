"""launch.benchmark: its tables follow from the times it measured."""

import json
import re

import pytest

from tests.launch import commands
from tests.launch.systems import SYSTEMS

CONFIG = "--config=configs/point_goal.py"
_REPLACED = ("--config.compute.shard_lives=", "--config.compute.threads=")
SMALL = [flag for flag in commands.settings() if not flag.startswith(_REPLACED)]


@pytest.mark.slow
def test_an_epoch_takes_as_long_as_its_busiest_core(tmp_path):
    """8 lives in shards of 1 and 4, on 1, 2 and 16 cores. All final episodes of PointGoal are
    equally long here: 3 of 6 env steps. Efficiency is measured by the best single core.
    """
    path = tmp_path / "scaling.json"
    printed = commands.done(
        "benchmark",
        CONFIG,
        *SMALL,
        "--shard_lives=1,4",
        "--cores=1,2,16",
        "--updates=2",
        "--config.policy.hidden=()",
        "--config.evolution.fitness_from=final_episodes",
        "--network_milliseconds=50",
        f"--json={path}",
    )
    assert printed.count("\n| ") == 1 + 6
    numbers = json.loads(path.read_text())
    assert (numbers["final_steps_mean"], numbers["final_steps_deviation"]) == (18, 0)
    rounds = {
        (1, 1): 8,
        (1, 4): 2,
        (2, 1): 4,
        (2, 4): 1,
        (16, 1): 1,
        (16, 4): 1,
    }  # shards of the busiest core
    alone = min(row["seconds"] for row in numbers["rows"] if row["cores"] == 1)
    for row in numbers["rows"]:
        times = numbers["times"][str(row["shard_lives"])]
        shard = 3 * times["update"] + 18 * times["final_step"]
        network = 0.05 if row["cores"] > 1 else 0.0
        busiest = rounds[row["cores"], row["shard_lives"]] * shard
        assert row["seconds"] == pytest.approx(
            busiest + numbers["noise_seconds"] + network, rel=1e-6
        )
        assert row["efficiency"] == pytest.approx(alone / row["cores"] / row["seconds"])
        assert 0.0 <= row["waiting"] < 1.0


@pytest.mark.slow
def test_the_parts_of_a_lifetime_add_up(tmp_path):
    """In the file, and in one row of a table."""
    words = [CONFIG, *commands.life_settings(), f"--json={tmp_path / 'b.json'}", "--markdown"]
    printed = commands.done("benchmark", *words, "--lives=10", "--threads=1")
    row = r"\| 1 \| [\d.]+ k? ?\| [\d.]+ \| (\d+ / ){4}\d+ \|( - \|){3}"
    assert re.fullmatch(row, printed.splitlines()[0])
    found = json.loads((tmp_path / "b.json").read_text())
    assert found["coarse"] is None and found["speedup"] is None  # point_goal declares none
    numbers = found["exact"]
    assert set(numbers["shares"]) == {"acting", "physics", "family", "updating", "rest"}
    assert sum(numbers["shares"].values()) == pytest.approx(1.0)
    assert all(share > 0.005 for share in numbers["shares"].values())
    assert numbers["ratio"] == pytest.approx(
        numbers["life_env_steps_per_second"] / numbers["physics_env_steps_per_second"]
    )
    assert numbers["threads"] == 1  # where --config says 2
    assert numbers["env_steps"] == 10 * (3 * 8 + 3 * 6)
    assert numbers["update_milliseconds"] > 0 and numbers["peak_rss_bytes"] > 1e8


@pytest.mark.slow
def test_the_parts_of_a_round_of_metagenrl_add_up(tmp_path):
    words = [*SYSTEMS["metagenrl"].flags(), "--updates=3", f"--json={tmp_path / 'speed.json'}"]
    commands.done("benchmark", *words)
    found = json.loads((tmp_path / "speed.json").read_text())
    assert len(found["agent_updates_per_second"]["alone"]) == 3 and found["agents"] == 2
    assert sum(found["shares"].values()) == pytest.approx(1.0)
    assert min(found["shares"].values()) > 0.0
