"""Slow NumPy transcriptions of the papers' formulas, one life and one time step at a time.

Written from the papers (EPG, final version; Schulman et al. 2016 and 2017; Kingma and Ba 2015;
Williams 1992), never from the code under test. Everything is computed in the precision of what is
passed in; pass float64.
"""

from __future__ import annotations

import math

import numpy as np


def mlp(weights, inputs, activation=np.tanh):
    """Outputs [T, out] of one MLP with linear output; weights [kernel, bias, kernel, bias, ...]."""
    outputs = []
    for x in inputs:
        for layer in range(0, len(weights), 2):
            x = x @ weights[layer] + weights[layer + 1]
            x = activation(x) if layer + 2 < len(weights) else x
        outputs.append(x)
    return np.array(outputs)


def leaky_relu(x, slope):
    """x where positive, slope * x elsewhere."""
    return np.where(x > 0, x, slope * x)


def convolution(inputs, kernel, bias, stride):
    """Valid strided convolution over time of [T, in] with [width, in, out], in plain loops."""
    width, _, filters = kernel.shape
    outputs = []
    for start in range(0, len(inputs) - width + 1, stride):
        output = np.array(bias, copy=True)
        for tap in range(width):
            for out in range(filters):
                output[out] += inputs[start + tap] @ kernel[tap, :, out]
        outputs.append(output)
    return np.array(outputs)


def bounded(x):
    """x up to 10 on either side, then smoothly on to 20 at most."""
    size = abs(x)
    return math.copysign(size if size <= 10 else 10 + 10 * math.tanh((size - 10) / 10), x)


def loss_network(
    phi,
    config,
    period,
    observation,
    action,
    reward,
    termination,
    mean,
    log_std,
    memory,
    extra=(),
    log_prob=None,
):
    """Losses L_i of the newest M steps of one life (EPG, section 3.3, Eq. 8 and 9, Figure 2; sizes
    of section 4).

    Args:
      phi: [D].
      config: A `LossConfig`, for its numbers.
      period: M.
      observation: [N, O].
      action: [N, A].
      reward: [N] or None where the loss does not see it.
      termination: [N].
      mean: [N, A] of the policy at each step.
      log_std: [A].
      memory: [units] or None.
      extra: Further channels, [N, width] each.
      log_prob: [M, parts] of the actions taken, where the head has product units.
    """
    rows = []
    for step in range(len(observation)):
        row = [*observation[step], *action[step]]
        row += [] if reward is None else [reward[step]]
        row += [termination[step], *mean[step], *log_std]
        row += [] if memory is None else [*memory]
        row += [value for channel in extra for value in channel[step]]
        rows.append(row)
    rows, cursor = np.array(rows), 0

    def take(*shape):
        nonlocal cursor
        cursor += math.prod(shape)
        return phi[cursor - math.prod(shape) : cursor].reshape(shape)

    hidden = rows
    for width, stride, filters in zip(config.widths, config.strides, config.filters, strict=True):
        kernel = take(width, hidden.shape[1], filters)
        hidden = leaky_relu(convolution(hidden, kernel, take(filters), stride), config.leaky_slope)
    hidden = hidden.mean(axis=0) if config.pooling == "mean" else hidden.reshape(-1)
    kernel = take(len(hidden), config.context)
    context = leaky_relu(hidden @ kernel + take(config.context), config.leaky_slope)
    head, head_bias = take(rows.shape[1] + config.context, config.head), take(config.head)
    if config.products:
        inputs = rows.shape[1] + config.context + log_prob.shape[1]
        columns = config.factors * config.products
        forms, forms_bias = take(inputs, columns), take(columns)
    output, output_bias = take(config.head + config.products), take(1)
    assert cursor == len(phi), "phi is longer than the network"
    losses = []
    for number, row in enumerate(rows[-period:]):
        hidden = leaky_relu(np.concatenate([row, context]) @ head + head_bias, config.leaky_slope)
        for unit in range(config.products):
            seen, product = np.concatenate([row, context, log_prob[number]]), 1.0
            values = [
                seen @ forms[:, column] + forms_bias[column]
                for column in range(unit, columns, config.products)
            ]
            for value in values:
                product *= bounded(value)
            if config.factors == 1:
                product = 2.0 * (math.sqrt(1.0 + values[0] ** 2) - 1.0)
            hidden = np.append(hidden, product)
        excess = 0.0
        for component in mean[len(mean) - period + number] if config.mean_limit else ():
            excess += max(abs(component) - config.mean_limit, 0.0) ** 2
        for component in log_std if config.mean_limit else ():
            lowest, highest = config.log_std_limits
            excess += max(component - highest, lowest - component, 0.0) ** 2
        losses.append(hidden @ output + output_bias[0] + excess)
    return np.array(losses)


def memory_output(kernel):
    """Content of a memory fed with ones: tanh(1 @ kernel)."""
    return np.tanh(np.ones(len(kernel)) @ kernel)


def log_probability(action, mean, log_std):
    """Log density of a diagonal Gaussian."""
    total = 0.0
    for a, m, d in zip(action, mean, log_std, strict=True):
        total += -0.5 * ((a - m) / math.exp(d)) ** 2 - d - 0.5 * math.log(2 * math.pi)
    return total


def kl_divergence(mean, log_std, other_mean, other_log_deviation):
    """KL(first || other) of diagonal Gaussians."""
    total = 0.0
    for m, d, n, e in zip(mean, log_std, other_mean, other_log_deviation, strict=True):
        total += e - d + (math.exp(2 * d) + (m - n) ** 2) / (2 * math.exp(2 * e)) - 0.5
    return total


