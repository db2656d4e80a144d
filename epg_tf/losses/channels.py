"""Declares the inputs of a learned loss by name.

Another channel is one more row of `_ROWS`; where its values come from depends on its kind. What is
not declared never reaches the loss.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import NamedTuple

from epg_tf.core.experiment import LossConfig
from epg_tf.core.types import EnvironmentSpec

HISTORY = "history"  # recorded in the buffer: `Experience.channel`
POLICY = "policy"  # what the policy makes of a step, with gradient: `Policy.loss_input`
CONSTANT = "constant"  # the same at all steps, with gradient: `shared_output`, then the memory
KINDS = (HISTORY, POLICY, CONSTANT)

MINIBATCH = "minibatch"  # the one input that is no channel: which steps to score


@dataclasses.dataclass(frozen=True)
class Channel:
    """One declared input of a learned loss.

    Attributes:
      name: What it is, one of those in `_ROWS`.
      width: Its size per step, >= 1.
      kind: One of `KINDS`.
    """

    name: str
    width: int
    kind: str


class _Row(NamedTuple):
    """What a channel is; a width of 0 leaves it out."""

    name: str
    kind: str
    width: Callable[[EnvironmentSpec, LossConfig], int]


# Order is part of the parameters of shipped losses: append, never reorder.
_ROWS = (
    _Row("observation", HISTORY, lambda spec, loss: spec.observation_size),
    _Row("action", HISTORY, lambda spec, loss: spec.action_size),
    _Row("reward", HISTORY, lambda spec, loss: int(loss.reward)),
    _Row("termination", HISTORY, lambda spec, loss: 1),
    _Row("policy_probability", POLICY, lambda s, loss: s.action_size if s.discrete_actions else 0),
    _Row("policy_mean", POLICY, lambda s, loss: 0 if s.discrete_actions else s.action_size),
    _Row("policy_log_std", CONSTANT, lambda s, loss: 0 if s.discrete_actions else s.action_size),
    _Row("memory", CONSTANT, lambda spec, loss: loss.memory_units),
)


def declared_channels(spec: EnvironmentSpec, config: LossConfig) -> tuple[Channel, ...]:
    """Returns the inputs of a learned loss, in order (EPG, Eq. 8 and 9).

    Args:
      spec: Where the agents live.
      config: Whether the loss sees rewards, and the size of the memory.
    """
    channels = (Channel(row.name, row.width(spec, config), row.kind) for row in _ROWS)
    return tuple(channel for channel in channels if channel.width)


def kernel_rows(channels: Sequence[Channel]) -> dict[str, range]:
    """Returns name -> the rows of a kernel that meet a channel."""
    rows = {}
    start = 0
    for channel in channels:
        rows[channel.name] = range(start, start + channel.width)
        start += channel.width
    return rows


def input_width(channels: Sequence[Channel]) -> int:
    """Returns C, the size of all channels together."""
    return sum(channel.width for channel in channels)
