"""launch.meta_test on losses and objectives; test_resumed_meta_test.py kills it."""

from __future__ import annotations

import dataclasses
import json
import shutil

import numpy as np
import pytest
from absl import flags

from epg_tf.artifacts.artifact import load_loss, save
from epg_tf.core.errors import RecordError
from epg_tf.epg.meta_parameters import initial_phi
from epg_tf.evaluation.results import read_results
from epg_tf.evaluation.summary import summarize
from epg_tf.runs.folder_lock import FolderLock
from launch import evaluation_flags
from tests.launch import commands
from tests.launch.systems import SYSTEMS

CONFIG = "--config=point_goal"
LOSS = commands.ROOT / "tests" / "golden" / "run" / "best"
TINY = ["--lives=2", CONFIG, "--config.task.episode_limit=6"]


def meta_test(folder, loss, *words) -> tuple[dict, str]:
    """Runs a test; returns its summary and what it printed."""
    printed = commands.done("meta_test", f"--loss={loss}", f"--output_dir={folder}", *words)
    return json.loads((folder / "summary.json").read_text()), printed


@pytest.fixture(scope="module")
def objective(tmp_path_factory):
    """The objective of a tiny run."""
    folder = tmp_path_factory.mktemp("objective") / "run"
    commands.done("meta_train", *SYSTEMS["metagenrl"].flags(), f"--run_dir={folder}")
    return folder / "final"


@pytest.mark.slow
def test_meta_test_writes_curves_summary_and_picture(tmp_path):
    before, out = (LOSS / "loss.npz").read_bytes(), tmp_path / "out"
    summary, printed = meta_test(out, LOSS, "--lives=5", "--updates=4")
    assert printed.splitlines()[-2:] == [
        str(out / "curves.png"),
        f"a page to look at: python -m launch.report --run_dir={out} --output={out}.html",
    ]
    assert (out / "curves.png").is_file() and (LOSS / "loss.npz").read_bytes() == before
    methods = ("epg", "ppo", "ppo_as_epg", "untrained", "random_loss", "centred_loss")
    assert [*summary] == ["format_version", *methods, "about"]
    assert summary["about"]["task"]["physics"] == "exact"
    for method in methods:
        result = summary[method]
        assert result["lives"] == 5 and result["env_steps"] == 4 * 8
        assert result["ci95"][0] < result["final_return_mean"] < result["ci95"][1]
    results = read_results(out / "curves.csv")
    # Methods, lives, updates and the final policy; PPO has one update, its own M being longer.
    assert len(results) == 5 * 5 * (4 + 1) + 5 * (1 + 1)
    assert (results.select("untrained").pivot("kl")[1] == 0.0).all()
    assert set(results.select("epg").loss) == {str(LOSS)} and set(results.loss_seed) == {0, -1}
    found = summarize(results)
    assert list(found["epg"].ci95) == pytest.approx(summary["epg"]["ci95"])
    assert found["ppo"].ahead_mean == pytest.approx(summary["ppo"]["ahead_mean"])


def test_a_test_without_baselines_has_no_row_of_ppo(tmp_path):
    assert "ppo" not in meta_test(tmp_path, LOSS, "--lives=2", "--compare=none")[0]


@pytest.mark.slow
def test_the_summary_of_a_test_says_in_which_physics_it_was(tmp_path):
    words = ("--lives=2", "--updates=2", "--compare=none", "--physics=coarse")
    summary, printed = meta_test(tmp_path / "out", "random_reacher", *words)
    assert summary["about"]["task"]["physics"] == "coarse"
    assert "unseen random_reacher tasks in coarse physics" in printed


@pytest.mark.parametrize("flag", ["--resume", "--overwrite"])
def test_a_folder_that_another_test_writes_to_is_refused(tmp_path, flag):
    """Before what that test has written so far is read or removed."""
    unfinished = tmp_path / ".curves.csv.1.tmp"
    unfinished.touch()
    lock = FolderLock(tmp_path)
    lock.acquire()
    process = commands.run(
        "meta_test", "--loss=point_goal", CONFIG, f"--output_dir={tmp_path}", flag
    )
    lock.release()
    assert process.returncode == 2 and unfinished.exists()
    assert "another process is writing to this folder; wait for it" in process.stderr


