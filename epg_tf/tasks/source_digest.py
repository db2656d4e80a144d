"""Digests what a user's class does: its definition, and all of the user's code that it names.

Comments, the layout of the code, docstrings, and definitions that the class does not name change no
digest, so a config file may change its settings.
"""

from __future__ import annotations

import ast
import hashlib
import importlib.util
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

_PACKAGE = Path(__file__).resolve().parents[1]
_STANDARD_LIBRARY = Path(sysconfig.get_paths()["stdlib"]).resolve()


def is_own(kind: object) -> bool:
    """Returns whether a class or function is in a file of the user, and in no installed package."""
    return _own_file(sys.modules.get(getattr(kind, "__module__", ""))) is not None


def source_digest(*kinds: object) -> str:
    """Returns the SHA-256 of classes and functions of the user, and of what they name."""
    waiting: list[tuple[ModuleType, str]] = []
    for kind in kinds:
        name = str(getattr(kind, "__qualname__", "")).partition(".")[0]
        name = "" if name == "<lambda>" else name  # the whole file, as nothing defines it by name
        waiting.append((sys.modules[getattr(kind, "__module__", "")], name))
    found: dict[tuple[Path, str], str] = {}
    while waiting:
        module, name = waiting.pop()
        file = _own_file(module)
        if file is None or (file, name) in found:
            continue
        tree = ast.parse(file.read_text(encoding="utf-8"), str(file))
        statements = _named_by(tree, name) if name else tree.body
        found[file, name] = "\n".join(map(_without_docstrings, statements))
        imported = (one for statement in statements for one in _imports(statement, module))
        waiting += [(sys.modules[other], "") for other in imported if other in sys.modules]
    return hashlib.sha256("\n".join(sorted(found.values())).encode()).hexdigest()


def _own_file(module: ModuleType | None) -> Path | None:
    """Returns the file of a module of the user; None for those of packages, and without a file."""
    name = getattr(module, "__file__", None)
    if not name:
        return None
    file = Path(name).resolve()
    installed = {"site-packages", "dist-packages"} & {*file.parts}
    pretrained = any(folder in file.parents for folder in (_PACKAGE, _STANDARD_LIBRARY))
    return None if installed or pretrained or file.suffix != ".py" or not file.is_file() else file


def _named_by(tree: ast.Module, name: str) -> list[ast.stmt]:
    """Returns the statements of a file that define a name, and whatever they name themselves."""
    wanted, chosen = {name}, set[int]()
    while True:
        new = {
            number
            for number, statement in enumerate(tree.body)
            if number not in chosen and wanted & set(_defined(statement))
        }
        if not new:
            return [tree.body[number] for number in sorted(chosen)]
        chosen |= new
        for number in new:
            nodes = ast.walk(tree.body[number])
            wanted |= {node.id for node in nodes if isinstance(node, ast.Name)}


def _defined(statement: ast.stmt) -> Iterator[str]:
    """Yields the names that a statement gives a value, or whose attributes or items it sets."""
    if isinstance(statement, ast.FunctionDef | ast.ClassDef | ast.AsyncFunctionDef):
        yield statement.name
        return
    for node in ast.walk(statement):
        if isinstance(node, ast.alias):
            yield (node.asname or node.name).partition(".")[0]
        elif isinstance(getattr(node, "ctx", None), ast.Store):
            while isinstance(node, ast.Attribute | ast.Subscript):
                node = node.value
            if isinstance(node, ast.Name):
                yield node.id


def _imports(statement: ast.stmt, module: ModuleType) -> Iterator[str]:
    """Yields the names of the modules that a statement of a module imports."""
    for node in ast.walk(statement):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            name = "." * node.level + (node.module or "")
            if node.level and not module.__package__:
                continue
            name = importlib.util.resolve_name(name, module.__package__)
            yield from (name, *(f"{name}.{alias.name}" for alias in node.names))


def _without_docstrings(statement: ast.stmt) -> str:
    """Returns what a statement does, as text without comments, layout and docstrings."""
    for node in ast.walk(statement):
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and ast.get_docstring(node) is not None:
            node.body = node.body[1:]
    return ast.dump(statement)
