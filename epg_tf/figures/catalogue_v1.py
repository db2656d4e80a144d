"""The figures of the first version of Evolved Policy Gradients.

At the scale laptop they have that version's policy and fitness with the lives of `laptop`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from epg_tf.figures.agent_analyses import compared_lives
from epg_tf.figures.catalogue_epg import LIVES
from epg_tf.figures.declaration import Changes, Declaration, LossNeed, Need, RunNeed, TestNeed
from epg_tf.figures.loss_analyses import input_sensitivity, kl_of_updates

_CHANGES: Changes = (
    ("policy.state_dependent_std", True),
    ("evolution.fitness_from", "weighted"),
)


def _run(config: str, scale: str) -> RunNeed:
    if scale == "paper":
        return RunNeed(f"{config}:paper_v1")
    return RunNeed(f"{config}:{scale}", changes=_CHANGES)


def _tests(config: str, alpha: float | None = None) -> Mapping[str, Sequence[Need]]:
    return {
        scale: [TestNeed(_run(config, scale), alpha=alpha, lives=LIVES[scale])]
        for scale in ("laptop", "paper")
    }


def _losses(config: str, afresh: bool = False) -> Mapping[str, Sequence[Need]]:
    return {scale: [LossNeed(_run(config, scale), afresh=afresh)] for scale in ("laptop", "paper")}


_NIGHT = "the first version has no variants for a night"
_COLUMNS = "One column a task, spread from the lowest to the highest final return."
_COMPARED = compared_lives(("ppo_as_epg", "ppo"))

EPG_V1 = (
    Declaration(
        "epg.v1.fig4",
        "RandomHopper, first version: agents in single tasks",
        "EPG, first version, Figure 4",
        "Without the reward, agents with the evolved loss end above PPO in every task shown.",
        _tests("random_hopper"),
        _COMPARED,
        _NIGHT,
        _COLUMNS,
    ),
    Declaration(
        "epg.v1.fig5",
        "RandomReacher, first version: agents in single tasks",
        "EPG, first version, Figure 5",
        "Without the reward, agents with the evolved loss learn sooner than PPO.",
        _tests("random_reacher"),
        _COMPARED,
        _NIGHT,
        _COLUMNS,
    ),
    Declaration(
        "epg.v1.fig6",
        "KL between successive policies, first and last epoch of evolution, first version",
        "EPG, first version, Figure 6",
        "After evolution the KL divergence has peaks, where agents explore.",
        _losses("random_hopper", afresh=True),
        kl_of_updates,
        _NIGHT,
    ),
    Declaration(
        "epg.v1.fig7",
        "DirectionalHopper, first version, alpha 0.5: agents in single tasks",
        "EPG, first version, Figure 7",
        "The evolved loss and PPO in equal shares: returns dip below zero while agents explore.",
        _tests("directional_hopper", alpha=0.5),
        _COMPARED,
        _NIGHT,
        _COLUMNS,
    ),
    Declaration(
        "epg.v1.fig8",
        "DirectionalHopper, first version: agents in single tasks",
        "EPG, first version, Figure 8",
        "An agent hops backward for a while, then forward, and stays with that.",
        _tests("directional_hopper"),
        _COMPARED,
        _NIGHT,
        _COLUMNS,
    ),
    Declaration(
        "epg.v1.fig9",
        "Sensitivity of the loss to each input, over the buffer, first version",
        "EPG, first version, Figure 9",
        "The loss of a step depends most on that step, and also on all others of the buffer.",
        _losses("random_hopper"),
        input_sensitivity,
        _NIGHT,
    ),
)
