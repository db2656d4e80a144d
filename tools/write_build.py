"""Writes the BUILD files from the tree: one for each folder, one target for each Python file.

    python tools/write_build.py          writes them
    python tools/write_build.py --check  exits with 1 if they are not what would be written

Of a file it needs what the file imports, what the file names in strings, and the lists of rules
below. docs/bazel.md explains the targets.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence, Set
from pathlib import Path

import build_targets
from build_targets import MODULE_MAIN, PYTEST_MAIN, Tree
from source_files import Source

ROOT = Path(__file__).resolve().parents[1]
HEADER = "# Written by tools/write_build.py, from the files and what they import.\n"
Attributes = dict[str, str | int | list[str]]

VISIBLE = 'package(default_visibility = ["//visibility:public"])\n'


def target(tree: Tree, source: Source) -> str:
    """Returns the text of one target."""
    rule, here = build_targets.kind_of(source), f"//{source.folder}:"
    attributes: Attributes = {"name": source.name, "srcs": [source.path.name]}
    if rule == "py_test":
        attributes |= {"args": [f"{source.folder}/{source.path.name}"], "main": PYTEST_MAIN}
        attributes |= (
            {"size": "enormous", "tags": ["slow"]} if build_targets.SLOW in source.text else {}
        )
    elif rule == "py_binary" and source.folder == "launch":
        attributes |= {"args": [source.module], "main": MODULE_MAIN}
    if rule != "py_library":
        attributes["legacy_create_init"] = 0  # the __init__.py files have targets
    if "main" in attributes:
        attributes["srcs"] = [source.path.name, str(attributes["main"])]
    deps = build_targets.project_deps(tree, source) | build_targets.pip_deps(tree, source)
    for name, labels in (("data", build_targets.data_of(tree, source)), ("deps", deps)):
        if labels:
            short = {text.replace(here, ":") if text.startswith(here) else text for text in labels}
            attributes[name] = sorted(short, key=_order)
    return call(rule, attributes)


def _order(text: str) -> tuple[bool, str]:
    return not text.startswith(":"), text.replace(":", "!")


def call(rule: str, attributes: Attributes) -> str:
    """Returns a call of a rule as buildifier would lay it out."""
    first = ("name", "size", "srcs", "args", "data", "legacy_create_init", "main", "tags", "deps")
    lines = [f"{rule}("]
    for name in sorted(attributes, key=first.index):
        value = attributes[name]
        if isinstance(value, list) and len(value) > 1:
            lines += [f"    {name} = [", *(f'        "{text}",' for text in value), "    ],"]
        else:
            lines.append(f"    {name} = {json.dumps(value)},")
    return "\n".join([*lines, ")\n"])


def file_group(name: str, patterns: Sequence[str], labels: Sequence[str] = ()) -> str:
    """Returns a filegroup of the files of this folder that match, and of other file groups."""
    exclude = ', exclude = ["**/__pycache__/**", "**/build/**", "**/_build/**"]'
    listed = ", ".join(f'"{pattern}"' for pattern in patterns)
    lines = ["filegroup(", f'    name = "{name}",']
    lines.append(f"    srcs = glob([{listed}]{exclude if '**' in patterns else ''})")
    if labels:
        lines[-1] += " + ["
        lines += [*(f'        "{text}",' for text in labels), "    ]"]
    return "\n".join([*lines[:-1], f"{lines[-1]},", ")\n"])


def package_text(tree: Tree, folder: str, used: Set[str]) -> str:
    """Returns what the BUILD file of a folder should hold; `used` are the labels of data."""
    inside = [source for source in tree.sources.values() if source.folder == folder]
    inner = [f"//{one}:all_files" for one in tree.folders() if one.rpartition("/")[0] == folder]
    inner += ["//tools/pip:all_files"] if folder == "tools" else []
    groups = [file_group("all_files", ["**"], inner)]
    data = [name for name in tree.data_folders(folder) if f"//{folder}:{name}" in used]
    groups += [file_group(name, [f"{name}/**"]) for name in data]
    if folder in build_targets.FOUND_BY_NAME:
        modules = [f":{source.name}" for source in inside]
        groups.append(call("py_library", {"name": "all_modules", "deps": modules}))
    if folder == "tools":
        mains = ", ".join(f'"{main.split(":")[1]}"' for main in (PYTEST_MAIN, MODULE_MAIN))
        groups.append(f"exports_files([{mains}])\n")
    targets = [target(tree, source) for source in inside]
    rules = sorted({text.split("(")[0] for text in [*targets, *groups] if text[:3] == "py_"})
    names = ", ".join(f'"{rule}"' for rule in rules)
    load = [f'load("@rules_python//python:defs.bzl", {names})\n'] if rules else []
    return "\n".join([HEADER, *load, VISIBLE, *groups, *targets])


def root_text(tree: Tree) -> str:
    """Returns what the BUILD file of the project's folder should hold."""
    tops = sorted({folder.split("/")[0] for folder in tree.folders()})
    return "\n".join(
        [
            HEADER,
            VISIBLE,
            'exports_files(["constraints.txt", "pyproject.toml"])\n',
            file_group("all_files", build_targets.ROOT_FILES),
            file_group(
                "project", ["BUILD"], [":all_files", *(f"//{top}:all_files" for top in tops)]
            ),
        ]
    )


