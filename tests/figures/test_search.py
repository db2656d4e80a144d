"""Tests that runs and tests are found by what they hold, and what is said of those that lack."""

from __future__ import annotations

import dataclasses
import io
import json
import shutil
import tarfile
from pathlib import Path

import numpy as np
import pytest

from epg_tf.figures import costs, listing, output, records
from epg_tf.figures.agent_analyses import learning_curves
from epg_tf.figures.catalogue import CATALOGUE, declaration
from epg_tf.figures.declaration import SCALES, Declaration, Findings, LossNeed, RunNeed, TestNeed
from epg_tf.figures.records import open_library
from epg_tf.figures.run_analyses import validation_curves
from epg_tf.figures.search import status_of
from epg_tf.figures.settings import SAME, agree, flat, of_run, wanted
from epg_tf.figures.tables import last_tests_table
from tests.figures import kept

HOPPER = RunNeed("random_hopper:laptop")
PAST = RunNeed("random_hopper:laptop_past")


def figure(*needs, analysis=None) -> Declaration:
    made = analysis or learning_curves(())
    return Declaration("a.fig1", "title", "source", "claim", {"laptop": needs}, made)


def status(folder, *needs, scale="laptop"):
    with open_library([folder]) as library:
        return status_of(figure(*needs), scale, library, folder)


def texts(found, program="epg-tf {}".format) -> list[str]:
    return [command.text(program) for command in found.commands]


def test_a_loss_whose_test_is_missing_is_named(tmp_path):
    """In the list, and in what programs read."""
    run = kept.run(tmp_path / "run", "random_hopper:laptop")
    found = status(tmp_path, TestNeed(HOPPER))
    assert (found.state, found.found.folders, found.losses) == ("missing", [], [run])
    assert f"  there: {run}" in listing.lines_of(found, "epg-tf {}".format)
    assert listing.as_mapping(found, "epg-tf {}".format)["found"] == [str(run)]


def test_other_shapes_of_policies_stand_beside_that_of_evolution():
    labels = [need.label for need in declaration("epg.fig17").needs["laptop"]]
    assert len(labels) == 4 and labels[0] == "2 x 64 tanh, as in evolution"


def test_a_run_is_found_by_its_settings_and_not_by_its_name(tmp_path):
    kept.run(tmp_path / "x" / "random_walker_laptop-0", "random_hopper:laptop")
    found = status(tmp_path, HOPPER)
    assert (found.state, found.missing, found.commands) == ("ready", [], [])
    assert [run.shown for _, run in found.found.runs] == [tmp_path / "x" / "random_walker_laptop-0"]


@pytest.mark.parametrize(
    "other",
    [
        RunNeed("random_hopper:laptop", 1),
        RunNeed("random_walker:laptop"),
        RunNeed("random_hopper:paper"),
        PAST,
        RunNeed("random_hopper:laptop", changes=(("evolution.moves", "both"),)),
    ],
    ids=["seed", "family", "scale", "variant", "change"],
)
def test_other_runs_are_not_taken(tmp_path, other):
    kept.run(tmp_path / "run", "random_hopper:laptop")
    found = status(tmp_path, other)
    assert found.state == "missing"
    assert len(found.missing) == len(found.commands) == 1


def test_a_run_with_more_epochs_or_lives_is_taken_unless_there_is_one_more_alike(tmp_path):
    changes = (("evolution.epochs", 7), ("evolution.lives", 64), ("evolution.noise_vectors", 64))
    kept.run(tmp_path / "b", "random_hopper:laptop", changes=changes, rows=5)
    ((_, run),) = status(tmp_path, HOPPER).found.runs
    assert run.shown == tmp_path / "b"
    kept.run(tmp_path / "c", "random_hopper:laptop", changes=changes[:1], rows=2)
    kept.run(tmp_path / "d", "random_hopper:laptop", changes=changes[:1], rows=6)
    ((_, run),) = status(tmp_path, HOPPER).found.runs
    assert run.shown == tmp_path / "d"


