"""Draws the analyses of learned losses: policy change, sensitivity, gradients, dips of the return.

Each function returns a figure, to be written in whatever format is needed.
"""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from epg_tf.core.types import Array
from epg_tf.reports.panels import Curves, agent_panels, grid
from epg_tf.reports.plots import FAINT, INK
from epg_tf.studies.gradient_correlation import GradientCorrelation
from epg_tf.studies.loss_sensitivity import LossSensitivity
from epg_tf.studies.policy_change import STAGES, PolicyChange, per_life

STAGE_TITLES = {
    "random": "random weights",
    "first": "before evolution",
    "last": "evolved",
}
"""How pictures and captions call the losses of `PolicyChange`."""

_PAPER = 0.5  # Spearman's correlation that the papers name
_MEASURES = {
    "spearman": "learned loss and PPO, Spearman",
    "cosine": "learned loss and PPO, cosine",
    "ppo_halves": "PPO on two halves of the batch, Spearman",
}


def policy_change_figure(found: PolicyChange, title: str) -> Figure:
    """Draws the KL divergence of every update under a random loss, and before and after evolution
    (EPG, Figure 16); bold is the life whose spike is the median.

    Args:
      found: At least one life has not failed.
    """

    def draw(axes: Axes, curves: Curves, colour: str) -> None:
        axes.plot(curves.x, curves.values.T, color=FAINT, linewidth=0.6, alpha=0.35, zorder=1)
        if len(curves.values):
            order = np.argsort(per_life(curves.values)["spike"])
            bold = curves.values[order[len(order) // 2]]
            axes.plot(curves.x, bold, color=colour, linewidth=1.8, zorder=3)
        axes.set_yscale("log", nonpositive="mask")

    panels = {}
    for stage in STAGES:
        lives = getattr(found, stage)
        lives = lives[np.isfinite(lives).all(axis=1)]
        panels[STAGE_TITLES[stage]] = {"": Curves(np.arange(1, lives.shape[1] + 1), lives)}
    labels = ("number of updates", "KL per update (nats)")
    return grid(panels, title, draw, labels, True, "bold: life whose spike is the median")


def loss_sensitivity_figure(found: LossSensitivity, title: str) -> Figure:
    """Draws how the loss of one step, at a dashed line, depends on each input at each step (EPG,
    Figure 21): mean and middle half over lives.
    """
    steps = np.flatnonzero(found.lived)
    panels = {
        channel.replace("_", " "): {"": Curves(steps, _positive(norms[:, steps]))}
        for channel, norms in zip(found.channels, found.norms, strict=True)
    }
    labels = ("step of the buffer", "norm of the gradient")
    figure = agent_panels(panels, title, labels, marks=[found.step])
    for axes, norms in zip(figure.axes, found.norms, strict=False):
        if (norms[:, steps] > 0.0).any():
            axes.set_yscale("log")
    return figure


def gradient_correlation_figure(found: GradientCorrelation, title: str) -> Figure:
    """Draws how the gradient of the learned loss goes with PPO's, update by update (EPG, section
    4.1), and the papers' correlation of about 0.5 as a grey line.
    """
    updates = np.arange(1, found.spearman.shape[1] + 1)
    curves = {text: Curves(updates, getattr(found, name)) for name, text in _MEASURES.items()}
    labels = ("number of updates", "correlation of gradients")
    figure = agent_panels({"grey line: the papers' 0.5": curves}, title, labels)
    figure.axes[0].axhline(0.0, color=INK, linewidth=0.9, zorder=1)
    figure.axes[0].axhline(_PAPER, color=FAINT, linewidth=1.2, linestyle=(0, (5, 3)), zorder=1)
    return figure


def _positive(values: Array) -> Array:
    """Returns values with NaN where a logarithmic axis cannot show them."""
    return np.where(values > 0.0, values, np.nan)
