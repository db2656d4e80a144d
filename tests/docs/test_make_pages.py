"""Tests that tables, numbers and pictures of pages are what `make pages` writes."""

from __future__ import annotations

import importlib.util
import re
from xml.etree import ElementTree

import pytest

from tests.docs.pages import ROOT


def script(name):
    """Returns a script of docs/ as a module."""
    spec = importlib.util.spec_from_file_location(name, ROOT / "docs" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


PAGES = script("make_pages")


def test_files_are_what_the_generator_writes():
    changed = [path.name for path, content in PAGES.made().items() if path.read_bytes() != content]
    assert changed == [], "run `make pages`"


def test_a_page_keeps_what_is_not_marked():
    text = "a <!--=demo_seed0:epg:agents-->7<!--/--> b"
    assert PAGES.page(text) == "a <!--=demo_seed0:epg:agents-->128<!--/--> b"


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ("reporting/directional_hopper epg", "356.8 [346.5, 367.2]"),
        ("reporting/directional_hopper ppo ahead", "122.9 [108.3, 137.6]"),
        ("night/fetch_seeds epg@1", "-0.71 [-0.72, -0.69]"),
        ("night/fetch env_steps", "17.6 M"),
        ("robustness/goal_ant_night.json changes/wide/loss", "38.6 [19.2, 57.9]"),
    ],
)
def test_a_number_is_that_of_its_record(query, text):
    assert PAGES.number(query) == text


def test_a_number_that_is_not_there_is_refused():
    with pytest.raises(KeyError, match="no 'reporting/nothing epg'"):
        PAGES.number("reporting/nothing epg")


def test_half_of_an_interval_is_of_the_numbers_not_of_their_text():
    text = PAGES.number("reporting/random_hopper epg", half=True)
    assert text.split() == ["142.5", "±", "6.3"]


def test_each_picture_is_drawn_by_one_generator_or_by_hand():
    by_hand = ["loss_inputs.svg", "metagenrl_loop.svg", "two_loops.svg"]
    assert all(ElementTree.parse(ROOT / "docs" / name) for name in by_hand)
    drawn = [*PAGES.PICTURES, *script("make_gallery").PICTURES, *by_hand]
    there = [
        path.name for path in (ROOT / "docs").iterdir() if path.suffix in (".gif", ".png", ".svg")
    ]
    assert sorted(drawn) == sorted(there)


def test_no_line_begins_with_a_number():
    """In Markdown a line that begins with a comment ends the paragraph."""
    for path in PAGES.PAGES:
        assert not re.search(r"^ *<!--=", path.read_text("utf-8"), re.MULTILINE), path
