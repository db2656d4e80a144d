"""Tests epg_tf.runs.checkpoints."""

from __future__ import annotations

import math
import re

import numpy as np
import pytest

from epg_tf.core import array_files
from epg_tf.runs import checkpoints
from epg_tf.runs.evolution import EVOLUTION
from epg_tf.runs.identity import RunIdentity

ARRAYS = {
    "phi": np.array([1.5, np.nan, -0.0], np.float32),
    "adam/m": np.zeros((2, 3)),
    "step": np.array(7),
}
FACTS = {"best": -math.inf, "last": 0.1 + 0.2, "config": {"name": "hopper", "seeds": [1, 2]}}


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_round_trip_is_exact(tmp_path):
    path = checkpoints.save(tmp_path / "checkpoints", 12, ARRAYS, FACTS)
    assert path == tmp_path / "checkpoints" / "epoch_00000012.npz"
    state, messages = checkpoints.load_newest(tmp_path / "checkpoints")
    assert messages == [] and state.epoch == 12 and state.facts == FACTS
    assert list(state.arrays) == list(ARRAYS)
    for name, array in ARRAYS.items():
        copy = state.arrays[name]
        assert (copy.dtype, copy.shape, copy.tobytes()) == (
            array.dtype,
            array.shape,
            array.tobytes(),
        )


def test_nan_in_facts_survives(tmp_path):
    checkpoints.save(tmp_path, 0, {}, {"best": math.nan})
    assert math.isnan(checkpoints.load_newest(tmp_path)[0].facts["best"])


def test_equal_states_give_equal_files(tmp_path):
    first = checkpoints.save(tmp_path / "a", 1, ARRAYS, FACTS)
    second = checkpoints.save(tmp_path / "b", 1, ARRAYS, FACTS)
    assert first.read_bytes() == second.read_bytes()


@pytest.mark.parametrize("folder", ["missing", "."])
def test_nothing_there_is_no_error(tmp_path, folder):
    (tmp_path / "notes.txt").touch()
    assert checkpoints.load_newest(tmp_path / folder) == (None, [])


def test_save_keeps_the_newest_and_clears_stale_temporaries(tmp_path):
    (tmp_path / ".epoch_00000003.npz.99.tmp").touch()
    (tmp_path / "notes.txt").touch()
    for epoch in (8, 9, 10, 11, 100_000_000):
        checkpoints.save(tmp_path, epoch, ARRAYS, FACTS, keep=2)
    assert names(tmp_path) == ["epoch_00000011.npz", "epoch_100000000.npz", "notes.txt"]
    assert checkpoints.load_newest(tmp_path)[0].epoch == 100_000_000


def test_save_never_deletes_itself_for_damaged_newer_ones(tmp_path):
    for epoch in (7, 8, 9):
        (tmp_path / f"epoch_{epoch:08d}.npz").write_bytes(b"torn")
    checkpoints.save(tmp_path, 5, ARRAYS, FACTS, keep=1)
    state, messages = checkpoints.load_newest(tmp_path)
    assert state.epoch == 5 and len(messages) == 3


def test_a_failing_save_leaves_the_older_state(tmp_path, monkeypatch):
    checkpoints.save(tmp_path, 1, ARRAYS, FACTS, keep=1)

    def full_disk(*_, **__):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(np.lib.format, "write_array", full_disk)
        with pytest.raises(OSError, match="No space"):
            checkpoints.save(tmp_path, 2, ARRAYS, FACTS, keep=1)
    assert names(tmp_path) == ["epoch_00000001.npz"]
    assert checkpoints.load_newest(tmp_path)[0].epoch == 1


def rewrite(path, **changes):
    """Changes arrays of a state, with valid CRCs but the old checksum."""
    content = array_files.read_arrays(path, 2**20)
    array_files.write_arrays(path, {**content, **changes})


@pytest.mark.parametrize(
    "changes, reason",
    [
        ({"phi": np.array([1.5, np.nan, 0.0], np.float32)}, "checksum"),
        ({"step": np.array(7, np.int32)}, "checksum"),
        ({"adam/m": np.zeros((3, 2))}, "checksum"),
        ({"extra": np.zeros(1)}, "checksum"),
        ({"__facts__": np.frombuffer(b"{}", np.uint8)}, "checksum"),
        ({"__sha256__": np.array(0)}, "checksum"),
        ({"__format_version__": np.array(2)}, "format version 2, this program reads 1"),
        ({"__format_version__": np.array([1, 1])}, "format version"),
    ],
)
def test_changes_are_noticed(tmp_path, changes, reason):
    checkpoints.save(tmp_path, 1, ARRAYS, FACTS)
    rewrite(checkpoints.save(tmp_path, 2, ARRAYS, FACTS), **changes)
    state, messages = checkpoints.load_newest(tmp_path)
    assert state.epoch == 1 and len(messages) == 1 and reason in messages[0]


def forged(path, epoch, **changes):
    """Changes what a state says, with a checksum that fits."""
    content = {**array_files.read_arrays(path, 2**20), **changes}
    content = {name: array for name, array in content.items() if array is not None}
    del content["__sha256__"]
    content["__sha256__"] = checkpoints._checksum(epoch, content)
    array_files.write_arrays(path, content)


def as_array(text):
    return np.frombuffer(text, np.uint8)


