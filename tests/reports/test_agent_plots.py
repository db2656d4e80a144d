"""Tests epg_tf.reports.agent_plots: pictures that are made from the table of results."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from matplotlib.image import imread

from epg_tf.baselines.method import LABELS, LossName
from epg_tf.evaluation.results import Results
from epg_tf.reports import agent_plots
from tests.evaluation.tables import NAN, table

NAMES = list(LABELS)


@pytest.fixture(autouse=True)
def no_warnings():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


@pytest.fixture
def drawn(monkeypatch):
    """Collects the figures a test draws."""
    figures = []
    write = agent_plots.write_png

    def keep(figure, path):
        figures.append(figure)
        write(figure, path)

    monkeypatch.setattr(agent_plots, "write_png", keep)
    return figures


def lives(name, agents=8, updates=20, seed=0) -> Results:
    """Returns random lives with KL, the first episodes unfinished."""
    generator = np.random.default_rng(seed)
    returns = generator.normal(size=(agents, updates)).cumsum(axis=1)
    returns[:, :2] = NAN
    if agents > 1:
        returns[0, :5] = NAN
    kl = generator.lognormal(size=(agents, updates))
    return table(name, np.zeros(agents), returns, kl=kl)


def evaluations(name, *means) -> Results:
    """Returns the evaluations of two agents."""
    return table(name, [1.0, 2.0], np.array([means, means]) + [[1.0], [-1.0]], explores=False)


def test_kl_gives_a_second_panel_and_five_dotted_lives(tmp_path, drawn):
    results = Results.join([lives("epg"), lives("ppo", agents=3, seed=1)])
    agent_plots.learning_curves(results, tmp_path / "a.png", "RandomHopper")
    image = imread(tmp_path / "a.png")
    assert image.shape[:2] == (700, 900) and image[..., :3].min() < 0.5 < image[..., :3].max()
    (figure,) = drawn
    top, bottom = figure.axes
    dotted = [line for line in top.lines if line.get_linestyle() == ":"]
    solid = [line for line in top.lines if line.get_linestyle() == "-"]
    assert (len(dotted), len(solid), len(top.collections)) == (5 + 3, 2, 2)
    steps, returns = results.select("epg").pivot()
    np.testing.assert_array_equal(solid[0].get_xdata(), steps)
    np.testing.assert_allclose(solid[0].get_ydata()[2:], np.nanmean(returns[:, 2:], axis=0))
    assert [line.get_xdata()[0] for line in bottom.lines] == [1, 1] and len(bottom.collections) == 2
    assert (top.get_xlabel(), bottom.get_xlabel()) == ("environment steps", "number of updates")
    shown = [text.get_text() for text in figure.legends[0].texts]
    assert shown == ["evolved loss (EPG)", "PPO"]
    assert len({line.get_color() for line in solid}) == 2


def test_a_method_has_one_colour_in_both_panels():
    """Also behind one that is a level, which has no line below."""
    names = ("epg", "rl2", "ppo")
    results = Results.join([lives(name, seed=seed) for seed, name in enumerate(names)])
    top, bottom = agent_plots.learning_figure(results, "RandomHopper", levels=["rl2"]).axes
    above = [line.get_color() for line in top.lines if line.get_linestyle() == "-"]
    below = [line.get_color() for line in bottom.lines]
    assert len({*above}) == 3 and len(below) == 2 and below == [above[0], above[2]]


@pytest.mark.parametrize("methods", [1, 6, 9, 15])
@pytest.mark.parametrize("measured", [True, False])
def test_head_stays_clear_of_the_data_and_inside_the_picture(tmp_path, drawn, methods, measured):
    make = lives if measured else (lambda name: evaluations(name, 1.0, 2.0, 3.0))
    results = Results.join([make(name) for name in NAMES[:methods]])
    agent_plots.learning_curves(results, tmp_path / "a.png", "gymnasium:LunarLanderContinuous-v3")
    figure = drawn[0]
    legend, top = figure.legends[0].get_window_extent(), figure.axes[0].get_window_extent()
    assert legend.y0 > top.y1 and legend.x1 <= 900
    for text in figure.texts:
        assert text.get_window_extent().x1 <= 900 and text.get_window_extent().y0 > top.y1


@pytest.mark.parametrize("agents, updates", [(1, 1), (1, 3), (6, 1)])
def test_small_and_empty_tables_are_drawn(tmp_path, agents, updates):
    nothing = np.full((agents, updates), NAN)
    tables = [
        lives("epg", agents=agents, updates=updates),
        table("epg", nothing[:, 0], nothing),
        table("td3", nothing[:, 0], nothing, explores=False),
        Results.join(
            [table(name, nothing[:, 0], nothing, explores=name == "ppo") for name in NAMES]
        ),
        Results.join([]),
    ]
    for number, results in enumerate(tables):
        agent_plots.learning_curves(results, tmp_path / f"{number}.png", "T")
        assert (tmp_path / f"{number}.png").read_bytes().startswith(b"\x89PNG")


def test_exploring_curves_among_others_are_dashed_and_end_in_a_diamond(tmp_path, drawn):
    ppo = table("ppo", [3.0, 5.0], [[NAN, 5.0, NAN, 6.0, 7.0]] * 2)
    mixed = Results.join([evaluations("td3", 1.0, 2.0, 3.0), ppo])
    agent_plots.learning_curves(mixed, tmp_path / "a.png", "T")
    lines = drawn[0].axes[0].lines
    assert [line.get_linestyle() for line in lines] == ["-", "--", "None", "None"]
    dots = [line.get_xydata().tolist() for line in lines if line.get_marker() == "o"]
    assert dots == [[[20.0, 5.0]]]  # a point without neighbours
    diamonds = [line.get_xydata().tolist() for line in lines if line.get_marker() == "D"]
    assert diamonds == [[[50.0, 4.0]]]
    assert "dashed: with exploration" in drawn[0].texts[-1].get_text()
    agent_plots.learning_curves(ppo, tmp_path / "b.png", "T")
    assert [line.get_linestyle() for line in drawn[1].axes[0].lines] == ["-", "None"]
    assert "dashed" not in drawn[1].texts[-1].get_text()


def test_runs_share_a_line_where_there_are_many(tmp_path, drawn):
    names = [f"{method} {number}" for method in ("epg", "ppo") for number in range(7)]
    losses = [
        table(method, [float(number)] * 2, [[float(number)] * 3] * 2, loss=LossName(number))
        for method, _, number in (name.partition(" ") for name in names)
    ]
    for number, count in enumerate((11, 14)):
        agent_plots.learning_curves(Results.join(losses[:count]), tmp_path / "a.png", "T")
        assert len(drawn[number].legends[0].texts) == {11: 11, 14: 2}[count]
    lines = [line for line in drawn[1].axes[0].lines if len(line.get_xdata()) == 3]
    assert [line.get_ydata().tolist() for line in lines] == [[3.0] * 3] * 2


def test_maml_ends_in_a_diamond_because_it_adapts_after_its_curve(tmp_path, drawn):
    tables = [table(name, [5.0, 7.0], [[1.0], [2.0]]) for name in ("epg", "maml")]
    agent_plots.learning_curves(Results.join(tables), tmp_path / "a.png", "T")
    diamonds = [line for line in drawn[0].axes[0].lines if line.get_marker() == "D"]
    assert [line.get_xydata().tolist() for line in diamonds] == [[[10.0, 6.0]]]
    assert diamonds[0].get_color() == agent_plots.COLOURS[1]
    assert "diamond: final policy" in drawn[0].texts[-1].get_text()
    assert "dashed" not in drawn[0].texts[-1].get_text()


def test_lives_of_very_different_lengths_have_a_logarithmic_axis(tmp_path, drawn):
    for number, (points, scale) in enumerate([(5, "linear"), (6, "log")]):
        tables = [table("epg", [1.0], [[1.0]]), table("maml10", [1.0], [[1.0] * points])]
        agent_plots.learning_curves(Results.join(tables), tmp_path / "a.png", "T")
        assert drawn[number].axes[0].get_xscale() == scale


def test_kl_of_very_different_sizes_has_a_logarithmic_axis(tmp_path, drawn):
    for number, (peak, scale) in enumerate([(99.0, "linear"), (101.0, "log")]):
        kls = {"epg": [0.5, 1.0], "ppo": [1.0, 0.0], "random_loss": [0.0, peak]}
        tables = [table(name, [1.0], [[1.0, 2.0]], kl=[kl]) for name, kl in kls.items()]
        agent_plots.learning_curves(Results.join(tables), tmp_path / "a.png", "T")
        bottom = drawn[number].axes[1]
        assert bottom.get_yscale() == scale and bottom.get_ylim()[1] > peak
        assert bottom.get_ylim()[0] == {"linear": 0.0, "log": 1e-4}[scale]


def test_a_star_is_where_a_rival_matches_the_learned_loss(tmp_path, drawn):
    learned = table("epg", [2.0, 4.0], [[1.0, 2.0]] * 2, loss=LossName("a"))
    rivals = [table("ppo", [9.0] * 2, [[1.0, 5.0]] * 2), table("sac", [0.0] * 2, [[1.0, 2.0]] * 2)]
    agent_plots.learning_curves(Results.join([learned, *rivals]), tmp_path / "a.png", "T")
    lines = drawn[0].axes[0].lines
    stars = [line for line in lines if line.get_marker() == "*"]
    assert [line.get_xydata().tolist() for line in stars] == [[[20.0, 3.0]]]
    assert stars[0].get_color() == agent_plots.COLOURS[1]
    level = [line for line in lines if set(line.get_ydata()) == {3.0} and line not in stars]
    assert len(level) == 1 and "star: matches" in drawn[0].texts[-1].get_text()


def test_a_single_evaluation_is_a_dot(tmp_path, drawn):
    agent_plots.learning_curves(evaluations("td3", 1.0), tmp_path / "a.png", "T")
    assert drawn[0].axes[0].lines[1].get_xydata().tolist() == [[10.0, 1.0]]


def test_the_grid_has_a_panel_per_objective(tmp_path, drawn):
    parts = [
        table("objective", [0.0], [[value, value + 1]], explores=False, loss=LossName(name))
        for name, value in (("round_0", 1.0), ("round_1", 5.0))
    ]
    titles = {"round_0": "after 0", "round_1": "after 10"}
    agent_plots.objective_grid(Results.join(parts), titles, tmp_path / "a.png", "T")
    panels = drawn[0].axes
    assert [axes.get_title() for axes in panels] == ["after 0", "after 10"]
    assert [axes.lines[0].get_ydata().tolist() for axes in panels] == [[1.0, 2.0], [5.0, 6.0]]