@pytest.mark.parametrize(
    "changes",
    [
        (("loss.start", "random"),),
        (("loss.buffer_steps", 64),),
        (("loss.filters", (8, 8)),),
        (("loss.memory_units", 0),),
    ],
)
def test_a_loss_of_another_form_is_not_taken(tmp_path, changes):
    kept.run(tmp_path / "run", "random_hopper:laptop", changes=changes)
    kept.test(tmp_path / "test", "random_hopper:laptop", changes=changes)
    assert status(tmp_path, HOPPER).state == "missing"
    assert status(tmp_path, TestNeed(HOPPER, ())).state == "missing"


def test_a_stage_of_a_run_is_not_what_it_learned(tmp_path):
    need = TestNeed(RunNeed("metagenrl_laptop"), ())
    kept.test(tmp_path / "test", "metagenrl_laptop", methods=(), learned="objective")
    assert status(tmp_path, need).state == "ready"
    summary = tmp_path / "test" / "summary.json"
    found = json.loads(summary.read_text())
    found["about"]["loss"] = "runs/objective/objectives/round_00000004"
    summary.write_text(json.dumps(found))
    assert status(tmp_path, need).state == "missing"


def test_the_command_of_a_missing_run_can_be_copied(tmp_path):
    need = RunNeed("random_hopper:laptop", 3, (("evolution.moves", "both"),))
    assert texts(status(tmp_path, need)) == [
        "epg-tf meta_train --config=random_hopper:laptop --seed=3 "
        f"--run_dir={tmp_path}/random_hopper_laptop-moves_both-3 --config.evolution.moves=both"
    ]


def test_an_interrupted_run_is_continued(tmp_path):
    kept.run(tmp_path / "begun", "random_hopper:laptop_past", finished=False)
    found = status(tmp_path, PAST)
    assert found.state == "interrupted"
    assert texts(found) == [f"epg-tf meta_train --run_dir={tmp_path}/begun --resume"]
    assert str(tmp_path / "begun") in found.missing[0]


def test_a_run_without_checkpoints_is_not_continued(tmp_path):
    kept.run(tmp_path / "begun", "random_hopper:laptop_past", finished=False)
    shutil.rmtree(tmp_path / "begun" / "checkpoints")
    found = status(tmp_path, PAST)
    assert found.state == "missing"
    assert "--resume" not in texts(found)[0]


def test_a_test_needs_its_run_only_where_it_is_missing_itself(tmp_path):
    need = TestNeed(PAST)
    lacking = status(tmp_path, need)
    assert [text.split()[1] for text in texts(lacking)] == ["meta_train", "meta_test"]
    kept.run(tmp_path / "run", "random_hopper:laptop_past")
    tested = status(tmp_path, need)
    assert texts(tested) == [
        f"epg-tf meta_test --loss={tmp_path}/run --config=random_hopper:laptop_past --lives=64 "
        f"--compare=ppo --output_dir={tmp_path}/random_hopper_laptop_past-0-test"
    ]
    kept.test(tmp_path / "any", "random_hopper:laptop_past")
    assert status(tmp_path, need).state == "ready"


def test_a_shipped_loss_saves_the_run(tmp_path):
    (text,) = texts(status(tmp_path, TestNeed(HOPPER)))
    assert text.startswith("epg-tf meta_test --loss=random_hopper --config=random_hopper:laptop ")
    assert status(tmp_path, LossNeed(HOPPER)).found.losses[0][1].name == "random_hopper"


def test_rivals_that_are_meta_trained_before_are_made_first(tmp_path):
    trained = (
        ("maml", RunNeed("maml_half_cheetah:laptop")),
        ("rl2", RunNeed("rl2_half_cheetah:laptop")),
    )
    need = TestNeed(RunNeed("directional_half_cheetah:laptop"), trained=trained)
    kept.run(tmp_path / "first", "maml_half_cheetah:laptop")
    rl2, test = texts(status(tmp_path, need))
    assert rl2.startswith("epg-tf meta_train --config=rl2_half_cheetah:laptop --seed=0")
    rivals = f"ppo,maml:{tmp_path}/first,rl2:{tmp_path}/rl2_half_cheetah_laptop-0"
    assert f"--compare={rivals} " in test


