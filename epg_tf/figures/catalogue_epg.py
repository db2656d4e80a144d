"""The figures and tables of Evolved Policy Gradients (final paper), and what they need."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from epg_tf.figures.agent_analyses import (
    compared_lives,
    learning_curves,
    side_by_side,
    single_lives,
)
from epg_tf.figures.cost_table import meta_training_cost
from epg_tf.figures.declaration import (
    SCALES,
    Changes,
    Declaration,
    LossNeed,
    Need,
    RunNeed,
    TestNeed,
)
from epg_tf.figures.films import film, paths
from epg_tf.figures.loss_analyses import gradients_beside_ppo, input_sensitivity, kl_of_updates
from epg_tf.figures.run_analyses import evolution_curves
from epg_tf.figures.tables import settings_table

LIVES = {"laptop": 64, "night": 32, "paper": 20}
"""Agents of each method in a test; the paper draws 20."""
_PPO = ("ppo_as_epg", "ppo")
_GRADIENT: Changes = (
    ("loss.start", "policy_gradient"),
    ("loss.products", 8),
    ("inner.kl_limit", 0.02),
)
_TEACHING: Changes = (
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
    needs: Callable[[str], Sequence[Need]], scales: Sequence[str] = SCALES
) -> Mapping[str, Sequence[Need]]:
    """Returns what a figure needs at each scale, from a function of the scale's name."""
    return {scale: needs(scale) for scale in scales}


def _curves(name: str, config: str, title: str, source: str, claim: str) -> Declaration:
    """Returns a figure of learning curves, returns above and KL below."""
    return Declaration(
        name,
        title,
        source,
        claim,
        at_scales(lambda scale: [TestNeed(RunNeed(f"{config}:{scale}"), lives=LIVES[scale])]),
        learning_curves(_PPO),
        method="The paper's PPO has the update period M of EPG; the other one has its own.",
    )


def _figure_9(scale: str) -> Sequence[Need]:
    run = RunNeed(f"directional_half_cheetah:{scale}")
    trained = (
        ("maml", RunNeed(f"maml_half_cheetah:{scale}")),
        ("rl2", RunNeed(f"rl2_half_cheetah:{scale}")),
    )
    return [
        TestNeed(run, lives=LIVES[scale]),
        TestNeed(run, trained=trained, lives=LIVES[scale], optional=True),
    ]


def _figure_12(scale: str) -> Sequence[Need]:
    updates = {"laptop": 768, "night": 1536, "paper": 1536}[scale]

    def test(variant: str, label: str, optional: bool) -> TestNeed:
        run = RunNeed(f"random_hopper:{variant}")
        return TestNeed(
            run, (), ("none",), updates=updates, lives=20, label=label, optional=optional
        )

    return [
        test(scale, "RandomHopper: A, random starts", False),
        test(f"{scale}_past", "RandomHopper: B, starts from past policies too", True),
    ]


def _figure_13(scale: str) -> Sequence[Need]:
    families = {
        "RandomWalker": "random_walker",
        "DirectionalHalfCheetah": "directional_half_cheetah",
        "GoalAnt": "goal_ant",
    }
    moved = {"EPG": "", "EPG+I": "_epg_i", "PPO+I": "_ppo_i"}

    def test(panel: str, name: str) -> TestNeed:
        alone = name == "EPG"
        own = _GRADIENT if scale == "laptop" and "Cheetah" in panel and alone else ()
        return TestNeed(
            RunNeed(f"{families[panel]}:{scale}{moved[name]}", changes=own),
            ("ppo_as_epg",) if alone else (),
            ("ppo",) if alone else ("none",),
            lives=LIVES[scale],
            label=f"{panel}: {name}",
            optional=panel == "GoalAnt",
        )

    return [test(panel, name) for panel in families for name in moved]


def _figure_17(scale: str) -> Sequence[Need]:
    shapes: dict[str, Changes] = {
        "2 x 64 tanh, as in evolution": (),
        "2 x 256 tanh": (("policy.hidden", (256, 256)),),
        "2 x 64 ReLU": (("policy.activation", "relu"),),
        "4 x 64 tanh": (("policy.hidden", (64, 64, 64, 64)),),
    }
    return [
        TestNeed(
            RunNeed(f"random_walker:{scale}"), changes=changes, lives=LIVES[scale], label=label
        )
        for label, changes in shapes.items()
    ]


def _figure_19(scale: str) -> Sequence[Need]:
    run = RunNeed(f"goal_ant:{scale}_no_reset", label="GoalAnt without resets")
    return [run, TestNeed(run, lives=LIVES[scale], label=run.label, optional=True)]


