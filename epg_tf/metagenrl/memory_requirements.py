"""Estimates the memory that an experiment of MetaGenRL needs, from its settings alone."""

from __future__ import annotations

from collections.abc import Mapping

from epg_tf.core.memory import MemoryRequirement
from epg_tf.core.shapes import number_of_weights
from epg_tf.core.types import EnvironmentSpec
from epg_tf.metagenrl.learner import agents_at_once
from epg_tf.metagenrl.settings import MetaGenRLExperiment
from epg_tf.metagenrl.shard_plans import plan_shards
from epg_tf.metagenrl.update import batches_needed, network_sizes

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


def memory_requirements(
    experiment: MetaGenRLExperiment,
    specs: Mapping[str, EnvironmentSpec],
    threads: int,
    ranks: int = 1,
) -> list[MemoryRequirement]:
    """Returns what the process with most agents keeps in memory at once, without the libraries.

    Args:
      experiment: Settings.
      specs: Of the environments, by name.
      threads: Shards that run at once.
      ranks: Processes that share the shards.
    """
    agent, objective = experiment.agent, experiment.objective
    kept = min(agent.replay_steps, experiment.steps_per_agent)
    steps = agent.batch * agent.chunk
    replay = networks = noise = 0.0
    drawn, layers, cells = [], [], []
    for plan in plan_shards(experiment)[::ranks]:
        spec, agents = specs[plan.environment], _FLOAT * (plan.last - plan.first)
        sizes = network_sizes(spec.observation_size, spec.action_size, agent)
        step = 2 * spec.observation_size + spec.action_size + 3
        batched = _FLOAT * agents_at_once(plan.last - plan.first, agent)
        replay += agents * kept * step
        weights = agents * (number_of_weights(sizes.policy) + 2 * number_of_weights(sizes.critics))
        networks += _WEIGHTS * weights
        noise += agents * experiment.round_steps * spec.action_size
        drawn.append(agents * _BATCHES * batches_needed(agent, experiment.meta) * steps * step)
        layers.append(batched * steps * _LAYERS * sum(agent.hidden))
        filters = objective.action_layers * objective.action_filters * spec.action_size
        cells.append(batched * steps * (_CELLS * objective.lstm_units + filters))
    batches, outputs, states = (sum(sorted(each)[-threads:]) for each in (drawn, layers, cells))
    compiled = _COMPILED * agent.chunk * experiment.meta.virtual_steps
    batch = "agent.batch agent.chunk"
    rows = (
        (replay, "replays", "agent.replay_steps agents"),
        (networks, "networks", "agent.hidden agents"),
        (noise, "actions' noises", "round_steps"),
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