@pytest.mark.parametrize(
    "need",
    [
        TestNeed(HOPPER, ("ppo", "sac")),
        TestNeed(RunNeed("random_hopper:laptop", 1)),
        TestNeed(PAST),
        TestNeed(HOPPER, updates=128),
        TestNeed(HOPPER, alpha=0.5),
        TestNeed(HOPPER, changes=(("policy.hidden", (256, 256)),)),
        TestNeed(HOPPER, changes=(("task.range", "out_of_distribution"),)),
        TestNeed(HOPPER, trained=(("maml", RunNeed("maml_half_cheetah:laptop")),)),
    ],
)
def test_other_tests_are_not_taken(tmp_path, need):
    kept.test(tmp_path / "test", "random_hopper:laptop")
    assert status(tmp_path, TestNeed(HOPPER)).state == "ready"
    assert status(tmp_path, need).state == "missing"


def test_a_test_in_coarse_physics_is_not_taken(tmp_path):
    """Though the loss is the same: numbers of figures are those of exact physics."""
    path = kept.test(tmp_path / "test", "random_hopper:laptop") / "summary.json"
    summary = json.loads(path.read_text())
    for physics, state in (("coarse", "missing"), ("exact", "ready")):
        summary["about"]["task"]["physics"] = physics
        path.write_text(json.dumps(summary))
        assert status(tmp_path, TestNeed(HOPPER)).state == state


def test_a_run_that_began_afresh_is_preferred_and_captions_name_another_beginning(tmp_path):
    begun = kept.run(tmp_path / "a", "random_hopper:laptop", rows=5)
    description = json.loads((begun / "config.json").read_text())
    description["begun_with"] = {"loss": "goal_ant_night", "scale": 0.5}
    (begun / "config.json").write_text(json.dumps(description))
    found = status(tmp_path, HOPPER, LossNeed(HOPPER))
    lines = output.caption(found, Findings([], [], None)).splitlines()
    words = "begun with goal_ant_night with begin_scale=0.5"
    assert [line.endswith(words) for line in lines if f"run {begun}" in line] == [True]
    assert status(tmp_path, LossNeed(RunNeed("goal_ant:laptop"), afresh=True)).state == "missing"
    assert status(tmp_path, LossNeed(HOPPER, afresh=True)).found.losses[0][1].name != str(begun)
    stopped = RunNeed("goal_ant:laptop")
    path = kept.run(tmp_path / "stopped", "goal_ant:laptop", finished=False)
    description = json.loads((path / "config.json").read_text())
    (path / "config.json").write_text(json.dumps({**description, "begun_with": {"loss": "a"}}))
    assert "--resume" in texts(status(tmp_path, LossNeed(stopped)))[0]
    assert "--resume" not in texts(status(tmp_path, LossNeed(stopped, afresh=True)))[0]
    shutil.rmtree(path)
    fresh = kept.run(tmp_path / "b", "random_hopper:laptop")
    found = status(tmp_path, HOPPER, LossNeed(HOPPER))
    assert [run.shown for _, run in found.found.runs] == [fresh]
    assert [loss.shown for _, loss in found.found.losses] == [fresh]
    assert words not in output.caption(found, Findings([], [], None))


def test_tests_of_earlier_versions_state_less_and_are_taken(tmp_path):
    path = kept.test(tmp_path / "test", "random_hopper:laptop") / "summary.json"
    summary = json.loads(path.read_text())
    experiment = wanted("random_hopper:laptop")
    del summary["about"]["config"], summary["about"]["alpha"]
    summary["about"]["policy"] = {"hidden": [64, 64], "activation": "tanh"}
    summary["epg"]["env_steps"] = experiment.life_steps
    path.write_text(json.dumps(summary))
    assert status(tmp_path, TestNeed(HOPPER)).state == "ready"
    assert status(tmp_path, TestNeed(PAST)).state == "missing"
    summary["epg"]["env_steps"] *= 2
    path.write_text(json.dumps(summary))
    assert status(tmp_path, TestNeed(HOPPER)).state == "missing"


def test_a_summary_alone_is_enough_only_for_what_draws_no_curves(tmp_path):
    path = kept.test(tmp_path / "test", "random_hopper:laptop")
    (path / "curves.csv").unlink()
    assert status(tmp_path, TestNeed(HOPPER)).state == "missing"
    assert status(tmp_path, TestNeed(HOPPER, curves=False)).state == "ready"


def test_what_is_optional_may_lack_but_not_all_of_it(tmp_path):
    needs = [RunNeed("random_hopper:laptop", seed, optional=True) for seed in (0, 1)]
    assert status(tmp_path, *needs).state == "missing"
    kept.run(tmp_path / "run", "random_hopper:laptop", 1)
    found = status(tmp_path, *needs)
    assert found.state == "ready"
    assert found.missing == ["the run of random_hopper:laptop, seed 0"]
    assert len(found.commands) == 1


