"""Tests the numbers and tidy tables of analyses, and what a figure leaves in its folder."""

from __future__ import annotations

import csv
import dataclasses
import json
import re

import numpy as np
import pytest
from PIL import Image

from epg_tf.core.errors import ConfigError, RecordError
from epg_tf.core.formatting import count
from epg_tf.figures import agent_analyses, cost_table, output, run_analyses, tables
from epg_tf.figures.catalogue import declaration
from epg_tf.figures.declaration import Declaration, Found, LossNeed, RunNeed, TestNeed
from epg_tf.figures.output import make_figure
from epg_tf.figures.records import FoundLoss, open_library
from epg_tf.figures.search import status_of
from epg_tf.figures.settings import flat, wanted
from epg_tf.figures.tidy import mean_with_interval
from epg_tf.reports.panels import Curves, run_panels
from epg_tf.runs.metrics import MetricsFile
from tests.figures import kept

HOPPER = RunNeed("random_hopper:laptop")


def found_for(folder, *needs) -> Found:
    figure = Declaration("a", "b", "c", "d", {"laptop": needs}, tables.settings_table)
    with open_library([folder]) as library:
        return status_of(figure, "laptop", library, folder).found


def test_learning_curves_keep_the_methods_that_are_asked_for(tmp_path):
    kept.test(tmp_path / "test", "random_hopper:laptop", methods=("sac", "ppo", "ppo_as_epg"))
    found = found_for(tmp_path, TestNeed(HOPPER))
    findings = agent_analyses.learning_curves(("ppo_as_epg", "ppo"), levels=("ppo",))(found)
    methods = dict.fromkeys(row["method"] for row in findings.table)
    assert list(methods) == ["epg", "ppo_as_epg", "ppo"]
    assert len(findings.table) == 3 * 4 * (3 + 1)
    # Finals 4, 6, 5, 7: mean 5.5, standard deviation 1.291, t(3) = 3.182.
    half = 3.182446 * np.std([4, 6, 5, 7], ddof=1) / 2
    assert findings.numbers[0] == (
        f"evolved loss (EPG): mean final return 5.50 [{5.5 - half:.2f}, {5.5 + half:.2f}], 4 agents"
        "; in the first episode 0.50 [-1.55, 2.55]"
    )
    assert "ends 4.38" in findings.numbers[1]  # PPO's finals are 1, 0, 2, 1.5
    levels = [line for line in findings.draw("t").axes[0].lines if line.get_ydata()[0] == 1.125]
    assert len(levels) == 1


def test_of_two_tests_the_one_with_more_rivals_is_drawn(tmp_path):
    config = "directional_half_cheetah:laptop"
    kept.test(tmp_path / "plain", config)
    needs = declaration("epg.fig9").needs["laptop"]
    analysis = declaration("epg.fig9").analysis
    plain = analysis(found_for(tmp_path, *needs))
    assert not any("MAML" in line for line in plain.numbers)
    kept.test(tmp_path / "whole", config, methods=("ppo", "ppo_as_epg", "maml", "rl2"))
    whole = analysis(found_for(tmp_path, *needs))
    assert any(line.startswith("MAML (1 step): mean final return 1.12") for line in whole.numbers)
    whole.draw("title")


def test_tests_of_the_same_label_share_a_panel(tmp_path):
    for seed in (0, 1):
        kept.test(
            tmp_path / f"{seed}", "metagenrl_laptop", seed, methods=("ppo",), learned="objective"
        )
    needs = [
        TestNeed(RunNeed("metagenrl_laptop", seed), ("ppo",), label="seen: ours") for seed in (0, 1)
    ]
    findings = agent_analyses.side_by_side(("ppo",))(found_for(tmp_path, *needs))
    figure = findings.draw("title")
    assert [axes.get_title(loc="left") for axes in figure.axes] == ["seen"]
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["ours", "PPO"]
    assert len(findings.table) == 2 * 2 * 4 * 4
    assert {row["loss_seed"] for row in findings.table if row["method"] == "objective"} == {0, 1}
    places = [line.partition(": learned")[0] for line in findings.numbers if ": learned" in line]
    assert places == ["seen: ours, seed 0", "seen: ours, seed 1"]


