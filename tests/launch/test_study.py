"""Runs launch.study, and the evolution of fixed policies, as users do."""

from __future__ import annotations

import json

import pytest

from epg_tf.artifacts.artifact import load_loss
from tests.launch import commands

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
        process = commands.run(
            "meta_train",
            "--config=point_goal",
            *commands.settings(**changes),
            f"--run_dir={folder / name}",
        )
        assert process.returncode == 0, process.stderr
    assert "evolving an initial policy for point_goal" in process.stdout
    (folder / "fixed" / "best").rename(folder / "a" / "best" / "zero_shot_linear")
    return folder / "a" / "best"


@pytest.mark.slow
def test_adaptation_of_a_loss_with_a_fixed_policy(loss, tmp_path):
    policy = load_loss(loss / "zero_shot_linear")
    assert policy.experiment.policy.hidden == () and policy.phi.size == 6 * 2 + 2 + 2
    flags = [f"--loss={loss}", f"--output_dir={tmp_path / 'out'}"]
    process = commands.run("study", "--measure=adaptation", *flags, "--lives=4")
    assert process.returncode == 0, process.stderr
    assert "4 of 4 pairs have different tasks" in process.stdout
    assert (tmp_path / "out" / "adaptation.png").is_file()
    found = json.loads((tmp_path / "out" / "adaptation.json").read_text())
    for name in ("own", "transfer", "yoked", "switch"):
        low, high = found[name]["ci95"]
        assert low <= found[name]["mean"] <= high and found[name]["lives"] == 4
    words = ["--lives=4", "--fixed_policies=own", f"--output_dir={tmp_path / 'test'}"]
    process = commands.run("meta_test", flags[0], *words)
    assert process.returncode == 0, process.stderr
    tested = json.loads((tmp_path / "test" / "summary.json").read_text())
    assert tested["epg"]["final_return_mean"] == found["own"]["mean"]
    fixed = found["zero_shot"]["zero_shot_linear"]
    assert tested["zero_shot_linear"]["final_return_mean"] == fixed["mean"]
    again = commands.run("study", "--measure=adaptation", *flags, "--lives=4")
    assert again.returncode == 2 and "--overwrite" in again.stderr
    replaced = commands.run("study", "--measure=adaptation", *flags, "--lives=4", "--overwrite")
    assert replaced.returncode == 0, replaced.stderr
    assert json.loads((tmp_path / "out" / "adaptation.json").read_text()) == found


@pytest.mark.slow
def test_robustness_of_a_loss_with_a_fixed_policy(loss, tmp_path):
    flags = [f"--loss={loss}", "--lives=2", f"--output_dir={tmp_path / 'out'}"]
    process = commands.run("study", "--measure=robustness", *flags)
    assert process.returncode == 0, process.stderr
    assert "lives 4 times as long: done" in process.stdout
    assert (tmp_path / "out" / "robustness.png").is_file()
    found = json.loads((tmp_path / "out" / "robustness.json").read_text())
    assert "zero_shot_linear" in found["changes"]["shifted"]
    assert found["changes"]["deep"]["loss"]["lives"] == 2
    again = commands.run("study", "--measure=robustness", *flags)
    assert again.returncode == 2 and "pass --resume to continue it, --overwrite" in again.stderr


@pytest.mark.slow
def test_a_test_of_robustness_goes_on_where_it_ended(loss, tmp_path):
    flags = [f"--loss={loss}", "--lives=2", f"--output_dir={tmp_path}", "--resume"]
    assert commands.run("study", "--measure=robustness", *flags).returncode == 0
    whole = json.loads((tmp_path / "robustness.json").read_text())
    cut = {**whole, "changes": dict(whole["changes"])}
    del cut["changes"]["shifted"], cut["changes"]["longer"]
    deep = cut["changes"]["deep"]
    deep["loss"] = {**deep["loss"], "mean": 1.5}  # shows that it is kept
    (tmp_path / "robustness.json").write_text(json.dumps(cut))
    process = commands.run("study", "--measure=robustness", *flags)
    assert process.returncode == 0, process.stderr
    assert process.stdout.count(": done") == 3
    assert "policy of 4 x 64 tanh: done" not in process.stdout
    found = json.loads((tmp_path / "robustness.json").read_text())
    assert found["changes"]["deep"]["loss"]["mean"] == 1.5
    assert [*found["changes"]] == [*whole["changes"]]
    del found["changes"]["deep"], whole["changes"]["deep"]
    assert found == whole
    before = (tmp_path / "robustness.json").read_bytes()
    for words, message in (
        (["--seed=1"], "seed=0, and this test of 1"),
        (["--lives=3"], "2 lives"),
    ):
        other = commands.run("study", "--measure=robustness", *flags, *words)
        assert other.returncode == 2 and message in other.stderr
        assert f"--output_dir={tmp_path}: " in other.stderr and "--overwrite" in other.stderr
    assert (tmp_path / "robustness.json").read_bytes() == before


@pytest.mark.parametrize("command", ["adaptation", "robustness"])
@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--output_dir=OUT"], ("--loss is missing",)),
        (["--loss=point_goal"], ("--output_dir is missing",)),
        (["--loss=nothing", "--output_dir=OUT"], ("no pretrained loss of that name",)),
        (["--loss=point_goal", "--output_dir=OUT", "--lives=1"], ("lives", "2")),
        (
            ["--loss=point_goal", "--output_dir=OUT", "--config=point_goal"]
            + ["--config.inner.updates=3"],
            ("--config.inner.updates=3 has no effect here",),
        ),
    ],
)
def test_what_is_wrong_is_one_line(command, flags, words, tmp_path):
    named = [flag.replace("OUT", str(tmp_path / "out")) for flag in flags]
    process = commands.run("study", f"--measure={command}", *named)
    assert process.returncode != 0
    assert all(word in process.stderr for word in words)
