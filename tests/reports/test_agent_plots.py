"""Tests epg_tf.reports.agent_plots: pictures that are made from the table of results."""

from __future__ import annotations

import html

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg

from epg_tf.baselines.method import LABELS, LossName
from epg_tf.evaluation.results import Results
from epg_tf.reports.agent_plots import learning_figure
from epg_tf.reports.plots import COLOURS, svg
from tests.evaluation.tables import NAN, table

NAMES = list(LABELS)


pytestmark = pytest.mark.filterwarnings("error")


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


def test_kl_gives_a_second_panel_and_five_dotted_lives():
    results = Results.join([lives("epg"), lives("ppo", agents=3, seed=1)])
    figure = learning_figure(results, "RandomHopper")
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
    top, bottom = learning_figure(results, "RandomHopper", levels=["rl2"]).axes
    above = [line.get_color() for line in top.lines if line.get_linestyle() == "-"]
    below = [line.get_color() for line in bottom.lines]
    assert len({*above}) == 3 and len(below) == 2 and below == [above[0], above[2]]


@pytest.mark.parametrize("methods", [1, 6, 15])
@pytest.mark.parametrize("measured", [True, False])
def test_head_stays_clear_of_the_data_and_inside_the_picture(methods, measured):
    make = lives if measured else (lambda name: evaluations(name, 1.0, 2.0, 3.0))
    results = Results.join([make(name) for name in NAMES[:methods]])
    figure = learning_figure(results, "gymnasium:LunarLanderContinuous-v3")
    renderer = FigureCanvasAgg(figure).get_renderer()
    legend = figure.legends[0].get_window_extent(renderer)
    top = figure.axes[0].get_window_extent(renderer)
    assert legend.y0 > top.y1 and legend.x1 <= 900
    title, note = (text.get_window_extent(renderer) for text in figure.texts)
    assert title.y0 > legend.y1 and legend.y0 > note.y1 and note.y0 > top.y1
    assert title.x1 <= 900 and note.x1 <= 900


@pytest.mark.parametrize("agents, updates", [(1, 3), (6, 1)])
def test_small_and_empty_tables_are_drawn(agents, updates):
    nothing = np.full((agents, updates), NAN)
    tables = [
        lives("epg", agents=agents, updates=updates),
        table("epg", nothing[:, 0], nothing),
        Results.join(
            [table(name, nothing[:, 0], nothing, explores=name == "ppo") for name in NAMES]
        ),
        Results.join([]),
    ]
    for results in tables:
        assert svg(learning_figure(results, "T")).startswith(b"<?xml")


def test_exploring_curves_among_others_are_dashed_and_end_in_a_diamond():
    ppo = table("ppo", [3.0, 5.0], [[NAN, 5.0, NAN, 6.0, 7.0]] * 2)
    mixed = learning_figure(Results.join([evaluations("td3", 1.0, 2.0, 3.0), ppo]), "T")
    lines = mixed.axes[0].lines
    assert [line.get_linestyle() for line in lines] == ["-", "--", "None", "None"]
    dots = [line.get_xydata().tolist() for line in lines if line.get_marker() == "o"]
    assert dots == [[[20.0, 5.0]]]  # a point without neighbours
    diamonds = [line.get_xydata().tolist() for line in lines if line.get_marker() == "D"]
    assert diamonds == [[[50.0, 4.0]]]
    assert "dashed: with exploration" in mixed.texts[-1].get_text()
    alone = learning_figure(ppo, "T")
    assert [line.get_linestyle() for line in alone.axes[0].lines] == ["-", "None"]
    assert "dashed" not in alone.texts[-1].get_text()


def test_runs_share_a_line_where_there_are_many():
    names = [f"{method} {number}" for method in ("epg", "ppo") for number in range(7)]
    losses = [
        table(method, [float(number)] * 2, [[float(number)] * 3] * 2, loss=LossName(number))
        for method, _, number in (name.partition(" ") for name in names)
    ]
    few, many = (learning_figure(Results.join(losses[:count]), "T") for count in (11, 14))
    assert (len(few.legends[0].texts), len(many.legends[0].texts)) == (11, 2)
    lines = [line for line in many.axes[0].lines if len(line.get_xdata()) == 3]
    assert [line.get_ydata().tolist() for line in lines] == [[3.0] * 3] * 2


def test_maml_ends_in_a_diamond_because_it_adapts_after_its_curve():
    tables = [table(name, [5.0, 7.0], [[1.0], [2.0]]) for name in ("epg", "maml")]
    figure = learning_figure(Results.join(tables), "T")
    diamonds = [line for line in figure.axes[0].lines if line.get_marker() == "D"]
    assert [line.get_xydata().tolist() for line in diamonds] == [[[10.0, 6.0]]]
    assert diamonds[0].get_color() == COLOURS[1]
    assert "diamond: final policy" in figure.texts[-1].get_text()


@pytest.mark.parametrize(("points", "scale"), [(5, "linear"), (6, "log")])
def test_lives_of_very_different_lengths_have_a_logarithmic_axis(points, scale):
    tables = [table("epg", [1.0], [[1.0]]), table("maml10", [1.0], [[1.0] * points])]
    assert learning_figure(Results.join(tables), "T").axes[0].get_xscale() == scale


@pytest.mark.parametrize(("peak", "scale"), [(99.0, "linear"), (101.0, "log")])
def test_kl_of_very_different_sizes_has_a_logarithmic_axis(peak, scale):
    kls = {"epg": [0.5, 1.0], "ppo": [1.0, 0.0], "random_loss": [0.0, peak]}
    tables = [table(name, [1.0], [[1.0, 2.0]], kl=[kl]) for name, kl in kls.items()]
    bottom = learning_figure(Results.join(tables), "T").axes[1]
    assert bottom.get_yscale() == scale and bottom.get_ylim()[1] > peak
    assert bottom.get_ylim()[0] == {"linear": 0.0, "log": 1e-4}[scale]


def test_a_star_is_where_a_rival_matches_the_learned_loss():
    learned = table("epg", [2.0, 4.0], [[1.0, 2.0]] * 2, loss=LossName("a"))
    baselines = [
        table("ppo", [9.0] * 2, [[1.0, 5.0]] * 2),
        table("sac", [0.0] * 2, [[1.0, 2.0]] * 2),
    ]
    figure = learning_figure(Results.join([learned, *baselines]), "T")
    lines = figure.axes[0].lines
    stars = [line for line in lines if line.get_marker() == "*"]
    assert [line.get_xydata().tolist() for line in stars] == [[[20.0, 3.0]]]
    assert stars[0].get_color() == COLOURS[1]
    level = [line for line in lines if set(line.get_ydata()) == {3.0} and line not in stars]
    assert len(level) == 1 and "star: matches" in figure.texts[-1].get_text()


def test_names_are_drawn_as_they_are():
    """Not as the formula that dollars are around, which could have an error."""
    name = r"$\frac{$ <b> 5$"
    results = table("epg", [1.0, 2.0], [[1.0]] * 2, loss=LossName(name))
    other = table("epg", [1.0, 2.0], [[1.0]] * 2, loss=LossName("b"))
    text = svg(learning_figure(Results.join([results, other]), name)).decode()
    assert text.count(html.escape(name, quote=False)) >= 2
