"""Declares the inputs of a learned loss by name.

Another channel is one more row of `_ROWS`; where its values come from depends on its kind. What can
be computed from the buffer is better an entry of `losses.extra_channels`, which a config names.
What is not declared never reaches the loss.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from epg_tf.core.errors import ConfigError
from epg_tf.core.types import EnvironmentSpec
from epg_tf.losses.extra_channels import extra_channel
from epg_tf.losses.settings import LossConfig

HISTORY = "history"  # recorded in the buffer: `Experience.channel`
POLICY = "policy"  # what the policy makes of a step, with gradient: `Policy.loss_input`
CONSTANT = "constant"  # the same at all steps, with gradient: `shared_output`, then the memory
EFFECTS = "effects"  # the same at all steps: what actions did, seen by `losses.identifying` alone
SCORED = "scored"  # of the scored steps alone, with gradient: only the product units see it

FEATURES = "features"  # what a loss shared over actions makes of an observation

MINIBATCH = "minibatch"  # the one input that is no channel: which steps to score


@dataclasses.dataclass(frozen=True)
class Channel:
    """One declared input of a learned loss.

    Attributes:
      name: What it is, one of those in `_ROWS` or `extra_channels.EXTRA_CHANNELS`.
      width: Its size per step, >= 1.
      kind: `HISTORY`, `POLICY`, `CONSTANT`, `EFFECTS` or `SCORED`.
    """

    name: str
    width: int
    kind: str


class _Row(NamedTuple):
    """What a channel is; a width of 0 leaves it out."""

    name: str
    kind: str
    width: Callable[[EnvironmentSpec, LossConfig], int]


MEANS = "policy_mean"  # of Gaussian policies
PROBABILITY = "policy_probability"  # of discrete actions
LOG_STD = "policy_log_std"  # of kind `POLICY` where it depends on the state
LOG_PROB = "policy_log_prob"  # of the action taken
# Order is part of the parameters of pretrained losses: append, never reorder.
_ROWS = (
    _Row("observation", HISTORY, lambda spec, loss: spec.observation_size),
    _Row("action", HISTORY, lambda spec, loss: spec.action_size),
    _Row("reward", HISTORY, lambda spec, loss: int(loss.reward)),
    _Row("termination", HISTORY, lambda spec, loss: 1),
    _Row(PROBABILITY, POLICY, lambda s, loss: s.action_size if s.discrete_actions else 0),
    _Row(MEANS, POLICY, lambda s, loss: 0 if s.discrete_actions else s.action_size),
    _Row(LOG_STD, CONSTANT, lambda s, loss: 0 if s.discrete_actions else s.action_size),
    _Row("memory", CONSTANT, lambda spec, loss: loss.memory_units),
    # log pi(a | s) of the action taken: of each component, or of the choice in each part.
    _Row(LOG_PROB, SCORED, lambda s, loss: _choices(s) if loss.products else 0),
    _Row(
        "action_effects",
        EFFECTS,
        lambda s, loss: s.action_size * s.observation_size if loss.identifying else 0,
    ),
)


# What each part that `loss.without` names consists of.
_PARTS = {
    "observation": ("observation",),
    "action": ("action",),
    "termination": ("termination",),
    "policy": (PROBABILITY, MEANS, LOG_STD),
    "log_prob": (LOG_PROB,),
}

# Of which a loss that is shared over actions sees one number for each component of the action.
BY_COMPONENT = ("action", MEANS, LOG_STD, LOG_PROB)


def _choices(spec: EnvironmentSpec) -> int:
    """Returns how many independent parts an action has."""
    return len(spec.choices) if spec.discrete_actions else spec.action_size


def declared_channels(
    spec: EnvironmentSpec, config: LossConfig, state_dependent_std: bool = False
) -> tuple[Channel, ...]:
    """Returns the inputs of a learned loss, in order (EPG, Eq. 8 and 9).

    Args:
      spec: Where the agents live.
      config: Whether the loss sees rewards, the size of the memory, and further channels.
      state_dependent_std: Whether the deviations of Gaussian policies depend on the state
        (`policy.state_dependent_std`).

    Raises:
      ConfigError: A further channel is unknown or declared twice, there are too few product units
        to begin as a policy gradient, a setting does not go with discrete actions, or what is left
        out is needed.
    """
    for conflict in _action_conflicts(spec, config, state_dependent_std):
        raise ConfigError(conflict)
    channels = [Channel(row.name, row.width(spec, config), row.kind) for row in _ROWS]
    if state_dependent_std:
        channels = [
            dataclasses.replace(channel, kind=POLICY) if channel.name == LOG_STD else channel
            for channel in channels
        ]
    for name in config.channels:
        if name in [MINIBATCH, *(channel.name for channel in channels)]:
            raise ConfigError(
                f"config.loss.channels={config.channels} declares {name!r} a second time; name it "
                "once"
            )
        extra = extra_channel(name)
        if extra.turns and not spec.turning:
            raise ConfigError(
                f"config.loss.channels={config.channels}: {name!r} turns observations, and how "
                "those of config.task.family turn is not known; give the family `turning`, choose "
                "goal_ant, or leave the channel out"
            )
        if config.shared_over_actions and callable(extra.width):
            raise ConfigError(
                f"config.loss.channels={config.channels}: the size of {name!r} depends on the "
                "observation, and config.loss.shared_over_actions=True fits any; leave one out"
            )
        channels.append(Channel(name, extra.width_with(spec.observation_size), HISTORY))
    left_out = [name for part in config.without for name in _PARTS[part]]
    kept = tuple(c for c in channels if c.width and c.name not in left_out)
    for conflict in _without_conflicts(kept, config):
        raise ConfigError(f"config.loss.without={config.without} {conflict}")
    for conflict in _limit_conflicts(kept, config):
        raise ConfigError(conflict)
    return kept


def outputs_name(channels: Sequence[Channel]) -> str:
    """Returns the name of the channel of means or probabilities, the first of the policy's."""
    return next(channel.name for channel in channels if channel.name in (MEANS, PROBABILITY))