def test_broken_and_foreign_folders_are_named_and_do_no_harm(tmp_path):
    kept.run(tmp_path / "good", "random_hopper:laptop")
    for name, text in {
        "foreign": '{"model": "resnet"}',
        "list": "[1]",
        "torn": '{"config": {"task"',
        "other": '{"kind": "evolution", "seed": 0, "config": {"task": {"frame_skip": "two"}}}',
    }.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "config.json").write_text(text)
    (tmp_path / "test").mkdir()
    (tmp_path / "test" / "curves.csv").write_text("a,b\n")
    (tmp_path / "test" / "summary.json").write_text('{"about": 3}')
    (tmp_path / "archive").mkdir()
    (tmp_path / "archive" / "raw.tar.xz").write_bytes(b"no archive")
    (tmp_path / "flipped").mkdir()
    archived(tmp_path / "flipped", np.random.default_rng(0).bytes(10_000))
    damaged = bytearray((tmp_path / "flipped" / "raw.tar.xz").read_bytes())
    damaged[5000:5020] = bytes(255 - byte for byte in damaged[5000:5020])
    (tmp_path / "flipped" / "raw.tar.xz").write_bytes(damaged)
    (tmp_path / "package.json").write_text(
        '{"about": {"task": 1}, "epg": {"final_return_mean": 1}}'
    )
    with open_library([tmp_path]) as library:
        assert [run.shown.name for run in library.runs] == ["good"]
        names = {path.name for path, _ in library.unreadable}
        states = {status_of(each, "laptop", library, tmp_path).state for each in CATALOGUE}
    assert names == {"foreign", "list", "torn", "other", "test", "raw.tar.xz"}
    assert len(library.unreadable) == 7
    assert states == {"missing", "ready"}


def archived(folder, text):
    """Puts a config.json into an archive in a folder."""
    with tarfile.open(folder / "raw.tar.xz", "w:xz") as archive:
        member = tarfile.TarInfo("config.json")
        member.size = len(text)
        archive.addfile(member, io.BytesIO(text))


def test_an_archive_that_would_fill_the_disk_is_named(tmp_path, monkeypatch):
    archived(tmp_path, bytes(1000))
    monkeypatch.setattr(records, "_ARCHIVE_LIMIT", 999)
    with open_library([tmp_path]) as library:
        ((path, reason),) = library.unreadable
    assert path.name == "raw.tar.xz" and "more than 999 bytes" in reason


def test_an_archive_gives_its_runs_which_cannot_be_continued(tmp_path):
    kept.run(tmp_path / "study", "random_hopper:laptop", finished=False)
    archived(tmp_path / "study", (tmp_path / "study" / "config.json").read_bytes())
    (tmp_path / "study" / "config.json").unlink()
    found = status(tmp_path, HOPPER)
    assert found.state == "missing"  # a few rows of many epochs
    assert "--resume" not in texts(found)[0]
    (tmp_path / "study" / "summary.json").write_text('{"format_version": 1}')
    ((_, run),) = status(tmp_path, HOPPER).found.runs
    assert run.shown == tmp_path / "study"
    assert run.loss is None


def test_a_scale_without_such_a_variant_is_not_possible(tmp_path):
    need = TestNeed(RunNeed("hidden_goal:night"))
    with open_library([tmp_path]) as library:
        night = Declaration("a", "b", "c", "d", {"night": [need]}, learning_curves(()))
        found = status_of(night, "night", library, tmp_path)
        later = status_of(declaration("epg.v1.fig4"), "night", library, tmp_path)
    assert (found.state, later.state) == ("not possible", "not possible")
    assert "night" in found.reason


