"""Tests epg_tf.metagenrl.past_states: which states are kept, who returns to them and comes back,
and that runs with them repeat and resume.
"""

from __future__ import annotations

import numpy as np
import pytest

from epg_tf.core.errors import ConfigError, VersionError
from epg_tf.metagenrl.memory_needs import memory_needs
from epg_tf.metagenrl.past_states import PastStates
from epg_tf.metagenrl.population import Population, meta_learn
from epg_tf.metagenrl.settings import MetaGenRLExperiment, PastAgentsConfig
from epg_tf.runs import metagenrl_checkpoints
from epg_tf.tasks.registry import named_environment
from tests.metagenrl.test_population import TINY
from tests.thread_ranks import on_ranks


def streams(agents, number):
    return {agent: np.random.default_rng([agent, number]) for agent in range(agents)}


def state_of(numbers):
    """Returns states of which each part says how many rounds the agent has learned."""
    numbers = np.asarray(numbers, float)
    weights = np.repeat(numbers[:, None], 3, axis=1).astype(np.float32)
    return {"weight": weights, "critic": weights[:, None] + 0.5, "updates": numbers}


def numbers_of(state):
    """Returns these numbers, and checks that the parts of a state belong together."""
    np.testing.assert_array_equal(state["weight"], state_of(state["updates"])["weight"])
    np.testing.assert_array_equal(state["critic"], state_of(state["updates"])["critic"])
    return state["updates"]


def empty(agents, **settings):
    return PastStates(PastAgentsConfig(**settings), state_of(np.zeros(agents)))


def learned(past, agents, rounds, first=0):
    """Lets agents learn for some rounds; returns with what each round began, [rounds, agents]."""
    state, began = state_of(np.full(agents, first)), []
    for number in range(rounds):
        lived = np.full(agents, number)
        began.append(numbers_of(past.visit(state, lived, streams(agents, first + number))).copy())
        state = state_of(began[-1] + 1)
    return np.array(began)


@pytest.mark.parametrize("states", [1, 2, 8])
def test_every_state_of_a_life_is_kept_with_the_same_probability(states):
    agents, rounds = 4000, 5
    past = empty(agents, states=states, share=0.0)
    began = learned(past, agents, rounds)
    np.testing.assert_array_equal(began, np.arange(rounds)[:, None] * np.ones(agents))
    kept = past.arrays()["past/updates"]
    assert kept.shape == (agents, states)
    used = kept[:, : min(states, rounds)]
    shares = [np.mean(np.any(used == number, axis=1)) for number in range(rounds)]
    np.testing.assert_allclose(shares, min(states, rounds) / rounds, atol=0.04)  # 5 deviations
    for row in used[:20]:
        assert len(set(row)) == len(row)  # no state is kept twice


def test_agents_come_back_and_learn_in_all_other_rounds():
    """Rounds that are spent in the past do not count, and all others do."""
    agents, rounds = 2000, 20
    past = empty(agents, states=8, share=0.25)
    began = learned(past, agents, rounds)
    present = past.arrays()["past_present/updates"]
    away = past.arrays()["past_away"]
    np.testing.assert_array_equal(began[0], 0.0)
    np.testing.assert_allclose(present.mean(), 1 + 0.75 * (rounds - 2), atol=0.2)
    np.testing.assert_allclose(away.mean(), 0.25, atol=0.04)
    np.testing.assert_array_equal(began[-1][~away], present[~away])
    assert (began[-1][away] <= present[away]).all()
    assert began[-1][away].mean() < 0.7 * present[away].mean()


def test_they_become_what_they_were_at_any_age():
    """All kept ones, where nobody but the first round's agents has learned."""
    agents, rounds = 4000, 4
    past = empty(agents, states=8, share=0.0)
    learned(past, agents, rounds)
    past._share = 0.4
    last = numbers_of(
        past.visit(state_of(np.full(agents, 4.0)), np.full(agents, 4), streams(agents, 4))
    )
    shares = [np.mean(last == number) for number in range(5)]
    np.testing.assert_allclose(shares, [0.1, 0.1, 0.1, 0.1, 0.6], atol=0.03)


def test_a_new_life_forgets_the_old_one():
    past = empty(50, states=3, share=1.0)
    learned(past, 50, 6)
    began = learned(past, 50, 4, first=100)
    np.testing.assert_array_equal(began[0], 100.0)
    assert began.min() >= 100.0


