"""MetaGenRL, Algorithm 1: a population of agents follows one objective and improves it (Kirsch et
al. 2019).
"""

from __future__ import annotations

import dataclasses
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import numpy as np
import tensorflow as tf

from epg_tf.core.communication import Communicator, SingleProcess
from epg_tf.core.errors import Interrupted
from epg_tf.core.metagenrl_experiment import MetaGenRLExperiment
from epg_tf.core.optimizers import adam_update, annealed
from epg_tf.core.random_streams import loss_generator
from epg_tf.core.threads import configure_tensorflow, cpus
from epg_tf.core.types import Array, LifeKey
from epg_tf.losses.lstm_objective import LSTMObjective, initial_parameters, stacked
from epg_tf.metagenrl.agents import ActorShard, Lives
from epg_tf.tasks.registry import named_environment

_Result = TypeVar("_Result")

_PER_AGENT = ("training_return", "critic_error", "value", "agreement", "failed")
_UNIT = (
    2.0**40
)  # gradients travel as multiples of 1 / this: sums of whole numbers do not depend on their order


@dataclasses.dataclass(frozen=True)
class ObjectiveState:
    """The objective after a round; with the shards' own arrays and replays, all that a run goes on
    from.

    Attributes:
      round: Rounds done.
      parameters: alpha, [D] float32.
      first_moment: [D] float32, of Adam.
      second_moment: [D] float32.
      updates: Steps of Adam taken.
    """

    round: int
    parameters: Array
    first_moment: Array
    second_moment: Array
    updates: int


@dataclasses.dataclass(frozen=True)
class RoundResult:
    """One round: the state after it, and its numbers by the name of their column."""

    state: ObjectiveState
    metrics: dict[str, float]


def initial_state(experiment: MetaGenRLExperiment, seed: int) -> ObjectiveState:
    """Returns the state before the first round."""
    parameters = initial_parameters(loss_generator(seed), experiment.objective)
    return ObjectiveState(0, parameters, np.zeros_like(parameters), np.zeros_like(parameters), 0)


@dataclasses.dataclass(frozen=True)
class ShardPlan:
    """Who lives in a shard: agents first to last - 1, of those in one environment."""

    environment: str
    first: int
    last: int


def plan_shards(experiment: MetaGenRLExperiment) -> list[ShardPlan]:
    """Deals the agents out evenly over environments, and those of each over shards of at most
    `shard_agents`.
    """
    per_environment, plans = experiment.agents // len(experiment.environments), []
    for number, environment in enumerate(experiment.environments):
        start, end = number * per_environment, (number + 1) * per_environment
        plans += [
            ShardPlan(environment, first, min(first + experiment.shard_agents, end))
            for first in range(start, end, experiment.shard_agents)
        ]
    return plans


def lives_of(experiment: MetaGenRLExperiment, plan: ShardPlan) -> Lives:
    """Spreads the ages of the agents in each environment evenly over a life."""
    per_environment, length = (
        experiment.agents // len(experiment.environments),
        experiment.life_rounds,
    )
    return Lives(
        length, np.arange(plan.first, plan.last) % per_environment * length // per_environment
    )


