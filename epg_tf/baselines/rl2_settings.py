"""Every setting of a run of RL² or E-RL².

RL² is of Duan et al. (2016) and Wang et al. (2016); E-RL² of Stadie et al. (2018).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from epg_tf.core.settings import (
    Count,
    Natural,
    NonNegative,
    Number,
    Positive,
    Settings,
    Share,
    Threads,
    setting,
)
from epg_tf.tasks.settings import TaskConfig


@dataclasses.dataclass(frozen=True)
class TrialConfig(Settings):
    """A trial: episodes in one task, through which the policy keeps its state."""

    episodes: Count = setting(2, "of full length in a trial; it has as many env steps as they take")
    exploratory_episodes: Natural = setting(
        0, "at its start, whose rewards PPO takes for 0 (E-RL²); 0 is RL²"
    )


@dataclasses.dataclass(frozen=True)
class RecurrentConfig(Settings):
    """The recurrent policy, and a value network of the same sizes."""

    input_units: Count = setting(64, "tanh units between the inputs and the LSTM")
    lstm_units: Count = setting(64, "units of the LSTM")
    log_std: Number = setting(
        -0.5, "log of the standard deviation of a new Gaussian policy; learned"
    )


@dataclasses.dataclass(frozen=True)
class RecurrentPPOConfig(Settings):
    """PPO of TF-Agents, on whole trials (Schulman et al. 2017)."""

    learning_rate: Positive = setting(1e-3, "of Adam, of policy and value network")
    epochs: Count = setting(8, "over the trials of an iteration")
    minibatches: Count = setting(2, "of whole trials, in an epoch")
    clip: Positive = setting(0.2, "of the ratio of probabilities")
    discount: Share = setting(0.99, "gamma, per env step, across the episodes of a trial")
    gae_lambda: Share = setting(0.95, "lambda of generalized advantage estimation")
    entropy: NonNegative = setting(0.0, "weight of the entropy of the policy")
    gradient_norm: Positive = setting(1.0, "largest global norm of a gradient")


@dataclasses.dataclass(frozen=True)
class RL2Experiment(Settings):
    """Everything that decides a run, except its seed."""

    task: TaskConfig = TaskConfig()
    iterations: Natural = setting(
        300, "of trials and updates; the first one sets normalisation alone"
    )
    trials: Count = setting(64, "in an iteration, each in a task of its own")
    validation_period: Count = setting(20, "iterations between validations")
    validation_trials: Count = setting(64, "on tasks that are the same in all of them")
    threads: Threads = setting(
        0, "operations of TensorFlow at once; 0: one per CPU; no effect on results"
    )
    trial: TrialConfig = TrialConfig()
    network: RecurrentConfig = RecurrentConfig()
    ppo: RecurrentPPOConfig = RecurrentPPOConfig()

    @property
    def trial_steps(self) -> int:
        """Env steps of a trial."""
        return self.trial.episodes * self.task.episode_limit

    @property
    def iteration_steps(self) -> int:
        """Env steps of an iteration, without validation."""
        return self.trials * self.trial_steps

    def env_steps_after(self, iterations: int) -> int:
        """Returns the env steps of the first iterations, validation included."""
        validations = iterations // self.validation_period
        return (
            iterations * self.iteration_steps
            + validations * self.validation_trials * self.trial_steps
        )

    @property
    def method(self) -> str:
        """Key of the method in files, "rl2" or "e_rl2"."""
        return "e_rl2" if self.trial.exploratory_episodes else "rl2"

    def conflicts(self) -> Iterator[str]:
        """Yields a line for all that does not fit together."""
        trial, minibatches = self.trial, self.ppo.minibatches
        if trial.exploratory_episodes >= trial.episodes:
            yield (
                f"config.trial.exploratory_episodes={trial.exploratory_episodes} leaves no episode "
                f"of config.trial.episodes={trial.episodes} whose reward counts; choose fewer"
            )
        if self.trials % minibatches:
            yield (
                f"config.ppo.minibatches={minibatches} does not divide config.trials="
                f"{self.trials}; choose a divisor"
            )


def paper(task: TaskConfig) -> RL2Experiment:
    """Returns RL² with about 50 M env steps and validation, as MetaGenRL's authors compare with.

    Trials have two episodes, as there (Appendix B.3).
    """
    return RL2Experiment(
        task=task,
        iterations=-(-50_000_000 // (64 * 2 * task.episode_limit)),
        ppo=RecurrentPPOConfig(minibatches=8),
    )