def _figure_18(scale: str) -> Sequence[Need]:
    maml = RunNeed(f"maml_goal_ant:{scale}")
    rl2 = RunNeed(f"rl2_goal_ant:{scale}_right_half")
    ranges: dict[str, Changes] = {
        "goals in front, as in training": (),
        "goals behind": (("task.range", "out_of_distribution"),),
    }
    return [
        TestNeed(
            RunNeed(f"goal_ant:{scale}_right_half", changes=_TEACHING if scale == "laptop" else ()),
            trained=(("maml", maml), ("maml10", maml), ("rl2", rl2)),
            changes=changes,
            lives={"laptop": 16}.get(scale, LIVES[scale]),  # ten gradient steps of ants are slow
            label=label,
        )
        for label, changes in ranges.items()
    ]


def _figure_20(scale: str) -> Sequence[Need]:
    families = {
        "RandomHopper": "random_hopper",
        "DirectionalHopper": "directional_hopper",
        "GoalAnt": "goal_ant",
        "Fetch": "fetch",
    }
    changes = {"laptop": (), "night": (), "paper": _FIGURE_20}[scale]
    seeds = range(5 if scale == "paper" else 3)
    return [
        RunNeed(f"{config}:{scale}", seed, changes, label, optional=True)
        for label, config in families.items()
        for seed in seeds
    ]


def _lives(name: str, config: str, suffix: str, title: str) -> Declaration:
    return Declaration(
        name,
        title,
        "EPG, Figure 22",
        "Updates change the policy little, but for spikes of the KL divergence, where an agent "
        "changes what it does.",
        at_scales(
            lambda scale: [TestNeed(RunNeed(f"{config}:{scale}{suffix}"), lives=LIVES[scale])]
        ),
        single_lives,
        method="Returns are of the newest episode at each update; tasks are spread from the lowest "
        "to the highest final return.",
    )


def _loss(config: str, afresh: bool = False) -> Mapping[str, Sequence[Need]]:
    return at_scales(lambda scale: [LossNeed(RunNeed(f"{config}:{scale}"), afresh=afresh)])


SHIPPED = {
    "RandomHopper": "random_hopper",
    "RandomReacher": "random_reacher",
    "DirectionalHalfCheetah": "directional_half_cheetah",
}
_STRIP = "An agent whose parameters begin at random learns, within its life, what the task wants."

