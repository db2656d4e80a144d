"""Tests epg_tf.studies.robustness: what is changed, and what is made of the returns."""

from __future__ import annotations

import dataclasses
import json

import numpy as np
import pytest

from epg_tf.agents.settings import PolicyConfig
from epg_tf.artifacts.artifact import LearnedLoss
from epg_tf.core.errors import ConfigError, RecordError
from epg_tf.core.files import plain, write_json
from epg_tf.epg.meta_parameters import initial_phi
from epg_tf.evaluation.evaluate import evaluate
from epg_tf.evaluation.fixed_policies import methods
from epg_tf.evaluation.requests import loss_request
from epg_tf.reports.robustness_report import OWN as FILES
from epg_tf.reports.robustness_report import (
    join_changes,
    read_known,
    table,
    write_robustness,
)
from epg_tf.studies.robustness import (
    LOSS,
    OWN,
    Change,
    RobustnessTest,
    changes,
    summarize_robustness,
)
from epg_tf.tasks.registry import FAMILIES, make_family
from epg_tf.tasks.settings import TaskConfig


def by_name(experiment):
    return {change.name: change for change in changes(experiment)}


def test_the_ends_of_a_range_are_single_tasks(make_tiny):
    for family in ("point_goal", "random_hopper", "directional_hopper"):
        experiment = make_tiny(task={"family": family})
        found = by_name(experiment)
        for name, end in (("lowest", 0), ("highest", 1)):
            drawn = make_family(found[name].apply(experiment).task)
            task = drawn.sample_task(np.random.default_rng(0))
            for quantity in drawn.quantities:
                np.testing.assert_array_equal(task[quantity.name], quantity.training[end])
        assert by_name(experiment)["shifted"].task_range == "out_of_distribution"
    assert {"lowest", "highest"}.isdisjoint(by_name(make_tiny(task={"family": "fetch"})))
    assert "shifted" not in by_name(make_tiny(task={"family": "hopper"}))


def test_the_ends_are_those_of_the_range_that_a_loss_had(make_tiny):
    task = {"family": "random_hopper", "range": "mass=0.9:1.1,gravity=-5:-4"}
    drawn = make_family(by_name(make_tiny(task=task))["lowest"].apply(make_tiny(task=task)).task)
    found = drawn.sample_task(np.random.default_rng(0))
    assert found["gravity"] == -5.0 and (found["mass"] == 0.9).all()
    assert (found["friction"] == 0.5).all()  # as in training, where nothing is named
    nominal = by_name(make_tiny(task={"family": "random_hopper", "range": "nominal"}))
    assert {"lowest", "highest"}.isdisjoint(nominal) and "shifted" in nominal
    shifted = by_name(make_tiny(task={"family": "point_goal", "range": "out_of_distribution"}))
    assert "shifted" not in shifted and "mass=2.0:2.0" in shifted["lowest"].task_range


def test_every_family_has_changes_that_it_understands(make_tiny):
    for family in FAMILIES:
        experiment = make_tiny(task={"family": family})
        found = changes(experiment)
        assert "longer" in {change.name for change in found}
        for change in found:
            make_family(change.apply(experiment).task)


def test_a_policy_as_in_evolution_is_no_change(make_tiny):
    found = by_name(make_tiny(policy={"hidden": (64, 64), "activation": "relu"}))
    assert "relu" not in found
    assert found["wide"].policy.hidden == (256, 256) and found["wide"].policy.activation == "tanh"
    assert found["longer"].times == 4
    start = by_name(make_tiny(evolution={"moves": "both"}))
    assert not {"wide", "deep", "relu"} & {*start}


def test_a_change_leaves_the_rest_alone(make_tiny):
    experiment = make_tiny(task={"family": "point_goal"})
    policy = dataclasses.replace(experiment.policy, hidden=(3,))
    changed = Change("x", "x", "out_of_distribution", policy).apply(experiment)
    assert changed.task == TaskConfig(
        **{**dataclasses.asdict(experiment.task), "range": "out_of_distribution"}
    )
    assert changed.policy == policy and changed.inner == experiment.inner
    assert Change("x", "x").apply(experiment) == experiment


