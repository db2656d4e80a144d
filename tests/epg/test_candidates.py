"""Tests the candidates for the settings of an unknown family."""

import dataclasses

import numpy as np
import pytest

from epg_tf.core.errors import ConfigError
from epg_tf.epg import candidates, presets
from epg_tf.epg.settings import Experiment
from epg_tf.epg.state import initial_state
from epg_tf.losses.extra_channels import sees_reward
from epg_tf.tasks.registry import make_family
from epg_tf.tasks.settings import TaskConfig

POINT = TaskConfig("point_goal", 2, 50)
FAMILIES = {
    "continuous": POINT,
    "many actions": TaskConfig("gymnasium:Ant-v5", 1, 1000),
    "discrete": TaskConfig("gymnasium:CartPole-v1", 1, 500),
}


def of(task, named=(), **groups):
    given = dataclasses.replace(Experiment(task=task), **groups)
    fixed = candidates.fixed_settings(given, named)
    return candidates.candidates(given, fixed, make_family(task).spec)


@pytest.mark.parametrize("task", FAMILIES.values(), ids=FAMILIES)
def test_every_candidate_begins_and_they_differ(task):
    found = of(task)
    expected = {"policy_gradient", "identifying", "centred", "quadratic", candidates.AROUND_POLICY}
    assert expected <= set(found)
    assert len(set(found.values())) == len(found)
    assert all(each.task == task for each in found.values())
    for each in found.values():
        assert np.isfinite(initial_state(each, 0).phi).all()


@pytest.mark.parametrize(
    ("start", "expected"),
    [
        ("centred", {"centred"}),
        ("quadratic", {"quadratic", candidates.AROUND_POLICY}),
        ("random", {"random"}),
    ],
)
def test_a_fixed_start_leaves_the_candidates_that_begin_so(start, expected):
    loss = dataclasses.replace(Experiment().loss, start=start)
    found = of(POINT, named=("loss.start",), loss=loss)
    assert set(found) == expected
    assert {each.loss.start for each in found.values()} == {start}


def test_fixed_channels_leave_no_two_candidates_alike():
    """Nor one that begins around a policy, which needs observations as they are."""
    loss = dataclasses.replace(Experiment().loss, channels=("time_in_life",))
    found = of(POINT, loss=loss)
    assert len(set(found.values())) == len(found)
    assert "return_gradient" not in found
    assert "quadratic" in found and candidates.AROUND_POLICY not in found


def test_lifetimes_are_the_same_with_another_update_period():
    usual = {each.life_steps for each in of(POINT).values()}
    inner = dataclasses.replace(Experiment().inner, update_period=128)
    assert {each.life_steps for each in of(POINT, inner=inner).values()} == usual


def test_a_loss_that_is_to_see_no_reward_sees_none():
    found = of(POINT, named=("loss.reward",))
    assert "identifying" in found
    assert not any(sees_reward(each.loss) for each in found.values())


def test_what_is_not_the_default_or_named_is_never_overruled():
    evolution = dataclasses.replace(Experiment().evolution, sigma=0.07)
    usual = Experiment().inner.updates
    found = of(POINT, named=("inner.updates",), evolution=evolution)
    assert {each.evolution.sigma for each in found.values()} == {0.07}
    assert {each.inner.updates for each in found.values()} == {usual}
    free = of(POINT)
    assert {each.inner.updates for each in free.values()} == {32}


def test_candidates_that_fixed_settings_do_not_fit_are_left_out():
    with pytest.raises(ConfigError, match="config.inner.minibatch=7 does not divide"):
        of(POINT, inner=dataclasses.replace(Experiment().inner, minibatch=7))


@pytest.mark.parametrize("change", [{"updates": 1}, {"updates": 0}])
def test_agents_that_hardly_learn_are_refused(change):
    inner = dataclasses.replace(Experiment().inner, **change)
    moves = "loss" if change["updates"] else "initialisation"
    evolution = dataclasses.replace(Experiment().evolution, moves=moves)
    with pytest.raises(ConfigError, match="whose agents have at least 2 updates"):
        of(POINT, inner=inner, evolution=evolution)


@pytest.mark.parametrize(
    ("limit", "steps"), [(25, 1024), (256, 1024), (500, 2048), (1000, 4096), (5000, 5024)]
)
def test_a_lifetime_has_some_episodes(limit, steps):
    assert candidates.lifetime(limit) == steps


def test_rates_anneal_to_the_end_of_the_time_there_is():
    evolution = candidates.in_time(presets.laptop(POINT, 32), {}, 57).evolution
    assert (evolution.epochs, evolution.learning_rate_epochs) == (57, 57)
    assert evolution.validation_period == 5
    fixed = {"evolution": {"epochs": 30, "validation_period": 7}}
    kept = candidates.with_settings(presets.laptop(POINT, 32), fixed)
    evolution = candidates.in_time(kept, fixed, 57).evolution
    assert (evolution.epochs, evolution.learning_rate_epochs) == (30, 30)
    assert evolution.validation_period == 7


def test_what_is_free_is_neither_fixed_nor_without_effect():
    spec = make_family(POINT).spec
    assert candidates.free_fields({}, spec) == {*candidates.Agents._fields, "steps"}
    fixed = {"inner": {"updates": 3}, "evolution": {"sigma": 0.1}, "policy": {"log_std": 0.0}}
    assert candidates.free_fields(fixed, spec) == {"learning_rate"}
    discrete = make_family(FAMILIES["discrete"]).spec
    assert candidates.free_fields({}, discrete) == {"learning_rate", "updates", "steps"}


def test_a_config_that_names_a_family_alone_is_recognised():
    alone = Experiment(task=POINT)
    assert candidates.names_family_alone(alone, ())
    assert not candidates.names_family_alone(alone, ["loss.reward"])
    assert not candidates.names_family_alone(presets.laptop(POINT, 32), ())
