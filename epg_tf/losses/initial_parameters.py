"""Draws a fresh phi, before any evolution."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from epg_tf.core.parameters import split
from epg_tf.core.types import Array
from epg_tf.losses.channels import (
    FEATURES,
    POLICY,
    Channel,
    input_width,
    kernel_rows,
    network_channels,
    outputs_name,
    scored_width,
)
from epg_tf.losses.extra_channels import TOWARDS_REWARD
from epg_tf.losses.identifying import WANTED, WHERE
from epg_tf.losses.parameter_shapes import parameter_shapes
from epg_tf.losses.settings import ADVANTAGES, AS_IT_IS, LossConfig

# Of a correlation on its way into the context: a clear one moves the valley's floor by about 1.
_GAIN = 3.0


def initial_parameters(
    generator: np.random.Generator, channels: Sequence[Channel], config: LossConfig
) -> Array:
    """Draws phi, [D] float32: kernels N(0, 1 / fan-in), biases 0 (the authors' choice; the paper is
    silent).

    A random loss has no minimum in the means: Adam drives them on and on, actions saturate, and
    then small changes of phi make no difference. With `config.start` "centred" some hidden units of
    the head instead begin as a valley, sum_j |mean_j|, which holds the means at zero; evolution
    then moves the valley's floor from state to state. With "quadratic" the valley is sum_j
    mean_j^2, or a sum of soft squares, made of product units. With "correlating" the first units of
    the context also begin as correlations of the reward with features of the observation, so that
    where the floor goes can
    depend on what the task rewards. With "policy_gradient" the loss begins as REINFORCE (Williams
    1992) on the declared reward, see `_reinforce`. With "identifying" the part of the loss that
    `losses.identifying` computes is all that counts at first.

    A loss that is shared over actions begins so for each component of an action. The biases of its
    features are N(0, 1): with biases of 0 they would be two functions, the mean and the mean size.
    """
    params: dict[str, Array] = {}
    for name, shape in parameter_shapes(channels, config).items():
        deviation = np.sqrt(int(np.prod(shape[:-1])))
        kernel = len(shape) > 1
        params[name] = generator.standard_normal(shape) / deviation if kernel else np.zeros(shape)
    channels = network_channels(channels, config)
    if config.shared_over_actions:
        params[f"{FEATURES}/bias"] = generator.standard_normal(config.features)
    if config.start in ("centred", "correlating"):
        params["output/kernel"][config.head :] = 0.0  # product units count nothing at first
        _centre(params["head/kernel"], params["output/kernel"], channels)
    if config.start == "correlating":
        _correlate(params, channels)
    if config.start == "quadratic":
        _square(params, channels, config)
    if config.start == "policy_gradient":
        _reinforce(params, channels, config)
    if config.start == "identifying":
        params["output/kernel"][:] = 0.0
    if config.identifying:
        _identify(params)
    flat: Array = np.concatenate([values.ravel() for values in params.values()])
    return flat.astype(np.float32)


def _centre(head: Array, output: Array, channels: Sequence[Channel]) -> None:
    """Makes two hidden units per action, as far as there are any, see its mean with either sign,
    and nothing else.
    """
    by_name = kernel_rows(channels)
    rows = next(by_name[channel.name] for channel in channels if channel.kind == POLICY)
    for unit in range(min(2 * len(rows), head.shape[1])):
        head[:, unit] = 0.0
        head[rows[unit // 2], unit] = 1.0 - 2.0 * (unit % 2)
        output[unit] = 1.0


def _square(params: Mapping[str, Array], channels: Sequence[Channel], config: LossConfig) -> None:
    """Makes the loss of a step sum_j mean_j^2: one product unit for each mean, the soft square of
    the mean, or with the factors mean, mean and, where there are three, 1. Where actions are
    discrete, probabilities take the place of means.

    Where evolution makes them mean - u and mean - v, with forms u and v of the inputs, the lowest
    point is at (u + v) / 2; a valley of two leaky units is flat between u and v. A sum of soft
    squares stays a valley, whatever the forms. All other units
    begin as they were drawn, with weights of 0 to the output.
    """
    units = config.products
    kernel, bias, output = (
        params[name] for name in ("products/kernel", "products/bias", "output/kernel")
    )
    output[:] = 0.0
    for unit, mean in enumerate(kernel_rows(channels)[outputs_name(channels)]):
        kernel[:, unit::units] = 0.0
        kernel[mean, unit : 2 * units : units] = 1.0
        bias[2 * units + unit :: units] = 1.0  # of a third factor, if there is one
        output[config.head + unit] = 1.0


def probabilities(kernel: Array, bias: Array, choices: Sequence[int]) -> tuple[Array, Array]:
    """Returns linear probabilities of linear logits: the first order of the softmax around equal
    chances. Where they leave [0, 1], the nearest of two choices is 0 or 1; of more choices the
    likeliest ones are told apart less than the logits do.

    Args:
      kernel: [I, A], of the logits.
      bias: [A].
      choices: How many there are in each part of an action, together A.

    Returns:
      (kernel [I, A], bias [A]).
    """
    ends = np.cumsum(choices)[:-1]
    kernels = [part - part.mean(axis=1, keepdims=True) for part in np.split(kernel, ends, axis=1)]
    biases = [1.0 + part - part.mean() for part in np.split(bias, ends)]
    counts = np.repeat(choices, choices)
    return np.concatenate(kernels, axis=1) / counts, np.concatenate(biases) / counts


def with_floor(
    phi: Array, channels: Sequence[Channel], config: LossConfig, kernel: Array, bias: Array
) -> Array:
    """Moves the floor of a valley to a linear policy: the loss of a step is lowest where its means
    are inputs kernel + bias, with inputs the observation, and the products of pairs of its
    components where the policy sees them. Where the loss also sees the observation as it is, that
    takes the place of the normalised one. Where it sees the observation turned towards the
    reward, it takes the place of the observation: agents learn to do for their reward what the
    policy does for one that rises with the velocity along +x. Not in the papers.

    Args:
      phi: [D], begun as "quadratic" with the same channels and settings; stays as it is.
      channels: Declared inputs, the observation, the means and what else the policy sees among
        them.
      config: Settings of the loss.
      kernel: [I, A], of the policy's means or probabilities; I is O, or O + O (O + 1) / 2 with
        products.
      bias: [A].

    Returns:
      [D] float32.
    """
    shapes = parameter_shapes(channels, config)
    params = {name: values[0].copy() for name, values in split(phi[None], shapes).items()}
    rows, units = kernel_rows(channels), config.products
    name = next(name for name in (TOWARDS_REWARD, AS_IT_IS, "observation") if name in rows)
    seen = list(rows[name])
    if len(kernel) > len(seen):
        seen += rows["observation_pairs"]
    for unit in range(len(bias)):
        for factor in range(min(config.factors, 2)):  # a third one is the constant 1
            column = factor * units + unit
            params["products/kernel"][seen, column] = -kernel[:, unit]
            params["products/bias"][column] = -bias[unit]
    moved: Array = np.concatenate([values.ravel() for values in params.values()])
    return moved.astype(np.float32)


def _identify(params: Mapping[str, Array]) -> None:
    """Makes the wanted changes those of single components of the observation where the ranks
    suffice, and else random ones of size 1; at no input is one wanted yet.
    """
    changes = params[WANTED]
    if changes.shape[1] >= len(changes):
        changes[:] = np.eye(len(changes), changes.shape[1])
    changes /= np.maximum(np.linalg.norm(changes, axis=0), np.finfo(float).tiny)
    params[WHERE][:] = 0.0


def _correlate(params: Mapping[str, Array], channels: Sequence[Channel]) -> None:
    """Makes pairs of context units, as far as there are any, show how the reward r correlates with
    a random feature u.

    Two filters add up to leaky |r + u|, two to leaky |r - u|; the difference of the sums has the
    sign of r u, and 1.6 times the smaller of |r| and |u| as its size. The second convolution and
    the pooling average it over time. u is a unit vector's product with the observation; both units
    of a pair receive the average with opposite signs.
    """
    first, second, context = (
        params[f"{name}/kernel"] for name in ("convolution_1", "convolution_2", "context")
    )
    by_name = kernel_rows(channels)
    rows = {name: slice(by_name[name].start, by_name[name].stop) for name in by_name}
    filters_2 = second.shape[2]
    over_time = context.reshape(
        -1, filters_2, context.shape[1]
    )  # a view; its first axis is 1 where pooling averages
    for pair in range(min(first.shape[2] // 4, filters_2 // 2, context.shape[1] // 2)):
        filters, units = slice(4 * pair, 4 * pair + 4), slice(2 * pair, 2 * pair + 2)
        feature = first[0, rows["observation"], 4 * pair].copy()
        first[:, :, filters], second[:, :, units], context[:, units] = 0.0, 0.0, 0.0
        first[0, rows["reward"], filters] = [1, -1, 1, -1]
        first[0, rows["observation"], filters] = np.outer(
            feature / np.linalg.norm(feature), [1, -1, -1, 1]
        )
        second[0, filters, units] = np.outer([1, 1, -1, -1], [1, -1])
        over_time[:, units, units] = _GAIN / len(over_time) * np.array([[1, -1], [-1, 1]])


def _reinforce(
    params: Mapping[str, Array], channels: Sequence[Channel], config: LossConfig
) -> None:
    """Makes the loss of a step -advantage x log pi(a | s): one product unit for each part of the
    action, whose factors are the advantage, the part's log probability and, if three, 1.

    The advantage is `return_to_go` or `future_reward` where that is declared, else the step's own
    normalised reward. All have mean 0 over the buffer or the life, so the baseline begins at that
    mean; the context meets the same factor with weights of 0, which evolution moves. All other
    units begin as they were drawn, with no say in the output.
    """
    by_name, units = kernel_rows(channels), config.products
    names = (*ADVANTAGES, "reward")
    (advantage,) = next(by_name[name] for name in names if name in by_name)
    kernel, bias, output = (
        params[name] for name in ("products/kernel", "products/bias", "output/kernel")
    )
    output[:] = 0.0
    first_log_prob = input_width(channels) + config.context
    for unit in range(scored_width(channels)):
        kernel[:, unit::units] = 0.0
        kernel[advantage, unit] = 1.0
        kernel[first_log_prob + unit, units + unit] = 1.0
        bias[2 * units + unit :: units] = 1.0
        output[config.head + unit] = -1.0
