"""Tests the house rules: imports go down a floor or stay within a wing, and what every module owes
its reader.
"""

from __future__ import annotations

import ast
import functools
import graphlib
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
FOLDERS = ("epg_tf", "launch", "configs")
MAXIMUM_LINES = 400

# Floor of each room, and the rooms on the same floor that it may import. Imports go down a floor or
# stay in the room.
ROOMS: dict[str, tuple[int, tuple[str, ...]]] = {
    "core": (1, ()),
    "losses": (2, ()),
    "agents": (2, ()),
    "tasks": (2, ()),
    "epg": (3, ()),
    "metagenrl": (3, ()),
    "baselines": (3, ("epg", "metagenrl")),  # beside whose losses and objectives they learn
    "reports": (4, ("evaluation", "studies")),  # pictures and tables of what was measured
    "artifacts": (4, ()),
    "evaluation": (4, ("artifacts",)),  # what is evaluated was saved before
    "studies": (4, ("artifacts", "evaluation")),  # measured on top of evaluations
    "runs": (4, ("artifacts", "evaluation", "studies", "reports")),  # what a run leaves
    "figures": (5, ()),  # made from finished runs, tests and losses
    "front": (5, ()),  # epg_tf/__init__.py, what users import
    "configs": (6, ()),
    "launch": (7, ("configs",)),
}

TF_AGENTS = ("epg_tf.artifacts.saved_policy", "epg_tf.artifacts.learned_loss_agent")

# (library, rooms or modules that may import it)
RESERVED = [
    ("mujoco", ("tasks", "baselines", "launch.surroundings")),
    ("gymnasium", ("tasks", "baselines")),
    ("gymnasium_robotics", ("tasks", "baselines")),
    ("gym", ("tasks", "baselines")),
    ("tf_agents.utils.value_ops", ("losses", "baselines")),
    ("tf_agents", ("tasks", "baselines", *TF_AGENTS)),
    ("horovod", ("epg_tf.core.communication",)),
    ("absl", ("launch",)),
]

FLAG = re.compile(r"(?:^|[\s'\"(`])(--[a-z_]+)", re.MULTILINE)
# Flags that modules of the package may write.
WRITTEN_FLAGS: dict[str, set[str]] = {
    # A card has the command with which people repeat its numbers.
    "epg_tf.artifacts.cards": {
        "--measure",
        "--loss",
        "--lives",
        "--seed",
        "--compare",
        "--compare_updates",
        "--alpha",
        "--updates",
        "--fixed_policies",
        "--reporting",
        "--output_dir",
        "--environment",
        "--env_steps",
        "--episodes",
        "--config",
    },
    "epg_tf.core.communication": {"--network", "--gloo"},  # of horovodrun
    "epg_tf.runs.provenance": {"--always", "--dirty", "--abbrev", "--exclude"},  # of git
}


def modules(root: Path) -> dict[str, Path]:
    """Returns dotted name -> file of every module of the project; a package has its own name."""
    paths = [path for folder in FOLDERS for path in sorted((root / folder).rglob("*.py"))]
    return {
        ".".join(path.relative_to(root).with_suffix("").parts).removesuffix(".__init__"): path
        for path in paths
    }


def parsed(path: Path) -> ast.Module:
    return tree_of(path.read_text(encoding="utf-8"), str(path))


@functools.cache  # every rule reads every module
def tree_of(text: str, name: str) -> ast.Module:
    return ast.parse(text, name)


def imports(path: Path, known: Mapping[str, Path]) -> set[str]:
    """Returns the dotted names a file imports, wherever in it; project modules and others as deep
    as they are named.
    """
    found = set()
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            module = node.module or ""
            if node.level:  # only launch/, which an installation moves into the package
                place = f"{path}:{node.lineno}"
                assert path.parent.name == "launch", (
                    f"{place}: relative import; write the whole name"
                )
                module = f"launch.{module}".rstrip(".")
            for alias in node.names:
                deep = f"{module}.{alias.name}"
                inside = module.split(".")[0] in (*FOLDERS, "tests")
                found.add(module if inside and deep not in known else deep)
    return found


def room(module: str) -> str | None:
    """Returns the room a project module belongs to, or None if the table has no place for it."""
    if module == "epg_tf":
        return "front"
    top, *rest = module.split(".")
    name = rest[0] if top == "epg_tf" else top
    return name if name in ROOMS and name != "front" else None


def project_edges(root: Path) -> Iterator[tuple[str, str]]:
    """Yields (importer, imported) between modules of the project."""
    known = modules(root)
    for module, path in known.items():
        for name in sorted(imports(path, known)):
            if name.split(".")[0] in FOLDERS:
                yield module, name


