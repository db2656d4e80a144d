"""Distributes the agents of a run over shards, and their ages over a life."""

from __future__ import annotations

import dataclasses

import numpy as np

from epg_tf.core.types import LifeKey
from epg_tf.losses.lstm_objective import LSTMObjective
from epg_tf.metagenrl.agents import AgentShard, Lifetimes
from epg_tf.metagenrl.settings import MetaGenRLExperiment
from epg_tf.tasks.registry import named_environment


@dataclasses.dataclass(frozen=True)
class ShardPlan:
    """Defines which agents make up a shard.

    Attributes:
      environment: Where they live.
      first: Number of the first agent.
      last: One more than the number of the last agent.
    """

    environment: str
    first: int
    last: int


def plan_shards(experiment: MetaGenRLExperiment) -> list[ShardPlan]:
    """Distributes agents evenly over environments, then over shards of at most `shard_agents`."""
    per_environment = experiment.agents // len(experiment.environments)
    plans = []
    for number, environment in enumerate(experiment.environments):
        start, end = number * per_environment, (number + 1) * per_environment
        for first in range(start, end, experiment.shard_agents):
            plans.append(ShardPlan(environment, first, min(first + experiment.shard_agents, end)))
    return plans


def lifetimes(experiment: MetaGenRLExperiment, plan: ShardPlan) -> Lifetimes:
    """Distributes the ages of the agents in each environment evenly over a life."""
    per_environment = experiment.agents // len(experiment.environments)
    length = experiment.life_rounds
    numbers = np.arange(plan.first, plan.last) % per_environment
    return Lifetimes(length, numbers * length // per_environment)


def make_shard(experiment: MetaGenRLExperiment, plan: ShardPlan, seed: int) -> AgentShard:
    """Makes the agents of a plan, as they are before the first round."""
    keys = [LifeKey(seed, "metagenrl", 0, index) for index in range(plan.first, plan.last)]
    return AgentShard(
        named_environment(plan.environment),
        keys,
        LSTMObjective(len(keys), experiment.objective, experiment.agent.discount),
        experiment,
        experiment.meta,
        lifetimes(experiment, plan),
    )
