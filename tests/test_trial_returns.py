"""Tests the tool that plays trials of RL² by episode."""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[1]
KEPT = json.loads((ROOT / "results" / "meta_rivals" / "rl2_trials.json").read_text())["runs"]


@pytest.fixture(scope="module")
def tool():
    """The tool, which is in no package."""
    sys.path.insert(0, str(ROOT / "tools"))
    yield importlib.import_module("trial_returns")
    sys.path.remove(str(ROOT / "tools"))


def test_numbers_are_by_episode(tool):
    found = tool.summary(np.array([[-1.0, 3.0], [2.0, 5.0], [-4.0, 7.0]]))
    assert found["mean"] == [-1.0, 5.0] and found["smallest"] == [-4.0, 3.0]
    assert found["share_above_0"] == [pytest.approx(1 / 3), 1.0] and found["trials"] == 3
    half = 4.302652729911275 * 2 / np.sqrt(3)  # Student's t of two degrees of freedom
    assert found["ci95"][1] == pytest.approx([5 - half, 5 + half])


def test_a_picture_is_drawn(tool, tmp_path):
    tool.draw(KEPT, str(tmp_path / "trials.png"))
    assert (tmp_path / "trials.png").read_bytes()[:4] == b"\x89PNG"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "--output, --picture"),
        (["--output=OUT/a.json", "--picture=OUT/a.png"], "required: runs"),
        (["--output=OUT/a.txt", "--picture=OUT/a.png", "run"], "must end in .json"),
        (["--output=OUT/no/a.json", "--picture=OUT/a.png", "run"], "in a folder that exists"),
        (["--output=OUT/mine.json", "--picture=OUT/a.png", "run"], "there is such a file"),
        (["--output=OUT/a.json", "--picture=OUT", "run"], "must end in .png"),
    ],
)
def test_wrong_words_are_refused_before_anything_is_played(tool, tmp_path, capsys, words, message):
    (tmp_path / "mine.json").write_text("mine")
    with pytest.raises(SystemExit) as ended:
        tool.main([word.replace("OUT", str(tmp_path)) for word in words])
    assert ended.value.code == 2 and message in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["mine.json"]
    assert (tmp_path / "mine.json").read_text() == "mine"


@pytest.mark.slow
def test_what_is_kept_is_what_a_policy_plays(tool):
    """On another processor lives may go other ways, so their means are compared."""
    run = str(ROOT / "results" / "meta_rivals" / "cheetah-rl2-0")
    returns = tool.played(run, trials=32, episodes=2)
    kept = KEPT["results/meta_rivals/cheetah-rl2-0"]
    assert returns.shape == (32, 2) and returns[:, 1].min() > 0
    assert returns[:, 1].mean() == pytest.approx(kept["mean"][1], abs=30)


def test_a_missing_run_is_one_line(tool, tmp_path, capsys):
    output = tmp_path / "numbers.json"
    words = [f"--output={output}", f"--picture={tmp_path / 'a.png'}", str(tmp_path / "nowhere")]
    assert tool.main(words) == 2
    assert capsys.readouterr().err.count("\n") == 1 and not output.exists()


def test_trials_are_in_exact_physics_and_in_the_phase_of_published_numbers(tool, monkeypatch):
    asked = []
    monkeypatch.setattr(tool, "trial_returns", lambda *words: asked.append(words))
    tool.played(str(ROOT / "results" / "meta_rivals" / "cheetah-rl2-0"), trials=3, episodes=2)
    ((agent, task, episodes, keys),) = asked
    assert (task.physics, episodes) == ("exact", 2) and agent.policy_vector().any()
    assert [(key.phase, key.index) for key in keys] == [("reporting", n) for n in range(3)]


def test_the_page_shows_what_is_kept():
    page = (ROOT / "docs" / "rl2.md").read_text(encoding="utf-8")
    for numbers in KEPT.values():
        for mean, (low, high) in zip(numbers["mean"], numbers["ci95"], strict=True):
            assert f"{mean:.1f} [{low:.1f}, {high:.1f}]" in page
        assert numbers["share_above_0"][1] == 1.0
