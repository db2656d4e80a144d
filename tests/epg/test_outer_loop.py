"""Tests epg_tf.epg.outer_loop."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
import threading

import numpy as np
import pytest

from epg_tf.core.random_streams import noise_vector
from epg_tf.core.types import LifeResults
from epg_tf.epg import shard_loop
from epg_tf.epg.epoch_plan import life_keys, life_updates, pairs
from epg_tf.epg.evolution_settings import EvolutionConfig
from epg_tf.epg.evolution_strategies import shaped
from epg_tf.epg.outer_loop import es_step, evolve
from epg_tf.epg.shards import Shards
from epg_tf.epg.state import EvolutionState, initial_state
from epg_tf.tasks.point_goal import PointGoal
from tests import reference

NAN = float("nan")
OPTIMUM = np.array([0.5, -1.0, 0.25, 2.0, -0.75], np.float32)


def results_of(returns, success=NAN):
    """Returns `LifeResults` with these final returns, NaN where failed, one env step each."""
    returns = np.asarray(returns, np.float64)
    empty = np.zeros((len(returns), 0))
    return LifeResults(
        returns,
        np.zeros(len(returns)) + success,
        np.isnan(returns),
        np.ones(len(returns), np.int64),
        empty,
        empty,
        np.array([""] * len(returns)),
        goals_reached=np.full(len(returns), np.nan),
        memory_norm=np.full(len(returns), np.nan),
        means_beyond=np.full(len(returns), np.nan),
        final_agent=np.full(len(returns), None),
    )


def fitness_weights(config, returns):
    """Weighs noise vectors as an epoch does."""
    return shaped(returns, config.noise_vectors, config.fitness, pairs(config))


def step(state, returns, config, seed):
    """Moves a state as the returns of an epoch's lives say."""
    weights = fitness_weights(config, returns)
    return dataclasses.replace(es_step(state, weights, config, seed)[0], epoch=state.epoch + 1)


class ScriptedShards:
    """Answers with a known return for each phi, and remembers what it was asked."""

    threads, shard_lives, stopped = 2, 4, threading.Event()

    def __init__(self, fitness):
        self.answer = lambda keys, parameters: [fitness(phi) for phi in parameters]
        self.asked = []

    def run(self, keys, phi, inner_settings, done=None, exact=False, tasks=None):
        """Returns the fitness of every life's phi."""
        parameters = [phi(life).copy() for life in range(len(keys))]
        assert exact == (keys[0].phase == "validation")
        self.asked.append((keys, parameters, inner_settings))
        return results_of(self.answer(keys, parameters))


class Exploding(PointGoal):
    """Every simulation diverges at once."""

    def observe(self, state):
        """Returns NaN."""
        return np.full((len(state.qpos), self.observation_size), NAN)


def quadratic(phi):
    """Is largest, 0, at OPTIMUM."""
    return -float(np.square(np.float64(phi) - OPTIMUM).sum())


def start_at(phi):
    """Returns a state before the first epoch."""
    return EvolutionState(0, phi, np.zeros_like(phi), 0, phi, -np.inf, np.zeros_like(phi))


@pytest.mark.parametrize("fitness", ["rank", "raw"])
@pytest.mark.parametrize("antithetic", [False, True])
def test_es_step_equals_the_reference(fitness, antithetic):
    """Three steps: shaped fitness, noise by epoch, L2, annealed rate, Adam without momentum."""
    config = EvolutionConfig(
        noise_vectors=6,
        lives=6,
        sigma=0.05,
        fitness=fitness,
        antithetic=antithetic,
        l2=0.1,
        learning_rate=0.02,
        final_learning_rate=0.01,
        learning_rate_epochs=2,
    )
    state = start_at(np.random.default_rng(0).standard_normal(7).astype(np.float32))
    expected, adam = np.float64(state.phi), reference.Adam(None, 0.0, 0.999)
    for epoch in range(3):
        returns = np.random.default_rng(epoch).standard_normal(6)
        epsilons = [noise_vector(9, epoch, v, 7) for v in range(6)]
        if antithetic:
            epsilons = [sign * e for e in epsilons[:3] for sign in (1.0, -1.0)]
        weights = reference.centred_ranks(returns) if fitness == "rank" else returns
        adam.rate = (0.02, 0.015, 0.01)[epoch]
        expected = expected + adam.change(
            0.1 * expected - reference.es_gradient(weights, epsilons, 0.05)
        )
        state = step(state, returns, config, 9)
        np.testing.assert_allclose(state.phi, expected, atol=1e-6)
        assert (
            state.epoch == epoch + 1 and state.phi.dtype == state.second_moment.dtype == np.float32
        )


