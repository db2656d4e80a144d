"""Settings of what a learned loss of EPG is compared with; epg-tf tune finds them."""

from __future__ import annotations

import dataclasses

from epg_tf.core.settings import (
    Count,
    Natural,
    NonNegative,
    Number,
    Positive,
    PositiveShare,
    Settings,
    Share,
    setting,
)


@dataclasses.dataclass(frozen=True)
class PPOConfig(Settings):
    """PPO as a baseline with settings of its own (Schulman et al. 2017); clip, coefficients and
    value network are the surrogate's.
    """

    update_period: Count = setting(256, "env steps between updates")
    minibatch: Count = setting(32, "env steps")
    epochs: Count = setting(16, "over the steps of an update")
    learning_rate: Positive = setting(1e-3, "of policy and value network")
    log_std: Number = setting(-1.0, "as policy.log_std")
    discount: Share = setting(0.99, "gamma, per env step")
    gae_lambda: Share = setting(0.95, "lambda of generalized advantage estimation")


@dataclasses.dataclass(frozen=True)
class ReinforceConfig(Settings):
    """On-policy REINFORCE as a baseline (Williams 1992); it has no value network."""

    update_period: Count = setting(256, "env steps between updates")
    minibatch: Count = setting(32, "env steps")
    epochs: Count = setting(1, "over the steps of an update; 1 is REINFORCE as published")
    learning_rate: Positive = setting(1e-3, "of the policy")
    log_std: Number = setting(-1.0, "as policy.log_std")
    discount: Share = setting(0.99, "gamma, per env step")


@dataclasses.dataclass(frozen=True)
class SACConfig(Settings):
    """SAC of TF-Agents as a baseline (Haarnoja et al. 2018).

    The defaults are the settings that won, or did best of what was tried, in several families.
    """

    learning_rate: Positive = setting(3e-3, "of policy, critics and temperature")
    batch: Count = setting(32, "transitions in an update")
    updates_per_step: Count = setting(2, "updates per env step")
    random_steps: Natural = setting(200, "env steps of random actions, before the first update")
    target_entropy: Number = setting(-2.0, "nats per component of the action")
    temperature: Positive = setting(0.3, "weight of the entropy at first; it is learned")
    discount: Share = setting(0.99, "gamma, per env step")
    tau: PositiveShare = setting(0.005, "share of the critics that targets take over")
    hidden: tuple[Count, ...] = setting((64, 64), "units of each hidden layer of each network")


@dataclasses.dataclass(frozen=True)
class TD3Config(Settings):
    """TD3 of TF-Agents as a baseline (Fujimoto et al. 2018); noise in units of half the range of
    actions.
    """

    learning_rate: Positive = setting(1e-3, "of policy and critics")
    batch: Count = setting(64, "transitions in an update")
    updates_per_step: Count = setting(1, "updates per env step")
    random_steps: Natural = setting(100, "env steps of random actions, before the first update")
    exploration: NonNegative = setting(0.1, "standard deviation of the noise on actions")
    target_policy_noise: NonNegative = setting(
        0.2, "standard deviation of the noise on the target policy's actions"
    )
    target_policy_noise_clip: NonNegative = setting(0.5, "largest such noise")
    discount: Share = setting(0.99, "gamma, per env step")
    tau: PositiveShare = setting(0.005, "share of the networks that targets take over")
    hidden: tuple[Count, ...] = setting((64, 64), "units of each hidden layer of each network")


_GROUPS = {"ppo": PPOConfig, "reinforce": ReinforceConfig, "sac": SACConfig, "td3": TD3Config}
BASELINES = tuple(_GROUPS)
"""Names of the groups."""
BASELINE_SETTINGS = frozenset(
    f"config.{name}.{field.name}"
    for name, group in _GROUPS.items()
    for field in dataclasses.fields(group)
)
"""Their settings, "config.GROUP.FIELD"."""
