"""Holds every setting of an experiment of EPG (Houthooft et al. 2018), each with its type, bounds,
meaning and default, and checks what must fit together.

Files in `configs/` and launch flags speak of these as `config.GROUP.FIELD`. Outside `launch/` they
travel as the frozen dataclasses below. `from_mapping` checks all it reads; check an `Experiment`
that is built by hand with `validate`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Annotated, Any, Literal

from epg_tf.core import fields
from epg_tf.core.errors import ConfigError
from epg_tf.core.evolution_settings import (
    EvolutionConfig,
    evolution_conflicts,
    life_length_conflicts,
)
from epg_tf.core.fields import (
    Count,
    Natural,
    NonNegative,
    Number,
    Positive,
    Share,
    Threads,
    means,
)
from epg_tf.core.loss_settings import LossConfig, loss_conflicts
from epg_tf.core.mix_settings import MixConfig, Physics, mix_conflicts
from epg_tf.core.past_settings import PastConfig, past_conflicts
from epg_tf.core.rival_settings import PPOConfig, ReinforceConfig, SACConfig, TD3Config


@dataclasses.dataclass(frozen=True)
class TaskConfig:
    """Which MDPs agents live in."""

    family: Annotated[str, means("name of a task family, or gymnasium:ID")] = "point_goal"
    frame_skip: Annotated[
        Count, means("physics steps per env step, of the body's own timestep")
    ] = 2
    episode_limit: Annotated[Count, means("env steps in an episode, at most")] = 50
    range: Annotated[
        str,
        means("of the tasks: training, out_of_distribution, nominal, or NAME=LOW:HIGH,..."),
    ] = "training"
    physics: Annotated[
        Physics,
        means(
            "of evolution; exact: integrator and timestep of the body; coarse: faster ones, which "
            "the family declares; validation and tests are in exact physics"
        ),
    ] = "exact"


@dataclasses.dataclass(frozen=True)
class PolicyConfig:
    """The agent's policy: Gaussian; categorical where actions are discrete (EPG, section 3.3)."""

    hidden: Annotated[tuple[Count, ...], means("units of each hidden layer")] = (64, 64)
    activation: Annotated[
        Literal["tanh", "relu", "elu", "selu", "swish"], means("of the hidden layers, as in Keras")
    ] = "tanh"
    log_std: Annotated[
        Number,
        means(
            "log of the standard deviation of a new Gaussian policy; learned, the same in all "
            "states unless state_dependent_std"
        ),
    ] = 0.0
    state_dependent_std: Annotated[
        bool,
        means("whether the network also returns log_std, for each state, as in the first paper"),
    ] = False
    output_scale: Annotated[
        Positive, means("norm of the columns of a new policy's last kernel")
    ] = 0.01
    observation_pairs: Annotated[
        bool,
        means(
            "whether the network also sees the products of all pairs of components of the "
            "normalised observation; not in the papers"
        ),
    ] = False


@dataclasses.dataclass(frozen=True)
class InnerConfig:
    """One life (Algorithm 2)."""

    updates: Annotated[
        Natural, means("U / M, updates of the policy in a life; 0: its final episodes alone")
    ] = 128
    update_period: Annotated[Count, means("M, env steps between updates")] = 64
    minibatch: Annotated[Count, means("B, env steps")] = 32
    learning_rate: Annotated[NonNegative, means("delta_in, of Adam with beta 0.9 and 0.999")] = 1e-3
    kl_limit: Annotated[
        NonNegative,
        means(
            "nats; an update by a learned loss that causes a larger KL divergence of the policy is "
            "shortened; 0: no limit"
        ),
    ] = 0.0
    final_episodes: Annotated[
        Count, means("with the final policy; their mean return is the fitness of the life")
    ] = 3
    centred_observations: Annotated[
        bool,
        means(
            "whether the normalisation of observations subtracts their running mean, as in the "
            "paper; without it they are divided by their root mean square, and zero stays zero"
        ),
    ] = True


