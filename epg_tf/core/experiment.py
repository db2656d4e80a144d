"""Holds every setting of an experiment, with its default, its meaning and the checks that refuse
what cannot work.

Files in `configs/` and launch flags speak of these as `config.GROUP.FIELD`. Outside `launch/` they
travel as the frozen dataclasses below. `validate` is called by `from_mapping`; whoever builds an
`Experiment` by hand calls it too.
"""

from __future__ import annotations

import dataclasses
import math
import types
import typing
from collections.abc import Mapping
from typing import Any

from epg_tf.core.errors import ConfigError
from epg_tf.core.parallel_layers import convolution_length

LARGEST = 1e7  # what no setting needs to exceed


@dataclasses.dataclass(frozen=True)
class TaskConfig:
    """Which MDPs agents live in."""

    family: str = "point_goal"  # name in tasks/registry.py, or "gymnasium:ID"
    frame_skip: int = 2  # physics steps per env step
    episode_limit: int = 50  # env steps
    range: str = "training"  # or "out_of_distribution", "nominal" or "NAME=LOW:HIGH,..."; see tasks/quantities.py


@dataclasses.dataclass(frozen=True)
class PolicyConfig:
    """The agent's policy: Gaussian, or categorical where actions are discrete (EPG, section 3.3)."""

    hidden: tuple[int, ...] = (64, 64)
    activation: str = "tanh"  # Keras name
    log_std: float = (
        0.0  # of a fresh policy; state-independent and learned. A categorical policy has none
    )
    output_scale: float = 0.01  # column norm of a fresh policy's last kernel


@dataclasses.dataclass(frozen=True)
class LossConfig:
    """The learned loss (EPG, sections 3.3 and 4)."""

    buffer_steps: int = 512  # N
    reward: bool = False  # whether the loss declares the reward among its inputs
    widths: tuple[int, int] = (8, 4)  # of the temporal convolutions, in steps
    strides: tuple[int, int] = (7, 2)
    filters: tuple[int, int] = (10, 10)
    context: int = 32  # units of the third layer
    pooling: str = "flatten"  # before the third layer; "mean" frees the parameters from N
    head: int = 16  # hidden units of the per-step head
    leaky_slope: float = 0.2  # of every leaky ReLU
    reduction: str = "mean"  # of per-step losses over a minibatch; "sum" as printed in Algorithm 1
    memory_units: int = 32  # 0 switches the memory unit off
    memory_inputs: int = 64  # ones fed to the memory unit; more make it quicker to write
    start: str = "random"  # of phi; or "centred": a fresh loss holds the policy's means at zero; or "correlating": and
    #                        its context begins as correlations of the declared reward with features
    # of the observation
    truncation_as_end: bool = True  # whether the termination channel marks time limits too


@dataclasses.dataclass(frozen=True)
class InnerConfig:
    """One life (Algorithm 2)."""

    updates: int = 128  # U / M
    update_period: int = 64  # M, env steps
    minibatch: int = 32  # B, env steps
    learning_rate: float = 1e-3  # delta_in, of Adam with beta 0.9, 0.999
    final_episodes: int = 3  # with the final policy; their mean return is the life's fitness


@dataclasses.dataclass(frozen=True)
class SurrogateConfig:
    """The policy-gradient loss that guides evolution and is compared with (EPG, Eq. 10; PPO,
    Schulman et al. 2017).
    """

    kind: str = "ppo"  # or "reinforce"
    discount: float = 0.99  # gamma
    gae_lambda: float = 0.95
    clip: float = 0.2
    kl_coefficient: float = 0.001
    value_coefficient: float = 1.0
    value_hidden: tuple[int, ...] = (64, 64)
    baseline_learning_rate: float = 1e-3  # of PPO as a baseline; tuned by launch.tune_baseline
    baseline_epochs: int = 1  # over each M steps, of PPO as a baseline; tuned likewise


