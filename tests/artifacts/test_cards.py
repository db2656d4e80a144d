"""Tests epg_tf.artifacts.cards: what the card of an export says, and where it is from."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

import epg_tf
from epg_tf.artifacts.card_tests import CardTests
from epg_tf.artifacts.cards import CARD_FILE, exported_card, shipped_card
from epg_tf.artifacts.learned_loss import LearnedLoss
from epg_tf.core.errors import ConfigError, RecordError
from epg_tf.epg.meta_parameters import initial_phi
from epg_tf.tasks import registry
from epg_tf.tasks.point_goal import PointGoal

FACTS = {"seed": 3, "commit": "abc", "versions": {"tensorflow": "2.15.1"}}
SUMMARY = {"epochs": 7, "env_steps": 12_300, "seconds": 65.0, **FACTS}


class Own(PointGoal):
    """A family of a user."""

    name = "own"


@pytest.fixture
def run(make_tiny, monkeypatch, tmp_path):
    """The folder of a finished run in a user's own family."""
    monkeypatch.setitem(registry.FAMILIES, "own", Own)
    experiment = make_tiny(task={"family": "own"}, loss={"reward": True})
    facts = {**FACTS, "chosen": "best in validation", "validation_return_mean": -5.5}
    epg_tf.save_loss(tmp_path / "best", initial_phi(experiment, 0), experiment, facts)
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / "summary.json").write_text(json.dumps(SUMMARY))
    return tmp_path


def test_the_card_of_a_runs_loss_says_what_it_is_and_how_it_was_evolved(run):
    card = exported_card(epg_tf.load_loss(run))
    assert card.startswith("# A loss for own\n\nA loss of ")
    for text in (
        "trains fresh agents in own with the reward among its inputs. Evolved, but not shipped",
        "| observations, actions | 6, 2 |",
        "| a life | 3 updates of 8 env steps, Adam at ",
        "| evolved in | 12.3 k env steps, 7 epochs, 1 min 05 s |",
        "| seed, commit | 3, abc |",
        "| packages | tensorflow 2.15.1 |",
        '| chosen | "best in validation" |',
        "| validation_return_mean | -5.5 |",
        "## Use without epg_tf",
    ):
        assert card.count(text) == 1, text
    assert "| seed |" not in card and "| versions |" not in card  # not said twice


@pytest.mark.parametrize(
    "summary",
    [None, {**SUMMARY, "seed": 4}, {"epg": {}, "about": {}}, {**SUMMARY, "seconds": "long"}],
    ids=["not finished", "another run", "a test", "damaged"],
)
def test_without_a_summary_of_its_run_the_facts_of_the_loss_are_listed(run, summary):
    (run / "summary.json").unlink()
    if summary is not None:
        (run / "summary.json").write_text(json.dumps(summary))
    card = exported_card(epg_tf.load_loss(run))
    assert "| seed | 3 |" in card and '| commit | "abc" |' in card and "evolved in" not in card


def test_a_summary_that_is_no_json_is_told(run):
    (run / "summary.json").write_text("{")
    with pytest.raises(RecordError, match=r"summary\.json"):
        exported_card(epg_tf.load_loss(run))


def test_a_loss_that_was_never_saved_has_a_card_too(tiny):
    card = exported_card(LearnedLoss(initial_phi(tiny, 0), tiny, {}))
    assert card.startswith("# A loss for point_goal") and "and never sees a reward" in card


def test_a_card_beside_the_loss_is_kept(run):
    (run / "best" / CARD_FILE).write_text(
        "# Mine\n\nNotes.\n\n## Use without epg_tf\n\nstale words"
    )
    card = exported_card(epg_tf.load_loss(run))
    assert card.startswith("# Mine\n\nNotes.\n\n## Use without epg_tf\n\n    loaded =")
    assert "stale words" not in card and "A loss for" not in card


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
    with pytest.raises(
        RecordError, match="in the family 'own', which is not registered; first load"
    ):
        epg_tf.load_loss(run)
    with pytest.raises(ConfigError, match="'own' is not a task family"):
        exported_card(loss)


