"""Turns observations about the vertical, so that a loss can teach the same in every direction.

Not in the papers. GoalAnt rewards the velocity towards a goal that agents do not see. A loss that
sees each step as if the reward rose with the velocity along +x needs one valley for all goals: its
agents learn to do for theirs what a policy for goals at +x does.
"""

from __future__ import annotations

from collections.abc import Sequence

import tensorflow as tf

_DEVIATION_FLOOR = 1e-2  # of components, as they are recorded
_VARIANCE_FLOOR = 1e-6  # of velocities, (m/s)^2
_ROUNDING = 1e-10  # of a sum of squares: what smaller shares differ by is rounding alone

Turning = Sequence[tuple[int, int, float]]


def turned_towards_reward(
    observation: tf.Tensor, reward: tf.Tensor, lived: tf.Tensor, turning: Turning
) -> tf.Tensor:
    """Turns observations into the frame whose x axis is the direction of the velocity in which the
    reward rises fastest, by least squares over the life's steps in the buffer; then scales each
    component to root mean square 1 over these.

    Of the two quaternions of an orientation it returns the one whose first component is not
    negative. A reward that never changes turns nothing; one that changes, but not with the
    velocity, turns by a random angle.

    Args:
      observation: [P, N, O], not normalised; padding all zeros.
      reward: [P, N, 1], any unit.
      lived: [1, N, 1], 0.0 in the padding.
      turning: See `EnvironmentSpec.turning`; not empty.

    Returns:
      [P, N, O], padding all zeros.
    """
    steps = tf.maximum(tf.reduce_sum(lived, axis=1, keepdims=True), 1.0)
    angle = -_direction(observation, reward, lived, steps, turning)
    columns = tf.unstack(observation, axis=2)
    for first, second, share in turning:
        cosine, sine = tf.cos(share * angle), tf.sin(share * angle)
        x, y = columns[first], columns[second]
        columns[first], columns[second] = cosine * x - sine * y, sine * x + cosine * y
    quaternion = [pair for *pair, share in turning if share != 1.0]
    if quaternion:
        sign = tf.where(columns[quaternion[0][0]] < 0.0, -1.0, 1.0)
        for column in [number for pair in quaternion for number in pair]:
            columns[column] *= sign
    turned = tf.stack(columns, axis=2)
    square = tf.reduce_sum(tf.square(turned), axis=1, keepdims=True) / steps
    return turned / tf.maximum(tf.sqrt(square), _DEVIATION_FLOOR)


def _direction(
    observation: tf.Tensor, reward: tf.Tensor, lived: tf.Tensor, steps: tf.Tensor, turning: Turning
) -> tf.Tensor:
    """Returns the angle of b in the regression reward = a + b . velocity, [P, 1] in rad."""

    def about_mean(values: tf.Tensor) -> tf.Tensor:
        mean = tf.reduce_sum(values * lived, axis=1, keepdims=True) / steps
        return (values - mean) * lived

    columns = list(turning[0][:2])
    velocity, rewards = about_mean(tf.gather(observation, columns, axis=2)), about_mean(reward)
    covariance = tf.matmul(velocity, velocity, transpose_a=True) / steps
    covariance += _VARIANCE_FLOOR * tf.eye(2)
    slope = tf.matmul(velocity, rewards, transpose_a=True)[:, :, 0]
    # b is the inverse of the covariance times the slope, but for a factor above 0
    x = covariance[:, 1, 1] * slope[:, 0] - covariance[:, 0, 1] * slope[:, 1]
    y = covariance[:, 0, 0] * slope[:, 1] - covariance[:, 1, 0] * slope[:, 0]
    changes = tf.reduce_sum(tf.square(rewards), axis=[1, 2])
    never = changes < _ROUNDING * tf.reduce_sum(tf.square(reward * lived), axis=[1, 2])
    return tf.where(never, 0.0, tf.atan2(y, x))[:, None]