@dataclasses.dataclass(frozen=True)
class EvolutionConfig:
    """The outer loop (Algorithm 1)."""

    epochs: int = 5000  # E
    lives: int = 256  # W
    noise_vectors: int = 64  # V
    sigma: float = 0.01  # deviation of the noise on phi
    antithetic: bool = False  # vectors come in pairs +eps, -eps
    common_random_numbers: bool = (
        False  # the two lives of a pair differ in phi alone; needs antithetic
    )
    tasks: int = 0  # different lives (task, initialisation, noise) an epoch, each met by several vectors; 0: one a pair
    fitness: str = "rank"  # or "raw", or "rank_in_task" or "rank_in_pair" of single lives, then averaged per vector
    fitness_from: str = "final_episodes"  # or "last_episodes": as many, the newest of the life itself; or "whole_life"
    shortest_life: int = (
        0  # updates; lives of an epoch have a log-uniform number from it to inner.updates; 0: all
    )
    learning_rate: float = 1e-2  # delta_out, of Adam with beta 0, 0.999, at epoch 0
    final_learning_rate: float = 1e-3
    learning_rate_epochs: int = 2000  # of linear annealing between the two
    l2: float = 1e-3  # coefficient of |phi|^2 / 2 in the outer objective
    guidance: float = 1.0  # alpha at epoch 0
    final_guidance: float = 0.0
    guidance_epochs: int = 500  # of linear annealing between the two
    validation_period: int = 50  # epochs between tests of the unperturbed phi
    validation_lives: int = 64
    diagnosis_period: int = (
        0  # epochs between those whose lives are lived twice, for `pair_correlation`; 0: never
    )


@dataclasses.dataclass(frozen=True)
class ComputeConfig:
    """How lives are laid onto the machine."""

    shard_lives: int = 32  # P; part of the numbers, as threads and ranks are not
    threads: int = 0  # shards run at once; 0: one per CPU this process may use


@dataclasses.dataclass(frozen=True)
class Experiment:
    """Everything that decides a run, but its seed."""

    task: TaskConfig = TaskConfig()
    policy: PolicyConfig = PolicyConfig()
    loss: LossConfig = LossConfig()
    inner: InnerConfig = InnerConfig()
    surrogate: SurrogateConfig = SurrogateConfig()
    evolution: EvolutionConfig = EvolutionConfig()
    compute: ComputeConfig = ComputeConfig()

    @property
    def life_steps(self) -> int:
        """U, env steps in a life without its final episodes."""
        return self.inner.updates * self.inner.update_period

    def to_mapping(self) -> dict[str, dict[str, Any]]:
        """Returns the settings as nested dictionaries."""
        return dataclasses.asdict(self)


def from_mapping(mapping: Mapping[str, Mapping[str, Any]]) -> Experiment:
    """Builds a validated `Experiment` from nested dictionaries; missing fields take their defaults.

    Raises:
      ConfigError: A key is unknown, a value has the wrong type, or the settings do not fit
      together.
    """
    if not isinstance(mapping, Mapping):
        raise ConfigError(f"config={mapping!r} is not a mapping of groups of settings")
    groups = {}
    hints = typing.get_type_hints(Experiment)
    for group, values in mapping.items():
        if group not in hints:
            raise ConfigError(
                f"config.{group} is not a group of settings; there are {sorted(hints)}"
            )
        groups[group] = hints[group](**typed_fields(group, hints[group], values))
    experiment = Experiment(**groups)
    validate(experiment)
    return experiment


def typed_fields(group: str, kind: type, values: Any) -> dict[str, Any]:
    """Checks the fields of one group against the dataclass `kind`; returns them in the types that
    it declares.

    Raises:
      ConfigError: One of them is unknown, or its value has the wrong type.
    """
    if not isinstance(values, Mapping):
        raise ConfigError(
            f"config.{group}={values!r} is not a group; set its fields, e.g. "
            f"config.{group}.FIELD=VALUE"
        )
    hints, fields = typing.get_type_hints(kind), {}
    for name, value in values.items():
        if name not in hints:
            raise ConfigError(
                f"config.{group}.{name} is not a setting; config.{group} has {sorted(hints)}"
            )
        fields[name] = typed(f"config.{group}.{name}", hints[name], value)
    return fields


