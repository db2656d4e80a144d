"""Fits a baseline that is linear in features of observation and time to each life's samples (Duan
et al. 2016, section 5), and estimates advantages with it.

Its values are of the rest of an episode, whose length the features know: so a time limit is an end
here, as in MAML's own experiments.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import tensorflow as tf

from epg_tf.core.types import Array
from epg_tf.losses.surrogates import Steps, advantages, standardised

_RIDGE = 1e-5  # share of the number of samples that is added to the diagonal
_LARGEST = 10.0  # of a normalised observation


class Visited(NamedTuple):
    """T samples of each of P lives.

    Attributes:
      observation: [P, T, O], normalised.
      reached: [P, T, O], normalised observations after each step, in the same episode.
      time: [P, T], share of the episode's limit that had gone by before each step.
      ended: [P, T] bool, whether the step was the last of its episode.
    """

    observation: Array
    reached: Array
    time: Array
    ended: Array


def values(visited: Visited, step: float, returns: Array) -> tuple[Array, Array]:
    """Returns values of the states acted in and reached, [P, T] float32 each, of a fit per life.

    Args:
      visited: Samples.
      step: Share of the limit that a step takes.
      returns: [P, T], what followed each of them in its episode.
    """
    lives = (Visited(*life) for life in zip(*visited, strict=True))
    found = [_of_life(life, step, its) for life, its in zip(lives, returns, strict=True)]
    value, next_value = (np.stack(part) for part in zip(*found, strict=True))
    return value, next_value


def _of_life(visited: Visited, step: float, returns: Array) -> tuple[Array, Array]:
    """Returns `values` of one life, [T] each, by least squares.

    A state reached at an episode's end is worth 0. An episode that the samples' end cut off takes
    no part in the fit, unless it is the only one.
    """
    known = features(visited.observation, visited.time)
    counted = complete(visited.ended)[:, None]
    squares = np.matmul((known * counted).T, known)
    squares += _RIDGE * len(known) * np.eye(known.shape[1])
    weights = np.linalg.solve(squares, np.matmul((known * counted).T, returns.astype(np.float64)))
    next_value = np.matmul(features(visited.reached, visited.time + step), weights)
    return (
        np.matmul(known, weights).astype(np.float32),
        np.where(visited.ended, 0.0, next_value).astype(np.float32),
    )


def steps_into_episode(ended: Array) -> Array:
    """Returns how many steps of its episode came before each step, [P, T] float32.

    Args:
      ended: [P, T] bool, at the last step of an episode; one begins at the first step.
    """
    numbers = np.arange(ended.shape[1])
    begun = np.zeros(ended.shape, int)
    begun[:, 1:] = np.maximum.accumulate(np.where(ended[:, :-1], numbers[1:], 0), axis=1)
    return (numbers - begun).astype(np.float32)


def features(observation: Array, time: Array) -> Array:
    """Returns o, o^2, t, t^2, t^3 and 1, [T, 2 O + 4] float64, of [T, O] and [T]."""
    seen = np.clip(observation.astype(np.float64), -_LARGEST, _LARGEST)
    late = time.astype(np.float64)[:, None]
    ones = np.ones_like(late)
    return np.concatenate([seen, np.square(seen), late, late**2, late**3, ones], axis=1)


def complete(ended: Array) -> Array:
    """Returns which samples, [T] bool, belong to episodes that ended; all, where none did."""
    followed: Array = np.logical_or.accumulate(ended[::-1])[::-1]
    return followed | ~ended.any()


@tf.function(autograph=False)
def returns_to_go(
    reward: tf.Tensor, terminated: tf.Tensor, truncated: tf.Tensor, discount: float
) -> tf.Tensor:
    """Returns the discounted rewards that followed each sample in its episode, all [P, T]."""
    nothing = tf.zeros_like(reward)
    return advantages(Steps(reward, nothing, nothing, terminated, truncated), discount, 1.0)


@tf.function(autograph=False)
def standardised_advantages(steps: Steps, discount: float, gae_lambda: float) -> tf.Tensor:
    """Returns generalised advantage estimates with mean 0 and deviation 1 in each row, [P, T]."""
    return standardised(advantages(steps, discount, gae_lambda))
