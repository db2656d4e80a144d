"""Tests epg_tf.artifacts.cards: the numbers of a card, the commands that repeat them, and whose it
is.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

import epg_tf
from epg_tf.artifacts.artifact import LearnedLoss
from epg_tf.artifacts.cards import CARD_FILE, exported_card, pretrained_card
from epg_tf.artifacts.loss_files import PRETRAINED, pretrained_losses
from epg_tf.core.errors import ConfigError, RecordError
from epg_tf.epg.meta_parameters import initial_phi
from epg_tf.figures.results import unpacked
from epg_tf.tasks import registry
from epg_tf.tasks.point_goal import PointGoal

RESULTS = unpacked(Path(__file__).parents[2] / "results")


class Own(PointGoal):
    """A family of a user."""

    name = "own"


@pytest.fixture
def run(make_tiny, monkeypatch, tmp_path):
    """The folder of a run in a user's own family."""
    monkeypatch.setitem(registry.FAMILIES, "own", Own)
    experiment = make_tiny(task={"family": "own"}, loss={"reward": True})
    facts = {"seed": 3, "commit": "abc", "env_steps": 12_300, "note": "a | b\n<script>"}
    facts["versions"] = {"tensorflow": "2.15.1"}
    epg_tf.save_loss(tmp_path / "best", initial_phi(experiment, 0), experiment, facts)
    return tmp_path


def read(*words):
    return json.loads(RESULTS.joinpath(*words).read_text("utf-8"))


def card_of(name, *tests, **studies):
    run = {"epochs": 7, "env_steps": 12_300, "seconds": 65.0}
    return pretrained_card("mine", epg_tf.load_loss(name), tests, studies, run)


def test_a_card_says_where_a_loss_is_from_and_a_card_beside_it_is_kept(run):
    card = exported_card(epg_tf.load_loss(run))
    for text in (
        "| seed, commit | 3, abc |",
        "| env steps of meta-training | 12.3 k |",
        "| packages | tensorflow 2.15.1 |",
        "| `observation` | [P, 32, 6] float32 |",
        "| `agent.learning_rate` | ",
    ):
        assert card.count(text) == 1, text
    assert "a \\| b" in card and "<script>" not in card  # facts of others
    (run / "best" / CARD_FILE).write_text("# Mine\n\n## Use without epg_tf\n\nstale words")
    card = exported_card(epg_tf.load_loss(run))
    assert card.startswith("# Mine\n\n## Use without epg_tf\n\n`learner.py`")
    assert "stale words" not in card and "3, abc" not in card
    (run / "best" / CARD_FILE).write_bytes(b"\xff\xfe")
    with pytest.raises(RecordError, match="card"):
        exported_card(epg_tf.load_loss(run))


@pytest.mark.parametrize("env_steps", ["many", None, [3]])
def test_foreign_facts_are_told_as_they_are(tiny, env_steps):
    facts = {"env_steps": env_steps, "round": 3, "seed": 0, "versions": "new"}
    card = exported_card(LearnedLoss(initial_phi(tiny, 0), tiny, facts))
    assert f"| env_steps | {json.dumps(env_steps)} |\n| round | 3 |\n| seed | 0 |" in card


@pytest.mark.slow
def test_a_loss_of_ones_own_family_is_exported_once_the_family_is_known(run, monkeypatch):
    loss = epg_tf.load_loss(run)
    assert epg_tf.export_loss(loss, run / "exported") <= 1e-6
    assert (run / "exported" / CARD_FILE).read_text() == exported_card(loss)
    assert epg_tf.load_loss(run / "exported").experiment.task.family == "own"
    with pytest.raises(RecordError, match="overwrite=True"):
        epg_tf.export_loss(loss, run / "exported")
    for folder in (run, run / "best"):
        with pytest.raises(RecordError, match="this is where losses are kept"):
            epg_tf.export_loss(loss, folder, overwrite=True)
    monkeypatch.delitem(registry.FAMILIES, "own")
    with pytest.raises(ConfigError, match="'own' is not a task family"):
        exported_card(loss)


def test_the_card_of_a_pretrained_loss_has_every_test_and_its_command():
    equal = read("reporting", "random_hopper.json")
    adaptation = read("adaptation_reporting", "random_hopper", "adaptation.json")
    longer = {"epg": {**equal["epg"], "lives": 32}, "ppo": equal["ppo"]}
    longer["about"] = {**equal["about"], "compare_updates": 4, "alpha": 0.5, "updates": 16}
    longer["about"]["phase"] = "test"
    card = card_of("random_hopper", equal, longer, adaptation=adaptation)
    row = equal["zero_shot_linear"]
    for text in (
        "epg-tf meta-test --loss=mine --lives=128 --seed=0 --compare=ppo,ppo_as_epg,sac,td3,"
        "reinforce --fixed_policies=own --reporting --output_dir=OUT\n",
        "epg-tf meta-test --loss=mine --lives=32 --seed=0 --compare=ppo --compare_updates=4 "
        "--alpha=0.5 --updates=16 --output_dir=OUT\n",
        "epg-tf study --measure=adaptation --loss=mine --lives=128 --seed=0 ",
        "| time | 1 min 05 s |",
        f"| fixed linear policy | {row['final_return_mean']:.2f} | {row['ci95'][0]:.2f} to ",
        f"(transfer) | {adaptation['transfer']['mean']:.2f} |",
        f"(yoked) | {adaptation['yoked']['mean']:.2f} |",
        f"regained | {adaptation['switch']['regained']['mean']:.2f} |",
    ):
        assert card.count(text) == 1, text
    alone = {key: equal[key] for key in ("epg", "untrained", "about")}
    assert "--compare=none" in card_of("random_hopper", alone)


def test_a_hub_reads_the_measured_return_of_this_loss_from_the_first_lines():
    """Also where losses of other seeds were evaluated beside it."""
    for name, record, value in (
        ("random_hopper", "reporting/random_hopper.json", 142.55),
        ("random_walker_night", "night/random_walker_seeds.json", 228.01),
    ):
        first, lines, _ = card_of(name, read(record)).split("---\n", 2)
        told = yaml.safe_load(lines)
        assert (first, told["library_name"], told["license"]) == ("", "epg_tf", "apache-2.0")
        assert told["pipeline_tag"] == "reinforcement-learning"
        (index,) = told["model-index"]
        (result,) = index["results"]
        family = epg_tf.load_loss(name).experiment.task.family
        assert index["name"] == "mine" and result["dataset"]["type"] == family
        assert result["metrics"][0]["value"] == value


@pytest.mark.parametrize("name", pretrained_losses())
def test_the_first_lines_of_a_pretrained_card_have_its_returns(name):
    card = (PRETRAINED / name / CARD_FILE).read_text("utf-8")
    (index,) = yaml.safe_load(card.split("---\n")[1])["model-index"]
    assert index["name"] == name and index["results"]
    for result in index["results"]:
        assert f"| {result['metrics'][0]['value']:.2f} |" in card
