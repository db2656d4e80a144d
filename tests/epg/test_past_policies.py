"""Tests epg_tf.epg.past_policies, and lives and evolutions that start from past policies."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools

import numpy as np
import pytest

from epg_tf.core.errors import ConfigError
from epg_tf.core.types import LifeKey, SavedAgent
from epg_tf.epg.inner_loop import InnerLoop, InnerLoopSettings
from epg_tf.epg.meta_parameters import initial_phi
from epg_tf.epg.outer_loop import evolve, with_final_agents
from epg_tf.epg.past_policies import (
    PastPolicies,
    Starts,
    agent_sizes,
    no_past_policies,
    starts_of,
)
from epg_tf.epg.shards import Shards
from epg_tf.epg.state import broadcast_state, initial_state
from epg_tf.runs.evolution import EvolutionSystem
from epg_tf.runs.folder import RunTarget
from epg_tf.runs.session import run_in_folder
from epg_tf.tasks.registry import make_family
from tests.epg.test_outer_loop import results_of
from tests.thread_ranks import on_ranks

PAST = {"policies": 5, "share": 0.6, "per_epoch": 3}
KEYS = [LifeKey(1, "test", 0, index) for index in range(4)]
PPO_I = {"moves": "initialisation", "guidance": 1.0, "final_guidance": 1.0}
LEARNED = {"guidance": 0.0}
STEPS = 3 * 8  # env steps in a life of the tiny experiment


def bits(state):
    """Returns a state as comparable values."""
    names = [field.name for field in dataclasses.fields(state) if field.name != "past"]
    values = [getattr(state, name) for name in names]
    values += [] if state.past is None else state.past.arrays().values()
    return [np.asarray(value).tobytes() for value in values]


def agent(number, sizes=(3, 2)):
    """Returns a `SavedAgent` that can be told from others."""
    return SavedAgent(np.full(sizes[0], number, np.float32), np.full(sizes[1], number, np.float64))


@pytest.fixture(scope="module")
def with_past(make_tiny):
    return make_tiny(past=PAST, evolution=LEARNED)


@pytest.fixture(scope="module")
def crews(with_past):
    """Shards for two ranks; compiled once."""
    with Shards(with_past) as one, Shards(with_past) as two:
        yield one, two


@pytest.fixture(scope="module")
def alone(with_past, crews):
    """Three epochs in one process."""
    return list(evolve(with_past, 5, shards=crews[0]))


@pytest.fixture(scope="module")
def loop(tiny):
    return InnerLoop(tiny, make_family(tiny.task))


@pytest.fixture(scope="module")
def phi(tiny):
    return np.stack([initial_phi(tiny, seed) for seed in range(4)])


def live(loop, phi, rate, starts=None):
    return loop.run(KEYS, phi, InnerLoopSettings(0.0, rate, starts=starts))


def test_a_life_goes_on_where_another_ended(loop, phi, tiny):
    """Policy, memory and normalisation; agents that do not learn keep them to the bit."""
    first = live(loop, phi, 1e-2, Starts([None] * 4, [1, 2]))
    assert [saved is None for saved in first.final_agent] == [True, False, False, True]
    one, two = first.final_agent[[1, 2]]
    assert (one.weights.size, one.moments.size) == agent_sizes(tiny)
    assert one.moments[0] == STEPS and (one.weights != two.weights).any()
    on = live(loop, phi, 0.0, Starts([one, None, two, None], [0, 1, 2]))
    assert on.policy_hash[[0, 2]].tolist() == first.policy_hash[[1, 2]].tolist()
    assert [saved.moments[0] for saved in on.final_agent[:3]] == [2 * STEPS, STEPS, 2 * STEPS]
    assert on.final_agent[0].weights.tobytes() == one.weights.tobytes()
    # The moments of both halves together, from their steps, means and squares.
    size = (one.moments.size - 1) // 2
    alone = live(loop, phi, 0.0, Starts([SavedAgent(one.weights, 0 * one.moments)] * 4, [0]))
    means = [a.moments[1 : 1 + size] for a in (one, alone.final_agent[0], on.final_agent[0])]
    assert np.abs(means[2] - (means[0] + means[1]) / 2).max() < 0.5  # the acting differs a little


def test_a_life_does_not_notice_where_its_neighbours_start(loop, phi):
    fresh = live(loop, phi, 1e-2, Starts([None] * 4, range(4)))
    earlier = fresh.final_agent[3]
    mixed = live(loop, phi, 1e-2, Starts([None, earlier, None, earlier], range(4)))
    same = fresh.policy_hash == mixed.policy_hash
    assert same.tolist() == [True, False, True, False]
    assert fresh.final_agent[2].moments.tobytes() == mixed.final_agent[2].moments.tobytes()


def test_nothing_changes_where_no_life_starts_from_them(make_tiny, alone, crews):
    """To the bit; with a share above 0 the first epoch alone is the same."""
    settings = {}, {**PAST, "share": 0.0}
    off, kept = (
        list(evolve(make_tiny(past=past, evolution=LEARNED), 5, shards=crews[0]))
        for past in settings
    )
    for one, other in zip(off, kept, strict=True):
        bare = dataclasses.replace(other.state, past=None)
        assert one.state.past is None and bits(one.state) == bits(bare)
    fitness = [[result.metrics["fitness_mean"] for result in each] for each in (off, alone)]
    assert [one == other for one, other in zip(*fitness, strict=True)] == [True, False, False]


def test_ranks_have_the_pool_of_one_process(with_past, alone, crews):
    def work(rank):
        shards = crews[rank.rank]
        return [result.state for result in evolve(with_past, 5, None, shards, None, rank)]

    for states in on_ranks(2, work):
        assert [bits(state) for state in states] == [bits(result.state) for result in alone]


@pytest.mark.slow
def test_processes_have_the_pool_of_threads(make_tiny, alone):
    compute = {"shard_lives": 4, "threads": 2, "parallel": "processes"}
    apart = make_tiny(past=PAST, compute=compute, evolution=LEARNED)
    with Shards(apart) as shards:
        states = [result.state for result in evolve(apart, 5, shards=shards)]
    assert [bits(state) for state in states] == [bits(result.state) for result in alone]


def test_a_resumed_run_has_the_same_pool(with_past, alone, crews, tmp_path):
    def run(resume):
        system = EvolutionSystem(with_past, 5, crews[0])
        return contextlib.closing(run_in_folder(system, RunTarget(tmp_path / "run", resume)))

    with run(False) as first:
        for _ in itertools.islice(first, 2):
            pass
    with run(True) as second:
        (last,) = second
    assert bits(last.state) == bits(alone[-1].state)


def test_a_state_is_sent_with_its_pool(with_past, alone):
    """Also to a rank that has only started."""
    states = on_ranks(
        2,
        lambda rank: broadcast_state(
            alone[1].state if rank.rank == 0 else initial_state(with_past, 5), rank
        ),
    )
    assert [bits(state) for state in states] == [bits(alone[1].state)] * 2


def test_the_newest_agents_replace_the_oldest(alone):
    empty = PastPolicies(0, np.zeros((4, 3), np.float32), np.zeros((4, 2)))
    past = empty.with_agents([agent(n) for n in (1, 2, 3)])
    assert (len(empty), len(past)) == (0, 3)
    past = past.with_agents([agent(n) for n in (4, 5, 6)])
    assert past.weights[:, 0].tolist() == past.moments[:, 1].tolist() == [5, 6, 3, 4]
    assert (past.entered, len(past), empty.weights.any()) == (6, 4, False)
    assert [result.state.past.entered for result in alone] == [3, 6, 9]


def test_a_failed_life_leaves_no_policy():
    lives = results_of([1.0, np.nan, 2.0, 3.0])
    lives.final_agent[[0, 1, 3]] = [None] * 3
    for life in (0, 1, 3):
        lives.final_agent[life] = agent(life)
    past = with_final_agents(PastPolicies(0, np.zeros((4, 3)), np.zeros((4, 2))), lives)
    assert past.entered == 2 and past.weights[:2, 0].tolist() == [0, 3]


def test_starts_are_drawn_by_the_key_alone(make_tiny):
    experiment = make_tiny(past={**PAST, "policies": 8})
    empty = no_past_policies(experiment)
    sizes = agent_sizes(experiment)
    past = empty.with_agents([agent(n + 1, sizes) for n in range(5)])
    keys = [LifeKey(0, "evolution", 1, index) for index in range(1000)]
    starts = starts_of(experiment, past, keys, keep=False)
    drawn = [0 if start is None else int(start.weights[0]) for start in starts.agents]
    counts = np.bincount(drawn, minlength=6)
    assert len(counts) == 6 and abs(counts[0] - 400) < 60 and (abs(counts[1:] - 120) < 40).all()
    back = starts_of(experiment, past, keys[::-1] + keys[:3], keep=True)
    again = [0 if start is None else int(start.weights[0]) for start in back.agents]
    assert again == drawn[::-1] + drawn[:3]
    assert (list(starts.kept), back.kept) == ([], [0, 2, 5])  # of 8 lives
    assert not any(starts_of(experiment, empty, keys, keep=False).agents)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"past": {"policies": 2}}, "config.past.per_epoch=4 is above config.past.policies=2"),
        ({"past": {"policies": 20, "per_epoch": 9}}, "config.evolution.lives=8"),
        (
            {"past": {"policies": 8}, "evolution": PPO_I},
            "set it to 0, or moves to 'loss'",
        ),
        ({"past": {"policies": 8, "share": 1.5}}, "config.past.share=1.5"),
    ],
)
def test_settings_that_do_not_fit_are_refused(make_tiny, changes, message):
    with pytest.raises(ConfigError) as caught:
        make_tiny(**changes)
    assert message in str(caught.value) and "\n" not in str(caught.value)
