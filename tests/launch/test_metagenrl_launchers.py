"""MetaGenRL's launchers, and launch.meta_test on its objectives, as users run them."""

from __future__ import annotations

import csv
import json
import shutil
import signal
import time

import numpy as np
import pytest

from epg_tf.evaluation.results import read_results
from epg_tf.runs.config_files import read_experiment
from epg_tf.runs.reader import read_run
from tests.launch import commands

CONFIG = "--config=configs/metagenrl_laptop.py"
SETTINGS = {
    "environments": "('gymnasium:Pendulum-v1@10',)",
    "agents": 2,
    "steps_per_agent": 60,
    "round_steps": 20,
    "life_rounds": 2,
    "objective_period": 1,
    "agent.hidden": "(4,)",
    "agent.batch": 2,
    "agent.chunk": 3,
    "agent.random_steps": 20,
    "agent.updates_after": 4,
    "agent.replay_steps": 40,
    "objective.lstm_units": 3,
    "objective.action_filters": 2,
    "baseline.update_period": 20,
    "baseline.minibatch": 10,
}


def flags(**changes) -> list[str]:
    """Returns --config flags: settings small enough for a test, with `changes`."""
    return [CONFIG] + [
        f"--config.{name}={value}" for name, value in {**SETTINGS, **changes}.items()
    ]


