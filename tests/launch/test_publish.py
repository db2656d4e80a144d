"""launch.publish, and the losses that come with the package."""

import dataclasses
import json
import re

import numpy as np
import pytest

import epg_tf
from epg_tf.artifacts.artifact import load, pretrained_objectives
from epg_tf.artifacts.loss_files import PRETRAINED, pretrained_losses
from epg_tf.figures.results import unpacked
from tests.launch import commands

pytestmark = pytest.mark.slow

CONFIG = "--config=configs/point_goal.py"


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A tiny run, and a tiny test of it."""
    folder = tmp_path_factory.mktemp("ship")
    run, test = folder / "run", folder / "test"
    commands.done("meta_train", CONFIG, *commands.settings(), f"--run_dir={run}")
    words = [f"--loss={run / 'best'}", f"--output_dir={test}", "--lives=4", CONFIG]
    words += ["--config.surrogate.baseline_epochs=2", "--config.task.episode_limit=6"]
    commands.done("meta_test", *words)
    return folder


def words_of(made):
    return ["publish", f"--run_dir={made / 'run'}", f"--evaluations={made / 'test'}"]


def test_a_published_loss_is_the_best_of_its_run_with_a_card(made, tmp_path):
    words = [*words_of(made), "--name=tiny", f"--output_dir={tmp_path}"]
    commands.done(*words)
    published, best = map(epg_tf.load_loss, (tmp_path / "tiny", made / "run" / "best"))
    np.testing.assert_array_equal(published.phi, best.phi)
    experiment = published.experiment
    assert published.facts == best.facts and experiment.surrogate.baseline_epochs == 2  # as tested
    surrogate = best.experiment.surrogate
    assert dataclasses.replace(experiment, surrogate=surrogate) == best.experiment
    card = (tmp_path / "tiny" / "README.md").read_text()
    scores = json.loads((made / "test" / "summary.json").read_text())
    for method in ("epg", "ppo", "untrained"):
        assert (
            f"{scores[method]['final_return_mean']:.2f}" in card
            and f"{scores[method]['auc_mean']:.2f}" in card
        )
    for text in ("never sees a reward", "| seed, commit | 0, ", "tensorflow 2.15"):
        assert text in card
    line = commands.refused(*words)
    assert line.startswith(f"error: --name=tiny: {tmp_path / 'tiny'}: the folder is not empty")
    assert "--overwrite" in line


@pytest.mark.parametrize(
    ("flags", "part"),
    [
        ("--name=../evil", "--name='../evil'"),
        ("--name=", "--name is missing"),
        ("--name=x --evaluations=nowhere", "nowhere"),
        ("--name=x --run_dir=nowhere", "nowhere"),
        ("--name=x --evaluations=RUN", "of something else"),
    ],
)
def test_what_cannot_be_published_is_refused_in_one_line(made, tmp_path, flags, part):
    given = flags.replace("RUN", str(made / "run")).split()
    assert part in commands.refused(*words_of(made), f"--output_dir={tmp_path}", *given)
    assert not list(tmp_path.iterdir())


def test_further_evaluations_are_checked_and_in_the_card(made, tmp_path):
    """A test with longer lives of others, and one beside a loss of another seed."""
    summary = json.loads((made / "test" / "summary.json").read_text())
    further = tmp_path / "further"
    further.mkdir()

    def result(file="summary.json", **about):
        changed = {**summary, "about": {**summary["about"], **about}}
        (further / file).write_text(json.dumps(changed))
        words = ["--name=tiny", f"--output_dir={tmp_path / 'out'}", "--overwrite"]
        return [*words_of(made), *words, f"--evaluations={made / 'test'},{further}"]

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
        line = commands.refused(*result(**about))
        assert str(further) in line and part in line and not (tmp_path / "out").exists()
    commands.done(*result(compare_updates=4))
    card = (tmp_path / "out" / "tiny" / "README.md").read_text()
    assert card.count("other methods learn for 4 times as many") == 1
    assert "of something else" in commands.refused(*result("adaptation.json"))


OBJECTIVE = unpacked(commands.ROOT / "results") / "metagenrl_replay" / "seed0"


def test_an_objective_is_published_with_a_card(tmp_path):
    """The pretrained one is what the command makes of results that are kept."""
    test = tmp_path / "test"
    test.mkdir()
    (test / "summary.json").write_text((OBJECTIVE / "test.json").read_text())
    words = ["publish", f"--run_dir={OBJECTIVE}", f"--evaluations={test}"]
    words += [f"--output_dir={tmp_path}", "--name=point_goal_objective"]
    assert "epg_tf.load_objective('point_goal_objective')" in commands.done(*words)
    for file in ("README.md", "loss.npz"):
        made = (tmp_path / "point_goal_objective" / file).read_bytes()
        assert made == (PRETRAINED / "point_goal_objective" / file).read_bytes()
    card = (tmp_path / "point_goal_objective" / "README.md").read_text()
    assert "| learned objective | -8.98 | -10.11 to -7.85 |" in card
    assert "| PPO | -13.71 |" in card
    other = json.loads((OBJECTIVE / "test.json").read_text())
    other["about"]["loss_facts"]["seed"] = 7
    (test / "summary.json").write_text(json.dumps(other))
    assert "tested something else" in commands.refused(*words, "--name=other")
    (test / "summary.json").write_text("{}")
    assert "the results of something else" in commands.refused(*words, "--name=other")


def test_tests_of_an_objective_in_several_environments_are_in_its_card(tmp_path):
    """Beside objectives of other seeds; all are kept, and the card is the pretrained one's."""
    kept = unpacked(commands.ROOT / "results") / "metagenrl_small"
    places = ["inverted_double_pendulum", "turned_motors", "pendulum", "inverted_pendulum"]
    for place in (places := [*places, "reacher", "point_goal"]):
        (tmp_path / place).mkdir()
        (tmp_path / place / "summary.json").write_text((kept / f"{place}.json").read_text())
    folders = ",".join(f"{tmp_path / place}" for place in places)
    words = ["publish", f"--run_dir={kept / 'seed1'}", f"--output_dir={tmp_path}"]
    name = "--name=four_environments_objective"
    commands.done(*words, f"--evaluations={folders}", name)
    made = (tmp_path / "four_environments_objective" / "README.md").read_text()
    pretrained = PRETRAINED / "four_environments_objective" / "README.md"
    assert made == pretrained.read_text()
    assert made.count("| seed 1, this one |") == len(places)
    assert "| seed 1, this one | 557.03 |" in made and "| seed 0 | 804.29 |" in made
    assert "--config=CONFIG --config.baseline.ddpg_learning_rate=0.003 --output_dir=OUT" in made
    assert "in gymnasium:InvertedPendulum-v5, of meta-training" in made
    assert "in turned_motors, not of meta-training" in made
    words.append("--name=other")
    for twice in (f"{folders},", f"{folders},{tmp_path / places[0]}"):
        line = commands.refused(*words, f"--evaluations={twice}")
        assert "names no folder, or one twice" in line
    foreign = commands.refused(*words, f"--run_dir={OBJECTIVE}", f"--evaluations={folders}")
    assert "tested something else" in foreign


@pytest.mark.parametrize("name", pretrained_losses())
def test_every_pretrained_vector_loads_and_its_card_belongs_to_it(name):
    """Loading compares it with its checksum; none was made with changes that no commit has."""
    learned = load(name)
    card = (PRETRAINED / name / "README.md").read_text()
    assert learned.name == name and f"{learned.phi.size:,} parameters" in card
    assert f"| seed, commit | {learned.facts['seed']}, {learned.facts['commit']} |" in card
    assert re.fullmatch(r"[0-9a-f]{40}", learned.facts["commit"])
    experiment = learned.experiment
    objective = name in pretrained_objectives()
    places = experiment.environments if objective else [experiment.task.family]
    assert all(place in card for place in places)
