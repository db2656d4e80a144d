"""Keeps TensorFlow from leaking 48 bytes with every eager tensor that a program makes.

On Python 3.11, `object.__new__` reserves room for the attributes of an object, 48 bytes for an
eager tensor. TensorFlow's class of eager tensors frees its objects itself, and does not know of
this room (https://github.com/tensorflow/tensorflow/issues/62551). So every eager tensor leaks it:
about 20 tensors with every update of a shard. The smallest reproduction is in
tests/core/test_eager_tensors.py.

The room is optional: CPython makes no use of it in, for example, subclasses of `float`, whose
attributes get a dictionary once there are any. So eager tensors get the constructor of such
classes, `PyType_GenericNew`, which does not reserve it. What then still leaks is that dictionary,
for tensors that are given an attribute: `tf.zeros` and `tf.zeros_like` do so. What runs often uses
`np.zeros` instead.
"""

from __future__ import annotations

import ctypes
import platform
import sys

import tensorflow as tf

_NEW = 312  # offset of tp_new in a PyTypeObject of CPython 3.11, 64 bit (bytes)


def stop_leak() -> bool:
    """Makes eager tensors without room for attributes, from now on and in the whole process.

    Returns:
      Whether they are made so now. False: this is another interpreter than the one that the package
      is for, or TensorFlow makes its tensors in another way; nothing has been changed.
    """
    if (
        sys.version_info[:2] != (3, 11)
        or platform.python_implementation() != "CPython"
        or ctypes.sizeof(ctypes.c_void_p) != 8
    ):
        return False
    generic = ctypes.cast(ctypes.pythonapi.PyType_GenericNew, ctypes.c_void_p).value
    if _constructor(list).value != generic:  # the offset is not that of this interpreter
        return False
    constructor = _constructor(tf.__internal__.EagerTensor)
    if constructor.value == _constructor(object).value:
        constructor.value = generic
    return constructor.value == generic


def _constructor(kind: type) -> ctypes.c_void_p:
    """Returns the slot of a class that holds the address of its constructor."""
    return ctypes.c_void_p.from_address(id(kind) + _NEW)
