"""epg_tf.runs.study: what it refuses, and what it concludes."""

import json
import math

import pytest

from epg_tf.core.errors import RecordError
from epg_tf.evaluation.summary import Summary
from epg_tf.reports.study_plots import EvaluatedRun
from epg_tf.runs.study import StudyFolder, summarize

FLAGS = {"estimators": ["paper", "config"], "seeds": [0, 1], "env_steps": 2000.0, "test_points": 3}


@pytest.fixture
def study(tiny, tmp_path):
    """A function that opens the same study, as another process would after the first has died."""
    made = []

    def make(experiment=tiny, **flags) -> StudyFolder:
        for other in made:
            other.close()
        made.clear()
        made.append(StudyFolder(str(tmp_path / "study"), experiment, {**FLAGS, **flags}))
        return made[-1]

    return make


def test_the_same_study_goes_on(study, make_tiny, tmp_path):
    """On however many threads; a kill before study.json was whole leaves a folder that is as good
    as new.
    """
    (tmp_path / "study").mkdir()
    (tmp_path / "study" / ".study.json.7.tmp").write_text("{")
    first = study()
    before = (tmp_path / "study" / "study.json").read_bytes()
    assert first.run_path("paper", 1) == tmp_path / "study" / "paper-1"
    study(make_tiny(compute={"threads": 1}))
    assert (tmp_path / "study" / "study.json").read_bytes() == before


@pytest.mark.parametrize(
    "name, value, message",
    [
        ("estimators", ["paper"], "^estimators=paper: .* has paper,config"),
        ("seeds", [0], "^seeds=0: .* has 0,1"),
        ("env_steps", 3e3, "^env_steps=3000.0: .* has 2000.0"),
        ("test_points", 4, "^test_points=4: .* has 3"),
        ("test_seed", 1, "^test_seed=1: .* has None"),
    ],
)
def test_another_study_is_refused(study, name, value, message):
    study()
    with pytest.raises(RecordError, match=message) as caught:
        study(**{name: value})
    assert "\n" not in str(caught.value)


def test_other_settings_are_refused(study, make_tiny):
    study()
    with pytest.raises(RecordError, match="config.evolution.epochs=9: .* has 3"):
        study(make_tiny(evolution={"epochs": 9}))


@pytest.mark.parametrize(
    "text, said",
    [("{", "cannot be read"), ('{"flags": {}}', "damaged"), ('{"config": {}}', "no flags")],
)
def test_a_damaged_study_is_refused(study, tmp_path, text, said):
    study()
    (tmp_path / "study" / "study.json").write_text(text)
    with pytest.raises(RecordError, match=said):
        study()


def test_foreign_folders_and_those_in_use_are_refused(study, tiny, tmp_path):
    study()
    with pytest.raises(RecordError, match="study: another process"):
        StudyFolder(str(tmp_path / "study"), tiny, FLAGS)
    (tmp_path / "thesis.txt").write_text("precious")
    with pytest.raises(RecordError, match="has no study.json"):
        StudyFolder(str(tmp_path), tiny, FLAGS)
    with pytest.raises(RecordError, match="a file .* is in the way"):
        StudyFolder(str(tmp_path / "thesis.txt"), tiny, FLAGS)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["study", "thesis.txt"]


def test_ppos_test_is_kept_to_the_bit(study, tmp_path):
    folder = study()
    assert folder.ppo() is None
    folder.save_ppo(
        Summary(-1 / 3, 0.0, (-0.1 - 0.2, 1e-17), 0.5, (0.25, 0.75), math.nan, 4, 1, 24)
    )
    assert folder.ppo() == {"mean": -1 / 3, "low": -0.1 - 0.2, "high": 1e-17}
    assert json.loads((tmp_path / "study" / "ppo.json").read_text())["failed_lives"] == 1
    folder.save_ppo(
        Summary(
            math.nan,
            math.nan,
            (math.nan, math.nan),
            math.nan,
            (math.nan, math.nan),
            math.nan,
            4,
            4,
            24,
        )
    )
    assert all(math.isnan(number) for number in folder.ppo().values())
    (tmp_path / "study" / "ppo.json").write_text('{"mean": "fast", "low": 1, "high": 2}')
    with pytest.raises(RecordError, match="remove the file"):
        folder.ppo()


def run(estimator, seed, lows):
    return EvaluatedRun(
        estimator,
        seed,
        [
            {
                "epoch": float(n),
                "env_steps": 100.0 * n,
                "mean": low + 1,
                "low": low,
                "high": low + 2,
            }
            for n, low in enumerate(lows)
        ],
    )


def test_the_summary_by_hand():
    """PPO ends at -5. The paper's runs get above at 300, never, never: more than 300 each; ours at
    200, 100, 100.
    """
    runs = [
        *(
            run("paper", seed, lows)
            for seed, lows in enumerate(([-9, -8, -7, -4], [-9] * 4, [-9, -8, -7, -5]))
        ),
        *(
            run("config", seed, lows)
            for seed, lows in enumerate(([-9, -6, -4, -2], [-9, -4, -6, -2], [-9, -1]))
        ),
    ]
    summary = summarize(runs, {"mean": -6.0, "low": -7.0, "high": -5.0})
    assert {name: row["env_steps_above_ppo"] for name, row in summary["runs"].items()} == {
        "paper-0": 300,
        "paper-1": None,
        "paper-2": None,
        "config-0": 200,
        "config-1": 100,
        "config-2": 100,
    }
    assert summary["runs"]["paper-2"] == {
        "estimator": "paper",
        "seed": 2,
        "env_steps_above_ppo": None,
        "env_steps": 300,
        "mean": -4.0,
        "low": -5.0,
        "high": -3.0,
    }
    assert summary["median_env_steps_above_ppo"] == {
        "paper": {"env_steps": 300.0, "least": True},
        "config": {"env_steps": 100.0, "least": False},
    }
    assert summary["cheapest"] == "config"
    assert summary["env_steps_relative_to_cheapest"] == {
        "paper": {"value": 3.0, "meaning": "at least"}
    }
    without = summarize(runs[:3], summary["ppo"])
    assert (without["cheapest"], without["env_steps_relative_to_cheapest"]) == (None, {})


def test_the_cheapest_is_cheap_not_first():
    """Both get above PPO for certain, at 200 and 100."""
    runs = [run("rank", 0, [-9, -8, -4]), run("few_lives", 0, [-9, -4])]
    summary = summarize(runs, {"mean": -6.0, "low": -7.0, "high": -5.0})
    assert summary["cheapest"] == "few_lives"
    assert summary["env_steps_relative_to_cheapest"] == {"rank": {"value": 2.0, "meaning": "about"}}
