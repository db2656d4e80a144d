"""Tests epg_tf itself: what it exports, and what its import leaves alone."""

from __future__ import annotations

import re
import subprocess
import sys

import epg_tf
from epg_tf.core import errors


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
