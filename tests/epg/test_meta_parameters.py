"""Tests what evolution moves: a loss, the policy that lives start from, or both."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from epg_tf.agents.policies import fresh_weights, policy_class, policy_shapes
from epg_tf.core.errors import ConfigError
from epg_tf.core.parameters import parameter_count
from epg_tf.core.random_streams import start_generator
from epg_tf.core.types import LifeKey
from epg_tf.epg.inner_loop import InnerLoop, InnerLoopSettings, final_inner_settings
from epg_tf.epg.meta_parameters import (
    divided,
    initial_phi,
    initial_policy,
    loss_shapes,
    vector_shapes,
)
from epg_tf.epg.outer_loop import evolve
from epg_tf.epg.settings import Experiment
from epg_tf.evaluation.evaluate import evaluate
from epg_tf.tasks.registry import make_family

KEYS = [LifeKey(1, "test", 0, index) for index in range(4)]
SURROGATE = {"guidance": 1.0, "final_guidance": 1.0}


@pytest.fixture(scope="module")
def both(make_tiny):
    """EPG+I."""
    return make_tiny(evolution={"moves": "both", "guidance": 0.0, "guidance_epochs": 0})


@pytest.fixture(scope="module")
def start(make_tiny):
    """PPO+I."""
    return make_tiny(evolution={"moves": "initialisation", **SURROGATE})


@pytest.fixture(scope="module")
def fixed(make_tiny):
    """A fixed linear policy: no updates, no hidden layer."""
    return make_tiny(
        evolution={"moves": "initialisation"},
        inner={"updates": 0},
        policy={"hidden": (), "log_std": -2.0},
    )


def loop_of(experiment):
    return InnerLoop(experiment, make_family(experiment.task))


def run(loop, vectors, inner_settings=None):
    return loop.run(KEYS, vectors, inner_settings or final_inner_settings(loop.experiment))


def test_the_vector_is_phi_then_the_policy(tiny, both, start):
    sizes = [initial_phi(each, 3).size for each in (tiny, start, both)]
    assert sizes[0] + sizes[1] == sizes[2]
    assert sizes == [parameter_count(vector_shapes(each)) for each in (tiny, start, both)]
    spec = make_family(tiny.task).spec
    drawn = policy_class(spec, tiny.policy)(1, spec, tiny.policy).initial_weights(
        start_generator(3)
    )
    phi, policy = divided(both, initial_phi(both, 3))
    np.testing.assert_array_equal(phi, initial_phi(tiny, 3))
    np.testing.assert_array_equal(policy, np.concatenate([weight.ravel() for weight in drawn]))
    choices = dataclasses.replace(spec, discrete_actions=True)
    for each in (spec, choices):
        policies = policy_class(each, tiny.policy)(1, each, tiny.policy)
        assert policy_shapes(each, tiny.policy) == dict(policies.shapes)
        for one, other in zip(
            policies.initial_weights(start_generator(3)),
            fresh_weights(start_generator(3), each, tiny.policy),
            strict=True,
        ):
            np.testing.assert_array_equal(one, other)
    named = initial_policy(both, policy)
    assert list(named) == ["hidden_1/kernel", "hidden_1/bias", "output/kernel", "output/bias"] + [
        "log_std/value"
    ]
    np.testing.assert_array_equal(named["hidden_1/kernel"], drawn[0])
    assert list(loss_shapes(both)) == list(vector_shapes(both))[: len(loss_shapes(both))]


def test_lives_start_from_the_vectors_policy(both):
    """Each row from its own; with `fresh` from the keys, as where a loss alone is moved."""
    loop = loop_of(both)
    vectors = np.stack([initial_phi(both, seed) for seed in (0, 0, 1, 1)])
    policies = divided(both, vectors)[1]
    still = InnerLoopSettings(0.0, 0.0, updates=0)
    run(loop, vectors, still)
    found = np.concatenate([w.reshape(4, -1) for w in loop.learner.weights()], axis=1)
    np.testing.assert_array_equal(found, policies)
    fresh = run(loop, vectors, dataclasses.replace(still, fresh=True))
    weights = loop.learner.weights()[0]
    assert not np.array_equal(weights[0], weights[1])
    alone = dataclasses.replace(both, evolution=dataclasses.replace(both.evolution, moves="loss"))
    usual = run(loop_of(alone), divided(both, vectors)[0], still)
    np.testing.assert_array_equal(fresh.policy_hash, usual.policy_hash)
    np.testing.assert_array_equal(fresh.final_return, usual.final_return)


def test_both_parts_matter(both):
    vector = initial_phi(both, 0)
    other_phi, other_policy = vector.copy(), vector.copy()
    other_phi[: divided(both, vector)[0].size] += 0.1
    other_policy[divided(both, vector)[0].size :] += 0.1
    loop = loop_of(both)
    hashes = [
        run(loop, np.stack([each] * 4)).policy_hash
        for each in (vector, other_phi, other_policy, vector)
    ]
    assert (hashes[0] == hashes[3]).all()
    assert not (hashes[0] == hashes[1]).any() and not (hashes[0] == hashes[2]).any()


def test_a_life_without_updates_is_its_final_episodes(fixed):
    loop = loop_of(fixed)
    vectors = np.stack([initial_phi(fixed, 0)] * 4)
    results = run(loop, vectors)
    limit = fixed.inner.final_episodes * fixed.task.episode_limit
    assert (results.env_steps <= limit).all() and results.episode_return.shape == (4, 0)
    shift, scale = loop.observation_scaling
    assert not shift.any() and (scale == 1.0).all()
    names = list(vector_shapes(fixed))
    assert names == [f"initial_policy/{name}" for name in ("output/kernel", "output/bias")] + [
        "initial_policy/log_std/value"
    ]


def test_evolution_improves_a_fixed_policy(make_tiny):
    """On PointGoal a linear policy can walk to the goal."""
    experiment = make_tiny(
        task={"episode_limit": 25},
        policy={"hidden": (), "log_std": -2.0},
        inner={"updates": 0, "final_episodes": 1},
        evolution={
            "moves": "initialisation",
            "epochs": 25,
            "lives": 16,
            "noise_vectors": 16,
            "antithetic": True,
            "common_random_numbers": True,
            "sigma": 0.1,
            "learning_rate": 0.1,
            "l2": 0.0,
            "validation_period": 0,
        },
    )
    fitness = [each.metrics["fitness_mean"] for each in evolve(experiment, 0)]
    assert np.mean(fitness[-3:]) > np.mean(fitness[:3]) + 5.0


@pytest.mark.parametrize(
    ("name", "methods"),
    [
        ("both", ["epg_i", "ppo_as_epg", "untrained", "random_loss", "centred_loss"]),
        ("fixed", ["zero_shot_linear", "ppo_as_epg", "untrained"]),
    ],
)
def test_it_is_tested_under_its_own_name(name, methods, request):
    experiment = request.getfixturevalue(name)
    asked = ("epg", "ppo_as_epg", "untrained", "random_loss", "centred_loss")
    results = evaluate(experiment, initial_phi(experiment, 0), seed=3, lives=2, methods=asked)
    assert list(results.groups()) == methods
    assert results.final().shape == (2 * len(methods),)


def test_sizes_are_named(start):
    named = r"an initial policy of config.policy.hidden=\(8,\) and observation_pairs=False has 76"
    with pytest.raises(ConfigError, match=named):
        divided(start, np.zeros((2, 5), np.float32))


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        (
            {"inner": {"updates": 0}, "evolution": {"moves": "both"}},
            ("inner.updates=0", "'initialisation'"),
        ),
        ({"evolution": {"moves": "initialisation"}}, ("final_guidance", "updates=128")),
        (
            {
                "inner": {"updates": 0},
                "evolution": {"moves": "initialisation", "fitness_from": "whole_life"},
            },
            ("fitness_from='whole_life'", "has 0 env steps"),
        ),
    ],
)
def test_settings_that_do_not_fit_are_refused(settings, words):
    with pytest.raises(ConfigError) as caught:
        Experiment.from_mapping(settings)
    assert all(word in str(caught.value) for word in words) and "\n" not in str(caught.value)


def test_a_policy_alone_cannot_learn(fixed):
    with pytest.raises(ConfigError, match="there is a policy and no loss, so lives of updates=2"):
        evaluate(fixed, initial_phi(fixed, 0), 0, lives=2, updates=2)
