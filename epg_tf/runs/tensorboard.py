"""Writes the numbers of a run to a TensorBoard log."""

from __future__ import annotations

import functools
import math
import time
from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from epg_tf.core import files

_v1 = tf.compat.v1


class TensorBoardWriter:
    """Writes scalars and texts to a TensorBoard log; every call is flushed.

    Args:
      folder: Created if missing; the first point or text opens a new event file in it.
    """

    def __init__(self, folder: files.PathLike):
        self._folder = folder

    @functools.cached_property
    def _writer(self) -> Any:
        # Only the v1 writer can write session logs. It needs a graph only when it is made, and does
        # not start TensorFlow's runtime, so threads can still be configured afterwards.
        with _v1.Graph().as_default():
            # TensorBoard reads files in the order of their names, which contain the second; runs
            # that start within the same second need more digits.
            suffix = f".{time.time_ns() % 10**9:09d}"
            return _v1.summary.FileWriter(str(self._folder), filename_suffix=suffix)

    def scalars(self, step: int, mapping: Mapping[str, float], prefix: str = "") -> None:
        """Adds one point at `step` to the curve `prefix/name` of every item; NaN adds none."""
        start = f"{prefix}/" if prefix else ""
        values = [
            _v1.Summary.Value(tag=start + name, simple_value=float(value))
            for name, value in mapping.items()
            if not math.isnan(value)
        ]
        self._writer.add_summary(_v1.Summary(value=values), step)
        self._writer.flush()

    def purge_after(self, step: int) -> None:
        """Hides points after `step` that earlier processes wrote; call it when a run resumes.

        TensorBoard's fast loader hides those of a curve as soon as it gets a new point at or before
        them.
        """
        log = _v1.SessionLog(status=_v1.SessionLog.START)
        self._writer.add_session_log(log, step + 1)  # START hides this step and later
        self._writer.flush()

    def text(self, name: str, text: str) -> None:
        """Shows `text` (Markdown) under `name`."""
        plugin = _v1.SummaryMetadata.PluginData(plugin_name="text")
        metadata = _v1.SummaryMetadata(plugin_data=plugin)
        tensor = tf.make_tensor_proto(text.encode())
        value = _v1.Summary.Value(tag=name, metadata=metadata, tensor=tensor)
        self._writer.add_summary(_v1.Summary(value=[value]), 0)
        self._writer.flush()

    def close(self) -> None:
        """Closes the event file, if there is one; later points open a new one."""
        if "_writer" in vars(self):
            self._writer.close()
            del self._writer
