"""Sets how many threads TensorFlow uses, so that results do not depend on their number."""

from __future__ import annotations

import os

import tensorflow as tf

from epg_tf.core.eager_tensors import stop_leak
from epg_tf.core.errors import ConfigError


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

    From then on eager tensors do not leak either, see `core.eager_tensors`.

    Raises:
      ConfigError: TensorFlow has already started with other settings; results would not be
        reproducible.
    """
    stop_leak()
    current = tf.config.threading
    each = current.get_intra_op_parallelism_threads()
    together = current.get_inter_op_parallelism_threads()
    if (each, together) == (1, threads):
        return
    try:
        current.set_intra_op_parallelism_threads(1)
        current.set_inter_op_parallelism_threads(threads)
    except RuntimeError as error:
        raise ConfigError(
            f"threads={threads}: TensorFlow has started with {together} operations at once, each "
            f"on {each} threads (0: its own choice); keep the number of threads the same in "
            "a process, and make the first Shards before any other use of TensorFlow"
        ) from error