@dataclasses.dataclass(frozen=True)
class SurrogateConfig:
    """The policy-gradient loss that guides evolution and is a baseline (EPG, Eq. 10; PPO, Schulman
    et al. 2017).
    """

    kind: Annotated[
        Literal["ppo", "reinforce", "reinforce_with_values"], means("which policy-gradient loss")
    ] = "ppo"
    discount: Annotated[Share, means("gamma, per env step")] = 0.99
    gae_lambda: Annotated[Share, means("lambda of generalized advantage estimation")] = 0.95
    clip: Annotated[Positive, means("epsilon, of the probability ratio")] = 0.2
    kl_coefficient: Annotated[NonNegative, means("of the KL divergence in the loss")] = 0.001
    value_coefficient: Annotated[NonNegative, means("of the value's error in the loss")] = 1.0
    value_hidden: Annotated[
        tuple[Count, ...], means("units of each hidden layer of the value network")
    ] = (64, 64)
    baseline_learning_rate: Annotated[
        Positive, means("of PPO with EPG's M as a baseline; epg-tf tune finds it")
    ] = 1e-3
    baseline_epochs: Annotated[
        Count,
        means("of PPO with EPG's M as a baseline, over each M steps; epg-tf tune finds it"),
    ] = 1


@dataclasses.dataclass(frozen=True)
class ComputeConfig:
    """How lives are distributed over the machine."""

    shard_lives: Annotated[
        Count, means("P, lives computed together; results depend on it, to rounding")
    ] = 32
    threads: Annotated[
        Threads, means("shards computed at once; 0: one per CPU; no effect on results")
    ] = 0
    parallel: Annotated[
        Literal["processes", "threads"],
        means(
            "what computes the shards but the first of those computed at once; threads wait for "
            "each other in Python, processes take half a GB each; no effect on results"
        ),
    ] = "processes"


@dataclasses.dataclass(frozen=True)
class Experiment:
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

    def to_mapping(self) -> dict[str, dict[str, Any]]:
        """Returns the settings as nested dictionaries."""
        return dataclasses.asdict(self)


def from_mapping(mapping: Any) -> Experiment:
    """Returns an `Experiment` read from nested mappings; missing fields take their defaults.

    Raises:
      ConfigError: A name is unknown, a value has the wrong type or is out of bounds, or settings do
        not fit together.
    """
    experiment = fields.read(Experiment, mapping)
    _check_together(experiment)
    return experiment


def validate(experiment: Experiment) -> None:
    """Checks types, bounds, choices and what must fit together; errors as of `from_mapping`."""
    from_mapping(experiment.to_mapping())


def _check_together(experiment: Experiment) -> None:
    for conflicts in (
        _inner_conflicts(experiment),
        loss_conflicts(experiment.loss),
        evolution_conflicts(experiment.evolution),
        _moves_conflicts(experiment),
        mix_conflicts(experiment.mix, experiment.evolution, experiment.loss.shared_over_actions),
        past_conflicts(experiment.past, experiment.evolution, bool(experiment.mix.families)),
        _lifetime_conflicts(experiment),
    ):
        for conflict in conflicts:
            raise ConfigError(conflict)


def _inner_conflicts(experiment: Experiment) -> Iterator[str]:
    inner, steps = experiment.inner, experiment.loss.buffer_steps
    if inner.update_period % inner.minibatch:
        yield (
            f"config.inner.minibatch={inner.minibatch} does not divide config.inner.update_period="
            f"{inner.update_period}; every step is used exactly once, so choose a divisor"
        )
    if steps < inner.update_period:
        yield (
            f"config.loss.buffer_steps={steps} is below config.inner.update_period="
            f"{inner.update_period}; the loss must see all the steps it scores, so set N >= M"
        )


def _moves_conflicts(experiment: Experiment) -> Iterator[str]:
    evolution, updates = experiment.evolution, experiment.inner.updates
    if evolution.moves != "initialisation" and not updates:
        yield "config.inner.updates=0 uses no loss; set config.evolution.moves='initialisation'"
    taught = min(evolution.guidance, evolution.final_guidance) == 1.0
    if evolution.moves == "initialisation" and updates and not taught:
        yield (
            "config.evolution.moves='initialisation' has no loss; set config.inner.updates="
            f"{updates} to 0, or config.evolution.guidance and final_guidance to 1.0"
        )


def _lifetime_conflicts(experiment: Experiment) -> Iterator[str]:
    evolution, inner = experiment.evolution, experiment.inner
    shortest, _ = evolution.life_lengths(inner.updates)
    steps = shortest * inner.update_period
    limit, several = max(task.episode_limit for task in experiment.tasks), experiment.mix.families
    yield from life_length_conflicts(evolution, inner.updates)
    if evolution.fitness_from != "final_episodes" and steps < limit:
        yield (
            f"config.evolution.fitness_from={evolution.fitness_from!r} needs an episode that ends "
            f"within the life; the shortest life has {steps} env steps, "
            f"{'an episode of the mix up to ' if several else 'config.task.episode_limit='}{limit}"
            "; lengthen lives, shorten episodes, or set fitness_from='final_episodes'"
        )