def test_agents_without_a_stream_stay_as_they_are():
    past = empty(2, states=2, share=1.0)
    for number in range(5):
        state = state_of(np.full(2, number))
        became = past.visit(state, np.full(2, number), {0: np.random.default_rng(0)})
        assert numbers_of(became)[1] == number
    assert not past.arrays()["past/weight"][1].any()


def test_states_come_back_from_arrays():
    agents = 20
    past, again = (empty(agents, states=2, share=0.7) for _ in range(2))
    learned(past, agents, 3)
    again.load({**past.arrays(), "policy": np.zeros(1)})
    state, lived = state_of(np.full(agents, 9.0)), np.full(agents, 3)
    became = [numbers_of(p.visit(state, lived, streams(agents, 3))) for p in (past, again)]
    np.testing.assert_array_equal(*became)
    assert len(set(became[0])) > 2
    for name, values in past.arrays().items():
        np.testing.assert_array_equal(again.arrays()[name], values)
    assert empty(agents).arrays() == {}


def test_arrays_of_other_settings_are_refused():
    arrays = empty(3, states=2).arrays()
    with pytest.raises(VersionError, match="past/weight is missing or of another shape"):
        empty(3, states=4).load(arrays)
    del arrays["past_away"]
    holding = empty(3, states=2)
    with pytest.raises(VersionError, match="past_away"):
        holding.load({name: values + 1 for name, values in arrays.items()})
    for name, values in arrays.items():  # nothing was taken
        np.testing.assert_array_equal(holding.arrays()[name], values)
    empty(3).load({})


def tiny(**past):
    return MetaGenRLExperiment.from_mapping({**TINY, "life_rounds": 3, "past": past})


def test_a_share_without_states_is_refused():
    with pytest.raises(
        ConfigError, match=r"config\.past\.share=0\.5 .* set config\.past\.states too"
    ):
        tiny(states=0, share=0.5)
    assert tiny(states=0, share=0.25).past.states == 0  # the default says nothing


def test_no_more_states_are_kept_than_a_life_has_rounds():
    """Whatever the rounds of the run, which a resumed run may have more of."""
    assert tiny(states=100).past_agents.states == 3
    assert tiny(states=2).past_agents.states == 2
    assert tiny().past_agents.states == 0
    for steps in (12, 48):
        endless = {**TINY, "steps_per_agent": steps, "life_rounds": 0, "past": {"states": 100}}
        assert MetaGenRLExperiment.from_mapping(endless).past_agents.states == 100


def test_memory_grows_with_the_states():
    """Twice what is kept, because a checkpoint copies it; estimates leave out layer norms."""
    specs = {name: named_environment(name).spec for name in TINY["environments"]}
    needs = [
        {need.purpose: need.size for need in memory_needs(tiny(states=states), specs, 1)}
        for states in (0, 2)
    ]
    population = Population(tiny(states=2), 0)
    kept = sum(
        values.nbytes
        for shard in population.shards.values()
        for name, values in shard.arrays().items()
        if name.startswith("past/") and name != "past/updates"
    )
    found = needs[1].pop("earlier states of agents")
    assert needs[0].pop("earlier states of agents") == 0.0
    assert needs[0] == needs[1]
    assert 0.75 < found / (2 * kept) <= 1.0


def test_only_sound_agents_visit_their_past():
    """Lives of three rounds; agents 0 and 1 of a shard begin a new one after rounds 3 and 2."""
    shard = Population(tiny(states=2, share=1.0), 0).shards[0]
    began = []
    for number in range(4):
        shard.failed[1] |= number == 3
        shard.begin_round()
        began.append(shard.learner.arrays()["policy/weights/0"])
        arrays = shard.learner.arrays()
        arrays["policy/weights/0"] += 1.0  # what a round teaches
        shard.learner.load(arrays)
        shard.round += 1
    first = began[0]
    np.testing.assert_array_equal(began[1], first)  # in the past, of which there is one state
    of_two = [first[0], first[0] + 1.0]
    assert any(np.array_equal(began[2][0], state) for state in of_two)
    assert not np.isclose(began[2][1], first[1]).any()  # agent 1 has begun a new life
    np.testing.assert_array_equal(began[3][1], began[2][1] + 1.0)  # and fails in it
    assert not np.isclose(began[3][0], first[0]).any()


def test_states_that_nobody_returns_to_change_no_bit():
    without, unused, used = (
        [result.state.parameters.tobytes() for result in meta_learn(tiny(**past), 0)]
        for past in ({}, {"states": 2, "share": 0.0}, {"states": 2, "share": 1.0})
    )
    assert without == unused
    assert without != used
    assert without[0] == used[0]  # there is no earlier state yet


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
