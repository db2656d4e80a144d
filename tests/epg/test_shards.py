"""Tests epg_tf.epg.shards: lives on ranks. (Lives on threads: test_inner_loop.py.)"""

from __future__ import annotations

import numpy as np
import pytest

from epg_tf.core.communication import Disagreement
from epg_tf.core.parameters import parameter_count
from epg_tf.core.types import LifeKey, LifeOutcomes
from epg_tf.epg.inner_loop import InnerLoopSettings
from epg_tf.epg.meta_parameters import loss_shapes
from epg_tf.epg.outer_loop import evolve
from epg_tf.epg.shards import (
    Shards,
    lives_of_rank,
    lives_of_shards,
    pack,
    thread_count,
    unpack,
)
from epg_tf.epg.state import broadcast_state, initial_state
from tests.epg.test_outer_loop import ScriptedShards, start_at
from tests.thread_ranks import on_ranks

FIELDS = (
    "final_return",
    "success",
    "failed",
    "env_steps",
    "goals_reached",
    "memory_norm",
    "means_beyond",
)


def bits(outcomes) -> list[bytes]:
    return [np.asarray(getattr(outcomes, name)).tobytes() for name in FIELDS]


def test_whole_shards_go_to_ranks_in_turn():
    """10 lives, 3 to a shard: shards 0 1 2 | 3 4 5 | 6 7 8 | 9."""
    shards = lives_of_shards([0] * 10, 3)
    assert lives_of_rank(shards, 0, 1) == list(range(10))
    assert [lives_of_rank(shards, rank, 2) for rank in (0, 1)] == [[0, 1, 2, 6, 7, 8], [3, 4, 5, 9]]
    assert [lives_of_rank(shards, rank, 5) for rank in (2, 3, 4)] == [[6, 7, 8], [9], []]


def test_the_lives_of_a_shard_are_in_one_task():
    assert lives_of_shards([0, 1, 0, 1, 1, 0, 1], 2) == [[0, 2], [5], [1, 3], [4, 6]]


def test_exact_lives_of_a_coarse_experiment_are_those_of_an_exact_one(make_tiny):
    task = {"family": "random_reacher", "frame_skip": 2, "episode_limit": 6}
    coarse, exact = (make_tiny(task={**task, "physics": p}) for p in ("coarse", "exact"))
    keys = [LifeKey(1, "test", 0, index) for index in range(5)]
    inner_settings = InnerLoopSettings(0.0, 1e-2)
    with Shards(coarse) as shards, Shards(exact) as others:

        def phi(life):
            return np.full(loss_size(coarse), 0.1 + life, np.float32)

        before = shards.run(keys, phi, inner_settings)
        inside = shards.run(keys, phi, inner_settings, exact=True)
        after = shards.run(keys, phi, inner_settings)
        assert bits(inside) == bits(others.run(keys, phi, inner_settings))
        assert bits(inside) == bits(others.run(keys, phi, inner_settings, exact=True))
    assert bits(before) == bits(after) != bits(inside)


def loss_size(experiment) -> int:
    return parameter_count(loss_shapes(experiment))


def test_outcomes_survive_packing_to_the_bit():
    """Also what adding floats would lose: -0, NaN with its payload, infinities, the smallest and
    largest numbers.
    """
    strange = np.array([-0.0, np.nan, -np.inf, 5e-324, 1.7976931348623157e308, 0.1])
    strange[1:2].view(np.int64)[:] += 7
    lives = LifeOutcomes(
        strange,
        strange[::-1].copy(),
        np.array([True, False] * 3),
        np.arange(6) + 2**40,
        goals_reached=np.abs(strange),
        memory_norm=-strange,
        means_beyond=strange[::-1],
        final_agent=np.full(6, None),
    )
    packed = pack(lives)
    assert packed.dtype == np.int64 and packed.shape == (6, 7)
    halves = [packed * (np.arange(6) % 2 == half)[:, None] for half in (0, 1)]
    assert bits(unpack(halves[0] + halves[1])) == bits(lives)
    assert unpack(packed).failed.dtype == bool and unpack(packed).env_steps.dtype == np.int64


