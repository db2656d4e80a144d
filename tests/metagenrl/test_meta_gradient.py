"""Tests epg_tf.metagenrl.meta_gradient, in float64, on chunks of different lengths."""

from __future__ import annotations

import functools
from typing import NamedTuple

import numpy as np
import pytest
import tensorflow as tf

from epg_tf.agents.deterministic import policy_action
from epg_tf.core.parameters import flattened
from epg_tf.losses.lstm_objective import LSTMObjective, parameter_count
from epg_tf.losses.objectives import Chunks, OffPolicyReinforce
from epg_tf.losses.settings import ObjectiveConfig
from epg_tf.metagenrl.meta_gradient import (
    meta_loss,
    policy_gradient,
    trajectories_of,
    virtual_policies,
)
from tests import metagenrl_reference as slow
from tests import reference

P, B, T, O, A = 2, 4, 5, 3, 2  # noqa: E741 (the legend's letter)
DISCOUNT, RATE = 0.9, 0.5
CONFIG = ObjectiveConfig(lstm_units=3, action_layers=2, action_filters=4, bound=2.0)


class Setting(NamedTuple):
    """An objective, agents and what they have met; weights as arrays."""

    objective: LSTMObjective
    alpha: np.ndarray
    policy: list[np.ndarray]
    critic: list[np.ndarray]
    batches: list[Chunks]


def make_setting(seed=0, batches=4):
    """Returns tiny agents, their objectives (each its own) and their batches."""
    generator = np.random.default_rng(seed)
    alpha = 0.5 * generator.standard_normal((P, parameter_count(CONFIG)))
    objective = LSTMObjective(P, CONFIG, DISCOUNT, "float64")
    objective.load(alpha)
    policy = slow.random_network(generator, (P,), (O, 5, A))
    critic = slow.random_network(generator, (P,), (O + A, 6, 1))
    drawn = slow.random_chunks(batches, P, B, steps=T, observation_size=O, action_size=A, seed=seed)
    return Setting(
        objective,
        alpha,
        policy,
        critic,
        [
            Chunks(**{name: part[number] for name, part in drawn.items()})
            for number in range(batches)
        ],
    )


def tensors(parts):
    """Returns arrays as tensors."""
    return [tf.constant(part) for part in parts]


def moved_policies(setting, steps, rate=RATE, unit=False):
    """Returns the policies after virtual steps, and the first gradient."""
    policy, critic = tensors(setting.policy), tensors(setting.critic)
    batches = [Chunks(*tensors(batch)) for batch in setting.batches[:steps]]
    seen = [trajectories_of(batch, policy, critic) for batch in batches]
    return virtual_policies(
        setting.objective, policy, [batch.observation for batch in batches], seen, rate, unit
    )


def meta_losses(setting, steps, rate=RATE, unit=False):
    """Returns the meta_loss of the policies after virtual steps, [P]."""
    moved, _ = moved_policies(setting, steps, rate, unit)
    return meta_loss(Chunks(*tensors(setting.batches[steps])), moved, tensors(setting.critic))


def meta_gradient(setting, steps, rate=RATE, unit=False):
    """Returns the gradient of the meta_losses by the objectives' weights, [P, D]."""
    parts = list(setting.objective.params.values())
    with tf.GradientTape() as tape:
        value = meta_losses(setting, steps, rate, unit)
    return flattened(tape.gradient(value, parts)).numpy()


def slopes_by_differences(setting, steps, unit, widths):
    """Returns the same by central differences of each width; all agents at once, for none depends
    on another.
    """
    compiled = tf.function(lambda: meta_losses(setting, steps, unit=unit))
    slopes = np.zeros((len(widths), *setting.alpha.shape))
    for number, place in np.ndindex(len(widths), setting.alpha.shape[1]):
        found = []
        for sign in (1.0, -1.0):
            moved = setting.alpha.copy()
            moved[:, place] += sign * widths[number]
            setting.objective.load(moved)
            found.append(compiled().numpy())
        slopes[number, :, place] = (found[0] - found[1]) / (2.0 * widths[number])
    setting.objective.load(setting.alpha)
    return slopes


@pytest.mark.parametrize(
    ("steps", "seed", "unit"),
    [
        (1, 0, False),
        *(
            pytest.param(*setting, marks=pytest.mark.slow)
            for setting in ((2, 1, True), (3, 3, False))
        ),
    ],
)
def test_meta_gradient_equals_finite_differences(steps, seed, unit):
    """At points away from the kinks of ReLU: there, differences do not depend on their width."""
    setting = make_setting(seed)
    wide, narrow = slopes_by_differences(setting, steps, unit, (4e-5, 1e-5))
    found = meta_gradient(setting, steps, unit=unit)
    for member in range(P):
        scale = np.linalg.norm(narrow[member])
        assert scale > 1e-3 and np.linalg.norm(wide[member] - narrow[member]) < 1e-5 * scale
        assert np.linalg.norm(found[member] - narrow[member]) < 1e-6 * scale
        np.testing.assert_allclose(found[member], narrow[member], rtol=1e-4, atol=1e-6 * scale)
        assert (
            np.abs(found[member]) > 1e-6 * scale
        ).mean() > 0.8  # what is left belongs to units without output


