"""Trains one agent of a test once more, and returns it as a policy to keep."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from epg_tf.artifacts.learned_loss import versions
from epg_tf.artifacts.saved_policy import TrainedPolicy
from epg_tf.baselines.method import LossName, Request
from epg_tf.core.experiment import Experiment
from epg_tf.core.random_streams import life_generator
from epg_tf.core.types import Array
from epg_tf.epg.inner_loop import InnerLoop, Teaching
from epg_tf.tasks.quantities import Task
from epg_tf.tasks.registry import make_family


@dataclasses.dataclass(frozen=True)
class TrainedAgent:
    """An agent at the end of its life.

    Attributes:
      weights: Of its policy, in the order of `Policy.variables_in_order`, without the population
        axis.
      shift: [O], of the normalisation of observations, (x - shift) * scale.
      scale: [O].
      task: What it lived in, name -> values.
      final_return: Mean return of its final episodes; NaN where it failed.
      policy_sha256: Hash of its policy and memory.
    """

    weights: list[Array]
    shift: Array
    scale: Array
    task: Task
    final_return: float
    policy_sha256: str


def trained_agent(experiment: Experiment, phi: Array, request: Request) -> TrainedAgent:
    """Returns the first agent of a test, trained once more to the same bits.

    Its neighbours in the shard are trained as well: the size of a shard is part of the numbers.

    Args:
      experiment: Settings; task and lengths are those of the request.
      phi: [D] float32, the learned loss.
      request: What the test was given.
    """
    inner = dataclasses.replace(experiment.inner, final_episodes=request.episodes)
    experiment = dataclasses.replace(experiment, task=request.task, inner=inner)
    family = make_family(request.task)
    keys = request.keys()[: experiment.compute.shard_lives]
    keys += [keys[-1]] * (experiment.compute.shard_lives - len(keys))
    loop = InnerLoop(experiment, family, measure_kl=True)
    results = loop.run(
        keys,
        np.repeat(phi[None], len(keys), axis=0),
        Teaching(0.0, inner.learning_rate, updates=request.env_steps // inner.update_period),
    )
    shift, scale = (numbers[0] for numbers in loop.observation_scaling)
    return TrainedAgent(
        [weight[0] for weight in loop.learner.weights()],
        shift,
        scale,
        family.sample_task(life_generator(keys[0], "task")),
        float(results.final_return[0]),
        str(results.policy_hash[0]),
    )


def trained_policy(agent: TrainedAgent, experiment: Experiment) -> TrainedPolicy:
    """Returns an agent as a TF-Agents policy; the experiment is that of its test."""
    return TrainedPolicy(
        make_family(experiment.task),
        agent.weights,
        experiment.policy.activation,
        agent.shift,
        agent.scale,
    )


def policy_facts(agent: TrainedAgent, loss: LossName, request: Request) -> dict[str, Any]:
    """Returns where a policy came from, for JSON."""
    return {
        "loss": loss.name,
        "task": dataclasses.asdict(request.task),
        "seed": request.seed,
        "life": 0,
        "quantities": agent.task,
        "env_steps": request.env_steps,
        "final_return": agent.final_return,
        "policy_sha256": agent.policy_sha256,
        "versions": versions(),
    }
