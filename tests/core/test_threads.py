"""Tests epg_tf.core.threads: TensorFlow's threads cannot change once it has started."""

from __future__ import annotations

import pytest
import tensorflow as tf

from epg_tf.core.errors import ConfigError
from epg_tf.core.threads import configure_tensorflow, cpus


def test_cpus_are_shared_and_never_none():
    assert 1 <= cpus(2) <= cpus(1)
    assert cpus(10**6) == 1


def test_other_threads_after_the_start_are_refused():
    tf.constant(0.0)  # starts TensorFlow
    threads = tf.config.threading.get_inter_op_parallelism_threads()
    configure_tensorflow(threads)
    with pytest.raises(
        ConfigError, match=rf"^threads={threads + 1}: .* with {threads} oper.*; keep"
    ):
        configure_tensorflow(threads + 1)
    configure_tensorflow(threads)