def test_the_life_of_evolution_is_marked(tmp_path):
    kept.test(tmp_path / "test", "random_hopper:laptop")
    findings = agent_analyses.side_by_side((), mark_training=True)(
        found_for(tmp_path, TestNeed(HOPPER, label="A: a"))
    )
    (axes,) = findings.draw("title").axes
    assert [line.get_xdata()[0] for line in axes.lines if len(set(line.get_xdata())) == 1] == [2048]


def test_single_lives_are_spread_from_the_lowest_to_the_highest(tmp_path):
    kept.test(tmp_path / "test", "random_hopper:laptop", finals=[4.0, 9.0, float("nan"), 7.0])
    findings = agent_analyses.single_lives(found_for(tmp_path, TestNeed(HOPPER)))
    assert [line.split(":")[0] for line in findings.numbers[:4]] == [
        "task 2",
        "task 0",
        "task 3",
        "task 1",
    ]
    figure = findings.draw("title")
    assert [axes.get_title() for axes in figure.axes[:4]][1:] == [
        "task 0: 4.0",
        "task 3: 7.0",
        "task 1: 9.0",
    ]


def test_dips_are_counted(tmp_path):
    kept.test(tmp_path / "test", "random_hopper:laptop", finals=[4.0, 6.0, -5.0, 7.0])
    findings = agent_analyses.compared_lives(("ppo",))(found_for(tmp_path, TestNeed(HOPPER)))
    # Curves of agents 0 and 2 have a value below zero; agent 2 ends below.
    assert (
        "evolved loss (EPG): 1 of 4 agents dip below zero and end above, a share of 0.25 "
        "[0.05, 0.70]"
    ) in findings.numbers


def test_runs_of_several_seeds_have_mean_and_deviation_where_all_have_values(tmp_path):
    for seed, rows in ((0, 2), (1, 3)):
        kept.run(tmp_path / f"{seed}", "random_hopper:laptop", seed, rows=rows)
    needs = [RunNeed("random_hopper:laptop", seed, label="Hopper") for seed in (0, 1)]
    analysis = run_analyses.evolution_curves(("fitness_mean", "mean return"))
    findings = analysis(found_for(tmp_path, *needs))
    assert [(row["seed"], row["epoch"], row["value"]) for row in findings.table] == [
        (0, 1, 0.0),
        (0, 2, 1.0),
        (1, 1, 10.0),
        (1, 2, 11.0),
        (1, 3, 12.0),
    ]
    assert "Hopper: mean return 5.00 [-58.53, 68.53] in the first 1 epochs" in findings.numbers[0]
    # Epoch 2 is the last that both have.
    assert findings.numbers[0].endswith(
        "epochs, 6.00 [-57.53, 69.53] in the last up to 2; seeds 0, 1"
    )
    (axes,) = findings.draw("title").axes
    np.testing.assert_array_equal(axes.lines[-1].get_ydata(), [5.0, 6.0, np.nan])


def test_rows_are_of_the_epoch_that_they_state(tmp_path):
    path = kept.run(tmp_path / "run", "random_hopper:laptop", rows=4) / "metrics.csv"
    header, one, *others = path.read_text().splitlines(keepends=True)
    path.write_text("".join([header, *others]))
    analysis = run_analyses.evolution_curves(("fitness_mean", "fitness"))
    (row, *_) = analysis(found_for(tmp_path, HOPPER)).table
    assert (row["epoch"], row["value"]) == (2, 1.0)
    path.write_text("".join([header, "," + one.partition(",")[2], *others]))
    with pytest.raises(RecordError, match="run: row 1 of metrics.csv states no epoch; restore it"):
        analysis(found_for(tmp_path, HOPPER))


@pytest.mark.parametrize(
    "analysis",
    [run_analyses.validation_curves, run_analyses.evolution_curves(("no_column", "nothing"))],
)
def test_runs_without_a_value_to_draw_are_named(tmp_path, analysis):
    kept.run(tmp_path / "run", "random_hopper:laptop", rows=1)  # before its first validation
    found = found_for(tmp_path, RunNeed("random_hopper:laptop", label="Hopper: own_start"))
    with pytest.raises(RecordError, match="run: metrics.csv has no value of .*; make such runs"):
        analysis(found)