def test_a_new_folder_is_locked_as_well(tmp_path):
    values = flags.FlagValues()
    flag = flags.DEFINE_string("output_dir", str(tmp_path / "new"), "", flag_values=values)
    values.mark_as_parsed()
    evaluation_flags.prepare_results(flag, False, ())
    with pytest.raises(RecordError, match="another process is writing to this folder"):
        FolderLock(tmp_path / "new").acquire()
    evaluation_flags._lock_of(tmp_path / "new").release()


@pytest.mark.slow
def test_elsewhere_task_policy_and_baseline_are_replaced(tmp_path):
    """The loss and how it teaches stay; users know if baselines were tuned with other
    observations.
    """
    config = json.loads((LOSS.parent / "config.json").read_text())
    config["config"]["inner"]["centred_observations"] = False
    (tmp_path / "uncentred").mkdir()
    (tmp_path / "uncentred" / "config.json").write_text(json.dumps(config))
    summary, printed = meta_test(
        tmp_path / "out",
        LOSS,
        "--lives=2",
        f"--config={tmp_path / 'uncentred'}",
        "--config.task.range=mass=3:4",
        "--config.policy.hidden=(5,)",
    )
    assert "has inner.centred_observations=False, baselines have the loss's here, True" in printed
    about = summary["about"]
    assert about["task"]["range"] == "mass=3:4" and about["updates"] == 3
    assert about["policy"]["hidden"] == [5]
    assert about["replaced"]["config.policy.hidden"] == [[4], [5]]
    replaced = {"task", "policy", "surrogate", "ppo", "reinforce", "sac", "td3"}
    assert {name.split(".")[1] for name in about["replaced"]} <= replaced


@pytest.mark.slow
def test_a_shared_loss_is_tested_in_another_body(make_tiny, tmp_path):
    """Of hidden_goal (4 observations, 2 actions), tested in directional_half_cheetah."""
    shared = {"reward": True, "shared_over_actions": True, "products": 1}
    shared["start"] = "policy_gradient"
    experiment = make_tiny(task={"family": "hidden_goal"}, loss=shared)
    save(tmp_path / "loss", initial_phi(experiment, 0), experiment, {})
    stated = json.loads((tmp_path / "loss" / "loss.json").read_text())
    assert (stated["observation_size"], stated["action_size"]) == (4, 2)
    words = ["--lives=2", "--config=directional_half_cheetah", "--config.task.episode_limit=6"]
    summary, _ = meta_test(tmp_path / "out", tmp_path / "loss", *words, "--compare=reinforce")
    assert summary["about"]["task"]["family"] == "directional_half_cheetah"
    assert summary["epg"]["lives"] == 2 and "reinforce" in summary
    # The config is of coarse physics, which the environment does not have; tests are in exact ones.
    words += ["--config.task.family=gymnasium:Pendulum-v1", "--config.task.frame_skip=1"]
    summary, _ = meta_test(tmp_path / "own", tmp_path / "loss", *words, "--compare=alone")
    assert summary["about"]["task"]["family"] == "gymnasium:Pendulum-v1"


@pytest.mark.slow
def test_baselines_learn_longer_and_say_when_they_match(tmp_path):
    words = ["--compare=sac,reinforce,ppo_as_epg", "--compare_updates=2", "--alpha=0.5"]
    words += [*TINY, "--config.sac.random_steps=40"]
    summary, printed = meta_test(tmp_path / "out", LOSS, *words)
    assert "2 times as many by " in printed and "match" in printed
    names = ["epg", "ppo_as_epg", "sac", "reinforce", "untrained", "random_loss", "centred_loss"]
    assert [name for name in summary if name in names] == names
    for name in names:
        assert "steps_to_match" in summary[name]
        longer = name in ("ppo_as_epg", "sac", "reinforce")
        assert summary[name]["env_steps"] == (48 if longer else 24)
    about = summary["about"]
    assert (about["alpha"], about["compare_updates"]) == (0.5, 2)
    assert about["rivals"]["sac"]["random_steps"] == 40


