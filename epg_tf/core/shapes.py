"""Computes lengths of arrays; needs no TensorFlow, so that settings can be checked without it."""

from __future__ import annotations


def convolution_length(steps: int, width: int, stride: int) -> int:
    """Returns how many outputs a valid convolution over `steps` has; 0 where the kernel is longer
    than the input.
    """
    return max(0, (steps - width) // stride + 1)