def test_the_band_is_the_standard_deviation_over_seeds(tmp_path):
    for seed in (0, 1):
        kept.run(tmp_path / f"{seed}", "random_hopper:laptop", seed)
    needs = [RunNeed("random_hopper:laptop", seed, label="Hopper") for seed in (0, 1)]
    analysis = run_analyses.evolution_curves(("fitness_mean", "mean return"))
    (axes,) = analysis(found_for(tmp_path, *needs)).draw("title").axes
    corners = axes.collections[0].get_paths()[0].vertices
    half = np.std([0, 10], ddof=1)  # of every epoch: seed 1 is 10 above seed 0
    at_first = corners[corners[:, 0] == 1][:, 1]
    assert at_first.min() == pytest.approx(5 - half) and at_first.max() == pytest.approx(5 + half)


def test_ants_without_resets_have_their_targets_and_ppo_beside_them(tmp_path):
    config = "goal_ant:laptop_no_reset"
    kept.run(tmp_path / "run", config)
    figure = declaration("epg.fig19")
    alone = figure.analysis(found_for(tmp_path, *figure.needs["laptop"]))
    assert {row["column"] for row in alone.table} == {"fitness_mean", "goals_reached"}
    targets = [row["value"] for row in alone.table if row["column"] == "goals_reached"]
    assert targets == [0.0, 2.0, 4.0] and not any("PPO" in line for line in alone.numbers)
    kept.test(tmp_path / "test", config)
    beside = figure.analysis(found_for(tmp_path, *figure.needs["laptop"]))
    assert beside.numbers[-1] == (
        "GoalAnt without resets: PPO (M as EPG) ends at 1.12 [-0.23, 2.48]"
    )
    (axes,) = beside.draw("title").axes
    assert [line.get_ydata()[0] for line in axes.lines if line.get_linestyle() == "--"] == [1.125]


def test_a_level_is_drawn_in_its_own_panel():
    curves = {"a": Curves(np.array([1, 2]), np.array([[1.0, 2.0]]))}
    grid = {"one": curves, "other": curves}
    figure = run_panels(grid, "title", ("x", "y"), levels={"other": 7.0})
    for axes, expected in zip(figure.axes, ([], [7.0]), strict=True):
        assert [
            line.get_ydata()[0] for line in axes.lines if line.get_linestyle() == "--"
        ] == expected


def test_objectives_along_meta_training_have_a_panel_each(tmp_path):
    """Panels are in the order of the rounds, and say how many env steps these are."""
    made = kept.progress(tmp_path / "progress", tmp_path / "run", {"round_2": 1.0, "round_16": 7.0})
    figure = declaration("metagenrl.fig4")
    (need,) = figure.needs["laptop"]
    findings = figure.analysis(found_for(tmp_path, need))
    drawn = findings.draw("title")
    steps = kept.wanted("metagenrl_laptop").round_steps
    titles = [axes.get_title(loc="left") for axes in drawn.axes]
    assert titles == [f"after {count(n * steps)} env steps per agent" for n in (2, 16)]
    for name, mean in (("round_2", "1.00"), ("round_16", "7.00")):
        assert any(f"{name}: mean final return {mean}" in line for line in findings.numbers)
    assert len(findings.table) == 2 * 4 * (3 + 1) and made.is_dir()


def test_a_test_of_another_run_is_not_that_of_its_objectives(tmp_path):
    kept.progress(tmp_path / "progress", tmp_path / "run", {"round_2": 1.0})
    need = dataclasses.replace(declaration("metagenrl.fig4").needs["laptop"][0], env_steps=1)
    other = dataclasses.replace(need, env_steps=None, environment="gymnasium:Pendulum-v1")
    for wrong in (need, other):
        assert found_for(tmp_path, wrong).tests == []
    other = dataclasses.replace(need, env_steps=None, run=RunNeed("metagenrl_laptop", 1))
    assert found_for(tmp_path, other).tests == []