def test_policy_gradient_equals_finite_differences_of_the_reference():
    """Sum over steps, mean over chunks; values of states are those of the policy before it is
    moved.
    """
    setting = make_setting()
    batch = setting.batches[0]
    policy, critic = tensors(setting.policy), tensors(setting.critic)
    gradient = policy_gradient(
        setting.objective,
        policy,
        tf.constant(batch.observation),
        trajectories_of(Chunks(*tensors(batch)), policy, critic),
    )
    for member in range(P):
        before, critic = (
            [part[member] for part in parts] for parts in (setting.policy, setting.critic)
        )
        parts = slow.without_padding(batch.mask[member], *(part[member] for part in batch[:-1]))

        def value(state, before=before, critic=critic):
            return slow.action_value(critic, state, slow.policy(before, state))

        def score(weights, member=member, parts=parts, value=value):
            chunks = [
                (
                    action,
                    [slow.policy(weights, state) for state in states],
                    reward,
                    list(map(value, states)),
                    [
                        0.0 if end else value(state)
                        for state, end in zip(following, ends, strict=True)
                    ],
                )
                for states, action, reward, ends, following in parts
            ]
            return (
                sum(map(np.sum, slow.objective(setting.alpha[member], CONFIG, DISCOUNT, T, chunks)))
                / B
            )

        for found, expected in zip(
            gradient, reference.finite_differences(score, before, 1e-5), strict=True
        ):
            np.testing.assert_allclose(found[member], expected, rtol=1e-5, atol=1e-7)
        assert max(np.abs(part[member]).max() for part in gradient) > 1e-2


def test_the_meta_loss_is_minus_the_critics_mean_over_steps():
    setting = make_setting()
    batch = setting.batches[0]
    found = meta_loss(Chunks(*tensors(batch)), tensors(setting.policy), tensors(setting.critic))
    spoilt = Chunks(
        *tensors([*(slow.with_garbage(part, batch.mask) for part in batch[:-1]), batch.mask])
    )
    np.testing.assert_array_equal(
        meta_loss(spoilt, tensors(setting.policy), tensors(setting.critic)), found
    )
    for member in range(P):
        weights, own_critic = (
            [part[member] for part in parts] for parts in (setting.policy, setting.critic)
        )
        states = batch.observation[member][batch.mask[member] > 0]
        expected = -np.mean(
            [slow.action_value(own_critic, state, slow.policy(weights, state)) for state in states]
        )
        assert float(found[member]) == pytest.approx(expected, rel=1e-9)


def test_virtual_steps_are_plain_gradient_descent():
    """Each on a batch of its own, at the policy that the last step left; values stay those of the
    first.
    """
    setting, steps = make_setting(), 3
    moved, first = moved_policies(setting, steps)
    critic, weights = tensors(setting.critic), tensors(setting.policy)
    for number, batch in enumerate(setting.batches[:steps]):
        seen = trajectories_of(Chunks(*tensors(batch)), tensors(setting.policy), critic)
        gradient = policy_gradient(setting.objective, weights, tf.constant(batch.observation), seen)
        if number == 0:
            for one, other in zip(first, gradient, strict=True):
                np.testing.assert_array_equal(one, other)
        weights = [part - RATE * slope for part, slope in zip(weights, gradient, strict=True)]
    for one, other, start in zip(moved, weights, setting.policy, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-14)
        assert np.abs(one - start).max() > 1e-3


def test_virtual_steps_of_fixed_length_follow_the_direction_alone():
    setting = make_setting()
    plain, _ = moved_policies(setting, 1)
    moved, first = moved_policies(setting, 1, unit=True)
    for member in range(P):
        step, direction = (
            np.concatenate(
                [
                    (part.numpy() - start)[member].ravel()
                    for part, start in zip(parts, setting.policy, strict=True)
                ]
            )
            for parts in (moved, plain)
        )
        np.testing.assert_allclose(
            step, RATE * direction / np.linalg.norm(direction), rtol=1e-9, atol=1e-12
        )
    for one, other in zip(first, moved_policies(setting, 1)[1], strict=True):
        np.testing.assert_array_equal(one, other)  # what agents themselves follow is not scaled


def test_a_policy_that_cannot_move_teaches_nothing_by_steps_of_fixed_length():
    """Saturated, its gradient is exactly 0; so is the objective's, rather than NaN."""
    setting = make_setting()
    setting.policy[-1][0] = 1e3
    found = meta_gradient(setting, 2, unit=True)
    assert not found[0].any() and np.isfinite(found[1]).all() and found[1].any()


def test_hand_made_objectives_teach_policies_too():
    """Off-policy REINFORCE, by the bias of a policy's output: advantage (pi - a) (1 - pi^2)."""
    setting, objective = make_setting(), OffPolicyReinforce(DISCOUNT, 0.97)
    batch, policy = Chunks(*tensors(setting.batches[0])), tensors(setting.policy)
    seen = trajectories_of(batch, policy, tensors(setting.critic))
    score = functools.partial(objective.per_step, {})
    found = policy_gradient(score, policy, batch.observation, seen)[-1]
    action, advantage = (
        policy_action(batch.observation, policy).numpy(),
        objective.advantage(seen) * seen.mask,
    )
    slopes = advantage.numpy()[..., None] * (action - seen.action.numpy()) * (1.0 - action**2)
    np.testing.assert_allclose(found, slopes.sum(axis=2).mean(axis=1), rtol=1e-9)
