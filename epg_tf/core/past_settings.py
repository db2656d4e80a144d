"""Holds the settings of lives that start from policies of earlier epochs, a group of
`experiment.Experiment`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Annotated

from epg_tf.core.evolution_settings import EvolutionConfig
from epg_tf.core.fields import Count, Natural, Share, means


@dataclasses.dataclass(frozen=True)
class PastConfig:
    """Lives that start where lives of earlier epochs ended, for losses that go on teaching beyond
    the length of a life (EPG, section 4.3, Figure 12 B).
    """

    policies: Annotated[
        Natural, means("final policies of earlier epochs that are kept, the newest; 0: none")
    ] = 0
    share: Annotated[
        Share, means("probability that a life of evolution starts from one of them")
    ] = 0.5
    per_epoch: Annotated[
        Count, means("lives of an epoch whose final policies are kept, evenly spread over them")
    ] = 4


def past_conflicts(past: PastConfig, evolution: EvolutionConfig, several: bool) -> Iterator[str]:
    """Yields a line for all that does not fit together.

    Args:
      past: Settings.
      evolution: Settings of the outer loop.
      several: Whether lives are in several families.
    """
    if not past.policies:
        if past != PastConfig():
            yield (
                f"config.past.share={past.share} and config.past.per_epoch={past.per_epoch} choose "
                "between earlier policies, and none are kept; set config.past.policies too"
            )
        return
    kept = f"config.past.policies={past.policies}"
    if several:
        yield f"{kept} needs policies of one size; set it to 0, or config.mix.families=()"
    if evolution.moves == "initialisation":
        yield (
            f"{kept} lets lives start from other policies than the one that config.evolution.moves="
            "'initialisation' moves; set it to 0, or moves to 'loss'"
        )
    limits = {"config.past.policies": past.policies, "config.evolution.lives": evolution.lives}
    for name, limit in limits.items():
        if past.per_epoch > limit:
            yield (
                f"config.past.per_epoch={past.per_epoch} is above {name}={limit}; lower "
                f"config.past.per_epoch, or raise {name}"
            )