def test_objectives_of_a_run_are_known_by_its_settings_and_not_by_its_path(tmp_path):
    """Tests of earlier versions name the folder of the run alone, which must be there."""
    made = kept.progress(tmp_path / "progress", tmp_path / "run", {"round_2": 1.0})
    (tmp_path / "run").rename(tmp_path / "moved")
    (need,) = declaration("metagenrl.fig4").needs["laptop"]
    assert len(found_for(tmp_path, need).tests) == 1
    summary = json.loads((made / "summary.json").read_text())
    summary["about"]["run_finished"] = False
    (made / "summary.json").write_text(json.dumps(summary))
    assert found_for(tmp_path, need).tests == []
    del summary["about"]["config"]
    (made / "summary.json").write_text(json.dumps(summary))
    assert found_for(tmp_path, need).tests == []
    (tmp_path / "moved").rename(tmp_path / "run")
    assert len(found_for(tmp_path, need).tests) == 1


def test_validation_is_drawn_where_there_was_a_test(tmp_path):
    """Panels are families, curves in them are starts; runs may be longer than what is asked for."""
    asked = (("evolution.epochs", 5),)
    random = (("loss.start", "random"), *asked)
    needs = []
    for seed in (0, 1):
        kept.run(tmp_path / f"{seed}", "random_hopper:laptop", seed, asked, rows=7 - seed)
        kept.run(tmp_path / f"{seed}-random", "random_hopper:laptop", seed + 2, random, rows=4)
        needs += [
            RunNeed("random_hopper:laptop", seed, asked, label="Hopper: own_start"),
            RunNeed("random_hopper:laptop", seed + 2, random, label="Hopper: random"),
        ]
    findings = run_analyses.validation_curves(found_for(tmp_path, *needs))
    rows = [(row["panel"], row["seed"], row["epoch"], row["value"]) for row in findings.table]
    assert rows == [
        ("Hopper: own_start", 0, 2, -1.0),
        ("Hopper: own_start", 0, 4, -3.0),
        ("Hopper: own_start", 1, 2, -11.0),
        ("Hopper: own_start", 1, 4, -13.0),
        ("Hopper: random", 2, 2, -21.0),
        ("Hopper: random", 2, 4, -23.0),
        ("Hopper: random", 3, 2, -31.0),
        ("Hopper: random", 3, 4, -33.0),
    ]
    assert findings.numbers == [
        "Hopper: own_start: validation -6.00 [-69.53, 57.53] after 2 epochs, "
        "-8.00 [-71.53, 55.53] after 4; seeds 0, 1",
        "Hopper: random: validation -26.00 [-89.53, 37.53] after 2 epochs, "
        "-28.00 [-91.53, 35.53] after 4; seeds 2, 3",
    ]
    figure = findings.draw("title")
    (axes,) = figure.axes
    drawn = [line.get_ydata().tolist() for line in axes.lines if len(line.get_ydata()) == 2]
    assert [-6.0, -8.0] in drawn and [-26.0, -28.0] in drawn
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["own start", "random"]


def test_an_epoch_that_one_seed_was_not_tested_in_is_left_out(tmp_path):
    asked = (("evolution.epochs", 9),)
    for seed, rows in ((0, 3), (1, 6)):
        kept.run(tmp_path / f"{seed}", "random_hopper:laptop", seed, asked, rows=rows)
    needs = [RunNeed("random_hopper:laptop", seed, asked, label="a: b") for seed in (0, 1)]
    findings = run_analyses.validation_curves(found_for(tmp_path, *needs))
    assert [row["epoch"] for row in findings.table] == [2, 2]


def test_captions_say_who_claims_what(tmp_path):
    kept.run(tmp_path / "run", "random_hopper:laptop")
    needs = {"laptop": [RunNeed("random_hopper:laptop", label="a: b")]}
    ours = Declaration("x", "t", "s", "it does", needs, run_analyses.validation_curves)
    for claimant in ("The paper", "This package"):
        figure = dataclasses.replace(ours, claimant=claimant)
        with open_library([tmp_path]) as library:
            status = status_of(figure, "laptop", library, tmp_path)
            text = output.caption(status, figure.analysis(status.found))
        assert f"{claimant}: it does" in text
    assert declaration("epg.fig5").claimant == "The paper" != declaration("own.starts").claimant


