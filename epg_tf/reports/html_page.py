"""Writes a page as one HTML file that needs nothing else: no server, no network, no other file.

A page is sections of blocks. Every text is escaped, and the page's policy (Content-Security-Policy)
lets the browser run only the page's own scripts, and fetch nothing: names and settings come from
files that another person may have written.
"""

from __future__ import annotations

import base64
import dataclasses
import hashlib
from collections.abc import Sequence
from html import escape
from pathlib import Path

import plotly.graph_objects as go
import plotly.io
from plotly.offline import get_plotlyjs

MARK = '<meta name="generator" content="epg_tf report">'
"""Stands near the start of every page, so that the package knows its own files."""

_NONCE = "@NONCE@"
_OPTIONS = {  # of charts; nothing is ever sent away
    "responsive": True,
    "displaylogo": False,
    "modeBarButtonsToRemove": ["sendChartToCloud", "select2d", "lasso2d", "zoomIn2d", "zoomOut2d"],
}
_STYLE = """
:root { color-scheme: light; }
* { box-sizing: border-box; }
body { font: 16px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, sans-serif; color: #333;
  background: #fff; margin: 0 auto; padding: 0 16px 48px; max-width: 1040px; }
h1 { font-size: 1.6em; line-height: 1.25; margin: 1em 0 .2em; overflow-wrap: anywhere; }
h2 { font-size: 1.25em; margin: 2.2em 0 .4em; padding-top: .6em; border-top: 1px solid #ddd;
  overflow-wrap: anywhere; }
h3 { font-size: 1em; margin: 1.4em 0 .3em; }
p { margin: .5em 0; overflow-wrap: anywhere; }
.note { color: #666; font-size: .9em; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-size: .9em; font-variant-numeric: tabular-nums; }
th, td { text-align: left; vertical-align: top; padding: .25em 1em .25em 0;
  border-bottom: 1px solid #eee; }
th { font-weight: 600; }
td { overflow-wrap: break-word; max-width: 32em; }
td:first-child, .numbers td, th { white-space: nowrap; }
.numbers td + td, .numbers th + th { text-align: right; }
.facts td + td { overflow-wrap: anywhere; max-width: none; }
.texts td:last-child { min-width: 16em; }
pre { background: #f6f6f6; padding: .7em; overflow-x: auto; font-size: .85em; }
img { max-width: 100%; height: auto; }
.chart { height: 460px; margin: .5em 0; }
@media (max-width: 600px) { .chart { height: 560px; } }
summary { cursor: pointer; color: #0072B2; margin: .6em 0; }
"""


@dataclasses.dataclass(frozen=True)
class Text:
    """A paragraph; a note is small and grey."""

    text: str
    note: bool = False


@dataclasses.dataclass(frozen=True)
class Code:
    """Lines to copy."""

    text: str


@dataclasses.dataclass(frozen=True)
class Table:
    """A table; numbers, in all columns but the first, are aligned right."""

    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    numbers: bool = False


@dataclasses.dataclass(frozen=True)
class Chart:
    """A figure of Plotly, and what its title says; texts in the figure are escaped already."""

    title: str
    figure: go.Figure


@dataclasses.dataclass(frozen=True)
class Picture:
    """A PNG, and what it shows."""

    png: bytes
    shows: str


@dataclasses.dataclass(frozen=True)
class Fold:
    """A block that a click opens."""

    summary: str
    block: Block


Block = Text | Code | Table | Chart | Picture | Fold


@dataclasses.dataclass(frozen=True)
class Section:
    """A heading and what is below it."""

    title: str
    blocks: Sequence[Block]


def page(title: str, sections: Sequence[Section]) -> str:
    """Returns the HTML of a page, about 5 MB: Plotly's JavaScript is in it.

    Args:
      title: Of the page.
      sections: From top to bottom.
    """
    body = "\n".join(_section(section, number) for number, section in enumerate(sections))
    # Nobody can write a file that holds the digest of the page it will be on.
    nonce = hashlib.sha256(f"{title}\n{body}".encode()).hexdigest()
    policy = (
        f"default-src 'none'; script-src 'nonce-{nonce}'; style-src 'unsafe-inline'; "
        "img-src data: blob:"
    )
    body = body.replace(f'nonce="{_NONCE}"', f'nonce="{nonce}"')
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
{MARK}
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{escape(title)}</title>
<style>{_STYLE}</style>
<script nonce="{nonce}">{get_plotlyjs()}</script>
</head>
<body>
<h1>{escape(title)}</h1>
{body}
</body>
</html>
"""


def is_page(path: Path) -> bool:
    """Returns whether a file is a page of this module."""
    try:
        with open(path, encoding="utf-8", errors="replace") as stream:
            return MARK in stream.read(300)
    except OSError:
        return False


def _section(section: Section, number: int) -> str:
    blocks = [_block(block, f"{number}-{place}") for place, block in enumerate(section.blocks)]
    return "\n".join(["<section>", f"<h2>{escape(section.title)}</h2>", *blocks, "</section>"])


def _block(block: Block, name: str) -> str:
    """Returns the HTML of a block; `name` is different for every block of a page."""
    match block:
        case Text(text, note):
            kind = ' class="note"' if note else ""
            return f"<p{kind}>{escape(text)}</p>"
        case Code(text):
            return f"<pre><code>{escape(text)}</code></pre>"
        case Table():
            return _table(block)
        case Chart(title, figure):
            return _chart(title, figure, f"chart-{name}")
        case Picture(png, shows):
            data = base64.b64encode(png).decode("ascii")
            return f'<img src="data:image/png;base64,{data}" alt="{escape(shows)}">'
        case Fold(summary, inner):
            opened = _block(inner, f"{name}-0")
            return f"<details><summary>{escape(summary)}</summary>\n{opened}\n</details>"


def _table(table: Table) -> str:
    def line(cells: Sequence[str], tag: str) -> str:
        return f"<tr>{''.join(f'<{tag}>{escape(cell)}</{tag}>' for cell in cells)}</tr>"

    kind = "numbers" if table.numbers else "texts" if any(table.header) else "facts"
    head = f"<thead>{line(table.header, 'th')}</thead>\n" if any(table.header) else ""
    rows = "\n".join(line(row, "td") for row in table.rows)
    return (
        f'<div class="wide"><table class="{kind}">\n{head}<tbody>\n{rows}\n</tbody></table></div>'
    )


def _chart(title: str, figure: go.Figure, name: str) -> str:
    """Returns the HTML of a chart; Plotly escapes what it writes into a script."""
    drawn = plotly.io.to_html(
        figure, config=_OPTIONS, full_html=False, include_plotlyjs=False, div_id=name
    )
    drawn = drawn.replace("<script>", f'<script nonce="{_NONCE}">', 1)
    return f'<h3>{escape(title)}</h3>\n<div class="chart">{drawn}</div>'
