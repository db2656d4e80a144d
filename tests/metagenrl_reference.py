"""Slow NumPy transcriptions of what MetaGenRL is made of, one agent, one chunk and one time step at
a time.

Written from Kirsch et al. 2019 (section 3, Appendix B), Fujimoto et al. 2018 (TD3), Ba et al. 2016
(layer norm) and the usual LSTM with sigmoid gates and tanh states, never from the code under test.
Everything is computed in the precision of what is passed in; pass float64. Generalised advantages
and Adam are in `tests.reference`.
"""

from __future__ import annotations

import math

import numpy as np


def layer_norm(row, scale, shift, epsilon=1e-5):
    """One row of units with mean 0 and variance 1, scaled and shifted."""
    mean = sum(row) / len(row)
    variance = sum((x - mean) ** 2 for x in row) / len(row)
    return np.array(
        [
            (x - mean) / math.sqrt(variance + epsilon) * g + b
            for x, g, b in zip(row, scale, shift, strict=True)
        ]
    )


def network(weights, row):
    """Output [out] of one network; weights [kernel, bias, scale, shift] of each hidden layer, then
    [kernel, bias].
    """
    *hidden, kernel, bias = weights
    for layer in range(0, len(hidden), 4):
        row = row @ hidden[layer] + hidden[layer + 1]
        row = np.maximum(layer_norm(row, hidden[layer + 2], hidden[layer + 3]), 0.0)
    return row @ kernel + bias


def policy(weights, observation):
    """pi(s), [A]."""
    return np.tanh(network(weights, observation))


def action_value(weights, observation, action):
    """Q(s, a) of one critic."""
    return network(weights, np.concatenate([observation, action]))[0]


def td3_target(
    reward,
    terminated,
    next_observation,
    noise,
    target_policy,
    target_critics,
    discount,
    deviation,
    clip,
):
    """r + gamma min over both critics of Q'(s', pi'(s') + clipped noise); r where the episode
    terminated.
    """
    smoothed = []
    for a, n in zip(policy(target_policy, next_observation), noise, strict=True):
        n = min(max(deviation * n, -clip), clip)
        smoothed.append(min(max(a + n, -1.0), 1.0))
    if terminated:
        return reward
    return reward + discount * min(
        action_value(critic, next_observation, smoothed) for critic in target_critics
    )


def half_and_half(row):
    """ReLU of the first half of the units, square of the rest."""
    half = len(row) // 2
    return np.array([max(x, 0.0) if number < half else x * x for number, x in enumerate(row)])


def action_embedding(layers, action, predicted):
    """Mean over action dimensions of what the layers [(kernel, bias), ...] make of the pairs (a_d,
    pi(s)_d).
    """
    rows = []
    for pair in zip(action, predicted, strict=True):
        row = np.array(pair)
        for kernel, bias in layers:
            row = half_and_half(row @ kernel + bias)
        rows.append(row)
    return sum(rows) / len(rows)


def sigmoid(x):
    """1 / (1 + exp(-x)), which does not overflow in this form."""
    return 0.5 * (1.0 + np.tanh(0.5 * x))


def lstm_backwards(kernel, bias, rows):
    """Hidden states of an LSTM that reads the last row first; columns: candidate, forget, input,
    output gate.
    """
    units = len(bias) // 4
    hidden, cell, states = np.zeros(units), np.zeros(units), [None] * len(rows)
    for step in range(len(rows) - 1, -1, -1):
        before = np.concatenate([rows[step], hidden]) @ kernel + bias
        candidate, forget, take, give = (before[k * units : (k + 1) * units] for k in range(4))
        cell = sigmoid(forget) * cell + sigmoid(take) * np.tanh(candidate)
        hidden = states[step] = sigmoid(give) * np.tanh(cell)
    return states


