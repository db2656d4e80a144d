"""Guides agents by a policy gradient, where an export says so; needs TensorFlow and NumPy alone.

`epg-tf export` writes a copy of this file beside the learner.py that imports it. Shapes as there.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import tensorflow as tf


class Guidance:
    """The policy gradient that a loss is blended with, or that trains an initial policy: PPO, or
    REINFORCE with or without values.

    Args:
      settings: "surrogate" of the description of an export.
      network: Of values: normalised observations [T, O] -> [T, 1].

    Attributes:
      network: The same.
    """

    def __init__(self, settings: Mapping[str, Any], network: Any):
        self._settings, self.network = settings, network

    def _value(self, observation: tf.Tensor) -> tf.Tensor:
        share = 0.0 if self._settings["kind"] == "reinforce" else 1.0
        return share * self.network(observation)[:, 0]

    def targets(self, rows: Mapping[str, Any], life: Mapping[str, Any]) -> dict[str, Any]:
        """Adds the advantages of the newest M steps to `rows` (Schulman et al. 2016, Eq. 16).

        Args:
          rows: Observations and what followed, normalised, actions, and their parameters before
            the update.
          life: The same steps as recorded: rewards at the end of "step", and "ends".
        """
        settings, reward, goes_on = self._settings, life["step"][:, -1], 1.0 - life["ends"]
        here, there = (self._value(rows[name]).numpy() for name in ("observation", "after"))
        decay = 1.0 if settings["kind"] == "reinforce" else settings["gae_lambda"]
        error = reward + settings["discount"] * goes_on[:, 0] * there - here
        carried = settings["discount"] * decay * goes_on.prod(axis=1)
        later, found = 0.0, np.zeros_like(error)
        for step in reversed(range(len(error))):
            found[step] = later = error[step] + carried[step] * later
        # Deviations below a small share of the mean are of rounding alone.
        deviation = max(found.std(), 1e-5 * abs(found.mean())) + 1e-8
        return {**rows, "advantage": (found - found.mean()) / deviation, "target": found + here}

    def loss(self, actions: Any, rows: Mapping[str, Any], new: Any) -> tf.Tensor:
        """Returns the loss of rows of `targets`, where actions have the parameters `new` now."""
        settings, advantage = self._settings, rows["advantage"]
        log_prob = tf.reduce_sum(actions.log_prob(new, rows["action"]), axis=-1)
        if settings["kind"] == "reinforce":
            return -tf.reduce_mean(advantage * log_prob)
        gain, penalty = advantage * log_prob, 0.0
        if settings["kind"] == "ppo":
            old, clip = actions.log_prob(rows["old"], rows["action"]), settings["clip"]
            ratio = tf.exp(log_prob - tf.reduce_sum(old, axis=-1))
            clipped = tf.clip_by_value(ratio, 1.0 - clip, 1.0 + clip)
            gain = tf.minimum(ratio * advantage, clipped * advantage)
            penalty = settings["kl_coefficient"] * actions.kl(rows["old"], new)
        error = tf.square(self._value(rows["observation"]) - rows["target"])
        return tf.reduce_mean(penalty - gain + settings["value_coefficient"] * error)
