"""Estimates the memory that an experiment of EPG needs, from its settings alone."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from epg_tf.agents.policies import network_sizes
from epg_tf.core.memory import MemoryRequirement, refuse_what_cannot_fit
from epg_tf.core.products import number_of_pairs
from epg_tf.core.shapes import convolution_length, number_of_weights
from epg_tf.core.types import EnvironmentSpec
from epg_tf.epg.past_policies import agent_sizes
from epg_tf.epg.settings import Experiment
from epg_tf.epg.shards import thread_count
from epg_tf.losses.channels import declared_channels
from epg_tf.losses.parameter_shapes import parameter_shapes
from epg_tf.tasks.registry import make_family

_FLOAT = 4  # bytes
# Copies of weights that live at once, counted in the code: variables, Adam moments for each of the
# three losses that move them, gradients and changes, and the copy that acts.
_POLICY_COPIES, _VALUE_COPIES, _MEMORY_COPIES = 10, 7, 7
_STATE_COPIES = 2  # of what a state holds: before and after an epoch
_PHI_COPIES = 3  # the variables, and what they are loaded from


def refuse_lives_that_cannot_fit(experiment: Experiment, count: int) -> None:
    """Refuses lives outside evolution, all of one process, that need more memory than there is.

    Args:
      experiment: Settings.
      count: Number of lives.

    Raises:
      ConfigError: They cannot fit; the message names the settings of the largest need.
    """
    spec = make_family(experiment.task).spec
    needs = memory_requirements(experiment, spec, thread_count(experiment), count)
    refuse_what_cannot_fit(experiment, needs)


def evolution_requirements(experiment: Experiment, threads: int) -> list[MemoryRequirement]:
    """Returns what one process of evolution keeps in memory: each thread what each task needs.

    Args:
      experiment: Settings.
      threads: Shards that run at once.
    """
    needs = [
        need
        for number, task in enumerate(experiment.tasks)
        for need in memory_requirements(experiment.of_task(number), make_family(task).spec, threads)
    ]
    if rows := experiment.past.policies:
        weights, moments = agent_sizes(experiment)
        size = _STATE_COPIES * rows * _FLOAT * (weights + 2 * moments)  # moments are float64
        needs.append(MemoryRequirement(size, "policies of earlier epochs", ["past.policies"]))
    return needs


def memory_requirements(
    experiment: Experiment, spec: EnvironmentSpec, threads: int, count: int | None = None
) -> list[MemoryRequirement]:
    """Returns what one process keeps in memory at once, without the libraries.

    Args:
      experiment: Settings.
      spec: Where the agents live.
      threads: Shards that run at once.
      count: Number of lives; None: of evolution or validation, whichever has more.
    """
    evolution, lives = experiment.evolution, experiment.compute.shard_lives
    validated = evolution.validation_lives if evolution.validation_period else 0
    most = count or max(evolution.lives, validated)
    agents = lives * min(threads, math.ceil(most / lives))  # that are at work at once
    return [
        MemoryRequirement(_FLOAT * agents * size, purpose, (*names, "compute.shard_lives"))
        for size, purpose, names in _needs_of_an_agent(experiment, spec)
    ]


def _needs_of_an_agent(
    experiment: Experiment, spec: EnvironmentSpec
) -> Iterator[tuple[int, str, Sequence[str]]]:
    """Yields numbers, in float32, that one agent keeps: how many, of what, and the settings."""
    loss, policy, observed = experiment.loss, experiment.policy, spec.observation_size
    channels = declared_channels(spec, loss, policy.state_dependent_std)
    # The buffer, the same as a tensor, and normalised; computed from it, further channels, products
    # of observations (factors, products, inputs) and features.
    step = 3 * (observed + spec.action_size + 3)
    step += sum(channel.width for channel in channels if channel.name in loss.channels)
    step += 3 * number_of_pairs(observed) * policy.observation_pairs
    step += observed * loss.features * loss.shared_over_actions
    yield (
        loss.buffer_steps * step + experiment.inner.update_period * observed,
        "the steps that losses see",
        ("loss.buffer_steps", "loss.channels", "loss.features", "policy.observation_pairs"),
    )
    # The outputs of policies' layers, which the gradient needs, and the gradient of the widest; of
    # the loss's network, for each component of an action if these share it.
    copies = spec.action_size if loss.shared_over_actions else 1
    windows = convolution_length(loss.buffer_steps, loss.widths[0], loss.strides[0])
    head = experiment.inner.update_period * (loss.head + loss.factors * loss.products)
    yield (
        loss.buffer_steps * (sum(policy.hidden) + max(policy.hidden, default=0))
        + copies * (2 * windows * loss.filters[0] + head),
        "the outputs of networks at these steps",
        ("loss.buffer_steps", "policy.hidden", "loss.filters"),
    )
    yield (
        _POLICY_COPIES * number_of_weights(network_sizes(spec, policy))
        + _VALUE_COPIES * number_of_weights((observed, *experiment.surrogate.value_hidden, 1))
        + _MEMORY_COPIES * loss.memory_inputs * loss.memory_units,
        "the agents' networks",
        ("policy.hidden", "surrogate.value_hidden", "loss.memory_inputs", "loss.memory_units"),
    )
    phi = sum(math.prod(shape) for shape in parameter_shapes(channels, loss).values())
    yield (
        (_PHI_COPIES + copies - 1) * phi,
        "the parameters of losses",
        ("loss.filters", "loss.context", "loss.head", "loss.products", "loss.buffer_steps"),
    )
