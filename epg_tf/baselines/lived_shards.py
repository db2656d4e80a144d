"""Lets the agents of a baseline live in shards of a fixed size, several at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import numpy as np

from epg_tf.baselines.method import LearningCurves
from epg_tf.core.threads import configure_tensorflow, threads_of
from epg_tf.core.types import Array, LifeKey
from epg_tf.tasks.base import TaskFamily
from epg_tf.tasks.episodes import success_or_failure


class LivedShard(NamedTuple):
    """Holds how P agents lived: `returns` [P, T] along the curve, `final_return` [P] and `success`
    [P], as in `LearningCurves`.
    """

    returns: Array
    final_return: Array
    success: Array


def outcome(
    family: TaskFamily, returns: Array, final_return: Array, success: Array, failed: Array
) -> LivedShard:
    """Returns what P agents reached, without the numbers of those that `failed`, [P] bool."""
    return LivedShard(
        np.where(failed[:, None], np.nan, returns),
        np.where(failed, np.nan, final_return),
        success_or_failure(family, success, failed),
    )


def live_in_shards(
    live: Callable[[list[LifeKey]], LivedShard],
    keys: Sequence[LifeKey],
    shard_lives: int,
    threads: int,
    period: int,
) -> LearningCurves:
    """Returns how L agents lived.

    The last shard is filled with copies of the last agent, since a shard's size is part of the
    numbers.

    Args:
      live: Lets the agents of one shard live; called from several threads.
      keys: L of them.
      shard_lives: P, agents of a shard.
      threads: Shards at once; 0: one per CPU.
      period: Env steps between points of the curves.
    """
    at_once = threads_of(threads)
    configure_tensorflow(at_once)
    filled = [*keys, *([keys[-1]] * (-len(keys) % shard_lives))]
    shards = [filled[i : i + shard_lives] for i in range(0, len(filled), shard_lives)]
    with ThreadPoolExecutor(at_once) as pool:
        found = list(pool.map(live, shards))
    parts = zip(*found, strict=True)
    returns, final_return, success = (np.concatenate(part)[: len(keys)] for part in parts)
    return LearningCurves(
        (np.arange(returns.shape[1]) + 1) * period,
        returns,
        np.full(returns.shape, np.nan),
        final_return,
        success,
        np.full(len(keys), "", object),
    )
