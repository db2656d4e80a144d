"""Tests that BUILD is in step with the files: a target for each, with exactly the project modules
it imports.
"""

from __future__ import annotations

import ast
import importlib.util
from pathlib import Path

import pytest

from tests.test_imports import FOLDERS, ROOT, imports, modules

REMEDY = "run python .ci/write_build.py"


def generator():
    """Loads .ci/write_build.py, which is in no package."""
    spec = importlib.util.spec_from_file_location("write_build", ROOT / ".ci" / "write_build.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def targets() -> list[tuple[str, dict]]:
    """Reads BUILD as Python: (rule, attributes) of every py_* target."""
    found = []
    for node in ast.parse((ROOT / "BUILD").read_text(encoding="utf-8")).body:
        call = node.value
        assert isinstance(call, ast.Call) and isinstance(call.func, ast.Name), ast.dump(node)
        if call.func.id.startswith("py_"):
            found.append(
                (
                    call.func.id,
                    {
                        word.arg: ast.literal_eval(word.value)
                        for word in call.keywords
                        if word.arg != "data"
                    },
                )
            )
    return found


def test_files() -> dict[str, Path]:
    """Returns the dotted names and files of the tests, of what they share and of the examples."""
    return {
        ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path
        for folder in ("tests", "examples")
        for path in sorted((ROOT / folder).rglob("*.py"))
    }


test_files.__test__ = False


def holds_code(path: Path) -> bool:
    return any(
        not isinstance(node, ast.Expr) for node in ast.parse(path.read_text(encoding="utf-8")).body
    )


def expected() -> dict[str, tuple[str, set[str]]]:
    """Returns file -> (rule, files of the project it imports), worked out without the generator."""
    known = {**modules(ROOT), **test_files()}
    known = {
        name: path for name, path in known.items() if path.name != "__init__.py" or holds_code(path)
    }
    wanted = {}
    for path in known.values():
        source = path.relative_to(ROOT).as_posix()
        rule = "py_library"
        if source.startswith(("launch/", "examples/")) and any(
            isinstance(node, ast.If) and ast.unparse(node.test) == "__name__ == '__main__'"
            for node in ast.parse(path.read_text(encoding="utf-8")).body
        ):
            rule = "py_binary"
        if source.startswith("tests/") and path.name.startswith("test_"):
            rule = "py_test"
        needed = {
            name for name in imports(path, known) if name.split(".")[0] in (*FOLDERS, "tests")
        }
        wanted[source] = (
            rule,
            {known[name].relative_to(ROOT).as_posix() for name in needed if name in known},
        )
    return wanted


def test_build_is_what_the_generator_writes():
    assert (ROOT / "BUILD").is_file(), REMEDY
    assert (ROOT / "BUILD").read_text(
        encoding="utf-8"
    ).splitlines() == generator().build_text().splitlines(), REMEDY


def test_every_file_has_one_target_of_its_kind():
    found, wanted = targets(), expected()
    sources = [attributes["srcs"] for _, attributes in found]
    assert all(len(files) == 1 for files in sources)
    assert sorted(files[0] for files in sources) == sorted(wanted), REMEDY
    for rule, attributes in found:
        assert attributes["srcs"][0] == f"{attributes['name']}.py", attributes
        assert rule == wanted[attributes["srcs"][0]][0], attributes
        assert attributes.get("main", attributes["srcs"][0]) == attributes["srcs"][0]
    rules = [rule for rule, _ in found]
    assert min(rules.count("py_library"), rules.count("py_binary"), rules.count("py_test")) > 0


def test_dependencies_are_what_the_file_imports():
    wanted = expected()
    for _, attributes in targets():
        deps = attributes.get("deps", [])
        assert len(deps) == len(set(deps)) and all(dep.startswith(":") for dep in deps), attributes
        assert {f"{dep[1:]}.py" for dep in deps} == wanted[attributes["srcs"][0]][1], (
            attributes["name"],
            REMEDY,
        )


@pytest.fixture
def small_tree(tmp_path: Path) -> Path:
    files = {
        "epg_tf/__init__.py": '"""Says."""',
        "epg_tf/core/types.py": "import numpy as np",
        "epg_tf/tasks/__init__.py": "",
        "epg_tf/tasks/point.py": "import os\nfrom epg_tf.core import types\nFILE = __file__, 'x', "
        '"assets"',
        "epg_tf/tasks/assets/point.xml": "<mujoco/>",
        "configs/point.py": "from ml_collections import ConfigDict\nfrom epg_tf.tasks.point "
        "import FILE, Other",
        "launch/run.py": 'def f():\n    import epg_tf.core.types\nif __name__ == "__main__":\n    '
        "f()",
        "launch/common.py": "from absl import flags",
        "tests/__init__.py": "",
        "tests/reference.py": "x = 1",
        "tests/test_types.py": "from tests import reference\nimport epg_tf.core.types",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(f"{text}\n" if text else "")
    return tmp_path


def test_generator_on_a_small_tree(small_tree):
    text = generator().build_text(small_tree)
    assert (
        text.endswith(")\n")
        and text.split("\n\n", 3)[3]
        == """\
py_library(
    name = "epg_tf/core/types",
    srcs = ["epg_tf/core/types.py"],
    deps = [
        # pip: numpy
    ],
)

py_library(
    name = "epg_tf/tasks/point",
    srcs = ["epg_tf/tasks/point.py"],
    data = glob(["epg_tf/tasks/assets/**"]),
    deps = [
        ":epg_tf/core/types",
    ],
)

py_library(
    name = "configs/point",
    srcs = ["configs/point.py"],
    deps = [
        ":epg_tf/tasks/point",
        # pip: ml_collections
    ],
)

py_library(
    name = "launch/common",
    srcs = ["launch/common.py"],
    deps = [
        # pip: absl-py
    ],
)

py_binary(
    name = "launch/run",
    srcs = ["launch/run.py"],
    main = "launch/run.py",
    deps = [
        ":epg_tf/core/types",
    ],
)

py_library(
    name = "tests/reference",
    srcs = ["tests/reference.py"],
)

py_test(
    name = "tests/test_types",
    srcs = ["tests/test_types.py"],
    main = "tests/test_types.py",
    deps = [
        ":epg_tf/core/types",
        ":tests/reference",
    ],
)
"""
    )
