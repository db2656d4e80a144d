"""Tests policies whose discrete actions have several independent parts, against NumPy."""

from __future__ import annotations

import numpy as np

from epg_tf.agents.policies import CategoricalPolicy
from epg_tf.agents.settings import PolicyConfig
from epg_tf.core.choices import largest, one_hot
from epg_tf.core.types import EnvironmentSpec
from tests import reference

P, T, O = 2, 5, 4  # noqa: E741 (the legend's letter)
PARTS = (3, 2)
ENDS = ((0, 3), (3, 5))  # of the parts, in a row
OBSERVATION = np.random.default_rng(1).standard_normal((P, T, O)).astype(np.float32)


def make_policy(parts, seed=0):
    """Returns P policies with random weights everywhere."""
    spec = EnvironmentSpec(O, 5, True, action_parts=parts)
    policy = CategoricalPolicy(P, spec, PolicyConfig(hidden=(6,)))
    generator = np.random.default_rng(seed)
    for variable in policy.variables_in_order:
        variable.assign(0.6 * generator.standard_normal(variable.shape))
    return policy


def drawn_rows(parts):
    """Returns random actions, [P, T, A]."""
    generator = np.random.default_rng(2)
    places = np.stack([generator.integers(count, size=P * T) for count in parts], axis=1)
    return one_hot(places, parts).reshape(P, T, -1)


def by_part(*rows):
    """Returns the parts of each of some rows [5]."""
    return [tuple(row[start:end] for row in rows) for start, end in ENDS]


def test_rows_and_places_of_parts_are_inverse():
    places = np.array([[0, 1], [2, 0]])
    rows = one_hot(places, PARTS)
    assert rows.dtype == np.float32
    assert rows.tolist() == [[1.0, 0.0, 0.0, 0.0, 1.0], [0.0, 0.0, 1.0, 1.0, 0.0]]
    assert largest(rows, PARTS).tolist() == places.tolist()
    assert largest(np.array([[1.0, 5.0, 2.0, -3.0, -9.0]]), PARTS).tolist() == [[1, 0]]


def test_probabilities_entropies_and_divergences_add_over_the_parts():
    policy, other, action = make_policy(PARTS), make_policy(PARTS, seed=1), drawn_rows(PARTS)
    logits, other_logits = (np.float64(one(OBSERVATION)) for one in (policy, other))
    found = policy.distribution(OBSERVATION)
    parts = policy.log_prob_from(policy(OBSERVATION), policy.shared_output, action)
    assert parts.shape == (P, T, 2)
    seen = policy.loss_input(OBSERVATION)
    kl = found.kl_divergence(other.distribution(OBSERVATION))
    for at in np.ndindex(P, T):
        expected = [
            reference.categorical_log_probability(row, part)
            for row, part in by_part(action[at], logits[at])
        ]
        np.testing.assert_allclose(parts[at], expected, rtol=1e-5)
        np.testing.assert_allclose(found.log_prob(action)[at], sum(expected), rtol=1e-5)
        probabilities = [reference.softmax([part])[0] for (part,) in by_part(logits[at])]
        np.testing.assert_allclose(seen[at], np.concatenate(probabilities), rtol=1e-5)
        entropy = -sum(np.sum(part * np.log(part)) for part in probabilities)
        np.testing.assert_allclose(found.entropy()[at], entropy, rtol=1e-5)
        divergence = sum(
            reference.categorical_kl(*both) for both in by_part(logits[at], other_logits[at])
        )
        np.testing.assert_allclose(kl[at], divergence, rtol=1e-3, atol=1e-6)


def test_the_acting_copy_chooses_in_every_part_as_often_as_it_is_probable():
    """5000 draws a life: each frequency within 4 standard errors, of parts that do not depend on
    each other.
    """
    policy, draws = make_policy(PARTS), 5000
    weights = [variable.numpy() for variable in policy.variables_in_order]
    acting = policy.acting_kind(weights, "tanh", PARTS)
    generator = np.random.default_rng(3)
    rows = np.stack(
        [acting.act(OBSERVATION[:, 0], acting.draw_noise(generator, (P, 5))) for _ in range(draws)],
        axis=1,
    )
    assert rows.shape == (P, draws, 5) and set(np.unique(rows)) == {0.0, 1.0}
    assert all((rows[..., start:end].sum(axis=-1) == 1.0).all() for start, end in ENDS)
    seen = policy.loss_input(OBSERVATION)[:, 0].numpy()
    assert (np.abs(rows.mean(axis=1) - seen) < 4 * np.sqrt(seen * (1 - seen) / draws)).all()
    both = np.einsum("ptj,ptk->pjk", rows[..., :3], rows[..., 3:]) / draws
    joint = seen[:, :3, None] * seen[:, None, 3:]
    assert (np.abs(both - joint) < 4 * np.sqrt(joint * (1 - joint) / draws)).all()


def test_one_part_is_a_discrete_action_in_every_bit():
    action, found = drawn_rows((5,)), []
    noise = np.random.default_rng(3).gumbel(size=(P, 5)).astype(np.float32)
    for parts in ((), (5,)):
        policy, other = make_policy(parts), make_policy(parts, seed=1)
        distribution = policy.distribution(OBSERVATION)
        weights = [variable.numpy() for variable in policy.variables_in_order]
        found.append(
            [
                distribution.log_prob(action).numpy(),
                distribution.kl_divergence(other.distribution(OBSERVATION)).numpy(),
                policy.loss_input(OBSERVATION).numpy(),
                policy.log_prob_from(policy(OBSERVATION), policy.shared_output, action).numpy(),
                policy.acting_kind(weights, "tanh", parts).act(OBSERVATION[:, 0], noise),
            ]
        )
    for one, other in zip(*found, strict=True):
        np.testing.assert_array_equal(one, other)
