"""Writes the numbers of a run to a TensorBoard log."""

from __future__ import annotations

import contextlib
import functools
import math
import socket
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import tensorflow as tf

from epg_tf.core import files

_v1 = tf.compat.v1


class TensorBoardWriter:
    """Writes scalars and texts to a TensorBoard log; every call is flushed.

    TensorFlow's own writers hand points to a thread: where the disk is full that thread prints a
    traceback, and later points are lost without a word. This one writes records itself.

    Args:
      folder: Created if missing; the first point or text opens a new event file in it.

    Raises:
      OSError: Every method, where the log cannot be written.
    """

    def __init__(self, folder: files.PathLike):
        self._folder = Path(folder)

    @functools.cached_property
    def _records(self) -> Any:
        self._folder.mkdir(parents=True, exist_ok=True)
        # TensorBoard reads files in the order of their names, which contain the second; runs that
        # start within the same second need more digits.
        seconds, rest = divmod(time.time_ns(), 10**9)
        name = f"events.out.tfevents.{seconds:010d}.{socket.gethostname()}.{rest:09d}"
        records = tf.io.TFRecordWriter(str(self._folder / name))
        version = _v1.Event(wall_time=time.time(), file_version="brain.Event:2")
        records.write(version.SerializeToString())
        return records

    def _write(self, event: Any) -> None:
        """Writes one event to the disk."""
        try:
            with _disk_errors():
                self._records.write(event.SerializeToString())
                self._records.flush()
        except OSError:
            with contextlib.suppress(OSError):  # it tries again to write the rest
                self.close()
            raise

    def scalars(self, step: int, mapping: Mapping[str, float], prefix: str = "") -> None:
        """Adds one point at `step` to the curve `prefix/name` of every item; NaN adds none."""
        start = f"{prefix}/" if prefix else ""
        values = [
            _v1.Summary.Value(tag=start + name, simple_value=float(value))
            for name, value in mapping.items()
            if not math.isnan(value)
        ]
        summary = _v1.Summary(value=values)
        self._write(_v1.Event(wall_time=time.time(), step=step, summary=summary))

    def purge_after(self, step: int) -> None:
        """Hides points after `step` that earlier processes wrote; call it when a run resumes.

        TensorBoard's fast loader hides those of a curve as soon as it gets a new point at or before
        them.
        """
        log = _v1.SessionLog(status=_v1.SessionLog.START)  # hides this step and later
        self._write(_v1.Event(wall_time=time.time(), step=step + 1, session_log=log))

    def text(self, name: str, text: str) -> None:
        """Shows `text` (Markdown) under `name`."""
        plugin = _v1.SummaryMetadata.PluginData(plugin_name="text")
        metadata = _v1.SummaryMetadata(plugin_data=plugin)
        tensor = tf.make_tensor_proto(text.encode())
        value = _v1.Summary.Value(tag=name, metadata=metadata, tensor=tensor)
        self._write(_v1.Event(wall_time=time.time(), summary=_v1.Summary(value=[value])))

    def close(self) -> None:
        """Closes the event file, if there is one; later points open a new one."""
        if "_records" in vars(self):
            records = vars(self).pop("_records")
            with _disk_errors():
                records.close()


@contextlib.contextmanager
def _disk_errors() -> Iterator[None]:
    """Raises OSError, which names the file, for what TensorFlow raises."""
    try:
        yield
    except tf.errors.OpError as error:
        raise OSError(files.one_line(error)) from error
