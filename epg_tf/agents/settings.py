"""Settings of policies."""

from __future__ import annotations

import dataclasses
from typing import Literal

from epg_tf.core.settings import Count, Number, Positive, Settings, setting


@dataclasses.dataclass(frozen=True)
class PolicyConfig(Settings):
    """The agent's policy: Gaussian; categorical where actions are discrete (EPG, section 3.3)."""

    hidden: tuple[Count, ...] = setting((64, 64), "units of each hidden layer")
    activation: Literal["tanh", "relu", "elu", "selu", "swish"] = setting(
        "tanh", "of the hidden layers, as in Keras"
    )
    log_std: Number = setting(
        0.0,
        "log of the standard deviation of a new Gaussian policy; learned, the same in all states "
        "unless state_dependent_std",
    )
    state_dependent_std: bool = setting(
        False, "whether the network also returns log_std, for each state, as in the first paper"
    )
    output_scale: Positive = setting(0.01, "norm of the columns of a new policy's last kernel")
    observation_pairs: bool = setting(
        False,
        "whether the network also sees the products of all pairs of components of the normalised "
        "observation; not in the papers",
    )
