"""Tests epg_tf.core.files."""

from __future__ import annotations

import errno
import json
import math
import os
from pathlib import Path

import numpy as np
import pytest

from epg_tf.core import files
from epg_tf.core.errors import RecordError


def names(folder: Path) -> list[str]:
    return sorted(entry.name for entry in folder.iterdir())


def test_write_replaces_the_whole_file(tmp_path):
    """A stale temporary is in nobody's way."""
    (tmp_path / f".a.txt.{os.getpid()}.tmp").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "a.txt").write_bytes(b"old and long")
    files.write_atomically(tmp_path / "a.txt", lambda stream: stream.write(b"new"))
    assert (tmp_path / "a.txt").read_bytes() == b"new" and names(tmp_path) == ["a.txt"]


@pytest.mark.parametrize(
    "error", [OSError(errno.ENOSPC, "No space left on device"), KeyboardInterrupt()]
)
def test_a_failing_write_leaves_the_old_file_and_no_temporary(tmp_path, error):
    path = tmp_path / "a.txt"
    path.write_bytes(b"old")

    def write(stream):
        stream.write(b"half of the n")
        raise error

    with pytest.raises(type(error)) as raised:
        files.write_atomically(path, write)
    assert path.read_bytes() == b"old"
    assert names(tmp_path) == ["a.txt"]
    assert getattr(raised.value, "filename", str(path)) == str(path)


@pytest.mark.parametrize("failing", [None, "write", "rename"])
def test_files_that_belong_together_are_replaced_together(tmp_path, monkeypatch, failing):
    """Whatever moment an error comes at, the last one never stands beside those of another time."""
    for name in ("a", "card", "foreign"):
        (tmp_path / name).write_text("old")
    (tmp_path / f".card.{os.getpid()}.tmp").mkdir()  # of a killed process
    replace = os.replace

    def write(scratch):
        for name in ("a", "card"):
            (scratch / name).write_text("new")
        if failing == "write":
            raise OSError(errno.ENOSPC, "No space left on device")

    def rename(source, target):
        if failing == "rename" and Path(target).name == "card":
            raise OSError(errno.EIO, "Input/output error")
        replace(source, target)

    monkeypatch.setattr(os, "replace", rename)
    if failing is None:
        files.replace_together(tmp_path, write, "card")
    else:
        with pytest.raises(OSError, match="No space|Input/output"):
            files.replace_together(tmp_path, write, "card")
    found = {path.name: path.read_text() for path in tmp_path.iterdir()}
    assert found == {
        None: {"a": "new", "card": "new", "foreign": "old"},
        "write": {"a": "old", "card": "old", "foreign": "old"},
        "rename": {"a": "new", "foreign": "old"},
    }.get(failing)


def test_a_kill_before_the_rename_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "a.txt"
    path.write_bytes(b"old")

    def replace(source, target):
        assert Path(source).parent == tmp_path, "a rename across file systems is not atomic"
        assert Path(source).read_bytes() == b"new"
        raise OSError("killed")

    monkeypatch.setattr(os, "replace", replace)
    with pytest.raises(OSError, match="killed"):
        files.write_atomically(path, lambda stream: stream.write(b"new"))
    assert path.read_bytes() == b"old"


def test_file_and_folder_reach_the_disk_around_the_rename(tmp_path, monkeypatch):
    events = []
    fsync, replace = os.fsync, os.replace
    monkeypatch.setattr(
        os, "fsync", lambda fd: (events.append(os.readlink(f"/proc/self/fd/{fd}")), fsync(fd))
    )
    monkeypatch.setattr(os, "replace", lambda a, b: (events.append("rename"), replace(a, b)))
    files.write_atomically(tmp_path / "a.txt", lambda stream: stream.write(b"new"))
    assert [Path(event).suffix or event for event in events] == [".tmp", "rename", str(tmp_path)]


def test_json_keeps_order_and_is_valid_for_every_float(tmp_path):
    path = tmp_path / "a.json"
    mapping = {
        "z": 1,
        "a": [math.nan, {"deep": -math.inf}, (1, 2)],
        "numpy": np.float32(0.5),
        "vector": np.array([1.0, np.nan]),
        "whole": np.int64(3),
    }
    files.write_json(path, mapping)

    def refuse(constant):
        raise AssertionError(f"{constant} is not JSON")

    read = json.loads(path.read_text(), parse_constant=refuse)
    assert list(read) == ["format_version", *mapping]
    assert read["a"] == [None, {"deep": None}, [1, 2]]
    assert (read["numpy"], read["vector"], read["whole"]) == (0.5, [1.0, None], 3)
    assert files.read_json(path, "the test's file") == read
    with pytest.raises(TypeError):
        files.write_json(path, {"a": object()})
    assert files.read_json(path, "the test's file") == read


