"""Tests that every folder has its BUILD file, and that a failing test fails its target of Bazel."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


def run(folder: Path, *words: str) -> int:
    """Runs the main of every test target in a folder; returns its exit code."""
    command = [sys.executable, ROOT / "tools" / "pytest_main.py", "test_one.py", *words]
    return subprocess.run(command, cwd=folder, capture_output=True, check=False).returncode


def test_every_folder_with_python_has_a_build_file():
    tops = ("configs", "epg_tf", "examples", "launch", "tests")
    folders = {path.parent for top in tops for path in (ROOT / top).rglob("*.py")}
    assert len(folders) > 30
    assert [folder for folder in folders if not (folder / "BUILD").is_file()] == []


@pytest.mark.parametrize(
    "text, words, code",
    [
        ("def test_f():\n    assert False", (), 1),
        ("def f():\n    assert True", (), 5),
        ("def test_f():\n    assert False", ("-m", "other"), 0),
    ],
    ids=["fails", "has no tests", "has none of the kind asked for"],
)
def test_a_target_fails_unless_its_tests_pass(text, words, code, tmp_path):
    (tmp_path / "test_one.py").write_text(text)
    assert run(tmp_path, *words) == code


def test_a_test_sees_only_the_files_that_its_target_declares(tmp_path):
    """Bazel links the declared files into a folder; the links lead to all of the others."""
    checkout, links = tmp_path / "checkout", tmp_path / "links"
    checkout.mkdir()
    links.mkdir()
    for name in ("test_one.py", "declared.txt", "other.txt"):
        (checkout / name).write_text(
            "from pathlib import Path\ndef test_f():\n    here = Path(__file__).resolve().parent\n"
            "    assert sorted(path.name for path in here.glob('*.txt')) == ['declared.txt']"
        )
        if name != "other.txt":
            (links / name).symlink_to(checkout / name)
    assert run(links) == 0
