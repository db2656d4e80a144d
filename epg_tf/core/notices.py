"""Silences notices of the frameworks that do not concern users of this package."""

from __future__ import annotations

import os

import gym_notices.notices


def silence() -> None:
    """Silences what TensorFlow prints about devices, and what the old Gym, which TF-Agents imports,
    prints about its successor.

    TensorFlow reads TF_CPP_MIN_LOG_LEVEL once, at its import; a value that is set stays.
    """
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    gym_notices.notices.notices.clear()
