"""Sets how many threads TensorFlow uses, so that results do not depend on their number.

TensorFlow is imported where it is needed: launchers ask for the number of CPUs before that.
"""

from __future__ import annotations

import os
import warnings

from epg_tf.core.control_groups import group_limits

_told: list[int] = []  # at most one number, see `use`


def use(threads: int) -> None:
    """Makes this process compute on so many threads, whatever settings say."""
    _told[:] = [threads]


def threads_of(setting: int, processes: int = 1) -> int:
    """Returns on how many threads this process computes: as `use` said, else as a setting says,
    else one per CPU that it may use.

    Args:
      setting: Number of threads, 0 where none is set.
      processes: Number of processes that share the CPUs.
    """
    return _told[0] if _told else setting or cpus(processes)


def cpus(processes: int) -> int:
    """Returns the CPUs that this process may use, divided by `processes` that share them; >= 1.

    Control groups, as of containers, may allow fewer than there are.
    """
    if not hasattr(os, "sched_getaffinity"):
        return max(1, (os.cpu_count() or 1) // processes)  # macOS and Windows
    limits = group_limits("cpu", 2, ("cpu.cfs_quota_us", "cpu.cfs_period_us"), ("cpu.max",))
    allowed = [quota / period for quota, period in limits if quota > 0]  # -1 is no limit
    most = min([len(os.sched_getaffinity(0)), *allowed])
    return max(1, int(most // processes))


def has_gpu() -> bool:
    """Returns whether TensorFlow sees a GPU."""
    import tensorflow as tf

    return bool(tf.config.list_physical_devices("GPU"))


def configure_tensorflow(threads: int) -> None:
    """Makes TensorFlow run each operation on one thread, and `threads` operations at once.

    Where it has started already, e.g. in a notebook, it keeps the threads that it has, and warns if
    that could change results. From then on eager tensors do not leak either, see
    `core.eager_tensors`.
    """
    import tensorflow as tf

    from epg_tf.core.eager_tensors import stop_leak

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
