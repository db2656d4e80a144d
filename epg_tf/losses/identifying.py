"""Lets a learned loss find out what motors do: a valley whose floor follows the effects of actions.

    L_i += sum over j of softsquare(mean_j - e_j U V^T [x_i; 1])

e_j, [O], says how component j of the action changed the observation in this agent's own history, so
the floor is the same whatever way the motors are wired, turned or reversed: U says which changes
are wanted, V at which inputs x. The size of U and V does not grow with the number of actions. V
begins at zero, the floor at the middle of the actions. Not in the papers.
"""

from __future__ import annotations

from collections.abc import Sequence

import tensorflow as tf

from epg_tf.core.parallel_layers import parallel_matmul
from epg_tf.core.parameters import Params
from epg_tf.losses.channels import EFFECTS, HISTORY, Channel, outputs_name
from epg_tf.losses.product_units import product_units

WANTED = "identifying/changes"  # U
WHERE = "identifying/inputs"  # V
_UNSEEN = ("action", "reward", "termination")


def seen_rows(channels: Sequence[Channel]) -> list[int]:
    """Returns which recorded inputs are x: the observation and further channels."""
    rows: list[int] = []
    start = 0
    for channel in channels:
        if channel.kind == HISTORY:
            if channel.name not in _UNSEEN:
                rows += range(start, start + channel.width)
            start += channel.width
    return rows


def identifying_shapes(channels: Sequence[Channel], ranks: int) -> dict[str, tuple[int, ...]]:
    """Returns name -> shape of U, [O, R], and V, [1 + size of x, R].

    Args:
      channels: Declared inputs, with one of kind `EFFECTS`.
      ranks: R >= 1.
    """
    width = {channel.name: channel.width for channel in channels}
    effects = next(channel.width for channel in channels if channel.kind == EFFECTS)
    return {
        WANTED: (effects // width[outputs_name(channels)], ranks),
        WHERE: (len(seen_rows(channels)) + 1, ranks),
    }


def floors(params: Params, effects: tf.Tensor) -> tf.Tensor:
    """Combines what actions do with what is wanted: e U V^T, [P, A, 1 + size of x].

    Args:
      params: The weights, of P lives or of 1.
      effects: [P, A O], from `action_effects`.
    """
    changes, inputs = params[WANTED], params[WHERE]
    size = changes.shape[1]
    by_action = tf.reshape(effects, [-1, effects.shape[1] // size, size])
    return parallel_matmul(parallel_matmul(by_action, changes), tf.linalg.matrix_transpose(inputs))


def distance_to_floor(
    floor: tf.Tensor, channels: Sequence[Channel], history: tf.Tensor, policy: tf.Tensor
) -> tf.Tensor:
    """Returns the sum over actions of soft squares of what means, or probabilities, lack: [P, B].

    Args:
      floor: [P, A, 1 + size of x], from `floors`.
      channels: Declared inputs.
      history: [P, B, C_h], recorded channels at the scored steps.
      policy: [P, B, C_p], policy channels there.
    """
    inputs = tf.gather(history, seen_rows(channels), axis=2)
    wanted = tf.matmul(inputs, floor[:, :, :-1], transpose_b=True) + floor[:, None, :, -1]
    means = policy[:, :, : wanted.shape[2]]  # log deviations may follow
    return tf.reduce_sum(product_units(means - wanted, 1), axis=2)
