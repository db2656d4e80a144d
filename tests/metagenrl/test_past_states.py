"""Tests epg_tf.metagenrl.past_states: which states are kept, who returns to them, and that runs
with them repeat and resume.
"""

from __future__ import annotations

import numpy as np
import pytest

from epg_tf.core.errors import ConfigError
from epg_tf.core.metagenrl_experiment import PastAgentsConfig, metagenrl_from_mapping
from epg_tf.metagenrl.past_states import PastStates
from epg_tf.metagenrl.population import Population, meta_learn
from epg_tf.runs import metagenrl_checkpoints
from tests.metagenrl.test_population import TINY
from tests.thread_ranks import on_ranks


def streams(agents, number):
    return {agent: np.random.default_rng([agent, number]) for agent in range(agents)}


def visited(past, agents, rounds, first=0):
    """Lets agents, whose state is the number of the round, live; returns what they became."""
    found = []
    for number in range(first, first + rounds):
        state = {"weight": np.full((agents, 3), number, np.float32), "updates": np.zeros(agents)}
        lived = np.full(agents, number - first)
        found.append(past.visit(state, lived, streams(agents, number))["weight"][:, 0])
    return np.array(found)


def empty(agents, **settings):
    arrays = {"weight": np.zeros((agents, 3), np.float32), "updates": np.zeros(agents)}
    return PastStates(PastAgentsConfig(**settings), arrays)


@pytest.mark.parametrize("states", [1, 2, 8])
def test_every_state_of_a_life_is_kept_with_the_same_probability(states):
    agents, rounds = 4000, 5
    past = empty(agents, states=states, share=0.0)
    became = visited(past, agents, rounds)
    np.testing.assert_array_equal(became, np.arange(rounds)[:, None] * np.ones(agents))
    kept = past.arrays()["past/weight"][..., 0]
    assert kept.shape == (agents, states)
    used = kept[:, : min(states, rounds)]
    shares = [np.mean(np.any(used == number, axis=1)) for number in range(rounds)]
    np.testing.assert_allclose(shares, min(states, rounds) / rounds, atol=0.04)  # 5 deviations
    for row in used[:20]:
        assert len(set(row)) == len(row)  # no state is kept twice


def test_agents_return_as_often_as_set_and_to_any_age():
    agents, rounds = 4000, 4
    past = empty(agents, states=8, share=0.4)
    became = visited(past, agents, rounds)
    last = became[-1]
    # 0.4 return, a quarter of them to the present state, which has just entered.
    np.testing.assert_allclose(np.mean(last != rounds - 1), 0.4 * 3 / 4, atol=0.04)
    shares = [np.mean(last == number) for number in range(rounds - 1)]
    np.testing.assert_allclose(shares, 0.1, atol=0.025)


def test_a_new_life_forgets_the_old_one():
    past = empty(50, states=3, share=1.0)
    visited(past, 50, 6)
    became = visited(past, 50, 4, first=100)
    assert became.min() >= 100.0


def test_agents_without_a_stream_stay_as_they_are():
    past = empty(2, states=2, share=1.0)
    only_the_first = {0: np.random.default_rng(0)}
    for number in range(5):
        state = {"weight": np.full((2, 3), number, np.float32), "updates": np.zeros(2)}
        became = past.visit(state, np.full(2, number), only_the_first)
        assert became["weight"][1, 0] == number
    assert not past.arrays()["past/weight"][1].any()


def test_states_come_back_from_arrays():
    agents = 20
    past, again = (empty(agents, states=2, share=0.7) for _ in range(2))
    visited(past, agents, 3)
    again.load({**past.arrays(), "policy": np.zeros(1)})
    state = {"weight": np.full((agents, 3), 3, np.float32), "updates": np.zeros(agents)}
    became = [p.visit(state, np.full(agents, 3), streams(agents, 3)) for p in (past, again)]
    np.testing.assert_array_equal(became[0]["weight"], became[1]["weight"])
    assert len(set(became[0]["weight"][:, 0])) > 1
    assert empty(agents).arrays() == {}


def tiny(**past):
    return metagenrl_from_mapping({**TINY, "life_rounds": 0, "past": past})


def test_bad_shares_are_refused_by_name():
    with pytest.raises(ConfigError, match=r"config\.past\.share"):
        tiny(states=2, share=1.5)


@pytest.mark.slow
def test_states_that_nobody_returns_to_change_no_bit():
    without, unused, used = (
        [result.state.parameters.tobytes() for result in meta_learn(tiny(**past), 0)]
        for past in ({}, {"states": 2, "share": 0.0}, {"states": 2, "share": 1.0})
    )
    assert without == unused
    assert without != used
    assert without[0] == used[0]  # there is no earlier state yet


@pytest.mark.slow
def test_numbers_do_not_depend_on_ranks_or_stops(tmp_path):
    experiment = tiny(states=2, share=0.8)
    alone = [result.state.parameters.tobytes() for result in meta_learn(experiment, 0)]
    ended = on_ranks(
        2, lambda rank: list(meta_learn(experiment, 0, Population(experiment, 0, rank)))
    )
    for rank in ended:
        assert [result.state.parameters.tobytes() for result in rank] == alone
    population = Population(experiment, 0)
    for result in meta_learn(experiment, 0, population):
        metagenrl_checkpoints.save_shards(tmp_path, population)
        metagenrl_checkpoints.save_state(tmp_path, result.state)
        if result.state.round == 2:
            break
    state, notes = metagenrl_checkpoints.restore(tmp_path, fresh := Population(experiment, 0), 0)
    assert notes == []
    resumed = meta_learn(experiment, 0, fresh, state)
    assert [result.state.parameters.tobytes() for result in resumed] == alone[2:]
