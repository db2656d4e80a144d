"""Tests epg_tf.artifacts.loss_files."""

from __future__ import annotations

import json

import numpy as np
import pytest

from epg_tf.artifacts import loss_files
from epg_tf.core import array_files as arrays_io
from epg_tf.core.errors import RecordError

PHI = np.array([0.5, -1.25, 3e-8], np.float32)
DESCRIPTION = {"kind": "temporal_conv", "channels": ["observation", "action"], "buffer": 512}


@pytest.fixture
def folder(tmp_path):
    loss_files.save_loss(tmp_path / "final", PHI, DESCRIPTION)
    return tmp_path / "final"


def refusal(folder) -> str:
    with pytest.raises(RecordError) as raised:
        loss_files.load_loss(folder)
    message = str(raised.value)
    assert message.startswith(str(folder)) and ";" in message and "\n" not in message
    return message


def test_round_trip(folder):
    phi, description = loss_files.load_loss(folder)
    assert phi.dtype == np.float32 and phi.tobytes() == PHI.tobytes()
    assert {name: description[name] for name in DESCRIPTION} == DESCRIPTION
    assert description["format_version"] == 1 and description["parameters"] == 3
    assert len(description["phi_sha256"]) == 64


@pytest.mark.parametrize(
    "phi",
    [
        np.zeros(3),
        np.zeros((3, 1), np.float32),
        np.zeros(0, np.float32),
        np.array([1.0, np.inf], np.float32),
        np.zeros(16 * 2**20, np.float32),
    ],
)
def test_what_could_not_be_loaded_is_not_saved(tmp_path, phi):
    with pytest.raises(ValueError, match="phi"):
        loss_files.save_loss(tmp_path / "final", phi, DESCRIPTION)
    assert not (tmp_path / "final").exists()


def test_missing_pieces_are_named_with_a_remedy(folder, tmp_path):
    assert "no such folder" in refusal(tmp_path / "nowhere")
    assert "the folder of a run of epg-tf meta-train" in refusal(tmp_path / "nowhere")
    (folder / "loss.npz").unlink()
    assert "holds no loss.npz" in refusal(folder)


def test_a_torn_phi_is_refused(folder):
    path = folder / "loss.npz"
    whole = path.read_bytes()
    for length in range(0, len(whole), 11):
        path.write_bytes(whole[:length])
        message = refusal(folder)
        assert "loss.npz: damaged" in message and message.endswith("or fetch them again")


def test_a_flipped_byte_never_changes_phi(folder):
    path = folder / "loss.npz"
    whole = path.read_bytes()
    position = whole.index(PHI.tobytes())
    path.write_bytes(whole[:position] + bytes([whole[position] ^ 1]) + whole[position + 1 :])
    assert "CRC" in refusal(folder)


def test_phi_of_another_loss_is_refused(folder):
    arrays_io.write_arrays(folder / "loss.npz", {"phi": PHI * 2})
    assert "does not match phi_sha256" in refusal(folder)


@pytest.mark.parametrize(
    "arrays, reason",
    [
        ({"phi": PHI.astype(np.float64)}, "type float64"),
        ({"phi": PHI.astype(">f4")}, "type >f4"),
        ({"phi": PHI.reshape(1, 3)}, "shape"),
        ({"phi": PHI[:2]}, "has 2 numbers"),
        ({"phi": np.array([1, np.nan, 2], np.float32)}, "1 values that are not finite"),
        ({"theta": PHI}, "holds 'theta', not 'phi'"),
        ({"phi": PHI, "more": PHI}, "not 'phi'"),
        ({}, "holds nothing"),
    ],
)
def test_odd_arrays_are_refused(folder, arrays, reason):
    arrays_io.write_arrays(folder / "loss.npz", arrays)
    assert reason in refusal(folder)


def test_a_zip_bomb_is_refused(folder):
    np.savez_compressed(folder / "loss.npz", phi=np.zeros(17 * 2**20, np.float32))
    assert (folder / "loss.npz").stat().st_size < 2**20
    assert "allowed" in refusal(folder)


@pytest.mark.parametrize(
    "changes, reason",
    [
        ({"format_version": 2}, "format_version 2"),
        ({"format_version": True}, "format_version True"),
        ({"format_version": None}, "format_version None"),
        ({"parameters": 4}, "parameters=4"),
        ({"parameters": "3"}, "parameters='3'"),
        ({"phi_sha256": "0" * 64}, "phi_sha256"),
    ],
)
def test_odd_descriptions_are_refused(folder, changes, reason):
    path = folder / "loss.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))
    assert reason in refusal(folder)


def test_a_torn_description_is_refused(folder):
    path = folder / "loss.json"
    path.write_text(path.read_text()[:-9])
    message = refusal(folder)
    assert "loss.json: the description of the loss cannot be read" in message
    assert message.count("loss.json") == 1 and message.endswith("restore it or create it again")