def test_the_two_lowest_seeds_are_left_out(tmp_path):
    for seed, final in ((0, 1.0), (1, 9.0), (2, 5.0), (3, 8.0)):
        kept.test(
            tmp_path / f"{seed}",
            "metagenrl_laptop",
            seed,
            methods=(),
            learned="objective",
            finals=[final] * 4,
        )
    needs = [TestNeed(RunNeed("metagenrl_laptop", seed), ()) for seed in range(4)]
    findings = run_analyses.without_worst(found_for(tmp_path, *needs))
    deviations = np.std([1, 9, 5, 8], ddof=1), np.std([9, 8], ddof=1)
    assert findings.numbers[-1] == (
        f"standard deviation over seeds: {deviations[0]:.2f} with all, {deviations[1]:.2f} without "
        "the 2 lowest"
    )


def test_a_table_is_filled_with_means_over_seeds(tmp_path):
    for seed, final in ((0, 1.0), (1, 3.0)):
        kept.test(
            tmp_path / f"{seed}",
            "metagenrl_laptop",
            seed,
            methods=("ppo",) if seed == 0 else (),
            learned="objective",
            finals=[final] * 4,
        )
    needs = [
        TestNeed(RunNeed("metagenrl_laptop", seed), (), curves=False, label="set: PointGoal")
        for seed in (0, 1)
    ]
    findings = tables.returns_table(found_for(tmp_path, *needs))
    assert findings.numbers[0] == "MetaGenRL, set in PointGoal: 2.00 [-10.71, 14.71]"
    assert findings.numbers[1].startswith("PPO in PointGoal: 1.12 [")
    assert [row["mean"] for row in findings.table] == [1.0, 1.125, 3.0]


def test_agents_of_a_rival_count_once_in_a_table(tmp_path):
    """Two tests in the same tasks have the same rivals: their rows are no two samples. Another
    seed of tasks has others.
    """
    for seed in (0, 1, 2):
        folder = tmp_path / f"{seed}"
        made = kept.test(folder, "metagenrl_laptop", seed, (), ("ppo",), learned="objective")
        summary = json.loads((made / "summary.json").read_text())
        if seed == 1:
            summary["ppo"]["lives"] += 1  # the other test repeats four of these
        if seed == 2:
            summary["about"]["seed"] += 1
            summary["ppo"]["final_return_mean"] += 1.0
        (made / "summary.json").write_text(json.dumps(summary))
    needs = [
        TestNeed(RunNeed("metagenrl_laptop", seed), (), curves=False, label="set: PointGoal")
        for seed in (0, 1, 2)
    ]
    findings = tables.returns_table(found_for(tmp_path, *needs[:2]))
    assert re.fullmatch(r"PPO in PointGoal: 1\.12 \[-?0\.\d+, \d\.\d+\]", findings.numbers[1])
    assert [row["agents"] for row in findings.table if row["row"] == "PPO"] == [5]
    findings = tables.returns_table(found_for(tmp_path, *needs))
    assert [row["mean"] for row in findings.table if row["row"] == "PPO"] == [1.125, 2.125]


def test_a_table_names_objectives_first(tmp_path):
    for seed, config in enumerate(("metagenrl_laptop", "metagenrl_small")):
        kept.test(tmp_path / f"{seed}", config, 0, (), ("ppo",), learned="objective")
    needs = [
        TestNeed(RunNeed("metagenrl_laptop"), (), curves=False, label="one: PointGoal"),
        TestNeed(RunNeed("metagenrl_small"), (), curves=False, label="four: PointGoal"),
    ]
    findings = tables.returns_table(found_for(tmp_path, *needs))
    names = [text.partition(" in ")[0] for text in findings.numbers]
    assert names == ["MetaGenRL, one", "MetaGenRL, four", "PPO"]


