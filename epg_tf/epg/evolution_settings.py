"""Settings of the outer loop of EPG (Algorithm 1), of the mix of families and of past policies."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Literal

from epg_tf.core.settings import (
    AtLeastTwo,
    Count,
    Natural,
    NonNegative,
    Positive,
    Settings,
    Share,
    setting,
)
from epg_tf.losses.settings import LossConfig
from epg_tf.tasks.settings import Physics

Moves = Literal["loss", "initialisation", "both"]  # what evolution moves
PLAYED_FOR = ("final_episodes", "weighted")  # `fitness_from` that needs final episodes


@dataclasses.dataclass(frozen=True)
class EvolutionConfig(Settings):
    """The outer loop (Algorithm 1)."""

    moves: Moves = setting(
        "loss", "what evolution moves; initialisation: the policy that all lives start from"
    )
    epochs: Count = setting(5000, "E, steps of the outer loop")
    lives: Count = setting(256, "W, lives in an epoch")
    noise_vectors: AtLeastTwo = setting(64, "V, perturbations of phi in an epoch")
    sigma: Positive = setting(0.01, "standard deviation of the noise on phi, at epoch 0")
    final_sigma: NonNegative = setting(
        0.0, "sigma after learning_rate_epochs of annealing; 0: it stays as it is"
    )
    antithetic: bool = setting(False, "whether noise comes in pairs +epsilon, -epsilon")
    common_random_numbers: bool = setting(
        False, "whether the two lives of a pair differ in phi alone; needs antithetic"
    )
    fitness: Literal["rank", "raw", "rank_in_pair"] = setting(
        "rank",
        "of a noise vector: rank of its mean return; raw: that return; rank_in_pair: the mean of "
        "its lives' ranks within their pair",
    )
    fitness_from: Literal["final_episodes", "whole_life", "weighted"] = setting(
        "final_episodes",
        "episodes whose mean return is the fitness of a life; weighted: the final ones, and those "
        "of the life with weights that rise with time, as in the first version of the paper",
    )
    shortest_life: Natural = setting(
        0,
        "updates; the lives of an epoch have a log-uniform number from this to the longest; 0: "
        "all have that",
    )
    longest_life: Natural = setting(
        0,
        "updates in lives of evolution at most; validation and tests have inner.updates; 0: "
        "evolution has them, too",
    )
    learning_rate: Positive = setting(1e-2, "delta_out, of Adam with beta 0 and 0.999, at epoch 0")
    final_learning_rate: Positive = setting(1e-3, "after annealing")
    learning_rate_epochs: Natural = setting(
        2000, "epochs of linear annealing of the learning rate, and of sigma"
    )
    l2: NonNegative = setting(1e-3, "coefficient of |phi|^2 / 2 in the outer objective")
    guidance: Share = setting(
        1.0, "alpha at epoch 0, share of the surrogate in the loss of an agent"
    )
    final_guidance: Share = setting(0.0, "alpha after annealing")
    guidance_epochs: Natural = setting(500, "epochs of linear annealing of alpha")
    validation_period: Natural = setting(
        50, "epochs between tests of phi without noise; 0: no tests"
    )
    validation_lives: Count = setting(64, "lives in such a test")
    failed_epochs: Natural = setting(
        3, "epochs in a row whose lives all fail that end the run; 0: none do"
    )

    def life_lengths(self, updates: int) -> tuple[int, int]:
        """Returns how many updates the shortest and the longest lives of evolution have.

        Args:
          updates: `inner.updates`.
        """
        longest = self.longest_life or updates
        return self.shortest_life or longest, longest

    @property
    def plays_final_episodes(self) -> bool:
        """Whether lives go on with episodes in which they do not learn."""
        return self.fitness_from in PLAYED_FOR

    def conflicts(self) -> Iterator[str]:
        """Yields a line for all that does not fit together."""
        if self.lives % self.noise_vectors:
            yield (
                f"config.evolution.noise_vectors={self.noise_vectors} does not divide "
                f"config.evolution.lives={self.lives}; each vector needs equally many lives"
            )
        if self.antithetic and self.noise_vectors % 2:
            yield (
                f"config.evolution.noise_vectors={self.noise_vectors} must be even for "
                "config.evolution.antithetic=True"
            )
        if self.common_random_numbers and not self.antithetic:
            yield (
                "config.evolution.common_random_numbers=True needs config.evolution.antithetic="
                "True, because the two lives of a pair share the numbers"
            )
        if self.fitness == "rank_in_pair" and not self.common_random_numbers:
            yield (
                "config.evolution.fitness='rank_in_pair' compares lives that differ in phi alone; "
                "set config.evolution.common_random_numbers=True"
            )
        if self.final_sigma > self.sigma:
            yield (
                f"config.evolution.final_sigma={self.final_sigma} is above config.evolution.sigma="
                f"{self.sigma}, and the noise becomes smaller; choose at most that, or 0"
            )
        if self.final_sigma and not self.learning_rate_epochs:
            yield (
                f"config.evolution.final_sigma={self.final_sigma} needs epochs to anneal in; set "
                "config.evolution.learning_rate_epochs, or final_sigma to 0"
            )


@dataclasses.dataclass(frozen=True)
class MixConfig(Settings):
    """Further families that evolution spreads its lives over, beside that of `config.task`.
    These have the range "training", and all else is as in that. It needs a loss that serves any
    body.
    """

    families: tuple[str, ...] = setting(
        (), "names of task families; empty: that of config.task alone"
    )
    frame_skips: tuple[Count, ...] = setting((), "config.task.frame_skip of each")
    episode_limits: tuple[Count, ...] = setting((), "config.task.episode_limit of each")
    physics: tuple[Physics, ...] = setting((), "config.task.physics of each")
    return_units: tuple[Positive, ...] = setting(
        (),
        "fitness and validation are returns divided by these, of config.task's family first, then "
        "of each; empty: 1",
    )

    def conflicts(self) -> Iterator[str]:
        """Yields a line for each tuple of a wrong length."""
        count = len(self.families)
        for name in ("frame_skips", "episode_limits", "physics"):
            if len(values := getattr(self, name)) != count:
                yield (
                    f"config.mix.{name}={values} must have an entry for each of "
                    f"config.mix.families={self.families}"
                )
        if self.return_units and len(self.return_units) != count + 1:
            yield (
                f"config.mix.return_units={self.return_units} must have an entry for "
                f"config.task.family and for each of config.mix.families={self.families}"
            )

    def conflicts_with(self, evolution: EvolutionConfig, loss: LossConfig) -> Iterator[str]:
        """Yields a line for all that does not fit an evolution on several families."""
        named, parts = f"config.mix.families={self.families}", len(self.families) + 1
        if not loss.shared_over_actions or evolution.moves != "loss":
            yield (
                f"{named} needs a loss that serves any body; set config.loss.shared_over_actions="
                "True and config.evolution.moves='loss'"
            )
        if evolution.fitness != "rank_in_pair":
            yield (
                f"{named}: returns of different families cannot be ranked together; set "
                "config.evolution.common_random_numbers=True and "
                "config.evolution.fitness='rank_in_pair'"
            )
        validation = evolution.validation_lives if evolution.validation_period else 0
        for name, number, what in (
            ("lives", evolution.lives // 2, "pairs"),
            ("validation_lives", validation, "lives"),
        ):
            if number % parts:
                yield (
                    f"config.evolution.{name}={getattr(evolution, name)} gives the {parts} "
                    f"families of the mix unequal numbers of {what}; choose another number"
                )


@dataclasses.dataclass(frozen=True)
class PastConfig(Settings):
    """Lives that start where lives of earlier epochs ended, for losses that go on teaching
    beyond the length of a life (EPG, section 4.3, Figure 12 B).
    """

    policies: Natural = setting(
        0, "final policies of earlier epochs that are kept, the newest; 0: none"
    )
    share: Share = setting(0.5, "probability that a life of evolution starts from one of them")
    per_epoch: Count = setting(
        4, "lives of an epoch whose final policies are kept, evenly spread over them"
    )

    def conflicts_with(self, evolution: EvolutionConfig, several: bool) -> Iterator[str]:
        """Yields a line for all that does not fit together.

        Args:
          evolution: Settings of the outer loop.
          several: Whether lives are in several families.
        """
        if not self.policies:
            if self != PastConfig():
                yield (
                    f"config.past.share={self.share} and config.past.per_epoch={self.per_epoch} "
                    "choose between earlier policies, and none are kept; set config.past.policies "
                    "too"
                )
            return
        kept = f"config.past.policies={self.policies}"
        if several:
            yield f"{kept} needs policies of one size; set it to 0, or config.mix.families=()"
        if evolution.moves == "initialisation":
            yield (
                f"{kept} lets lives start from other policies than the one that "
                "config.evolution.moves='initialisation' moves; set it to 0, or moves to 'loss'"
            )
        limits = {"config.past.policies": self.policies, "config.evolution.lives": evolution.lives}
        for name, limit in limits.items():
            if self.per_epoch > limit:
                yield (
                    f"config.past.per_epoch={self.per_epoch} is above {name}={limit}; lower "
                    f"config.past.per_epoch, or raise {name}"
                )