class Population:
    """The agents of a run that live in this process.

    Args:
      experiment: Settings.
      seed: Of the run.
      communicator: Ranks of the run; shard k lives on rank k modulo their number.

    Attributes:
      shards: Number of the shard -> shard.
      stopped: Set once the run is to end early.
    """

    def __init__(
        self, experiment: MetaGenRLExperiment, seed: int, communicator: Communicator | None = None
    ):
        self.experiment, self.communicator = experiment, communicator or SingleProcess()
        self.plans, self.stopped = plan_shards(experiment), threading.Event()
        mine = range(self.communicator.rank, len(self.plans), self.communicator.size)
        threads = experiment.threads or cpus(self.communicator.local_size)
        configure_tensorflow(threads)
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="agents")
        self.shards = {number: self._shard(self.plans[number], seed) for number in mine}

    def _shard(self, plan: ShardPlan, seed: int) -> ActorShard:
        experiment, population = self.experiment, plan.last - plan.first
        keys = [LifeKey(seed, "metagenrl", 0, index) for index in range(plan.first, plan.last)]
        return ActorShard(
            named_environment(plan.environment),
            experiment.agent,
            LSTMObjective(population, experiment.objective, experiment.agent.discount),
            experiment.meta,
            experiment.round_steps,
            keys,
            lives_of(experiment, plan),
        )

    def run_round(self, state: ObjectiveState) -> RoundResult:
        """Lets all agents live one round and improve the objective.

        Raises:
          Interrupted: `stopped` was set; the agents are then in the middle of a round and of no
          use.
        """
        started, experiment, meta = time.perf_counter(), self.experiment, self.experiment.meta
        rate = meta.learning_rate
        if meta.learning_rate_rounds:
            rate = annealed(rate, meta.final_learning_rate, meta.learning_rate_rounds, state.round)
        self._load(state.parameters)
        self._each(ActorShard.begin_round)
        taken, norms = state.round * experiment.round_steps, []
        for _ in range(experiment.round_steps // experiment.agent.policy_delay):
            if self.stopped.is_set():
                raise Interrupted
            taught = self._each(ActorShard.advance)
            taken += experiment.agent.policy_delay
            if taken >= experiment.agent.updates_after:
                gradient = self._sum(
                    [result.objective_gradient.numpy() for result in taught], len(state.parameters)
                )
                norms.append(float(np.linalg.norm(gradient)))
                if gradient.any():  # with all agents asleep, momentum alone would move it
                    state = objective_step(state, gradient, rate)
                    self._load(state.parameters)
        state = dataclasses.replace(state, round=state.round + 1)
        metrics = {
            "epoch": state.round,
            "env_steps": taken * experiment.agents,
            "objective_gradient": float(np.mean(norms)) if norms else np.nan,
            **self._numbers(),
        }
        return RoundResult(state, {**metrics, "seconds": time.perf_counter() - started})

    def _each(self, work: Callable[[ActorShard], _Result]) -> list[_Result]:
        """Does the same with every shard, as many at once as there are threads."""
        shards = list(self.shards.values())
        return [work(shards[0])] if len(shards) == 1 else list(self._pool.map(work, shards))

    def _load(self, parameters: Array) -> None:
        for shard in self.shards.values():
            shard.learner.objective.load(stacked(parameters, shard.population))

    def _sum(self, gradients: list[Array], size: int) -> Array:
        """Adds up the gradients [P, D] of all agents on all ranks, exactly, whatever the layout;
        [D] float32.
        """
        total = np.zeros(size, np.int64)
        for gradient in gradients:
            total += np.rint(gradient.astype(np.float64) * _UNIT).astype(np.int64).sum(axis=0)
        return (self.communicator.sum(total) / _UNIT).astype(np.float32)

    def _numbers(self) -> dict[str, float]:
        """Ends the round; returns means over the agents of each environment, and how many have
        failed.
        """
        experiment = self.experiment
        found = np.zeros((len(_PER_AGENT), experiment.agents))
        for number, shard in self.shards.items():
            plan, ended = self.plans[number], shard.end_round()
            found[:, plan.first : plan.last] = [ended[name] for name in _PER_AGENT]
        found = self.communicator.sum(found.view(np.int64)).view(
            np.float64
        )  # elsewhere there are zeros
        numbers = {"failed_agents": int(found[_PER_AGENT.index("failed")].sum())}
        for name, row in zip(_PER_AGENT[:-1], found[:-1], strict=True):
            for environment, agents in zip(
                experiment.environments, np.split(row, len(experiment.environments)), strict=True
            ):
                known = agents[np.isfinite(agents)]
                numbers[f"{name}/{environment}"] = float(known.mean()) if known.size else np.nan
        return numbers


def objective_step(state: ObjectiveState, gradient: Array, learning_rate: float) -> ObjectiveState:
    """Moves the objective by one step of Adam against the gradient [D] of the judges' meta_loss."""
    updates = state.updates + 1
    update, first, second = adam_update(
        tf.constant(gradient),
        tf.constant(state.first_moment),
        tf.constant(state.second_moment),
        float(updates),
        learning_rate=learning_rate,
    )
    return dataclasses.replace(
        state,
        parameters=state.parameters + update.numpy(),
        first_moment=first.numpy(),
        second_moment=second.numpy(),
        updates=updates,
    )


def metagenrl(
    experiment: MetaGenRLExperiment,
    seed: int,
    population: Population | None = None,
    state: ObjectiveState | None = None,
) -> Iterator[RoundResult]:
    """Meta-learns an objective.

    Args:
      experiment: Settings.
      seed: Of all randomness.
      population: The agents, as they were after `state`; fresh ones by default.
      state: Where to go on from; the start by default.

    Yields:
      The result of every round.

    Raises:
      Interrupted: `population.stopped` was set.
    """
    population = population or Population(experiment, seed)
    state = state or initial_state(experiment, seed)
    while state.round < experiment.rounds:
        result = population.run_round(state)
        state = result.state
        yield result
