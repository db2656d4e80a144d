"""Writes the numbers of a run to a TensorBoard log."""

from __future__ import annotations

import contextlib
import functools
import io
import math
import socket
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import tensorflow as tf
from PIL import Image, UnidentifiedImageError

from epg_tf.core import files
from epg_tf.core.errors import RecordError

_v1 = tf.compat.v1

MEANINGS = {
    "agreement": "cosine of the angle between the gradients of the objective and of DDPG",
    "alpha": "share of the surrogate loss in what agents minimise",
    "clipped_share": "share of PPO's probability ratios that were clipped",
    "communication_bytes": "bytes that this process sent to others in the epoch",
    "communication_seconds": "time of communication between processes (s)",
    "critic_error": "squared TD errors of both critics, added; mean over steps and updates",
    "diverged_trials": "trials of meta-training whose physics diverged",
    "env_steps": "env steps of the epoch, round or iteration",
    "env_steps_per_second": "speed of the epoch",
    "failed_agents": "agents whose physics diverged or learning was not finite in the round",
    "failed_lives": "lifetimes that were not finite",
    "failed_validation_lives": "lifetimes of validation that were not finite",
    "failed_validation_trials": "trials of validation whose physics diverged",
    "fitness": "of lifetimes of the epoch: the return of the final policy",
    "gain_mean": "mean return after adaptation less that before",
    "goals_reached": "mean number of episodes of a lifetime that ended at the goal",
    "gradient_norm": "norm of the meta-gradient",
    "means_beyond": "share of the policy's mean actions outside the bounds of actions",
    "memory_norm": "norm of the weights of the agents' memory at the end of their lifetimes",
    "objective_gradient": "mean norm of the agents' gradients of the objective",
    "phi_norm": "norm of what is evolved",
    "policy_loss": "PPO's loss of the policy",
    "return_after_mean": "mean return of meta-training after adaptation",
    "return_before_mean": "mean return of meta-training before adaptation",
    "seconds": "time of the epoch, round or iteration (s)",
    "signal_to_noise": "of the estimated gradient; near 0: few directions, many parameters",
    "success_rate": "share of final episodes that ended at the goal",
    "training_return": "mean return of agents of meta-training, with exploration",
    "update_cosine": "cosine of the angle between the last two updates of what is evolved",
    "update_norm": "norm of the last update of what is evolved",
    "updates": "updates of the policy in a lifetime",
    "validation_return": "mean return of fresh agents on tasks of validation",
    "value_loss": "PPO's loss of the value function",
    "value": "mean value of the critics for actions of the policies",
}
"""Name of a curve, up to `/` or the name of a statistic -> what TensorBoard says of it."""


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
            _v1.Summary.Value(
                tag=start + name,
                metadata=_v1.SummaryMetadata(summary_description=meaning(name)),
                simple_value=float(value),
            )
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

    def picture(self, name: str, path: Path) -> None:
        """Shows a PNG file under `name`; nothing where it is not one."""
        try:
            content = files.read_bytes(path, "the picture")
            with Image.open(io.BytesIO(content)) as picture:
                width, height = picture.size
        except (RecordError, UnidentifiedImageError):
            return
        image = _v1.Summary.Image(
            height=height, width=width, colorspace=4, encoded_image_string=content
        )
        value = _v1.Summary.Value(tag=name, image=image)
        self._write(_v1.Event(wall_time=time.time(), summary=_v1.Summary(value=[value])))

    def close(self) -> None:
        """Closes the event file, if there is one; later points open a new one."""
        if "_records" in vars(self):
            records = vars(self).pop("_records")
            with _disk_errors():
                records.close()


def meaning(column: str) -> str:
    """Returns what a column of metrics.csv means; nothing where that is not known."""
    name = column.partition("/")[0]
    return MEANINGS.get(name) or MEANINGS.get(name.rpartition("_")[0], "")


@contextlib.contextmanager
def _disk_errors() -> Iterator[None]:
    """Raises OSError, which names the file, for what TensorFlow raises."""
    try:
        yield
    except tf.errors.OpError as error:
        raise OSError(files.one_line(error)) from error