def test_a_table_prefers_rivals_on_the_streams_of_published_numbers(tmp_path):
    """The other test has more agents, but they are others."""
    for seed, phase in enumerate(("objective_test", "objective_reporting")):
        folder = tmp_path / f"{seed}"
        made = kept.test(folder, "metagenrl_laptop", seed, (), ("ppo",), learned="objective")
        summary = json.loads((made / "summary.json").read_text())
        summary["about"]["phase"] = phase
        summary["ppo"] |= {"lives": 9 - seed, "final_return_mean": float(seed)}
        (made / "summary.json").write_text(json.dumps(summary))
    needs = [
        TestNeed(RunNeed("metagenrl_laptop", seed), (), curves=False, label="set: PointGoal")
        for seed in (0, 1)
    ]
    findings = tables.returns_table(found_for(tmp_path, *needs))
    rivals = [(row["agents"], row["mean"]) for row in findings.table if row["row"] == "PPO"]
    assert rivals == [(8, 1.0)]


def test_a_table_of_last_tests_has_the_newest_one_and_every_seed(tmp_path):
    """Rounds without a test are NaN in metrics."""
    for seed, values in ((0, (1.0, 5.0, np.nan)), (1, (9.0, 2.0, np.nan))):
        kept.run(tmp_path / str(seed), "metagenrl_small", seed, rows=0)
        metrics = MetricsFile(tmp_path / str(seed) / "metrics.csv")
        for number, value in enumerate(values):
            metrics.append({"epoch": number + 1, "validation_return/gymnasium:A": value})
    needs = [RunNeed("metagenrl_small", seed, label="base") for seed in (0, 1)]
    findings = tables.last_tests_table(found_for(tmp_path, *needs))
    assert findings.numbers == ["base in gymnasium:A: 3.5 (5.0, 2.0)"]
    assert [(row["seed"], row["round"], row["mean"]) for row in findings.table] == [
        (0, 2, 5.0),
        (1, 2, 2.0),
    ]
    assert findings.draw("a title").get_size_inches()[0] > 4


def test_last_tests_after_different_rounds_are_not_compared(tmp_path):
    for seed, values in ((0, (1.0, 5.0)), (1, (9.0, np.nan))):
        kept.run(tmp_path / str(seed), "metagenrl_small", seed, rows=0)
        metrics = MetricsFile(tmp_path / str(seed) / "metrics.csv")
        for number, value in enumerate(values):
            metrics.append({"epoch": number + 1, "validation_return/gymnasium:A": value})
    needs = [RunNeed("metagenrl_small", seed, label="base") for seed in (0, 1)]
    with pytest.raises(RecordError, match="after round 1, that of the first run after round 2"):
        tables.last_tests_table(found_for(tmp_path, *needs))


def test_a_run_without_tests_is_named(tmp_path):
    kept.run(tmp_path / "bare", "metagenrl_small", 0)
    with pytest.raises(RecordError, match=r"bare: .*config\.validation\.period=0"):
        tables.last_tests_table(found_for(tmp_path, RunNeed("metagenrl_small", label="base")))


def test_ablations_of_objectives_change_one_thing_each():
    needs = declaration("own.ablations").needs["laptop"]
    base = {**flat(wanted(needs[0].config, needs[0].changes))}
    changed = {}
    for need in needs:
        mine = flat(wanted(need.config, need.changes))
        changed.setdefault(need.label, []).append({n for n in mine if mine[n] != base[n]})
    assert changed.pop("base") == [set(), set()]
    assert {len(names) for pair in changed.values() for names in pair} == {1}
    assert len(changed) == 8 and base["steps_per_agent"] == 16_000


def test_table_1_is_the_papers():
    findings = tables.settings_table(Found("paper"))
    numbers = [tuple(row.values())[1:] for row in findings.table]
    assert numbers == [
        (256, 64, 64, 128, 8192),
        (256, 64, 128, 256, 32768),
        (256, 64, 128, 512, 65536),
        (256, 64, 64, 128, 8192),
        (256, 64, 32, 256, 8192),
        (256, 64, 32, 512, 16384),
        (256, 64, 32, 256, 8192),
    ]


def test_the_cost_of_the_first_versions_reacher_is_196_million_env_steps():
    needs = [(LossNeed(HOPPER, "hopper"), FoundLoss("random_hopper", "random_hopper"))]
    findings = cost_table.meta_training_cost(Found("paper", losses=needs))
    steps = {row["protocol"]: row["sequential_env_steps"] for row in findings.table}
    assert steps["RandomReacher, first version"] == 196_608_000
    assert steps["RandomReacher"] == 327_680_000
    measured = {row["protocol"]: row["env_steps"] for row in findings.table if row["measured"]}
    assert measured == {"ours: hopper": 18_916_387}


