"""Runs launch.study, and the evolution of fixed policies, as users do."""

from __future__ import annotations

import json

import pytest

from epg_tf.artifacts.artifact import load_loss
from epg_tf.evaluation.results import read_results
from epg_tf.reports.tables import number
from epg_tf.runs.config_files import read_experiment
from epg_tf.runs.reader import read_run
from tests.launch import commands
from tests.launch.systems import SYSTEMS

FIXED = {
    "evolution__moves": "initialisation",
    "evolution__fitness_from": "final_episodes",
    "inner__updates": 0,
    "policy__hidden": "()",
}


@pytest.fixture(scope="module")
def loss(tmp_path_factory):
    """The folder of a loss that carries a fixed linear policy."""
    folder = tmp_path_factory.mktemp("runs")
    for name, changes in (("a", {"evolution__fitness_from": "final_episodes"}), ("fixed", FIXED)):
        words = ["--config=point_goal", *commands.settings(**changes)]
        printed = commands.done("meta_train", *words, f"--run_dir={folder / name}")
    assert "evolving an initial policy for point_goal" in printed
    (folder / "fixed" / "best").rename(folder / "a" / "best" / "zero_shot_linear")
    return folder / "a" / "best"


@pytest.mark.slow
def test_adaptation_of_a_loss_with_a_fixed_policy(loss, tmp_path):
    policy, out = load_loss(loss / "zero_shot_linear"), tmp_path / "out"
    assert policy.experiment.policy.hidden == () and policy.phi.size == 6 * 2 + 2 + 2
    words = ["study", "--measure=adaptation", f"--loss={loss}", "--lives=4", f"--output_dir={out}"]
    assert "4 of 4 pairs have different tasks" in commands.done(*words)
    assert (out / "adaptation.png").is_file()
    found = json.loads((out / "adaptation.json").read_text())
    for name in ("own", "transfer", "yoked", "switch"):
        low, high = found[name]["ci95"]
        assert low <= found[name]["mean"] <= high and found[name]["lives"] == 4
    own = ["--lives=4", f"--output_dir={tmp_path / 'test'}"]
    commands.done("meta_test", f"--loss={loss}", *own)
    tested = json.loads((tmp_path / "test" / "summary.json").read_text())
    assert tested["epg"]["final_return_mean"] == found["own"]["mean"]
    fixed = found["zero_shot"]["zero_shot_linear"]
    assert tested["zero_shot_linear"]["final_return_mean"] == fixed["mean"]
    assert "--overwrite" in commands.refused(*words)
    commands.done(*words, "--overwrite")
    assert json.loads((out / "adaptation.json").read_text()) == found
    page = tmp_path / "page.html"
    commands.done("report", f"--run_dir={out}", f"--output={page}", "--film=false")
    for name in ("own", "transfer", "yoked"):
        assert number(found[name]["mean"]) in page.read_text("utf-8")


@pytest.mark.slow
def test_robustness_of_a_loss_with_a_fixed_policy_goes_on_where_it_ended(loss, tmp_path):
    path = tmp_path / "robustness.json"
    words = ["study", "--measure=robustness", f"--loss={loss}", f"--output_dir={tmp_path}"]
    words.append("--lives=2")
    assert "lives 4 times as long: done" in commands.done(*words)
    assert (tmp_path / "robustness.png").is_file()
    whole = json.loads(path.read_text())
    assert "zero_shot_linear" in whole["changes"]["shifted"]
    assert whole["changes"]["deep"]["loss"]["lives"] == 2
    assert "pass --resume to continue it, --overwrite" in commands.refused(*words)
    cut = {**whole, "changes": dict(whole["changes"])}
    del cut["changes"]["shifted"], cut["changes"]["longer"]
    deep = cut["changes"]["deep"]
    deep["loss"] = {**deep["loss"], "mean": 1.5}  # shows that it is kept
    path.write_text(json.dumps(cut))
    printed = commands.done(*words, "--resume")
    assert printed.count(": done") == 3 and "policy of 4 x 64 tanh: done" not in printed
    found = json.loads(path.read_text())
    assert found["changes"]["deep"]["loss"]["mean"] == 1.5
    assert [*found["changes"]] == [*whole["changes"]]
    del found["changes"]["deep"], whole["changes"]["deep"]
    assert found == whole
    before = path.read_bytes()
    for other, message in (
        ("--seed=1", "seed=0, and this test of 1"),
        ("--lives=3", "2 lives"),
    ):
        line = commands.refused(*words, other, "--resume")
        assert message in line and f"--output_dir={tmp_path}: " in line and "--overwrite" in line
    assert path.read_bytes() == before


@pytest.mark.slow
def test_progress_draws_a_grid_over_the_kept_objectives(tmp_path):
    run, grid = tmp_path / "run", tmp_path / "grid"
    commands.done("meta_train", *SYSTEMS["metagenrl"].flags(), f"--run_dir={run}")
    words = ["study", "--measure=progress", f"--loss={run}", "--lives=2", "--env_steps=20"]
    words.append("--episodes=1")
    commands.done(*words, "--every=3", f"--output_dir={grid}")
    line = commands.refused(*words, f"--output_dir={run}", "--overwrite")
    assert "it holds checkpoints" in line and (grid / "curves.png").is_file()
    about = json.loads((grid / "summary.json").read_text())["about"]
    assert about["run_finished"] and about["loss_facts"] == {"seed": 0}
    assert read_experiment(about["config"]) == read_run(run).experiment
    results = read_results(grid / "curves.csv")
    assert set(results.loss) == {"round_00000000", "round_00000003"}
    assert len(results) == 2 * 2 * (2 + 1)  # objectives, agents, evaluations and the final policy