@pytest.mark.parametrize("version", [2, 0, True, 1.0])
def test_json_of_another_format_is_refused_and_of_none_is_not(tmp_path, version):
    path = tmp_path / "a.json"
    files.write_json(path, {"format_version": version})
    with pytest.raises(
        RecordError, match=f"format_version {version!r}, this program reads 1; update epg_tf"
    ):
        files.read_json(path, "the test's file")
    path.write_text('{"a": 1}')
    assert files.read_json(path, "the test's file") == {"a": 1}


@pytest.mark.parametrize(
    "content, reason",
    [
        (b'{"a": 1', "cannot be read"),
        (b"\xff\xfe", "cannot be read"),
        (b"[" * 100_000, "cannot be read"),
        (b"[1, 2]", "holds no JSON object"),
        (b" " * (16 * 2**20 + 1), "above"),
        (None, "missing"),
        ("pipe", "no regular file"),  # which nobody waits for
    ],
)
def test_read_json_names_file_and_content_in_one_line(tmp_path, content, reason):
    path = tmp_path / "a.json"
    if content == "pipe":
        os.mkfifo(path)
    elif content is not None:
        path.write_bytes(content)
    with pytest.raises(RecordError, match=reason) as raised:
        files.read_json(path, "the run's config")
    message = str(raised.value)
    assert message.startswith(f"{path}: the run's config ")
    assert ";" in message and "\n" not in message


def prepare(path, resume=False, overwrite=False, own=()):
    files.prepare_folder(path, own, overwrite=overwrite, resume=resume)


@pytest.mark.parametrize("resume, overwrite", [(False, False), (True, False), (False, True)])
def test_a_missing_or_empty_folder_is_fine(tmp_path, resume, overwrite):
    prepare(tmp_path / "a" / "b", resume, overwrite)
    assert (tmp_path / "a" / "b").is_dir()
    prepare(tmp_path / "a" / "b", resume, overwrite)


def test_a_folder_in_use_needs_a_decision(tmp_path):
    (tmp_path / "metrics.csv").write_text("mine")
    with pytest.raises(RecordError) as raised:
        prepare(tmp_path, own=["metrics.csv"])
    message = str(raised.value)
    assert message.startswith(f"{tmp_path}: ") and "\n" not in message
    for words in ("not empty", "resume=True", "overwrite=True", "another folder"):
        assert words in message
    prepare(tmp_path, resume=True, own=["metrics.csv"])
    assert (tmp_path / "metrics.csv").read_text() == "mine"


def test_overwrite_removes_own_entries_only(tmp_path):
    (tmp_path / "checkpoints" / "deep").mkdir(parents=True)
    (tmp_path / "checkpoints" / "deep" / "epoch.npz").write_text("own")
    (tmp_path / "metrics.csv").write_text("own")
    (tmp_path / ".metrics.csv.123.tmp").write_text("own, unfinished")
    foreign = ["thesis.tex", "metrics.csv.bak", ".thesis.tex.123.tmp", "Checkpoints"]
    for name in foreign:
        (tmp_path / name).write_text("foreign")
    prepare(tmp_path, overwrite=True, own=["checkpoints", "metrics.csv"])
    assert names(tmp_path) == sorted(foreign)


def test_overwrite_removes_links_and_never_what_they_point_to(tmp_path):
    precious, run = tmp_path / "precious", tmp_path / "run"
    precious.mkdir()
    (precious / "data.txt").write_text("keep")
    (run / "final").mkdir(parents=True)
    (run / "final" / "link").symlink_to(precious)
    (run / "checkpoints").symlink_to(precious)
    (run / "metrics.csv").symlink_to(precious / "data.txt")
    prepare(run, overwrite=True, own=["checkpoints", "metrics.csv", "final"])
    assert names(run) == []
    assert (precious / "data.txt").read_text() == "keep"


@pytest.mark.parametrize(
    ("inside", "arguments", "message"),
    [
        ("", {}, "{}: "),  # the folder without the slash: commands find the flag by it
        ("file", {}, "{}: "),
        ("", {"resume": True, "overwrite": True}, "contradict"),
        (None, {"overwrite": True}, "the name of the folder is empty"),
    ],
)
def test_unusable_folders_are_refused(tmp_path, inside, arguments, message):
    (tmp_path / "file").write_text("mine")
    path = "" if inside is None else tmp_path / inside
    with pytest.raises(RecordError, match=message.format(path)):
        prepare(f"{path}/" if path else "", own=["README.md"], **arguments)


@pytest.mark.parametrize("inside", ["", "below"])
def test_a_file_in_the_way_is_refused(tmp_path, inside):
    (tmp_path / "file").write_text("foreign")
    path = tmp_path / "file" / inside
    with pytest.raises(RecordError, match="in the way; choose"):
        prepare(path, overwrite=True, own=["file"])
    assert (tmp_path / "file").read_text() == "foreign"
