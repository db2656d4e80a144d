"""Sets how many threads TensorFlow uses, so that results do not depend on their number."""

from __future__ import annotations

import os

import tensorflow as tf


def cpus(processes: int) -> int:
    """Returns the CPUs that this process may use, divided by `processes` that share them; >= 1."""
    return max(1, len(os.sched_getaffinity(0)) // processes)


def configure_tensorflow(threads: int) -> None:
    """Makes TensorFlow run each operation on one thread, and `threads` operations at once.

    Raises:
      RuntimeError: TensorFlow has already started with other settings; results would not be
        reproducible.
    """
    current = tf.config.threading
    if (current.get_intra_op_parallelism_threads(), current.get_inter_op_parallelism_threads()) == (
        1,
        threads,
    ):
        return
    try:
        current.set_intra_op_parallelism_threads(1)
        current.set_inter_op_parallelism_threads(threads)
    except RuntimeError:
        raise RuntimeError(
            "TensorFlow started with other thread settings; build the first Shards before any "
            "other use of TensorFlow, and keep config.compute.threads the same in a process"
        ) from None