@pytest.mark.parametrize(
    ("scale", "places", "cells", "needed", "run"),
    [
        ("laptop", 6 + 3, 6 + 3, {"metagenrl_small"}, "metagenrl_bodies:hopper_cheetah"),
        (
            "night",
            7 + 3,
            7 + 3 * 3,
            {"metagenrl_night:small", "metagenrl_night:hopper_cheetah"},
            "metagenrl_night:hopper_walker",
        ),
    ],
)
def test_training_sets_of_several_environments_fill_table_2(
    tmp_path, scale, places, cells, needed, run
):
    """Rivals are asked for once in each environment; tests are as long for all sets and scales."""
    needs = declaration("metagenrl.table2").needs[scale]
    assert len({need.label for need in needs}) == cells
    asked = [need.environment for need in needs if need.methods]
    assert len(asked) == len(set(asked)) == places
    (motors,) = (need for need in needs if need.environment == "turned_motors" and need.methods)
    assert motors.methods == motors.compare == ("off_policy_reinforce", "ppo")
    (seen,) = (need for need in needs if need.environment == "point_goal" and need.methods)
    further = {"reinforce", "ddpg"} if scale == "night" else {"ddpg"}
    assert set(seen.methods) == {*motors.methods, *further}
    bodies = ("hopper", "half_cheetah", "walker2d")
    assert {need.env_steps for need in needs if need.environment in bodies} == {16_000}
    assert {need.env_steps for need in needs if need.environment not in bodies} == {8000}
    assert {need.run.config for need in needs if not need.optional} == needed
    with open_library([tmp_path]) as library:
        found = status_of(declaration("metagenrl.table2"), scale, library, tmp_path)
    assert found.state == "missing"
    assert any(f"--config={run}" in text for text in texts(found))


def test_kept_results_fill_table_2_at_night(tmp_path):
    """But for the two pairs of bodies that no run was made of."""
    with open_library([Path(__file__).parents[2] / "results"]) as library:
        found = status_of(declaration("metagenrl.table2"), "night", library, tmp_path)
    assert found.state == "ready"
    assert {need.label.partition(":")[0] for need, _ in found.found.tests} == {
        "hopper & cheetah",
        "small",
    }
    assert len(found.found.tests) == 3 + 3 * 7


@pytest.mark.parametrize("seeds", [(0, 1), (1, 0)])
def test_a_test_of_several_objectives_is_one_of_each(tmp_path, seeds):
    """Seed 0 has the rivals, in whatever order the two were named; curves are of one alone."""
    path = kept.test(
        tmp_path / "test", "metagenrl_laptop", seeds[0], methods=("ppo",), learned="objective"
    )
    summary = json.loads((path / "summary.json").read_text())
    row = summary["objective"]
    summary["about"] |= {"other_losses": ["b"], "other_loss_facts": {"b": {"seed": seeds[1]}}}
    summary["objective a loss"] = {**row, "final_return_mean": 1.0 + seeds[0]}
    summary["objective b"] = {**row, "final_return_mean": 1.0 + seeds[1]}
    (path / "summary.json").write_text(json.dumps(summary))
    needs = [
        TestNeed(RunNeed("metagenrl_laptop", seed), methods, curves=False)
        for seed, methods in ((0, ("ppo",)), (1, ()))
    ]
    ((_, first), (_, second)) = status(tmp_path, *needs).found.tests
    assert [test.methods["objective"]["final_return_mean"] for test in (first, second)] == [1, 2]
    assert set(first.methods) == {"objective", "ppo"} and set(second.methods) == {"objective"}
    lacking = [
        dataclasses.replace(needs[0], curves=True),
        dataclasses.replace(needs[1], methods=("ppo",)),
    ]
    missing = status(tmp_path, *lacking).missing
    assert len([words for words in missing if words.startswith("a test of")]) == 2


@pytest.mark.parametrize("damage", ["facts", "seed", "row"])
def test_a_damaged_test_of_several_objectives_does_no_harm(tmp_path, damage):
    path = kept.test(tmp_path / "test", "metagenrl_laptop", 0, methods=(), learned="objective")
    summary = json.loads((path / "summary.json").read_text())
    summary["about"] |= {"other_losses": ["b"], "other_loss_facts": {"b": {"seed": 1}}}
    summary["objective a loss"] = summary["objective b"] = summary["objective"]
    if damage == "row":
        del summary["objective b"]
    elif damage == "seed":
        summary["about"]["other_loss_facts"]["b"] = {}
    else:
        summary["about"]["other_loss_facts"]["b"] = None
    (path / "summary.json").write_text(json.dumps(summary))
    with open_library([tmp_path]) as library:
        assert not library.tests
        assert [reason for _, reason in library.unreadable] == [
            "an objective has no facts, no seed or no row"
        ]