def test_whole_evolution_climbs_a_quadratic_to_its_optimum(make_tiny):
    """Lives, their noise and the step belong together: with any of them exchanged this would not
    arrive.
    """
    experiment = make_tiny(
        evolution={
            "epochs": 300,
            "lives": 32,
            "noise_vectors": 16,
            "l2": 0.0,
            "sigma": 0.02,
            "learning_rate": 0.05,
            "final_learning_rate": 1e-4,
            "learning_rate_epochs": 300,
        }
    )
    scripted = ScriptedShards(quadratic)
    *_, last = evolve(experiment, 0, start_at(np.zeros(5, np.float32)), scripted)
    assert np.abs(last.state.phi - OPTIMUM).max() < 0.03
    assert (
        last.state.best_return == pytest.approx(quadratic(last.state.best_phi))
        and last.state.best_return > -0.01
    )


def test_fitness_weights_of_pairs_are_signs():
    """Pairs of lives here are (0, 2), (1, 3), (4, 6), (5, 7); a vector's weight is the mean over
    its two lives.
    """
    config = EvolutionConfig(
        lives=8,
        noise_vectors=4,
        antithetic=True,
        common_random_numbers=True,
        fitness="rank_in_pair",
    )
    returns = np.array([5.0, 1.0, 4.0, 2.0, 7.0, NAN, -1.0, 0.0])
    weights = fitness_weights(config, returns)
    np.testing.assert_array_equal(weights, [0.0, 0.0, 0.0, 0.0])
    returns[1] = 3.0
    np.testing.assert_array_equal(fitness_weights(config, returns), [0.5, -0.5, 0.0, 0.0])


def test_lifetimes_are_log_uniform_and_the_same_whatever_was_drawn_before(make_tiny):
    experiment = make_tiny(inner={"updates": 64}, evolution={"shortest_life": 4})
    drawn = np.array([life_updates(experiment, 0, epoch) for epoch in range(1000)])
    assert drawn.min() == 4 and drawn.max() == 64
    assert abs((drawn <= 16).mean() - np.log(17 / 4) / np.log(65 / 4)) < 0.05
    assert life_updates(experiment, 0, 77) == drawn[77]
    assert life_updates(make_tiny(inner={"updates": 64}), 0, 3) == 64


def test_evolution_may_have_shorter_lives_than_validation(make_tiny):
    """Validation says nothing of updates, so it has all of them."""
    inner, evolution = {"updates": 64}, {"shortest_life": 4, "longest_life": 8}
    between = make_tiny(inner=inner, evolution=evolution)
    assert {life_updates(between, 0, epoch) for epoch in range(100)} == {4, 5, 6, 7, 8}
    all_alike = make_tiny(inner=inner, evolution={**evolution, "shortest_life": 0})
    scripted = ScriptedShards(quadratic)
    list(evolve(all_alike, 4, start_at(np.zeros(5, np.float32)), scripted))
    lengths = {keys[0].phase: inner_settings.updates for keys, _, inner_settings in scripted.asked}
    assert lengths == {"evolution": 8, "validation": None}


