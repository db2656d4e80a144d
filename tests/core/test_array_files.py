"""Tests epg_tf.core.array_files."""

from __future__ import annotations

import io
import struct
import tracemalloc
import zipfile

import numpy as np
import pytest

from epg_tf.core import array_files
from epg_tf.core.errors import RecordError

LIMIT = 2**20


@pytest.mark.parametrize(
    "array",
    [
        np.asfortranarray(np.arange(6.0).reshape(2, 3)),
        np.array(np.nan),
        np.zeros((0, 4), np.int16),
        np.array(["a", "übung"]),
    ],
)
def test_round_trip_keeps_type_shape_and_bits(tmp_path, array):
    """Also for NumPy's own reader."""
    array_files.write_arrays(tmp_path / "a.npz", {"file": array, "adam/m": array})
    read = array_files.read_arrays(tmp_path / "a.npz", LIMIT)
    assert list(read) == ["file", "adam/m"]
    for copy in read.values():
        assert (copy.dtype, copy.shape, copy.tobytes()) == (
            array.dtype,
            array.shape,
            array.tobytes(),
        )
    with np.load(tmp_path / "a.npz", allow_pickle=False) as numpys:
        assert numpys["adam/m"].tobytes() == array.tobytes()


def test_equal_arrays_give_equal_bytes(tmp_path, monkeypatch):
    array_files.write_arrays(tmp_path / "a.npz", {"x": np.arange(3)})
    monkeypatch.setattr("time.time", lambda: 2_000_000_000.0)
    array_files.write_arrays(tmp_path / "b.npz", {"x": np.arange(3)})
    assert (tmp_path / "a.npz").read_bytes() == (tmp_path / "b.npz").read_bytes()


def test_objects_are_refused_by_name_when_written(tmp_path):
    with pytest.raises(ValueError, match="'bad'.*Python objects"):
        array_files.write_arrays(
            tmp_path / "a.npz", {"good": np.zeros(2), "bad": np.array([{}], object)}
        )
    assert not list(tmp_path.iterdir())


def test_pickles_are_refused_when_read(tmp_path):
    np.savez(tmp_path / "a.npz", x=np.array([print], object))
    with pytest.raises(RecordError, match="allow_pickle"):
        array_files.read_arrays(tmp_path / "a.npz", LIMIT)


def test_a_zip_bomb_is_refused_before_it_is_unpacked(tmp_path, monkeypatch):
    np.savez_compressed(tmp_path / "a.npz", x=np.zeros(4 * LIMIT, np.uint8))
    assert (tmp_path / "a.npz").stat().st_size < LIMIT / 50
    monkeypatch.setattr(zipfile.ZipFile, "open", lambda *_: pytest.fail("a member was opened"))
    with pytest.raises(RecordError, match=f"more than the {LIMIT} allowed"):
        array_files.read_arrays(tmp_path / "a.npz", LIMIT)


def test_a_bomb_that_lies_about_its_size_is_refused(tmp_path):
    path = tmp_path / "a.npz"
    np.savez_compressed(path, x=np.zeros(4 * LIMIT, np.uint8))
    with zipfile.ZipFile(path) as archive:
        true_size = archive.infolist()[0].file_size
    data = path.read_bytes()
    directory = (
        data.rindex(b"PK\x01\x02") + 24
    )  # offset of the unpacked size in the central directory
    assert struct.unpack_from("<I", data, directory)[0] == true_size
    path.write_bytes(data[:directory] + struct.pack("<I", 1000) + data[directory + 4 :])
    tracemalloc.start()
    with pytest.raises(RecordError, match="CRC"):
        array_files.read_arrays(path, LIMIT)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < LIMIT


def test_a_header_that_promises_too_much_is_refused(tmp_path):
    member = io.BytesIO()
    np.lib.format.write_array_header_1_0(
        member, {"descr": "<f4", "fortran_order": False, "shape": (2**60,)}
    )
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
        archive.writestr("x.npy", member.getvalue())
    with pytest.raises(RecordError, match="damaged"):
        array_files.read_arrays(tmp_path / "a.npz", LIMIT)


def test_other_files_are_refused(tmp_path):
    np.save(tmp_path / "plain.npy", np.zeros(3))
    (tmp_path / "text.npz").write_text("hello")
    (tmp_path / "empty.npz").touch()
    with zipfile.ZipFile(tmp_path / "zip.npz", "w") as archive:
        archive.writestr("x.npy", "hello")
    for name in ("plain.npy", "text.npz", "empty.npz", "zip.npz", "missing.npz", "."):
        with pytest.raises(RecordError, match="damaged|no such file"):
            array_files.read_arrays(tmp_path / name, LIMIT)