def _action_conflicts(
    spec: EnvironmentSpec, config: LossConfig, state_dependent_std: bool
) -> Iterator[str]:
    """Yields the settings that do not go with the actions of the environment."""
    continuous = {
        "config.policy.state_dependent_std": state_dependent_std,
        "config.loss.shared_over_actions": config.shared_over_actions,
    }
    for name, value in continuous.items():
        if value and spec.discrete_actions:
            yield (
                f"{name}=True is for continuous actions, and those of the task's family are "
                "discrete; set it to False"
            )
    units = {"policy_gradient": _choices(spec), "quadratic": spec.action_size}
    parts = 1 if config.shared_over_actions else units.get(config.start, 0)
    if config.start in units and config.products < parts:
        each = "part of an action" if config.start == "policy_gradient" else "mean or probability"
        yield (
            f"config.loss.products={config.products} is too few for config.loss.start="
            f"{config.start!r}, which takes one for each {each}; set at least {parts}"
        )


def _limit_conflicts(kept: Sequence[Channel], config: LossConfig) -> Iterator[str]:
    """Yields what limits and start of a loss need and do not have."""
    means = MEANS in [channel.name for channel in kept]
    if config.log_std_limits[0] > config.log_std_limits[1]:
        yield (
            f"config.loss.log_std_limits={config.log_std_limits}: the lowest is above the highest; "
            "swap them"
        )
    if config.start == "quadratic" and "policy" in config.without:
        yield (
            "config.loss.start='quadratic' needs means or probabilities, and config.loss.without="
            f"{config.without} has 'policy'; keep it, or use 'random'"
        )
    if config.mean_limit and not means:
        yield (
            f"config.loss.mean_limit={config.mean_limit} limits means, and the loss sees none: "
            "actions are discrete, or config.loss.without has 'policy'; set it to 0"
        )


def _without_conflicts(kept: Sequence[Channel], config: LossConfig) -> Iterator[str]:
    """Yields what does not go with the channels that `loss.without` leaves out."""
    if not config.without:
        return
    blind = "policy" in config.without
    if config.shared_over_actions:
        yield "does not go with config.loss.shared_over_actions=True; set it to ()"
    if all(channel.kind != HISTORY for channel in kept):
        yield "leaves no recorded channel; keep one, or set config.loss.reward=True"
    if blind and not config.products:
        yield (
            f"leaves config.loss.products={config.products} no input that moves the policy; set at "
            "least 1, or keep 'policy'"
        )
    if blind and config.start in ("centred", "correlating"):
        yield f"has no means for config.loss.start={config.start!r}; use 'random'"
    if "log_prob" in config.without:
        if not config.products:
            yield "has 'log_prob', which product units alone see; leave it out, or add some"
        if blind:
            yield "has 'log_prob' and 'policy', so nothing moves the policy; keep one of them"
        if config.start == "policy_gradient":
            yield "has 'log_prob', which config.loss.start='policy_gradient' needs; keep it"
    if config.identifying and not {"policy", "observation"}.isdisjoint(config.without):
        yield (
            f"leaves config.loss.identifying={config.identifying} without observations or means; "
            "keep both"
        )
    if "observation" in config.without and config.start == "correlating":
        yield "has no observation for config.loss.start='correlating'; use 'centred'"


def network_channels(channels: Sequence[Channel], config: LossConfig) -> tuple[Channel, ...]:
    """Returns the channels as the kernels meet them: those declared; for a loss that is shared over
    actions, those of one component of the action.
    """
    if not config.shared_over_actions:
        return tuple(channels)
    return tuple(
        Channel(FEATURES, config.features, HISTORY)
        if channel.name == "observation"
        else dataclasses.replace(
            channel, width=1 if channel.name in BY_COMPONENT else channel.width
        )
        for channel in channels
    )


def kernel_rows(channels: Sequence[Channel]) -> dict[str, range]:
    """Returns name -> the rows of a kernel that meet a channel; `SCORED` channels have none, since
    only the kernel of product units meets them, and `EFFECTS` neither.
    """
    rows = {}
    start = 0
    for channel in _everywhere(channels):
        rows[channel.name] = range(start, start + channel.width)
        start += channel.width
    return rows


def input_width(channels: Sequence[Channel]) -> int:
    """Returns C, the size of all channels together but those that only product units see."""
    return sum(channel.width for channel in _everywhere(channels))


def scored_width(channels: Sequence[Channel]) -> int:
    """Returns the size of the channels that only product units see."""
    return sum(channel.width for channel in channels if channel.kind == SCORED)


def _everywhere(channels: Sequence[Channel]) -> list[Channel]:
    return [channel for channel in channels if channel.kind not in (SCORED, EFFECTS)]