EPG = (
    Declaration(
        "epg.fig3",
        "RandomReacher: frames of one life",
        "EPG, Figure 3",
        _STRIP,
        _loss("random_reacher"),
        film,
    ),
    Declaration(
        "epg.fig4",
        "RandomHopper: frames of one life",
        "EPG, Figure 4",
        _STRIP,
        _loss("random_hopper"),
        film,
    ),
    _curves("epg.fig5", "random_hopper", "RandomHopper", "EPG, Figure 5", _NO_REWARD),
    _curves("epg.fig6", "random_walker", "RandomWalker", "EPG, Figure 6", _NO_REWARD),
    _curves("epg.fig7", "random_reacher", "RandomReacher", "EPG, Figure 7", _NO_REWARD),
    Declaration(
        "epg.fig8",
        "DirectionalHopper: agents in single tasks",
        "EPG, Figure 8",
        "With the reward as an input, agents explore: their return dips below zero before they "
        "find out in which direction to hop. PPO does not dip.",
        at_scales(
            lambda scale: [TestNeed(RunNeed(f"directional_hopper:{scale}"), lives=LIVES[scale])]
        ),
        compared_lives(_PPO),
        method="One column a task, spread from the lowest to the highest final return.",
    ),
    Declaration(
        "epg.fig9",
        "DirectionalHalfCheetah",
        "EPG, Figure 9",
        "From random policies, agents with the evolved loss reach what MAML reaches from its "
        "initialisation by one gradient step; RL² solves the task at once.",
        at_scales(_figure_9),
        learning_curves((*_PPO, "maml", "rl2"), levels=("maml",)),
        method="MAML is a horizontal line at its return after adaptation.",
    ),
    _curves(
        "epg.fig10",
        "goal_ant",
        "GoalAnt",
        "EPG, Figure 10",
        "With the reward as an input, the evolved loss lets the ant walk to its target, better "
        "than PPO after the same env steps.",
    ),
    _curves("epg.fig11", "fetch", "FetchReach", "EPG, Figure 11", _NO_REWARD),
    Declaration(
        "epg.fig12",
        "RandomHopper: lives longer than in evolution",
        "EPG, Figure 12",
        "A: where agents start at random in evolution, their return falls after the length of a "
        "life there. B: where they also start from past policies, it goes on rising.",
        at_scales(_figure_12),
        side_by_side((), mark_training=True),
        method="The vertical line is the length of a life in evolution.",
    ),
    Declaration(
        "epg.fig13",
        "Evolved initial policies: EPG+I and PPO+I",
        "EPG, Figure 13",
        "An evolved initial policy helps most on RandomWalker. EPG+I starts lower than PPO+I and "
        "ends higher.",
        at_scales(_figure_13, ("laptop", "paper")),
        side_by_side(("ppo_as_epg",)),
        "evolved starts have no variants of this scale",
    ),
    Declaration(
        "epg.fig14",
        "DirectionalHopper: frames of one life",
        "EPG, Figure 14",
        "The agent first hops in the wrong direction, then finds out, and hops in the other one.",
        _loss("directional_hopper"),
        film,
    ),
    Declaration(
        "epg.fig15",
        "GoalAnt: paths of one ant over its life",
        "EPG, Figure 15",
        "The ant first goes in several directions, later straight to its target.",
        _loss("goal_ant"),
        paths,
    ),
    Declaration(
        "epg.fig16",
        "KL between successive policies, first and last epoch of evolution",
        "EPG, Figure 16",
        "After evolution most updates change the policy less than before, and a few much more.",
        _loss("random_hopper", afresh=True),
        kl_of_updates,
    ),
    Declaration(
        "epg.fig17",
        "RandomWalker: policies of other shapes",
        "EPG, Figure 17",
        "A loss that was evolved with one shape of policy trains others too, less well.",
        at_scales(_figure_17),
        side_by_side(("ppo_as_epg",)),
    ),
    Declaration(
        "epg.fig18",
        "GoalAnt: goals on the other side than in evolution",
        "EPG, Figure 18",
        "Agents with the evolved loss learn to walk to goals behind them, though all goals in "
        "evolution were in front; RL² and MAML go on walking forward.",
        at_scales(_figure_18),
        side_by_side(("ppo_as_epg", "maml", "maml10", "rl2")),
    ),
    Declaration(
        "epg.fig19",
        "GoalAnt without resets: evolution",
        "EPG, Figure 19",
        "Evolution also works where an ant continues from where it stands until it reaches its "
        "target; PPO stays near zero.",
        at_scales(_figure_19),
        evolution_curves(
            ("fitness_mean", "mean return"),
            ("goals_reached", "targets reached"),
            level="ppo_as_epg",
        ),
        method="PPO, which has no epochs, is a dashed line at its mean final return in a test.",
    ),
    Declaration(
        "epg.fig20",
        "Evolution over seeds",
        "EPG, Figure 20",
        "The return rises with the epochs, for all five seeds alike.",
        at_scales(_figure_20),
        evolution_curves(("fitness_mean", "mean return of lives")),
        method="Mean and standard deviation over the seeds that are there, a thin line each.",
    ),
    Declaration(
        "epg.fig21",
        "Sensitivity of the loss to each input, over the buffer",
        "EPG, Figure 21",
        "The loss of a step depends most on that step, and also on all others of the buffer.",
        _loss("random_hopper"),
        input_sensitivity,
    ),
    _lives("epg.fig22a", "random_hopper", "", "RandomHopper: single lives"),
    _lives("epg.fig22b", "directional_half_cheetah", "", "DirectionalHalfCheetah: single lives"),
    _lives("epg.fig22c", "goal_ant", "_forward_backward", "GoalAnt, two goals: single lives"),
    Declaration(
        "epg.table1",
        "Settings by environment",
        "EPG, Table 1",
        "Workers, noise vectors, update period and updates of each environment; 8196 is printed "
        "where the product is 8192.",
        at_scales(lambda scale: [], ("laptop", "paper")),
        settings_table,
        "some environments have no variant of this scale",
        "Read from the configs.",
    ),
    Declaration(
        "epg.spearman",
        "Rank correlation of the gradients of the learned loss and of PPO",
        "EPG, section 4.1",
        "Spearman's correlation is about 0.5 in all environments.",
        _loss("random_hopper"),
        gradients_beside_ppo,
    ),
    Declaration(
        "epg.cost",
        "What meta-training costs",
        "EPG, section 6",
        "RandomReacher takes about 196 M env steps one after the other for each worker (that is "
        "3000 epochs of 65536, as in the first version; 5000 would be 328 M).",
        at_scales(
            lambda scale: [
                LossNeed(RunNeed(f"{config}:laptop"), name, optional=True)
                for name, config in SHIPPED.items()
            ]
        ),
        meta_training_cost,
        method="The cost of the paper's protocols, at any scale, beside what our losses took.",
    ),
)
