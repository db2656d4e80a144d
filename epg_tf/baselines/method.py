"""Defines what trains fresh agents: a `Method`, what it is given and what it returns."""

from __future__ import annotations

import abc
import dataclasses
from collections.abc import Mapping
from typing import Any

from epg_tf.core.types import Array, LifeKey
from epg_tf.epg.settings import Experiment
from epg_tf.tasks.settings import TaskConfig

LABELS = {
    "epg": "evolved loss (EPG)",
    "epg_i": "evolved loss and start (EPG+I)",
    "ppo_i": "PPO from an evolved start (PPO+I)",
    "zero_shot_linear": "fixed linear policy",
    "zero_shot_policy": "fixed network policy",
    "objective": "learned objective",
    "untrained_objective": "untrained objective",
    "off_policy_reinforce": "off-policy REINFORCE",
    "ddpg_with_td3": "DDPG with TD3's parts",
    "ppo": "PPO",
    "ppo_as_epg": "PPO (M as EPG)",
    "sac": "SAC (TF-Agents)",
    "td3": "TD3 (TF-Agents)",
    "maml": "MAML (1 step)",
    "maml10": "MAML (10 steps)",
    "reinforce": "on-policy REINFORCE",
    "ddpg": "DDPG (TF-Agents)",
    "rl2": "RL²",
    "e_rl2": "E-RL²",
    "untrained": "untrained agent",
    "random_loss": "unevolved, random",
    "centred_loss": "unevolved, centred",
    "policy_gradient_loss": "unevolved, REINFORCE",
}
"""Names of methods in pictures and tables, by their keys in files."""
MEANINGS = {
    "epg": "agents minimise the evolved loss",
    "epg_i": "the same, from an initial policy that evolution moved, too",
    "ppo_i": "agents learn by PPO from an initial policy that evolution moved",
    "zero_shot_linear": "one linear policy for all tasks, evolved; its agents do not learn",
    "zero_shot_policy": "one network for all tasks, evolved; its agents do not learn",
    "objective": "agents minimise the learned objective, with a critic of their own",
    "untrained_objective": "the same with an objective of random parameters",
    "off_policy_reinforce": "agents with the objective's critic, taught by its advantages",
    "ddpg_with_td3": "agents with the objective's critics, whose policies follow these alone",
    "ppo": "Proximal Policy Optimization with settings of its own",
    "ppo_as_epg": "PPO that updates as often as agents of the evolved loss",
    "sac": "Soft Actor-Critic",
    "td3": "Twin Delayed DDPG",
    "maml": "one gradient step of PPO from a meta-learned initial policy",
    "maml10": "ten gradient steps of PPO from a meta-learned initial policy",
    "reinforce": "policy gradient with Monte Carlo returns",
    "ddpg": "Deep Deterministic Policy Gradient",
    "rl2": "a recurrent policy that was meta-learned to learn by itself",
    "e_rl2": "the same, meta-learned without the reward of exploring episodes",
    "untrained": "agents that never learn",
    "random_loss": "agents minimise a loss of random parameters",
    "centred_loss": "agents minimise a loss that pulls their means to zero",
    "policy_gradient_loss": "agents minimise a loss that begins as REINFORCE, before evolution",
}
"""What they are, by the same keys."""


_LEARNED = {"loss": "epg", "both": "epg_i", "initialisation": "ppo_i"}  # by what evolution moved


def learned_name(experiment: Experiment) -> str:
    """Returns the key of the method that uses what evolution moved in an experiment of EPG.

    Agents start from the initial policy where it was moved, too; where nothing else was, they learn
    by PPO, or not at all.
    """
    if experiment.learns or experiment.evolution.moves != "initialisation":
        return _LEARNED[experiment.evolution.moves]
    return "zero_shot_policy" if experiment.policy.hidden else "zero_shot_linear"


@dataclasses.dataclass(frozen=True)
class Request:
    """Defines which fresh agents to train; methods that are compared get the same request.

    Attributes:
      task: What they live in.
      seed: Names their tasks and streams, >= 0.
      phase: Of the streams, one of `random_streams.PHASES`; tasks of two phases never coincide.
      agents: L, >= 1.
      env_steps: Of learning, of each agent.
      episodes: In each evaluation, and of the final policy.
    """

    task: TaskConfig
    seed: int
    phase: str
    agents: int
    env_steps: int
    episodes: int

    def of_length(self, times: int) -> Request:
        """Returns the same request for lives `times` as long."""
        return dataclasses.replace(self, env_steps=times * self.env_steps)

    def keys(self, count: int | None = None) -> list[LifeKey]:
        """Returns the keys of the first `count` agents, of all L by default."""
        numbers = range(self.agents if count is None else count)
        return [LifeKey(self.seed, self.phase, 0, number) for number in numbers]


@dataclasses.dataclass(frozen=True)
class LossName:
    """Identifies a learned loss in a table.

    Attributes:
      name: Folder, or name of a pretrained loss.
      seed: Of its meta-training; None where unknown.
    """

    name: str
    seed: int | None = None


def loss_name(name: str, facts: Mapping[str, Any]) -> LossName:
    """Returns the name of a loss, with the seed that its facts state."""
    seed = facts.get("seed")
    return LossName(name, seed if isinstance(seed, int) else None)


@dataclasses.dataclass(frozen=True, eq=False)
class LearningCurves:
    """Holds how L agents learned; row i belongs to agent i.

    Attributes:
      env_steps: [T] env steps of learning before each point of the curve.
      returns: [L, T] return at each point; NaN where unknown or where the agent failed.
      kl: [L, T] KL divergence (nats) between the policies before and after the update that ends at
        each point; NaN where not measured.
      final_return: [L] mean return of the final policy's episodes; NaN where the agent failed.
      success: [L] share of those episodes that ended at the goal; NaN in families without a goal.
      policy_sha256: [L] str, of the final policy's and memory's parameters; empty where unknown.
    """

    env_steps: Array
    returns: Array
    kl: Array
    final_return: Array
    success: Array
    policy_sha256: Array


@dataclasses.dataclass(frozen=True)
class Method(abc.ABC):
    """Trains fresh agents: a learned loss, a learned objective, or an algorithm without either.

    Attributes:
      name: Key of the method in files, e.g. "ppo".
      loss: The learned loss that agents minimise; None where there is none.
    """

    name: str
    loss: LossName | None = dataclasses.field(default=None, kw_only=True)

    @property
    def explores(self) -> bool:
        """Whether its curve is of episodes while learning, not of evaluations apart from it."""
        return True

    @abc.abstractmethod
    def train(self, request: Request) -> LearningCurves:
        """Trains L agents.

        Raises:
          ConfigError: The request does not fit the method's settings.
        """
