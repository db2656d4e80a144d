"""Tests MetaGenRL's outer loop: who lives where, exact sums, independence of layout, and exact
resumption.
"""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import tensorflow as tf

from epg_tf.core.errors import Interrupted
from epg_tf.metagenrl.agents import Lifetimes
from epg_tf.metagenrl.population import Population, meta_learn
from epg_tf.metagenrl.settings import MetaConfig, MetaGenRLExperiment
from epg_tf.metagenrl.shard_plans import lifetimes, plan_shards
from epg_tf.metagenrl.state import initial_state, objective_step
from epg_tf.metagenrl.warm_up import warm_up
from epg_tf.runs import metagenrl_checkpoints
from epg_tf.runs.identity import RunIdentity
from epg_tf.runs.metagenrl import METAGENRL
from epg_tf.runs.metrics import MetricsFile
from tests import reference
from tests.thread_ranks import on_ranks

TINY = {
    "environments": ("gymnasium:Pendulum-v1@6", "point_goal@5"),
    "agents": 4,
    "steps_per_agent": 48,
    "round_steps": 12,
    "shard_agents": 2,
    "threads": 2,
    "life_rounds": 2,
    "objective": {"lstm_units": 3, "action_layers": 1, "action_filters": 2},
    "agent": {
        "hidden": (4,),
        "batch": 2,
        "chunk": 3,
        "random_steps": 12,
        "updates_after": 4,
        "replay_steps": 24,
    },
    "meta": {"warm_up_steps": 20, "virtual_learning_rate": 0.1},
}


@pytest.fixture(scope="module")
def tiny():
    return MetaGenRLExperiment.from_mapping(TINY)


@pytest.fixture(scope="module")
def identity(tiny):
    return RunIdentity(METAGENRL, tiny.to_mapping(), 0)


@pytest.fixture(scope="module")
def results(tiny):
    """All rounds of a run that nothing disturbed."""
    return list(meta_learn(tiny, 0))


def test_the_objective_moves_and_all_is_finite(tiny, results):
    assert [result.state.round for result in results] == [1, 2, 3, 4]
    assert (
        results[-1].state.updates == 6 * 4 - 1
    )  # of every two env steps, but the first two of updates_after
    before = initial_state(tiny, 0).parameters
    assert np.abs(results[-1].state.parameters - before).max() > 1e-3
    assert np.isfinite(results[-1].state.parameters).all()
    assert results[-1].metrics["failed_agents"] == 0
    assert results[-1].metrics["env_steps"] == 48 * 4
    for environment in tiny.environments:
        assert results[-1].metrics[f"training_return/{environment}"] < 0


def test_numbers_do_not_depend_on_ranks(tiny, results):
    """Of three ranks one has no agents at all."""
    for rank in on_ranks(3, lambda rank: list(meta_learn(tiny, 0, Population(tiny, 0, rank)))):
        for mine, alone in zip(rank, results, strict=True):
            assert mine.state.parameters.tobytes() == alone.state.parameters.tobytes()
            for name in mine.metrics.keys() - {"seconds"}:
                np.testing.assert_array_equal(mine.metrics[name], alone.metrics[name], name)


def test_resumes_to_the_same_bits(tiny, identity, results, tmp_path):
    """Agents, their ages and their replays come back from disk; the replay has wrapped by then."""
    stop = 3
    population = Population(tiny, 0)
    for result in meta_learn(tiny, 0, population):
        metagenrl_checkpoints.save_shards(tmp_path, population, identity)
        metagenrl_checkpoints.save_state(tmp_path, result.state, identity)
        if result.state.round == stop:
            break
    fresh = Population(tiny, 0)
    state, notes = metagenrl_checkpoints.restore(tmp_path, fresh, identity)
    assert (state.round, notes) == (stop, [])
    for result, alone in zip(meta_learn(tiny, 0, fresh, state), results[stop:], strict=True):
        assert result.state.parameters.tobytes() == alone.state.parameters.tobytes()
        assert result.metrics["objective_gradient"] == alone.metrics["objective_gradient"]


def test_a_kill_in_the_first_round_leaves_a_run_that_goes_on(tiny, identity, results, tmp_path):
    """Its row is written before its checkpoint; the run then starts over, with the same bits."""
    metagenrl_checkpoints.restore(tmp_path, Population(tiny, 0), identity)
    MetricsFile(tmp_path / "metrics.csv").append(results[0].metrics)
    state, notes = metagenrl_checkpoints.restore(tmp_path, fresh := Population(tiny, 0), identity)
    assert (state.round, notes) == (0, [])
    assert (
        next(meta_learn(tiny, 0, fresh, state)).state.parameters.tobytes()
        == results[0].state.parameters.tobytes()
    )


