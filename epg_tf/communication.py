"""Combines what ranks found. The one module that will know Horovod; without it, one process is the whole world."""

from __future__ import annotations

from typing import Protocol

import numpy as np


class Communicator(Protocol):
    """What evolution needs of a group of ranks."""

    rank: int
    size: int

    def sum(self, values: np.ndarray) -> np.ndarray:
        """Returns the elementwise sum of `values` over all ranks; every rank gets the same bits."""


class LocalCommunicator:
    """The group of one process."""

    rank = 0
    size = 1

    def sum(self, values: np.ndarray) -> np.ndarray:
        """Returns `values`."""
        return values
