"""Measures how far each update moves the policy, before and after evolution (EPG, Figure 16; first
version, Figure 6).
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from epg_tf.artifacts.artifact import LearnedLoss
from epg_tf.baselines.method import Request
from epg_tf.core.errors import ConfigError
from epg_tf.core.types import Array
from epg_tf.epg.inner_loop import final_inner_settings
from epg_tf.epg.meta_parameters import initial_phi
from epg_tf.evaluation.methods import inner_loops
from epg_tf.evaluation.statistics import median_interval
from epg_tf.studies.analysed_lives import analysis_settings

STAGES = ("random", "first", "last")


@dataclasses.dataclass(frozen=True, eq=False)
class PolicyChange:
    """How far updates move the policies of L agents, which meet the same tasks, starts and noise
    under all three losses.

    Attributes:
      random: [L, T] KL divergence (nats) between the policies before and after each of T updates,
        mean over the newest M observations, under a loss with random weights, as those of the
        papers are before evolution; NaN in lives that failed.
      first: [L, T], the same under the loss that evolution started from.
      last: [L, T], the same under the evolved loss.
    """

    random: Array
    first: Array
    last: Array


def measure_policy_change(learned: LearnedLoss, request: Request) -> PolicyChange:
    """Trains L agents by the loss alone (alpha = 0): with random weights, as it was before its
    first epoch, and as it is.

    Args:
      learned: The loss; its facts name the seed of its evolution, from which the first phi and the
        random one are drawn.
      request: From `analysed_lives.analysis_request`.

    Raises:
      ConfigError: The seed of the evolution is not known, or it began with another loss.
    """
    experiment, seed = learned.experiment, learned.facts.get("seed")
    if (begun := learned.facts.get("begun_with")) is not None:
        raise ConfigError(
            f"facts['begun_with']={begun!r:.100} of the loss: its evolution did not begin afresh; "
            "name a loss whose evolution did"
        )
    if not isinstance(seed, int):
        raise ConfigError(
            f"facts['seed']={seed!r} of the loss does not say which loss its evolution started "
            "from; name the folder of a run or a pretrained loss"
        )
    at_random = dataclasses.replace(
        experiment, loss=dataclasses.replace(experiment.loss, start="random")
    )
    losses = initial_phi(at_random, seed), initial_phi(experiment, seed), learned.phi
    inner_settings = dataclasses.replace(final_inner_settings(experiment), alpha=0.0)
    with inner_loops(analysis_settings(learned, request)) as loops:
        found = [
            loops.run(request, lambda agent, phi=phi: phi, inner_settings).kl  # type: ignore[misc]
            for phi in losses
        ]
    return PolicyChange(*found)


def summarize_policy_change(found: PolicyChange) -> dict[str, Any]:
    """Returns the numbers of Figure 16, with tasks as units.

    Returns:
      "random", "first" and "last", each with `median_kl`, of the updates of a life, `spike`, the
      largest over the median of a life, `lives` and `failed_lives`; and "last_over_random" and
      "last_over_first", how many times as large the two are in the same task. Each number is the
      median over lives, with `ci95`; lives that failed under a loss are left out.
    """
    known = {stage: np.isfinite(getattr(found, stage)).all(axis=1) for stage in STAGES}
    by_life = {stage: per_life(getattr(found, stage)) for stage in STAGES}
    summary: dict[str, Any] = {
        stage: {
            **{name: _median(values[known[stage]]) for name, values in by_life[stage].items()},
            "lives": len(known[stage]),
            "failed_lives": int((~known[stage]).sum()),
        }
        for stage in STAGES
    }
    for earlier in STAGES[:-1]:
        both = known[earlier] & known["last"]
        summary[f"last_over_{earlier}"] = {
            name: _median(values[both] / by_life[earlier][name][both])
            for name, values in by_life["last"].items()
        }
    return summary


def per_life(kl: Array) -> dict[str, Array]:
    """Returns of [L, T] divergences, for each life, "median_kl", over its updates, and "spike", the
    largest over the median: [L] each.
    """
    median = np.median(kl, axis=1)
    return {"median_kl": median, "spike": np.max(kl, axis=1) / median}


def policy_change_rows(found: PolicyChange) -> list[dict[str, float | int | str]]:
    """Returns the tidy table: one row per stage, life and update (from 1)."""
    return [
        {"stage": stage, "life": life, "update": update + 1, "kl": float(kl)}
        for stage in STAGES
        for (life, update), kl in np.ndenumerate(getattr(found, stage))
    ]


def _median(values: Array) -> dict[str, Any]:
    if not len(values):
        return {"median": float("nan"), "ci95": (-np.inf, np.inf)}
    return {"median": float(np.median(values)), "ci95": median_interval(values)}