def pip_text(tree: Tree) -> str:
    """Returns what tools/pip/BUILD should hold: a name for each pip package that is used."""
    used = sorted(
        {dep for source in tree.sources.values() for dep in build_targets.pip_deps(tree, source)}
    )
    names = "\n".join(f'    "{dep.split(":")[1]}",' for dep in used)
    return "\n".join(
        [
            HEADER
            + "# What the repository @pip is decides what a package is: see docs/bazel.md.\n",
            'load("@pip//:requirements.bzl", "requirement")\n',
            VISIBLE,
            file_group("all_files", ["BUILD"]),
            f"[alias(name = name, actual = requirement(name)) for name in [\n{names}\n]]\n",
        ]
    )


def build_files(root: Path = ROOT) -> dict[str, str]:
    """Returns path -> text of all BUILD files."""
    tree = Tree.of(root)
    used = {one for source in tree.sources.values() for one in build_targets.data_of(tree, source)}
    texts = {f"{folder}/BUILD": package_text(tree, folder, used) for folder in tree.folders()}
    return {"BUILD": root_text(tree), "tools/pip/BUILD": pip_text(tree), **texts}


def differences(root: Path, wanted: dict[str, str]) -> list[str]:
    """Returns the BUILD files that are not as wanted, or not wanted."""
    found = [
        path for folder in build_targets.PYTHON_FOLDERS for path in (root / folder).rglob("BUILD")
    ]
    names = {path.relative_to(root).as_posix() for path in found if _is_ours(path)} | {*wanted}
    return sorted(name for name in names if wanted.get(name) != _text(root / name))


def _is_ours(path: Path) -> bool:
    return _text(path).startswith(HEADER)


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8") if path.is_file() else ""


def write(root: Path, wanted: dict[str, str]) -> None:
    """Writes the BUILD files that are not as wanted and removes those that are not wanted."""
    for name in differences(root, wanted):
        path = root / name
        if name not in wanted:
            path.unlink()
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        new = path.with_name("BUILD.new")
        new.write_text(wanted[name], encoding="utf-8")
        os.replace(new, path)


def main(arguments: Sequence[str]) -> int:
    """Writes the BUILD files, or with --check only says whether they are in step."""
    wanted = build_files(ROOT)
    if "--check" not in arguments:
        write(ROOT, wanted)
        return 0
    wrong = differences(ROOT, wanted)
    if wrong:
        print(
            f"not in step with the files: {', '.join(wrong)}; run python tools/write_build.py",
            file=sys.stderr,
        )
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
