"""Adds to a learned loss what holds policies within limits, whatever phi is.

All else in a loss grows at most linearly with a mean or a log standard deviation of a scored step
(product units of several factors are bounded). So a slope moves them on through the whole life of
an agent, and with a limit L no farther than to L + slope / 2. One case has no such bound: product
units of one factor that see the log probability grow as it does, with the square of a mean.
Means at older steps of the buffer are not limited, but they are means of the same policy.
"""

from __future__ import annotations

from collections.abc import Sequence

import tensorflow as tf

from epg_tf.losses.channels import LOG_STD, MEANS, POLICY, Channel
from epg_tf.losses.settings import LossConfig


def excess(
    channels: Sequence[Channel], config: LossConfig, scored: tf.Tensor, constants: tf.Tensor
) -> tf.Tensor:
    """Returns the sum over components of max(|mean| - limit, 0)^2 + max(log_std - highest, 0)^2 +
    max(lowest - log_std, 0)^2.

    Args:
      channels: Declared inputs of the loss; the means are the first of kind `POLICY`, and the
        log standard deviations the next, or the first that are constant.
      config: With `mean_limit` and `log_std_limits`.
      scored: [P, B, C_p], policy channels at the scored steps.
      constants: [P, 1, C_c], constant channels.

    Returns:
      [P, B].
    """
    kinds = {channel.name: channel.kind for channel in channels}
    width = next(channel.width for channel in channels if channel.name == MEANS)
    means = scored[:, :, :width]
    by_state = kinds[LOG_STD] == POLICY
    log_std = scored[:, :, width : 2 * width] if by_state else constants[:, :, :width]
    far = tf.nn.relu(tf.abs(means) - config.mean_limit)
    lowest, highest = config.log_std_limits
    outside = tf.nn.relu(log_std - highest) + tf.nn.relu(lowest - log_std)  # one of them at most
    return tf.reduce_sum(tf.square(far), axis=2) + tf.reduce_sum(tf.square(outside), axis=2)
