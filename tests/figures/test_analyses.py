"""Tests the numbers and tidy tables of analyses, and what a figure leaves in its folder."""

from __future__ import annotations

import csv
import dataclasses
import json

import numpy as np
import pytest
from PIL import Image

from epg_tf.core.errors import ConfigError, RecordError
from epg_tf.core.formatting import count
from epg_tf.figures import agent_analyses, run_analyses, tables
from epg_tf.figures.catalogue import declaration
from epg_tf.figures.declaration import Match, Run, Test
from epg_tf.figures.output import make_figure
from epg_tf.figures.sources import status_of
from epg_tf.figures.tidy import mean_with_interval
from epg_tf.runs.config_files import load_experiment
from epg_tf.runs.metrics import MetricsFile
from tests.figures import kept

HOPPER = Run("hopper", "random_hopper:laptop")
TEST = Test("test", (HOPPER,))
MEAN_RETURN = run_analyses.evolution_curves(("fitness_mean", "mean return"))


def of_tests(folder, *labels) -> Match:
    """Returns what is found where there is one test, or one in a folder of each label."""
    if not labels:
        return Match("laptop", [(TEST, folder)])
    named = [(dataclasses.replace(TEST, label=label), folder / label) for label in labels]
    return Match("laptop", named)


def of_runs(folder, *seeds, label="Hopper") -> Match:
    runs = [dataclasses.replace(HOPPER, seed=seed, label=label) for seed in seeds]
    return Match("laptop", [(run, folder / str(run.seed)) for run in runs])


def test_learning_curves_keep_the_methods_that_are_asked_for(tmp_path):
    made = kept.test(tmp_path / "test", ("sac", "ppo", "ppo_as_epg"))
    analysis = agent_analyses.learning_curves(("ppo_as_epg", "ppo"), levels=("ppo",))
    findings = analysis(of_tests(made))
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


def test_several_seeds_share_a_colour_and_each_label_has_its_panel(tmp_path):
    losses = {"first": kept.FINAL, "second": kept.FINAL}
    kept.test(tmp_path / "seen: ours", ("ppo",), learned="objective", losses=losses)
    kept.test(tmp_path / "other: ours", (), learned="objective")
    found = of_tests(tmp_path, "seen: ours", "other: ours")
    findings = agent_analyses.side_by_side(("ppo",))(found)
    figure = findings.draw("title")
    assert [axes.get_title(loc="left") for axes in figure.axes] == ["seen", "other"]
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["ours", "PPO"]
    assert len(findings.table) == (3 + 1) * 4 * 4
    assert {row["loss_seed"] for row in findings.table if row["method"] == "objective"} == {0, 1}


def test_the_life_of_evolution_is_marked(tmp_path):
    kept.test(tmp_path / "A: a")
    analysis = agent_analyses.side_by_side((), mark_training=True)
    (axes,) = analysis(of_tests(tmp_path, "A: a")).draw("title").axes
    assert [line.get_xdata()[0] for line in axes.lines if len(set(line.get_xdata())) == 1] == [2048]


def test_single_lives_are_spread_from_the_lowest_to_the_highest(tmp_path):
    made = kept.test(tmp_path / "test", losses={"a": [4.0, 9.0, float("nan"), 7.0]})
    findings = agent_analyses.single_lives(of_tests(made))
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
    made = kept.test(tmp_path / "test", losses={"a": [4.0, 6.0, -5.0, 7.0]})
    findings = agent_analyses.compared_lives(("ppo",))(of_tests(made))
    # Curves of agents 0 and 2 have a value below zero; agent 2 ends below.
    assert (
        "evolved loss (EPG): 1 of 4 agents dip below zero and end above, a share of 0.25 "
        "[0.05, 0.70]"
    ) in findings.numbers


def test_runs_of_several_seeds_have_mean_and_deviation_where_all_have_values(tmp_path):
    for seed, rows in ((0, 2), (1, 3)):
        kept.run(tmp_path / f"{seed}", seed, rows=rows)
    findings = MEAN_RETURN(of_runs(tmp_path, 0, 1))
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
    corners = axes.collections[0].get_paths()[0].vertices
    half = np.std([0, 10], ddof=1)  # of every epoch: seed 1 is 10 above seed 0
    at_first = corners[corners[:, 0] == 1][:, 1]
    assert at_first.min() == pytest.approx(5 - half) and at_first.max() == pytest.approx(5 + half)


