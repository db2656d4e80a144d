"""Tests epg_tf.reports.search_file: a search that was stopped anywhere ends as it would have."""

from __future__ import annotations

import dataclasses
import itertools
import json

import numpy as np
import pytest

from epg_tf.core.errors import RecordError
from epg_tf.evaluation.tuning import Search, Trial
from epg_tf.reports.search_file import read_trials, write_search


def measure(experiment, request, baseline):
    """Agents' return is the discount; in settings with a large batch one fails, or all do."""
    values = experiment.td3.discount + np.arange(request.agents) / 7.0
    if experiment.td3.batch > 32:
        values[slice(None) if experiment.td3.batch > 64 else 0] = np.nan
    return values


@pytest.fixture
def search(tiny) -> Search:
    return Search("td3", tiny, seed=5, budget=7, agents=2)


@pytest.mark.parametrize("stop", [1, 6, 8, 9])
def test_a_stopped_search_goes_on_to_the_same_winner(tmp_path, search, stop):
    """Also with trials whose mean or interval JSON has no number for."""
    whole, path, called = list(search.run(measure)), tmp_path / "td3.json", []
    assert {np.isfinite(trial.ci95[0]) for trial in whole} == {True, False}
    write_search(path, search, list(itertools.islice(search.run(measure), stop)), "first")
    assert json.loads(path.read_text())["winner"] is None
    earlier = read_trials(path, search)

    def counted(*args):
        called.append(1)
        return measure(*args)

    resumed = list(search.run(counted, earlier))
    assert list(map(repr, resumed)) == list(map(repr, whole)) and len(called) == 10 - stop
    write_search(path, search, resumed, "again")
    found = json.loads(path.read_text())
    write_search(path, search, whole, "again")
    assert found == json.loads(path.read_text())
    assert found["winner"]["rung"] == 1 and found["command"] == "again"


@pytest.mark.parametrize(
    ("name", "value"), [("seed", 6), ("budget", 8), ("baseline", "sac"), ("agents", 3)]
)
def test_a_file_of_another_search_is_refused(tmp_path, search, name, value):
    write_search(tmp_path / "a.json", search, [], "")
    with pytest.raises(RecordError, match="a.json: it is of another search, with .*; name another"):
        read_trials(tmp_path / "a.json", dataclasses.replace(search, **{name: value}))


def test_other_settings_of_the_agents_are_another_search(tmp_path, search, make_tiny):
    write_search(tmp_path / "a.json", search, [], "")
    larger = dataclasses.replace(search, experiment=make_tiny(policy={"hidden": (9,)}))
    with pytest.raises(RecordError, match="another search, with config="):
        read_trials(tmp_path / "a.json", larger)
    others = dataclasses.replace(search, experiment=make_tiny(compute={"threads": 2}))
    with pytest.raises(RecordError, match="another search, with threads=1 instead of 2"):
        read_trials(tmp_path / "a.json", others)


@pytest.mark.parametrize("damage", [{}, {"mean": "x"}, {"ci95": 3}, {"number": 1, "more": 2}])
def test_damaged_trials_are_one_line(tmp_path, search, damage):
    trial = Trial(0, 0, 2, {"discount": 0.9}, 1.0, (0.0, 2.0), 0)
    write_search(tmp_path / "a.json", search, [trial], "")
    text = json.loads((tmp_path / "a.json").read_text())
    text["trials"] = [{**text["trials"][0], **damage}] if damage else [{}]
    (tmp_path / "a.json").write_text(json.dumps(text))
    with pytest.raises(RecordError, match="its trials cannot be read") as raised:
        read_trials(tmp_path / "a.json", search)
    assert "\n" not in str(raised.value)
