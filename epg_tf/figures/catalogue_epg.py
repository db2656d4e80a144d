"""The figures and tables of Evolved Policy Gradients (final paper), and what they read."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence

from epg_tf.figures.agent_analyses import (
    Analysis,
    compared_lives,
    learning_curves,
    side_by_side,
    single_lives,
)
from epg_tf.figures.declaration import SCALES, Changes, Declaration, Run, Source, Test
from epg_tf.figures.films import film, paths
from epg_tf.figures.folders import run, test_folder
from epg_tf.figures.loss_analyses import gradients_beside_ppo, input_sensitivity, kl_of_updates
from epg_tf.figures.run_analyses import evolution_curves
from epg_tf.figures.tables import settings_table

LIVES = {"laptop": 64, "night": 32, "paper": 20}
"""Agents of each method in an evaluation; the paper draws 20."""
WITHOUT_NIGHT = ("laptop", "paper")
_PPO = ("ppo_as_epg", "ppo")
_GRADIENT: Changes = (
    ("loss.start", "policy_gradient"),
    ("loss.products", 8),
    ("inner.kl_limit", 0.02),
)
_RIGHT_HALF: Changes = (
    *_GRADIENT,
    ("loss.memory_units", 0),
    ("evolution.fitness_from", "whole_life"),
)
_FIGURE_20: Changes = (("inner.updates", 256), ("inner.update_period", 32))
_NO_REWARD = (
    "Agents with the evolved loss, which does not see the reward, learn sooner than with PPO, "
    "which does, and end higher."
)


def at_scales(
    sources: Callable[[str], Sequence[Source]], scales: Sequence[str] = SCALES
) -> Mapping[str, Sequence[Source]]:
    """Returns what a figure reads at each scale, from a function of the scale's name."""
    return {scale: sources(scale) for scale in scales}


def test_of(scale: str, learned: Run, kind: str = "") -> Test:
    """Returns an evaluation of a loss beside PPO; `kind` is one word for its folder."""
    return Test(test_folder(learned, kind), (learned,), lives=LIVES[scale])


def _tests(config: str, suffix: str = "") -> Mapping[str, Sequence[Source]]:
    return at_scales(lambda scale: [test_of(scale, run(f"{config}:{scale}{suffix}"))])


def _losses(config: str) -> Mapping[str, Sequence[Source]]:
    return at_scales(lambda scale: [run(f"{config}:{scale}")])


def _figure(
    number: int | str,
    title: str,
    claim: str,
    sources: Mapping[str, Sequence[Source]],
    analysis: Analysis,
    method: str = "",
) -> Declaration:
    source = f"EPG, Figure {str(number).rstrip('abc')}"
    return Declaration(f"epg.fig{number}", title, source, claim, sources, analysis, method)


def _curves(number: int, config: str, title: str, claim: str) -> Declaration:
    """Returns a figure of learning curves, returns above and KL below."""
    method = "The paper's PPO has the update period M of EPG; the other one has its own."
    return _figure(number, title, claim, _tests(config), learning_curves(_PPO), method)


def _lives(letter: str, config: str, title: str, suffix: str = "") -> Declaration:
    return _figure(
        f"22{letter}",
        f"{title}: single lives",
        "Updates change the policy little, but for spikes of the KL divergence, where an agent "
        "changes what it does.",
        _tests(config, suffix),
        single_lives,
        "Returns are of the newest episode at each update; tasks are spread from the lowest to the "
        "highest final return.",
    )


def _figure_9(scale: str) -> Sequence[Test]:
    trained = tuple((name, run(f"{name}_half_cheetah:{scale}")) for name in ("maml", "rl2"))
    learned = run(f"directional_half_cheetah:{scale}")
    return [dataclasses.replace(test_of(scale, learned, "maml-rl2"), trained=trained)]


def _figure_12(scale: str) -> Sequence[Test]:
    flags = (("updates", 768 if scale == "laptop" else 1536),)
    labels = {
        "": "RandomHopper: A, random starts",
        "_past": "RandomHopper: B, starts from past policies too",
    }
    found = []
    for suffix, label in labels.items():
        learned = run(f"random_hopper:{scale}{suffix}")
        folder = test_folder(learned, "longer")
        found.append(Test(folder, (learned,), (), (), flags, 20, label, optional=suffix == "_past"))
    return found


def _figure_13(scale: str) -> Sequence[Test]:
    families = {
        "RandomWalker": "random_walker",
        "DirectionalHalfCheetah": "directional_half_cheetah",
        "GoalAnt": "goal_ant",
    }
    moved = {"EPG": "", "EPG+I": "_epg_i", "PPO+I": "_ppo_i"}

    def one(panel: str, name: str) -> Test:
        gradient = scale == "laptop" and "Cheetah" in panel and name == "EPG"
        changed = (_GRADIENT, "policy_gradient") if gradient else ((), "")
        return dataclasses.replace(
            test_of(scale, run(f"{families[panel]}:{scale}{moved[name]}", 0, *changed), changed[1]),
            compare=("ppo",) if name == "EPG" else (),
            label=f"{panel}: {name}",
            optional=panel == "GoalAnt",
        )

    return [one(panel, name) for panel in families for name in moved]


