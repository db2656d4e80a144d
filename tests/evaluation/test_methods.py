"""Tests epg_tf.evaluation.methods: words of a user -> methods of an evaluation."""

from __future__ import annotations

import pytest

from epg_tf.baselines.method import LABELS
from epg_tf.core.errors import ConfigError
from epg_tf.evaluation.methods import LOSS_METHODS, OBJECTIVE_METHODS, applicable, of_loss
from epg_tf.evaluation.trained_methods import NAMES

ALWAYS = ("epg", "untrained", "random_loss", "centred_loss", "policy_gradient_loss")


@pytest.mark.parametrize(
    ("words", "baselines"),
    [
        (["none"], []),
        (["ppo"], ["ppo", "ppo_as_epg"]),
        (["ppo_as_epg"], ["ppo_as_epg"]),
        (["reinforce", "sac", "sac"], ["sac", "reinforce"]),
        (["all"], ["ppo", "ppo_as_epg", "sac", "td3", "reinforce"]),
    ],
)
def test_words_name_rivals_in_the_order_of_tables(words, baselines):
    assert LOSS_METHODS.chosen(words) == ("epg", *baselines, *ALWAYS[1:])


def test_every_method_has_a_label():
    assert {*LOSS_METHODS.methods, *OBJECTIVE_METHODS.methods, *NAMES} <= set(LABELS)


def test_words_name_rivals_of_objectives():
    always = ("objective", "untrained_objective")
    assert OBJECTIVE_METHODS.chosen(["none"]) == always
    assert OBJECTIVE_METHODS.chosen(["ppo"]) == (*always, "ppo")
    assert OBJECTIVE_METHODS.chosen(["all"]) == tuple(OBJECTIVE_METHODS.methods)
    assert OBJECTIVE_METHODS.chosen(["ddpg"]) == (*always, "ddpg")
    assert OBJECTIVE_METHODS.chosen(["alone"]) == ("objective",) and LOSS_METHODS.chosen(
        ["alone"]
    ) == ("epg",)
    assert LOSS_METHODS.chosen(["ppo", "alone"]) == ("epg", "ppo", "ppo_as_epg")
    assert LOSS_METHODS.chosen(["alone", "none"]) == ("epg",)


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("sacc", "^compare='sacc' is no method; name some of none, ppo, all, alone, ppo_as_epg"),
        ("epg", "^compare='epg' is no method"),
        ("", "^compare='' is no method"),
        ("sac:runs/a", "^compare='sac:runs/a': sac was not trained before"),
    ],
)
def test_other_words_are_refused(word, message):
    with pytest.raises(ConfigError, match=message):
        LOSS_METHODS.chosen(["ppo", word])


def test_nobody_learns_beside_a_policy_that_does_not(make_tiny):
    fixed = make_tiny(inner={"updates": 0}, evolution={"moves": "initialisation"})
    with pytest.raises(ConfigError, match="^compare=ppo names what learns, and lives have 0"):
        of_loss(fixed, ["ppo"], 0)
    assert of_loss(fixed, ["none"], 0) == LOSS_METHODS.chosen(["none"])


def test_a_loss_that_does_not_see_the_policy_has_no_centred_one_beside_it(make_tiny):
    loss = {"without": ("policy",), "products": 1, "start": "random"}
    assert applicable(make_tiny(loss=loss), ALWAYS) == ("epg", "untrained", "random_loss")
    assert applicable(make_tiny(), ALWAYS) == ALWAYS[:-1]  # none of policy gradients: no reward


def test_all_leaves_out_what_needs_bounds_unless_it_is_named(make_tiny):
    choices = make_tiny(task={"family": "gymnasium:CartPole-v1", "frame_skip": 1})
    assert of_loss(choices, ["all"], 8) == LOSS_METHODS.chosen(["ppo", "reinforce"])
    assert "sac" in of_loss(choices, ["sac"], 8) and "td3" in of_loss(make_tiny(), ["all"], 8)
