"""Trains agents with a frozen objective, learned or not (MetaGenRL, section 5.1)."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

import numpy as np

from epg_tf.baselines.lived_shards import LivedShard
from epg_tf.baselines.method import LearningCurves, LossName, Method, Request
from epg_tf.core.random_streams import life_generator
from epg_tf.core.types import Array, LifeKey
from epg_tf.losses.lstm_objective import LSTMObjective, initial_parameters
from epg_tf.losses.objectives import ObjectiveModel, OffPolicyReinforce
from epg_tf.metagenrl.agents import AgentShard
from epg_tf.metagenrl.settings import MetaGenRLExperiment
from epg_tf.tasks.episodes import success_or_failure
from epg_tf.tasks.registry import make_family


@dataclasses.dataclass(frozen=True)
class ObjectiveMethod(Method):
    """Trains agents like those of MetaGenRL's population, with an objective that stays as it is.

    Attributes:
      experiment: Settings of the agents.
      make_objective: Maps the keys of a shard's agents to their objective; None: they follow DDPG's
        gradient.
    """

    experiment: MetaGenRLExperiment
    make_objective: Callable[[Sequence[LifeKey]], ObjectiveModel] | None

    @property
    def explores(self) -> bool:
        """False: the curve is of evaluations."""
        return False

    def train(self, request: Request) -> LearningCurves:
        """Trains L agents and evaluates them, without exploration, before learning and after every
        round; NaN once an agent has failed.
        """
        shards = -(-request.agents // self.shard_agents(request))
        lived = [self.train_shard(request, number)[1] for number in range(shards)]
        returns, final_return, success = (
            np.concatenate(parts)[: request.agents] for parts in zip(*lived, strict=True)
        )
        steps = np.arange(returns.shape[1]) * self.experiment.round_steps
        return LearningCurves(
            steps,
            returns,
            np.full(returns.shape, np.nan),
            final_return,
            success,
            np.full(len(returns), "", object),
        )

    def shard_agents(self, request: Request) -> int:
        """Returns the number of agents in a shard."""
        return min(request.agents, self.experiment.shard_agents)

    def train_shard(self, request: Request, number: int) -> tuple[AgentShard, LivedShard]:
        """Trains one shard of the agents.

        A last shard that is not full is filled up, for its size is part of the numbers.

        Returns:
          The shard, and what its evaluations found; NaN once an agent has failed.
        """
        size = self.shard_agents(request)
        keys = request.keys((number + 1) * size)[number * size :]
        objective = self.make_objective and self.make_objective(keys)
        shard = AgentShard(make_family(request.task), keys, objective, self.experiment)
        return shard, self._lived(shard, request)

    def _lived(self, shard: AgentShard, request: Request) -> LivedShard:
        """Lets a shard learn, and evaluates it."""
        experiment = self.experiment
        returns, success = shard.evaluate(request.episodes)
        curve = [returns]
        for _ in range(request.env_steps // experiment.round_steps):
            shard.begin_round()
            for _ in range(experiment.round_steps // experiment.agent.policy_delay):
                shard.advance()
            shard.end_round()
            returns, success = shard.evaluate(request.episodes)
            curve.append(np.where(shard.failed, np.nan, returns))
        success = success_or_failure(shard.family, success, shard.failed)
        return LivedShard(np.stack(curve, axis=1), curve[-1], success)


def _lstm_objective(experiment: MetaGenRLExperiment, parameters: Sequence[Array]) -> LSTMObjective:
    """Returns an objective with parameters of its own for each agent."""
    discount = experiment.agent.discount
    objective = LSTMObjective(len(parameters), experiment.objective, discount)
    objective.load(np.stack(parameters))
    return objective


def _with_rate(experiment: MetaGenRLExperiment, rate: float) -> MetaGenRLExperiment:
    """Returns the same with another learning rate of the policies."""
    agent = dataclasses.replace(experiment.agent, policy_learning_rate=rate)
    return dataclasses.replace(experiment, agent=agent)


def learned_objective(
    experiment: MetaGenRLExperiment, parameters: Array, loss: LossName
) -> ObjectiveMethod:
    """Returns the method whose agents minimise a learned objective, [D], frozen."""

    def make_objective(keys: Sequence[LifeKey]) -> ObjectiveModel:
        return _lstm_objective(experiment, [parameters for _ in keys])

    return ObjectiveMethod("objective", experiment, make_objective, loss=loss)


def untrained_objective(experiment: MetaGenRLExperiment) -> ObjectiveMethod:
    """Returns the method that gives each agent another objective, which was never trained."""

    def fresh(key: LifeKey) -> Array:
        return initial_parameters(life_generator(key, "objective"), experiment.objective)

    def make_objective(keys: Sequence[LifeKey]) -> ObjectiveModel:
        return _lstm_objective(experiment, [fresh(key) for key in keys])

    return ObjectiveMethod("untrained_objective", experiment, make_objective)


def off_policy_reinforce(experiment: MetaGenRLExperiment) -> ObjectiveMethod:
    """Returns off-policy REINFORCE with generalised advantages, with a learning rate of its own."""
    settings = _with_rate(experiment, experiment.baseline.off_policy_learning_rate)

    def make_objective(keys: Sequence[LifeKey]) -> ObjectiveModel:
        del keys
        return OffPolicyReinforce(experiment.agent.discount, experiment.baseline.gae_lambda)

    return ObjectiveMethod("off_policy_reinforce", settings, make_objective)


def ddpg_with_td3(experiment: MetaGenRLExperiment) -> ObjectiveMethod:
    """Returns what the paper calls DDPG: the same agents, whose policies follow the critic alone,
    with TD3's parts (twin critics, delayed policies, smoothed targets; section 5.1).
    """
    settings = _with_rate(experiment, experiment.baseline.ddpg_with_td3_learning_rate)
    return ObjectiveMethod("ddpg_with_td3", settings, None)
