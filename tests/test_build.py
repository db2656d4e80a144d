"""Tests that the BUILD files are in step with the files, and that a failing test fails its target.

What a target should be is worked out here a second time, without the generator in tools/.
"""

from __future__ import annotations

import ast
import functools
import graphlib
import importlib
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
FOLDERS = ("configs", "epg_tf", "examples", "launch", "tests", "tools")
REMEDY = "run python tools/write_build.py"


@pytest.fixture(scope="module")
def write_build():
    """The generator, which is in no package."""
    sys.path.insert(0, str(ROOT / "tools"))
    yield importlib.import_module("write_build")
    sys.path.remove(str(ROOT / "tools"))


@functools.cache
def rules() -> dict[str, tuple[str, dict]]:
    """Reads all BUILD files as Python: label -> (rule, attributes); globs become their patterns."""
    found = {}
    tops = (*FOLDERS, "docs", "results")
    for path in [ROOT / "BUILD", *(one for top in tops for one in (ROOT / top).rglob("BUILD"))]:
        folder = path.parent.relative_to(ROOT).as_posix()
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            call = node.value
            if isinstance(call, ast.ListComp):  # of tools/pip
                names = ast.literal_eval(call.generators[0].iter)
                found |= {f"//{folder}:{name}": ("alias", {}) for name in names}
            elif call.func.id in ("py_library", "py_binary", "py_test", "filegroup"):
                words = {word.arg: value(word.value) for word in call.keywords}
                label = f"//{folder}:{words['name']}".replace("//.:", "//:")
                assert label not in found, f"two targets {label}"
                found[label] = (call.func.id, words)
            elif call.func.id == "exports_files":
                names = ast.literal_eval(call.args[0])
                found |= {f"//{folder}:{name}".replace("//.:", "//:"): ("", {}) for name in names}
    return found


def value(node: ast.expr) -> object:
    """Returns a literal, or the patterns of a glob and what is added to them."""
    if isinstance(node, ast.BinOp):
        return value(node.left) + value(node.right)
    return ast.literal_eval(node.args[0] if isinstance(node, ast.Call) else node)


@functools.cache
def targets() -> dict[str, tuple[str, str, dict]]:
    """Returns file -> (label, rule, attributes) of the targets of Python files, labels in full."""
    found = {}
    for label, (rule, words) in rules().items():
        folder = label[2:].split(":")[0]
        if "srcs" not in words or not rule.startswith("py_") or folder.startswith("tools/"):
            continue
        own = [name for name in words["srcs"] if name[:2] != "//"]
        assert len(own) == 1 and f"{folder}/{own[0]}" not in found, label
        full = {
            name: {f"//{folder}{text}" if text[0] == ":" else text for text in words.get(name, ())}
            for name in ("deps", "data", "srcs")
        }
        found[f"{folder}/{own[0]}"] = (label, rule, {**words, **full})
    return found


@functools.cache
def python_files() -> dict[str, Path]:
    """Returns dotted name -> file, as imports name it; files in tools/ name each other without."""
    return {
        re.sub(
            r"^tools\.|\.__init__$", "", ".".join(path.relative_to(ROOT).with_suffix("").parts)
        ): path
        for top in FOLDERS
        for path in (ROOT / top).rglob("*.py")
    }


def imports(path: Path, known: dict[str, Path]) -> set[Path]:
    """Returns the files of the project that a file or its stub imports."""
    found = set()
    package = path.parent.relative_to(ROOT).parts
    stubs = [one for one in (path, path.with_suffix(".pyi")) if one.is_file()]
    for node in (node for one in stubs for node in ast.walk(ast.parse(one.read_text()))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) + 1 - node.level] if node.level else ()
            base = ".".join([*above, *filter(None, [node.module])])
            deep = {f"{base}.{alias.name}" for alias in node.names}
            found |= deep & set(known)
            found |= set() if deep <= set(known) else {base}
    return {known[name] for name in found if name in known} - {path}


def test_the_files_are_what_the_generator_writes(write_build):
    wanted = write_build.build_files(ROOT)
    assert len(wanted) > 25 and write_build.differences(ROOT, wanted) == [], REMEDY


def test_every_python_file_has_one_target_of_its_kind():
    found = targets()
    names = {path.relative_to(ROOT).as_posix() for path in python_files().values()}
    assert set(found) == names, REMEDY
    for name, (label, rule, _) in found.items():
        if name.startswith("tests/") and "/test_" in name:
            assert rule == "py_test", label
        elif name.startswith("launch/") and "\nif __name__ ==" in (ROOT / name).read_text():
            assert rule == "py_binary", label
        elif not name.startswith(("examples/", "tools/")):
            assert rule == "py_library", label


