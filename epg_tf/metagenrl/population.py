"""Runs MetaGenRL: a population of agents follows one objective and improves it (Algorithm 1)."""

from __future__ import annotations

import dataclasses
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import numpy as np

from epg_tf.core.communication import Communicator, SingleProcess
from epg_tf.core.errors import Interrupted
from epg_tf.core.optimizers import annealed
from epg_tf.core.threads import configure_tensorflow, threads_of
from epg_tf.core.types import Array
from epg_tf.losses.lstm_objective import LSTMObjective, stacked
from epg_tf.metagenrl.agents import AgentShard, check_continuous
from epg_tf.metagenrl.settings import MetaConfig, MetaGenRLExperiment
from epg_tf.metagenrl.shard_plans import make_shard, plan_shards
from epg_tf.metagenrl.state import ObjectiveState, RoundResult, initial_state, objective_step
from epg_tf.metagenrl.update import UpdateResult
from epg_tf.metagenrl.validation import (
    is_validated,
    validation_columns,
    validation_places,
    validation_return,
)
from epg_tf.tasks.registry import named_environment

_Result = TypeVar("_Result")

_PER_AGENT = ("training_return", "critic_error", "value", "agreement", "failed")

# Gradients are sent as multiples of 1 / this: sums of whole numbers do not depend on their order.
_UNIT = 2.0**40