def _figure_17(scale: str) -> Sequence[Test]:
    shapes: dict[str, tuple[str, Changes]] = {
        "2 x 64 tanh, as in evolution": ("", ()),
        "2 x 256 tanh": ("2x256", (("config.policy.hidden", (256, 256)),)),
        "2 x 64 ReLU": ("relu", (("config.policy.activation", "relu"),)),
        "4 x 64 tanh": ("4x64", (("config.policy.hidden", (64, 64, 64, 64)),)),
    }
    learned = run(f"random_walker:{scale}")
    return [
        dataclasses.replace(test_of(scale, learned, kind), flags=flags, label=label)
        for label, (kind, flags) in shapes.items()
    ]


def _figure_18(scale: str) -> Sequence[Test]:
    maml = run(f"maml_goal_ant:{scale}")
    rl2 = run(f"rl2_goal_ant:{scale}_right_half")
    learned = run(f"goal_ant:{scale}_right_half", 0, _RIGHT_HALF if scale == "laptop" else ())
    ranges: dict[str, tuple[str, Changes]] = {
        "goals in front, as in training": ("", ()),
        "goals behind": ("behind", (("config.task.range", "out_of_distribution"),)),
    }
    return [
        dataclasses.replace(
            test_of(scale, learned, kind),
            trained=(("maml", maml), ("maml10", maml), ("rl2", rl2)),
            flags=flags,
            lives={"laptop": 16}.get(scale, LIVES[scale]),  # ten gradient steps of ants are slow
            label=label,
        )
        for label, (kind, flags) in ranges.items()
    ]


def _figure_19(scale: str) -> Sequence[Source]:
    label = "GoalAnt without resets"
    ant = run(f"goal_ant:{scale}_no_reset", label=label)
    return [ant, dataclasses.replace(test_of(scale, ant), label=label, optional=True)]


def _figure_20(scale: str) -> Sequence[Source]:
    families = {
        "RandomHopper": "random_hopper",
        "DirectionalHopper": "directional_hopper",
        "GoalAnt": "goal_ant",
        "Fetch": "fetch",
    }
    changed = (_FIGURE_20, "fig20") if scale == "paper" else ((), "")
    runs = [
        run(f"{config}:{scale}", seed, *changed, label=label, optional=True)
        for label, config in families.items()
        for seed in range(5 if scale == "paper" else 3)
    ]
    coarse = {"goal_ant-laptop-0": "coarse_physics/goal_ant"}  # kept without its loss
    return [dataclasses.replace(each, instead=coarse.get(each.folder, "")) for each in runs]


def _ablation(scale: str) -> Sequence[Source]:
    families: dict[str, tuple[int, dict[str, Changes]]] = {
        "random_hopper": (
            60,
            {
                "as it is": (),
                "kernels 1": (("loss.widths", (1, 1)), ("loss.strides", (1, 1))),
                "memory 0": (("loss.memory_units", 0),),
            },
        ),
        "directional_hopper": (
            60,
            {
                "as it is": (),
                "kernels 8 and 4": (("loss.widths", (8, 4)), ("loss.strides", (7, 2))),
            },
        ),
    }
    return [
        run(
            f"{family}:{scale}",
            seed,
            (("evolution.epochs", epochs), *changes),
            "part_" + label.translate(str.maketrans(" ", "_", ",")),
            label=f"{family}: {label}",
            optional=True,
        )
        for family, (epochs, own) in families.items()
        for label, changes in (own | _of_the_paper(epochs)).items()
        for seed in range(2)
    ]


