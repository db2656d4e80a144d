"""The figures of the first version of Evolved Policy Gradients.

At the scale laptop they have that version's policy and fitness with the lives of `laptop`.
"""

from __future__ import annotations

import dataclasses

from epg_tf.figures.agent_analyses import Analysis, compared_lives
from epg_tf.figures.catalogue_epg import WITHOUT_NIGHT, at_scales, test_of
from epg_tf.figures.declaration import Changes, Declaration, Run, Source
from epg_tf.figures.folders import run
from epg_tf.figures.loss_analyses import input_sensitivity, kl_of_updates

_CHANGES: Changes = (
    ("policy.state_dependent_std", True),
    ("evolution.fitness_from", "weighted"),
)


def _run(config: str, scale: str) -> Run:
    if scale == "paper":
        return run(f"{config}:paper_v1")
    return run(f"{config}:{scale}", 0, _CHANGES, "v1")


def _figure(
    number: int,
    config: str,
    title: str,
    claim: str,
    analysis: Analysis | None = None,
    alpha: float | None = None,
) -> Declaration:
    """Returns a figure of a loss, or without an analysis of agents in single tasks."""

    def sources(scale: str) -> list[Source]:
        learned = _run(config, scale)
        if analysis is not None:
            return [learned]
        words = (["v1"] if scale == "laptop" else []) + ([f"alpha_{alpha}"] if alpha else [])
        flags = (("alpha", alpha),) if alpha else ()
        return [dataclasses.replace(test_of(scale, learned, "-".join(words)), flags=flags)]

    return Declaration(
        f"epg.v1.fig{number}",
        title,
        f"EPG, first version, Figure {number}",
        claim,
        at_scales(sources, WITHOUT_NIGHT),
        analysis or compared_lives(("ppo_as_epg", "ppo")),
        "" if analysis else "One column a task, spread from the lowest to the highest return.",
    )


EPG_V1 = (
    _figure(
        4,
        "random_hopper",
        "RandomHopper, first version: agents in single tasks",
        "Without the reward, agents with the evolved loss end above PPO in every task shown.",
    ),
    _figure(
        5,
        "random_reacher",
        "RandomReacher, first version: agents in single tasks",
        "Without the reward, agents with the evolved loss learn sooner than PPO.",
    ),
    _figure(
        6,
        "random_hopper",
        "KL between successive policies, first and last epoch of evolution, first version",
        "After evolution the KL divergence has peaks, where agents explore.",
        kl_of_updates,
    ),
    _figure(
        7,
        "directional_hopper",
        "DirectionalHopper, first version, alpha 0.5: agents in single tasks",
        "The evolved loss and PPO in equal shares: returns dip below zero while agents explore.",
        alpha=0.5,
    ),
    _figure(
        8,
        "directional_hopper",
        "DirectionalHopper, first version: agents in single tasks",
        "An agent hops backward for a while, then forward, and stays with that.",
    ),
    _figure(
        9,
        "random_hopper",
        "Sensitivity of the loss to each input, over the buffer, first version",
        "The loss of a step depends most on that step, and also on all others of the buffer.",
        input_sensitivity,
    ),
)
