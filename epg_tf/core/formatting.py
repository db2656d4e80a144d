"""Writes numbers and durations as short texts for people."""

from __future__ import annotations


def count(number: float) -> str:
    """Returns a large number as text: 950, 12.3 k, 4.5 M, 10.5 G."""
    for unit, name in ((1e9, " G"), (1e6, " M"), (1e3, " k")):
        if abs(number) >= unit:
            return f"{number / unit:.3g}{name}"
    return f"{number:.3g}"


def duration(seconds: float) -> str:
    """Returns a duration as text: 42 s, 3 min 05 s, 2 h 10 min, 3.4 days."""
    if seconds < 60:
        return f"{seconds:.0f} s"
    if seconds < 3600:
        return f"{int(seconds) // 60} min {int(seconds) % 60:02d} s"
    if seconds < 48 * 3600:
        return f"{int(seconds) // 3600} h {int(seconds) % 3600 // 60:02d} min"
    return f"{seconds / 86400:.1f} days"


def markdown_cell(text: object) -> str:
    """Returns what a cell of a Markdown table may hold: no row, column or tag begins in it."""
    return str(text).replace("|", "\\|").replace("<", "&lt;").replace("\n", " ")
