"""Checks what the page of nights states about tuned REINFORCE."""

from __future__ import annotations

import dataclasses
import json
import re

import pytest

from epg_tf.core.config_files import load_experiment
from tests.docs.pages import ROOT, interval

NIGHT = ROOT / "results" / "night"
TESTS = sorted((NIGHT / "reinforce").glob("*.json"))
NAMES = {
    "DirectionalHopper": "directional_hopper",
    "RandomHopper": "random_hopper",
    "DirectionalHalfCheetah": "directional_half_cheetah",
    "RandomWalker": "random_walker",
    "RandomReacher": "random_reacher",
    "Fetch": "fetch",
    "GoalAnt": "goal_ant",
}


def test_the_table_has_the_rows_that_are_kept():
    page = (NIGHT / "README.md").read_text(encoding="utf-8")
    section = page.partition("## Beside tuned REINFORCE")[2].partition("\n## ")[0]
    _, _, *rows = re.findall(r"^\|.*\|$", section, re.MULTILINE)
    shown = {row.split("|")[1].strip(): row for row in rows}
    assert {NAMES[name] for name in shown} == {path.stem for path in TESTS} and len(rows) > 2
    for name, row in shown.items():
        kept = json.loads((NIGHT / "reinforce" / f"{NAMES[name]}.json").read_text())
        rival, loss = kept["reinforce"], kept["epg"]
        digits = 2 if abs(loss["final_return_mean"]) < 20 else 1
        cells = [
            name,
            interval(rival, "final_return_mean", "ci95", digits),
            interval(rival, "auc_mean", "auc_ci95", digits),
            interval(loss, "final_return_mean", "ci95", digits),
            interval(rival, "ahead_mean", "ahead_ci95", digits),
            f"{100 * rival['improvement']:.0f} %",
        ]
        assert row == f"| {' | '.join(cells)} |"


@pytest.mark.parametrize("path", TESTS, ids=lambda path: path.stem)
def test_reinforce_had_the_settings_of_its_search(path):
    kept = json.loads(path.read_text())
    about = kept["about"]
    settings = dataclasses.asdict(load_experiment(f"{path.stem}:night").reinforce)
    assert about["rivals"]["reinforce"] == settings
    assert (about["phase"], about["seed"], about["task"]["physics"]) == ("reporting", 0, "exact")
    assert about["loss"] == f"results/night/{path.stem}"
    assert kept["reinforce"]["lives"] == kept["epg"]["lives"] >= 64
