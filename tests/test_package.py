"""Tests epg_tf itself: what it exports, and what its import leaves alone."""

from __future__ import annotations

import re
import subprocess
import sys

import yaml

import epg_tf
from epg_tf.core import errors
from tests.test_imports import ROOT


def test_every_exported_name_is_described():
    described = set(re.findall(r"\w+", epg_tf.__doc__))
    assert [name for name in epg_tf.__all__ if name not in described] == []
    assert epg_tf.__all__ == sorted(epg_tf.__all__)


def test_every_error_is_exported():
    defined = {
        name
        for name, value in vars(errors).items()
        if isinstance(value, type) and issubclass(value, errors.EpgError)
    }
    assert defined <= set(epg_tf.__all__)


def test_the_import_needs_no_libraries_for_pictures_and_bars():
    check = (
        "import sys, epg_tf; print(sorted({'matplotlib', 'mediapy', 'tqdm'} & set(sys.modules)))"
    )
    process = subprocess.run(
        [sys.executable, "-c", check], capture_output=True, text=True, check=True
    )
    assert process.stdout.splitlines()[-1] == "[]"


def test_the_citation_is_of_this_version():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert {"cff-version", "message", "title", "authors"} <= set(citation)
    assert citation["version"] == epg_tf.__version__
    bibtex = (ROOT / "CONTRIBUTING.md").read_text()
    for paper in citation["references"]:
        assert f"title = {{{paper['title']}}}" in bibtex
        assert all(author["family-names"] in bibtex for author in paper["authors"])


def test_the_environment_of_conda_installs_this_folder():
    """pip runs beside the file, whose paths are relative to it."""
    environment = yaml.safe_load((ROOT / "docs" / "environment.yml").read_text())
    python, _, of_pip = environment["dependencies"]
    assert python == "python=3.11"
    constraints, folder = of_pip["pip"]
    assert (ROOT / "docs" / constraints.removeprefix("--constraint ")).is_file()
    assert (ROOT / "docs" / folder / "setup.py").is_file()