def may_import(importer: str, imported: str) -> bool:
    here, there = room(importer), room(imported)
    if here is None or there is None:
        return False
    (floor, neighbours), (other_floor, _) = ROOMS[here], ROOMS[there]
    return here == there or other_floor < floor or there in neighbours


def unplaced(root: Path) -> list[str]:
    return [module for module in modules(root) if room(module) is None]


def climbing_imports(root: Path) -> list[str]:
    return [
        f"{importer} imports {imported}"
        for importer, imported in project_edges(root)
        if not may_import(importer, imported)
    ]


def circle(root: Path) -> list[str]:
    """Returns the modules of a circle of imports, or nothing."""
    graph: dict[str, set[str]] = {}
    for importer, imported in project_edges(root):
        graph.setdefault(importer, set()).add(imported)
    try:
        graphlib.TopologicalSorter(graph).prepare()
    except graphlib.CycleError as error:
        return error.args[1]
    return []


def missing_targets(root: Path) -> list[str]:
    known = modules(root)
    return [
        f"{importer} imports {imported}, which is no module"
        for importer, imported in project_edges(root)
        if imported not in known
    ]


def misplaced_libraries(root: Path) -> list[str]:
    known, found = modules(root), []
    for module, path in known.items():
        for name in sorted(imports(path, known)):
            owners = next(
                (owners for library, owners in RESERVED if f"{name}.".startswith(f"{library}.")),
                None,
            )
            if owners is not None and module not in owners and room(module) not in owners:
                found.append(f"{module} imports {name}; only {', '.join(owners)} may")
    return found


def untidy_modules(root: Path) -> list[str]:
    """Returns modules with forbidden names, catch-all parameters or too many lines."""
    found = []
    for module, path in modules(root).items():
        if path.stem in ("utils", "util"):
            found.append(f"{module} says nothing about what is in it")
        lines = path.read_text(encoding="utf-8").count("\n")
        if lines > MAXIMUM_LINES:
            found.append(f"{module} has {lines} lines, above {MAXIMUM_LINES}")
        for node in ast.walk(parsed(path)):
            if (
                isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda))
                and node.args.kwarg
            ):
                found.append(f"{module}:{node.lineno} takes **{node.args.kwarg.arg}")
    return found


def undocumented(root: Path) -> list[str]:
    """Returns public modules, classes, functions and methods without a docstring."""
    found = []

    def visit(node: ast.Module | ast.ClassDef, name: str) -> None:
        if not ast.get_docstring(node):
            found.append(name)
        for child in node.body:
            if (
                isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef))
                and child.name[0] != "_"
            ):
                inner = f"{name}.{child.name}"
                if isinstance(child, ast.ClassDef):
                    visit(child, inner)
                elif not ast.get_docstring(child):
                    found.append(inner)

    for module, path in modules(root).items():
        visit(parsed(path), module)
    return found


def flags_in_the_package(root: Path) -> list[str]:
    """Returns strings, docstrings included, that name a flag: only commands know their flags."""
    return [
        f"{module}:{node.lineno} names the flag {flag}"
        for module, path in modules(root).items()
        if module.split(".")[0] == "epg_tf"
        for node in ast.walk(parsed(path))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
        for flag in FLAG.findall(node.value)
        if flag not in WRITTEN_FLAGS.get(module, ())
    ]


RULES = [
    unplaced,
    climbing_imports,
    circle,
    missing_targets,
    misplaced_libraries,
    untidy_modules,
    undocumented,
    flags_in_the_package,
]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_the_house_keeps(rule):
    assert rule(ROOT) == []


def test_the_whole_house_is_seen():
    known = modules(ROOT)
    assert {
        "epg_tf",
        "epg_tf.epg.settings",
        "epg_tf.tasks.physics",
        "epg_tf.epg.outer_loop",
        "launch.meta_train",
        "configs.point_goal",
    } <= set(known)
    folders = {
        path.name for path in (ROOT / "epg_tf").iterdir() if (path / "__init__.py").is_file()
    }
    assert folders == set(ROOMS) - {"front", "configs", "launch"}
    assert not [path for path in (ROOT / "epg_tf").glob("*.py") if path.name != "__init__.py"]
    assert len(list(project_edges(ROOT))) > 50


