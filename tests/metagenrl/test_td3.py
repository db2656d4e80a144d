"""Tests epg_tf.metagenrl.td3."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from epg_tf.agents.deterministic import policy_action
from epg_tf.losses.objectives import Chunks
from epg_tf.metagenrl.td3 import (
    averaged,
    clipped,
    cosine,
    critic_error,
    q_objective,
    smoothed,
    targets,
    unit,
)
from tests import metagenrl_reference as slow

P, B, T, O, A = 3, 4, 5, 4, 2  # noqa: E741 (the legend's letter)
DISCOUNT, DEVIATION, CLIP = 0.9, 0.5, 0.4


@pytest.fixture
def chunks():
    """Ragged chunks; what is in the padding is garbage."""
    parts = slow.random_chunks(P, B, steps=T, observation_size=O, action_size=A)
    return {
        name: part if name == "mask" else slow.with_garbage(part, parts["mask"])
        for name, part in parts.items()
    }


@pytest.fixture
def networks():
    """Weights of P policies and their twin critics."""
    generator = np.random.default_rng(1)
    return [
        slow.random_network(generator, (P,), (O, 5, A)),
        slow.random_network(generator, (P, 2), (O + A, 5, 1)),
    ]


def member_of(weights, *place):
    """Returns the weights of one network."""
    return [part[place] for part in weights]


def test_smoothing_clips_the_noise_then_the_action():
    action, noise = (
        tf.constant([0.0, 0.0, 0.2, -0.2, 0.9, -0.95]),
        tf.constant([1.0, -2.0, 10.0, -10.0, 1.0, -10.0]),
    )
    np.testing.assert_allclose(
        smoothed(action, noise, 0.2, 0.5), [0.2, -0.4, 0.7, -0.7, 1.0, -1.0], rtol=1e-6
    )


def test_targets_equal_the_reference(chunks, networks):
    noise = np.random.default_rng(2).standard_normal((P, B, T, A))
    policy, critics = (list(map(tf.constant, weights)) for weights in networks)
    seen = Chunks(**{name: tf.constant(part) for name, part in chunks.items()})
    action = smoothed(policy_action(seen.next_observation, policy), noise, DEVIATION, CLIP)
    found = targets(seen, action, critics, DISCOUNT).numpy()
    for place in np.argwhere(chunks["mask"]):
        member, place = place[0], tuple(place)
        expected = slow.td3_target(
            chunks["reward"][place],
            chunks["terminated"][place],
            chunks["next_observation"][place],
            noise[place],
            member_of(networks[0], member),
            [member_of(networks[1], member, twin) for twin in range(2)],
            DISCOUNT,
            DEVIATION,
            CLIP,
        )
        assert found[place] == pytest.approx(expected, rel=1e-9)
    assert chunks["terminated"].any()


def test_critic_error_is_the_mean_over_steps_of_both_critics_errors(chunks, networks):
    target = np.random.default_rng(3).standard_normal((P, B, T))
    found = critic_error(Chunks(**chunks), networks[1], target).numpy()
    for member in range(P):
        errors = []
        for place in np.argwhere(chunks["mask"][member]):
            place = (member, *place)
            errors.append(
                sum(
                    (
                        slow.action_value(
                            member_of(networks[1], member, twin),
                            chunks["observation"][place],
                            chunks["action"][place],
                        )
                        - target[place]
                    )
                    ** 2
                    for twin in range(2)
                )
            )
        assert found[member] == pytest.approx(np.mean(errors), rel=1e-9)


def test_ddpgs_objective_is_minus_the_critic_and_zero_in_the_padding(chunks, networks):
    action, critic = tf.constant(chunks["action"]), [part[:, 1] for part in networks[1]]
    with tf.GradientTape() as tape:
        tape.watch(action)
        found = q_objective(Chunks(**chunks), action, critic)
    found, slopes = found.numpy(), tape.gradient(found, action).numpy()
    for place in np.ndindex(P, B, T):
        there = chunks["mask"][place] > 0
        value = slow.action_value(
            member_of(critic, place[0]), chunks["observation"][place], chunks["action"][place]
        )
        assert found[place] == pytest.approx(-value if there else 0.0, rel=1e-9)
        assert slopes[place].any() == there


def test_polyak_averaging():
    found = averaged(tf.constant([1.0, 2.0, 0.0]), tf.constant([3.0, 2.0, -8.0]), 0.25)
    np.testing.assert_allclose(found, [1.5, 2.0, -2.0])


@pytest.mark.parametrize("twins", [(), (2,)])
def test_clipping_is_by_the_global_norm_of_each_agent(twins):
    """Agents with norms 0.1, 5 and 0; with an axis of twins, one gradient spans both."""
    generator = np.random.default_rng(0)
    parts = [generator.standard_normal((3, *twins, *shape)) for shape in ((4, 5), (5,))]
    norm = np.linalg.norm(np.concatenate([part.reshape(3, -1) for part in parts], axis=1), axis=1)
    wanted = np.array([0.1, 5.0, 0.0])
    parts = [part * (wanted / norm).reshape([-1] + [1] * (part.ndim - 1)) for part in parts]
    found = clipped([tf.constant(part) for part in parts], 2.0)
    for part, after in zip(parts, found, strict=True):
        for member, factor in enumerate((1.0, 0.4, 1.0)):
            np.testing.assert_allclose(after[member], factor * part[member], rtol=1e-12)


@pytest.mark.parametrize("poison", [np.nan, -np.inf])
@pytest.mark.parametrize("twins", [(), (2,)])
def test_a_gradient_that_is_not_finite_becomes_zero_for_its_agent_alone(poison, twins):
    """All parts of it, finite or not."""
    shape = (3, *twins, 4)
    parts = [
        np.random.default_rng(seed).standard_normal(shape).astype(np.float32) for seed in range(2)
    ]
    healthy = clipped([tf.constant(part) for part in parts], 1.0)
    parts[0][(1, *(0 for _ in twins), 2)] = poison
    for one, other in zip(
        healthy, clipped([tf.constant(part) for part in parts], 1.0), strict=True
    ):
        assert not other[1].numpy().any()
        for member in (0, 2):
            np.testing.assert_array_equal(one[member], other[member])


@pytest.mark.parametrize("poison", [np.nan, np.inf])
def test_unit_gradients_have_norm_one_unless_they_are_zero_or_not_finite(poison):
    """Both parts count; 3 and 4 make 5."""
    first, second = unit(
        [
            tf.constant([[3.0], [0.3], [0.0], [3.0]]),
            tf.constant([[[0.0, 4.0]], [[0.4, 0.0]], [[0.0, 0.0]], [[poison, 4.0]]]),
        ]
    )
    np.testing.assert_allclose(first, [[0.6], [0.6], [0.0], [0.0]], rtol=1e-6)
    np.testing.assert_allclose(
        second, [[[0.0, 0.8]], [[0.8, 0.0]], [[0.0, 0.0]], [[0.0, 0.0]]], rtol=1e-6
    )


@pytest.mark.parametrize("scale", [0.0, 1e-17, -2.0])
def test_unit_gradients_do_not_depend_on_length_not_even_at_zero(scale):
    length = tf.constant([scale])
    with tf.GradientTape() as tape:
        tape.watch(length)
        total = tf.reduce_sum(unit([length[:, None] * [[3.0, 4.0]]])[0])
    assert float(total) == pytest.approx(1.4 * np.sign(scale) * (abs(scale) > 1e-15), abs=1e-6)
    np.testing.assert_allclose(tape.gradient(total, length), [0.0], atol=1e-6)


def test_cosines_are_of_whole_gradients():
    """Each agent's parts in a row: (3, 0, 4) and (6, 0, 8); (1, 1, 0) and (-1, 1, 0); 0 and
    something.
    """
    first = [
        tf.constant([[3.0], [1.0], [0.0]]),
        tf.constant([[[0.0, 4.0]], [[1.0, 0.0]], [[0.0, 0.0]]]),
    ]
    second = [
        tf.constant([[6.0], [-1.0], [1.0]]),
        tf.constant([[[0.0, 8.0]], [[1.0, 0.0]], [[2.0, 0.0]]]),
    ]
    np.testing.assert_allclose(cosine(first, second), [1.0, 0.0, 0.0], atol=1e-7)
    np.testing.assert_allclose(cosine(first[:1], second[:1]), [1.0, -1.0, 0.0], atol=1e-7)
