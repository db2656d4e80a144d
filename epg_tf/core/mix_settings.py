"""Holds the settings of an evolution on several families at once, a group of
`experiment.Experiment`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Annotated, Literal

from epg_tf.core.evolution_settings import EvolutionConfig
from epg_tf.core.fields import Count, Positive, means

Physics = Literal["exact", "coarse"]


@dataclasses.dataclass(frozen=True)
class MixConfig:
    """Further families that evolution spreads its lives over, beside that of `config.task`.
    These have the range "training", and all else is as in that. It needs a loss that serves any
    body.
    """

    families: Annotated[
        tuple[str, ...], means("names of task families; empty: that of config.task alone")
    ] = ()
    frame_skips: Annotated[tuple[Count, ...], means("config.task.frame_skip of each")] = ()
    episode_limits: Annotated[tuple[Count, ...], means("config.task.episode_limit of each")] = ()
    physics: Annotated[tuple[Physics, ...], means("config.task.physics of each")] = ()
    return_units: Annotated[
        tuple[Positive, ...],
        means(
            "fitness and validation are returns divided by these, of config.task's family first, "
            "then of each; empty: 1"
        ),
    ] = ()


def mix_conflicts(
    mix: MixConfig, evolution: EvolutionConfig, shared_over_actions: bool
) -> Iterator[str]:
    """Yields a line for all that does not fit together.

    Args:
      mix: Settings.
      evolution: Settings of the outer loop.
      shared_over_actions: Whether the loss serves any body.
    """
    count = len(mix.families)
    for name in ("frame_skips", "episode_limits", "physics"):
        values = getattr(mix, name)
        if len(values) != count:
            yield (
                f"config.mix.{name}={values} must have an entry for each of config.mix.families="
                f"{mix.families}"
            )
    if mix.return_units and len(mix.return_units) != count + 1:
        yield (
            f"config.mix.return_units={mix.return_units} must have an entry for config.task.family "
            f"and for each of config.mix.families={mix.families}"
        )
    if not count:
        return
    named = f"config.mix.families={mix.families}"
    if not shared_over_actions or evolution.moves != "loss":
        yield (
            f"{named} needs a loss that serves any body; set config.loss.shared_over_actions=True "
            "and config.evolution.moves='loss'"
        )
    if not evolution.common_random_numbers or evolution.fitness != "rank_in_pair":
        yield (
            f"{named}: returns of different families cannot be ranked together; set "
            "config.evolution.common_random_numbers=True and "
            "config.evolution.fitness='rank_in_pair'"
        )
    for name, number in (
        ("lives", evolution.lives // 2),
        ("validation_lives", evolution.validation_lives if evolution.validation_period else 0),
    ):
        if number % (count + 1):
            yield (
                f"config.evolution.{name}={getattr(evolution, name)} gives the {count + 1} "
                f"families of the mix unequal numbers of {'pairs' if name == 'lives' else 'lives'};"
                " choose another number"
            )