OFFENCES = {
    "upwards": ("epg_tf/losses/a.py", "from epg_tf.epg import outer_loop", climbing_imports),
    "upwards in a function": (
        "epg_tf/agents/a.py",
        "def _f():\n    import epg_tf.epg.a",
        climbing_imports,
    ),
    "core to a room": (
        "epg_tf/core/types.py",
        "from epg_tf.losses.contract import Loss",
        climbing_imports,
    ),
    "across": ("epg_tf/agents/a.py", "from epg_tf.losses.contract import Loss", climbing_imports),
    "epg to runs": ("epg_tf/epg/a.py", "from epg_tf.runs import folder", climbing_imports),
    "epg to its neighbour": (
        "epg_tf/epg/a.py",
        "from epg_tf.baselines import ppo",
        climbing_imports,
    ),
    "the front from within": ("epg_tf/epg/a.py", "import epg_tf", climbing_imports),
    "to a launcher": ("epg_tf/runs/a.py", "from launch.command_line import fail", climbing_imports),
    "a config to a launcher": ("configs/a.py", "import launch.command_line", climbing_imports),
    "no place": ("epg_tf/misc.py", "", unplaced),
    "circle": ("epg_tf/core/types.py", "from epg_tf.core.settings import Settings", circle),
    "nothing there": ("epg_tf/losses/a.py", "import epg_tf.losses.nowhere", missing_targets),
    "mujoco": ("epg_tf/agents/a.py", "import mujoco.batch", misplaced_libraries),
    "mujoco in another launcher": (
        "launch/a.py",
        "def _f():\n    import mujoco",
        misplaced_libraries,
    ),
    "gymnasium": ("epg_tf/epg/a.py", "from gymnasium import spaces", misplaced_libraries),
    "environments": (
        "epg_tf/losses/a.py",
        "from tf_agents.environments import tf_environment",
        misplaced_libraries,
    ),
    "value_ops": (
        "epg_tf/agents/a.py",
        "from tf_agents.utils import value_ops",
        misplaced_libraries,
    ),
    "horovod": ("epg_tf/epg/a.py", "import horovod.tensorflow as hvd", misplaced_libraries),
    "flags": ("epg_tf/core/types.py", "from absl import flags", misplaced_libraries),
    "utils": ("epg_tf/agents/utils.py", "", untidy_modules),
    "catch-all": ("epg_tf/agents/a.py", "def _f(a, **rest): pass", untidy_modules),
    "catch-all in a lambda": ("epg_tf/agents/a.py", "f = lambda **rest: 0", untidy_modules),
    "too long": ("epg_tf/agents/a.py", "x = 1\n" * 400, untidy_modules),
    "a flag in a message": (
        "epg_tf/runs/a.py",
        "def _f(path):\n    raise ValueError(f'{path}: in use; pass --overwrite')",
        flags_in_the_package,
    ),
    "a flag in a docstring": (
        "epg_tf/losses/a.py",
        "def f():\n    'As (--loss_name).'",
        flags_in_the_package,
    ),
    "silent class": ("epg_tf/agents/a.py", "class A:\n    x = 1", undocumented),
    "silent function": ("launch/a.py", "def f():\n    pass", undocumented),
    "silent method": (
        "epg_tf/agents/a.py",
        "class A:\n    'Is.'\n    def f(self):\n        pass",
        undocumented,
    ),
}


@pytest.mark.parametrize("offence", OFFENCES)
def test_the_rules_catch(offence, tmp_path):
    """Every rule is seen to fail, on a small house with one thing wrong."""
    house = {
        "epg_tf/__init__.py": "from epg_tf.epg.outer_loop import x",
        "epg_tf/core/__init__.py": "",
        "epg_tf/core/types.py": "",
        "epg_tf/core/settings.py": "from epg_tf.core.types import x",
        "epg_tf/core/communication.py": "import horovod",
        "epg_tf/tasks/base.py": "import mujoco",
        "epg_tf/losses/contract.py": "from epg_tf.core.settings import x\nfrom tf_agents.utils "
        "import value_ops",
        "epg_tf/epg/outer_loop.py": "from epg_tf.losses import contract\nfrom epg_tf.tasks.base "
        "import x",
        "epg_tf/baselines/ppo.py": "from epg_tf.epg.outer_loop import x",
        "epg_tf/runs/folder.py": "",
        "launch/surroundings.py": "import mujoco\nfrom absl import app",
    }
    for name, text in house.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(f'"""Says."""\n{text}\n')
    assert [rule(tmp_path) for rule in RULES] == [[]] * len(RULES)
    name, text, rule = OFFENCES[offence]
    (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / name).write_text(f'"""Says."""\n{text}\n')
    assert rule(tmp_path)