def test_means_have_intervals_where_there_are_several():
    assert mean_with_interval(np.array([2.0])) == "2.00"
    assert mean_with_interval(np.array([1.0, 3.0, np.nan])) == "2.00 [-10.71, 14.71] (2 of 3 known)"
    assert mean_with_interval(np.array([])) == "unknown"


def ready(folder, name="epg.fig5"):
    with open_library([folder]) as library:
        return status_of(declaration(name), "laptop", library, folder)


def test_a_figure_leaves_picture_data_and_caption(tmp_path):
    kept.test(tmp_path / "test", "random_hopper:laptop")
    numbers = make_figure(ready(tmp_path), tmp_path / "figure")
    folder = tmp_path / "figure"
    assert sorted(path.name for path in folder.iterdir()) == sorted(output.OWN)
    assert Image.open(folder / "figure.png").size[0] == 900
    assert (folder / "figure.svg").read_text().startswith("<?xml")
    with open(folder / "data.csv", newline="") as stream:
        rows = list(csv.DictReader(stream))
    assert len(rows) == 48
    assert {row["method"] for row in rows} == {"epg", "ppo", "ppo_as_epg"}
    caption = (folder / "caption.md").read_text()
    assert all(f"- {line}\n" in caption for line in numbers)
    assert "EPG, Figure 5, at the scale laptop" in caption
    assert f"test {tmp_path}/test: a loss" in caption
    assert re.search(r"seed of meta-training 0, seed of the tasks 7", caption)


def test_the_same_results_give_the_same_files(tmp_path):
    kept.test(tmp_path / "test", "random_hopper:laptop")
    for name in ("a", "b"):
        make_figure(ready(tmp_path), tmp_path / name)
    for name in output.OWN:
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes(), name


def test_captions_say_how_a_run_differs_and_what_is_not_there(tmp_path):
    changes = (("evolution.epochs", 7),)
    kept.run(tmp_path / "run", "random_hopper:laptop", changes=changes)
    make_figure(ready(tmp_path, "epg.fig20"), tmp_path / "figure")
    caption = (tmp_path / "figure" / "caption.md").read_text()
    assert "random_hopper:laptop, seed 0, 3 epochs; other than there: evolution.epochs=7" in caption
    assert "Not there yet:" in caption
    assert "- the run of fetch:laptop, seed 0\n" in caption


def test_a_folder_in_use_is_refused_before_anything_is_written(tmp_path):
    kept.test(tmp_path / "test", "random_hopper:laptop")
    folder = tmp_path / "figure"
    folder.mkdir()
    (folder / "mine.txt").write_text("mine")
    with pytest.raises(RecordError, match="not empty"):
        make_figure(ready(tmp_path), folder)
    assert [path.name for path in folder.iterdir()] == ["mine.txt"]
    make_figure(ready(tmp_path), folder, overwrite=True)
    assert len(list(folder.iterdir())) == 5


def test_a_damaged_table_leaves_the_earlier_figure(tmp_path):
    kept.test(tmp_path / "test", "random_hopper:laptop")
    make_figure(ready(tmp_path), tmp_path / "figure")
    status = ready(tmp_path)
    (tmp_path / "test" / "curves.csv").write_text("a,b\n")
    before = (tmp_path / "figure" / "figure.png").read_bytes()
    with pytest.raises(RecordError, match=r"curves\.csv"):
        make_figure(status, tmp_path / "figure", overwrite=True)
    assert (tmp_path / "figure" / "figure.png").read_bytes() == before


def test_what_is_not_ready_is_not_made(tmp_path):
    status = dataclasses.replace(ready(tmp_path), state="missing")
    with pytest.raises(ValueError, match=r"epg\.fig5 is missing"):
        make_figure(status, tmp_path / "figure")


def test_a_wrong_name_gets_a_guess():
    with pytest.raises(ConfigError, match=r"name='epg\.figg5' is no figure; did you mean epg\.fig"):
        declaration("epg.figg5")
