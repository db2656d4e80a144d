"""Tests what `make docs` needs beside the pages: its settings and its pins."""

from __future__ import annotations

import importlib.util
import re
from types import ModuleType

from tests.docs.pages import ROOT


def load(name: str) -> ModuleType:
    """Returns a module of docs/, which is no package."""
    spec = importlib.util.spec_from_file_location(name, ROOT / "docs" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


CONF = load("conf")


def test_all_that_the_extra_names_is_pinned():
    (extra,) = re.findall(r'"docs": \[(.*?)\]', (ROOT / "setup.py").read_text())
    pins = (ROOT / "constraints-docs.txt").read_text().lower()
    for name in re.findall(r'"([\w-]+)"', extra):
        assert re.search(rf"^{name}==", pins, re.MULTILINE), name


def test_a_block_keeps_its_lines_and_bars_are_bars():
    lines = ["Summary.", "", "    L = |a| * b", "", "    M = c", "", "Has |d|.", "", "Args:"]
    lines += ["  a: First", "    of two.", "  size: O."]
    assert CONF._marked_up(lines) == [
        *("Summary.", "", "::", "", "    L = |a| * b", "", "    M = c", "", r"Has \|d\|.", ""),
        *("Args:", "  a: First", "    of two.", r"  size: \O."),
    ]


def test_names_of_the_front_page_are_links():
    page = CONF._front_page(["Runs:", "  evolve: evolves; yields more.", "  a word: no link."])
    assert page == [
        "Runs:",
        "",
        "* :py:obj:`evolve <epg_tf.epg.outer_loop.evolve>`: evolves; yields more.",
        "* a word: no link.",
    ]