@pytest.fixture(scope="module")
def learned(make_tiny):
    """Lives that learn by their loss alone."""
    return make_tiny(evolution={"guidance": 0.0})


@pytest.fixture(scope="module")
def crews(learned):
    """Shards for up to three ranks; compiled once."""
    with Shards(learned) as one, Shards(learned) as two, Shards(learned) as three:
        yield one, two, three


@pytest.fixture(scope="module")
def alone(learned, crews):
    """Three epochs without ranks, validation included."""
    return list(evolve(learned, 5, shards=crews[0]))


@pytest.mark.parametrize("size", [2, 3])
def test_ranks_evolve_as_one_process_does(learned, crews, alone, size):
    """phi, Adam, best phi and metrics after 3 epochs, to the bit; 2 shards an epoch, so the third
    rank has no lives.
    """
    for result in on_ranks(
        size, lambda rank: list(evolve(learned, 5, shards=crews[rank.rank], communicator=rank))
    ):
        for here, there in zip(alone, result, strict=True):
            for name in ("phi", "second_moment", "best_phi"):
                assert getattr(here.state, name).tobytes() == getattr(there.state, name).tobytes()
            assert (
                here.state.env_steps == there.state.env_steps
                and here.state.best_return == there.state.best_return
            )
            timeless = [n for n in here.metrics if "second" not in n and "communication" not in n]
            np.testing.assert_equal(
                [here.metrics[n] for n in timeless], [there.metrics[n] for n in timeless]
            )


def test_bytes_do_not_grow_with_phi(tiny):
    """Per epoch 6 numbers a life and a digest per rank, whatever the size of the loss."""
    for size in (5, 5000):
        for metrics in on_ranks(
            2,
            lambda rank, size=size: (
                next(
                    evolve(
                        tiny,
                        5,
                        start_at(np.zeros(size, np.float32)),
                        ScriptedShards(lambda phi: 0.0),
                        communicator=rank,
                    )
                ).metrics
            ),
        ):
            assert metrics["communication_bytes"] == 8 * 7 * 8 + 2 * 32


def test_a_rank_that_differs_is_found(tiny):
    """One bit of one number of phi: no rank goes on, and each says the same."""

    def work(communicator):
        start = start_at(np.ones(5, np.float32))
        start.phi[3] += np.float32(2e-7) * communicator.rank
        with pytest.raises(Disagreement) as raised:
            next(evolve(tiny, 5, start, ScriptedShards(lambda phi: 0.0), communicator=communicator))
        return str(raised.value)

    one, other = on_ranks(2, work)
    assert (
        one == other
        and one.startswith("phi after epoch 1 differs between ranks: ")
        and "on rank 1" in one
    )


@pytest.mark.parametrize(("epoch", "best"), [(7, -1 / 3), (0, -np.inf)])
def test_rank_0_shares_its_state(tiny, epoch, best):
    """A state in mid-run, and the initial one with its best return of -inf."""
    start = initial_state(tiny, 0)
    numbers = np.random.default_rng(0).standard_normal((4, start.phi.size)).astype(np.float32)
    phi, second, best_phi, move = numbers
    given = type(start)(epoch, phi, second, 2**40 + epoch, best_phi, best, move)

    def work(communicator):
        own = initial_state(tiny, communicator.rank) if communicator.rank else given
        return broadcast_state(own, communicator)

    for got in on_ranks(3, work):
        assert (got.epoch, got.env_steps, got.best_return) == (epoch, 2**40 + epoch, best)
        for name in ("phi", "second_moment", "best_phi"):
            assert getattr(got, name).dtype == np.float32
            assert getattr(got, name).tobytes() == getattr(given, name).tobytes()


def test_processes_share_the_cpus_of_a_machine(make_tiny, monkeypatch):
    monkeypatch.setattr("os.sched_getaffinity", lambda process: set(range(8)))
    automatic = make_tiny(compute={"threads": 0})
    assert [thread_count(automatic, n) for n in (1, 2, 3, 16)] == [8, 4, 2, 1]
    assert thread_count(make_tiny(compute={"threads": 5}), 2) == 5