def test_a_summary_compares_agents_with_themselves(tmp_path):
    own, changed = Change(OWN, "as in evolution"), Change("deep", "deep policy")
    found = [
        (own, {LOSS: np.array([3.0, 5.0]), "zero_shot_linear": np.array([7.0, 9.0])}),
        (changed, {LOSS: np.array([1.0, np.nan])}),
    ]
    summary = summarize_robustness(found)
    assert summary["own"]["loss"]["mean"] == 4.0 and "above_own" not in summary["own"]
    assert summary["own"]["zero_shot_linear"]["mean"] == 8.0
    assert summary["deep"]["loss"]["mean"] == 1.0 and summary["deep"]["loss"]["failed_lives"] == 1
    assert summary["deep"]["above_own"]["mean"] == -3.0
    assert summary["deep"]["times"] == 1 and summary["deep"]["task_range"] is None
    write_robustness(tmp_path, summary, {"seed": 4}, "a title")
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(FILES)
    written = json.loads((tmp_path / "robustness.json").read_text())
    assert written["about"] == {"seed": 4} and written["changes"]["deep"]["label"] == "deep policy"
    text = table(summary)
    assert "as in evolution: fixed linear policy" in text and "deep policy" in text


ROW = {"mean": 1.5, "ci95": [1.0, 2.0], "lives": 4, "failed_lives": 0}
ABOUT = {"task": {"family": "point_goal"}, "seed": 3, "phase": "test", "updates": 2, "loss": "x"}
CHANGES = (
    Change(OWN, "as in evolution"),
    Change("wide", "wide", policy=PolicyConfig(hidden=(256, 256))),
    Change("longer", "longer", times=4),
)


def earlier(folder, **changed):
    """Writes an earlier test, with some changes of `CHANGES` replaced, and returns these."""
    rows = {each.name: {**each.facts(), LOSS: ROW} for each in CHANGES} | changed
    rows = {name: row for name, row in rows.items() if row is not None}
    write_json(folder / "robustness.json", {"changes": rows, "about": ABOUT})
    return plain(rows)


def test_a_test_goes_on_with_what_an_earlier_one_left(tmp_path):
    assert read_known(tmp_path, CHANGES, ABOUT) == {}
    (tmp_path / "robustness.png").write_bytes(b"")  # of a process that was killed, as is the next
    assert read_known(tmp_path, CHANGES, ABOUT) == {}
    (tmp_path / "robustness.png").unlink()
    (tmp_path / ".robustness.json.1.tmp").write_text("{")
    rows = earlier(tmp_path, longer=None)
    assert read_known(tmp_path, CHANGES, {**ABOUT, "loss": "y"}) == rows
    assert [path.name for path in tmp_path.iterdir()] == ["robustness.json"]
    pairs = dataclasses.replace(CHANGES[1].policy, observation_pairs=True)
    with pytest.raises(RecordError, match="changes.wide.policy"):
        read_known(tmp_path, [CHANGES[0], Change("wide", "wide", policy=pairs)], ABOUT)
    failed = summarize_robustness([(CHANGES[0], {LOSS: np.full(2, np.nan)})])
    rows = earlier(tmp_path, wide=None, longer=None, **failed)
    assert read_known(tmp_path, CHANGES, ABOUT) == rows
    assert "[-, -]" in table(rows) and write_robustness(tmp_path, rows, ABOUT, "title").is_file()


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({OWN: None}, "no lives without a change"),
        ({"heavier": {"label": "heavier", LOSS: ROW}}, "changes.heavier={}, which this test does"),
        (
            {"longer": {**CHANGES[2].facts(), "times": 2, LOSS: ROW}},
            "changes.longer.times=2, and this test of 4",
        ),
        (
            {"wide": {**CHANGES[1].facts(), "policy": None, LOSS: ROW}},
            "changes.wide.policy=None, and this test of ",
        ),
        ({"longer": {}}, "it is damaged"),
        ({"longer": {**CHANGES[2].facts(), LOSS: {"mean": 1.0}}}, "it is damaged"),
        ({"longer": {**CHANGES[2].facts(), LOSS: {**ROW, "mean": "x"}}}, "it is damaged"),
        ({OWN: {**CHANGES[0].facts(), LOSS: ROW, "zero_shot_linear": 3}}, "it is damaged"),
    ],
)
def test_what_a_test_cannot_go_on_with_is_named(tmp_path, changed, message):
    earlier(tmp_path, **changed)
    with pytest.raises(RecordError, match=f"^{tmp_path}: .*robustness.json there: .*{message}"):
        read_known(tmp_path, CHANGES, ABOUT)


