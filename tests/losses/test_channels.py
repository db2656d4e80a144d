"""Tests epg_tf.losses.channels."""

from __future__ import annotations

import pytest

from epg_tf.core.types import EnvironmentSpec
from epg_tf.losses import channels as declared
from epg_tf.losses.channels import declared_channels, input_width, kernel_rows
from epg_tf.losses.contract import Experience
from epg_tf.losses.settings import LossConfig


@pytest.mark.parametrize(
    ("discrete", "memory", "reward", "names"),
    [
        (
            False,
            32,
            True,
            "observation action reward termination policy_mean policy_log_std memory",
        ),
        (False, 32, False, "observation action termination policy_mean policy_log_std memory"),
        (False, 0, False, "observation action termination policy_mean policy_log_std"),
        (True, 32, True, "observation action reward termination policy_probability memory"),
        (True, 0, False, "observation action termination policy_probability"),
    ],
)
def test_declared_channels_have_the_documented_order_and_widths(discrete, memory, reward, names):
    config = LossConfig(memory_units=memory, reward=reward)
    channels = declared_channels(EnvironmentSpec(11, 3, discrete), config)
    widths = {
        "observation": 11,
        "action": 3,
        "reward": 1,
        "termination": 1,
        "policy_mean": 3,
        "policy_probability": 3,
        "policy_log_std": 3,
        "memory": 32,
    }
    assert [(c.name, c.width) for c in channels] == [(name, widths[name]) for name in names.split()]
    kinds = {
        "policy_mean": "policy",
        "policy_probability": "policy",
        "policy_log_std": "constant",
        "memory": "constant",
    }
    assert all(c.kind == kinds.get(c.name, "history") for c in channels)


def test_rows_of_a_kernel_follow_each_other():
    channels = declared_channels(EnvironmentSpec(11, 3), LossConfig(reward=True))
    rows = kernel_rows(channels)
    assert [row for name in rows for row in rows[name]] == list(range(input_width(channels)))
    assert rows["reward"] == range(14, 15) and rows["policy_log_std"] == range(19, 22)


def test_every_history_channel_is_a_field_of_the_experience():
    """So that a new one is a row of the table and a field, and nothing else."""
    for row in declared._ROWS:
        assert row.kind != declared.HISTORY or row.name in Experience._fields
