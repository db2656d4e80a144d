"""Checks the channels that a user's file adds to those of the package."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import tensorflow as tf

from epg_tf.core.errors import ConfigError
from epg_tf.core.types import EnvironmentSpec
from epg_tf.losses.extra_channels import (
    GOAL_SIZE,
    Recorded,
    are_shipped,
    extra_channel,
    extra_values,
    sees_goal,
)
from epg_tf.losses.settings import LossConfig


def check_channels(loss: LossConfig, spec: EnvironmentSpec) -> None:
    """Computes users' channels for two lives of random steps, for the first of them alone, and for
    a buffer that is half full, and traces them; in a graph their errors would take many lines.

    Raises:
      ConfigError: One fails, has another shape than it says, is not finite, or mixes lives.
    """
    shape = (2, loss.buffer_steps)
    two, one, short = _random_lives(loss, spec, shape)
    for name in loss.channels:
        if are_shipped([name]):
            continue
        width = extra_channel(name).width_with(spec.observation_size)
        expected, single = [*shape, width], replace(loss, channels=(name,))
        try:
            both, alone, padded = (
                extra_values(recorded, single)[name] for recorded in (two, one, short)
            )
            _trace(two, single)
        except tf.errors.OperatorNotAllowedInGraphError as error:
            raise ConfigError(
                f"config.loss.channels: {name!r} has `if`, `for` or `while` on a tensor, which "
                "updates do not compile; use tf.where, or functions of whole tensors"
            ) from error
        except Exception as error:
            reason = f"{error}".partition("\n")[0]
            raise ConfigError(
                f"config.loss.channels: {name!r} fails ({type(error).__name__}: {reason}); correct "
                "its function"
            ) from error
        for found in (both, padded):
            if found.shape != expected:
                raise ConfigError(
                    f"config.loss.channels: {name!r} has the shape {list(found.shape)} where lives "
                    f"x steps x width are {expected}; correct its function or its width"
                )
        if not np.isfinite([both, padded]).all():
            raise ConfigError(
                f"config.loss.channels: {name!r} gives values that are not finite, for random "
                "steps or for a buffer whose older half is zeros; correct its function"
            )
        if alone.shape != both[:1].shape or not np.allclose(both[:1], alone, 1e-3, 1e-5):
            raise ConfigError(
                f"config.loss.channels: {name!r} gives a life other values where there is another "
                "life beside it; its function must not mix rows"
            )


def _random_lives(
    loss: LossConfig, spec: EnvironmentSpec, shape: tuple[int, int]
) -> tuple[Recorded, Recorded, Recorded]:
    """Returns two lives of random steps, the first of them alone, and both in a buffer that is half
    full.

    Args:
      loss: Settings of the loss.
      spec: Sizes of observations and actions.
      shape: (2, N), lives and steps.
    """
    generator = np.random.default_rng(0)
    observation, action, reward = (
        tf.constant(generator.standard_normal((*shape, size)), tf.float32)
        for size in (spec.observation_size, spec.action_size, 1)
    )
    ended = tf.constant(generator.random((*shape, 1)) < 0.1, tf.float32)
    time = tf.constant(generator.random((1, *shape[1:], 1)), tf.float32)
    lived = tf.ones((1, *shape[1:], 1))
    goal_size = GOAL_SIZE if sees_goal(loss) else 0
    goal = tf.constant(generator.standard_normal((*shape, goal_size)), tf.float32)
    two = Recorded(
        observation, action, reward, ended, lived, time, goal, observation, reward, ended
    )
    one = Recorded(*(part[:1] for part in two))
    begun = np.arange(shape[1])[None, :, None] >= shape[1] // 2  # the older half is padding
    short = Recorded(*(tf.where(begun, part, 0.0) for part in two[:-1]))
    two, one, short = (part._replace(turning=spec.turning) for part in (two, one, short))
    return two, one, short


def _trace(recorded: Recorded, loss: LossConfig) -> None:
    """Traces channels as an update does: of symbolic tensors, and without AutoGraph."""
    tf.function(
        lambda *parts: extra_values(Recorded._make([*parts, recorded.turning]), loss),
        autograph=False,
    ).get_concrete_function(*recorded[:-1])