def typed(field: str, hint: Any, value: Any) -> Any:
    """Returns the value of one field, called `field` in messages, in the type `hint`.

    Raises:
      ConfigError: It has the wrong type, is not finite, or is larger than any setting need be.
    """
    if isinstance(hint, types.GenericAlias):
        inner = typing.get_args(hint)
        any_length = len(inner) == 2 and inner[1] is Ellipsis
        if not isinstance(value, (tuple, list)) or not (any_length or len(value) == len(inner)):
            shape = "a tuple" if any_length else f"a tuple of {len(inner)}"
            raise ConfigError(f"{field}={value!r} must be {shape} of {inner[0].__name__} values")
        return tuple(typed(f"{field}[{i}]", inner[0], part) for i, part in enumerate(value))
    if isinstance(value, (int, float)) and LARGEST < abs(value) < math.inf:
        raise ConfigError(f"{field}={str(value)[:12]} is too large; set it to at most {LARGEST:g}")
    if hint is float and isinstance(value, int) and not isinstance(value, bool):
        value = float(value)
    if not isinstance(value, hint) or (isinstance(value, bool) and hint is not bool):
        raise ConfigError(
            f"{field}={value!r} must be of type {hint.__name__}, not {type(value).__name__}"
        )
    if hint is float and not math.isfinite(value):
        raise ConfigError(f"{field}={value!r} must be a finite number")
    return value


def validate(experiment: Experiment) -> None:
    """Checks ranges, choices and what must fit together.

    Raises:
      ConfigError: Names the first setting that is unusable.
    """
    for group, fields in experiment.to_mapping().items():
        for name, value in fields.items():
            _check_range(f"config.{group}.{name}", (group, name), value)
    if experiment.compute.threads > 1024:
        raise ConfigError(
            f"config.compute.threads={experiment.compute.threads} is above 1024; 0 means one per "
            "CPU"
        )
    _check_inner(experiment)
    _check_loss(experiment.loss)
    _check_evolution(experiment)


_MAY_BE_ZERO = {
    ("loss", "memory_units"),
    ("loss", "leaky_slope"),
    ("surrogate", "discount"),
    ("surrogate", "gae_lambda"),
    ("surrogate", "kl_coefficient"),
    ("surrogate", "value_coefficient"),
    ("evolution", "l2"),
    ("evolution", "guidance"),
    ("evolution", "final_guidance"),
    ("evolution", "guidance_epochs"),
    ("evolution", "learning_rate_epochs"),
    ("evolution", "validation_period"),
    ("evolution", "tasks"),
    ("evolution", "shortest_life"),
    ("evolution", "diagnosis_period"),
    ("compute", "threads"),
    ("inner", "learning_rate"),
}
_AT_MOST_ONE = {
    ("loss", "leaky_slope"),
    ("surrogate", "discount"),
    ("surrogate", "gae_lambda"),
    ("evolution", "guidance"),
    ("evolution", "final_guidance"),
}
_CHOICES = {
    ("policy", "activation"): ("tanh", "relu", "elu", "selu", "swish"),
    ("loss", "pooling"): ("flatten", "mean"),
    ("loss", "reduction"): ("mean", "sum"),
    ("loss", "start"): ("random", "centred", "correlating"),
    ("surrogate", "kind"): ("ppo", "reinforce"),
    ("evolution", "fitness"): ("rank", "raw", "rank_in_task", "rank_in_pair"),
    ("evolution", "fitness_from"): ("final_episodes", "last_episodes", "whole_life"),
}


def _check_range(field: str, key: tuple[str, str], value: Any) -> None:
    if key in _CHOICES and value not in _CHOICES[key]:
        raise ConfigError(f"{field}={value!r} is unknown; choose one of {list(_CHOICES[key])}")
    if isinstance(value, (bool, str)) or key == ("policy", "log_std"):
        return
    for number in value if isinstance(value, tuple) else (value,):
        if number < 0 or (number == 0 and key not in _MAY_BE_ZERO):
            raise ConfigError(
                f"{field}={value!r} must be {'at least 0' if key in _MAY_BE_ZERO else 'above 0'}"
            )
    if key in _AT_MOST_ONE and value > 1:
        raise ConfigError(f"{field}={value!r} must be at most 1")


def _check_inner(experiment: Experiment) -> None:
    inner, steps = experiment.inner, experiment.loss.buffer_steps
    if inner.update_period % inner.minibatch:
        raise ConfigError(
            f"config.inner.minibatch={inner.minibatch} does not divide config.inner.update_period="
            f"{inner.update_period}; every step is used exactly once, so choose a divisor"
        )
    if steps < inner.update_period:
        raise ConfigError(
            f"config.loss.buffer_steps={steps} is below config.inner.update_period="
            f"{inner.update_period}; the loss must see all the steps it scores, so set N >= M"
        )


