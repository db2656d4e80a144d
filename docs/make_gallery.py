"""Draws the pictures of the pages that take minutes: from pretrained losses and from results/.

    make gallery                                   # all pictures, about an hour
    make gallery GALLERY="gallery_fetch_night.png cheetahs.gif"    # some of them

`PICTURES` says what each of them is made from. docs/make_pages.py draws the others, but for three
diagrams, which are written by hand.
"""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from PIL import Image, ImageDraw

DOCS = Path(__file__).resolve().parent
sys.path.insert(0, str(DOCS.parent))

import epg_tf  # noqa: E402
from epg_tf.artifacts.artifact import pretrained_objectives  # noqa: E402
from epg_tf.artifacts.export import export  # noqa: E402
from epg_tf.artifacts.loss_files import pretrained_losses  # noqa: E402
from epg_tf.core.random_streams import life_generator  # noqa: E402
from epg_tf.core.types import LifeKey  # noqa: E402
from epg_tf.evaluation.requests import objective_request  # noqa: E402
from epg_tf.figures.catalogue import declaration  # noqa: E402
from epg_tf.figures.output import PICTURE, make_figure  # noqa: E402
from epg_tf.figures.results import unpacked  # noqa: E402
from epg_tf.figures.sources import status_of  # noqa: E402
from epg_tf.reports import life_pictures, pictures, plots  # noqa: E402
from epg_tf.runs.pages import make_page  # noqa: E402
from epg_tf.tasks.registry import make_family, named_environment, simulate  # noqa: E402

RESULTS = DOCS.parent / "results"
AGENTS = 16
CURVES = {
    "epg": ("evolved loss", 0),
    "objective": ("learned objective", 0),
    "ppo": ("PPO", 2),
    "untrained": ("never learns", 3),
    "untrained_objective": ("untrained objective", 3),
}
"""Method -> label and number of the colour, as in the README's picture."""
_SEED = 0
_FILM = (3, 5)  # episodes, frames of each
_PIXELS = (120, 160)  # of a frame: height, width
_SHADES = 32  # of 256, apart, in the animation: fewer colours, a smaller file
_ANIMATION = (3, 40)  # episodes, frames of each
_LEARNERS, _LONGEST = 4, 8192  # agents of each export, env steps
_POINTS = 25  # of a curve, means of episodes
_LEARNER = """
import json, sys
import gymnasium
from train import train

folder, name, settings, steps, seed = sys.argv[1:]
env = gymnasium.make(name, **json.loads(settings))
print(json.dumps([episode.tolist() for episode in train(folder, env, int(steps), int(seed))[1]]))
"""


def loss_picture(name: str) -> Figure:
    """Returns curves of 16 agents per method with a loss, beside a film of the first one."""
    learned = epg_tf.load_loss(name)
    experiment = dataclasses.replace(  # one thread, as for the film
        learned.experiment, compute=dataclasses.replace(learned.experiment.compute, threads=1)
    )
    methods = ["epg", "ppo", "untrained"]
    results = epg_tf.evaluate(experiment, learned.phi, _SEED, AGENTS, methods=methods)
    _, rows, labels = _film(learned, 0, _FILM)
    return _beside(results, rows, labels)


def objective_picture(name: str, environment: str) -> Figure:
    """Returns the same of an objective, in an environment."""
    learned = epg_tf.load_objective(name)
    methods = ["objective", "ppo", "untrained_objective"]
    results = epg_tf.evaluate_objective(learned, _SEED, AGENTS, environment, methods=methods)
    return _beside(results, *_objective_film(learned, environment))


def _beside(results: epg_tf.Results, rows: list[Any], labels: list[str]) -> Figure:
    """Returns the curves of each method, and to their right the frames of episodes."""
    figure = Figure(figsize=(11, 3.6), dpi=80, facecolor="white")
    left, right = figure.subfigures(1, 2, width_ratios=(1, 1.75))
    axes = left.subplots()
    for (method, _), table in results.by_method().items():
        label, number = CURVES[method]
        plots.draw_statistics(axes, *table.pivot(), plots.COLOURS[number])
        axes.plot([], [], color=plots.COLOURS[number], label=label)
    plots.dress(axes, "env steps of learning", "return")
    axes.xaxis.set_major_locator(MaxNLocator(4))  # numbers as 60000 would meet
    axes.legend(frameon=False, loc="lower left", bbox_to_anchor=(-0.22, 1), ncols=3,
                fontsize=8, handlelength=1.2, columnspacing=1.0)  # fmt: skip
    left.subplots_adjust(left=0.2, right=0.97, bottom=0.17, top=0.89)
    grid = right.subplots(*_FILM, squeeze=False)
    right.subplots_adjust(left=0.01, right=0.99, bottom=0.01, top=0.93, hspace=0.2, wspace=0.03)
    for line, frames, label in zip(grid, rows, labels, strict=True):
        line[0].set_title(label, fontsize=9, loc="left", pad=3)
        for axis in line:
            axis.set_axis_off()
        for axis, frame in zip(line, frames, strict=False):  # an episode may be shorter
            axis.imshow(frame)
    return figure


