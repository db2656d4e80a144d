"""Tests the data set in results/: its size, its records, and that no record names a machine."""

from __future__ import annotations

import re
import tarfile
from pathlib import Path

import numpy as np
import pytest

from epg_tf.artifacts.artifact import load_loss
from epg_tf.core.errors import RecordError
from epg_tf.figures.results import unpacked

RESULTS = Path(__file__).resolve().parents[1] / "results"
PRETRAINED = {
    "directional_hopper": "directional_hopper",
    **{
        f"{name}_night": name
        for name in ("random_hopper", "random_walker", "directional_half_cheetah", "fetch")
    },
}


@pytest.mark.parametrize("name", PRETRAINED)
def test_a_pretrained_loss_is_that_of_the_run_that_is_kept(name):
    kept = load_loss(unpacked(RESULTS) / "night" / PRETRAINED[name] / "best")
    np.testing.assert_array_equal(load_loss(name).phi, kept.phi)


def test_the_data_set_is_small():
    files = [path for path in RESULTS.rglob("*") if path.is_file()]
    assert len(files) <= 80
    assert sum(path.stat().st_size for path in files) <= 6e6


def test_records_name_no_path_of_a_machine():
    files = sorted(unpacked(RESULTS).rglob("*.json"))
    pattern = re.compile(r'["\s=]/\w+/')
    assert len(files) > 100
    assert [path for path in files if pattern.search(path.read_text(encoding="utf-8"))] == []


def test_any_other_folder_is_read_as_it_is_and_a_damaged_archive_is_named(tmp_path):
    assert unpacked(tmp_path / "runs") == tmp_path / "runs"
    (tmp_path / "records").mkdir()
    (tmp_path / "records" / "a.tar.xz").write_bytes(b"not an archive")
    with pytest.raises(RecordError, match="a.tar.xz: the archive cannot be read"):
        unpacked(tmp_path)


def test_two_archives_cannot_hold_the_same_record(tmp_path):
    (tmp_path / "records").mkdir()
    for name in ("a", "b"):
        with tarfile.open(tmp_path / "records" / f"{name}.tar.xz", "w:xz") as archive:
            archive.add(RESULTS / "README.md", "night/config.json")
    with pytest.raises(RecordError, match="b.tar.xz: another archive holds night/config.json"):
        unpacked(tmp_path)