def test_dependencies_are_what_the_file_imports():
    """And the package it is in; in launch/ and tests/ also modules that are found by name."""
    found, known = targets(), python_files()
    of_path = {ROOT / name: label for name, (label, _, _) in found.items()}
    for name, (label, rule, words) in found.items():
        path = ROOT / name
        deps = {dep for dep in words["deps"] if not dep.startswith("//tools/pip:")}
        needed = {of_path[one] for one in imports(path, known)}
        init = path.parent / "__init__.py"
        if init.is_file() and init != path and not imports(init, known):
            needed.add(of_path[init])
        assert needed <= deps, (label, REMEDY)
        if rule == "py_library" and not name.startswith("tests/"):
            assert needed == deps, (label, REMEDY)


def test_every_label_names_something():
    found = rules()
    for label, (_, words) in found.items():
        folder = label[2:].split(":")[0]
        for text in [text for name in ("deps", "data", "srcs") for text in words.get(name, ())]:
            if ":" in text:
                assert (f"//{folder}{text}" if text[0] == ":" else text) in found, (label, text)
            else:
                assert any((ROOT / folder).glob(text)), (label, text)


def test_targets_form_no_circle():
    """Python allows a circle of imports, Bazel does not."""
    graph = {label: words["deps"] | words["data"] for label, _, words in targets().values()}
    order = list(graphlib.TopologicalSorter(graph).static_order())
    assert order.index("//epg_tf:epg_tf") > order.index("//epg_tf/core:errors")


@pytest.mark.parametrize(
    "file, data",
    [
        ("epg_tf/artifacts/learned_loss.py", "//epg_tf:pretrained"),
        ("epg_tf/tasks/point_body.py", "//epg_tf/tasks:assets"),
        ("tests/test_build.py", "//:project"),
        ("tests/test_golden.py", "//tests:golden"),
        ("tests/test_imports.py", "//epg_tf:all_files"),
    ],
)
def test_data_is_there(file, data):
    assert data in targets()[file][2]["data"]


def test_every_test_runs_under_pytest_and_every_command_as_a_module():
    for name, (label, rule, words) in targets().items():
        if rule == "py_test":
            assert words["main"] == "//tools:pytest_main.py" and words["args"] == [name], label
            assert "//:pyproject.toml" in words["data"] and "//tests:conftest" in words["deps"]
            assert "//tools/pip:pytest" in words["deps"], label
        elif name.startswith("launch/") and rule == "py_binary":
            assert words["main"] == "//tools:run_module.py", label
            assert words["args"] == [f"launch.{label.split(':')[1]}"]
            assert "//configs:all_modules" in words["deps"]


@pytest.mark.slow
@pytest.mark.parametrize(
    "text, code",
    [
        ("def test_f():\n    assert True", 0),
        ("def test_f():\n    assert False", 1),
        ("def f():\n    assert True", 5),
        ("import not_there", 2),
    ],
    ids=["passes", "fails", "has no tests", "cannot be imported"],
)
def test_a_target_fails_unless_its_tests_pass(text, code, tmp_path):
    (tmp_path / "test_one.py").write_text(text)
    words = [sys.executable, ROOT / "tools" / "pytest_main.py", "test_one.py"]
    process = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert process.returncode == code, process.stdout


def test_a_test_sees_only_the_files_that_its_target_declares(tmp_path):
    """Bazel links the declared files into a folder; the links lead to all of the others."""
    for name in ("test_one.py", "declared.txt", "other.txt"):
        (tmp_path / "checkout" / name).parent.mkdir(exist_ok=True)
        (tmp_path / "checkout" / name).write_text(
            "from pathlib import Path\ndef test_f():\n    here = Path(__file__).resolve().parent\n"
            "    assert sorted(path.name for path in here.glob('*.txt')) == ['declared.txt']"
        )
        if name != "other.txt":
            (tmp_path / "links" / name).parent.mkdir(exist_ok=True)
            (tmp_path / "links" / name).symlink_to(tmp_path / "checkout" / name)
    words = [sys.executable, ROOT / "tools" / "pytest_main.py", "test_one.py"]
    process = subprocess.run(
        words, cwd=tmp_path / "links", capture_output=True, text=True, check=False
    )
    assert process.returncode == 0, process.stdout


