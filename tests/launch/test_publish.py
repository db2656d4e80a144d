"""launch.publish, and the losses that come with the package."""

import dataclasses
import json
import re

import numpy as np
import pytest

import epg_tf
from epg_tf.artifacts import artifact
from epg_tf.artifacts.artifact import PRETRAINED, pretrained_losses, pretrained_objectives
from epg_tf.figures.results import unpacked
from tests.launch import commands

pytestmark = pytest.mark.slow

CONFIG = "--config=configs/point_goal.py"


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A tiny run, and a tiny test of it."""
    folder = tmp_path_factory.mktemp("ship")
    for words in (
        ("meta_train", CONFIG, *commands.settings(), f"--run_dir={folder / 'run'}"),
        (
            "meta_test",
            f"--loss={folder / 'run' / 'best'}",
            f"--output_dir={folder / 'test'}",
            "--lives=4",
            CONFIG,
            "--config.surrogate.baseline_epochs=2",
            "--config.task.episode_limit=6",
        ),
    ):
        process = commands.run(*words)
        assert process.returncode == 0, process.stderr
    return folder


def publish(made, *flags):
    return commands.run(
        "publish", f"--run_dir={made / 'run'}", f"--evaluations={made / 'test'}", *flags
    )


@pytest.mark.slow
def test_a_shipped_loss_is_the_best_of_its_run_with_a_card(made, tmp_path):
    process = publish(made, "--name=tiny", f"--output_dir={tmp_path}")
    assert process.returncode == 0, process.stderr
    pretrained, best = (
        epg_tf.load_loss(folder) for folder in (tmp_path / "tiny", made / "run" / "best")
    )
    np.testing.assert_array_equal(pretrained.phi, best.phi)
    assert (
        pretrained.facts == best.facts and pretrained.experiment.surrogate.baseline_epochs == 2
    )  # as tested
    assert (
        dataclasses.replace(pretrained.experiment, surrogate=best.experiment.surrogate)
        == best.experiment
    )
    card = (tmp_path / "tiny" / "card.md").read_text()
    scores = json.loads((made / "test" / "summary.json").read_text())
    for method in ("epg", "ppo", "untrained"):
        assert (
            f"{scores[method]['final_return_mean']:.2f}" in card
            and f"{scores[method]['auc_mean']:.2f}" in card
        )
    assert (
        "never sees a reward" in card
        and "| seed, commit | 0, " in card
        and "tensorflow 2.15" in card
    )
    again = publish(made, "--name=tiny", f"--output_dir={tmp_path}")
    assert again.returncode == 2 and again.stderr.count("\n") == 1 and "--overwrite" in again.stderr
    assert again.stderr.startswith(
        f"error: --name=tiny: {tmp_path / 'tiny'}: the folder is not empty"
    )


@pytest.mark.parametrize(
    ("flags", "part"),
    [
        (["--name=../evil"], "--name='../evil'"),
        (["--name="], "--name is missing"),
        (["--name=x", "--evaluations=nowhere"], "nowhere"),
        (["--name=x", "--run_dir=nowhere"], "nowhere"),
        (["--name=x", "--evaluations=RUN"], "of something else"),
    ],
)
def test_what_cannot_be_shipped_is_refused_in_one_line(made, tmp_path, flags, part):
    process = publish(
        made,
        f"--output_dir={tmp_path}",
        *(flag.replace("RUN", str(made / "run")) for flag in flags),
    )
    assert process.returncode == 2 and process.stderr.count("\n") == 1 and part in process.stderr
    assert not list(tmp_path.iterdir())


def test_a_test_of_another_loss_is_refused(made, tmp_path):
    about = json.loads((made / "test" / "summary.json").read_text())
    about["about"]["loss_facts"]["seed"] = 5
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "summary.json").write_text(json.dumps(about))
    process = publish(
        made, "--name=x", f"--evaluations={tmp_path / 'other'}", f"--output_dir={tmp_path / 'out'}"
    )
    assert (
        process.returncode == 2
        and "tested something else" in process.stderr
        and not (tmp_path / "out").exists()
    )


def test_further_evaluations_are_checked_and_in_the_card(made, tmp_path):
    """A test with longer lives of others, and one beside a loss of another seed."""
    summary = json.loads((made / "test" / "summary.json").read_text())
    further = tmp_path / "further"
    further.mkdir()

    def result(file="summary.json", **about):
        changed = {**summary, "about": {**summary["about"], **about}}
        (further / file).write_text(json.dumps(changed))
        words = ["--name=tiny", f"--output_dir={tmp_path / 'out'}", "--overwrite"]
        return publish(made, *words, f"--evaluations={made / 'test'},{further}")

    facts = summary["about"]["loss_facts"]
    coarse = {**summary["about"]["task"], "physics": "coarse"}
    for about, part in (
        ({"task": coarse}, "was measured in coarse physics"),
        ({"loss_facts": {}}, "tested something else"),
        ({"loss_facts": None, "other_loss_facts": 3}, "of something else"),
        ({"other_loss_facts": {"b": facts}}, "has two losses of one seed"),
        ({"loss_facts": {"seed": 4}, "other_loss_facts": {"b": {"seed": 5}}}, "tested something"),
        ({"other_loss_facts": {"b": {**facts, "seed": 1}}}, "of something else"),  # without a row
    ):
        process = result(**about)
        assert process.returncode == 2 and process.stderr.count("\n") == 1, process.stderr
        assert str(further) in process.stderr and part in process.stderr
        assert not (tmp_path / "out").exists()
    process = result(compare_updates=4)
    assert process.returncode == 0, process.stderr
    card = (tmp_path / "out" / "tiny" / "card.md").read_text()
    assert card.count("other methods learn for 4 times as many") == 1
    process = result("adaptation.json")
    assert process.returncode == 2 and "of something else" in process.stderr


def test_shipped_losses_are_found_by_name_unless_a_folder_has_it(made, tmp_path, monkeypatch):
    monkeypatch.setattr(artifact, "PRETRAINED", tmp_path / "pretrained")
    assert publish(made, "--name=tiny", f"--output_dir={tmp_path / 'pretrained'}").returncode == 0
    monkeypatch.chdir(tmp_path)
    assert pretrained_losses() == ["tiny"] and epg_tf.load_loss("tiny").phi.any()
    (tmp_path / "tiny").mkdir()
    with pytest.raises(artifact.RecordError, match="holds no loss.json"):
        epg_tf.load_loss("tiny")


@pytest.mark.parametrize("name", sorted({*pretrained_losses()} - {*pretrained_objectives()}))
def test_every_shipped_loss_loads_and_its_card_belongs_to_it(name):
    """Loading compares phi with its checksum."""
    loss = epg_tf.load_loss(name)
    card = (PRETRAINED / name / "card.md").read_text()
    assert f"{loss.phi.size:,} parameters" in card and loss.experiment.task.family in card
    assert f"| seed, commit | {loss.facts['seed']}, {loss.facts['commit']} |" in card
    assert re.fullmatch(r"[0-9a-f]{40}", loss.facts["commit"]), (
        "made from a checkout with changes of its own"
    )


OBJECTIVE = unpacked(commands.ROOT / "results") / "metagenrl_replay" / "seed0"


def publish_objective(test, *flags):
    return commands.run("publish", f"--run_dir={OBJECTIVE}", f"--evaluations={test}", *flags)


def test_an_objective_is_shipped_with_a_card(tmp_path):
    """The pretrained one is what the command makes of results that are kept."""
    test = tmp_path / "test"
    test.mkdir()
    (test / "summary.json").write_text((OBJECTIVE / "test.json").read_text())
    process = publish_objective(test, "--name=point_goal_objective", f"--output_dir={tmp_path}")
    assert process.returncode == 0, process.stderr
    assert "epg_tf.load_objective('point_goal_objective')" in process.stdout
    for file in ("card.md", "loss.npz"):
        made = (tmp_path / "point_goal_objective" / file).read_bytes()
        assert made == (PRETRAINED / "point_goal_objective" / file).read_bytes()
    card = (tmp_path / "point_goal_objective" / "card.md").read_text()
    assert "| learned objective | -8.98 | -10.11 to -7.85 |" in card
    assert "| PPO | -13.71 |" in card
    other = json.loads((OBJECTIVE / "test.json").read_text())
    other["about"]["loss_facts"]["seed"] = 7
    (test / "summary.json").write_text(json.dumps(other))
    refused = publish_objective(test, "--name=other", f"--output_dir={tmp_path}")
    assert refused.returncode == 2 and "tested something else" in refused.stderr
    (test / "summary.json").write_text("{}")
    refused = publish_objective(test, "--name=other", f"--output_dir={tmp_path}")
    assert refused.returncode == 2 and "KeyError" in refused.stderr


def test_tests_of_an_objective_in_several_environments_are_in_its_card(tmp_path):
    """Beside objectives of other seeds; all are kept, and the card is the pretrained one's."""
    kept = unpacked(commands.ROOT / "results") / "metagenrl_small"
    places = ["inverted_double_pendulum", "turned_motors", "pendulum", "inverted_pendulum"]
    for place in (places := [*places, "reacher", "point_goal"]):
        (tmp_path / place).mkdir()
        (tmp_path / place / "summary.json").write_text((kept / f"{place}.json").read_text())
    folders = ",".join(f"{tmp_path / place}" for place in places)
    name, out = "--name=four_environments_objective", f"--output_dir={tmp_path}"
    process = commands.run(
        "publish", f"--run_dir={kept / 'seed1'}", f"--evaluations={folders}", name, out
    )
    assert process.returncode == 0, process.stderr
    made = (tmp_path / "four_environments_objective" / "card.md").read_text()
    pretrained = PRETRAINED / "four_environments_objective" / "card.md"
    assert made == pretrained.read_text()
    assert made.count("| seed 1, this one |") == len(places)
    assert "| seed 1, this one | 557.03 |" in made and "| seed 0 | 804.29 |" in made
    assert "--config=CONFIG --config.baseline.ddpg_learning_rate=0.003 --output_dir=OUT" in made
    assert "in gymnasium:InvertedPendulum-v5, of meta-training" in made
    assert "in turned_motors, not of meta-training" in made
    for words in (f"{folders},", f"{folders},{tmp_path / places[0]}"):
        process = commands.run(
            "publish", f"--run_dir={kept / 'seed1'}", f"--evaluations={words}", "--name=other", out
        )
        assert process.returncode == 2 and "names no folder, or one twice" in process.stderr
    foreign = commands.run(
        "publish", f"--run_dir={OBJECTIVE}", f"--evaluations={folders}", "--name=other", out
    )
    assert foreign.returncode == 2 and "tested something else" in foreign.stderr


@pytest.mark.parametrize("name", pretrained_objectives())
def test_every_shipped_objective_loads_and_its_card_belongs_to_it(name):
    """Loading compares parameters with their checksum."""
    learned = epg_tf.load_objective(name)
    card = (PRETRAINED / name / "card.md").read_text()
    assert learned.name == name and f"{learned.phi.size:,} parameters" in card
    assert f"| seed, commit | {learned.facts['seed']}, {learned.facts['commit']} |" in card
    assert all(place in card for place in learned.experiment.environments)