def test_rows_are_of_the_epoch_that_they_state(tmp_path):
    path = kept.run(tmp_path / "0", rows=4) / "metrics.csv"
    header, one, *others = path.read_text().splitlines(keepends=True)
    path.write_text("".join([header, *others]))
    (row, *_) = MEAN_RETURN(of_runs(tmp_path, 0)).table
    assert (row["epoch"], row["value"]) == (2, 1.0)
    path.write_text("".join([header, "," + one.partition(",")[2], *others]))
    with pytest.raises(RecordError, match="0: row 1 of metrics.csv states no epoch; restore it"):
        MEAN_RETURN(of_runs(tmp_path, 0))


def test_epochs_without_a_value_leave_no_gap(tmp_path):
    """Validation is not in every epoch."""
    (tmp_path / "0").mkdir()
    metrics = MetricsFile(tmp_path / "0" / "metrics.csv")
    for epoch, value in ((1, np.nan), (2, 3.0), (3, np.nan), (4, 5.0)):
        metrics.append({"epoch": epoch, "fitness_mean": value})
    (axes,) = MEAN_RETURN(of_runs(tmp_path, 0)).draw("title").axes
    np.testing.assert_array_equal(axes.lines[-1].get_xydata(), [[2.0, 3.0], [4.0, 5.0]])


def test_runs_without_a_value_to_draw_are_named(tmp_path):
    kept.run(tmp_path / "0")
    with pytest.raises(RecordError, match=r"0: metrics.csv has no value of no_column; make"):
        run_analyses.evolution_curves(("no_column", "nothing"))(of_runs(tmp_path, 0))


def test_ants_without_resets_have_their_targets_and_ppo_beside_them(tmp_path):
    figure = declaration("epg.fig19")
    ants, test = figure.sources["laptop"]
    run = ants, kept.run(tmp_path / "run")
    alone = figure.analysis(Match("laptop", [run]))
    assert {row["column"] for row in alone.table} == {"fitness_mean", "goals_reached"}
    targets = [row["value"] for row in alone.table if row["column"] == "goals_reached"]
    assert targets == [0.0, 2.0, 4.0] and not any("PPO" in line for line in alone.numbers)
    beside = figure.analysis(Match("laptop", [run, (test, kept.test(tmp_path / "test"))]))
    assert beside.numbers[-1] == (
        "GoalAnt without resets: PPO (M as EPG) ends at 1.12 [-0.23, 2.48]"
    )
    (axes,) = beside.draw("title").axes
    assert [line.get_ydata()[0] for line in axes.lines if line.get_linestyle() == "--"] == [1.125]


def test_objectives_along_meta_training_have_a_panel_each(tmp_path):
    """Panels are in the order of the rounds, and say how many env steps these are."""
    losses = {"round_2": [1.0] * 4, "round_16": [7.0] * 4}
    made = kept.test(tmp_path / "progress", (), learned="objective", losses=losses)
    figure = declaration("metagenrl.fig4")
    (source,) = figure.sources["laptop"]
    findings = figure.analysis(Match("laptop", [(source, made)]))
    steps = load_experiment("metagenrl_laptop").round_steps
    titles = [axes.get_title(loc="left") for axes in findings.draw("title").axes]
    assert titles == [f"after {count(n * steps)} env steps per agent" for n in (2, 16)]
    for name, mean in (("round_2", "1.00"), ("round_16", "7.00")):
        assert any(f"{name}: mean final return {mean}" in line for line in findings.numbers)


def test_the_two_lowest_seeds_are_left_out(tmp_path):
    losses = {f"loss {final}": [final] * 4 for final in (1.0, 9.0, 5.0, 8.0)}
    made = kept.test(tmp_path / "test", (), learned="objective", losses=losses)
    findings = run_analyses.without_worst(of_tests(made))
    deviations = np.std([1, 9, 5, 8], ddof=1), np.std([9, 8], ddof=1)
    assert findings.numbers[-1] == (
        f"standard deviation over seeds: {deviations[0]:.2f} with all, {deviations[1]:.2f} without "
        "the 2 lowest"
    )


