"""Computes sizes of arrays; needs no TensorFlow, so that settings can be checked without it."""

from __future__ import annotations

from collections.abc import Sequence


def convolution_length(steps: int, width: int, stride: int) -> int:
    """Returns how many outputs a valid convolution over `steps` has; 0 where the kernel is longer
    than the input.
    """
    return max(0, (steps - width) // stride + 1)


def number_of_weights(sizes: Sequence[int]) -> int:
    """Returns the number of weights of a network with these layer sizes."""
    return sum((before + 1) * after for before, after in zip(sizes[:-1], sizes[1:], strict=True))
