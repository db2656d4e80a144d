"""Writes a page as one HTML file that needs nothing else: no server, no network, no other file.

A page is sections of blocks. Names and settings come from files that another person may have
written, so every text is escaped, pictures are images, in which a browser runs nothing, and the
page's policy (Content-Security-Policy) allows neither scripts nor requests.
"""

from __future__ import annotations

import base64
import dataclasses
from collections.abc import Sequence
from html import escape
from pathlib import Path

MARK = '<meta name="generator" content="epg_tf report">'
"""Stands near the start of every page, so that the package knows its own files."""

_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
_STYLE = """
:root { color-scheme: light; }
* { box-sizing: border-box; }
body { font: 16px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, sans-serif; color: #333;
  background: #fff; margin: 0 auto; padding: 0 16px 48px; max-width: 1040px; }
h1 { font-size: 1.6em; line-height: 1.25; margin: 1em 0 .2em; overflow-wrap: anywhere; }
h2 { font-size: 1.25em; margin: 2.2em 0 .4em; padding-top: .6em; border-top: 1px solid #ddd;
  overflow-wrap: anywhere; }
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
img { display: block; max-width: 100%; height: auto; margin: .5em 0; }
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
class Picture:
    """The bytes of an SVG, and what it shows."""

    svg: bytes
    shows: str


@dataclasses.dataclass(frozen=True)
class Fold:
    """A block that a click opens."""

    summary: str
    block: Block


Block = Text | Code | Table | Picture | Fold


@dataclasses.dataclass(frozen=True)
class Section:
    """A heading and what is below it."""

    title: str
    blocks: Sequence[Block]


def page(title: str, sections: Sequence[Section]) -> str:
    """Returns the HTML of a page."""
    parts = []
    for section in sections:
        parts.append(f"<h2>{escape(section.title)}</h2>")
        parts += map(_block, section.blocks)
    body = "\n".join(parts)
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
{MARK}
<meta http-equiv="Content-Security-Policy" content="{_POLICY}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{escape(title)}</title>
<style>{_STYLE}</style>
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
        return path.is_file() and MARK in path.read_text(encoding="utf-8", errors="replace")[:300]
    except OSError:
        return False


def _block(block: Block) -> str:
    match block:
        case Text(text, note):
            return f"<p{' class=note' if note else ''}>{escape(text)}</p>"
        case Code(text):
            return f"<pre><code>{escape(text)}</code></pre>"
        case Table():
            return _table(block)
        case Picture(svg, shows):
            data = base64.b64encode(svg).decode("ascii")
            return f'<img src="data:image/svg+xml;base64,{data}" alt="{escape(shows)}">'
        case Fold(summary, inner):
            return f"<details><summary>{escape(summary)}</summary>\n{_block(inner)}\n</details>"


def _table(table: Table) -> str:
    def line(cells: Sequence[str], tag: str) -> str:
        return f"<tr>{''.join(f'<{tag}>{escape(cell)}</{tag}>' for cell in cells)}</tr>"

    kind = "numbers" if table.numbers else "texts" if any(table.header) else "facts"
    head = f"<thead>{line(table.header, 'th')}</thead>\n" if any(table.header) else ""
    rows = "\n".join(line(row, "td") for row in table.rows)
    return (
        f'<div class="wide"><table class="{kind}">\n{head}<tbody>\n{rows}\n</tbody></table></div>'
    )