def _check_loss(loss: LossConfig) -> None:
    steps = loss.buffer_steps
    for width, stride in zip(loss.widths, loss.strides, strict=True):
        steps = convolution_length(steps, width, stride)
    if steps < 1:
        raise ConfigError(
            f"config.loss.buffer_steps={loss.buffer_steps} is too short for convolutions of widths "
            f"{loss.widths} and strides {loss.strides}; lengthen the buffer or shorten the widths"
        )
    if loss.start == "correlating" and not loss.reward:
        raise ConfigError(
            "config.loss.start='correlating' compares the reward with observations; set "
            "config.loss.reward=True, or config.loss.start='centred'"
        )
    if loss.start == "correlating" and (
        loss.filters[0] < 4 or min(loss.filters[1], loss.context) < 2
    ):
        raise ConfigError(
            f"config.loss.start='correlating' takes 4 and 2 filters and 2 units of the context; "
            f"config.loss.filters={loss.filters} and config.loss.context={loss.context} are too few"
        )


def _check_evolution(experiment: Experiment) -> None:
    evolution = experiment.evolution
    if evolution.lives % evolution.noise_vectors:
        raise ConfigError(
            f"config.evolution.noise_vectors={evolution.noise_vectors} does not divide "
            f"config.evolution.lives={evolution.lives}; each vector needs equally many lives"
        )
    if evolution.antithetic and evolution.noise_vectors % 2:
        raise ConfigError(
            f"config.evolution.noise_vectors={evolution.noise_vectors} must be even for "
            f"config.evolution.antithetic=True"
        )
    if evolution.common_random_numbers and not evolution.antithetic:
        raise ConfigError(
            "config.evolution.common_random_numbers=True needs config.evolution.antithetic=True, "
            "for the numbers are common to the two lives of a pair"
        )
    if evolution.noise_vectors < 2:
        raise ConfigError(
            f"config.evolution.noise_vectors={evolution.noise_vectors} gives nothing to compare; "
            "set 2 "
            f"or more"
        )
    _check_comparisons(evolution)
    _check_lifetimes(experiment)


def _check_comparisons(evolution: EvolutionConfig) -> None:
    if evolution.diagnosis_period and not evolution.antithetic:
        raise ConfigError(
            f"config.evolution.diagnosis_period={evolution.diagnosis_period} compares the two "
            "lives of "
            f"pairs; set config.evolution.antithetic=True, or the period to 0"
        )
    different = evolution.lives // 2 if evolution.common_random_numbers else evolution.lives
    if evolution.tasks and different % evolution.tasks:
        raise ConfigError(
            f"config.evolution.tasks={evolution.tasks} does not divide the {different} "
            f"{'pairs of lives' if evolution.common_random_numbers else 'lives'} of an epoch; "
            "each task "
            f"needs equally many"
        )
    if evolution.fitness == "rank_in_pair" and not evolution.common_random_numbers:
        raise ConfigError(
            "config.evolution.fitness='rank_in_pair' compares lives that differ in phi alone; set "
            "config.evolution.common_random_numbers=True"
        )
    if evolution.fitness == "rank_in_task" and not 0 < evolution.tasks <= evolution.lives // 2:
        raise ConfigError(
            f"config.evolution.fitness='rank_in_task' needs lives that share a task; set "
            f"config.evolution.tasks={evolution.tasks} to 1 to {evolution.lives // 2}"
        )


def _check_lifetimes(experiment: Experiment) -> None:
    evolution, inner = experiment.evolution, experiment.inner
    shortest = evolution.shortest_life or inner.updates
    if shortest > inner.updates:
        raise ConfigError(
            f"config.evolution.shortest_life={shortest} is above "
            f"config.inner.updates={inner.updates}"
        )
    if (
        evolution.fitness_from != "final_episodes"
        and shortest * inner.update_period < experiment.task.episode_limit
    ):
        raise ConfigError(
            f"config.evolution.fitness_from={evolution.fitness_from!r} needs an episode that ends "
            "within "
            f"the life; the shortest life has {shortest * inner.update_period} env steps, "
            f"config.task.episode_limit={experiment.task.episode_limit}"
        )
