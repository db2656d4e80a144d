"""Every setting of a run of MAML (Finn et al. 2017); task and policy are groups of EPG."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from epg_tf.agents.settings import PolicyConfig
from epg_tf.core.settings import Count, Natural, Positive, Settings, Share, setting
from epg_tf.tasks.settings import Physics, TaskConfig

TEST_STEPS = {"maml": 1, "maml10": 10}
"""Gradient steps at test, by the method's name (EPG, Figure 18: MAML and MAML10)."""


@dataclasses.dataclass(frozen=True)
class AdaptationConfig(Settings):
    """The inner loop: gradient descent on REINFORCE's loss (Algorithm 3, lines 5 to 7)."""

    steps: Count = setting(
        1, "gradient steps in meta-training; a test takes its own number of them"
    )
    env_steps: Count = setting(2048, "U, env steps of samples for each gradient step")
    learning_rate: Positive = setting(0.1, "alpha, of gradient descent")
    discount: Share = setting(0.99, "gamma, per env step")
    gae_lambda: Share = setting(1.0, "lambda of generalized advantage estimation")


@dataclasses.dataclass(frozen=True)
class OuterConfig(Settings):
    """The outer loop: Adam on PPO's loss of the adapted policies (Algorithm 3, line 10)."""

    iterations: Natural = setting(300, "of meta-training")
    tasks: Count = setting(
        20, "lives in an iteration, in lockstep; also agents of a test, to rounding"
    )
    learning_rate: Positive = setting(1e-3, "beta, of Adam")
    epochs: Count = setting(5, "steps of Adam on the samples of an iteration")
    clip: Positive = setting(0.2, "epsilon, of the probability ratio")
    validation_period: Natural = setting(
        10, "iterations between validations, which choose the best; 0: none"
    )
    final_episodes: Count = setting(3, "of each adapted policy, in validation")


@dataclasses.dataclass(frozen=True)
class MAMLExperiment(Settings):
    """Everything that decides a run, except its seed."""

    task: TaskConfig = TaskConfig()
    policy: PolicyConfig = PolicyConfig()
    adaptation: AdaptationConfig = AdaptationConfig()
    outer: OuterConfig = OuterConfig()

    @property
    def iteration_steps(self) -> int:
        """Env steps of an iteration, without validation: samples before each step and after."""
        return self.outer.tasks * self.adaptation.env_steps * (self.adaptation.steps + 1)

    def in_physics(self, physics: Physics) -> MAMLExperiment:
        """Returns the same experiment in other physics."""
        return dataclasses.replace(self, task=dataclasses.replace(self.task, physics=physics))

    def conflicts(self) -> Iterator[str]:
        """Yields a line where samples hold no whole episode."""
        steps, limit = self.adaptation.env_steps, self.task.episode_limit
        if steps < limit:
            yield (
                f"config.adaptation.env_steps={steps} is below config.task.episode_limit={limit}; "
                "samples must hold a whole episode"
            )
