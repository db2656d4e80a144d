"""Lacks what Windows and macOS lack, in this process."""

from __future__ import annotations

import importlib.util
import os
import signal
import sys
from types import ModuleType

import pytest

MODULES = ("fcntl", "resource")
ATTRIBUTES = {os: ("sched_getaffinity", "sysconf", "O_DIRECTORY", "fork"), signal: ("SIGPIPE",)}


def remove(patch: pytest.MonkeyPatch) -> None:
    """Removes it, until the patch is undone."""
    for name in MODULES:
        patch.setitem(sys.modules, name, None)
    for place, names in ATTRIBUTES.items():
        for name in names:
            patch.delattr(place, name, raising=False)


def fresh(name: str, patch: pytest.MonkeyPatch) -> ModuleType:
    """Returns a module as it is on such a system, beside the one that others use."""
    remove(patch)
    found = importlib.util.find_spec(name)
    spec = importlib.util.spec_from_file_location(f"{name}_elsewhere", found.origin)
    module = importlib.util.module_from_spec(spec)
    patch.setitem(sys.modules, spec.name, module)
    spec.loader.exec_module(module)
    return module