def test_other_tests_and_damaged_files_are_refused(tmp_path):
    earlier(tmp_path)
    with pytest.raises(RecordError, match="seed=3, and this test of 4; .*overwrite=True instead"):
        read_known(tmp_path, CHANGES, {**ABOUT, "seed": 4})
    for text in ("[]", "{", '{"changes": 3, "about": {}}', '{"changes": {}}'):
        (tmp_path / "robustness.json").write_text(text)
        with pytest.raises(RecordError, match=f"^{tmp_path}: .*overwrite=True instead"):
            read_known(tmp_path, CHANGES, ABOUT)
    (tmp_path / "robustness.json").rename(tmp_path / "notes.json")
    with pytest.raises(RecordError, match=f"^{tmp_path}: there is no robustness.json to go on"):
        read_known(tmp_path, CHANGES, ABOUT)


def test_what_is_known_is_joined_in_the_order_of_changes(tmp_path):
    known = earlier(tmp_path, wide=None)
    new = {each.name: {**each.facts(), LOSS: dict(ROW)} for each in CHANGES[:2]}
    joined = join_changes(tmp_path, known, new, CHANGES)
    assert [*joined] == [OWN, "wide", "longer"] and joined["longer"] == known["longer"]
    assert join_changes(tmp_path, {}, new, CHANGES) == new
    new[OWN][LOSS]["mean"] = 1.5000001
    with pytest.raises(RecordError, match="4 lives without a change have the mean 1.5 there and 4"):
        join_changes(tmp_path, known, new, CHANGES)


@pytest.fixture(scope="module")
def fixed(make_tiny):
    """A policy that was never evolved and does not learn."""
    experiment = make_tiny(inner={"updates": 0}, evolution={"moves": "initialisation"})
    return LearnedLoss(initial_phi(experiment, 1), experiment, {})


@pytest.mark.slow
def test_returns_are_those_of_tests_with_these_settings_to_the_bit(tiny, fixed):
    learned = LearnedLoss(initial_phi(tiny, 0), tiny, {})
    request = loss_request(tiny, 3, 4)
    found = {change.name: each for change, each in RobustnessTest(learned, request, [fixed]).run()}
    assert list(found) == [change.name for change in changes(tiny)]
    for name, change in by_name(tiny).items():
        updates = change.times * tiny.inner.updates
        changed = change.apply(tiny)
        alone = evaluate(changed, learned.phi, seed=3, lives=4, updates=updates, methods=["epg"])
        np.testing.assert_array_equal(found[name][LOSS], alone.final())
        with_fixed = name == OWN or change.task_range is not None
        assert ("zero_shot_policy" in found[name]) == with_fixed
        if with_fixed:
            (method,) = methods([fixed])
            its = method.train(dataclasses.replace(request, task=changed.task)).final_return
            np.testing.assert_array_equal(found[name]["zero_shot_policy"], its)
    assert not np.array_equal(found["shifted"][LOSS], found["own"][LOSS])
    known = [name for name in found if name != "lowest"]
    rest = {each.name: got for each, got in RobustnessTest(learned, request, [fixed]).run(known)}
    assert list(rest) == [OWN, "lowest"]
    np.testing.assert_array_equal(rest["lowest"][LOSS], found["lowest"][LOSS])


def test_what_cannot_be_measured_is_refused(tiny, make_tiny):
    learned = LearnedLoss(initial_phi(tiny, 0), tiny, {})
    with pytest.raises(ConfigError, match="lives=1 gives no interval"):
        RobustnessTest(learned, loss_request(tiny, 3, 1))
    large = make_tiny(policy={"hidden": (20_000, 20_000)})
    with pytest.raises(ConfigError, match="GiB"):
        RobustnessTest(dataclasses.replace(learned, experiment=large), loss_request(large, 3, 64))
    other = make_tiny(
        task={"family": "random_hopper"},
        inner={"updates": 0},
        evolution={"moves": "initialisation"},
    )
    policy = LearnedLoss(initial_phi(other, 0), other, {})
    with pytest.raises(ConfigError, match="the policy is for random_hopper"):
        RobustnessTest(learned, loss_request(tiny, 3, 4), [policy])
    with pytest.raises(ConfigError, match="updates=0: agents that do not learn"):
        RobustnessTest(learned, loss_request(tiny, 3, 4, updates=0))
