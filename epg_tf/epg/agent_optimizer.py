"""Moves the weights of P agents by Adam, as one matrix: a tenth of the operations of Adam on each
variable, with the same bits.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from epg_tf.core.gradients import zero_rows
from epg_tf.core.optimizers import adam_update


class AgentOptimizer:
    """Holds the Adam moments of P agents, [P, K] for all K weights of an agent.

    Args:
      variables: The weights that it moves, [P, ...] each.
    """

    def __init__(self, variables: Sequence[tf.Variable]):
        self.variables = tuple(variables)
        self._shapes = [variable.shape for variable in variables]
        self._sizes = [shape[1:].num_elements() for shape in self._shapes]
        population = self._shapes[0][0]
        self._first = tf.Variable(tf.zeros([population, sum(self._sizes)]))
        self._second = tf.Variable(tf.zeros([population, sum(self._sizes)]))
        self._step = tf.Variable(0.0)

    def reset(self) -> None:
        """Begins new lives: no moments, no steps."""
        for variable in (self._first, self._second, self._step):
            variable.assign(np.zeros(variable.shape, np.float32))

    def apply(
        self, gradients: Sequence[tf.Tensor], keep: tf.Tensor, learning_rate: tf.Tensor
    ) -> None:
        """Moves the variables by one step.

        Args:
          gradients: One for each variable, of its shape.
          keep: [P] bool; where False, a gradient of zero takes its place.
          learning_rate: delta_in, >= 0.
        """
        flat = [
            tf.reshape(gradient, [-1, size])
            for gradient, size in zip(gradients, self._sizes, strict=True)
        ]
        change, first, second = adam_update(
            zero_rows(tf.concat(flat, axis=1), keep),
            self._first,
            self._second,
            self._step.assign_add(1.0),
            learning_rate=learning_rate,
        )
        self._first.assign(first)
        self._second.assign(second)
        parts = tf.split(change, self._sizes, axis=1)
        for variable, part, shape in zip(self.variables, parts, self._shapes, strict=True):
            variable.assign_add(tf.reshape(part, shape))
