"""Runs pytest on the files named as arguments; the main of every test target of Bazel.

Bazel starts it in the folder of the target's files, which are links into the checkout. It copies
them first: a test that follows the links would find files that its target does not declare.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import pytest


def main(arguments: Sequence[str]) -> int:
    """Runs pytest with the arguments; returns 0 if tests passed or a given -m leaves none."""
    declared = Path.cwd()
    with tempfile.TemporaryDirectory(dir=os.environ.get("TEST_TMPDIR")) as folder:
        copy = Path(folder) / "project"
        # external/ has the files of other repositories, such as pip packages.
        shutil.copytree(declared, copy, ignore=shutil.ignore_patterns("external", "__pycache__"))
        os.chdir(copy)
        # Bazel lets tests write in temporary folders alone; Matplotlib writes at home.
        os.environ.setdefault("MPLCONFIGDIR", folder)
        _import_from(copy, (declared, Path(__file__).resolve().parent))
        code = pytest.main(["-p", "no:cacheprovider", *arguments])
        os.chdir(declared)
    return 0 if code == pytest.ExitCode.NO_TESTS_COLLECTED and "-m" in arguments else int(code)


def _import_from(copy: Path, instead_of: Sequence[Path]) -> None:
    """Makes this process and those that it starts import the project from `copy` alone."""
    others = [path for path in sys.path if path and Path(path) not in instead_of]
    sys.path[:] = [str(copy), *others]
    inherited = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    kept = [path for path in inherited if path and Path(path) not in instead_of]
    os.environ["PYTHONPATH"] = os.pathsep.join([str(copy), *kept])
    # `pip install -e` also finds modules in the checkout.
    sys.meta_path[:] = [
        finder
        for finder in sys.meta_path
        if not getattr(finder, "__module__", "").startswith("__editable__")
    ]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
