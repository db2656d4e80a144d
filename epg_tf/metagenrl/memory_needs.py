"""Estimates the memory that an experiment of MetaGenRL needs, from its settings alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from epg_tf.core.memory import MemoryNeed
from epg_tf.core.metagenrl_experiment import MetaGenRLExperiment
from epg_tf.core.types import EnvironmentSpec
from epg_tf.metagenrl.learner import agents_at_once
from epg_tf.metagenrl.shard_plans import plan_shards
from epg_tf.metagenrl.update import Learned, batches_needed, network_sizes

_FLOAT = 4  # bytes
# How many arrays of a kind live at once, fitted to peaks that were measured (see the tests), so
# that estimates are below them: a network's weights, with target, moments and their copies at a
# round's start; the outputs of the networks' layers, with their gradients; the states of the
# objective's LSTM, with first and second gradients; the batches.
_WEIGHTS = 10
_PAST = 2  # the kept states, and their copies for a checkpoint
_LAYERS = 6
_CELLS = 36
_BATCHES = 3
# The update is compiled with each step of a chunk for itself (bytes a step and virtual step).
_COMPILED = 9e5


def memory_needs(
    experiment: MetaGenRLExperiment,
    specs: Mapping[str, EnvironmentSpec],
    threads: int,
    ranks: int = 1,
) -> list[MemoryNeed]:
    """Returns what the process with most agents keeps in memory at once, without the libraries.

    Args:
      experiment: Settings.
      specs: Of the environments, by name.
      threads: Shards that run at once.
      ranks: Processes that share the shards.
    """
    agent, objective = experiment.agent, experiment.objective
    plans = plan_shards(experiment)[::ranks]
    kept = min(agent.replay_steps, experiment.steps_per_agent)
    steps = agent.batch * agent.chunk
    replay = networks = past = noise = 0.0
    drawn, layers, cells = [], [], []
    for plan in plans:
        spec, agents = specs[plan.environment], _FLOAT * (plan.last - plan.first)
        sizes = network_sizes(spec.observation_size, spec.action_size, agent)
        step = 2 * spec.observation_size + spec.action_size + 3
        batched = _FLOAT * agents_at_once(plan.last - plan.first, agent)
        replay += agents * kept * step
        weights = agents * (_weights(sizes.policy) + 2 * _weights(sizes.critics))
        networks += _WEIGHTS * weights
        past += _PAST * len(Learned._fields) * experiment.past_agents.states * weights
        noise += agents * experiment.round_steps * spec.action_size
        drawn.append(agents * _BATCHES * batches_needed(agent, experiment.meta) * steps * step)
        layers.append(batched * steps * _LAYERS * sum(agent.hidden))
        filters = objective.action_layers * objective.action_filters * spec.action_size
        cells.append(batched * steps * (_CELLS * objective.lstm_units + filters))
    at_once = (_most(sizes, threads) for sizes in (drawn, layers, cells))
    return [
        *_needs_of_agents(experiment, (replay, networks, past, noise)),
        *_needs_of_updates(experiment, *at_once),
    ]


def _needs_of_agents(
    experiment: MetaGenRLExperiment, sizes: tuple[float, float, float, float]
) -> list[MemoryNeed]:
    """Returns what all agents keep: replays, networks, earlier states, noises; sizes in bytes."""
    replay, networks, past, noise = sizes
    agent, count = experiment.agent, f"config.agents={experiment.agents}"
    kept = f"config.past.states={experiment.past.states}"
    return [
        MemoryNeed(replay, "replays", f"config.agent.replay_steps={agent.replay_steps}, {count}"),
        MemoryNeed(networks, "networks", f"config.agent.hidden={agent.hidden}, {count}"),
        MemoryNeed(past, "earlier states of agents", f"{kept}, {count}"),
        MemoryNeed(noise, "actions' noises", f"config.round_steps={experiment.round_steps}"),
    ]


def _needs_of_updates(
    experiment: MetaGenRLExperiment, drawn: float, layers: float, cells: float
) -> list[MemoryNeed]:
    """Returns what updates that run at once keep; sizes in bytes.

    Args:
      experiment: Settings.
      drawn: Of batches.
      layers: Of the outputs of networks.
      cells: Of the states of objectives.
    """
    agent, objective, meta = experiment.agent, experiment.objective, experiment.meta
    batch = f"config.agent.batch={agent.batch}, config.agent.chunk={agent.chunk}"
    return [
        MemoryNeed(drawn, "batches", f"{batch}, config.shard_agents={experiment.shard_agents}"),
        MemoryNeed(
            layers,
            "outputs of networks for a batch",
            f"{batch}, config.agent.hidden={agent.hidden}",
        ),
        MemoryNeed(
            _COMPILED * agent.chunk * meta.virtual_steps,
            "compiled steps of a chunk",
            f"config.agent.chunk={agent.chunk}, config.meta.virtual_steps={meta.virtual_steps}",
        ),
        MemoryNeed(
            cells,
            "states of objectives for a batch",
            f"{batch}, config.objective.lstm_units={objective.lstm_units}, "
            f"config.objective.action_filters={objective.action_filters}",
        ),
    ]


def _most(sizes: Sequence[float], threads: int) -> float:
    """Returns the sum of the largest `threads` sizes."""
    return sum(sorted(sizes)[-threads:])


def _weights(sizes: Sequence[int]) -> int:
    """Returns the number of weights of a network with these layer sizes."""
    return sum((before + 1) * after for before, after in zip(sizes[:-1], sizes[1:], strict=True))
