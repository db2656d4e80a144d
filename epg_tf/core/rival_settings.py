"""Holds the settings of what a learned loss of EPG is compared with, a group for each rival.

They are groups of `experiment.Experiment`. epg-tf tune finds their values.
"""

from __future__ import annotations

import dataclasses
from typing import Annotated

from epg_tf.core.fields import (
    Count,
    Natural,
    NonNegative,
    Number,
    Positive,
    PositiveShare,
    Share,
    means,
)


@dataclasses.dataclass(frozen=True)
class PPOConfig:
    """PPO as a rival with settings of its own (Schulman et al. 2017); clip, coefficients and value
    network are the surrogate's.
    """

    update_period: Annotated[Count, means("env steps between updates")] = 256
    minibatch: Annotated[Count, means("env steps")] = 32
    epochs: Annotated[Count, means("over the steps of an update")] = 16
    learning_rate: Annotated[Positive, means("of policy and value network")] = 1e-3
    log_std: Annotated[Number, means("as policy.log_std")] = -1.0
    discount: Annotated[Share, means("gamma, per env step")] = 0.99
    gae_lambda: Annotated[Share, means("lambda of generalized advantage estimation")] = 0.95


@dataclasses.dataclass(frozen=True)
class ReinforceConfig:
    """On-policy REINFORCE as a rival (Williams 1992); it has no value network."""

    update_period: Annotated[Count, means("env steps between updates")] = 256
    minibatch: Annotated[Count, means("env steps")] = 32
    epochs: Annotated[Count, means("over the steps of an update; 1 is REINFORCE as published")] = 1
    learning_rate: Annotated[Positive, means("of the policy")] = 1e-3
    log_std: Annotated[Number, means("as policy.log_std")] = -1.0
    discount: Annotated[Share, means("gamma, per env step")] = 0.99


@dataclasses.dataclass(frozen=True)
class SACConfig:
    """SAC of TF-Agents as a rival (Haarnoja et al. 2018).

    The defaults are the settings that won, or did best of what was tried, in several families.
    """

    learning_rate: Annotated[Positive, means("of policy, critics and temperature")] = 3e-3
    batch: Annotated[Count, means("transitions in an update")] = 32
    updates_per_step: Annotated[Count, means("updates per env step")] = 2
    random_steps: Annotated[
        Natural, means("env steps of random actions, before the first update")
    ] = 200
    target_entropy: Annotated[Number, means("nats per component of the action")] = -2.0
    temperature: Annotated[Positive, means("weight of the entropy at first; it is learned")] = 0.3
    discount: Annotated[Share, means("gamma, per env step")] = 0.99
    tau: Annotated[PositiveShare, means("share of the critics that targets take over")] = 0.005
    hidden: Annotated[tuple[Count, ...], means("units of each hidden layer of each network")] = (
        64,
        64,
    )


@dataclasses.dataclass(frozen=True)
class TD3Config:
    """TD3 of TF-Agents as a rival (Fujimoto et al. 2018); noise in units of half the range of
    actions.
    """

    learning_rate: Annotated[Positive, means("of policy and critics")] = 1e-3
    batch: Annotated[Count, means("transitions in an update")] = 64
    updates_per_step: Annotated[Count, means("updates per env step")] = 1
    random_steps: Annotated[
        Natural, means("env steps of random actions, before the first update")
    ] = 100
    exploration: Annotated[NonNegative, means("standard deviation of the noise on actions")] = 0.1
    target_policy_noise: Annotated[
        NonNegative, means("standard deviation of the noise on the target policy's actions")
    ] = 0.2
    target_policy_noise_clip: Annotated[NonNegative, means("largest such noise")] = 0.5
    discount: Annotated[Share, means("gamma, per env step")] = 0.99
    tau: Annotated[PositiveShare, means("share of the networks that targets take over")] = 0.005
    hidden: Annotated[tuple[Count, ...], means("units of each hidden layer of each network")] = (
        64,
        64,
    )


_GROUPS = {"ppo": PPOConfig, "reinforce": ReinforceConfig, "sac": SACConfig, "td3": TD3Config}
RIVALS = tuple(_GROUPS)
"""Names of the groups."""
RIVAL_SETTINGS = frozenset(
    f"config.{name}.{field.name}"
    for name, group in _GROUPS.items()
    for field in dataclasses.fields(group)
)
"""Their settings, "config.GROUP.FIELD"."""
