"""Reads Python files without running them: what they import and which strings they hold."""

from __future__ import annotations

import ast
import dataclasses
import re
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path


@dataclasses.dataclass(frozen=True, eq=False)
class Source:
    """A Python file of the project.

    Attributes:
      path: Relative to the project's folder.
      text: What it holds.
      imports: Dotted names of the modules it imports, as deep as they are modules of the project.
      strings: Its strings, docstrings left out.
      stub: Name of the .pyi file beside it, or "". What that imports, the file imports when asked.
    """

    path: Path
    text: str
    imports: frozenset[str]
    strings: frozenset[str]
    stub: str

    @property
    def folder(self) -> str:
        """Of the file, e.g. "epg_tf/core"."""
        return self.path.parent.as_posix()

    @property
    def module(self) -> str:
        """The dotted name under which it is imported."""
        return module_name(self.path)

    @property
    def name(self) -> str:
        """Of its target: the last word of the dotted name."""
        return self.module.rpartition(".")[2]

    @property
    def package(self) -> str:
        """The dotted name of the package that it is in."""
        return self.module.rpartition(".")[0]

    @property
    def in_tests(self) -> bool:
        """Whether it is a test or what tests share."""
        return self.path.parts[0] == "tests"

    @property
    def is_command(self) -> bool:
        """Whether it does something when it is started."""
        return any(
            isinstance(node, ast.If) and ast.unparse(node.test) == "__name__ == '__main__'"
            for node in ast.parse(self.text).body
        )

    def mentions(self, name: str) -> bool:
        """Returns whether a string is `name`, or has a path or module that begins with it."""
        inside = re.compile(rf"(?<![\w./-]){re.escape(name)}[./]")
        return any(text == name or inside.search(text) for text in self.strings)


def read_all(root: Path, folders: Sequence[str]) -> dict[str, Source]:
    """Returns dotted name -> file of every Python file in the folders, sorted by path."""
    paths = [
        path.relative_to(root)
        for folder in sorted(folders)
        for path in sorted((root / folder).rglob("*.py"))
    ]
    known = {module_name(path) for path in paths}
    return {module_name(path): read(root, path, known) for path in paths}


def read(root: Path, path: Path, known: Collection[str]) -> Source:
    """Reads one file; `known` are the dotted names of the project's modules."""
    text = (root / path).read_text(encoding="utf-8")
    tree = ast.parse(text, str(path))
    stub = path.with_suffix(".pyi")
    trees = [tree]
    if (root / stub).is_file():
        trees.append(ast.parse((root / stub).read_text(encoding="utf-8"), str(stub)))
    imports = {name for one in trees for name in imported(one, path, known)}
    return Source(
        path,
        text,
        frozenset(imports - {module_name(path)}),
        frozenset(strings(tree)),
        stub.name if len(trees) > 1 else "",
    )


def module_name(path: Path) -> str:
    """Returns the dotted name under which a file, relative to the root, is imported."""
    return ".".join(path.with_suffix("").parts).removesuffix(".__init__")


def pip_name(name: str) -> str:
    """Returns the normal form of a pip package's name."""
    return re.sub(r"[-_.]+", "-", name).lower()


def imported(tree: ast.Module, path: Path, known: Collection[str]) -> Iterator[str]:
    """Yields the dotted names a file imports; `from a import b` means a.b if that is a module, else
    a. Relative names are made absolute; in tools/, which is no package, a file names its neighbours
    without the folder.
    """
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names = [[alias.name] for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = absolute(node, path)
            names = [[f"{base}.{alias.name}", base] for alias in node.names]
        else:
            continue
        folder = ".".join(path.parent.parts)
        for choices in names:
            neighbours = [f"{folder}.{name}" for name in choices]
            candidates = [*choices, *neighbours] if folder == "tools" else choices
            yield next((name for name in candidates if name in known), choices[-1])


def absolute(node: ast.ImportFrom, path: Path) -> str:
    """Returns the dotted name of the module from which a statement imports."""
    if not node.level:
        return node.module or ""
    package = path.parent.parts[: len(path.parent.parts) - node.level + 1]
    return ".".join([*package, *([node.module] if node.module else [])])


def strings(tree: ast.Module) -> Iterator[str]:
    """Yields the strings of a file that are not docstrings."""
    alone = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in alone:
            yield node.value
