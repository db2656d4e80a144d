"""launch.tune, as users run it; what is searched is tested in tests/evaluation/test_tuning.py."""

from __future__ import annotations

import json

import pytest

from epg_tf.evaluation.methods import LOSS_METHODS, OBJECTIVE_METHODS
from epg_tf.evaluation.tuning import SPACES
from epg_tf.runs.folder_lock import FolderLock
from tests.launch import commands
from tests.launch.systems import SYSTEMS

FEW = ["--method=ppo", "--lives=2", "--env_steps=20", "--episodes=1"]


def test_lives_of_evolution_are_made_shorter_with_those_of_the_search():
    words = ["--config=random_reacher:night", "--config.inner.updates=64", "--print_config"]
    printed = commands.done("tune", *words, "--config.evolution.longest_life=64")
    assert "config.inner.updates=64" in printed.splitlines()


@pytest.mark.slow
def test_the_best_settings_of_a_baseline_are_named(tmp_path):
    """The same after a search that was stopped and resumed."""
    path = tmp_path / "trials.json"
    call = ["tune", "--config=point_goal", *commands.life_settings(), "--method=reinforce"]
    call += ["--lives=2", "--budget=4", f"--json={path}"]
    printed = commands.done(*call)
    assert "4 settings x 2 agents, then 2 settings x 6 agents" in printed
    found = json.loads(path.read_text())
    assert [trial["agents"] for trial in found["trials"]] == [2] * 4 + [6] * 2
    best = found["winner"]["settings"]
    assert f"reinforce.epochs = {best['epochs']}" in printed
    assert best in [trial["settings"] for trial in found["trials"][4:]]
    assert set(best) == set(found["space"]) and "--method=reinforce" in found["command"]
    assert found["at_edge"].keys() <= set(best) and found["env_steps"] == 24
    assert found["centred_observations"] is True
    path.write_text(json.dumps({**found, "trials": found["trials"][:5], "winner": None}))
    assert commands.done(*call, "--resume") == printed
    assert {**json.loads(path.read_text()), "command": found["command"]} == found


@pytest.mark.slow
def test_every_rate_of_a_baseline_of_metagenrl_is_tried_and_the_best_named():
    process = commands.run(
        "tune", *SYSTEMS["metagenrl"].flags(), *FEW, "--learning_rates=1e-3,1e-2"
    )
    assert (process.returncode, process.stderr) == (0, "")
    lines = process.stdout.splitlines()
    rows = [line.split() for line in lines if line.startswith("  ppo_learning_rate=")]
    means = {row[0]: float(row[1]) for row in rows}
    assert list(means) == ["ppo_learning_rate=0.001", "ppo_learning_rate=0.01"]
    best = max(means, key=means.get).replace("=", " = ")
    assert lines[-1] == f"  baseline.{best}   (an end of those tried)"


@pytest.mark.slow
def test_no_rate_is_best_where_agents_failed_with_all():
    process = commands.run("tune", *SYSTEMS["metagenrl"].flags(), *FEW, "--learning_rates=1000")
    assert process.returncode == 2 and "best:" not in process.stdout
    assert "--learning_rates=1000: agents failed with every one of them" in process.stderr


def test_a_search_into_a_file_that_another_writes_is_refused(tmp_path):
    path, folder = tmp_path / "trials.json", tmp_path / ".trials.json.lock"
    folder.mkdir()
    lock = FolderLock(folder)
    lock.acquire()
    line = commands.refused("tune", "--config=point_goal", f"--json={path}")
    lock.release()
    assert f"--json={path}: another process is writing to this file" in line and not path.exists()
    few = ["--method=ppo_as_epg", "--budget=16"]
    refused = commands.refused("tune", "--config=point_goal", *few, f"--json={path}")
    assert "--budget=16: --method=ppo_as_epg" in refused and not list(tmp_path.iterdir())


def test_the_words_of_flags_are_all_that_there_are():
    """Flags are read before the modules that know these words are imported."""
    named = commands.done("tune", "--help").split("--method:", 1)[1].split("<")[1].split(">")[0]
    assert "".join(named.split()).split("|") == sorted({*SPACES, *OBJECTIVE_METHODS.groups["all"]})
    compare = " ".join(commands.done("meta_test", "--help").split())
    for methods in (LOSS_METHODS, OBJECTIVE_METHODS):
        assert f"names are {', '.join(methods.groups['all'])}" in compare
    assert f"with the name {' or '.join(LOSS_METHODS.trained)}." in compare
