"""Holds every setting of a run of RL² or E-RL², each with its type, bounds, meaning and default.

RL² is of Duan et al. (2016) and Wang et al. (2016); E-RL² of Stadie et al. (2018). Files in
`configs/` and launch flags speak of these as `config.FIELD` and `config.GROUP.FIELD`.
"""

from __future__ import annotations

import dataclasses
from typing import Annotated, Any

from epg_tf.core import fields
from epg_tf.core.errors import ConfigError
from epg_tf.core.experiment import TaskConfig
from epg_tf.core.fields import (
    Count,
    Natural,
    NonNegative,
    Number,
    Positive,
    Share,
    Threads,
    means,
)


@dataclasses.dataclass(frozen=True)
class TrialConfig:
    """A trial: episodes in one task, through which the policy keeps its state."""

    episodes: Annotated[
        Count, means("of full length in a trial; it has as many env steps as they take")
    ] = 2
    exploratory_episodes: Annotated[
        Natural, means("at its start, whose rewards PPO takes for 0 (E-RL²); 0 is RL²")
    ] = 0


@dataclasses.dataclass(frozen=True)
class RecurrentConfig:
    """The recurrent policy, and a value network of the same sizes."""

    input_units: Annotated[Count, means("tanh units between the inputs and the LSTM")] = 64
    lstm_units: Annotated[Count, means("units of the LSTM")] = 64
    log_std: Annotated[
        Number, means("log of the standard deviation of a new Gaussian policy; learned")
    ] = -0.5


@dataclasses.dataclass(frozen=True)
class RecurrentPPOConfig:
    """PPO of TF-Agents, on whole trials (Schulman et al. 2017)."""

    learning_rate: Annotated[Positive, means("of Adam, of policy and value network")] = 1e-3
    epochs: Annotated[Count, means("over the trials of an iteration")] = 8
    minibatches: Annotated[Count, means("of whole trials, in an epoch")] = 2
    clip: Annotated[Positive, means("of the ratio of probabilities")] = 0.2
    discount: Annotated[Share, means("gamma, per env step, across the episodes of a trial")] = 0.99
    gae_lambda: Annotated[Share, means("lambda of generalized advantage estimation")] = 0.95
    entropy: Annotated[NonNegative, means("weight of the entropy of the policy")] = 0.0
    gradient_norm: Annotated[Positive, means("largest global norm of a gradient")] = 1.0


@dataclasses.dataclass(frozen=True)
class RL2Experiment:
    """Everything that decides a run, except its seed."""

    task: TaskConfig = TaskConfig()
    iterations: Annotated[
        Natural, means("of trials and updates; the first one sets normalisation alone")
    ] = 300
    trials: Annotated[Count, means("in an iteration, each in a task of its own")] = 64
    validation_period: Annotated[Count, means("iterations between validations")] = 20
    validation_trials: Annotated[Count, means("on tasks that are the same in all of them")] = 64
    threads: Annotated[
        Threads,
        means("operations of TensorFlow at once; 0: one per CPU; no effect on results"),
    ] = 0
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

    def to_mapping(self) -> dict[str, Any]:
        """Returns the settings as nested dictionaries."""
        return dataclasses.asdict(self)


def rl2_from_mapping(mapping: Any) -> RL2Experiment:
    """Returns an experiment read from nested mappings; missing fields take their defaults.

    Raises:
      ConfigError: A name is unknown, a value has the wrong type or is out of bounds, or settings do
        not fit together.
    """
    experiment = fields.read(RL2Experiment, mapping)
    trial, minibatches = experiment.trial, experiment.ppo.minibatches
    if trial.exploratory_episodes >= trial.episodes:
        raise ConfigError(
            f"config.trial.exploratory_episodes={trial.exploratory_episodes} leaves no episode of "
            f"config.trial.episodes={trial.episodes} whose reward counts; choose fewer"
        )
    if experiment.trials % minibatches:
        raise ConfigError(
            f"config.ppo.minibatches={minibatches} does not divide config.trials="
            f"{experiment.trials}; choose a divisor"
        )
    return experiment
