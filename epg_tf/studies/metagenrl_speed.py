"""Measures the speed of MetaGenRL's agents: all at once, and the same agents one by one."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Sequence

import numpy as np

from epg_tf.core.random_streams import loss_generator
from epg_tf.core.threads import configure_tensorflow
from epg_tf.core.types import LifeKey
from epg_tf.losses.lstm_objective import LSTMObjective, initial_parameters, stacked
from epg_tf.metagenrl.agents import PARTS, AgentShard
from epg_tf.metagenrl.settings import MetaGenRLExperiment
from epg_tf.tasks.registry import named_environment


@dataclasses.dataclass(frozen=True)
class AgentSpeed:
    """Holds what one measurement found.

    Attributes:
      agents: Number of agents.
      agent_updates_per_second: "together" and "alone" -> speed in each repetition.
      medians: "together" and "alone" -> median speed.
      ratio: The first median by the second.
      shares: Share of the time, all at once, by `agents.PARTS`.
    """

    agents: int
    agent_updates_per_second: dict[str, list[float]]
    medians: dict[str, float]
    ratio: float
    shares: dict[str, float]


def measure_agents(experiment: MetaGenRLExperiment, updates: int, repeats: int) -> AgentSpeed:
    """Times updates of agents in the first environment, their env steps included, on one thread.

    Both ways take env steps, draw chunks and compute the objective's gradient.

    Args:
      experiment: Settings.
      updates: To time, of each agent.
      repeats: How often both ways are measured, in turn.
    """
    agent = dataclasses.replace(experiment.agent, random_steps=0)
    experiment = dataclasses.replace(experiment, agent=agent)
    configure_tensorflow(1)
    agents = shard_size(experiment)
    steps = agent.policy_delay * (updates * repeats + agent.updates_after + 1)
    together = [_trained_shard(experiment, range(agents), steps)]
    alone = [_trained_shard(experiment, [index], steps) for index in range(agents)]
    rates: dict[str, list[float]] = {"together": [], "alone": []}
    for _ in range(repeats):
        rates["together"].append(agents * updates / _seconds(together, updates))
        rates["alone"].append(agents * updates / _seconds(alone, updates))
    medians = {name: float(np.median(values)) for name, values in rates.items()}
    spent = together[0].seconds
    total = sum(spent.values())
    return AgentSpeed(
        agents=agents,
        agent_updates_per_second=rates,
        medians=medians,
        ratio=medians["together"] / medians["alone"],
        shares={part: spent[part] / total for part in PARTS},
    )


def shard_size(experiment: MetaGenRLExperiment) -> int:
    """Returns the number of agents in a full shard of the first environment."""
    return min(experiment.shard_agents, experiment.agents // len(experiment.environments))


def _trained_shard(
    experiment: MetaGenRLExperiment, indices: Sequence[int], steps: int
) -> AgentShard:
    """Returns agents that have taken their first update, so that all is compiled."""
    keys = [LifeKey(0, "benchmark", 0, index) for index in indices]
    objective = LSTMObjective(len(keys), experiment.objective, experiment.agent.discount)
    parameters = initial_parameters(loss_generator(0), experiment.objective)
    objective.load(stacked(parameters, len(keys)))
    shard = AgentShard(
        named_environment(experiment.environments[0]),
        keys,
        objective,
        dataclasses.replace(experiment, round_steps=steps),
        experiment.meta,
    )
    shard.begin_round()
    while shard.advance() is None:
        pass
    shard.seconds = dict.fromkeys(PARTS, 0.0)
    return shard


def _seconds(shards: Sequence[AgentShard], updates: int) -> float:
    """Returns the time of `updates` updates, the shards one after the other at every update."""
    started = time.perf_counter()
    for _ in range(updates):
        for shard in shards:
            shard.advance()
    return time.perf_counter() - started
