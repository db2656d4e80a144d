"""Tests that eager tensors leak nothing, and reproduces the leak of TensorFlow that was mended."""

from __future__ import annotations

import subprocess
import sys

import pytest
import tensorflow as tf

from epg_tf.core.eager_tensors import stop_leak

REPRODUCTION = """
import sys
import tensorflow as tf

x = tf.constant(1.0)
tf.identity(x)

def leaked(tensors):
    before = sys.getallocatedblocks()
    for _ in range(tensors):
        tf.identity(x)
    return sys.getallocatedblocks() - before

print(leaked(10_000))
import epg_tf.core.eager_tensors
print(epg_tf.core.eager_tensors.stop_leak())
print(leaked(10_000))
"""


def blocks_after(tensors: int) -> int:
    """Returns how many blocks of Python's memory are in use after some tensors more than before."""
    value = tf.constant(1.0)
    before = sys.getallocatedblocks()
    for _ in range(tensors):
        tf.identity(value)
    return sys.getallocatedblocks() - before


def test_tensors_leak_nothing():
    assert stop_leak()
    blocks_after(100)
    assert blocks_after(5000) < 500


def test_tensors_still_have_attributes():
    assert stop_leak()
    tensor = tf.identity(tf.constant(1.0))
    with pytest.raises(AttributeError, match="no attribute 'remark'"):
        _ = tensor.remark
    tensor.remark = "text"
    assert tensor.remark == "text"
    assert vars(tensor) == {"remark": "text"}
    assert float(tensor + 1.0) == 2.0


@pytest.mark.slow
def test_the_leak_is_tensorflows():
    """Where a newer TensorFlow does not leak any more, `core.eager_tensors` is to be removed."""
    run = subprocess.run(
        [sys.executable, "-c", REPRODUCTION], capture_output=True, text=True, check=True
    )
    before, mended, after = run.stdout.split()
    assert int(before) >= 10_000
    assert mended == "True"
    assert int(after) < 500