LIKE = {"phi": np.zeros(3, np.float32), "adam/m": np.zeros((2, 3)), "step": np.array(0)}


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"phi": None}, "lacks phi"),
        ({"phi": np.zeros(0, np.float32)}, "phi has type float32 and shape .0"),
        ({"phi": np.array(["a", "b", "c"])}, "phi has type <U1"),
        ({"phi": np.array([0, 0, np.inf], np.float32)}, "phi is negative, infinite or NaN"),
        ({"adam/m": np.full((2, 3), np.nan)}, "adam/m is negative, infinite or NaN"),
        ({"step": np.array(-1)}, "step is negative"),
        ({"__facts__": as_array(b"[1]")}, "it holds no facts"),
        ({"__facts__": as_array(b"\xff{")}, "it holds no facts"),
        ({"__facts__": as_array(b'{"best":' + b"[" * 100_000)}, "it holds no facts"),
        ({"__facts__": as_array(b'{"best": 0.5}')}, "lacks steps"),
        ({"__facts__": as_array(b'{"best": 0.5, "steps": 0.5}')}, "steps=0.5 is not usable"),
        ({"__facts__": as_array(b'{"best": 0.5, "steps": -1}')}, "steps=-1 is not usable"),
        ({"__facts__": as_array(b'{"best": NaN, "steps": 1}')}, "best=nan is not usable"),
        ({"__facts__": as_array(b'{"best": "high", "steps": 1}')}, "best='high' is not usable"),
        ({"__run__": as_array(b"3")}, "it holds no facts"),
        ({"__run__": as_array(b'{"seed": 0, "config": []}')}, "its settings are not usable"),
    ],
)
def test_what_does_not_fit_is_skipped(tiny, tmp_path, changes, reason):
    """Though its checksum fits; numbers of Adam may be infinite."""
    identity = RunIdentity(EVOLUTION, tiny.to_mapping(), 0)
    facts = {"best": -math.inf, "steps": 0}
    wanted = checkpoints.Wanted(identity, LIKE, facts, finite={"phi"})
    arrays = {**LIKE, "adam/m": np.full((2, 3), np.inf)}
    for epoch in (1, 2):
        path = checkpoints.save(tmp_path, epoch, arrays, facts, identity=identity)
    assert checkpoints.load_newest(tmp_path, wanted)[0].epoch == 2
    forged(path, 2, **changes)
    state, messages = checkpoints.load_newest(tmp_path, wanted)
    assert state.epoch == 1 and len(messages) == 1 and "\n" not in messages[0]
    assert re.search(reason, messages[0])


def test_a_checkpoint_of_other_settings_is_refused_by_name(make_tiny, tmp_path):
    """Settings without an influence on numbers may differ."""
    written = RunIdentity(EVOLUTION, make_tiny(compute={"threads": 2}).to_mapping(), 0)
    checkpoints.save(tmp_path, 1, {}, {}, identity=written)
    mine = RunIdentity(EVOLUTION, make_tiny(evolution={"epochs": 9}).to_mapping(), 0)
    assert checkpoints.load_newest(tmp_path, checkpoints.Wanted(mine, {}, {}))[0].epoch == 1
    other = RunIdentity(EVOLUTION, make_tiny(evolution={"sigma": 0.2}).to_mapping(), 0)
    message = (
        r"^config.evolution.sigma=0.2: the run that wrote .*epoch_00000001.npz has 0\.\d+; rem"
    )
    with pytest.raises(checkpoints.OtherRunError, match=message):
        checkpoints.load_newest(tmp_path, checkpoints.Wanted(other, {}, {}))


def test_an_impossible_epoch_is_skipped(tmp_path):
    checkpoints.save(tmp_path, 1, ARRAYS, FACTS)
    checkpoints.save(tmp_path, 10**30, ARRAYS, FACTS)
    state, messages = checkpoints.load_newest(tmp_path)
    assert state.epoch == 1 and len(messages) == 1 and "no run has so many" in messages[0]


def test_other_files_of_the_same_name_are_skipped(tmp_path):
    checkpoints.save(tmp_path, 1, ARRAYS, FACTS)
    np.savez(tmp_path / "epoch_00000002.npz", x=np.zeros(2))
    np.savez(tmp_path / "epoch_00000003.npz", x=np.array([print], object))
    (tmp_path / "epoch_00000004.npz").mkdir()
    (tmp_path / "epoch_00000005.npz").symlink_to(tmp_path / "nowhere")
    (tmp_path / "epoch_00000001.npz").rename(tmp_path / "epoch_00000006.npz")
    checkpoints.save(tmp_path, 0, ARRAYS, FACTS)
    state, messages = checkpoints.load_newest(tmp_path)
    assert state.epoch == 0
    assert [
        f"epoch_0000000{epoch}.npz" in message
        for epoch, message in zip((6, 5, 4, 3, 2), messages, strict=True)
    ]


@pytest.mark.parametrize(
    "epoch, arrays, facts, keep, error",
    [
        (-1, {}, {}, 3, ValueError),
        (0, {}, {}, 0, ValueError),
        (0, {"__facts__": np.zeros(1)}, {}, 3, ValueError),
        (0, {"x": np.array([None])}, {}, 3, ValueError),
        (0, {}, {"x": object()}, 3, TypeError),
    ],
)
def test_what_cannot_be_saved_is_refused(tmp_path, epoch, arrays, facts, keep, error):
    with pytest.raises(error):
        checkpoints.save(tmp_path / "new", epoch, arrays, facts, keep)
    assert checkpoints.load_newest(tmp_path / "new") == (None, [])
