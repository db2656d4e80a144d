"""Tests epg_tf.evaluation.tuning: random search with successive halving."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from epg_tf.core.errors import ConfigError
from epg_tf.evaluation.tuning import (
    SPACES,
    Search,
    Trial,
    at_edge,
    drawn,
    final_returns,
    most_budget,
    rungs,
    tried,
    winner,
    with_settings,
)


@pytest.mark.parametrize(
    ("budget", "plan"),
    [(2, [(2, 8)]), (3, [(3, 8)]), (9, [(9, 8), (3, 24)]), (12, [(12, 8), (4, 24), (2, 72)])],
)
def test_a_third_is_kept_and_meets_three_times_the_tasks(budget, plan):
    assert rungs(budget, 8) == plan


@pytest.mark.parametrize("baseline", SPACES)
def test_every_setting_of_a_space_is_one_of_the_rival(baseline, tiny):
    """Bounds of settings hold at both ends of what is tried."""
    group, space = SPACES[baseline]
    for place in (0, -1):
        ends = {name: values[place] for name, values in space.items()}
        found = with_settings(tiny, baseline, ends)
        found.check()
        assert {name: getattr(getattr(found, group), name) for name in space} == ends
    assert all(list(values) == sorted(set(values)) for values in space.values())


def test_settings_are_a_function_of_seed_and_number():
    space = SPACES["ppo"][1]
    found = [drawn(space, 3, number) for number in range(40)]
    assert found == [drawn(space, 3, number) for number in range(40)]
    assert found[1] != found[2] and found[1] != drawn(space, 4, 1)
    assert all(each["minibatch"] <= each["update_period"] for each in found)
    assert {each["epochs"] for each in found} == set(space["epochs"])


@pytest.mark.parametrize("baseline", SPACES)
def test_no_settings_are_tried_twice(baseline):
    """Draws of number 1 are the config's own here; the largest budget ends, too."""
    space = SPACES[baseline][1]
    own, budget = drawn(space, 0, 1), min(most_budget(space), 60)
    found = tried(space, own, 0, budget)
    assert list(found)[:2] == [0, 2] and found[0] == own
    assert len(found) == budget == len({tuple(each.values()) for each in found.values()})
    assert all(found[number] == drawn(space, 0, number) for number in list(found)[1:])


def test_half_of_all_settings_may_be_tried():
    assert most_budget({"a": (1, 2, 3), "b": (1, 2, 3)}) == 4
    assert most_budget(SPACES["ppo_as_epg"][1]) == 15


def test_the_best_of_the_last_rung_wins(tiny):
    """Agents' return is the discount, and an agent in three fails; the config's own is first."""
    met = []

    def measure(experiment, request, baseline):
        met.append((request.agents, request.phase, request.seed, baseline))
        values = np.full(request.agents, experiment.td3.discount)
        values[::3] = np.nan
        return values

    own = dataclasses.replace(tiny, td3=dataclasses.replace(tiny.td3, discount=0.2))
    search = Search("td3", own, seed=5, budget=7, agents=4)
    trials = list(search.run(measure))
    assert [(trial.rung, trial.agents) for trial in trials] == [(0, 4)] * 7 + [(1, 12)] * 3
    assert met[0] == (4, "tuning", 5, "td3") and trials[0].settings["discount"] == 0.2
    first = sorted((trial.settings["discount"] for trial in trials[:7]), reverse=True)
    assert [trial.settings["discount"] for trial in trials[7:]] == first[:3]
    assert winner(trials) == trials[7] and trials[7].mean == pytest.approx(first[0])
    assert trials[7].failed == 4


def test_a_setting_whose_agents_all_fail_loses(tiny):
    def measure(experiment, request, baseline):
        own = experiment.surrogate == tiny.surrogate
        return np.full(request.agents, -1e9 if own else np.nan)

    trials = list(Search("ppo_as_epg", tiny, 0, 3, 2).run(measure))
    assert winner(trials).number == 0 and np.isnan(trials[1].mean)


def test_winners_at_an_end_of_what_was_tried_are_named():
    space = {"a": (1, 2, 3), "b": (1, 2, 3), "c": (1, 2, 3), "d": (1, 2)}
    settings = {"a": 1, "b": 2, "c": 3, "d": 2}
    assert at_edge(space, settings) == {"a": "lowest", "c": "highest", "d": "highest"}
    beyond = {name: 1e9 if name == "c" else -1.0 for name in settings}  # a config's own
    assert at_edge(space, beyond)["c"] == "highest" and at_edge(space, beyond)["a"] == "lowest"


def test_lives_without_env_steps_are_refused(tiny):
    inner = dataclasses.replace(tiny.inner, updates=0)
    with pytest.raises(ConfigError, match="^config.inner.updates=0 leaves a baseline no env steps"):
        Search("ppo", dataclasses.replace(tiny, inner=inner), 0, 2, 3)


@pytest.mark.parametrize(
    "baseline", [pytest.param("ppo_as_epg", marks=pytest.mark.slow), "reinforce"]
)
def test_settings_of_a_trial_reach_the_agents(baseline, make_tiny):
    linear = make_tiny(policy={"hidden": ()})
    request = Search(baseline, linear, 0, 2, 3)._request(3)
    name = "baseline_learning_rate" if baseline == "ppo_as_epg" else "learning_rate"
    slow, fast = (
        final_returns(with_settings(linear, baseline, {name: rate}), request, baseline)
        for rate in (1e-3, 1e-1)
    )
    assert (slow != fast).any()


def test_a_setting_whose_agents_failed_is_below_those_whose_agents_did_not():
    """Among those of the last rung, with which no others are compared."""
    early = Trial(0, 0, 8, {}, 9.0, (8.0, 10.0), 0)
    whole = Trial(0, 1, 12, {}, 1.0, (0.0, 2.0), 0)
    failing = Trial(1, 1, 12, {}, 3.0, (2.0, 4.0), 2)
    better = Trial(2, 1, 12, {}, 2.0, (1.0, 3.0), 0)
    assert winner([early, whole, failing, better]) is better
    assert winner([failing, dataclasses.replace(failing, mean=4.0)]).mean == 4.0
