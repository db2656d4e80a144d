"""An evolved initial policy for use outside this package: plain variables, named weights."""

from __future__ import annotations

from collections.abc import Mapping

import tensorflow as tf

from epg_tf.core.types import Array


class ExportedStart(tf.Module):
    """The policy that agents start from (EPG, section 4.2: PPO+I).

    Args:
      weights: Name -> weights of the policy; empty where evolution did not move it.
      description: What `describe` returns, JSON.
      name: Of the module.

    Attributes:
      initial_policy: Function of nothing -> name -> weights; exported where there are some.
      describe: Function of nothing -> {"json": the description}.
      start: Name -> variable, the weights.
    """

    def __init__(
        self, weights: Mapping[str, Array], description: str, name: str = "initial_policy"
    ):
        super().__init__(name=name)
        self._description = description
        self.start = {
            name: tf.Variable(values, trainable=False, name=name)
            for name, values in weights.items()
        }
        self.describe = tf.function(self._describe, input_signature=[], autograph=False)
        self.initial_policy = tf.function(self._initial_policy, input_signature=[], autograph=False)

    def signatures(self) -> dict[str, tf.types.experimental.ConcreteFunction]:
        """Returns the named functions of the SavedModel."""
        names = ["describe"] + ["initial_policy"] * bool(self.start)
        return {name: getattr(self, name).get_concrete_function() for name in names}

    def _initial_policy(self) -> dict[str, tf.Tensor]:
        return {name: tf.identity(weight) for name, weight in self.start.items()}

    def _describe(self) -> dict[str, tf.Tensor]:
        return {"json": tf.constant(self._description)}
