"""Trains one agent of a test once more, and returns it as a policy to use and to keep."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from epg_tf.artifacts import saved_models, saved_policy
from epg_tf.artifacts.artifact import LearnedLoss, LearnedObjective, versions
from epg_tf.artifacts.saved_policy import AgentPolicy, TrainedDeterministicPolicy, TrainedPolicy
from epg_tf.baselines.method import LossName, Request
from epg_tf.core.errors import ConfigError
from epg_tf.core.files import PathLike
from epg_tf.core.random_streams import life_generator
from epg_tf.core.threads import configure_tensorflow, threads_of
from epg_tf.core.types import Array
from epg_tf.epg.inner_loop import InnerLoop, final_inner_settings
from epg_tf.epg.shards import thread_count
from epg_tf.evaluation.checks import check_phi
from epg_tf.evaluation.methods import with_ppo
from epg_tf.evaluation.objective_method import learned_objective
from epg_tf.evaluation.requests import loss_request, objective_request
from epg_tf.tasks.quantities import Task
from epg_tf.tasks.registry import make_family
from epg_tf.tasks.settings import Physics


@dataclasses.dataclass(frozen=True, eq=False)
class TrainedAgent:
    """An agent at the end of its life.

    Attributes:
      policy: What it does; a policy of TF-Agents, its normalisation included.
      task: What it lived in, name -> values.
      final_return: Mean return of its final episodes; NaN where it failed.
      policy_sha256: Hash of its policy and memory; empty for agents of MetaGenRL.
      facts: Where it came from, for JSON: loss, task, seed, env steps, versions, and the above.
    """

    policy: AgentPolicy
    task: Task
    final_return: float
    policy_sha256: str
    facts: dict[str, Any]

    def act(self, observation: Array) -> Array:
        """Returns actions at observations; see `AgentPolicy.act`."""
        return self.policy.act(observation)

    def save(self, folder: PathLike, *, overwrite: bool = False) -> None:
        """Writes the policy as TF-Agents' PolicySaver does, and `policy.json` with `facts`.

        Args:
          folder: Created if missing; must be empty unless `overwrite` is set.
          overwrite: Replace a policy that is there; other files in the folder stay.

        Raises:
          RecordError: The folder cannot be used, or holds something else.
        """
        saved_models.prepare_target(folder, overwrite, saved_policy.MARKERS)
        saved_policy.save_policy(self.policy, folder, self.facts)


def train_agent(
    learned: LearnedLoss,
    seed: int,
    life: int = 0,
    updates: int | None = None,
    physics: Physics = "exact",
    alpha: float | None = None,
    lives: int | None = None,
) -> TrainedAgent:
    """Trains an agent of the test of a loss, to the same bits as `evaluate` does.

    The other agents of its shard are trained as well: the size of a shard is part of the numbers.

    Args:
      learned: The loss; its experiment holds the settings of the test.
      seed: Of the test.
      life: Number of the agent in the test, from 0.
      updates: Updates in its life; None for the experiment's number.
      physics: Of the test, whatever those of evolution.
      alpha: As of the test (`Evaluation`).
      lives: Agents of the test, whose shards are no larger; None: as many as fill a shard, or more.

    Returns:
      The agent.

    Raises:
      ConfigError: phi is not that of such a loss, `life` is below 0, or not below `lives`.
    """
    experiment = with_ppo(learned.experiment)
    check_phi(experiment, learned.phi)
    _check_number("life", life, lives)
    configure_tensorflow(thread_count(experiment))
    request = loss_request(experiment, seed, life + 1, updates, physics)
    most = experiment.compute.shard_lives
    size = most if lives is None else min(most, lives)
    experiment = dataclasses.replace(
        experiment, compute=dataclasses.replace(experiment.compute, shard_lives=size)
    )
    before, row = life // size * size, life % size
    keys = request.keys(before + size)[before:]
    family = make_family(request.task)
    loop = InnerLoop(experiment, family, measure_kl=True)
    results = loop.run(
        keys,
        np.repeat(learned.phi[None], size, axis=0),
        dataclasses.replace(
            final_inner_settings(experiment),
            alpha=experiment.evolution.final_guidance if alpha is None else alpha,
            updates=request.env_steps // experiment.inner.update_period,
        ),
    )
    shift, scale = (numbers[row] for numbers in loop.observation_scaling)
    weights = [weight[row] for weight in loop.learner.weights()]
    return _with_facts(
        TrainedAgent(
            TrainedPolicy(family, weights, experiment.policy.activation, shift, scale),
            family.sample_task(life_generator(keys[row], "task")),
            float(results.final_return[row]),
            str(results.policy_hash[row]),
            {"loss": learned.name, "life": life},
        ),
        request,
    )


def train_objective_agent(
    learned: LearnedObjective,
    seed: int,
    agent: int = 0,
    agents: int = 16,
    environment: str | None = None,
    env_steps: int | None = None,
) -> TrainedAgent:
    """Trains an agent of the test of an objective, to the same bits as `evaluate_objective` does.

    The other agents of its shard are trained as well.

    Args:
      learned: The objective and its settings.
      seed: Of the test.
      agent: Number of the agent in the test, from 0.
      agents: Number of agents in the test, which is part of the numbers.
      environment: As in `evaluate_objective`.
      env_steps: As in `evaluate_objective`.

    Returns:
      The agent; its policy acts without exploration.

    Raises:
      ConfigError: As `evaluate_objective`, or there is no such agent.
    """
    _check_number("agent", agent, agents)
    experiment = learned.experiment
    request = objective_request(experiment, environment, seed, agents, env_steps)
    configure_tensorflow(threads_of(experiment.threads))
    method = learned_objective(experiment, learned.phi, LossName("objective"))
    size = method.shard_agents(request)
    shard, lived = method.train_shard(request, agent // size)
    row = agent % size
    weights = [weight[row] for weight in shard.learner.policy_weights()]
    return _with_facts(
        TrainedAgent(
            TrainedDeterministicPolicy(shard.family, weights),
            shard.family.sample_task(life_generator(request.keys()[agent], "task")),
            float(lived.final_return[row]),
            "",
            {"loss": learned.name, "agent": agent},
        ),
        request,
    )


def _check_number(name: str, value: int, count: int | None) -> None:
    if value < 0 or (count is not None and value >= count):
        below = "" if count is None else f" and below {count}, their number"
        raise ConfigError(f"{name}={value} must be 0 or more{below}; agents count from 0")


def _with_facts(agent: TrainedAgent, request: Request) -> TrainedAgent:
    """Completes the facts of an agent by what all agents have."""
    facts = {
        **agent.facts,
        "task": dataclasses.asdict(request.task),
        "seed": request.seed,
        "quantities": {name: value.tolist() for name, value in agent.task.items()},
        "env_steps": request.env_steps,
        "final_return": agent.final_return,
        "policy_sha256": agent.policy_sha256,
        "versions": versions(),
    }
    return dataclasses.replace(agent, facts=facts)