def test_a_test_in_an_environment_with_another_episode_limit_is_not_taken(tmp_path):
    """A need names FAMILY@LIMIT; a test states the two apart."""
    path = kept.test(tmp_path / "test", "metagenrl_laptop", methods=(), learned="objective")
    summary = json.loads((path / "summary.json").read_text())
    summary["about"] |= {"environment": "gymnasium:Hopper-v5", "episode_limit": 200}
    (path / "summary.json").write_text(json.dumps(summary))
    states = [
        status(tmp_path, TestNeed(RunNeed("metagenrl_laptop"), (), environment=name)).state
        for name in ("gymnasium:Hopper-v5@200", "gymnasium:Hopper-v5", "gymnasium:Hopper-v5@20")
    ]
    assert states == ["ready", "missing", "missing"]


def test_a_test_of_several_losses_is_none_of_one(tmp_path):
    path = kept.test(tmp_path / "test", "random_hopper:laptop")
    summary = json.loads((path / "summary.json").read_text())
    summary["about"] |= {"other_losses": ["b"], "other_loss_facts": {"b": {"seed": 1}}}
    (path / "summary.json").write_text(json.dumps(summary))
    assert status(tmp_path, TestNeed(HOPPER)).state == "missing"
    with open_library([tmp_path]) as library:
        assert len(library.tests) == 1 and not library.unreadable


def test_names_are_unique_and_every_scale_can_be_listed(tmp_path):
    names = [each.name for each in CATALOGUE]
    assert len(set(names)) == len(names) >= 40
    with open_library([tmp_path]) as library:
        for scale in SCALES:
            for each in CATALOGUE:
                found = status_of(each, scale, library, tmp_path)
                assert found.reason if found.state == "not possible" else not found.reason
                assert bool(found.commands) == bool(found.missing)


def test_a_run_whose_policies_see_more_is_another_one():
    experiment = wanted("point_goal")
    for change in ({"observation_pairs": True}, {"activation": "relu"}):
        policy = dataclasses.replace(experiment.policy, **change)
        assert not agree(experiment, dataclasses.replace(experiment, policy=policy))
    assert agree(experiment, wanted("point_goal"))


def test_settings_that_needs_change_are_compared():
    """A change that is not compared would let any other run be taken for it."""
    go_with = {
        "evolution.moves": {"evolution.guidance", "evolution.final_guidance"},
        "loss.start": {"loss.products", "inner.kl_limit"},
        "steps_per_agent": {"meta.learning_rate_rounds"},
    }
    # The curves are cut at these epochs, and tests on the way change best/ alone; a table of last
    # tests refuses those after different rounds.
    of_analysis = {
        validation_curves: {
            "evolution.epochs",
            "evolution.learning_rate_epochs",
            "evolution.validation_period",
        },
        last_tests_table: {"validation.period"},
    }
    for each in CATALOGUE:
        for need in [need for needs in each.needs.values() for need in needs]:
            changed = {name for name, _ in of_run(need).changes}
            free = of_analysis.get(each.analysis, set())
            free = free.union(*(go_with[name] for name in changed & set(go_with)))
            assert changed - free <= {name for names in SAME.values() for name in names}
    everything = {
        name: name for config in ("point_goal", "metagenrl_laptop") for name in flat(wanted(config))
    }
    assert set(SAME["EPG"]) | set(SAME["MetaGenRL"]) <= set(everything)


def test_costs_are_those_of_the_papers_protocols():
    hopper = wanted("random_hopper:paper")
    assert costs.run_env_steps(hopper) == 5000 * 256 * (8192 + 3 * 1000)
    assert costs.sequential_env_steps(wanted("random_reacher:paper_v1")) == 3000 * 65536
    assert costs.run_env_steps(wanted("metagenrl_paper:cheetah_lunar")) == 20 * 10**6


def test_the_cost_of_a_test_counts_all_its_methods():
    # epg, untrained, random_loss, centred_loss, policy_gradient_loss, ppo, ppo_as_epg
    assert costs.test_env_steps(TestNeed(HOPPER, lives=10)) == 7 * 10 * 2048
    assert costs.test_env_steps(TestNeed(HOPPER, lives=10, updates=128)) == 7 * 10 * 4096
