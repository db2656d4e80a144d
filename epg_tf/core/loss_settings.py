"""Holds the settings of the learned loss of EPG (sections 3.3 and 4), a group of
`experiment.Experiment`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Annotated, Literal

from epg_tf.core.fields import (
    Count,
    Natural,
    NonNegative,
    Number,
    Share,
    means,
)
from epg_tf.core.shapes import convolution_length


@dataclasses.dataclass(frozen=True)
class LossConfig:
    """The learned loss (EPG, sections 3.3 and 4)."""

    buffer_steps: Annotated[Count, means("N, env steps that the loss sees")] = 512
    reward: Annotated[bool, means("whether the reward is an input of the loss")] = False
    widths: Annotated[tuple[Count, Count], means("of the two temporal convolutions, env steps")] = (
        8,
        4,
    )
    strides: Annotated[
        tuple[Count, Count], means("of the two temporal convolutions, env steps")
    ] = (7, 2)
    filters: Annotated[tuple[Count, Count], means("of the two temporal convolutions")] = (10, 10)
    context: Annotated[Count, means("units of the third layer")] = 32
    pooling: Annotated[
        Literal["flatten", "mean"],
        means("over time, before the third layer; with mean, phi's size does not depend on N"),
    ] = "flatten"
    head: Annotated[Count, means("hidden units of the layers that compute the loss of a step")] = 16
    leaky_slope: Annotated[Share, means("slope of every leaky ReLU below zero")] = 0.2
    products: Annotated[
        Natural,
        means(
            "units beside the head's hidden ones, each the product of linear forms of the inputs "
            "and of the log probability of the action; 0 in the paper"
        ),
    ] = 0
    factors: Annotated[
        Literal[1, 2, 3],
        means("linear forms that a product unit multiplies; 1: a soft square of one"),
    ] = 3
    shared_over_actions: Annotated[
        bool,
        means(
            "whether all components of an action share one set of parameters and observations "
            "enter as features averaged over their dimensions, so that phi serves any body; "
            "continuous actions only; not in the paper"
        ),
    ] = False
    features: Annotated[
        Count,
        means(
            "functions of one dimension of the observation, averaged over dimensions; only with "
            "shared_over_actions"
        ),
    ] = 8
    channels: Annotated[
        tuple[str, ...],
        means(
            "further inputs: future_reward, time_in_life, novelty, goal, goal_direction, "
            "observation_pairs, observation_towards_reward, reward_correlations, or "
            "those that a file of yours registers"
        ),
    ] = ()
    without: Annotated[
        tuple[Literal["observation", "action", "termination", "policy", "log_prob"], ...],
        means(
            "inputs that the loss does not see, for ablations and for small losses; log_prob: that "
            "of the action taken, which product units see"
        ),
    ] = ()
    mean_limit: Annotated[
        NonNegative,
        means(
            "the loss of a step also has the square of what exceeds this in the size of each mean "
            "of a Gaussian policy, which phi does not move; 0: nothing, as in the paper"
        ),
    ] = 0.0
    log_std_limits: Annotated[
        tuple[Number, Number],
        means("lowest and highest of each log standard deviation of it, where means are limited"),
    ] = (-5.0, 0.0)
    future_discount: Annotated[Share, means("gamma of future_reward, per env step")] = 0.99
    memory_units: Annotated[Natural, means("units of the agent's memory; 0: no memory")] = 32
    memory_inputs: Annotated[
        Count, means("ones that the memory takes as input; with more of them it learns faster")
    ] = 64
    start: Annotated[
        Literal["random", "centred", "quadratic", "correlating", "policy_gradient"],
        means(
            "of phi: centred keeps the policy's means near zero, quadratic by their squares; "
            "correlating also makes the context a correlation of the reward with features of the "
            "observation; policy_gradient is REINFORCE"
        ),
    ] = "random"
    truncation_as_end: Annotated[
        bool, means("whether the termination channel marks time limits too")
    ] = True


def loss_conflicts(loss: LossConfig) -> Iterator[str]:
    """Yields what does not fit together among the settings of a loss."""
    steps = loss.buffer_steps
    for width, stride in zip(loss.widths, loss.strides, strict=True):
        steps = convolution_length(steps, width, stride)
    if steps < 1:
        yield (
            f"config.loss.buffer_steps={loss.buffer_steps} is too short for convolutions of widths "
            f"{loss.widths} and strides {loss.strides}; lengthen the buffer or shorten the widths"
        )
    yield from _start_conflicts(loss)


def _start_conflicts(loss: LossConfig) -> Iterator[str]:
    sees_reward = loss.reward or "future_reward" in loss.channels
    if loss.start == "policy_gradient" and not sees_reward:
        yield (
            "config.loss.start='policy_gradient' weighs actions by the reward; set "
            "config.loss.reward=True, or add 'future_reward' to config.loss.channels="
            f"{loss.channels}"
        )
    if loss.start == "policy_gradient" and not loss.products:
        yield (
            f"config.loss.products={loss.products} leaves config.loss.start='policy_gradient' "
            "without product units; set at least one for each component of an action"
        )
    if loss.start == "policy_gradient" and loss.factors == 1:
        yield (
            "config.loss.factors=1 makes soft squares, and config.loss.start='policy_gradient' is "
            "a product of two forms; set config.loss.factors=2 or 3"
        )
    if loss.start != "correlating":
        return
    if loss.shared_over_actions:
        yield (
            "config.loss.start='correlating' reads dimensions of the observation, which config."
            "loss.shared_over_actions=True averages; set config.loss.start='centred'"
        )
    if not loss.reward:
        yield (
            "config.loss.start='correlating' compares the reward with observations; set "
            "config.loss.reward=True, or config.loss.start='centred'"
        )
    if loss.filters[0] < 4 or min(loss.filters[1], loss.context) < 2:
        yield (
            f"config.loss.start='correlating' takes 4 and 2 filters and 2 units of the context; "
            f"config.loss.filters={loss.filters} and config.loss.context={loss.context} are too few"
        )