@pytest.mark.slow
def test_losses_of_several_seeds_are_tested_together_on_tasks_kept_for_reports(tmp_path):
    """The second one is a copy, so the mean is that of either."""
    other = tmp_path / "other"
    shutil.copytree(LOSS, other)
    found = {
        name: meta_test(tmp_path / name, f"{LOSS},{other}", "--compare=none", *TINY, *words)[0]
        for name, words in {"usual": [], "kept": ["--reporting"]}.items()
    }
    kept = found["kept"]
    assert kept["about"]["phase"] == "reporting" and kept["about"]["other_losses"] == [str(other)]
    assert kept["epg"]["losses"] == 2
    returns = [kept[key]["final_return_mean"] for key in ("epg", f"epg {LOSS}", f"epg {other}")]
    assert len(set(returns)) == 1  # the losses are the same
    assert returns[0] != found["usual"]["epg"]["final_return_mean"]  # the tasks are not
    assert 0.0 <= kept["untrained"]["improvement"] <= 1.0


@pytest.mark.slow
def test_an_evolved_start_is_a_row_beside_a_loss_with_the_policy_and_ppo_of_the_config(tmp_path):
    """PPO from the very policy that agents begin with differs where the config's PPO does."""
    learned = load_loss(LOSS)
    moved = {"moves": "initialisation", "guidance": 1.0, "final_guidance": 1.0}
    evolution = dataclasses.replace(learned.experiment.evolution, **moved)
    start = dataclasses.replace(learned.experiment, evolution=evolution)
    save(tmp_path / "start", initial_phi(start, 0), start, {"env_steps": 5})
    found = {}
    for name, clip in {"usual": 0.2, "sharper": 1e-3}.items():
        words = ["--lives=2", "--compare=none", CONFIG, "--config.policy.hidden=(4,)"]
        words += [f"--config.surrogate.clip={clip}", "--fixed_policies="]
        _, printed = meta_test(tmp_path / name, f"{LOSS},{tmp_path / 'start'}", *words)
        found[name] = read_results(tmp_path / name)
    assert "the reward is not an input of the evolved loss (EPG)\n" in printed
    assert "PPO from an evolved start (PPO+I) 5\n" in printed
    hashes = [found[name].select("ppo_i").final("policy_sha256") for name in found]
    assert (hashes[0] != hashes[1]).all()
    same = [found[name].select("epg").final("policy_sha256") for name in found]
    np.testing.assert_array_equal(*same)


@pytest.mark.slow
def test_objectives_of_several_seeds_are_tested_beside_all_others_elsewhere(objective, tmp_path):
    """On an environment with another number of action dimensions, two where training had one. The
    second objective is a copy, so the mean is that of either.
    """
    other = tmp_path / "other"
    shutil.copytree(objective, other)
    words = ["--environment=point_goal@10", "--lives=2", "--env_steps=40", "--episodes=1"]
    summary, _ = meta_test(tmp_path / "test", f"{objective},{other}", *words, "--compare=all")
    both = [f"objective {objective}", f"objective {other}"]
    learned = {"objective", "untrained_objective", *both}
    others = {"off_policy_reinforce", "ddpg_with_td3", "ppo", "reinforce", "td3", "ddpg"}
    assert set(summary) == learned | others | {"about", "format_version"}
    assert summary["objective"]["losses"] == 2
    assert summary["about"]["other_losses"] == [str(other)]
    mean = summary["objective"]["final_return_mean"]
    assert [summary[name]["final_return_mean"] for name in both] == [mean, mean]
    for method in learned | others:
        row = summary[method]
        assert row["env_steps"] == 40 and row["failed_lives"] == 0 > row["final_return_mean"]


@pytest.mark.parametrize("words", [["--loss=random_hopper", "--config=random_hopper"], []])
def test_print_config_shows_what_the_test_would_use(words, untrained_objective):
    """Of an objective without a config, too."""
    changed = ["--config.task.range=nominal"] if words else [f"--loss={untrained_objective}"]
    end = ["--output_dir=nowhere", "--print_config"]
    shown = "config.task.range='nominal'" if words else "config.objective.lstm_units=4"
    assert shown in commands.done("meta_test", *words, *changed, *end).splitlines()