def objective(alpha, config, discount, length, chunks):
    """Scores of every step of one agent's batch (section 3.2, Appendix B.1), a list of [steps]
    arrays.

    Inputs are in units of the batch: shifted to mean 0, scaled to deviation 1. The value of the
    next state enters as temporal difference.

    Args:
      alpha: [D].
      config: An `ObjectiveConfig`, for its numbers.
      discount: gamma.
      length: T, which the time is counted in.
      chunks: Without padding, each (action [t, A], predicted [t, A], reward [t], value [t],
        next_value [t]).
    """
    cursor = 0

    def take(*shape):
        nonlocal cursor
        cursor += math.prod(shape)
        return alpha[cursor - math.prod(shape) : cursor].reshape(shape)

    layers, before, units = [], 2, config.lstm_units
    for _ in range(config.action_layers):
        layers.append((take(before, config.action_filters), take(config.action_filters)))
        before = config.action_filters
    inputs = 1 + config.value_inputs + (1 if config.time else 0) + before
    kernel, bias, output, output_bias = (
        take(inputs + units, 4 * units),
        take(4 * units),
        take(units),
        take(1)[0],
    )
    assert cursor == len(alpha), "alpha is longer than the network"
    scalars = [
        [r, v, r + discount * n - v if config.next_value == "difference" else n][
            : 1 + config.value_inputs
        ]
        for _, _, *estimates in chunks
        for r, v, n in zip(*estimates, strict=True)
    ]
    means, deviations = np.mean(scalars, axis=0), np.std(scalars, axis=0)
    if config.next_value == "value" and config.value_inputs == 2:  # in the same units
        both = np.array(scalars)[:, 1:]
        means[1:], deviations[1:] = np.mean(both), np.std(both)
    remaining, found = iter(scalars), []
    for action, predicted, reward, _, _ in chunks:
        rows = []
        for t in range(len(reward)):
            row = [(x - m) / d for x, m, d in zip(next(remaining), means, deviations, strict=True)]
            row += [t / length] if config.time else []
            rows.append(np.concatenate([row, action_embedding(layers, action[t], predicted[t])]))
        scores = [hidden @ output + output_bias for hidden in lstm_backwards(kernel, bias, rows)]
        found.append(np.array([config.bound * math.tanh(score / config.bound) for score in scores]))
    return found


def without_padding(mask, *parts):
    """Cuts parts [B, T, ...] of one agent's batch into the chunks that a mask [B, T] shows."""
    lengths = [int(row.sum()) for row in mask]
    return [tuple(part[chunk][:length] for part in parts) for chunk, length in enumerate(lengths)]


def random_chunks(*axes, steps, observation_size, action_size, seed=0, dtype=np.float64):
    """Draws chunks by field, [*axes, T, ...]: ragged, zeros in the padding, some terminated, some
    ended by a limit.
    """
    generator = np.random.default_rng(seed)
    lengths = generator.integers(1, steps + 1, axes)
    lengths[..., 0], lengths[..., 1] = steps, 1
    mask = (np.arange(steps) < lengths[..., None]).astype(dtype)
    states = generator.standard_normal((*axes, steps + 1, observation_size))
    last = mask * (np.arange(1, steps + 1) == lengths[..., None])
    terminated = last * (generator.random(mask.shape) < 0.5)
    parts = {
        "observation": states[..., :-1, :],
        "next_observation": states[..., 1:, :],
        "terminated": terminated,
        "action": generator.uniform(-1, 1, (*mask.shape, action_size)),
        "reward": 3.0 + 2.0 * generator.standard_normal(mask.shape),
    }
    for name in ("observation", "next_observation", "action"):
        parts[name] = parts[name] * mask[..., None]
    parts["reward"] = parts["reward"] * mask
    return {"mask": mask, **{name: part.astype(dtype) for name, part in parts.items()}}


def random_trajectories(*axes, steps, action_size, seed=1, dtype=np.float64):
    """Draws (action, reward, value, next_value, mask) of such chunks, and what a policy might do
    there.

    The next value is that of the next step, 0 where the episode has terminated.
    """
    chunks = random_chunks(
        *axes, steps=steps, observation_size=1, action_size=action_size, seed=seed, dtype=dtype
    )
    generator, mask = np.random.default_rng(seed + 100), chunks["mask"]
    values = (5.0 + 3.0 * generator.standard_normal((*axes, steps + 1))).astype(dtype)
    predicted = generator.uniform(-1, 1, chunks["action"].shape).astype(dtype) * mask[..., None]
    following = values[..., 1:] * (1.0 - chunks["terminated"]) * mask
    return (chunks["action"], chunks["reward"], values[..., :-1] * mask, following, mask), predicted


def with_garbage(part, mask, seed=5):
    """Fills the padding of a part [P, B, T, ...] with large numbers."""
    padding = (1.0 - mask).reshape(*mask.shape, *[1] * (part.ndim - mask.ndim))
    return (part + 10.0 * np.random.default_rng(seed).standard_normal(part.shape) * padding).astype(
        part.dtype
    )


def random_network(generator, leading, sizes, dtype=np.float64):
    """Draws the weights of networks [*leading], every part of them far from its start."""
    weights = []
    for number, (before, after) in enumerate(zip(sizes[:-1], sizes[1:], strict=True)):
        weights += [
            generator.standard_normal((*leading, before, after)),
            generator.standard_normal((*leading, after)),
        ]
        if number < len(sizes) - 2:
            weights += [
                1.0 + 0.5 * generator.standard_normal((*leading, after)),
                0.5 * generator.standard_normal((*leading, after)),
            ]
    return [weight.astype(dtype) for weight in weights]
