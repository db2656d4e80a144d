"""Tests epg_tf.tasks.source_digest: what changes the digest of a user's class."""

from __future__ import annotations

import importlib
import sys

import gymnasium
import numpy as np
import pytest

from epg_tf.tasks.point_goal import PointGoal
from epg_tf.tasks.source_digest import is_own, source_digest

HELPERS = "def bonus(x):\n    return 2 * x\n"
FILE = """
import numpy as np
from helpers_of_test import bonus

SCALE = 3.0
UNUSED = 1

def cost(x):
    return SCALE * x

class Base:
    def reward(self, x):
        return -cost(x) + bonus(x)

class Family(Base):
    def start(self):
        return np.zeros(1)

def get_config(epochs=3):
    return {"epochs": epochs}
"""


@pytest.fixture
def digest(tmp_path, monkeypatch):
    """A function (file, helpers) -> digest of the class `Family` in a file with that content."""
    monkeypatch.syspath_prepend(tmp_path)

    def of(text=FILE, helpers=HELPERS):
        (tmp_path / "family_of_test.py").write_text(text)
        (tmp_path / "helpers_of_test.py").write_text(helpers)
        for name in ("family_of_test", "helpers_of_test"):
            sys.modules.pop(name, None)
        importlib.invalidate_caches()
        return source_digest(importlib.import_module("family_of_test").Family)

    yield of
    for name in ("family_of_test", "helpers_of_test"):
        sys.modules.pop(name, None)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("np.zeros(1)", "np.ones(1)"),  # the class
        ("-cost(x)", "cost(x)"),  # a base
        ("return SCALE * x", "return SCALE + x"),  # a function that it calls
        ("SCALE = 3.0", "SCALE = 4.0"),  # a constant that the function names
        ("def get_config", "Family.start = lambda self: 5\n\ndef get_config"),
    ],
)
def test_what_the_class_does_changes_the_digest(digest, old, new):
    assert old in FILE and digest(FILE.replace(old, new)) != digest()


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("class Base:", "# A remark.\n\nclass Base:"),
        ("    def start(self):", '    """Has tasks."""\n\n    def start( self ):'),
        ("epochs=3", "epochs=30"),
        ("UNUSED = 1", "UNUSED = 2"),
    ],
)
def test_remarks_layout_and_settings_do_not(digest, old, new):
    assert old in FILE and digest(FILE.replace(old, new)) == digest()


def test_a_module_beside_it_counts(digest):
    assert digest(helpers=HELPERS.replace("2", "3")) != digest() == digest(FILE, "#\n" + HELPERS)


def test_only_files_of_the_user_are_own(digest):
    digest()
    assert is_own(sys.modules["family_of_test"].Family)
    kinds = (PointGoal, gymnasium.Env, np.ndarray, importlib.abc.Loader, object, "pkg:Class", None)
    assert not any(map(is_own, kinds))
