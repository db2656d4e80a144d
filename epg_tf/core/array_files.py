"""Writes named arrays as .npz files, and reads such files with checks."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from epg_tf.core import files
from epg_tf.core.errors import RecordError
from epg_tf.core.types import Array

_npy: Any = np.lib.format  # NumPy declares no types for it


def write_arrays(path: files.PathLike, arrays: Mapping[str, Array]) -> None:
    """Writes named arrays as an uncompressed .npz; equal arrays give equal bytes.

    Raises:
      ValueError: An array holds Python objects, which only pickle could store.
      OSError: The file cannot be written.
    """

    def write(stream: BinaryIO) -> None:
        # np.savez would pickle object arrays, and cannot store an array named "file".
        with zipfile.ZipFile(stream, "w", zipfile.ZIP_STORED) as archive:
            for name, array in arrays.items():
                with archive.open(zipfile.ZipInfo(f"{name}.npy"), "w", force_zip64=True) as member:
                    _npy.write_array(member, np.asanyarray(array), allow_pickle=False)

    for name, array in arrays.items():
        if np.asanyarray(array).dtype.hasobject:
            raise ValueError(
                f"array {name!r} of {Path(path).name} holds Python objects; convert it to numbers"
            )
    files.write_atomically(path, write)


def read_arrays(path: files.PathLike, limit: int) -> dict[str, Array]:
    """Reads an .npz that may be damaged or hostile: no pickle, at most `limit` bytes unpacked.

    Raises:
      RecordError: The file is missing, torn, too large, not an .npz, or holds Python objects.
    """
    path = Path(path)
    try:
        if not path.is_file():
            raise RecordError(f"{path}: no such file")
        if path.stat().st_size > limit:  # the list of its members alone would take memory
            raise RecordError(f"{path}: {path.stat().st_size} bytes, more than the {limit} allowed")
        with zipfile.ZipFile(path) as archive:
            members = archive.infolist()
            size = sum(member.file_size for member in members)
            if size > limit:
                raise RecordError(
                    f"{path}: {size} bytes when unpacked, more than the {limit} allowed"
                )
            for name in (member.filename for member in members):
                if name.startswith("/") or "\\" in name or ".." in name.split("/"):
                    raise RecordError(f"{path}: {name!r} is a path, not the name of an array")
            return {
                member.filename.removesuffix(".npy"): _read_member(archive, member)
                for member in members
            }
    except RecordError:
        raise
    except Exception as error:  # zipfile, zlib and NumPy raise many kinds for damaged bytes
        raise RecordError(
            f"{path}: damaged or not an .npz file ({files.one_line(error)})"
        ) from error


def _read_member(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> Array:
    with archive.open(member) as stream:
        # Reading exactly the declared size limits the decompressor too; a wrong size fails the CRC.
        data = stream.read(member.file_size)
    array: Array = _npy.read_array(io.BytesIO(data), allow_pickle=False)
    return array
