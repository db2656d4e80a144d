"""Checks what the page of nights states about tuned REINFORCE, SAC and TD3."""

from __future__ import annotations

import dataclasses
import json
import re

import pytest

from epg_tf.core.config_files import load_experiment
from tests.docs.pages import ROOT, interval

NIGHT = ROOT / "results" / "night"
TESTS = sorted((NIGHT / "reinforce").glob("*.json"))
OFF_POLICY = sorted((NIGHT / "off_policy").glob("*.json"))
NAMES = {
    "DirectionalHopper": "directional_hopper",
    "RandomHopper": "random_hopper",
    "DirectionalHalfCheetah": "directional_half_cheetah",
    "RandomWalker": "random_walker",
    "RandomReacher": "random_reacher",
    "Fetch": "fetch",
    "GoalAnt": "goal_ant",
}


def shown(title: str) -> dict[str, str]:
    """Returns the rows of the table of a section of the page, by their first cell."""
    page = (NIGHT / "README.md").read_text(encoding="utf-8")
    section = re.split(r"\n#+ ", page.partition(f"## {title}\n")[2])[0]
    _, _, *rows = re.findall(r"^\|.*\|$", section, re.MULTILINE)
    found = {row.split("|")[1].strip(): row for row in rows}
    assert len(found) == len(rows) > 2
    return found


def digits_of(loss: dict[str, float]) -> int:
    """Returns how many decimals the page shows beside this loss."""
    return 2 if abs(loss["final_return_mean"]) < 20 else 1


def test_the_table_has_the_rows_that_are_kept():
    rows = shown("Beside tuned REINFORCE")
    assert {NAMES[name] for name in rows} == {path.stem for path in TESTS}
    for name, row in rows.items():
        kept = json.loads((NIGHT / "reinforce" / f"{NAMES[name]}.json").read_text())
        rival, loss = kept["reinforce"], kept["epg"]
        digits = digits_of(loss)
        cells = [
            name,
            interval(rival, "final_return_mean", "ci95", digits),
            interval(rival, "auc_mean", "auc_ci95", digits),
            interval(loss, "final_return_mean", "ci95", digits),
            interval(rival, "ahead_mean", "ahead_ci95", digits),
            f"{100 * rival['improvement']:.0f} %",
        ]
        assert row == f"| {' | '.join(cells)} |"


def test_the_table_has_the_rows_of_sac_and_td3():
    rows = shown("Beside SAC and TD3")
    assert {NAMES[name] for name in rows} == {path.stem for path in OFF_POLICY}
    for name, row in rows.items():
        kept = json.loads((NIGHT / "off_policy" / f"{NAMES[name]}.json").read_text())
        sac, td3, loss = kept["sac"], kept["td3"], kept["epg"]
        digits = digits_of(loss)
        cells = [
            name,
            str(loss["lives"]),
            *(interval(each, "final_return_mean", "ci95", digits) for each in (sac, td3, loss)),
            *(interval(each, "ahead_mean", "ahead_ci95", digits) for each in (sac, td3)),
        ]
        assert row == f"| {' | '.join(cells)} |"


def test_the_table_of_areas_has_those_that_are_kept():
    rows = shown("Areas under the curves of SAC and TD3")
    assert {NAMES[name] for name in rows} == {path.stem for path in OFF_POLICY}
    for name, row in rows.items():
        kept = json.loads((NIGHT / "off_policy" / f"{NAMES[name]}.json").read_text())
        methods = [kept[method] for method in ("sac", "td3", "epg")]
        digits = digits_of(kept["epg"])
        cells = [name, *(interval(each, "auc_mean", "auc_ci95", digits) for each in methods)]
        assert row == f"| {' | '.join(cells)} |"


def listed(names: list[str]) -> str:
    *first, last = names
    return f"{', '.join(first)} and {last}" if first else last


def test_the_page_says_beside_which_losses_sac_and_td3_end_above():
    """A rival is level where the interval of the difference has 0 in it."""
    ends: dict[str, dict[str, list[str]]] = {
        rival: {"above": [], "level": [], "below": []} for rival in ("sac", "td3")
    }
    larger = []
    for name, file in NAMES.items():
        kept = json.loads((NIGHT / "off_policy" / f"{file}.json").read_text())
        for rival, found in ends.items():
            low, high = kept[rival]["ahead_ci95"]
            found["above" if high < 0 else "below" if low > 0 else "level"].append(name)
        if kept["epg"]["auc_ci95"][0] > kept["sac"]["auc_ci95"][1]:
            larger.append(name)
    words = " ".join((NIGHT / "README.md").read_text(encoding="utf-8").split())
    sac, td3 = ends["sac"], ends["td3"]
    assert len(sac["above"]) == 3 and not td3["above"]
    assert f"**SAC ends above the loss in three families**: {listed(sac['above'])}. " in words
    assert f"level with the loss in {listed(sac['level'])}, and ends below it in " in words
    assert f"ends below it in {listed(sac['below'])}. " in words
    assert len(td3["level"]) == 1
    assert f"level with that of {td3['level'][0]}. " in words
    level = [name for name in NAMES if name not in larger]
    assert len(larger) == 5 and f"and level in {listed(level)}. " in words


def test_the_page_shows_the_cheetahs_directions():
    page = " ".join((NIGHT / "README.md").read_text(encoding="utf-8").split())
    kept = json.loads((NIGHT / "directional_half_cheetah_off_policy_directions.json").read_text())
    for method in ("sac", "epg"):
        for direction in ("forward", "backward"):
            assert interval(kept[method][direction], "mean", "ci95", 1) in page


@pytest.mark.parametrize("path", TESTS, ids=lambda path: path.stem)
def test_reinforce_had_the_settings_of_its_search(path):
    kept = json.loads(path.read_text())
    about = kept["about"]
    settings = dataclasses.asdict(load_experiment(f"{path.stem}:night").reinforce)
    assert about["rivals"]["reinforce"] == settings
    assert (about["phase"], about["seed"], about["task"]["physics"]) == ("reporting", 0, "exact")
    assert about["loss"] == f"results/night/{path.stem}"
    assert kept["reinforce"]["lives"] == kept["epg"]["lives"] >= 64


@pytest.mark.parametrize("path", OFF_POLICY, ids=lambda path: path.stem)
def test_sac_and_td3_had_the_settings_of_the_nights(path):
    kept = json.loads(path.read_text())
    about, made = kept["about"], load_experiment(f"{path.stem}:night")
    for name, group in (("sac", made.sac), ("td3", made.td3)):
        settings = json.loads(json.dumps(dataclasses.asdict(group)))
        assert about["rivals"][name] == settings
        assert kept[name]["lives"] == kept["epg"]["lives"] >= 8 and not kept[name]["failed_lives"]
    assert (about["phase"], about["seed"], about["task"]["physics"]) == ("reporting", 0, "exact")
    assert about["loss"] == f"results/night/{path.stem}"