def parameters(folder) -> np.ndarray:
    with np.load(folder / "loss.npz", allow_pickle=False) as archive:
        return archive["phi"]


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A run that nothing disturbed."""
    folder = tmp_path_factory.mktemp("finished") / "run"
    return folder, commands.run("meta_train", *flags(), f"--run_dir={folder}")


def test_leaves_what_it_promises(finished):
    folder, process = finished
    assert (process.returncode, process.stderr) == (0, "")
    for name in (
        "config.json",
        "metrics.csv",
        "learning_curve.png",
        "summary.json",
        "final/loss.npz",
        "objectives/round_00000000/loss.json",
        "objectives/round_00000003/loss.npz",
        "agents/shard_000/weights/epoch_00000003.npz",
        "agents/shard_000/steps/epoch_00000003.npz",
    ):
        assert (folder / name).is_file(), name
    with open(folder / "metrics.csv", newline="") as stream:
        assert [int(row["epoch"]) for row in csv.DictReader(stream)] == [1, 2, 3]
    description = json.loads((folder / "final" / "loss.json").read_text())
    assert description["kind"] == "lstm_objective" and description["facts"]["round"] == 3
    assert (
        "cost: 2 agents x 60 env steps = 120 env steps; 30 updates of the objective"
        in process.stdout
    )
    assert process.stdout.splitlines()[-2:] == [
        f"results are in {folder}; next: python -m launch.meta_test --loss={folder}/final "
        f"--output_dir={folder}-test",
        f"a page to look at: python -m launch.report --run_dir={folder} --output={folder}.html",
    ]


@pytest.mark.slow
def test_killed_and_resumed_gives_the_same_bits(finished, tmp_path):
    """kill -9 between the agents' checkpoint and the objective's."""
    folder, moment = tmp_path / "run", "agents/shard_000/weights/epoch_00000002.npz"
    process = commands.start("meta_train", *flags(), f"--run_dir={folder}")
    while process.poll() is None and not (folder / moment).exists():
        time.sleep(0.002)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert not (folder / "final").exists()
    resumed = commands.run("meta_train", *flags(), f"--run_dir={folder}", "--resume")
    assert resumed.returncode == 0, resumed.stderr
    assert parameters(folder / "final").tobytes() == parameters(finished[0] / "final").tobytes()
    rows = [
        [line.rsplit(",", 1)[0] for line in (path / "metrics.csv").read_text().splitlines()]
        for path in (folder, finished[0])
    ]
    assert rows[0] == rows[1]  # but for the seconds, which come last


@pytest.mark.slow
def test_ctrl_c_leaves_a_run_that_goes_on(finished, tmp_path):
    folder = tmp_path / "run"
    process = commands.start("meta_train", *flags(steps_per_agent=100_000), f"--run_dir={folder}")
    while not (folder / "checkpoints" / "epoch_00000001.npz").exists():
        assert process.poll() is None, process.communicate()[0]
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    output = process.communicate(timeout=60)[0]
    assert process.returncode == 130
    assert output.splitlines()[-1] == "to go on, run the same command with --resume"
    done = len((folder / "metrics.csv").read_text().splitlines()) - 1
    resumed = commands.run(
        "meta_train",
        *flags(steps_per_agent=20 * (done + 1)),
        f"--run_dir={folder}",
        "--resume",
    )
    assert resumed.returncode == 0, resumed.stderr
    assert f"continued after round {done}" in resumed.stdout


REFUSED = {
    "uneven agents": (
        {"agents": 3, "environments": "('point_goal','gymnasium:Pendulum-v1')"},
        "cannot be distributed equally",
    ),
    "unknown environment": ({"environments": "('nowhere',)"}, "'nowhere' is not a task family"),
    "discrete actions": (
        {"environments": "('gymnasium:CartPole-v1',)"},
        "its actions are discrete",
    ),
    "a limit that is none": ({"environments": "('point_goal@many',)"}, "not 'many'"),
    "no whole rounds": ({"steps_per_agent": 61}, "a run consists of whole rounds"),
    "environments in one word": (
        {"environments": "point_goal,random_hopper"},
        "several are written as",
    ),
    "no such Gymnasium id": (
        {"environments": "('gymnasium:None-v9',)"},
        "environments: environment 'gymnasium:",
    ),
    "too many values": (
        {"objective.value_inputs": 3},
        "config.objective.value_inputs=3 must be at most 2",
    ),
    "an unknown warm-up": ({"meta.warm_up": "none"}, "config.meta.warm_up='none' is unknown"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refuses_in_one_line(case, tmp_path):
    settings, message = REFUSED[case]
    process = commands.run("meta_train", *flags(**settings), f"--run_dir={tmp_path / 'run'}")
    assert process.returncode == 2
    assert message in process.stderr and len(process.stderr.splitlines()) == 1
    assert not (tmp_path / "run").exists()


def test_never_overwrites_unasked(finished):
    folder, _ = finished
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    for settings, extra, message in (
        ({}, ["--seed=1"], "not empty"),
        ({}, ["--resume", "--seed=1"], "has seed 0"),
        ({"agent.batch": 3}, ["--resume"], "config.agent.batch=3"),
        ({"steps_per_agent": 40}, ["--resume"], "has done 60; use at least as many"),
    ):
        process = commands.run("meta_train", *flags(**settings), f"--run_dir={folder}", *extra)
        assert process.returncode == 2 and message in process.stderr
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before


def test_runs_of_another_kind_and_runs_without_checkpoints_are_left_alone(finished, tmp_path):
    """Neither is taken for a damaged run, which --overwrite would replace, nor for one that has not
    begun.
    """
    evolution, bare = tmp_path / "evolution", tmp_path / "bare"
    shutil.copytree(finished[0], evolution)
    (evolution / "config.json").write_text(
        json.dumps({"config": {}, "seed": 0})
    )  # as evolution wrote it
    shutil.copytree(finished[0], bare, ignore=lambda folder, names: {"checkpoints"} & set(names))
    for folder, extra, message in (
        (evolution, "--resume", "a run of another kind"),
        (evolution, "--overwrite", "a run of another kind"),
        (bare, "--resume", "there is none, but metrics.csv has rows"),
    ):
        before = sorted(path.name for path in folder.rglob("*"))
        process = commands.run("meta_train", *flags(), f"--run_dir={folder}", extra)
        assert process.returncode == 2 and message in process.stderr
        assert {path.name for path in folder.rglob("*")} >= set(before)
        assert (folder / "metrics.csv").read_bytes() == (finished[0] / "metrics.csv").read_bytes()
    process = commands.run(
        "meta_train", "--config=configs/point_goal.py", f"--run_dir={finished[0]}", "--overwrite"
    )
    assert (
        process.returncode == 2
        and "a run of another kind (metagenrl, not evolution)" in process.stderr
    )


@pytest.mark.slow
def test_the_next_command_tests_the_best_objective_where_tests_chose_one(tmp_path):
    tests = {"validation.period": 2, "validation.agents": 1, "validation.env_steps": 40}
    folder = tmp_path / "run"
    process = commands.run("meta_train", *flags(**tests), f"--run_dir={folder}")
    assert (process.returncode, process.stderr) == (0, "")
    assert f"--loss={folder}/best " in process.stdout and (folder / "best").is_dir()


@pytest.mark.slow
def test_objectives_are_tested_beside_all_others_elsewhere(finished, tmp_path):
    """On an environment with another number of action dimensions, two where training had one."""
    process = commands.run(
        "meta_test",
        f"--loss={finished[0]}/final",
        "--environment=point_goal@10",
        "--lives=2",
        "--env_steps=40",
        "--episodes=1",
        "--compare=all",
        f"--output_dir={tmp_path / 'test'}",
    )
    assert (process.returncode, process.stderr) == (0, "")
    summary = json.loads((tmp_path / "test" / "summary.json").read_text())
    assert set(summary) == {
        "objective",
        "untrained_objective",
        "off_policy_reinforce",
        "ppo",
        "reinforce",
        "td3",
        "ddpg",
        "about",
        "format_version",
    }
    for method, row in summary.items():
        if method not in ("about", "format_version"):
            assert row["lives"] == 2 and row["env_steps"] == 40 and row["failed_lives"] == 0
            low, high = row["ci95"]
            assert low <= row["final_return_mean"] <= high and row["final_return_mean"] < 0
            assert ("ahead_ci95" in row) == (method != "objective")
            assert (row["auc_mean"] is None) == (method in ("ppo", "reinforce"))
    assert (tmp_path / "test" / "curves.png").is_file()


@pytest.mark.slow
def test_objectives_of_several_seeds_are_tested_together(finished, tmp_path):
    """The second one is a copy, so the mean is that of either."""
    other = tmp_path / "other"
    shutil.copytree(finished[0] / "final", other)
    process = commands.run(
        "meta_test",
        f"--loss={finished[0]}/final,{other}",
        "--lives=2",
        "--env_steps=40",
        "--episodes=1",
        "--compare=none",
        f"--output_dir={tmp_path / 'test'}",
    )
    assert (process.returncode, process.stderr) == (0, "")
    summary = json.loads((tmp_path / "test" / "summary.json").read_text())
    assert summary["objective"]["losses"] == 2
    assert summary["about"]["other_losses"] == [str(other)]
    rows = [summary[f"objective {name}"] for name in (f"{finished[0]}/final", str(other))]
    assert rows[0]["final_return_mean"] == rows[1]["final_return_mean"]
    assert rows[0]["final_return_mean"] == summary["objective"]["final_return_mean"]
    untrained = summary["untrained_objective"]
    ahead = rows[0]["final_return_mean"] - untrained["final_return_mean"]
    assert untrained["ahead_mean"] == pytest.approx(ahead)
    low, high = untrained["ahead_ci95"]
    assert low <= ahead <= high


@pytest.mark.parametrize(
    "extra, message",
    [
        (["--environment=gymnasium:CartPole-v1"], "its actions are discrete"),
        (["--env_steps=30"], "no multiple of the objective's config.round_steps=20"),
        (["--updates=3"], "--updates=3: --loss="),
    ],
)
def test_meta_test_refuses_in_one_line(finished, tmp_path, extra, message):
    process = commands.run(
        "meta_test", f"--loss={finished[0]}/final", f"--output_dir={tmp_path / 'test'}", *extra
    )
    assert process.returncode == 2
    assert message in process.stderr and len(process.stderr.splitlines()) == 1


def test_objectives_and_losses_of_epg_are_not_tested_together(finished, tmp_path):
    for losses in (f"{finished[0]}/final,point_goal", f"point_goal,{finished[0]}/final"):
        output = f"--output_dir={tmp_path / 'test'}"
        process = commands.run("meta_test", f"--loss={losses}", output)
        assert process.returncode == 2 and f"--loss={losses} names objectives" in process.stderr
        assert process.stderr.count("\n") == 1 and not (tmp_path / "test").exists()


@pytest.mark.slow
def test_progress_draws_a_grid_over_the_kept_objectives(finished, tmp_path):
    process = commands.run(
        "study",
        "--measure=progress",
        f"--loss={finished[0]}",
        f"--output_dir={tmp_path / 'grid'}",
        "--lives=2",
        "--env_steps=20",
        "--episodes=1",
        "--every=3",
    )
    assert (process.returncode, process.stderr) == (0, "")
    refused = commands.run(
        "study",
        "--measure=progress",
        f"--loss={finished[0]}",
        f"--output_dir={finished[0]}",
        "--overwrite",
    )
    assert refused.returncode == 2 and "it holds checkpoints" in refused.stderr
    assert (tmp_path / "grid" / "curves.png").is_file()
    about = json.loads((tmp_path / "grid" / "summary.json").read_text())["about"]
    assert about["run_finished"] and about["loss_facts"] == {"seed": 0}
    assert read_experiment(about["config"]) == read_run(finished[0]).experiment
    results = read_results(tmp_path / "grid" / "curves.csv")
    assert set(results.loss) == {"round_00000000", "round_00000003"}
    assert len(results) == 2 * 2 * (2 + 1)  # objectives, agents, evaluations and the final policy


@pytest.mark.slow
def test_tuning_tries_every_rate_and_names_the_best():
    process = commands.run(
        "tune",
        *flags(),
        "--method=ppo",
        "--learning_rates=1e-3,1e-2",
        "--lives=2",
        "--env_steps=20",
        "--episodes=1",
    )
    assert (process.returncode, process.stderr) == (0, "")
    lines = process.stdout.splitlines()
    means = {
        line.split()[0]: float(line.split()[1])
        for line in lines
        if line.startswith("  ppo_learning_rate=")
    }
    assert list(means) == ["ppo_learning_rate=0.001", "ppo_learning_rate=0.01"]
    best = max(means, key=means.get).replace("=", " = ")
    assert lines[-1] == f"  baseline.{best}   (an end of those tried)"


@pytest.mark.slow
def test_no_rate_is_best_where_agents_failed_with_all():
    settings = (*flags(), "--method=ppo", "--learning_rates=1000")
    few = ("--lives=2", "--env_steps=20", "--episodes=1")
    process = commands.run("tune", *settings, *few)
    assert process.returncode == 2 and "best:" not in process.stdout
    assert "--learning_rates=1000: agents failed with every one of them" in process.stderr


@pytest.mark.slow
def test_benchmark_measures_both_ways(tmp_path):
    process = commands.run(
        "benchmark",
        *flags(),
        "--updates=3",
        f"--json={tmp_path / 'speed.json'}",
    )
    assert (process.returncode, process.stderr) == (0, "")
    found = json.loads((tmp_path / "speed.json").read_text())
    assert len(found["agent_updates_per_second"]["alone"]) == 3 and found["agents"] == 2
    assert sum(found["shares"].values()) == pytest.approx(1.0)
    assert min(found["shares"].values()) > 0.0
