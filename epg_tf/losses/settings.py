"""Settings of the losses of EPG, learned and not, and of MetaGenRL's objective."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Annotated, Literal

from epg_tf.core.settings import (
    AtLeastTwo,
    Count,
    Natural,
    NonNegative,
    Number,
    Positive,
    Range,
    Settings,
    Share,
    setting,
)
from epg_tf.core.shapes import convolution_length

Input = Literal["observation", "action", "termination", "policy", "log_prob"]
ADVANTAGES = ("return_to_go", "future_reward")
"""Further inputs that weigh actions in the start "policy_gradient", in place of the reward."""
AS_IT_IS = "observation_as_it_is"
"""A further input, around which a loss can begin with a fixed policy."""


@dataclasses.dataclass(frozen=True)
class LossConfig(Settings):
    """The learned loss (EPG, sections 3.3 and 4)."""

    buffer_steps: Count = setting(512, "N, env steps that the loss sees")
    reward: bool = setting(False, "whether the reward is an input of the loss")
    widths: tuple[Count, Count] = setting((8, 4), "of the two temporal convolutions, env steps")
    strides: tuple[Count, Count] = setting((7, 2), "of the two temporal convolutions, env steps")
    filters: tuple[Count, Count] = setting((10, 10), "of the two temporal convolutions")
    context: Count = setting(32, "units of the third layer")
    pooling: Literal["flatten", "mean"] = setting(
        "flatten", "over time, before the third layer; with mean, phi's size does not depend on N"
    )
    head: Count = setting(16, "hidden units of the layers that compute the loss of a step")
    leaky_slope: Share = setting(0.2, "slope of every leaky ReLU below zero")
    products: Natural = setting(
        0,
        "units beside the head's hidden ones, each the product of linear forms of the inputs and "
        "of the log probability of the action; 0 in the paper",
    )
    factors: Literal[1, 2, 3] = setting(
        3, "linear forms that a product unit multiplies; 1: a soft square of one"
    )
    identifying: Natural = setting(
        0,
        "ranks of the part of the loss that pulls each mean to what the effects of the action, as "
        "the agent's own steps show them, make of the observation; 0: no such part, as in the "
        "paper",
    )
    shared_over_actions: bool = setting(
        False,
        "whether all components of an action share one set of parameters and observations enter "
        "as features averaged over their dimensions, so that phi serves any body; continuous "
        "actions only; not in the paper",
    )
    features: Count = setting(
        8,
        "functions of one dimension of the observation, averaged over dimensions; only with "
        "shared_over_actions",
    )
    channels: tuple[str, ...] = setting(
        (),
        "further inputs: future_reward, return_to_go, time_in_life, novelty, goal, "
        "observation_as_it_is, observation_pairs, observation_towards_reward, or those that a file "
        "of yours registers",
    )
    without: tuple[Input, ...] = setting(
        (),
        "inputs that the loss does not see, for ablations and for small losses; log_prob: that of "
        "the action taken, which product units see",
    )
    mean_limit: NonNegative = setting(
        0.0,
        "the loss of a step also has the square of what exceeds this in the size of each mean of "
        "a Gaussian policy, which phi does not move; 0: nothing, as in the paper",
    )
    log_std_limits: tuple[Number, Number] = setting(
        (-5.0, 0.0),
        "lowest and highest of each log standard deviation of it, where means are limited",
    )
    future_discount: Share = setting(0.99, "gamma of future_reward and return_to_go, per env step")
    memory_units: Natural = setting(32, "units of the agent's memory; 0: no memory")
    memory_inputs: Count = setting(
        64, "ones that the memory takes as input; with more of them it learns faster"
    )
    start: Literal[
        "random", "centred", "quadratic", "correlating", "policy_gradient", "identifying"
    ] = setting(
        "random",
        "of phi: centred keeps the policy's means near zero, quadratic by their squares or choices "
        "equal; correlating also makes the context a correlation of the reward with features of "
        "the observation; policy_gradient is REINFORCE; identifying has nothing but its part",
    )
    truncation_as_end: bool = setting(True, "whether the termination channel marks time limits too")

    def conflicts(self) -> Iterator[str]:
        """Yields what does not fit together."""
        steps = self.buffer_steps
        for width, stride in zip(self.widths, self.strides, strict=True):
            steps = convolution_length(steps, width, stride)
        if steps < 1:
            yield (
                f"config.loss.buffer_steps={self.buffer_steps} is too short for convolutions of "
                f"widths {self.widths} and strides {self.strides}; lengthen the buffer or shorten "
                "the widths"
            )
        if self.start == "policy_gradient":
            yield from self._policy_gradient_conflicts()
        if self.start == "identifying" and not self.identifying:
            yield (
                "config.loss.start='identifying' is nothing but a part that config.loss."
                "identifying=0 leaves out; set it to at least 1"
            )
        if self.identifying and self.shared_over_actions:
            yield (
                f"config.loss.identifying={self.identifying} has parameters for each dimension of "
                "the observation, and config.loss.shared_over_actions=True fits any; leave one out"
            )
        if self.start == "correlating":
            yield from self._correlating_conflicts()

    def _policy_gradient_conflicts(self) -> Iterator[str]:
        start = "config.loss.start='policy_gradient'"
        if not (self.reward or set(ADVANTAGES) & set(self.channels)):
            yield (
                f"{start} weighs actions by the reward; set config.loss.reward=True, or add "
                f"one of {ADVANTAGES} to config.loss.channels={self.channels}"
            )
        if not self.products:
            yield (
                f"config.loss.products={self.products} leaves {start} without product units; set "
                "at least one for each component of an action"
            )
        if self.factors == 1:
            yield (
                f"config.loss.factors=1 makes soft squares, and {start} is a product of two forms; "
                "set config.loss.factors=2 or 3"
            )

    def _correlating_conflicts(self) -> Iterator[str]:
        start = "config.loss.start='correlating'"
        if self.shared_over_actions:
            yield (
                f"{start} reads dimensions of the observation, which config.loss."
                "shared_over_actions=True averages; set config.loss.start='centred'"
            )
        if not self.reward:
            yield (
                f"{start} compares the reward with observations; set config.loss.reward=True, or "
                "config.loss.start='centred'"
            )
        if self.filters[0] < 4 or min(self.filters[1], self.context) < 2:
            yield (
                f"{start} takes 4 and 2 filters and 2 units of the context; config.loss.filters="
                f"{self.filters} and config.loss.context={self.context} are too few"
            )


@dataclasses.dataclass(frozen=True)
class SurrogateConfig(Settings):
    """The policy-gradient loss that guides evolution and is a baseline (EPG, Eq. 10; PPO, Schulman
    et al. 2017).
    """

    kind: Literal["ppo", "reinforce", "reinforce_with_values"] = setting(
        "ppo", "which policy-gradient loss"
    )
    discount: Share = setting(0.99, "gamma, per env step")
    gae_lambda: Share = setting(0.95, "lambda of generalized advantage estimation")
    clip: Positive = setting(0.2, "epsilon, of the probability ratio")
    kl_coefficient: NonNegative = setting(0.001, "of the KL divergence in the loss")
    value_coefficient: NonNegative = setting(1.0, "of the value's error in the loss")
    value_hidden: tuple[Count, ...] = setting(
        (64, 64), "units of each hidden layer of the value network"
    )
    baseline_learning_rate: Positive = setting(
        1e-3, "of PPO with EPG's M as a baseline; epg-tf tune finds it"
    )
    baseline_epochs: Count = setting(
        1, "of PPO with EPG's M as a baseline, over each M steps; epg-tf tune finds it"
    )


@dataclasses.dataclass(frozen=True)
class ObjectiveConfig(Settings):
    """The learned objective: an LSTM that runs backwards in time (Appendix B.1)."""

    lstm_units: Count = setting(32, "units of the LSTM")
    action_layers: Count = setting(3, "1x1 convolutions over action dimensions")
    action_filters: AtLeastTwo = setting(32, "of each of these; half of them ReLU, half square")
    bound: Positive = setting(1000.0, "of the absolute value of the objective at a step")
    time: bool = setting(
        True, "whether the number of a step in its chunk is an input of the objective"
    )
    value_inputs: Annotated[int, Range(0, 2)] = setting(
        2, "values that are inputs: 2 of this state and the next, 1 of this state, 0 none"
    )
    next_value: Literal["difference", "value"] = setting(
        "difference",
        "how the value of the next state enters: in a temporal difference, or itself, as the "
        "paper prints it, standardised together with that of this state",
    )