RESULTS = Path(__file__).parents[2] / "results"


def read(*words):
    return json.loads(RESULTS.joinpath(*words).read_text("utf-8"))


def test_the_card_of_a_shipped_loss_has_every_test_and_its_command():
    loss, run = epg_tf.load_loss("random_hopper"), read("random_hopper", "summary.json")
    equal, adaptation = (
        read("reporting", "random_hopper.json"),
        read("adaptation", "random_hopper", "adaptation.json"),
    )
    longer = {"epg": {**equal["epg"], "lives": 32}, "ppo": equal["ppo"]}
    longer["about"] = {**equal["about"], "compare_updates": 4, "alpha": 0.5, "updates": 16}
    longer["about"]["phase"] = "test"
    card = shipped_card("hopper", loss, run, CardTests(equal, longer, adaptation))
    for text in (
        "epg-tf meta-test --loss=hopper --lives=128 --seed=0 --compare=ppo,ppo_as_epg,sac,td3,"
        "reinforce --zero_shot=own --reporting --output_dir=OUT\n",
        "epg-tf meta-test --loss=hopper --lives=32 --seed=0 --compare=ppo --compare_updates=4 "
        "--alpha=0.5 --updates=16 --output_dir=OUT\n",
        "learn for 4 times as many env steps",
        f"| fixed linear policy | {equal['zero_shot_linear']['final_return_mean']:.2f} |",
        f"(transfer) | {adaptation['transfer']['mean']:.2f} |",
        f"(yoked) | {adaptation['yoked']['mean']:.2f} |",
        f"regained {adaptation['switch']['regained']['mean']:.2f} [",
    ):
        assert text in card, text
    assert "each agent is paired with one that has another task." in card
    same = {**adaptation, "pairs": {"differing_tasks": 3, "all": 128}}
    card = shipped_card("hopper", loss, run, CardTests(equal, longer, same))
    assert "3 of 128 pairs of agents have different tasks." in card
    assert "has another task" not in card
    alone = shipped_card("hopper", loss, run, CardTests(equal))
    assert "longer lives than those above; tasks outside the range `training`." in alone
    assert "times as many" not in alone and "Does it teach" not in alone
    no_rivals = {key: equal[key] for key in ("epg", "untrained")}
    no_rivals["about"] = {**equal["about"], "compare_updates": 4}
    card = shipped_card("hopper", loss, run, CardTests(no_rivals))
    assert "Rivals learn for 4 times as many env steps." in card and "--compare=none" in card


def test_a_card_has_the_losses_of_other_seeds():
    """Three evolutions, of which the second is the loss of the card."""
    loss = epg_tf.load_loss("random_walker_night")
    run, equal = (
        read("night", "random_walker", "summary.json"),
        read("reporting", f"{loss.name}.json"),
    )
    seeds = read("night", "random_walker_seeds.json")
    card = shipped_card("walker", loss, run, CardTests(equal, seeds=seeds))
    returns = [
        f"{row['final_return_mean']:.2f}" for name, row in seeds.items() if "epg" in name[:3]
    ]
    labels = ("all together", "seed 0", "seed 1, this loss", "seed 2")
    for label, value in zip(labels, returns, strict=True):
        assert f"\n| {label} | {value} | " in card
    assert "and other seeds, 128 agents each" in card
    command = (
        "--loss=LOSSES --lives=128 --seed=0 --compare=ppo,ppo_as_epg --zero_shot=own --reporting"
    )
    assert command in card
    assert f"\n| PPO | {seeds['ppo']['final_return_mean']:.2f} | " in card
    assert "other seeds" not in shipped_card("walker", loss, run, CardTests(equal))
    other = "epg results/night/random_walker_seed2"
    seeds[other]["failed_lives"] = 100
    seeds["epg"]["lives"] = 12  # of three losses
    seeds["about"]["loss_facts"]["seed"] = 1  # of another run than this loss's
    card = shipped_card("walker", loss, run, CardTests(equal, seeds=seeds))
    assert "other seeds, 4 agents each" in card and card.count("this loss |") == 1
    assert re.search(r"\| seed 2 \| .* \| 100 \|\n", card)