@pytest.fixture
def small_tree(tmp_path: Path) -> Path:
    files = {
        "constraints.txt": "Absl_Py==1\nml_collections==1.1.0\nnumpy==1\npytest==9",
        "configs/point.py": "from ml_collections import ConfigDict\nfrom epg_tf.tasks import point",
        "epg_tf/__init__.py": "import json",
        "epg_tf/__init__.pyi": "from .tasks.point import FILE as FILE",
        "epg_tf/tasks/__init__.py": "'Says.'",
        "epg_tf/tasks/point.py": "import os\nimport numpy\nFILE = 'assets'",
        "epg_tf/tasks/assets/point.xml": "<mujoco/>",
        "launch/common.py": "from absl import flags",
        "launch/run.py": "from . import common\nfrom .common import flags\n"
        'if __name__ == "__main__":\n    common.run()',
        "tests/test_run.py": "import pytest\nimport horovod\nCOMMAND = 'launch.run'\n"
        "@pytest.mark.slow\ndef test_f():\n    open('README.md')",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(f"{text}\n")
    return tmp_path


def test_generator_on_a_small_tree(small_tree, write_build):
    found = write_build.build_files(small_tree)
    folders = ["", "configs/", "epg_tf/", "epg_tf/tasks/", "launch/", "tests/", "tools/pip/"]
    assert sorted(found) == sorted(f"{folder}BUILD" for folder in folders)
    assert (
        '    "absl-py",\n    "ml-collections",\n    "numpy",\n    "pytest",\n]]'
        in (found["tools/pip/BUILD"])
    )
    after_all_files = {name: text.split("\n)\n\n", 1)[-1] for name, text in found.items()}
    assert (
        after_all_files["epg_tf/BUILD"] + after_all_files["epg_tf/tasks/BUILD"]
        == """\
py_library(
    name = "epg_tf",
    srcs = ["__init__.py"],
    data = ["__init__.pyi"],
    deps = ["//epg_tf/tasks:point"],
)
filegroup(
    name = "assets",
    srcs = glob(["assets/**"]),
)

py_library(
    name = "tasks",
    srcs = ["__init__.py"],
)

py_library(
    name = "point",
    srcs = ["point.py"],
    data = [":assets"],
    deps = [
        ":tasks",
        "//tools/pip:numpy",
    ],
)
"""
    )
    assert (
        after_all_files["launch/BUILD"] + after_all_files["tests/BUILD"]
        == """\
py_library(
    name = "all_modules",
    deps = [
        ":common",
        ":run",
    ],
)

py_library(
    name = "common",
    srcs = ["common.py"],
    deps = ["//tools/pip:absl-py"],
)

py_binary(
    name = "run",
    srcs = [
        "run.py",
        "//tools:run_module.py",
    ],
    args = ["launch.run"],
    legacy_create_init = 0,
    main = "//tools:run_module.py",
    deps = [
        ":common",
        "//configs:all_modules",
    ],
)
py_test(
    name = "test_run",
    size = "enormous",
    srcs = [
        "test_run.py",
        "//tools:pytest_main.py",
    ],
    args = ["tests/test_run.py"],
    data = [
        "//:project",
        "//:pyproject.toml",
    ],
    legacy_create_init = 0,
    main = "//tools:pytest_main.py",
    tags = ["slow"],
    deps = [
        "//launch:all_modules",
        "//launch:run",
        "//tools/pip:pytest",
    ],
)
"""
    )


def test_generator_writes_removes_and_is_then_in_step(small_tree, write_build):
    wanted = write_build.build_files(small_tree)
    stale = small_tree / "tests" / "old" / "BUILD"
    foreign = small_tree / "tests" / "foreign" / "BUILD"
    for path, text in ((stale, write_build.HEADER), (foreign, "# Written by hand.\n")):
        path.parent.mkdir()
        path.write_text(text)
    assert set(write_build.differences(small_tree, wanted)) == {*wanted, "tests/old/BUILD"}
    write_build.write(small_tree, wanted)
    assert write_build.differences(small_tree, write_build.build_files(small_tree)) == []
    assert not stale.exists() and foreign.exists()


def test_generator_refuses_a_package_that_is_not_pinned(small_tree, write_build):
    (small_tree / "launch" / "common.py").write_text("import torch\n")
    with pytest.raises(SystemExit, match="launch/common.py: imports torch, which constraints.txt"):
        write_build.build_files(small_tree)
