"""Tests objectives (MetaGenRL, section 5.1): fresh agents learn from a frozen one, or from what it
is compared with.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np

from epg_tf.core.metagenrl_experiment import AgentConfig, MetaGenRLExperiment
from epg_tf.core.random_streams import life_generator
from epg_tf.core.types import Array, LifeKey
from epg_tf.losses.lstm_objective import LSTMObjective, initial_parameters
from epg_tf.losses.objectives import ObjectiveModel, OffPolicyReinforce
from epg_tf.metagenrl.agents import ActorShard, Lives
from epg_tf.tasks.base import TaskFamily

METHODS = ("objective", "untrained_objective", "off_policy_reinforce")


@dataclasses.dataclass(frozen=True)
class TestedAgents:
    """How L fresh agents learned under one method.

    Attributes:
      env_steps: [T] env steps of learning before each evaluation.
      returns: [L, T] mean return of the evaluation's episodes, without exploration; NaN once an
        agent has failed.
    """

    env_steps: Array
    returns: Array


def train_fresh_agents(
    experiment: MetaGenRLExperiment,
    parameters: Array,
    family: TaskFamily,
    seed: int,
    agents: int,
    steps: int,
    episodes: int,
    method: str = "objective",
    phase: str = "objective_test",
) -> TestedAgents:
    """Trains fresh agents and evaluates them after every round.

    Args:
      experiment: Settings of agents and objective.
      parameters: [D] float32, the objective.
      family: Where they live.
      seed: Names agents and their streams; meta-training met none of them.
      agents: L.
      steps: Env steps of learning of each, in whole rounds of the experiment's `round_steps`.
      episodes: In each evaluation.
      method: Of `METHODS`: the objective, frozen; one that was never trained, another for each
        agent; or off-policy REINFORCE with generalised advantages.
      phase: Of the streams: "objective_test", or "objective_tuning" for choosing settings.
    """
    size = min(agents, experiment.shard_agents)
    parts = []
    for first in range(0, agents, size):
        # A last shard that is not full is filled up, for its size is part of the numbers.
        keys = [LifeKey(seed, phase, 0, index) for index in range(first, first + size)]
        shard = ActorShard(
            family,
            _agent(experiment, method),
            _teacher(experiment, parameters, keys, method),
            None,
            experiment.round_steps,
            keys,
            Lives(0, np.zeros(size, np.int64)),
        )
        parts.append(_learning_curve(shard, experiment, steps, episodes))
    returns = np.concatenate(parts)[:agents]
    return TestedAgents(np.arange(returns.shape[1]) * experiment.round_steps, returns)


def _agent(experiment: MetaGenRLExperiment, method: str) -> AgentConfig:
    if method != "off_policy_reinforce":
        return experiment.agent
    return dataclasses.replace(
        experiment.agent, policy_learning_rate=experiment.baseline.off_policy_learning_rate
    )


def _teacher(
    experiment: MetaGenRLExperiment, parameters: Array, keys: Sequence[LifeKey], method: str
) -> ObjectiveModel:
    """Returns what teaches the agents of a shard."""
    if method == "off_policy_reinforce":
        return OffPolicyReinforce(experiment.agent.discount, experiment.baseline.gae_lambda)
    objective = LSTMObjective(len(keys), experiment.objective, experiment.agent.discount)
    objective.load(
        np.stack(
            [
                initial_parameters(life_generator(key, "objective"), experiment.objective)
                if method == "untrained_objective"
                else parameters
                for key in keys
            ]
        )
    )
    return objective


def _learning_curve(
    shard: ActorShard, experiment: MetaGenRLExperiment, steps: int, episodes: int
) -> Array:
    """Lets a shard learn; returns its evaluations before the first round and after each, [P, T]."""
    curve = [shard.evaluate(episodes)]
    for _ in range(steps // experiment.round_steps):
        shard.begin_round()
        for _ in range(experiment.round_steps // experiment.agent.policy_delay):
            shard.advance()
        shard.end_round()
        curve.append(np.where(shard.failed, np.nan, shard.evaluate(episodes)))
    return np.stack(curve, axis=1)
