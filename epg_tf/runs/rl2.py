"""Adapts RL² and E-RL² to a session."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from epg_tf.artifacts.artifact import save
from epg_tf.baselines.rl2 import FAILED, IterationResult, RL2Trainer, metric_columns
from epg_tf.baselines.rl2_settings import RL2Experiment
from epg_tf.core.communication import Communicator
from epg_tf.core.formatting import count, duration
from epg_tf.core.memory import MemoryRequirement, refuse_what_cannot_fit
from epg_tf.core.types import Array
from epg_tf.runs.checkpoints import Checkpoint
from epg_tf.runs.folder import RunFolder, RunLength
from epg_tf.runs.identity import OWN_FILES, RunKind
from epg_tf.runs.system import OneCheckpoint, failures
from epg_tf.tasks.registry import make_family
from epg_tf.tasks.units import remarks

RL2 = RunKind(
    name="rl2",
    unit="iteration",
    own=OWN_FILES,
    may_change=frozenset({"config.iterations", "config.threads"}),
    per_rank=frozenset({"config.threads"}),
    from_mapping=RL2Experiment.from_mapping,
)

_BEST, _BEST_ITERATION = "best_policy", "best_iteration"  # of a checkpoint
_NUMBERS = 20  # float32 that backpropagation keeps of an env step, for each unit of the LSTM


class RL2System(OneCheckpoint[IterationResult]):
    """One run of RL² in memory.

    Raises:
      ConfigError: The family does not fit, or the settings need more memory than there is.
    """

    kind = RL2
    stopping = "stopping after this iteration"

    def __init__(
        self, experiment: RL2Experiment, seed: int, communicator: Communicator | None = None
    ):
        super().__init__(experiment, seed, communicator)
        refuse_what_cannot_fit(experiment, [_need(experiment)])
        self._trainer = RL2Trainer(experiment, seed)
        self._agent = self._trainer.agent
        self._done, self._best_return = 0, float("-inf")
        self._best: tuple[Array, int] = self._agent.policy_vector(), 0
        self.finite = {name for name in self.arrays()[0] if not name.startswith("optimizer")}
        self.length = RunLength(experiment.iterations, "config.iterations")
        self.columns = metric_columns(experiment)
        ends = sorted({1, experiment.trial.episodes})
        self.curves = {f"return of episode {k}": f"training_return/episode_{k}" for k in ends}

    @property
    def done(self) -> int:
        """Iterations done."""
        return self._done

    def steps(self, advance: Callable[[int], None]) -> Iterator[IterationResult]:
        """Yields the result of each iteration."""
        del advance
        for result in self._trainer.iterate(self._done, self._best_return):
            self._done, self._best_return = result.iteration, result.best_return
            yield result

    def arrays(self) -> tuple[dict[str, Array], dict[str, Any]]:
        """Returns the agent, and what did best in validation so far, with its return."""
        vector, iteration = self._best
        best = {_BEST: vector, _BEST_ITERATION: np.array(iteration)}
        return self._agent.arrays() | best, {"best_return": self._best_return}

    def load(self, checkpoint: Checkpoint) -> None:
        """Sets the agent to a checkpoint."""
        arrays = checkpoint.arrays
        self._done, self._best_return = checkpoint.epoch, float(checkpoint.facts["best_return"])
        self._agent.load(arrays)
        self._best = arrays[_BEST], int(arrays[_BEST_ITERATION])

    def keep(self, folder: RunFolder, result: IterationResult | None) -> None:
        """Writes `best/` after a validation that found it, and where a kill may have come before
        that.
        """
        if result is not None and result.is_best:
            self._best = self._agent.policy_vector(), self._done
        if result is None or result.is_best:
            self._save_best(folder)

    def _save_best(self, folder: RunFolder) -> None:
        """Writes `best/`, if there is one."""
        if self._best_return > -math.inf:
            self._save(folder, "best", *self._best, self._best_return)

    def _save(
        self,
        folder: RunFolder,
        name: str,
        vector: Array,
        iteration: int,
        validation_return: float | None,
    ) -> None:
        facts = {
            **folder.facts,
            "iteration": iteration,
            "env_steps": self._experiment.env_steps_after(self._done),
            "validation_return": validation_return,
        }
        shapes = self._agent.policy_shapes()
        save(folder.path / name, vector, self._experiment, facts, shapes)

    def finish(self, folder: RunFolder, rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """Writes `final/`, and in `best/` the env steps of the whole run, which found out that it
        is the best.
        """
        vector = self._agent.policy_vector()
        self._save(folder, "final", vector, self._done, None)
        self._save_best(folder)
        return {
            "env_steps": self._experiment.env_steps_after(self._done),
            "parameters": int(vector.size),
            "best_validation_return": self._best_return,
            "failed_trials": failures(rows, "diverged_trials", FAILED),
        }

    @staticmethod
    def purpose(experiment: RL2Experiment) -> str:
        """Returns what is trained, and for which family."""
        name = "E-RL²" if experiment.trial.exploratory_episodes else "RL²"
        return f"meta-training a recurrent policy by {name} for {experiment.task.family}"

    @staticmethod
    def costs(experiment: RL2Experiment, done: int = 0, ranks: int = 1) -> list[str]:
        """Returns lines on what a run does after some iterations, and what that costs."""
        del ranks
        left, period = experiment.iterations - done, experiment.validation_period
        validations = experiment.iterations // period - done // period
        counted = validations * experiment.validation_trials * experiment.trial_steps
        return [
            f"cost: {left} iterations x {experiment.trials} trials x {experiment.trial_steps} env "
            f"steps = {count(left * experiment.iteration_steps)} env steps; "
            f"{experiment.ppo.epochs * experiment.ppo.minibatches} updates by PPO in an iteration; "
            f"validation {count(counted)} env steps more",
            *remarks(make_family(experiment.task)),
        ]

    def line(self, result: IterationResult) -> str:
        """Returns the mean returns of an iteration."""
        returns = ", ".join(
            f"{result.metrics[f'training_return/episode_{number}']:.2f}"
            for number in range(1, self._experiment.trial.episodes + 1)
        )
        return f"mean return by episode {returns}  best validation {result.best_return:.2f}"

    def notes(self, result: IterationResult) -> list[str]:
        """Returns a line on validation trials that failed, if any did."""
        failed, count = result.metrics[FAILED], self._experiment.validation_trials
        line = f"iteration {self.done}: {failed:.0f} of {count} validation trials failed"
        return [line] if failed > 0 else []

    def ending(self, summary: Mapping[str, Any]) -> list[str]:
        """Returns how a finished run ended."""
        best = summary["best_validation_return"]
        validation = f"best validation return of a trial's last episode {best:.2f}"
        if best == -math.inf:
            validation = "never validated (there is no best/)"
        return [
            f"meta-trained a policy of {summary['parameters']} parameters in "
            f"{duration(summary['seconds'])}, {count(summary['env_steps'])} env steps; "
            f"{validation}, {summary['failed_trials']} failed trials"
        ]


def _need(experiment: RL2Experiment) -> MemoryRequirement:
    """Returns what backpropagation through a minibatch of trials needs."""
    units, minibatches = experiment.network.lstm_units, experiment.ppo.minibatches
    steps = experiment.iteration_steps / minibatches
    return MemoryRequirement(
        4.0 * _NUMBERS * units * steps,
        "gradients of trials",
        ("trials", "task.episode_limit", "network.lstm_units"),
    )
