"""Holds the settings of the outer loop of EPG (Algorithm 1), a group of `experiment.Experiment`."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator
from typing import Annotated, Literal

from epg_tf.core.fields import (
    AtLeastTwo,
    Count,
    Natural,
    NonNegative,
    Positive,
    Share,
    means,
)

Moves = Literal["loss", "initialisation", "both"]  # what evolution moves
PLAYED_FOR = ("final_episodes", "weighted")  # `fitness_from` that needs final episodes


@dataclasses.dataclass(frozen=True)
class EvolutionConfig:
    """The outer loop (Algorithm 1)."""

    moves: Annotated[
        Moves, means("what evolution moves; initialisation: the policy that all lives start from")
    ] = "loss"
    epochs: Annotated[Count, means("E, steps of the outer loop")] = 5000
    lives: Annotated[Count, means("W, lives in an epoch")] = 256
    noise_vectors: Annotated[AtLeastTwo, means("V, perturbations of phi in an epoch")] = 64
    sigma: Annotated[Positive, means("standard deviation of the noise on phi, at epoch 0")] = 0.01
    final_sigma: Annotated[
        NonNegative, means("sigma after learning_rate_epochs of annealing; 0: it stays as it is")
    ] = 0.0
    antithetic: Annotated[bool, means("whether noise comes in pairs +epsilon, -epsilon")] = False
    common_random_numbers: Annotated[
        bool, means("whether the two lives of a pair differ in phi alone; needs antithetic")
    ] = False
    fitness: Annotated[
        Literal["rank", "raw", "rank_in_pair"],
        means(
            "of a noise vector: rank of its mean return, the mean return, or the mean of its "
            "lives' ranks within their pair"
        ),
    ] = "rank"
    fitness_from: Annotated[
        Literal["final_episodes", "last_episodes", "whole_life", "weighted"],
        means(
            "episodes whose mean return is the fitness of a life; last_episodes: the newest "
            "inner.final_episodes of the life itself; weighted: the final ones, and those of the "
            "life with weights that rise with time, as in the first version of the paper"
        ),
    ] = "final_episodes"
    shortest_life: Annotated[
        Natural,
        means(
            "updates; the lives of an epoch have a log-uniform number from this to the longest; "
            "0: all have that"
        ),
    ] = 0
    longest_life: Annotated[
        Natural,
        means(
            "updates in lives of evolution at most; validation and tests have inner.updates; 0: "
            "evolution has them, too"
        ),
    ] = 0
    learning_rate: Annotated[
        Positive, means("delta_out, of Adam with beta 0 and 0.999, at epoch 0")
    ] = 1e-2
    final_learning_rate: Annotated[Positive, means("after annealing")] = 1e-3
    learning_rate_epochs: Annotated[
        Natural, means("epochs of linear annealing of the learning rate, and of sigma")
    ] = 2000
    l2: Annotated[NonNegative, means("coefficient of |phi|^2 / 2 in the outer objective")] = 1e-3
    guidance: Annotated[
        Share, means("alpha at epoch 0, share of the surrogate in the loss of an agent")
    ] = 1.0
    final_guidance: Annotated[Share, means("alpha after annealing")] = 0.0
    guidance_epochs: Annotated[Natural, means("epochs of linear annealing of alpha")] = 500
    validation_period: Annotated[
        Natural, means("epochs between tests of phi without noise; 0: no tests")
    ] = 50
    validation_lives: Annotated[Count, means("lives in such a test")] = 64
    failed_epochs: Annotated[
        Natural, means("epochs in a row whose lives all fail that end the run; 0: none do")
    ] = 3

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


def life_length_conflicts(evolution: EvolutionConfig, updates: int) -> Iterator[str]:
    """Yields a line for each length of lives that is above what it must not exceed.

    Args:
      evolution: Settings.
      updates: `inner.updates`.
    """
    lengths = {
        "evolution.shortest_life": evolution.shortest_life,
        "evolution.longest_life": evolution.longest_life,
        "inner.updates": updates,
    }
    given = [(name, value) for name, value in lengths.items() if value or name == "inner.updates"]
    for (name, less), (other, more) in itertools.pairwise(given):
        if less > more:
            yield (
                f"config.{name}={less} is above config.{other}={more}; lower the first, or raise "
                "the second"
            )


def evolution_conflicts(evolution: EvolutionConfig) -> Iterator[str]:
    """Yields a line for all that does not fit together."""
    if evolution.lives % evolution.noise_vectors:
        yield (
            f"config.evolution.noise_vectors={evolution.noise_vectors} does not divide "
            f"config.evolution.lives={evolution.lives}; each vector needs equally many lives"
        )
    if evolution.antithetic and evolution.noise_vectors % 2:
        yield (
            f"config.evolution.noise_vectors={evolution.noise_vectors} must be even for "
            "config.evolution.antithetic=True"
        )
    if evolution.common_random_numbers and not evolution.antithetic:
        yield (
            "config.evolution.common_random_numbers=True needs config.evolution.antithetic=True, "
            "because the two lives of a pair share the numbers"
        )
    if evolution.final_sigma > evolution.sigma:
        yield (
            f"config.evolution.final_sigma={evolution.final_sigma} is above config.evolution.sigma="
            f"{evolution.sigma}, and the noise becomes smaller; choose at most that, or 0"
        )
    if evolution.final_sigma and not evolution.learning_rate_epochs:
        yield (
            f"config.evolution.final_sigma={evolution.final_sigma} needs epochs to anneal in; set "
            "config.evolution.learning_rate_epochs, or final_sigma to 0"
        )
    if evolution.fitness == "rank_in_pair" and not evolution.common_random_numbers:
        yield (
            "config.evolution.fitness='rank_in_pair' compares lives that differ in phi alone; set "
            "config.evolution.common_random_numbers=True"
        )
