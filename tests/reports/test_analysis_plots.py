"""Tests epg_tf.reports.analysis_plots: what is drawn is what was found."""

from __future__ import annotations

import functools

import numpy as np
import pytest

from epg_tf.reports import analysis_plots
from epg_tf.reports.plots import svg
from epg_tf.studies.gradient_correlation import GradientCorrelation
from epg_tf.studies.loss_sensitivity import LossSensitivity
from epg_tf.studies.policy_change import PolicyChange

NAN = float("nan")
CHANNELS = ("observation", "action", "termination", "policy_mean")


pytestmark = pytest.mark.filterwarnings("error")


def draws():
    generator = np.random.default_rng(0)
    return generator.exponential(size=(3, 8))


@functools.cache
def figures():
    """Returns name -> a picture of each kind, with failed lives, padding and zeros."""
    first, last = draws(), 2.0 * draws()
    last[2] = NAN
    norms = np.stack([draws() * factor for factor in (1.0, 2.0, 0.0, 3.0)])
    norms[3, :, 6:] = 0.0
    lived = np.arange(8) > 1
    spearman = np.clip(draws() - 1.0, -1.0, 1.0)
    spearman[1] = NAN
    correlation = GradientCorrelation(spearman, spearman / 2, spearman / 3, 9)
    return {
        "change": analysis_plots.policy_change_figure(PolicyChange(first, first, last), "T"),
        "sensitivity": analysis_plots.loss_sensitivity_figure(
            LossSensitivity(CHANNELS, norms, 4, lived), "T"
        ),
        "correlation": analysis_plots.gradient_correlation_figure(correlation, "T"),
    }


def test_pictures_are_drawn():
    for name, figure in figures().items():
        assert svg(figure).count(b"<path") > 20, name


def test_the_bold_life_has_the_median_spike():
    """Spikes of 2, 9 and 5 times the median."""
    lives = np.array([[1.0, 1.0, 2.0], [1.0, 1.0, 9.0], [1.0, 1.0, 5.0]])
    figure = analysis_plots.policy_change_figure(PolicyChange(lives, lives, lives), "T")
    for axes in figure.axes:
        *faint, bold = sorted(axes.lines, key=lambda line: line.get_linewidth())
        assert len(faint) == 3 and bold.get_ydata().tolist() == [1.0, 1.0, 5.0]
        assert axes.get_yscale() == "log"


def test_sensitivity_shows_lived_steps_alone():
    panels = figures()["sensitivity"].axes
    assert [axes.get_title(loc="left") for axes in panels if axes.axison] == [
        "observation",
        "action",
        "termination",
        "policy mean",
    ]
    mean, scored = panels[0].lines
    assert set(scored.get_xdata()) == {4}
    assert mean.get_xdata().tolist() == [2, 3, 4, 5, 6, 7]
    np.testing.assert_allclose(mean.get_ydata(), draws().mean(axis=0)[2:])
    assert np.isnan(panels[3].lines[0].get_ydata()[-2:]).all()
