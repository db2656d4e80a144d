"""What all charts of a page share: lines, bands, points with intervals, and a switch of views."""

from __future__ import annotations

import dataclasses
import html
from collections.abc import Mapping, Sequence

import numpy as np
import plotly.graph_objects as go

from epg_tf.core.types import Array
from epg_tf.reports.plots import COLOURS, FAINT, INK

_GRID = "#E6E6E6"


@dataclasses.dataclass(frozen=True)
class View:
    """One of the pictures that a chart can show.

    Attributes:
      name: In the menu.
      x_title: Below the horizontal axis.
      y_title: Beside the vertical axis.
      traces: What is drawn.
      categories: Whether the vertical axis lists names, the first on top.
    """

    name: str
    x_title: str
    y_title: str
    traces: Sequence[go.Scatter | go.Box]
    categories: bool = False


def chart(views: Sequence[View]) -> go.Figure:
    """Returns a figure that shows the first view, with a menu of all where there are several."""
    figure = go.Figure()
    for number, view in enumerate(views):
        for trace in view.traces:
            figure.add_trace(trace.update(visible=number == 0))
    figure.update_layout(
        template=go.layout.Template(),
        font={"family": "system-ui, sans-serif", "size": 13, "color": INK},
        paper_bgcolor="white",
        plot_bgcolor="white",
        margin={"l": 8, "r": 8, "t": 76, "b": 8},
        hovermode="closest",
        legend={"orientation": "h", "yref": "container", "y": 0, "yanchor": "bottom", "x": 0},
        updatemenus=[_menu(views)] if len(views) > 1 else [],
        **_axes(views[0]),
    )
    return figure


def _axes(view: View) -> dict[str, dict[str, object]]:
    axis = {"gridcolor": _GRID, "zeroline": False, "automargin": True}
    y = {**axis, "title": {"text": safe(view.y_title)}}
    if view.categories:
        y |= {"type": "category", "autorange": "reversed"}
    return {"xaxis": {**axis, "title": {"text": safe(view.x_title)}}, "yaxis": y}


def _menu(views: Sequence[View]) -> dict[str, object]:
    """Returns the menu; each of its entries shows the traces of a view alone."""
    owners = [number for number, view in enumerate(views) for _ in view.traces]
    buttons = [
        {
            "label": safe(view.name),
            "method": "update",
            "args": [
                {"visible": [owner == number for owner in owners]},
                {
                    "xaxis.title.text": safe(view.x_title),
                    "yaxis.title.text": safe(view.y_title),
                    "xaxis.autorange": True,
                    "yaxis.autorange": "reversed" if view.categories else True,
                    "yaxis.type": "category" if view.categories else "linear",
                },
            ],
        }
        for number, view in enumerate(views)
    ]
    place = {"x": 0, "xanchor": "left", "y": 1.02, "yanchor": "bottom"}
    return {"buttons": buttons, "bgcolor": "white", "bordercolor": "#BBBBBB", **place}


def safe(text: str) -> str:
    """Returns a text that Plotly draws as it is, not as the HTML it might be."""
    return html.escape(text)


def colour(number: int) -> str:
    """Returns the colour of the series of that number."""
    return COLOURS[number % len(COLOURS)]


def line(name: str, x: Array, y: Array, number: int, dashed: bool = False) -> go.Scatter:
    """Returns a line over the points that are known, with markers where they are few.

    Args:
      name: In the legend.
      x: [T].
      y: [T]; NaN is not drawn.
      number: Decides the colour.
      dashed: Whether the line is.
    """
    known = np.isfinite(y)
    return go.Scatter(
        name=safe(name),
        legendgroup=str(number),
        x=x[known],
        y=y[known],
        mode="lines+markers" if known.sum() <= 20 else "lines",
        line={"color": colour(number), "width": 2.2, "dash": "dash" if dashed else "solid"},
        marker={"size": 5},
    )


def band(x: Array, low: Array, high: Array, number: int) -> go.Scatter:
    """Returns the area between two lines; clicks on the line's name in the legend hide it, too."""
    known = np.isfinite(low) & np.isfinite(high)
    return go.Scatter(
        x=np.concatenate([x[known], x[known][::-1]]),
        y=np.concatenate([high[known], low[known][::-1]]),
        fill="toself",
        fillcolor=_pale(colour(number)),
        line={"width": 0},
        mode="lines",
        hoverinfo="skip",
        showlegend=False,
        legendgroup=str(number),
    )


def points(name: str, x: Array, y: Array, number: int) -> go.Scatter:
    """Returns single points; arguments as of `line`."""
    return go.Scatter(
        name=safe(name),
        legendgroup=str(number),
        x=x,
        y=y,
        mode="markers",
        marker={"color": colour(number), "size": 7, "opacity": 0.75},
    )


def intervals(rows: Mapping[str, tuple[float, float, float]]) -> list[go.Scatter]:
    """Returns a dot with its interval for each name: (middle, low, high); NaN is not drawn."""
    found = []
    for number, (name, (middle, low, high)) in enumerate(rows.items()):
        ends = np.isfinite(low) and np.isfinite(high)
        found.append(
            go.Scatter(
                name=safe(name),
                x=[middle if np.isfinite(middle) else None],
                y=[safe(name)],
                mode="markers",
                marker={"color": colour(number), "size": 11},
                error_x={
                    "type": "data",
                    "symmetric": False,
                    "array": [high - middle if ends else 0.0],
                    "arrayminus": [middle - low if ends else 0.0],
                    "color": colour(number),
                    "thickness": 2.4,
                    "width": 6,
                },
                showlegend=False,
            )
        )
    return found


def box(name: str, values: Array, number: int) -> go.Box:
    """Returns a lying box with every one of the [L] values as a point."""
    return go.Box(
        name=safe(name),
        x=values[np.isfinite(values)],
        boxpoints="all",
        jitter=0.5,
        pointpos=0,
        marker={"color": colour(number), "size": 4, "opacity": 0.6},
        line={"width": 1.5},
        fillcolor=_pale(colour(number)),
        orientation="h",
        showlegend=False,
    )


def level(name: str, height: float, ends: tuple[float, float]) -> go.Scatter:
    """Returns a grey dashed line at a height, between two places on the horizontal axis."""
    return go.Scatter(
        name=safe(name),
        x=list(ends),
        y=[height, height],
        mode="lines",
        line={"color": FAINT, "width": 1.5, "dash": "dash"},
    )


def _pale(colour: str) -> str:
    """Returns a colour, "#RRGGBB", that is transparent in part."""
    red, green, blue = (int(colour[place : place + 2], 16) for place in (1, 3, 5))
    return f"rgba({red},{green},{blue},0.18)"
