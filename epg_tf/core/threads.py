"""Sets how many threads TensorFlow uses, so that results do not depend on their number."""

from __future__ import annotations

import os
import warnings

import tensorflow as tf

from epg_tf.core.eager_tensors import stop_leak


def cpus(processes: int) -> int:
    """Returns the CPUs that this process may use, divided by `processes` that share them; >= 1."""
    if hasattr(os, "sched_getaffinity"):
        return max(1, len(os.sched_getaffinity(0)) // processes)
    return max(1, (os.cpu_count() or 1) // processes)  # macOS and Windows


def has_gpu() -> bool:
    """Returns whether TensorFlow sees a GPU."""
    return bool(tf.config.list_physical_devices("GPU"))


def configure_tensorflow(threads: int) -> None:
    """Makes TensorFlow run each operation on one thread, and `threads` operations at once.

    Where it has started already, e.g. in a notebook, it keeps the threads that it has, and warns if
    that could change results. From then on eager tensors do not leak either, see
    `core.eager_tensors`.
    """
    stop_leak()
    current = tf.config.threading
    try:
        current.set_intra_op_parallelism_threads(1)
        current.set_inter_op_parallelism_threads(threads)
    except RuntimeError:
        each = current.get_intra_op_parallelism_threads()
        if each != 1:
            warnings.warn(
                f"TensorFlow has started with each operation on {each or 'several'} threads, so "
                "the last bits of results could differ from those on one thread; to rule that out, "
                "restart, and begin with tf.config.threading.set_intra_op_parallelism_threads(1)",
                RuntimeWarning,
                stacklevel=2,
            )
