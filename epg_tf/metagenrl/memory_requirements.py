"""Estimates the memory that an experiment of MetaGenRL needs, from its settings alone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from epg_tf.core.memory import MemoryRequirement
from epg_tf.core.shapes import number_of_weights
from epg_tf.core.types import EnvironmentSpec
from epg_tf.metagenrl.learner import agents_at_once
from epg_tf.metagenrl.settings import MetaGenRLExperiment
from epg_tf.metagenrl.shard_plans import plan_shards
from epg_tf.metagenrl.update import batches_needed, network_sizes
from epg_tf.metagenrl.validation import validation_places

_FLOAT = 4  # bytes
# How many arrays of a kind live at once, fitted to peaks that were measured (see the tests), so
# that estimates are below them: a network's weights, with target, moments and their copies at a
# round's start; the outputs of the networks' layers, with their gradients; the states of the
# objective's LSTM, with first and second gradients; the batches.
_WEIGHTS = 10
_LAYERS = 6
_CELLS = 36
_BATCHES = 3
# The update is compiled with each step of a chunk for itself (bytes a step and virtual step).
_COMPILED = 9e5


class _Needs(NamedTuple):
    """What a shard keeps, and, after `noise`, what it needs while it learns (bytes)."""

    replay: float
    networks: float
    noise: float
    batches: float
    outputs: float
    states: float


def replay_bytes(experiment: MetaGenRLExperiment, specs: Mapping[str, EnvironmentSpec]) -> float:
    """Returns the size of all replays of meta-training; for `specs` see `memory_requirements`."""
    return sum(
        _needs(experiment, specs[plan.environment], plan.last - plan.first).replay
        for plan in plan_shards(experiment)
    )


def memory_requirements(
    experiment: MetaGenRLExperiment,
    specs: Mapping[str, EnvironmentSpec],
    threads: int,
    ranks: int = 1,
) -> list[MemoryRequirement]:
    """Returns what the process with most agents keeps in memory at once, without the libraries.

    Args:
      experiment: Settings.
      specs: Of the environments of meta-training and tests, by name.
      threads: Shards that run at once.
      ranks: Processes that share the shards.
    """
    agent, validation = experiment.agent, experiment.validation
    shards = [
        _needs(experiment, specs[plan.environment], plan.last - plan.first)
        for plan in plan_shards(experiment)[::ranks]
    ]
    # Tests and meta-training take turns: batches of the latter are larger.
    tested = [
        _needs(experiment, specs[place], validation.agents, validation.env_steps)
        for place in validation_places(experiment)[::ranks]
    ]
    replay, networks, noise = (sum(part) for part in list(zip(*shards, strict=True))[:3])
    tests = sum(sorted(sum(needs[:3]) for needs in tested)[-threads:])
    batches, outputs, states = (
        sum(sorted(part)[-threads:]) for part in list(zip(*shards, strict=True))[3:]
    )
    compiled = _COMPILED * agent.chunk * experiment.meta.virtual_steps
    batch = "agent.batch agent.chunk"
    rows = (
        (replay, "replays", "agent.replay_steps agents"),
        (networks, "networks", "agent.hidden agents"),
        (noise, "actions' noises", "round_steps"),
        (tests, "agents of tests", "validation.agents validation.env_steps agent.hidden"),
        (batches, "batches", f"{batch} shard_agents"),
        (outputs, "outputs of networks for a batch", f"{batch} agent.hidden"),
        (compiled, "compiled steps of a chunk", "agent.chunk meta.virtual_steps"),
        (
            states,
            "states of objectives for a batch",
            f"{batch} objective.lstm_units objective.action_filters",
        ),
    )
    return [MemoryRequirement(size, purpose, names.split()) for size, purpose, names in rows]


def _needs(
    experiment: MetaGenRLExperiment, spec: EnvironmentSpec, agents: int, steps: int | None = None
) -> _Needs:
    """Returns what a shard needs whose agents live for `steps`; None: as in meta-training."""
    agent, objective = experiment.agent, experiment.objective
    sizes = network_sizes(spec.observation_size, spec.action_size, agent)
    step = 2 * spec.observation_size + spec.action_size + 3
    kept = min(agent.replay_steps, experiment.steps_per_agent if steps is None else steps)
    weights = number_of_weights(sizes.policy) + 2 * number_of_weights(sizes.critics)
    drawn = agent.batch * agent.chunk
    batches = _BATCHES * batches_needed(agent, experiment.meta)
    batched = _FLOAT * agents_at_once(agents, agent)
    filters = objective.action_layers * objective.action_filters * spec.action_size
    return _Needs(
        _FLOAT * agents * kept * step,
        _FLOAT * agents * _WEIGHTS * weights,
        _FLOAT * agents * experiment.round_steps * spec.action_size,
        _FLOAT * agents * batches * drawn * step,
        batched * drawn * _LAYERS * sum(agent.hidden),
        batched * drawn * (_CELLS * objective.lstm_units + filters),
    )
