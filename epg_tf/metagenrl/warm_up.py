"""Warms agents up before they follow the objective alone (MetaGenRL, Appendix B.2)."""

from __future__ import annotations

import numpy as np

from epg_tf.metagenrl.settings import MetaConfig

_GROWTH = float(np.log(1000.0))  # the learning rate grows as exp(share * this) - 1, from zero


def warm_up(meta: MetaConfig | None, policy_rate: float, taken: int) -> tuple[float, float]:
    """Returns the objective's share in what policies follow, and their learning rate.

    Args:
      meta: How the objective is learned; None: there is no warm-up.
      policy_rate: The learning rate after the warm-up.
      taken: Env steps so far.
    """
    if meta is None or taken >= meta.warm_up_steps:
        return 1.0, policy_rate
    share = taken / meta.warm_up_steps
    if meta.warm_up == "ddpg":
        return share, policy_rate
    return 1.0, policy_rate * float(np.expm1(_GROWTH * share) / np.expm1(_GROWTH))