def test_a_card_says_what_a_loss_is_worth_where_something_is_changed():
    loss, run = epg_tf.load_loss("random_hopper"), read("random_hopper", "summary.json")
    row = {"mean": 1.5, "ci95": [1.0, 2.0], "lives": 8, "failed_lives": 0}
    lost = {"mean": None, "ci95": [None, None], "lives": 8, "failed_lives": 8}
    found = {
        "changes": {
            "own": {"label": "as before", "loss": row, "zero_shot_policy": {**row, "mean": 7.0}},
            "deep": {"label": "deep policy", "loss": {**row, "mean": -3.25}},
            "longer": {"label": "long lives", "loss": lost},
        },
        "about": {"seed": 4, "updates": loss.experiment.inner.updates, "phase": "reporting"},
    }
    equal = read("reporting", "random_hopper.json")
    card = shipped_card("hopper", loss, run, CardTests(equal, robustness=found))
    for text in (
        "epg-tf robustness --loss=hopper --lives=8 --seed=4 --reporting --output_dir=OUT\n",
        "| | final return | interval | fixed network policy | failed lives |\n",
        "| as before | 1.50 | 1.00 to 2.00 | 7.00 | 0 |\n",
        "| deep policy | -3.25 | 1.00 to 2.00 |  | 0 |\n| long lives | all failed |  |  | 8 |\n",
        "settings of the inner loop; tasks outside the range `training`.",
    ):
        assert text in card, text
    found["changes"] = {"own": found["changes"]["own"], "shifted": found["changes"]["own"]}
    card = shipped_card("hopper", loss, run, CardTests(equal, robustness=found))
    assert "inner loop; other policy networks; longer lives than those above." in card


def test_a_card_has_a_method_whose_agents_all_failed():
    loss, run = epg_tf.load_loss("random_hopper"), read("random_hopper", "summary.json")
    test = read("reporting", "random_hopper.json")
    test["sac"] |= {"final_return_mean": None, "ci95": [None, None], "failed_lives": 128}
    test["sac"] |= {"auc_mean": None, "auc_ci95": [None, None]}
    card = shipped_card("hopper", loss, run, CardTests(test))
    assert "\n| SAC (TF-Agents) | all failed |  |  |  | never | 128 |" in card


def test_facts_of_others_do_not_change_the_table(make_tiny):
    experiment = make_tiny()
    facts = {"note": "a | b\n<script>"}
    card = exported_card(LearnedLoss(initial_phi(experiment, 0), experiment, facts))
    assert "a \\| b" in card and "<script>" not in card


@pytest.mark.parametrize(
    ("changes", "seen"),
    [
        ({}, "and never sees a reward"),
        ({"channels": ("novelty", "time_in_life")}, "and never sees a reward"),
        ({"channels": ("future_reward",)}, "with the reward among its inputs"),
    ],
)
def test_a_card_says_whether_a_loss_sees_the_reward(make_tiny, changes, seen):
    experiment = make_tiny(loss=changes)
    assert seen in exported_card(LearnedLoss(initial_phi(experiment, 0), experiment, {}))


def test_a_card_states_the_limit_of_updates(make_tiny):
    for limit, stated in ((0.0, False), (0.02, True)):
        experiment = make_tiny(inner={"kl_limit": limit})
        card = exported_card(LearnedLoss(initial_phi(experiment, 0), experiment, {}))
        assert ("multiplied by sqrt(0.02 / KL)." in card) == stated
