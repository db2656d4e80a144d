"""Tests epg_tf.reports.html_page: one file, which fetches nothing and runs nothing foreign."""

from __future__ import annotations

import html
from html.parser import HTMLParser

import numpy as np
import plotly.graph_objects as go
import pytest

from epg_tf.reports import charts, html_page
from epg_tf.reports.html_page import Chart, Code, Fold, Picture, Section, Table, Text

EVIL = "</script></code><script>window.evil = 1</script><img src=x onerror=evil()>"
BLOCKS = [
    Text(EVIL),
    Text("small", note=True),
    Code(EVIL),
    Table((EVIL, "b"), [(EVIL, "2")], numbers=True),
    Chart(EVIL, charts.chart([charts.View(EVIL, EVIL, EVIL, [go.Scatter(x=[1], y=[2])])])),
    Picture(b"\x89PNG", EVIL + '"'),
    Fold(EVIL, Code(EVIL)),
]


class Seen(HTMLParser):
    """Collects the tags of a page, its texts outside scripts, and the scripts."""

    def __init__(self, text: str):
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.scripts: list[str] = []
        self._inside = ""
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self._inside = tag
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        self._inside = ""

    def handle_data(self, data):
        (self.scripts if self._inside == "script" else self.texts).append(data)


@pytest.fixture(scope="module")
def seen() -> Seen:
    return Seen(html_page.page(EVIL, [Section(EVIL, BLOCKS)]))


def test_texts_are_shown_and_never_run(seen):
    """Plotly's library and one script for the chart are all the scripts there are."""
    scripts = [attributes for tag, attributes in seen.tags if tag == "script"]
    assert len(scripts) == len(seen.scripts) == 2
    assert "window.evil" in seen.scripts[1] and "<" not in seen.scripts[1].split("newPlot")[1]
    assert [tag for tag, _ in seen.tags].count("img") == 1
    assert seen.texts.count(EVIL) >= 8
    assert not any(name.startswith("on") for _, attributes in seen.tags for name in attributes)


def test_the_policy_lets_the_page_s_own_scripts_run_alone(seen):
    policy = next(
        attributes["content"]
        for tag, attributes in seen.tags
        if attributes.get("http-equiv") == "Content-Security-Policy"
    )
    nonces = {attributes["nonce"] for tag, attributes in seen.tags if tag == "script"}
    assert len(nonces) == 1 and f"script-src 'nonce-{nonces.pop()}'; " in policy
    assert policy.startswith("default-src 'none'; ")


def test_nothing_is_fetched(seen):
    for tag, attributes in seen.tags:
        assert tag not in ("link", "iframe", "object", "base")
        for name in ("src", "href", "srcset", "action"):
            assert attributes.get(name, "data:").startswith("data:"), (tag, attributes)
    assert "url(" not in "".join(seen.texts) and "@import" not in "".join(seen.texts)


def test_labels_in_charts_are_text(seen):
    """Plotly draws a part of HTML, so names are escaped once more for it."""
    figure = charts.chart(
        [
            charts.View("a", EVIL, EVIL, [charts.line(EVIL, np.arange(3.0), np.arange(3.0), 0)]),
            charts.View(EVIL, "x", "y", charts.intervals({EVIL: (1.0, 0.0, 2.0)}), True),
        ]
    )
    drawn = [trace.name for trace in figure.data] + [figure.data[1].y[0]]
    drawn += [figure.layout.xaxis.title.text, figure.layout.updatemenus[0].buttons[1].label]
    assert drawn == [html.escape(EVIL)] * len(drawn)


def test_a_page_is_recognised(tmp_path):
    (tmp_path / "page.html").write_text(html_page.page("a", []))
    (tmp_path / "other.html").write_text("<!DOCTYPE html>" + " " * 300 + html_page.MARK)
    assert html_page.is_page(tmp_path / "page.html")
    assert not html_page.is_page(tmp_path / "other.html")
    assert not html_page.is_page(tmp_path / "missing.html")
