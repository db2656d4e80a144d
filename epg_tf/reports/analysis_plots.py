"""Draws the analyses of learned losses: policy change, sensitivity, gradients, dips of the return.

Each function returns a figure, to be written in whatever format is needed.
"""

from __future__ import annotations

import math

import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from epg_tf.core.types import Array
from epg_tf.evaluation.gradient_correlation import GradientCorrelation
from epg_tf.evaluation.loss_sensitivity import LossSensitivity
from epg_tf.evaluation.policy_change import STAGES, PolicyChange, per_life
from epg_tf.reports.plots import COLOURS, FAINT, INK, draw_statistics, dress, head

STAGE_TITLES = {
    "random": "random weights",
    "first": "before evolution",
    "last": "evolved",
}
"""How pictures and captions call the losses of `PolicyChange`."""

_COLUMNS = 3  # of panels
_PAPER = 0.5  # Spearman's correlation that the papers name
_MEASURES = {
    "spearman": "learned loss and PPO, Spearman",
    "cosine": "learned loss and PPO, cosine",
    "ppo_halves": "PPO on two halves of the batch, Spearman",
}


def policy_change_figure(found: PolicyChange, title: str) -> Figure:
    """Draws the KL divergence of every update under a random loss, and before and after evolution
    (EPG, Figure 16).

    Args:
      found: At least one life has not failed.
      title: Line above the panels.
    """
    figure = Figure(figsize=(9, 4.6), dpi=100, facecolor="white")
    left = figure.add_axes((0.085, 0.13, 0.28, 0.64))
    others = [
        figure.add_axes((0.085 + 0.305 * column, 0.13, 0.28, 0.64), sharey=left)
        for column in (1, 2)
    ]
    for axes, stage, colour in zip((left, *others), STAGES, COLOURS, strict=False):
        lives = getattr(found, stage)
        lives = lives[np.isfinite(lives).all(axis=1)]
        updates = np.arange(1, lives.shape[1] + 1)
        for life in lives:
            axes.plot(updates, _positive(life), color=FAINT, linewidth=0.6, alpha=0.35, zorder=1)
        if len(lives):
            shown = lives[_middle(per_life(lives)["spike"])]
            axes.plot(updates, _positive(shown), color=colour, linewidth=1.8, zorder=3)
        dress(axes, "number of updates", "KL per update (nats)" if axes is left else "")
        axes.set_title(STAGE_TITLES[stage], fontsize=11, color=INK)
    left.set_yscale("log")
    for axes in others:
        axes.tick_params(labelleft=False)
    handles = [
        Line2D([], [], color=INK, linewidth=2.6, label="bold: life whose spike is the median"),
        Line2D([], [], color=FAINT, linewidth=1, label="other lives"),
    ]
    head(figure, title, handles, 0.925)
    return figure


def loss_sensitivity_figure(found: LossSensitivity, title: str) -> Figure:
    """Draws how the loss of one step depends on each input at each step (EPG, Figure 21).

    Args:
      found: The norms.
      title: Line above the panels.
    """
    lines = math.ceil(len(found.channels) / _COLUMNS)
    height = 2.1 * lines + 1.35
    figure = Figure(figsize=(9, height), dpi=100, facecolor="white")
    grid = figure.subplots(lines, _COLUMNS, squeeze=False, sharex=True)
    steps = np.flatnonzero(found.lived)
    for axes in grid.flat[len(found.channels) :]:
        axes.set_axis_off()
    for axes, channel, norms in zip(grid.flat, found.channels, found.norms, strict=False):
        axes.axvline(found.step, color=FAINT, linewidth=0.9, linestyle=(0, (5, 3)), zorder=0)
        draw_statistics(axes, steps, _positive(norms[:, steps]), COLOURS[0])
        dress(axes, "", "")
        axes.set_yscale("log")
        axes.set_title(channel.replace("_", " "), fontsize=10, color=INK)
    for axes in grid.flat[max(0, len(found.channels) - _COLUMNS) : len(found.channels)]:
        axes.set_xlabel("step of the buffer", color=INK, fontsize=10)
        axes.tick_params(labelbottom=True)
    for axes in grid[:, 0]:
        axes.set_ylabel("norm of the gradient", color=INK, fontsize=10)
    figure.subplots_adjust(
        0.095, 0.55 / height, 0.985, 1.0 - 1.15 / height, wspace=0.28, hspace=0.38
    )
    handles = [
        Line2D([], [], color=COLOURS[0], linewidth=2.6, label="mean; band: middle half of lives"),
        Line2D(
            [], [], color=FAINT, linestyle=(0, (5, 3)), label=f"the scored step, t = {found.step}"
        ),
    ]
    head(figure, title, handles, 1.0 - 0.5 / height)
    return figure


def gradient_correlation_figure(found: GradientCorrelation, title: str) -> Figure:
    """Draws how the gradient of the learned loss goes with PPO's, update by update (EPG, section
    4.1).

    Args:
      found: The correlations.
      title: Line above the panel.
    """
    figure = Figure(figsize=(9, 5.4), dpi=100, facecolor="white")
    axes = figure.add_axes((0.095, 0.115, 0.875, 0.70))
    updates = np.arange(1, found.spearman.shape[1] + 1)
    handles = []
    for colour, (name, text) in zip(COLOURS, _MEASURES.items(), strict=False):
        draw_statistics(axes, updates, getattr(found, name), colour)
        handles.append(Line2D([], [], color=colour, linewidth=2.6, label=text))
    axes.axhline(0.0, color=INK, linewidth=0.9, zorder=1)
    axes.axhline(_PAPER, color=FAINT, linewidth=1.2, linestyle=(0, (5, 3)), zorder=1)
    axes.annotate(
        "the papers: about 0.5", (updates[-1], _PAPER), (0, 4), textcoords="offset points",
        ha="right", fontsize=9, color=FAINT,
    )  # fmt: skip
    dress(axes, "number of updates", "correlation of gradients")
    head(figure, title, handles, 0.937, 2)
    return figure


def _positive(values: Array) -> Array:
    """Returns values with NaN where a logarithmic axis cannot show them."""
    return np.where(values > 0.0, values, np.nan)


def _middle(values: Array) -> int:
    """Returns the number of the value in the middle of [L]."""
    return int(np.argsort(values)[len(values) // 2])
