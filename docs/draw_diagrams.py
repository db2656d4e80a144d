"""Draws the diagrams of the README and of docs/concepts.md as SVG, beside this file.

    python docs/draw_diagrams.py

Sizes are in SVG units. Text is kept as text, so that it can be searched and read aloud.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from pathlib import Path

_FONT = "font-family='Helvetica, Arial, sans-serif'"
_INK, _MUTED = "#1b2733", "#5b6b7b"
OUTER, INNER, LEARNED, PLAIN = "#e8f0fb", "#fdf3e1", "#dff2e4", "#ffffff"
_LINE = 17  # height of a line of text

Point = tuple[float, float]


class Diagram:
    """Collects shapes of one picture.

    Args:
      width: Of the picture.
      height: Of the picture.
      title: What a screen reader reads.
    """

    def __init__(self, width: int, height: int, title: str):
        self._rows = [
            f"<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {width} {height}' "
            f"width='{width}' height='{height}' role='img' {_FONT}>",
            f"<title>{escape(title)}</title>",
            "<defs><marker id='tip' viewBox='0 0 10 10' refX='9' refY='5' markerWidth='7' "
            f"markerHeight='7' orient='auto'><path d='M0,0 L10,5 L0,10 z' fill='{_INK}'/>"
            "</marker></defs>",
            f"<rect width='{width}' height='{height}' fill='white'/>",
        ]

    def frame(self, x: float, y: float, width: float, height: float, title: str, fill: str) -> None:
        """Draws a large box with a title at its top left."""
        self._rectangle(x, y, width, height, fill, 12)
        self.text(x + 14, y + 22, [title], bold=True)

    def box(
        self, x: float, y: float, width: float, height: float, lines: Sequence[str], fill: str
    ) -> None:
        """Draws a box with centred lines; the first one is bold."""
        self._rectangle(x, y, width, height, fill, 6)
        top = y + (height - _LINE * len(lines)) / 2 + 13
        for number, line in enumerate(lines):
            self._line(x + width / 2, top + number * _LINE, line, "middle", number == 0, _INK)

    def text(
        self, x: float, y: float, lines: Sequence[str], bold: bool = False, muted: bool = False
    ) -> None:
        """Writes lines; y is the base of the first."""
        for number, line in enumerate(lines):
            self._line(x, y + number * _LINE, line, "start", bold, _MUTED if muted else _INK)

    def arrow(self, *points: Point, dashed: bool = False) -> None:
        """Draws a line through points with a tip at the last."""
        path = " ".join(f"{x:g},{y:g}" for x, y in points)
        dashes = " stroke-dasharray='5 4'" if dashed else ""
        self._rows.append(
            f"<polyline points='{path}' fill='none' stroke='{_INK}' stroke-width='1.5'{dashes} "
            "marker-end='url(#tip)'/>"
        )

    def svg(self) -> str:
        """Returns the picture."""
        return "\n".join([*self._rows, "</svg>"]) + "\n"

    def _rectangle(
        self, x: float, y: float, width: float, height: float, fill: str, radius: float
    ) -> None:
        self._rows.append(
            f"<rect x='{x:g}' y='{y:g}' width='{width:g}' height='{height:g}' rx='{radius:g}' "
            f"fill='{fill}' stroke='#9aa8b6'/>"
        )

    def _line(self, x: float, y: float, text: str, anchor: str, bold: bool, colour: str) -> None:
        weight = "bold" if bold else "normal"
        self._rows.append(
            f"<text x='{x:g}' y='{y:g}' font-size='13' font-weight='{weight}' "
            f"text-anchor='{anchor}' fill='{colour}'>{escape(text)}</text>"
        )


def two_loops() -> Diagram:
    """Returns the outer and the inner loop of Evolved Policy Gradients."""
    diagram = Diagram(860, 400, "The outer loop evolves the loss; the inner loop trains agents")
    diagram.frame(10, 10, 840, 380, "Outer loop: one epoch of evolution", OUTER)
    diagram.box(30, 150, 130, 90, ["Loss L_phi", "phi: parameters", "of a network"], LEARNED)
    diagram.frame(230, 50, 420, 290, "Inner loop: a life, one fresh agent in one new task", INNER)
    diagram.box(250, 100, 160, 60, ["Agent acts", "M env steps"], PLAIN)
    diagram.box(470, 100, 160, 60, ["Buffer", "the N newest steps"], PLAIN)
    diagram.box(470, 220, 160, 60, ["Perturbed loss", "phi + sigma epsilon"], LEARNED)
    diagram.box(250, 220, 160, 60, ["Adam steps", "on the policy"], PLAIN)
    diagram.arrow((410, 130), (470, 130))
    diagram.arrow((550, 160), (550, 220))
    diagram.arrow((470, 250), (410, 250))
    diagram.arrow((330, 220), (330, 160))
    diagram.text(413, 216, ["gradient"], muted=True)
    diagram.text(340, 195, ["U / M updates"], muted=True)
    diagram.text(
        250, 306, ["The loss need not see the reward: it sees the channels that", "it declares."]
    )
    diagram.arrow((160, 195), (230, 195))
    diagram.text(166, 152, ["W lives,", "with", "noise"], muted=True)
    diagram.box(690, 100, 140, 60, ["Fitness", "return of the life"], PLAIN)
    diagram.box(690, 220, 140, 60, ["Ranks of all lives", "weigh the noise"], PLAIN)
    diagram.arrow((650, 130), (690, 130))
    diagram.arrow((760, 160), (760, 220))
    diagram.arrow((760, 280), (760, 365), (95, 365), (95, 240))
    diagram.text(310, 359, ["step of phi along the estimated gradient of the fitness"], muted=True)
    return diagram


def loss_inputs() -> Diagram:
    """Returns what the learned loss of EPG sees, and where gradient flows."""
    diagram = Diagram(860, 360, "What the learned loss of EPG sees")
    diagram.frame(10, 10, 270, 200, "Recorded: the N newest steps", OUTER)
    for row, name in enumerate(
        ("observation", "action", "reward, only if declared", "end of an episode")
    ):
        diagram.box(30, 45 + 38 * row, 230, 30, [name], PLAIN)
    diagram.frame(10, 225, 270, 120, "Of the policy now, with gradient", INNER)
    diagram.box(30, 260, 230, 30, ["policy outputs at these steps"], PLAIN)
    diagram.box(30, 300, 230, 30, ["memory of the agent"], PLAIN)
    diagram.box(340, 70, 150, 80, ["Two temporal", "convolutions", "over the N steps"], LEARNED)
    diagram.box(550, 70, 120, 80, ["Context", "one vector"], LEARNED)
    diagram.box(550, 235, 120, 80, ["Head", "step by step"], LEARNED)
    diagram.box(720, 235, 125, 80, ["Loss", "of each step in", "the minibatch"], PLAIN)
    diagram.arrow((280, 110), (340, 110))
    diagram.arrow((280, 250), (305, 250), (305, 130), (340, 130))
    diagram.arrow((490, 110), (550, 110))
    diagram.arrow((610, 150), (610, 235))
    diagram.arrow((280, 195), (325, 195), (325, 255), (550, 255))
    diagram.arrow((280, 290), (550, 290))
    diagram.text(340, 248, ["what was recorded of the step"], muted=True)
    diagram.text(340, 283, ["the policy's output, memory"], muted=True)
    diagram.arrow((670, 275), (720, 275))
    diagram.arrow((782, 315), (782, 340), (280, 340), dashed=True)
    diagram.text(330, 334, ["gradient reaches the policy and the memory only"], muted=True)
    return diagram


def metagenrl_loop() -> Diagram:
    """Returns how MetaGenRL trains agents and improves the objective."""
    diagram = Diagram(860, 330, "MetaGenRL trains a population of agents and their objective")
    diagram.frame(10, 10, 560, 310, "A population of agents, all at once", INNER)
    diagram.box(30, 60, 150, 60, ["Policy acts", "in the task"], PLAIN)
    diagram.box(220, 60, 130, 60, ["Replay", "of its steps"], PLAIN)
    diagram.box(400, 60, 150, 60, ["Twin critics", "trained as in TD3"], PLAIN)
    diagram.box(30, 210, 150, 80, ["Policy", "Adam step along", "the gradient of L"], PLAIN)
    diagram.box(
        220, 210, 330, 80, ["Virtual policy", "the same with one step (or more) along L"], PLAIN
    )
    diagram.arrow((180, 90), (220, 90))
    diagram.arrow((350, 90), (400, 90))
    diagram.arrow((105, 210), (105, 120))
    diagram.arrow((475, 120), (475, 210))
    diagram.text(484, 142, ["value Q:", "meta-loss"], muted=True)
    objective = ["Objective L_alpha", "LSTM, reads a chunk", "backwards in time"]
    diagram.box(650, 60, 190, 100, objective, LEARNED)
    diagram.box(650, 210, 190, 80, ["Step of alpha", "sum over all agents"], LEARNED)
    diagram.arrow((650, 110), (600, 110), (600, 180), (285, 180), (285, 210))
    diagram.arrow((285, 180), (150, 180), (150, 210))
    diagram.arrow((550, 250), (650, 250))
    diagram.text(574, 268, ["second-", "order", "gradient"], muted=True)
    diagram.arrow((745, 210), (745, 160))
    return diagram


DIAGRAMS = {
    "two_loops.svg": two_loops,
    "loss_inputs.svg": loss_inputs,
    "metagenrl_loop.svg": metagenrl_loop,
}

if __name__ == "__main__":
    for name, draw in DIAGRAMS.items():
        (Path(__file__).parent / name).write_text(draw().svg(), encoding="utf-8")
