"""Tests an objective along meta-training: fresh agents learn with it, frozen, in the environments
of meta-training and in others.

All tests of a run have the same agents and tasks, so they differ by their objectives alone, and a
test is a function of the objective and the seed: a resumed run repeats it to the bit.
"""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Mapping, Sequence

import numpy as np

from epg_tf.core.errors import Interrupted
from epg_tf.core.failures import mean_return
from epg_tf.core.types import Array, LifeKey
from epg_tf.losses.lstm_objective import LSTMObjective, stacked
from epg_tf.metagenrl.agents import AgentShard
from epg_tf.metagenrl.settings import MetaGenRLExperiment
from epg_tf.tasks.registry import named_environment

COLUMN = "validation_return/"
"""Start of the names of columns of metrics.csv; an environment follows."""


def validation_places(experiment: MetaGenRLExperiment) -> tuple[str, ...]:
    """Returns the environments of tests: those of meta-training, then the others; none where there
    are no tests.
    """
    validation = experiment.validation
    return (*experiment.environments, *validation.environments) if validation.period else ()


def validation_columns(experiment: MetaGenRLExperiment) -> list[str]:
    """Returns the names of a test's numbers."""
    return [f"{COLUMN}{place}" for place in validation_places(experiment)]


def is_validated(experiment: MetaGenRLExperiment, number: int) -> bool:
    """Returns whether the objective is tested after round `number`."""
    period = experiment.validation.period
    return period > 0 and number > 0 and number % period == 0


def validation_return(
    experiment: MetaGenRLExperiment,
    environment: str,
    seed: int,
    parameters: Array,
    stopped: threading.Event,
) -> float:
    """Trains fresh agents in one environment with an objective that stays as it is.

    Args:
      experiment: Settings.
      environment: Where.
      seed: Of the run.
      parameters: The objective, [D].
      stopped: Set once the run is to end early.

    Returns:
      The agents' mean return at the end, without exploration; one that failed counts as the worst
      of the others. NaN where all failed.

    Raises:
      Interrupted: `stopped` was set.
    """
    validation = experiment.validation
    kept = min(experiment.agent.replay_steps, validation.env_steps)
    agent = dataclasses.replace(experiment.agent, replay_steps=kept)
    objective = LSTMObjective(validation.agents, experiment.objective, agent.discount)
    objective.load(stacked(parameters, validation.agents))
    shard = AgentShard(
        named_environment(environment),
        [LifeKey(seed, "objective_validation", 0, index) for index in range(validation.agents)],
        objective,
        dataclasses.replace(experiment, agent=agent),
    )
    for _ in range(validation.env_steps // experiment.round_steps):
        shard.begin_round()
        for _ in range(experiment.round_steps // agent.policy_delay):
            if stopped.is_set():
                raise Interrupted
            shard.advance()
        shard.end_round()
    returns, _ = shard.evaluate(validation.episodes)
    return mean_return(np.where(shard.failed, np.nan, returns))


def best_round(
    experiment: MetaGenRLExperiment, rows: Sequence[Mapping[str, float]]
) -> Mapping[str, float] | None:
    """Returns the row of the round with the best objective; None if none was tested.

    In each environment of meta-training the tested rounds are ranked, since returns have no scale
    in common. The best round has the highest mean rank, the latest of several. Environments that
    meta-training has not met do not count.

    Args:
      experiment: Settings.
      rows: One per round, with the columns of a test.
    """
    tested = [row for row in rows if is_validated(experiment, int(row["epoch"]))]
    if not tested:
        return None
    names = validation_columns(experiment)[: len(experiment.environments)]
    found = np.array([[row[name] for name in names] for row in tested])
    found = np.where(np.isnan(found), -np.inf, found)
    below = (found[:, None] > found[None]).sum(axis=1)  # of a round, how many are worse
    level = (found[:, None] == found[None]).sum(axis=1)
    ranks = below + 0.5 * level
    means = ranks.mean(axis=1)
    return tested[int(np.flatnonzero(means == means.max())[-1])]
