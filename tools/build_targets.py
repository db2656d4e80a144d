"""Works out the targets of Bazel: the rule, the dependencies and the data of each Python file."""

from __future__ import annotations

import dataclasses
import functools
import sys
from collections.abc import Iterator
from pathlib import Path

import source_files
from source_files import Source

PYTHON_FOLDERS = ("configs", "epg_tf", "examples", "launch", "tests", "tools")
DATA_FOLDERS = ("docs", "results")
COMMANDS = ("examples", "launch", "tools")  # folders of files that people start
FOUND_BY_NAME = ("configs", "launch")  # their modules are also found by name while a program runs
ROOT_FILES = (
    "*.md",
    "*.toml",
    "*.txt",
    ".ci/*",
    ".gitignore",
    "LICENSE",
    "MODULE.bazel",
    "Makefile",
    "WORKSPACE",
    "setup.py",
)
# Tests that name one of these read files anywhere: pages name files, a wheel is made from files.
WHOLE_PROJECT = ("BUILD", "README.md", "pip", "setup.py")
PYTEST_MAIN = "//tools:pytest_main.py"
MODULE_MAIN = "//tools:run_module.py"
SLOW = "pytest.mark.slow"

# Import -> name of its package, where they differ by more than "_" and "-".
PIP_NAMES = {"absl": "absl-py", "google": "protobuf", "PIL": "pillow", "yaml": "pyyaml"}
OPTIONAL = ("horovod", "setuptools")  # not pinned: imported where they are installed
# Gymnasium imports these when it makes one of their environments.
PIP_ALSO = {"gymnasium": ("box2d", "mujoco")}


@dataclasses.dataclass(frozen=True)
class Tree:
    """The files that get targets.

    Attributes:
      root: The folder of the project.
      sources: Dotted name -> file of every module.
      pins: Names of the pip packages in constraints.txt.
    """

    root: Path
    sources: dict[str, Source]
    pins: frozenset[str]

    @staticmethod
    def of(root: Path) -> Tree:
        """Reads the files below `root`."""
        sources = source_files.read_all(root, PYTHON_FOLDERS)
        text = (root / "constraints.txt").read_text(encoding="utf-8")
        names = (line.split("==")[0].strip() for line in text.splitlines())
        return Tree(root, sources, frozenset(source_files.pip_name(name) for name in names if name))

    def folders(self) -> list[str]:
        """Returns the folders with Python files or data that get a BUILD file."""
        data = {folder for folder in DATA_FOLDERS if (self.root / folder).is_dir()}
        return sorted(data | {source.folder for source in self.sources.values()})

    def data_folders(self, folder: str) -> list[str]:
        """Returns the names of the folders in `folder` that hold no Python, such as "assets"."""
        if folder in (*DATA_FOLDERS, "tools"):  # tools/debian_bazel is for Bazel itself
            return []
        return sorted(
            path.name
            for path in (self.root / folder).iterdir()
            if path.is_dir() and path.name[0] not in "._" and _holds_data(path)
        )


@functools.cache
def _holds_data(folder: Path) -> bool:
    """Returns whether a folder has files, and neither Python nor a package of Bazel."""
    names = {path.name for path in folder.rglob("*") if path.is_file()}
    names = {name for name in names if not name.endswith(".pyc")}
    return bool(names) and "BUILD" not in names and not any(name.endswith(".py") for name in names)


def label(source: Source) -> str:
    """Returns the target of a file: "//epg_tf/core:types" of epg_tf.core.types."""
    return f"//{source.folder}:{source.name}"


def kind_of(source: Source) -> str:
    """Returns the Bazel rule of a file."""
    if source.folder.split("/")[0] == "tests" and source.name.startswith("test_"):
        return "py_test"
    return "py_binary" if source.folder in COMMANDS and source.is_command else "py_library"


def project_deps(tree: Tree, source: Source) -> set[str]:
    """Returns the targets of the project whose modules a file imports or finds by name."""
    found = {tree.sources[name] for name in source.imports if name in tree.sources}
    package = tree.sources.get(source.package)
    # Python runs a package's __init__.py before the package's modules; if that imports modules, to
    # depend on it would be a circle.
    if package is not None and not package.imports:
        found.add(package)
    labels = set()
    if source.in_tests or source.folder == "launch" and kind_of(source) == "py_binary":
        named = {text for text in source.strings if "." in text and text in tree.sources}
        found |= {tree.sources[name] for name in named}
    if kind_of(source) == "py_test":
        found |= {tree.sources[name] for name in conftests(tree, source)}
    if source.in_tests:
        labels |= {f"//{name}:all_modules" for name in FOUND_BY_NAME if source.mentions(name)}
    elif kind_of(source) == "py_binary" and source.folder == "launch":
        labels.add("//configs:all_modules")
    return labels | {label(one) for one in found if one is not source}


def conftests(tree: Tree, source: Source) -> Iterator[str]:
    """Yields the conftest modules that pytest loads for a test."""
    parts = source.folder.split("/")
    for depth in range(1, len(parts) + 1):
        name = ".".join([*parts[:depth], "conftest"])
        if name in tree.sources:
            yield name


def pip_deps(tree: Tree, source: Source) -> set[str]:
    """Returns the targets of the pip packages that a file imports.

    Raises:
      SystemExit: constraints.txt does not pin a package.
    """
    tops = {name.split(".")[0] for name in source.imports} - {""}
    tops -= {*PYTHON_FOLDERS, *sys.stdlib_module_names, *OPTIONAL}
    tops -= {name for name in tops if source.folder == "tools" and f"tools.{name}" in tree.sources}
    names = {PIP_NAMES.get(top, source_files.pip_name(top)) for top in tops}
    names |= {"pytest"} if kind_of(source) == "py_test" else set()
    for name in sorted(names):
        if name not in tree.pins:
            sys.exit(f"{source.path}: imports {name}, which constraints.txt does not pin; pin it")
        names |= {also for also in PIP_ALSO.get(name, ()) if also in tree.pins}
    return {f"//tools/pip:{name}" for name in names}


def data_of(tree: Tree, source: Source) -> set[str]:
    """Returns the targets of the files that a file reads while it runs."""
    parts = source.folder.split("/")
    above = ["/".join(parts[:depth]) for depth in range(1, len(parts) + 1)]
    found = {
        f"//{folder}:{name}"
        for folder in above
        for name in tree.data_folders(folder)
        if name in source.strings
    }
    if source.stub:
        found.add(source.stub)
    if source.folder.startswith("epg_tf") and "configs" in source.strings:
        found.add("//configs:all_files")
    if not source.in_tests:
        return found
    if kind_of(source) == "py_test":
        found.add("//:pyproject.toml")
    if any(source.mentions(name) for name in WHOLE_PROJECT):
        return found | {"//:project"}
    if any(source.mentions(name) for name in ("Makefile", "constraints.txt", ".ci")):
        found.add("//:all_files")
    folders = {*PYTHON_FOLDERS, *DATA_FOLDERS} - {*FOUND_BY_NAME}
    folders &= {folder.split("/")[0] for folder in tree.folders()}
    return found | {f"//{folder}:all_files" for folder in folders if source.mentions(folder)}
