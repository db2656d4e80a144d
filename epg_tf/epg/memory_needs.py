"""Estimates the memory that an experiment of EPG needs, from its settings alone."""

from __future__ import annotations

import math
from collections.abc import Sequence

from epg_tf.agents.policies import network_sizes
from epg_tf.core.experiment import Experiment
from epg_tf.core.memory import MemoryNeed, refuse_what_cannot_fit
from epg_tf.core.products import number_of_pairs
from epg_tf.core.shapes import convolution_length
from epg_tf.core.types import EnvironmentSpec
from epg_tf.epg.past_policies import agent_sizes
from epg_tf.epg.shards import thread_count
from epg_tf.losses.channels import declared_channels
from epg_tf.losses.temporal_conv import parameter_shapes
from epg_tf.tasks.registry import make_family

_FLOAT = 4  # bytes
# Copies of weights that live at once, counted in the code: variables, Adam moments for each of the
# three losses that move them, gradients and changes, and the copy that acts.
_POLICY_COPIES = 10
_MEMORY_COPIES = 7  # neither moved by the surrogate alone nor used to act
_VALUE_COPIES = 7
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
    refuse_what_cannot_fit(memory_needs(experiment, spec, thread_count(experiment), count))


def evolution_needs(experiment: Experiment, threads: int) -> list[MemoryNeed]:
    """Returns what one process of evolution keeps in memory: each thread what each task needs.

    Args:
      experiment: Settings.
      threads: Shards that run at once.
    """
    needs = [
        need
        for number, task in enumerate(experiment.tasks)
        for need in memory_needs(experiment.of_task(number), make_family(task).spec, threads)
    ]
    if rows := experiment.past.policies:
        weights, moments = agent_sizes(experiment)
        size = _STATE_COPIES * rows * _FLOAT * (weights + 2 * moments)  # moments are float64
        needs.append(MemoryNeed(size, "policies of earlier epochs", f"config.past.policies={rows}"))
    return needs


def memory_needs(
    experiment: Experiment, spec: EnvironmentSpec, threads: int, count: int | None = None
) -> list[MemoryNeed]:
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
    of_one_agent = [
        *_needs_of_steps(experiment, spec),
        *_needs_of_policies(experiment, spec),
        *_needs_of_losses(experiment, spec),
    ]
    shard = f"config.compute.shard_lives={lives}"
    return [
        MemoryNeed(agents * need.size, need.purpose, f"{need.settings}, {shard}")
        for need in of_one_agent
    ]


def _needs_of_steps(experiment: Experiment, spec: EnvironmentSpec) -> list[MemoryNeed]:
    """Returns what the steps of one agent need."""
    loss, policy, observed = experiment.loss, experiment.policy, spec.observation_size
    channels = declared_channels(spec, loss, policy.state_dependent_std)
    # The buffer, the same as a tensor, and normalised; computed from it, further channels.
    step = 3 * (observed + spec.action_size + 3)
    step += sum(channel.width for channel in channels if channel.name in loss.channels)
    buffer = _buffer(experiment)
    return [
        MemoryNeed(
            _FLOAT * (loss.buffer_steps * step + experiment.inner.update_period * observed),
            "the steps that losses see",
            f"{buffer}, config.loss.channels={loss.channels}" if loss.channels else buffer,
        ),
        MemoryNeed(
            # Gathered factors, products, and these beside the observation; not all are kept.
            _FLOAT * loss.buffer_steps * (3 * number_of_pairs(observed) * policy.observation_pairs),
            "the products that policies see at these steps",
            f"config.policy.observation_pairs={policy.observation_pairs}, {buffer}",
        ),
        MemoryNeed(
            # Bias and activation are computed in place.
            _FLOAT * loss.buffer_steps * observed * loss.features * loss.shared_over_actions,
            "the features that losses see",
            f"config.loss.features={loss.features}, {buffer}",
        ),
    ]


def _needs_of_policies(experiment: Experiment, spec: EnvironmentSpec) -> list[MemoryNeed]:
    """Returns what the networks and the memory of one agent need."""
    loss, policy = experiment.loss, experiment.policy
    values = experiment.surrogate.value_hidden
    networks = _POLICY_COPIES * _weights(network_sizes(spec, policy))
    networks += _VALUE_COPIES * _weights((spec.observation_size, *values, 1))
    return [
        MemoryNeed(
            # The layers' outputs, which the gradient needs, and the gradient of the widest.
            _FLOAT * loss.buffer_steps * (sum(policy.hidden) + max(policy.hidden, default=0)),
            "the outputs of policies at these steps",
            f"{_buffer(experiment)}, config.policy.hidden={policy.hidden}",
        ),
        MemoryNeed(
            _FLOAT * networks,
            "the agents' networks",
            f"config.policy.hidden={policy.hidden}, config.policy.observation_pairs="
            f"{policy.observation_pairs}, config.surrogate.value_hidden={values}",
        ),
        MemoryNeed(
            _FLOAT * _MEMORY_COPIES * loss.memory_inputs * loss.memory_units,
            "the agents' memories",
            f"config.loss.memory_inputs={loss.memory_inputs}, config.loss.memory_units="
            f"{loss.memory_units}",
        ),
    ]


def _needs_of_losses(experiment: Experiment, spec: EnvironmentSpec) -> list[MemoryNeed]:
    """Returns what the loss of one agent needs."""
    loss = experiment.loss
    channels = declared_channels(spec, loss, experiment.policy.state_dependent_std)
    shapes = parameter_shapes(channels, loss)
    phi = sum(math.prod(shape) for shape in shapes.values())
    windows = convolution_length(loss.buffer_steps, loss.widths[0], loss.strides[0])
    head = loss.head + loss.factors * loss.products
    # Of the loss's network, for an agent.
    copies = spec.action_size if loss.shared_over_actions else 1
    buffer = _buffer(experiment)
    return [
        MemoryNeed(
            _FLOAT
            * copies
            * (2 * windows * loss.filters[0] + experiment.inner.update_period * head),
            "the outputs of losses at these steps",
            f"config.loss.filters={loss.filters}, {buffer}",
        ),
        MemoryNeed(
            _FLOAT * (_PHI_COPIES + copies - 1) * phi,
            "the parameters of losses",
            f"config.loss.filters={loss.filters}, config.loss.context={loss.context}, "
            f"config.loss.head={loss.head}, config.loss.products={loss.products}, {buffer}",
        ),
    ]


def _buffer(experiment: Experiment) -> str:
    return f"config.loss.buffer_steps={experiment.loss.buffer_steps}"


def _weights(sizes: Sequence[int]) -> int:
    """Returns the number of weights of a network with these layer sizes."""
    return sum((before + 1) * after for before, after in zip(sizes[:-1], sizes[1:], strict=True))