def _objective_film(
    learned: epg_tf.LearnedObjective, environment: str
) -> tuple[list[Any], list[str]]:
    """Returns frames of an episode early, half-way and at the end of an agent's learning."""
    request = objective_request(learned.experiment, environment, _SEED, AGENTS)
    family, key = named_environment(environment), request.keys()[0]
    camera = life_pictures.make_camera(family, key, *_PIXELS)
    rows, labels = [], []
    for steps in (learned.experiment.round_steps, request.env_steps // 2, request.env_steps):
        agent = epg_tf.train_objective_agent(learned, _SEED, 0, AGENTS, environment, steps)
        simulation = simulate(family, 1)
        simulation.set_tasks([agent.task])
        seen = simulation.reset(np.arange(1), [life_generator(key, "final_reset")])
        recorder = life_pictures.LifeRecorder(0)
        ended = False
        while not ended:
            result = simulation.step(agent.act(seen))
            recorder(simulation, result)
            seen, ended = result.observation, bool(result.terminated[0] or result.truncated[0])
        episode = recorder.episodes()[0]
        rows.append(camera.frames(episode.poses, _steps(episode, _FILM[1])))
        length = len(episode.poses)
        labels.append(f"after {steps} of {request.env_steps} env steps; it lasts {length}")
    camera.close()
    return rows, labels


def _film(
    learned: epg_tf.LearnedLoss, life: int, counts: tuple[int, int]
) -> tuple[life_pictures.LifeRecorder, list[Any], list[str]]:
    """Returns an agent's life, frames of some of its episodes, and what they are."""
    family, key = make_family(learned.experiment.in_physics("exact").task), _key(life)
    camera = life_pictures.make_camera(family, key, *_PIXELS)
    recorder, _ = life_pictures.recorded_life(learned.experiment, learned.phi, key)
    rows, labels = life_pictures.film_frames(recorder, camera, counts)
    camera.close()
    return recorder, rows, labels


def _key(life: int) -> LifeKey:
    return LifeKey(_SEED, "test", 0, life)


def cheetahs(path: Path) -> None:
    """Writes an animation of two agents of one loss; the reward wants one to run forward, one
    backward.
    """
    learned = epg_tf.load_loss("directional_half_cheetah")
    family = make_family(learned.experiment.task)
    sides: list[list[Any]] = []
    labels: list[str] = []
    for way, sign in (("forward", 1.0), ("backward", -1.0)):
        life = next(
            life
            for life in range(AGENTS)
            if sign * family.sample_task(life_generator(_key(life), "task"))["direction"] > 0
        )
        recorder, rows, labels = _film(learned, life, _ANIMATION)
        episodes = recorder.chosen(_ANIMATION[0])
        sides.append(
            [
                _named(frame, f"{way}: {episode.poses[step].qpos[0]:+.1f} m")
                for episode, row in zip(episodes, rows, strict=True)
                for frame, step in zip(row, _steps(episode, len(row)), strict=True)
            ]
        )
    gap = np.full((_PIXELS[0], 4, 3), 255)
    frames = [
        (np.concatenate([left, gap, right], axis=1) // _SHADES * _SHADES).astype(np.uint8)
        for left, right in zip(*sides, strict=True)
    ]
    pictures.animation(frames, np.repeat(labels, _ANIMATION[1]).tolist(), 16.0, path)


def learners(path: Path) -> None:
    """Writes returns of agents of each export, which its learner.py trains in examples/train.py."""
    figure = Figure(figsize=(12, 7), dpi=80, facecolor="white")
    grid = figure.subplots(3, 5).ravel()
    for axes, name in zip(grid, pretrained_losses(), strict=False):
        axes.set_title(name, fontsize=7)
        for episodes in _trained(name):
            parts = np.array_split(episodes, min(len(episodes), _POINTS))
            returns = [part[:, 0].mean() for part in parts]
            ends = np.cumsum([part[:, 1].sum() for part in parts])
            axes.plot(ends, returns, color=plots.COLOURS[0], alpha=0.6)
        plots.dress(axes, "env steps", "return")
        axes.xaxis.set_major_locator(MaxNLocator(3))
    for axes in grid[len(pretrained_losses()) :]:
        axes.set_axis_off()
    figure.tight_layout()
    plots.write_png(figure, path)
    Image.open(path).convert("RGB").quantize(256).save(path, optimize=True)


def _trained(name: str) -> Iterator[Any]:
    """Yields [return, env steps] of the episodes of each agent, from a program of its own."""
    if name in pretrained_objectives():
        learned: Any = epg_tf.load_objective(name)
        family = named_environment(learned.experiment.environments[0])
        settings, steps = {}, _LONGEST
    else:
        learned = epg_tf.load_loss(name)
        family, steps = make_family(learned.experiment.task), learned.experiment.life_steps
        settings = {"frame_skip": family.frame_skip, "max_episode_steps": family.episode_limit}
        settings |= {"task_range": learned.experiment.task.range}
    wanted = f"epg_tf:epg_tf/{type(family).__name__}-v0"
    with tempfile.TemporaryDirectory() as folder:
        export(learned, folder)
        program = [sys.executable, "-c", _LEARNER, folder, wanted, json.dumps(settings)]
        for seed in range(_LEARNERS):
            found = subprocess.run(
                [*program, str(min(steps, _LONGEST)), str(seed)],
                cwd=DOCS.parent / "examples", check=True, stdout=subprocess.PIPE, text=True,
            )  # fmt: skip
            yield np.array(json.loads(found.stdout.splitlines()[-1]))


def _steps(episode: life_pictures.Episode, count: int) -> list[int]:
    """Returns the env steps of an episode that `film_frames` draws."""
    return np.linspace(0, len(episode.poses) - 1, count).round().astype(int).tolist()


def _named(frame: Any, text: str) -> Any:
    """Returns a frame with a text in its second line."""
    image = Image.fromarray(frame)
    ImageDraw.Draw(image).text((6, 18), text, fill="white", stroke_width=1, stroke_fill="black")
    return np.asarray(image)


def curves_and_film(draw: Callable[..., Figure], *words: str) -> Callable[[Path], None]:
    """Returns what writes a figure, in a palette of 256 colours: a third of the bytes."""

    def write(path: Path) -> None:
        plots.write_png(draw(*words), path)
        Image.open(path).convert("RGB").quantize(256).save(path, optimize=True)

    return write


def paper_figure(name: str, scale: str) -> Callable[[Path], None]:
    """Returns what writes a figure of the catalogue, `epg-tf figure`, from results/."""

    def write(path: Path) -> None:
        with tempfile.TemporaryDirectory() as folder:
            make_figure(status_of(declaration(name), scale, [RESULTS]), folder)
            path.write_bytes((Path(folder) / PICTURE).read_bytes())

    return write


def page(evaluation: str, height: int) -> Callable[[Path], None]:
    """Returns what writes the top of a page, `epg-tf report`, as a browser shows it."""

    def write(path: Path) -> None:
        with tempfile.TemporaryDirectory() as folder:
            html = Path(folder) / "page.html"
            html.write_text(make_page([str(unpacked(RESULTS) / evaluation)], False), "utf-8")
            flags = ("--headless", "--no-sandbox", "--hide-scrollbars")
            subprocess.run(
                ["chromium", *flags, f"--window-size=900,{height}", f"--screenshot={path}", html],
                check=True, capture_output=True,
            )  # fmt: skip
        Image.open(path).convert("RGB").quantize(64).save(path, optimize=True)

    return write


PICTURES: dict[str, Callable[[Path], None]] = {
    **{
        f"gallery_{name}.png": curves_and_film(loss_picture, name)
        for name in pretrained_losses()
        if name not in pretrained_objectives()
    },
    "gallery_point_goal_objective.png": curves_and_film(
        objective_picture, "point_goal_objective", "point_goal"
    ),
    "gallery_four_environments_objective.png": curves_and_film(
        objective_picture, "four_environments_objective", "gymnasium:InvertedDoublePendulum-v5@200"
    ),
    "cheetahs.gif": cheetahs,
    "learners.png": learners,
    "figure_epg3.png": paper_figure("epg.fig3", "night"),
    "figure_epg4.png": paper_figure("epg.fig4", "laptop"),
    "figure_epg8.png": paper_figure("epg.fig8", "night"),
    "figure_epg14.png": paper_figure("epg.fig14", "night"),
    "figure_epg16.png": paper_figure("epg.fig16", "laptop"),
    "figure_epg20.png": paper_figure("epg.fig20", "night"),
    "figure_epg21.png": paper_figure("epg.fig21", "laptop"),
    "figure_epg_spearman.png": paper_figure("epg.spearman", "laptop"),
    "report.png": page("tests/directional_hopper-night", 1100),
}
"""Picture -> what draws it into a file."""


def main(names: Sequence[str]) -> None:
    """Draws pictures by name, all where there are no names."""
    for name in names or PICTURES:
        print(name, flush=True)
        PICTURES[name](DOCS / name)


if __name__ == "__main__":
    main(sys.argv[1:])
