"""Plays the ranks of a job with threads of one process."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from epg_tf.core.communication import Communicator


class ThreadRank(Communicator):
    """One rank; `board` and `barrier` are shared by all."""

    def __init__(self, rank: int, board: list, barrier: threading.Barrier):
        self.rank, self.size = rank, len(board)
        self._board, self._barrier = board, barrier

    def sum(self, values: np.ndarray) -> np.ndarray:
        """Adds up what all ranks have put on the board, and counts bytes."""
        assert values.dtype == np.int64
        self.bytes_sent += values.nbytes
        self._board[self.rank] = values.copy()
        self._barrier.wait(60)
        total = np.sum(self._board, axis=0)
        self._barrier.wait(60)
        return total


def on_ranks(size: int, work: Callable[[ThreadRank], object]) -> list:
    """Runs `work` on every rank at once; returns what each returned, or raises what the lowest that
    failed raised.
    """
    board, barrier = [None] * size, threading.Barrier(size)

    def attempt(rank):
        try:
            return work(ThreadRank(rank, board, barrier))
        except BaseException:
            barrier.abort()  # the others would wait for it
            raise

    with ThreadPoolExecutor(size) as pool:
        futures = [pool.submit(attempt, rank) for rank in range(size)]
    failed = [future for future in futures if future.exception()]
    causes = [f for f in failed if not isinstance(f.exception(), threading.BrokenBarrierError)]
    return [future.result() for future in (causes or failed or futures)]