def meta_learn(
    experiment: MetaGenRLExperiment,
    seed: int,
    population: Population | None = None,
    state: ObjectiveState | None = None,
) -> Iterator[RoundResult]:
    """Meta-learns an objective (Algorithm 1).

    Args:
      experiment: Settings.
      seed: Of all randomness.
      population: The agents, as they were after `state`; fresh ones by default.
      state: Where to continue; the start by default.

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


class Population:
    """Holds the agents of a run that live in this process.

    Args:
      experiment: Settings.
      seed: Of the run.
      communicator: Connects the ranks of the run; shard k lives on rank k modulo their number.

    Attributes:
      plans: Of all shards of the run.
      shards: Number of the shard -> shard, of those on this rank.
      stopped: Set once the run is to end early.
    """

    def __init__(
        self, experiment: MetaGenRLExperiment, seed: int, communicator: Communicator | None = None
    ) -> None:
        self.experiment = experiment
        self._seed = seed
        self.communicator = communicator or SingleProcess()
        self.plans = plan_shards(experiment)
        self.stopped = threading.Event()
        threads = threads_of(experiment.threads, self.communicator.local_size)
        configure_tensorflow(threads)
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="agents")
        for name in experiment.validation.environments:
            check_continuous(named_environment(name))
        own = range(self.communicator.rank, len(self.plans), self.communicator.size)
        self.shards = {number: make_shard(experiment, self.plans[number], seed) for number in own}

    def run_round(self, state: ObjectiveState) -> RoundResult:
        """Runs all agents for one round, in which they improve the objective; then tests it, where
        it is time for that.

        Raises:
          Interrupted: `stopped` was set; the agents are then in the middle of a round and
            cannot go on.
        """
        started = time.perf_counter()
        experiment = self.experiment
        learning_rate = _learning_rate(experiment.meta, state.round)
        self._load(state.parameters)
        self._for_all_shards(AgentShard.begin_round)
        taken = state.round * experiment.round_steps
        norms = []
        for _ in range(experiment.round_steps // experiment.agent.policy_delay):
            if self.stopped.is_set():
                raise Interrupted
            # Every agent acts, remembers, updates its critics and, by the objective, its policy.
            results = self._for_all_shards(AgentShard.advance)
            taken += experiment.agent.policy_delay
            if taken >= experiment.agent.updates_after:
                # The objective moves against the sum of the agents' gradients (Equation 6).
                gradient = self._sum_gradients(results, len(state.parameters))
                norms.append(float(np.linalg.norm(gradient)))
                if gradient.any():  # without an active agent, momentum alone would move it
                    state = objective_step(state, gradient, learning_rate)
                    self._load(state.parameters)
        state = dataclasses.replace(state, round=state.round + 1)
        metrics = {
            "epoch": state.round,
            "env_steps": taken * experiment.agents,
            "objective_gradient": float(np.mean(norms)) if norms else np.nan,
            **self._end_round(),
            **self._validate(state),
            "seconds": time.perf_counter() - started,
        }
        return RoundResult(state, metrics)

    def _for_all_shards(self, work: Callable[[AgentShard], _Result]) -> list[_Result]:
        """Does the same with every shard, as many at once as there are threads."""
        shards = list(self.shards.values())
        if len(shards) == 1:
            return [work(shards[0])]
        return list(self._pool.map(work, shards))

    def why_agents_failed(self) -> str:
        """Returns how one of the agents of this rank failed."""
        found = (why for shard in self.shards.values() for why in shard.failures.values())
        return next(found, "none of this process, which has no agents")

    def _load(self, parameters: Array) -> None:
        for shard in self.shards.values():
            objective = shard.learner.objective
            assert isinstance(objective, LSTMObjective)
            objective.load(stacked(parameters, shard.population))

    def _sum_gradients(self, results: Sequence[UpdateResult | None], size: int) -> Array:
        """Adds up the gradients of all agents on all ranks; [D] float32.

        The sum is exact for any distribution of agents over shards and ranks.
        """
        total = np.zeros(size, np.int64)
        for result in results:
            if result is not None:
                gradient = result.objective_gradient.astype(np.float64)
                total += np.rint(gradient * _UNIT).astype(np.int64).sum(axis=0)
        return (self.communicator.sum(total) / _UNIT).astype(np.float32)

    def _end_round(self) -> dict[str, float]:
        """Ends the round; returns means over the agents of each environment, and failed agents."""
        experiment = self.experiment
        found = np.zeros((len(_PER_AGENT), experiment.agents))
        for number, shard in self.shards.items():
            plan, ended = self.plans[number], shard.end_round()
            found[:, plan.first : plan.last] = [ended[name] for name in _PER_AGENT]
        # Zero stands where agents of other ranks are, so that the sum joins the bits.
        found = self.communicator.sum(found.view(np.int64)).view(np.float64)
        numbers: dict[str, float] = {"failed_agents": int(found[-1].sum())}
        for name, row in zip(_PER_AGENT[:-1], found[:-1], strict=True):
            groups = np.split(row, len(experiment.environments))
            for environment, agents in zip(experiment.environments, groups, strict=True):
                known = agents[np.isfinite(agents)]
                numbers[f"{name}/{environment}"] = float(known.mean()) if known.size else np.nan
        return numbers

    def _validate(self, state: ObjectiveState) -> dict[str, float]:
        """Tests the objective on fresh agents; NaN in rounds without a test.

        Ranks share the environments.
        """
        experiment, communicator = self.experiment, self.communicator
        columns = validation_columns(experiment)
        if not is_validated(experiment, state.round):
            return dict.fromkeys(columns, np.nan)

        def tested(place: str) -> float:
            return validation_return(experiment, place, self._seed, state.parameters, self.stopped)

        own = slice(communicator.rank, None, communicator.size)
        found = np.zeros(len(columns))
        places = validation_places(experiment)[own]
        found[own] = list(self._pool.map(tested, places))
        found = communicator.sum(found.view(np.int64)).view(np.float64)  # as in `_end_round`
        return dict(zip(columns, found.tolist(), strict=True))


def metric_columns(experiment: MetaGenRLExperiment) -> list[str]:
    """Returns the names of a round's numbers."""
    return [
        "epoch",
        "env_steps",
        "objective_gradient",
        "failed_agents",
        *(f"{name}/{place}" for name in _PER_AGENT[:-1] for place in experiment.environments),
        *validation_columns(experiment),
        "seconds",
    ]


def _learning_rate(meta: MetaConfig, number: int) -> float:
    if not meta.learning_rate_rounds:
        return meta.learning_rate
    return annealed(meta.learning_rate, meta.final_learning_rate, meta.learning_rate_rounds, number)