def test_a_table_has_objectives_first_and_baselines_where_they_are_declared(tmp_path):
    """Cells are means over seeds of meta-training; of one evaluation over its agents."""
    losses = {"a": [1.0] * 4, "b": [3.0] * 4}
    kept.test(tmp_path / "set: PointGoal", ("ppo",), learned="objective", losses=losses)
    kept.test(tmp_path / "other: PointGoal", ("ppo",), learned="objective")
    found = of_tests(tmp_path, "set: PointGoal", "other: PointGoal")
    (_, (test, path)) = found.sources
    alone = dataclasses.replace(test, compare=())
    findings = tables.returns_table(Match("laptop", [found.sources[0], (alone, path)]))
    assert findings.numbers[0] == "MetaGenRL, set in PointGoal: 2.00 [-10.71, 14.71]"
    assert findings.numbers[1].startswith("MetaGenRL, other in PointGoal: 5.50 [")
    assert findings.numbers[2].startswith("PPO in PointGoal: 1.12 [")
    assert [row["mean"] for row in findings.table] == [1.0, 3.0, 1.125, 5.5]
    assert [row["seed"] for row in findings.table] == [0, 1, 0, 0]
    summary = json.loads((path / "summary.json").read_text())
    del summary["objective"]
    (path / "summary.json").write_text(json.dumps(summary))
    with pytest.raises(RecordError, match=r"other: PointGoal/summary\.json: it has no row of obj"):
        tables.returns_table(found)


def test_table_1_is_the_papers():
    findings = tables.settings_table(Match("paper"))
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


def test_means_have_intervals_where_there_are_several():
    assert mean_with_interval(np.array([2.0])) == "2.00"
    assert mean_with_interval(np.array([1.0, 3.0, np.nan])) == "2.00 [-10.71, 14.71] (2 of 3 known)"
    assert mean_with_interval(np.array([])) == "unknown"


def ready(folder):
    """Makes what Figure 5 reads, and returns its status."""
    kept.test(folder / "tests" / "random_hopper-laptop")
    return status_of(declaration("epg.fig5"), "laptop", [folder])


def test_a_figure_leaves_the_same_picture_data_and_caption_each_time(tmp_path):
    status = ready(tmp_path)
    numbers = make_figure(status, tmp_path / "figure")
    make_figure(status, tmp_path / "again")
    folder = tmp_path / "figure"
    names = sorted(path.name for path in folder.iterdir())
    assert names == ["caption.md", "data.csv", "figure.png", "figure.svg"]
    for name in names:
        assert (folder / name).read_bytes() == (tmp_path / "again" / name).read_bytes(), name
    assert Image.open(folder / "figure.png").size[0] == 900
    assert (folder / "figure.svg").read_text().startswith("<?xml")
    with open(folder / "data.csv", newline="") as stream:
        rows = list(csv.DictReader(stream))
    assert len(rows) == 48
    assert {row["method"] for row in rows} == {"epg", "ppo", "ppo_as_epg"}
    caption = (folder / "caption.md").read_text()
    assert all(f"- {line}\n" in caption for line in numbers)
    assert "- tests/random_hopper-laptop: random_hopper:laptop, seed 0\n" in caption


def test_a_folder_in_use_is_refused_before_anything_is_written(tmp_path):
    folder = tmp_path / "figure"
    folder.mkdir()
    (folder / "mine.txt").write_text("mine")
    status = ready(tmp_path)
    with pytest.raises(RecordError, match="not empty"):
        make_figure(status, folder)
    assert [path.name for path in folder.iterdir()] == ["mine.txt"]
    make_figure(status, folder, overwrite=True)
    assert len(list(folder.iterdir())) == 5


def test_a_damaged_table_leaves_the_earlier_figure(tmp_path):
    status = ready(tmp_path)
    make_figure(status, tmp_path / "figure")
    (tmp_path / "tests" / "random_hopper-laptop" / "curves.csv").write_text("a,b\n")
    before = (tmp_path / "figure" / "figure.png").read_bytes()
    with pytest.raises(RecordError, match=r"curves\.csv"):
        make_figure(status, tmp_path / "figure", overwrite=True)
    assert (tmp_path / "figure" / "figure.png").read_bytes() == before


def test_what_is_not_ready_is_not_made(tmp_path):
    status = dataclasses.replace(ready(tmp_path), ready=False)
    with pytest.raises(ValueError, match=r"epg\.fig5 is not ready"):
        make_figure(status, tmp_path / "figure")


def test_a_wrong_name_gets_a_guess():
    with pytest.raises(ConfigError, match=r"name='epg\.figg5' is no figure; did you mean epg\.fig"):
        declaration("epg.figg5")
