"""Tests epg_tf.losses.objectives."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from epg_tf.losses.objectives import OffPolicyReinforce, Trajectories, standardised, total
from tests import metagenrl_reference as slow
from tests import reference

P, B, T, A = 3, 5, 6, 2


def make_trajectories(dtype=np.float64):
    """Returns ragged trajectories, whose chunks end by termination, by a time limit or within an
    episode, and predicted actions.
    """
    seen, predicted = slow.random_trajectories(P, B, steps=T, action_size=A, dtype=dtype)
    return Trajectories(*seen), predicted


def tensors(seen):
    """Returns trajectories as tensors."""
    return Trajectories(*map(tf.constant, seen))


def reference_advantages(seen, member, discount, gae_lambda):
    """Advantages of one agent's chunks, each estimated alone, standardised over all steps."""
    raw = []
    for reward, value, following in slow.without_padding(
        seen.mask[member], *(part[member] for part in seen[1:4])
    ):
        cut = np.zeros(len(reward))
        cut[-1] = 1.0
        raw.append(reference.gae(reward, value, following, 0.0 * cut, cut, discount, gae_lambda))
    mean, deviation = np.concatenate(raw).mean(), np.concatenate(raw).std()
    return [(part - mean) / deviation for part in raw]


@pytest.mark.parametrize(
    ("discount", "gae_lambda"), [(0.99, 0.97), (0.9, 0.0), (0.9, 1.0), (0.0, 0.9), (1.0, 1.0)]
)
def test_off_policy_reinforce_equals_the_reference(discount, gae_lambda):
    objective, (seen, predicted) = OffPolicyReinforce(discount, gae_lambda), make_trajectories()
    for run in (objective.per_step, tf.function(objective.per_step)):
        found = run({}, tensors(seen), tf.constant(predicted)).numpy()
        for member in range(P):
            for chunk, expected in enumerate(
                reference_advantages(seen, member, discount, gae_lambda)
            ):
                for step in range(T):
                    distance = sum(
                        (a - p) ** 2
                        for a, p in zip(
                            seen.action[member, chunk, step],
                            predicted[member, chunk, step],
                            strict=True,
                        )
                    )
                    score = expected[step] * distance / 2 if step < len(expected) else 0.0
                    assert found[member, chunk, step] == pytest.approx(score, rel=1e-6, abs=1e-9)


def test_a_time_limit_bootstraps_and_a_termination_does_not():
    """gamma 0.5, V = 0: of two single steps with reward 1, one is worth 1 + 0.5 * 4 = 3, one 1;
    standardised 1, -1.
    """
    zero, one = np.zeros((1, 2, 1)), np.ones((1, 2, 1))
    action = np.array([[[[0.6]], [[0.6]]]])
    seen = Trajectories(action, one, zero, np.array([[[4.0], [0.0]]]), one)
    scores = OffPolicyReinforce(0.5, 0.97).per_step({}, tensors(seen), tf.constant(action - 0.4))
    np.testing.assert_allclose(scores, [[[0.08], [-0.08]]], rtol=1e-6)


def test_what_is_in_the_padding_changes_no_bit():
    objective, (seen, predicted) = (
        OffPolicyReinforce(0.99, 0.97),
        make_trajectories(dtype=np.float32),
    )
    *spoilt, odd = (slow.with_garbage(part, seen.mask) for part in (*seen[:4], predicted))
    one = objective.per_step({}, tensors(seen), tf.constant(predicted)).numpy()
    other = objective.per_step(
        {}, Trajectories(*map(tf.constant, spoilt), tf.constant(seen.mask)), tf.constant(odd)
    )
    np.testing.assert_array_equal(one, other)
    assert not one[seen.mask == 0].any() and one[seen.mask > 0].all()


def test_one_agent_never_depends_on_another():
    objective, (seen, predicted) = (
        OffPolicyReinforce(0.99, 0.97),
        make_trajectories(dtype=np.float32),
    )
    healthy = objective.per_step({}, tensors(seen), tf.constant(predicted)).numpy()
    for part in (*seen[:4], predicted):
        part[1] = np.nan
    ill = objective.per_step({}, tensors(seen), tf.constant(predicted)).numpy()
    assert healthy[[0, 2]].tobytes() == ill[[0, 2]].tobytes() and np.isnan(ill[1]).any()


@pytest.mark.parametrize("constant", [0.0, 1.0, -0.1, 5.3])
def test_what_does_not_vary_is_standardised_to_zero(constant):
    """As the rewards of an environment that pays the same for every step."""
    values = tf.fill([1, 100, 20], constant)
    np.testing.assert_allclose(
        standardised(values, tf.ones_like(values)), np.zeros(values.shape), atol=0.0
    )


def test_total_sums_over_steps_and_averages_over_chunks():
    per_step = tf.constant(
        [[[1.0, 2.0, 3.0], [4.0, 0.0, 0.0]], [[0.0, 0.0, 0.0], [-1.0, 0.0, 0.0]]]
    )
    np.testing.assert_array_equal(total(per_step), [5.0, -0.5])


def test_an_objective_without_parameters_is_its_own_model():
    objective = OffPolicyReinforce(0.99, 0.97)
    assert objective.function is objective and not objective.params and not objective.shapes
    assert hash(objective) == hash(OffPolicyReinforce(0.99, 0.97))
    assert objective != OffPolicyReinforce(0.99, 0.9)
    objective.load(np.zeros((P, 0), np.float32))
    with pytest.raises(ValueError, match="has no parameters"):
        objective.load(np.zeros((P, 1), np.float32))