def test_successive_updates_are_compared(make_tiny):
    """On a long slope they agree; the first has none to be compared with."""
    experiment = make_tiny(
        evolution={
            "epochs": 3,
            "lives": 256,
            "noise_vectors": 256,
            "antithetic": True,
            "l2": 0.0,
            "validation_period": 0,
        }
    )
    results = list(
        evolve(experiment, 0, start_at(np.zeros(5, np.float32)), ScriptedShards(quadratic))
    )
    assert np.isnan(results[0].metrics["update_cosine"])
    moves = [
        after.state.phi - before.state.phi
        for before, after in zip(results, results[1:], strict=False)
    ]
    assert results[2].metrics["update_cosine"] == pytest.approx(
        moves[0] @ moves[1] / np.linalg.norm(moves[0]) / np.linalg.norm(moves[1]), abs=1e-5
    )
    assert results[2].metrics["update_cosine"] > 0.8


@pytest.mark.slow
def test_the_step_stays_on_the_first_cpu_whatever_device_is_current():
    """In a process with a second device, which stands for a GPU."""
    code = """
import numpy as np, tensorflow as tf
cpu = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
from epg_tf.epg.evolution_settings import EvolutionConfig
from epg_tf.epg import outer_loop
from epg_tf.epg.state import EvolutionState
devices = []
original = outer_loop.adam_update
def watched(gradient, *rest, **settings):
    found = original(gradient, *rest, **settings)
    devices.extend(part.device[-5:] for part in (gradient, *found))
    return found
outer_loop.adam_update = watched
zeros = np.zeros(3, np.float32)
state = EvolutionState(0, zeros, zeros, 0, zeros, -np.inf, zeros)
with tf.device("CPU:1"):
    outer_loop.es_step(state, np.ones(4), EvolutionConfig(lives=4, noise_vectors=4), 0)
    print(tf.zeros(1).device[-5:], *devices)
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=300
    )
    assert done.stdout.split() == ["CPU:1", *["CPU:0"] * 4]


def test_lives_get_their_vectors_keys_and_teaching(make_tiny):
    """W lives, V noise vectors, keys by epoch and index, alpha from 1 to 0, validation without
    guidance or noise.
    """
    tiny = make_tiny(evolution={"guidance_epochs": 2})
    scripted = ScriptedShards(quadratic)
    start = start_at(np.zeros(5, np.float32))
    results = list(evolve(tiny, 4, start, scripted))
    training = [scripted.asked[i] for i in (0, 1, 3)]
    assert [len(keys) for keys, _, _ in scripted.asked] == [8, 8, 4, 8]  # validation after epoch 2
    assert [inner_settings.alpha for _, _, inner_settings in training] == [1.0, 0.5, 0.0]
    assert all(
        t.learning_rate == tiny.inner.learning_rate and t.epochs == 1 for _, _, t in scripted.asked
    )
    phis = [start.phi, *(result.state.phi for result in results)]
    for epoch, (keys, parameters, _) in enumerate(training):
        assert [(k.seed, k.phase, k.epoch, k.index) for k in keys] == [
            (4, "evolution", epoch, i) for i in range(8)
        ]
        for life, phi in enumerate(parameters):
            expected = phis[epoch] + tiny.evolution.sigma * noise_vector(4, epoch, life // 2, 5)
            np.testing.assert_allclose(phi, expected, atol=1e-7)
    keys, parameters, inner_settings = scripted.asked[2]
    assert inner_settings.alpha == 0.0 and all((p == phis[2]).all() for p in parameters)
    assert [(k.phase, k.epoch, k.index) for k in keys] == [("validation", 0, i) for i in range(4)]


def test_validation_and_so_the_best_use_the_alpha_that_evolution_ends_with(make_tiny):
    changes = {"final_guidance": 0.25, "validation_period": 1, "epochs": 2}
    scripted = ScriptedShards(quadratic)
    list(evolve(make_tiny(evolution=changes), 0, start_at(np.zeros(5, np.float32)), scripted))
    alphas = [inner_settings.alpha for keys, _, inner_settings in scripted.asked if len(keys) == 4]
    assert alphas == [0.25, 0.25]


def test_common_random_numbers_pair_up_lives_that_differ_in_phi_alone():
    config = EvolutionConfig(lives=8, noise_vectors=4, antithetic=True, common_random_numbers=True)
    indices = [key.index for key in life_keys(config, 0, 0)]
    assert indices == [0, 1, 0, 1, 2, 3, 2, 3]
    plain = life_keys(dataclasses.replace(config, common_random_numbers=False), 0, 0)
    assert [key.index for key in plain] == list(range(8))


def test_best_phi_is_kept(make_tiny):
    """Validation that gets worse leaves the best as it was; NaN never becomes the best."""
    experiment, answers = make_tiny(evolution={"validation_period": 1}), iter([1.0, 3.0, NAN])
    scripted = ScriptedShards(None)
    scripted.run = lambda keys, *_, **__: results_of(
        [0.0] * 8 if len(keys) == 8 else [next(answers)] * 4
    )
    states = [
        result.state for result in evolve(experiment, 0, start_at(np.ones(5, np.float32)), scripted)
    ]
    assert [state.best_return for state in states] == [1.0, 3.0, 3.0]
    assert (states[2].best_phi == states[1].phi).all() and (states[2].phi != states[1].phi).any()


def test_metrics_tell_what_happened(tiny):
    """Env steps: W (U + final episodes), and the validation lives where they are due."""
    results = list(evolve(tiny, 5))
    life = tiny.life_steps + 3 * 6
    assert [r.metrics["env_steps"] for r in results] == [8 * life, 20 * life, 28 * life]
    assert [r.metrics["epoch"] for r in results] == [1, 2, 3]
    assert [r.metrics["alpha"] for r in results] == [1.0, 0.0, 0.0]
    norms = [r.metrics["memory_norm"] for r in results]
    assert norms[0] == 0.0 and min(norms[1:]) > 0.0  # PPO alone writes nothing
    assert np.isnan([r.metrics["validation_return_mean"] for r in results]).tolist() == [
        True,
        False,
        True,
    ]
    for before, result in zip(
        [initial_state(tiny, 5), *(r.state for r in results)], results, strict=False
    ):
        metrics, state = result.metrics, result.state
        assert metrics["failed_lives"] == 0 and metrics["phi_norm"] == pytest.approx(
            np.linalg.norm(state.phi)
        )
        assert (
            metrics["update_norm"] == pytest.approx(np.linalg.norm(state.phi - before.phi))
            and state.phi.any()
        )
        order = [metrics[f"fitness_{name}"] for name in ("min", "q25", "median", "q75", "max")]
        assert order == sorted(order) and order[0] <= metrics["fitness_mean"] <= order[-1]


def test_evolution_goes_on_when_every_life_fails(make_tiny, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)  # MuJoCo logs its warnings to the working directory
    experiment = make_tiny(evolution={"guidance": 0.0})
    monkeypatch.setattr(
        shard_loop, "make_family", lambda task: Exploding(task.frame_skip, task.episode_limit)
    )
    with Shards(experiment) as shards:
        results = list(evolve(experiment, 5, shards=shards))
    assert len(results) == 3
    for result in results:
        assert result.metrics["failed_lives"] == 8 and np.isnan(result.metrics["fitness_mean"])
        assert np.isfinite(result.state.phi).all() and result.state.best_return == -np.inf
    assert np.isnan(results[-1].metrics["validation_return_mean"])


def test_success_rates_are_means_over_lives(tiny):
    scripted = ScriptedShards(quadratic)
    scripted.run = lambda keys, *_, **__: results_of([0.0] * len(keys), np.arange(len(keys)) % 2)
    (first, *_) = evolve(tiny, 5, shards=scripted)
    assert first.metrics["success_rate"] == 0.5
