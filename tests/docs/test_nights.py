"""Checks what the page of nights states about tuned REINFORCE."""

from __future__ import annotations

import dataclasses
import json

import pytest

from epg_tf.core.config_files import load_experiment
from tests.docs.pages import ROOT

NIGHT = ROOT / "results" / "night"
TESTS = sorted((NIGHT / "reinforce").glob("*.json"))


def cell(values: dict, mean: str, ends: str, digits: int) -> str:
    low, high = values[ends]
    return f"{values[mean]:.{digits}f} [{low:.{digits}f}, {high:.{digits}f}]"


@pytest.mark.parametrize("path", TESTS, ids=lambda path: path.stem)
def test_rows_are_those_that_are_kept(path):
    kept = json.loads(path.read_text())
    page = (NIGHT / "README.md").read_text(encoding="utf-8")
    table = page.partition("## Beside tuned REINFORCE")[2].partition("```")[0]
    rival, loss = kept["reinforce"], kept["epg"]
    digits = 2 if abs(loss["final_return_mean"]) < 20 else 1
    cells = [
        cell(rival, "final_return_mean", "ci95", digits),
        cell(rival, "auc_mean", "auc_ci95", digits),
        cell(loss, "final_return_mean", "ci95", digits),
        cell(rival, "ahead_mean", "ahead_ci95", digits),
        f"{100 * rival['improvement']:.0f} %",
    ]
    assert f"| {' | '.join(cells)} |" in table


@pytest.mark.parametrize("path", TESTS, ids=lambda path: path.stem)
def test_reinforce_had_the_settings_of_its_search(path):
    about = json.loads(path.read_text())["about"]
    settings = dataclasses.asdict(load_experiment(f"{path.stem}:night").reinforce)
    assert about["rivals"]["reinforce"] == settings
    assert about["phase"] == "reporting" and about["task"]["physics"] == "exact"
