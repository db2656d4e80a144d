"""Writes files completely or not at all, and checks what it reads back.

All files of this program are written by `write_atomically`, except rows of metrics.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import shutil
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from epg_tf.core.errors import RecordError

PathLike = str | os.PathLike[str]

FORMAT_VERSION = 1  # of every JSON file; older files without a version have the same format
_TEXT_LIMIT = 16 * 2**20  # bytes; every JSON file and card of this program has a few kB


def one_line(message: object) -> str:
    """Returns a text without line breaks; for an exception without a text, its class and the code
    that raised it.
    """
    text = " ".join(str(message).split())
    if text or not isinstance(message, BaseException):
        return text
    frames = traceback.extract_tb(message.__traceback__)
    code = frames[-1].line if frames else ""
    return f"{type(message).__name__}{f' at `{code}`' if code else ''}"


def write_atomically(path: PathLike, write: Callable[[BinaryIO], Any]) -> None:
    """Replaces `path` by what `write(stream)` writes: completely, or not at all after an error.

    Args:
      path: File to create or replace; its folder must exist.
      write: Writes the whole content to a binary, seekable stream.

    Raises:
      OSError: The disk is full, the folder is missing or not writable, ...; it names a file. The
        old file is intact.
      Exception: Whatever `write` raises. The old file is intact.
    """
    path = Path(path)
    # With the process id in its name, no other process renames this unfinished file.
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    temporary.unlink(missing_ok=True)
    try:
        with open(temporary, "xb") as stream:
            write(stream)
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(temporary, path)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        if error.errno is not None and error.filename is None:  # of write() on a full disk
            error.filename = str(path)
        raise
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    _sync_folder(path.parent)


def replace_together(folder: PathLike, write: Callable[[Path], Any], last: str) -> None:
    """Replaces files of `folder` by those that `write(scratch)` writes into a scratch folder: none
    before all are written.

    Args:
      folder: Must exist; other files in it stay.
      write: Writes files into the folder that it is given.
      last: Name of a file that is removed first and put in last: where it is, all files belong
        together.

    Raises:
      OSError: The disk is full, ...; what was there is intact. Where a rename fails, `last` is
        missing.
      Exception: Whatever `write` raises; what was there is intact.
    """
    folder = Path(folder)
    remove_unfinished(folder, (last,))
    scratch = folder / f".{last}.{os.getpid()}.tmp"
    scratch.mkdir()
    try:
        write(scratch)
        (folder / last).unlink(missing_ok=True)
        for entry in sorted(scratch.iterdir(), key=lambda each: each.name == last):
            os.replace(entry, folder / entry.name)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    _sync_folder(folder)


def _sync_folder(folder: Path) -> None:
    """Writes the entries of `folder` to disk, so that a rename survives a power failure; does
    nothing on Windows, where folders cannot be opened.
    """
    if not hasattr(os, "O_DIRECTORY"):
        return
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_json(path: PathLike, mapping: Mapping[str, Any]) -> None:
    """Writes `mapping` and the format version as indented JSON, keys in order; NaN and infinities
    become null.

    Raises:
      TypeError: A value is neither JSON nor a NumPy number or array.
      OSError: The file cannot be written.
    """
    text = (
        json.dumps(plain({"format_version": FORMAT_VERSION, **mapping}), indent=2, allow_nan=False)
        + "\n"
    )
    write_atomically(path, lambda stream: stream.write(text.encode()))


def plain(value: Any) -> Any:
    """Converts `value` to JSON's own types; NaN and infinities become None."""
    if isinstance(value, Mapping):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def read_bytes(path: PathLike, what: str, limit: int = _TEXT_LIMIT) -> bytes:
    """Reads a regular file: a pipe would block for ever, and a device has no end.

    Args:
      path: The file.
      what: What it holds, for the error message, e.g. "the run's config".
      limit: Bytes that it has at most.

    Raises:
      RecordError: The file is missing, unreadable, no regular file, or above `limit`.
    """
    path = Path(path)
    try:
        if not path.exists():
            raise RecordError(f"{path}: {what} is missing; check the path")
        if not path.is_file():
            raise RecordError(
                f"{path}: {what} is no regular file, but a folder, pipe or device; check the path"
            )
        if (size := path.stat().st_size) > limit:
            raise RecordError(f"{path}: {what} has {size} bytes, above {limit}; check the path")
        return path.read_bytes()
    except OSError as error:
        raise RecordError(
            f"{path}: {what} cannot be read ({error.strerror}); restore it or create it again"
        ) from error


def read_text(path: PathLike, what: str) -> str:
    """Reads a text file; arguments as in `read_bytes`.

    Raises:
      RecordError: As there, or it is not UTF-8.
    """
    try:
        return read_bytes(path, what).decode("utf-8")
    except UnicodeDecodeError as error:
        raise RecordError(
            f"{path}: {what} cannot be read ({one_line(error)}); restore it or create it again"
        ) from error