def gae(reward, value, next_value, terminated, truncated, discount, gae_lambda):
    """Advantages of M steps as the sum over k of (gamma lambda)^k delta_{t+k}, up to the episode's
    end.
    """
    advantages = []
    for start in range(len(reward)):
        total, weight = 0.0, 1.0
        for step in range(start, len(reward)):
            after = 0.0 if terminated[step] else next_value[step]
            total += weight * (reward[step] + discount * after - value[step])
            weight *= discount * gae_lambda
            if terminated[step] or truncated[step]:
                break
        advantages.append(total)
    return np.array(advantages)


def discounted_returns(reward, ended, discount):
    """Rewards from each step to its episode's end, or to the last step known, discounted."""
    returns = []
    for start in range(len(reward)):
        total = 0.0
        for step in range(start, len(reward)):
            total += discount ** (step - start) * reward[step]
            if ended[step]:
                break
        returns.append(total)
    return np.array(returns)


def standardised(values):
    """Mean 0, deviation 1."""
    return (values - np.mean(values)) / np.std(values)


def ppo_loss(
    action,
    advantage,
    target,
    old,
    new,
    value,
    clip,
    kl_coefficient,
    value_coefficient,
    log_probability=log_probability,
    kl_divergence=kl_divergence,
):
    """PPO's loss over B steps; `old` and `new` are (means [B, A], log deviation [A]), or (logits
    [B, A],).
    """
    total = 0.0
    for step in range(len(action)):
        before, after = (old[0][step], *old[1:]), (new[0][step], *new[1:])
        ratio = math.exp(
            log_probability(action[step], *after) - log_probability(action[step], *before)
        )
        clipped = min(max(ratio, 1 - clip), 1 + clip)
        total -= min(ratio * advantage[step], clipped * advantage[step])
        total += kl_coefficient * kl_divergence(*before, *after)
        total += value_coefficient * (value[step] - target[step]) ** 2
    return total / len(action)


def softmax(logits):
    """Probabilities of the choices of each row."""
    return np.array(
        [
            [
                math.exp(one - max(row)) / sum(math.exp(other - max(row)) for other in row)
                for one in row
            ]
            for row in logits
        ]
    )


def categorical_kl(logits, other_logits):
    """KL(first || other) of categorical distributions."""
    return sum(
        p * (math.log(p) - math.log(q))
        for p, q in zip(softmax([logits])[0], softmax([other_logits])[0], strict=True)
    )


def categorical_log_probability(action, logits):
    """Log probability of a one-hot action."""
    (chosen,) = [number for number, one in enumerate(action) if one == 1]
    return math.log(softmax([logits])[0][chosen])


def reinforce_loss(action, weight, policy, log_probability=log_probability):
    """Mean of -weight log pi(action) over B steps; `policy` is (means [B, A], log deviation [A]),
    or (logits [B, A],).
    """
    return -np.mean(
        [
            w * log_probability(a, p, *policy[1:])
            for a, w, p in zip(action, weight, policy[0], strict=True)
        ]
    )


def finite_differences(function, parameters, width=1e-6):
    """Gradient of function(list of arrays) by central differences, in the shapes of `parameters`
    (float64).
    """
    gradients = []
    for number, parameter in enumerate(parameters):
        gradient = np.zeros_like(parameter)
        for index in np.ndindex(*parameter.shape):
            values = []
            for sign in (1.0, -1.0):
                moved = [p.copy() for p in parameters]
                moved[number][index] += sign * width
                values.append(function(moved))
            gradient[index] = (values[0] - values[1]) / (2 * width)
        gradients.append(gradient)
    return gradients


class Adam:
    """Kingma and Ba 2015, Algorithm 1, on one array."""

    def __init__(self, learning_rate, beta_1=0.9, beta_2=0.999, epsilon=1e-8):
        self.rate, self.beta_1, self.beta_2, self.epsilon = learning_rate, beta_1, beta_2, epsilon
        self.m, self.v, self.t = 0.0, 0.0, 0

    def change(self, gradient):
        """What to add to the parameters."""
        self.t += 1
        self.m = self.beta_1 * self.m + (1 - self.beta_1) * gradient
        self.v = self.beta_2 * self.v + (1 - self.beta_2) * gradient * gradient
        m_hat, v_hat = self.m / (1 - self.beta_1**self.t), self.v / (1 - self.beta_2**self.t)
        return -self.rate * m_hat / (np.sqrt(v_hat) + self.epsilon)


def centred_ranks(fitness):
    """Ranks from -0.5 (worst) to 0.5 (best); ties share the mean of their places; NaN is worst of
    all.
    """
    values = [-math.inf if math.isnan(f) else f for f in fitness]
    ordered = sorted(values)
    ranks = []
    for value in values:
        places = [place for place, other in enumerate(ordered) if other == value]
        ranks.append(sum(places) / len(places) / (len(values) - 1) - 0.5)
    return np.array(ranks)


def es_gradient(fitness, noise, sigma):
    """1 / sigma times the mean over v of F(phi + sigma epsilon_v) epsilon_v (EPG, Eq. 7)."""
    total = np.zeros(len(noise[0]))
    for f, epsilon in zip(fitness, noise, strict=True):
        total += f * np.asarray(epsilon, np.float64)
    return total / (len(fitness) * sigma)
