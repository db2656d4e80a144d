"""Writes /BUILD from the tree: one target per module, launcher and test, with the project modules
it imports as deps.

    python .ci/write_build.py          writes BUILD
    python .ci/write_build.py --check  exits with 1 if BUILD is not what would be written

A target is named by its file's path without ".py". Other people's packages stand in a `# pip:`
comment.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FOLDERS = ("epg_tf", "configs", "launch", "examples", "tests")
PIP_NAMES = {
    "absl": "absl-py",
    "tensorflow_probability": "tensorflow-probability",
    "tf_agents": "tf-agents",
    "gym_notices": "gym-notices",
    "ml_collections": "ml_collections",
}
HEADER = """\
# One target per module, launcher and test. Written by .ci/write_build.py, from files and imports.

load("@rules_python//python:defs.bzl", "py_binary", "py_library", "py_test")

package(default_visibility = ["//visibility:public"])
"""


def source_files(root: Path) -> list[Path]:
    """Returns the files that get a target: all Python files but the packages' `__init__.py` that
    hold no code.
    """
    files = [path for folder in FOLDERS for path in sorted((root / folder).rglob("*.py"))]
    return [path for path in files if path.name != "__init__.py" or has_code(path)]


def has_code(path: Path) -> bool:
    """Returns whether a file holds more than a docstring."""
    return any(
        not isinstance(node, ast.Expr) for node in ast.parse(path.read_text(encoding="utf-8")).body
    )


def module_name(root: Path, path: Path) -> str:
    """Returns the dotted name under which a file is imported."""
    return ".".join(path.relative_to(root).with_suffix("").parts).removesuffix(".__init__")


def imported_names(path: Path, modules: dict[str, str]) -> Iterator[str]:
    """Yields the dotted names a file imports; `from a import b` means a.b if that is a module, else
    a.
    """
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            deep = [f"{node.module}.{alias.name}" for alias in node.names]
            yield from (name if name in modules else node.module for name in deep)


def dependencies(path: Path, modules: dict[str, str]) -> tuple[list[str], list[str]]:
    """Returns the project targets and the pip packages that a file imports."""
    names = set(imported_names(path, modules))
    targets = {modules[name] for name in names if name in modules}
    tops = {name.split(".")[0] for name in names} - set(FOLDERS) - set(sys.stdlib_module_names)
    return sorted(targets), sorted(PIP_NAMES.get(top, top) for top in tops)


def kind_of(path: Path, source: str) -> str:
    """Returns the Bazel rule of a file."""
    if source.startswith("tests/") and path.name.startswith("test_"):
        return "py_test"
    is_command = source.startswith(
        ("launch/", "examples/")
    ) and 'if __name__ == "__main__":' in path.read_text(encoding="utf-8")
    return "py_binary" if is_command else "py_library"


def target(root: Path, path: Path, modules: dict[str, str]) -> str:
    """Returns the text of one target."""
    source = path.relative_to(root).as_posix()
    name = source.removesuffix(".py")
    kind = kind_of(path, source)
    deps, packages = dependencies(path, modules)
    lines = [f'    name = "{name}",', f'    srcs = ["{source}"],']
    if kind != "py_library":
        lines.append(f'    main = "{source}",')
    assets = path.parent / "assets"
    if assets.is_dir() and '"assets"' in path.read_text(encoding="utf-8"):
        lines.append(f'    data = glob(["{assets.relative_to(root).as_posix()}/**"]),')
    if deps or packages:
        lines += [
            "    deps = [",
            *(f'        ":{dep}",' for dep in deps),
            *(f"        # pip: {package}" for package in packages),
            "    ],",
        ]
    return "\n".join([f"{kind}(", *lines, ")"])


def build_text(root: Path = ROOT) -> str:
    """Returns what BUILD should hold."""
    files = source_files(root)
    modules = {
        module_name(root, path): path.relative_to(root).as_posix().removesuffix(".py")
        for path in files
    }
    return "\n".join([HEADER, "\n\n".join(target(root, path, modules) for path in files), ""])


def main(arguments: list[str]) -> int:
    """Writes BUILD, or with --check only says whether it is in step."""
    path, text = ROOT / "BUILD", build_text()
    if "--check" in arguments:
        in_step = path.is_file() and path.read_text(encoding="utf-8") == text
        if not in_step:
            print(
                "BUILD is not in step with the files; run python .ci/write_build.py",
                file=sys.stderr,
            )
        return 0 if in_step else 1
    path.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