def test_a_damaged_shard_sends_all_back_to_an_older_round(tiny, identity, results, tmp_path):
    population = Population(tiny, 0)
    for result in meta_learn(tiny, 0, population):
        metagenrl_checkpoints.save_shards(tmp_path, population, identity)
        metagenrl_checkpoints.save_state(tmp_path, result.state, identity)
    (tmp_path / "agents" / "shard_001" / "weights" / "epoch_00000004.npz").write_bytes(b"torn")
    state, notes = metagenrl_checkpoints.restore(tmp_path, fresh := Population(tiny, 0), identity)
    assert state.round == 3
    assert "shard_001" in notes[0]
    assert (
        next(meta_learn(tiny, 0, fresh, state)).state.parameters.tobytes()
        == results[-1].state.parameters.tobytes()
    )


def test_stops_within_a_round_when_asked(tiny):
    population = Population(tiny, 0)
    population.stopped.set()
    with pytest.raises(Interrupted):
        population.run_round(initial_state(tiny, 0))


def test_agents_are_dealt_out_evenly(tiny):
    plans = plan_shards(dataclasses.replace(tiny, agents=10, shard_agents=3))
    assert [(plan.environment, plan.first, plan.last) for plan in plans] == [
        ("gymnasium:Pendulum-v1@6", 0, 3),
        ("gymnasium:Pendulum-v1@6", 3, 5),
        ("point_goal@5", 5, 8),
        ("point_goal@5", 8, 10),
    ]


def test_lives_end_at_rounds_spread_over_time(tiny):
    lives = Lifetimes(4, np.array([0, 1, 3]))
    assert [lives.first_rounds(number).tolist() for number in range(8)] == [
        [0, 0, 0],
        [0, 0, 1],
        [0, 0, 1],
        [0, 3, 1],
        [4, 3, 1],
        [4, 3, 5],
        [4, 3, 5],
        [4, 7, 5],
    ]
    assert not Lifetimes(0, np.array([0, 1])).first_rounds(99).any()
    eight = dataclasses.replace(tiny, agents=16, life_rounds=4)
    assert [
        lifetimes(eight, plan).shortened.tolist()
        for plan in plan_shards(dataclasses.replace(eight, shard_agents=8))
    ] == [[0, 0, 1, 1, 2, 2, 3, 3]] * 2


def test_steps_of_the_objective_are_adams_and_need_no_device(tiny, monkeypatch):
    """In NumPy: ranks with and without a GPU agree to the bit."""
    state, generator = initial_state(tiny, 0), np.random.default_rng(0)
    adam, moved = reference.Adam(1e-2), np.float64(state.parameters)
    monkeypatch.setattr(tf, "constant", None)
    monkeypatch.setattr(tf, "convert_to_tensor", None)
    for _ in range(20):
        gradient = generator.standard_normal(state.parameters.size).astype(np.float32)
        state, moved = objective_step(state, gradient, 1e-2), moved + adam.change(gradient)
        parts = (state.parameters, state.first_moment, state.second_moment)
        assert all(type(part) is np.ndarray and part.dtype == np.float32 for part in parts)
    np.testing.assert_allclose(state.parameters, moved, rtol=1e-5, atol=1e-6)
    assert state.updates == 20


def test_warm_up():
    ddpg, rate = (
        MetaConfig(warm_up_steps=100),
        MetaConfig(warm_up="learning_rate", warm_up_steps=100),
    )
    assert [warm_up(ddpg, 1e-3, taken) for taken in (0, 25, 100, 1000)] == [
        (0.0, 1e-3),
        (0.25, 1e-3),
        (1.0, 1e-3),
        (1.0, 1e-3),
    ]
    rates = [warm_up(rate, 1e-3, taken)[1] for taken in range(0, 101, 10)]
    assert rates[0] == 0.0 and rates[-1] == 1e-3
    growth = np.diff(rates)[1:] / np.diff(rates)[:-1]
    np.testing.assert_allclose(growth, growth[0])  # exponential
    assert {warm_up(rate, 1e-3, taken)[0] for taken in range(100)} == {1.0}
    assert warm_up(None, 1e-3, 0) == (1.0, 1e-3)
