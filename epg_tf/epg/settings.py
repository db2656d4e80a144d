"""Every setting of a run of EPG (Houthooft et al. 2018), and what must fit together."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator
from typing import Literal

from epg_tf.agents.settings import PolicyConfig
from epg_tf.core.settings import (
    Count,
    Natural,
    NonNegative,
    Settings,
    Threads,
    setting,
)
from epg_tf.epg.baseline_settings import PPOConfig, ReinforceConfig, SACConfig, TD3Config
from epg_tf.epg.evolution_settings import EvolutionConfig, MixConfig, PastConfig
from epg_tf.losses.settings import LossConfig, SurrogateConfig
from epg_tf.tasks.settings import Physics, TaskConfig


@dataclasses.dataclass(frozen=True)
class InnerConfig(Settings):
    """One life (Algorithm 2)."""

    updates: Natural = setting(
        128, "U / M, updates of the policy in a life; 0: its final episodes alone"
    )
    update_period: Count = setting(64, "M, env steps between updates")
    minibatch: Count = setting(32, "B, env steps")
    learning_rate: NonNegative = setting(1e-3, "delta_in, of Adam with beta 0.9 and 0.999")
    kl_limit: NonNegative = setting(
        0.0,
        "nats; an update by a learned loss that causes a larger KL divergence of the policy is "
        "shortened; 0: no limit",
    )
    final_episodes: Count = setting(
        3, "with the final policy; their mean return is the fitness of the life"
    )
    centred_observations: bool = setting(
        True,
        "whether the normalisation of observations subtracts their running mean, as in the paper; "
        "without it they are divided by their root mean square, and zero stays zero",
    )


@dataclasses.dataclass(frozen=True)
class ComputeConfig(Settings):
    """How lives are distributed over the machine."""

    shard_lives: Count = setting(
        32, "P, lives computed together; results depend on it, to rounding"
    )
    threads: Threads = setting(0, "shards computed at once; 0: one per CPU; no effect on results")
    parallel: Literal["processes", "threads"] = setting(
        "processes",
        "what computes the shards but the first of those computed at once; threads wait for each "
        "other in Python, processes take half a GB each; no effect on results",
    )


@dataclasses.dataclass(frozen=True)
class Experiment(Settings):
    """Everything that decides a run, except its seed."""

    task: TaskConfig = TaskConfig()
    policy: PolicyConfig = PolicyConfig()
    loss: LossConfig = LossConfig()
    inner: InnerConfig = InnerConfig()
    surrogate: SurrogateConfig = SurrogateConfig()
    evolution: EvolutionConfig = EvolutionConfig()
    compute: ComputeConfig = ComputeConfig()
    ppo: PPOConfig = PPOConfig()
    reinforce: ReinforceConfig = ReinforceConfig()
    sac: SACConfig = SACConfig()
    td3: TD3Config = TD3Config()
    mix: MixConfig = MixConfig()
    past: PastConfig = PastConfig()

    @property
    def tasks(self) -> tuple[TaskConfig, ...]:
        """What the lives of evolution are spread over: `task`, then those of the mix."""
        mix = self.mix
        each = zip(mix.families, mix.frame_skips, mix.episode_limits, mix.physics, strict=True)
        others = (
            TaskConfig(family, frame_skip, limit, physics=physics)
            for family, frame_skip, limit, physics in each
        )
        return (self.task, *others)

    def of_task(self, number: int) -> Experiment:
        """Returns the same experiment in one of its `tasks` alone."""
        return dataclasses.replace(self, task=self.tasks[number], mix=MixConfig())

    @property
    def life_steps(self) -> int:
        """U, env steps in a life without its final episodes."""
        return self.inner.updates * self.inner.update_period

    @property
    def learns(self) -> bool:
        """Whether agents change in their lives; others act from the same policy to the end."""
        return self.inner.updates > 0 and self.inner.learning_rate > 0.0

    def in_physics(self, physics: Physics) -> Experiment:
        """Returns the same experiment in other physics."""
        return dataclasses.replace(self, task=dataclasses.replace(self.task, physics=physics))

    def conflicts(self) -> Iterator[str]:
        """Yields a line for all that does not fit together between the groups."""
        inner, several = self.inner, bool(self.mix.families)
        if inner.update_period % inner.minibatch:
            yield (
                f"config.inner.minibatch={inner.minibatch} does not divide config.inner."
                f"update_period={inner.update_period}; every step is used exactly once, so choose "
                "a divisor"
            )
        if self.loss.buffer_steps < inner.update_period:
            yield (
                f"config.loss.buffer_steps={self.loss.buffer_steps} is below config.inner."
                f"update_period={inner.update_period}; the loss must see all the steps it scores, "
                "so set N >= M"
            )
        yield from self._moves_conflicts()
        if several:
            yield from self.mix.conflicts_with(self.evolution, self.loss)
        yield from self.past.conflicts_with(self.evolution, several)
        yield from self._length_conflicts()

    def _moves_conflicts(self) -> Iterator[str]:
        evolution, updates = self.evolution, self.inner.updates
        if evolution.moves != "initialisation" and not updates:
            yield "config.inner.updates=0 uses no loss; set config.evolution.moves='initialisation'"
        taught = min(evolution.guidance, evolution.final_guidance) == 1.0
        if evolution.moves == "initialisation" and updates and not taught:
            yield (
                "config.evolution.moves='initialisation' has no loss; set config.inner.updates="
                f"{updates} to 0, or config.evolution.guidance and final_guidance to 1.0"
            )

    def _length_conflicts(self) -> Iterator[str]:
        evolution, updates = self.evolution, self.inner.updates
        lengths = [
            ("evolution.shortest_life", evolution.shortest_life),
            ("evolution.longest_life", evolution.longest_life),
            ("inner.updates", updates),
        ]
        given = [length for length in lengths if length[1] or length[0] == "inner.updates"]
        for (name, less), (other, more) in itertools.pairwise(given):
            if less > more:
                yield (
                    f"config.{name}={less} is above config.{other}={more}; lower the first, or "
                    "raise the second"
                )
        steps = evolution.life_lengths(updates)[0] * self.inner.update_period
        limit = max(task.episode_limit for task in self.tasks)
        if evolution.fitness_from != "final_episodes" and steps < limit:
            several = self.mix.families
            longest = "an episode of the mix up to " if several else "config.task.episode_limit="
            yield (
                f"config.evolution.fitness_from={evolution.fitness_from!r} needs an episode that "
                f"ends within the life; the shortest life has {steps} env steps, {longest}{limit}; "
                "lengthen lives, shorten episodes, or set fitness_from='final_episodes'"
            )