def _of_the_paper(epochs: int) -> dict[str, Changes]:
    """Returns parts of the paper's losses and evolution, each of which replaces a night's."""
    guided: Changes = (("evolution.guidance", 1.0), ("evolution.guidance_epochs", epochs // 2))
    random: Changes = (("loss.start", "random"),)
    return {
        "N 512": (("loss.buffer_steps", 512),),
        "memory 32": (("loss.memory_units", 32),),
        "alpha 1 to 0": guided,
        "random": random,
        "random, alpha 1 to 0": (*random, *guided),
    }


_STRIP = "An agent whose parameters begin at random learns, within its life, what the task wants."

EPG = (
    _figure(3, "FetchReach: frames of one life", _STRIP, _losses("fetch"), film),
    _figure(4, "RandomHopper: frames of one life", _STRIP, _losses("random_hopper"), film),
    _curves(5, "random_hopper", "RandomHopper", _NO_REWARD),
    _curves(6, "random_walker", "RandomWalker", _NO_REWARD),
    _curves(7, "random_reacher", "RandomReacher", _NO_REWARD),
    _figure(
        8,
        "DirectionalHopper: agents in single tasks",
        "With the reward as an input, agents explore: their return dips below zero before they "
        "find out in which direction to hop. PPO does not dip.",
        _tests("directional_hopper"),
        compared_lives(_PPO),
        "One column a task, spread from the lowest to the highest final return.",
    ),
    _figure(
        9,
        "DirectionalHalfCheetah",
        "From random policies, agents with the evolved loss reach what MAML reaches from its "
        "initialisation by one gradient step; RL² solves the task at once.",
        at_scales(_figure_9, WITHOUT_NIGHT),
        learning_curves((*_PPO, "maml", "rl2"), levels=("maml",)),
        "MAML is a horizontal line at its return after adaptation.",
    ),
    _curves(
        10,
        "goal_ant",
        "GoalAnt",
        "With the reward as an input, the evolved loss lets the ant walk to its target, better "
        "than PPO after the same env steps.",
    ),
    _curves(11, "fetch", "FetchReach", _NO_REWARD),
    _figure(
        12,
        "RandomHopper: lives longer than in evolution",
        "A: where agents start at random in evolution, their return falls after the length of a "
        "life there. B: where they also start from past policies, it goes on rising.",
        at_scales(_figure_12),
        side_by_side((), mark_training=True),
        "The vertical line is the length of a life in evolution.",
    ),
    _figure(
        13,
        "Evolved initial policies: EPG+I and PPO+I",
        "An evolved initial policy helps most on RandomWalker. EPG+I starts lower than PPO+I and "
        "ends higher.",
        at_scales(_figure_13, WITHOUT_NIGHT),
        side_by_side(("ppo_as_epg",)),
    ),
    _figure(
        14,
        "DirectionalHopper: frames of one life",
        "The agent first hops in the wrong direction, then finds out, and hops in the other one.",
        _losses("directional_hopper"),
        film,
    ),
    _figure(
        15,
        "GoalAnt: paths of one ant over its life",
        "The ant first goes in several directions, later straight to its target.",
        _losses("goal_ant"),
        paths,
    ),
    _figure(
        16,
        "KL between successive policies, first and last epoch of evolution",
        "After evolution most updates change the policy less than before, and a few much more.",
        _losses("random_hopper"),
        kl_of_updates,
    ),
    _figure(
        17,
        "RandomWalker: policies of other shapes",
        "A loss that was evolved with one shape of policy trains others too, less well.",
        at_scales(_figure_17),
        side_by_side(("ppo_as_epg",)),
    ),
    _figure(
        18,
        "GoalAnt: goals on the other side than in evolution",
        "Agents with the evolved loss learn to walk to goals behind them, though all goals in "
        "evolution were in front; RL² and MAML go on walking forward.",
        at_scales(_figure_18, WITHOUT_NIGHT),
        side_by_side(("ppo_as_epg", "maml", "maml10", "rl2")),
    ),
    _figure(
        19,
        "GoalAnt without resets: evolution",
        "Evolution also works where an ant continues from where it stands until it reaches its "
        "target; PPO stays near zero.",
        at_scales(_figure_19),
        evolution_curves(
            ("fitness_mean", "mean return"),
            ("goals_reached", "targets reached"),
            level="ppo_as_epg",
        ),
        "PPO, which has no epochs, is a dashed line at its mean final return in an evaluation.",
    ),
    _figure(
        20,
        "Evolution over seeds",
        "The return rises with the epochs, for all five seeds alike.",
        at_scales(_figure_20),
        evolution_curves(("fitness_mean", "mean return of lives")),
        "Mean and standard deviation over the seeds that are there, a thin line each.",
    ),
    _figure(
        21,
        "Sensitivity of the loss to each input, over the buffer",
        "The loss of a step depends most on that step, and also on all others of the buffer.",
        _losses("random_hopper"),
        input_sensitivity,
    ),
    _lives("a", "random_hopper", "RandomHopper"),
    _lives("b", "directional_half_cheetah", "DirectionalHalfCheetah"),
    _lives("c", "goal_ant", "GoalAnt, two goals", "_forward_backward"),
    Declaration(
        "epg.ablation",
        "RandomHopper and DirectionalHopper: what the parts of the loss are worth",
        "EPG, sections 3.3 and 4; no figure of the paper",
        "Temporal convolutions, a memory, a long buffer and guidance are parts of the method.",
        at_scales(_ablation, ("night",)),
        evolution_curves(("validation_return_mean", "return in validation")),
        "Each panel changes one part of a night: RandomHopper's has kernels 8 and 4, memory 4, N "
        "128, a centred start; DirectionalHopper's kernels 1, no memory, N 128, a correlating one.",
    ),
    Declaration(
        "epg.table1",
        "Settings by environment",
        "EPG, Table 1",
        "Workers, noise vectors, update period and updates of each environment; 8196 is printed "
        "where the product is 8192.",
        at_scales(lambda scale: [], WITHOUT_NIGHT),
        settings_table,
        "Read from the configs.",
    ),
    Declaration(
        "epg.spearman",
        "Rank correlation of the gradients of the learned loss and of PPO",
        "EPG, section 4.1",
        "Spearman's correlation is about 0.5 in all environments.",
        _losses("random_hopper"),
        gradients_beside_ppo,
    ),
)