def read_json(path: PathLike, what: str) -> dict[str, Any]:
    """Reads a JSON object; arguments as in `read_text`.

    Raises:
      RecordError: As there, or the file is not a JSON object, or of another format version.
    """
    text = read_text(path, what)
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise RecordError(
            f"{path}: {what} cannot be read ({one_line(error)}); restore it or create it again"
        ) from error
    if not isinstance(value, dict):
        raise RecordError(f"{path}: {what} holds no JSON object; create it again")
    version = value.get("format_version", FORMAT_VERSION)
    if type(version) is not int or version != FORMAT_VERSION:
        raise RecordError(
            f"{path}: {what} has format_version {version!r}, this program reads {FORMAT_VERSION}; "
            "update epg_tf"
        )
    return value


def prepare_folder(
    path: PathLike, own: Sequence[str], *, overwrite: bool | None, resume: bool | None = None
) -> None:
    """Makes `path` an existing folder this program may write to.

    Args:
      path: The folder; may be missing, empty, or (with resume or overwrite) in use.
      own: Names of the files and folders this program writes into the folder.
      overwrite: Remove the entries named in `own`; all others stay. Links are not followed. None:
        the caller cannot, and no message mentions it.
      resume: Keep everything that is there. None: likewise.

    Raises:
      RecordError: It is a file, cannot be created or written to, or is in use and neither resume
        nor overwrite is set; or an entry cannot be removed, and all are still there. The message
        begins with the path.
    """
    if not os.fspath(path):
        raise RecordError("the name of the folder is empty; name one, e.g. runs/first")
    folder = Path(path)  # without a slash at its end
    if resume and overwrite:
        raise RecordError(
            f"{folder}: resume=True and overwrite=True contradict each other; pass one of them"
        )
    try:
        folder.mkdir(parents=True, exist_ok=True)
        entries = sorted(folder.iterdir())
    except (FileExistsError, NotADirectoryError) as error:
        raise RecordError(
            f"{folder}: a file (or a dead link) is in the way; choose another folder"
        ) from error
    except OSError as error:
        raise RecordError(f"{folder}: {error.strerror}; choose another folder") from error
    if not os.access(folder, os.W_OK | os.X_OK):
        raise RecordError(
            f"{folder}: the folder is not writable; change its permissions or choose another folder"
        )
    if entries and not (resume or overwrite):
        going_on = "" if resume is None else "resume=True to continue it, "
        remedy = "" if overwrite is None else f"pass {going_on}overwrite=True to start it anew, or "
        raise RecordError(f"{folder}: the folder is not empty; {remedy}choose another folder")
    if overwrite:
        with replaced(folder, own):
            pass


@contextlib.contextmanager
def replaced(folder: Path, own: Sequence[str]) -> Iterator[None]:
    """Sets aside the entries named in `own`; removes them at the end, or puts them back after an
    error.

    Raises:
      RecordError: An entry could not be removed; all are as they were.
    """
    entries = [entry for entry in folder.iterdir() if entry.name in own]
    for entry in entries:
        _check_removable(entry)
    aside: list[tuple[Path, Path]] = []
    try:
        for entry in entries:
            hidden = folder / f".{entry.name}.{os.getpid()}.tmp"
            if hidden.exists():
                _remove(hidden)
            os.rename(entry, hidden)
            aside.append((hidden, entry))
        yield
    except BaseException:
        for hidden, entry in aside:
            os.rename(hidden, entry)
        raise
    remove_unfinished(folder, own)


def _check_removable(entry: Path) -> None:
    """Refuses a folder out of which, or of a folder in it, this process may remove nothing."""
    if entry.is_symlink():
        return
    for folder in (entry, *entry.rglob("*")):
        plain_folder = folder.is_dir() and not folder.is_symlink()
        if plain_folder and not os.access(folder, os.R_OK | os.W_OK | os.X_OK):
            raise RecordError(
                f"{folder}: the folder is not writable, so it cannot be replaced; change its "
                "permissions or choose another folder"
            )


def remove_unfinished(folder: PathLike, own: Sequence[str]) -> None:
    """Removes the unfinished files that killed processes left in a folder.

    Args:
      folder: No other process may be writing to it.
      own: Names of the files that this program writes there.
    """
    for entry in Path(folder).iterdir():
        if any(entry.name != name and _is_own(entry.name, name) for name in own):
            _remove(entry)


def _is_own(name: str, own: str) -> bool:
    """Returns whether `name` is `own`, or an unfinished file of that name."""
    return name == own or (name.startswith(f".{own}.") and name.endswith(".tmp"))


def _remove(entry: Path) -> None:
    if entry.is_dir() and not entry.is_symlink():
        shutil.rmtree(entry)  # does not follow links inside
    else:
        entry.unlink()
