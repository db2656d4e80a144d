"""Tests that the index of results/ names all that is kept, and that archives are what it says."""

from __future__ import annotations

import csv
import io
import re
import tarfile
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath

import numpy as np
import pytest

from epg_tf.artifacts.learned_loss import load_loss
from epg_tf.runs import checkpoints

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "results"
INDEX = (RESULTS / "README.md").read_text(encoding="utf-8")
FIGURES, ARCHIVES = INDEX.split("\n## Archives\n")
ARCHIVE_NAMES = sorted(path.parent.name for path in RESULTS.glob("*/raw.tar.xz"))
STUDIES = sorted(path.parent.name for path in RESULTS.glob("*/study.csv"))
RUNS = ["directional_half_cheetah", "point_goal", "random_hopper", "random_reacher"]
PAGES = [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").rglob("*.md"))]


def _rows(text: str, columns: int) -> list[list[str]]:
    """Returns the cells of the rows of all tables that have so many columns."""
    lines = [line for line in text.splitlines() if line.startswith("| ")]
    return [cells for line in lines if len(cells := line.strip("| ").split(" | ")) == columns]


def _patterns(cell: str) -> list[str]:
    """Returns what is in backticks, {0,1} written out."""
    found = []
    for name in re.findall(r"`([^`]+)`", cell):
        start, _, rest = name.partition("{")
        choices, _, end = rest.partition("}")
        found += [f"{start}{choice}{end}" for choice in choices.split(",")]
    return found


def _mismatches(names: list[str], patterns: list[str]) -> tuple[list[str], list[str]]:
    """Returns the names that no pattern matches, and the patterns that match no name."""
    unlisted = [name for name in names if not any(fnmatchcase(name, each) for each in patterns)]
    missing = [each for each in patterns if not any(fnmatchcase(name, each) for name in names)]
    return unlisted, missing


def _archive(study: str) -> tarfile.TarFile:
    return tarfile.open(RESULTS / study / "raw.tar.xz", "r:xz")


def _text(archive: tarfile.TarFile, name: str) -> str:
    stream = archive.extractfile(name)
    assert stream is not None
    return stream.read().decode()


def _csv(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


LISTED = [each for row in _rows(FIGURES, 5)[1:] for each in _patterns(row[4])]
MEMBERS = {_patterns(row[0])[0]: _patterns(row[2]) for row in _rows(ARCHIVES, 3)[1:]}


def test_the_index_names_every_file_that_is_kept_and_no_other():
    files = [path for path in RESULTS.rglob("*") if path.is_file() and path.name != "BUILD"]
    kept = [path.relative_to(RESULTS).as_posix() for path in files]
    assert _mismatches(sorted(kept), ["README.md", *LISTED, *MEMBERS]) == ([], [])


def test_files_of_several_seeds_are_named_one_by_one():
    assert _patterns("`a/s{0,2}.json`, `b`") == ["a/s0.json", "a/s2.json", "b"]


def test_a_file_that_is_not_in_the_index_is_found():
    assert _mismatches(["a.json", "b.json"], ["a.*", "c.json"]) == (["b.json"], ["c.json"])


@pytest.mark.parametrize("row", _rows(FIGURES, 5)[1:], ids=lambda row: row[0][:40])
def test_a_row_says_how_its_files_were_made(row):
    _, command, commit, seeds, _ = row
    for name in re.findall(r"launch\.(\w+)", command):
        assert (ROOT / "launch" / f"{name}.py").is_file()
    assert re.match(r"[0-9a-f]{7}\b|not recorded; in git since [0-9a-f]{7}$", commit)
    assert re.search(r"\d|not recorded", seeds)


def test_links_and_pictures_of_the_index_exist():
    links = re.findall(r"\]\(([^)]+)\)", INDEX)
    named = {f"../{path}" for path in re.findall(r"docs/\w+\.(?:md|png)", INDEX)}
    assert len(links) >= 5 and len(named) >= 5
    assert [path for path in {*links, *named} if not (RESULTS / path).exists()] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_what_a_page_names_in_results_exists(page):
    """Links are relative to the page; names in backticks, and `--loss=`, to the checkout."""
    text = page.read_text(encoding="utf-8")
    links = re.findall(r"\]\(((?:\.\./)*results/[^)#]*)", text)
    assert [link for link in links if not (page.parent / link).exists()] == []
    names = re.findall(r"[`=](results/[\w./*-]*)", text)
    assert [name for name in names if not list(ROOT.glob(name.rstrip("/")))] == []


def test_pages_lead_to_results():
    assert sum("results/" in page.read_text(encoding="utf-8") for page in PAGES) >= 3


@pytest.mark.parametrize("study", ARCHIVE_NAMES)
def test_an_archive_has_the_files_of_its_row_and_no_surprise(study):
    with _archive(study) as archive:
        members = archive.getmembers()
        contents = {each.name: archive.extractfile(each).read() for each in members}
    names = [member.name for member in members]
    assert _mismatches(names, MEMBERS[f"{study}/raw.tar.xz"]) == ([], [])
    assert names == sorted(set(names))
    for member in members:
        path = PurePosixPath(member.name)
        assert member.isfile() and not path.is_absolute() and ".." not in path.parts
        assert (member.mtime, member.uid, member.gid, member.mode) == (0, 0, 0, 0o644)
        assert not (RESULTS / study / member.name).exists()
        assert contents[member.name]
        if path.suffix == ".json":
            assert not re.search(rb'"/\w+/', contents[member.name])


@pytest.mark.parametrize("study", STUDIES)
def test_the_table_of_a_study_is_that_of_its_runs(study):
    rows = _csv((RESULTS / study / "study.csv").read_text(encoding="utf-8"))
    found = []
    with _archive(study) as archive:
        for estimator, seed in dict.fromkeys((row["estimator"], row["seed"]) for row in rows):
            for test in _csv(_text(archive, f"{estimator}-{seed}/tests.csv")):
                del test["failed_lives"]
                found.append({"estimator": estimator, "seed": seed, **test})
        runs = [name for name in archive.getnames() if name.endswith("/tests.csv")]
    assert rows == found
    assert len(runs) == len({(row["estimator"], row["seed"]) for row in rows})


@pytest.mark.parametrize("study", RUNS)
def test_the_shipped_loss_is_the_best_of_the_run_in_the_archive(study, tmp_path):
    with _archive(study) as archive:
        archive.extractall(tmp_path, filter="data")
    checkpoint, damaged = checkpoints.load_newest(tmp_path / "checkpoints")
    assert checkpoint is not None and not damaged
    np.testing.assert_array_equal(checkpoint.arrays["best_phi"], load_loss(study).phi)
