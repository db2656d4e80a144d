"""Adapts MAML to a session.

It runs in one process on one thread; lives are in lockstep, so an iteration is one shard.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from epg_tf.agents.normalizer import Moments
from epg_tf.artifacts.artifact import save
from epg_tf.baselines.maml import COLUMNS, FAILED, MetaTraining
from epg_tf.baselines.maml_lives import Initialisation
from epg_tf.baselines.maml_settings import MAMLExperiment
from epg_tf.baselines.maml_state import IterationResult, MAMLState, initial_state
from epg_tf.core.communication import Communicator
from epg_tf.core.formatting import count, duration
from epg_tf.core.memory import MemoryRequirement, refuse_what_cannot_fit
from epg_tf.core.products import number_of_pairs
from epg_tf.core.threads import configure_tensorflow
from epg_tf.core.types import Array
from epg_tf.runs import standstill
from epg_tf.runs.checkpoints import Checkpoint
from epg_tf.runs.folder import RunFolder, RunLength
from epg_tf.runs.identity import OWN_FILES, RunKind
from epg_tf.runs.system import OneCheckpoint, failures
from epg_tf.tasks.registry import make_family
from epg_tf.tasks.units import remarks

MAML = RunKind(
    name="maml",
    unit="iteration",
    own=OWN_FILES,
    may_change=frozenset({"config.outer.iterations"}),
    per_rank=frozenset(),
    from_mapping=MAMLExperiment.from_mapping,
)


class MAMLSystem(OneCheckpoint[IterationResult]):
    """One run of MAML in memory.

    Attributes:
      state: The newest one.

    Raises:
      ConfigError: The settings need more memory than there is.
    """

    kind = MAML
    stopping = "stopping before the next iteration"
    columns = COLUMNS
    finite = frozenset({"weights", *(f"best_{name}" for name in Initialisation._fields)})
    curves = {
        "return before adaptation": "return_before_mean",
        "return after adaptation": "return_after_mean",
    }

    def __init__(
        self, experiment: MAMLExperiment, seed: int, communicator: Communicator | None = None
    ):
        super().__init__(experiment, seed, communicator)
        refuse_what_cannot_fit(experiment, memory_requirements(experiment))
        configure_tensorflow(1)  # more are hardly faster
        self._stop = threading.Event()
        self.standstill = standstill.of_maml()
        self.state = initial_state(experiment, seed)
        self.length = RunLength(experiment.outer.iterations, "config.outer.iterations")

    @property
    def done(self) -> int:
        """Iterations done."""
        return self.state.iteration

    def steps(self, advance: Callable[[int], None]) -> Iterator[IterationResult]:
        """Yields the result of each iteration."""
        del advance
        training = MetaTraining(self._experiment, self._seed, self._stop)
        for result in training.iterations(self.state):
            self.state = result.state
            yield result

    def stop(self) -> None:
        """Ends the current iteration."""
        self._stop.set()

    def arrays(self) -> tuple[dict[str, Array], dict[str, Any]]:
        """Returns the arrays and the numbers of the state."""
        state = self.state
        arrays = {
            "weights": state.weights,
            "first_moment": state.first_moment,
            "second_moment": state.second_moment,
            "observed_mean": state.observed.mean,
            "observed_squares": state.observed.squares,
            **{f"best_{name}": values for name, values in state.best._asdict().items()},
        }
        facts = {
            "observed_steps": state.observed.steps,
            "env_steps": state.env_steps,
            "best_return": state.best_return,
            "best_iteration": state.best_iteration,
        }
        return arrays, facts

    def load(self, checkpoint: Checkpoint) -> None:
        """Continues from the state in a checkpoint."""
        arrays, facts = checkpoint.arrays, checkpoint.facts
        self.state = MAMLState(
            iteration=checkpoint.epoch,
            weights=arrays["weights"],
            first_moment=arrays["first_moment"],
            second_moment=arrays["second_moment"],
            observed=Moments(
                facts["observed_steps"], arrays["observed_mean"], arrays["observed_squares"]
            ),
            env_steps=facts["env_steps"],
            best=Initialisation(*(arrays[f"best_{name}"] for name in Initialisation._fields)),
            best_return=facts["best_return"],
            best_iteration=facts["best_iteration"],
        )

    def keep(self, folder: RunFolder, result: IterationResult | None) -> None:
        """Writes `best/`, which a kill may have left one validation behind."""
        if self.state.best_return > -math.inf:
            self._save(folder, "best", self.state.best, self.state.best_iteration)

    def _save(self, folder: RunFolder, name: str, start: Initialisation, iteration: int) -> None:
        best = self.state.best_return
        facts = {
            **folder.facts,
            "env_steps": self.state.env_steps,
            "iteration": iteration,
            "best_validation_return_mean": best if best > -math.inf else None,
            "chosen": "best in validation" if name == "best" else "last iteration",
        }
        save(folder.path / name, np.concatenate(start), self._experiment, facts)

    def finish(self, folder: RunFolder, rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """Writes `final/`."""
        state, last = self.state, rows[-1] if rows else {}
        self._save(folder, "final", state.start, state.iteration)
        return {
            "env_steps": state.env_steps,
            "parameters": state.weights.size,
            "last_return_before_mean": last.get("return_before_mean"),
            "last_return_after_mean": last.get("return_after_mean"),
            "best_validation_return_mean": state.best_return,
            "failed_lives": failures(rows, "failed_lives", FAILED),
        }

    @staticmethod
    def purpose(experiment: MAMLExperiment) -> str:
        """Returns what is trained, and for which family."""
        steps = experiment.adaptation.steps
        return (
            f"meta-training an initialisation for {experiment.task.family} and {steps} gradient "
            f"step{'s' if steps > 1 else ''}, on one thread,"
        )

    @staticmethod
    def costs(experiment: MAMLExperiment, done: int = 0, ranks: int = 1) -> list[str]:
        """Returns lines on what a run does after some iterations, and what that costs."""
        del ranks
        outer, adaptation = experiment.outer, experiment.adaptation
        left, validations = outer.iterations - done, 0
        if outer.validation_period:
            period = outer.validation_period
            validations = outer.iterations // period - done // period
        tested = validations * outer.tasks * adaptation.steps * adaptation.env_steps
        return [
            f"cost: {left} iterations x {outer.tasks} lives x {adaptation.steps + 1} x "
            f"{adaptation.env_steps} env steps = {count(left * experiment.iteration_steps)} env "
            f"steps, {left * outer.epochs} second-order gradients"
            + (
                f"; besides, {validations} validations of {count(tested)} env steps in all, and "
                f"{outer.final_episodes} final episodes a life"
                if validations
                else ""
            ),
            *remarks(make_family(experiment.task)),
        ]

    def line(self, result: IterationResult) -> str:
        """Returns the mean returns of an iteration."""
        metrics = result.metrics
        return (
            f"mean return {metrics['return_before_mean']:.2f} before adaptation, "
            f"{metrics['return_after_mean']:.2f} after{_validation(result.state.best_return)}"
        )

    def notes(self, result: IterationResult) -> list[str]:
        """Returns a line on lives that failed in validation, if any did."""
        failed, count = result.metrics[FAILED], self._experiment.outer.tasks
        line = f"iteration {self.done}: {failed:.0f} of {count} validation lives failed"
        return [line] if failed > 0 else []

    def ending(self, summary: Mapping[str, Any]) -> list[str]:
        """Returns how a finished run ended."""
        learned = f"meta-trained an initialisation of {summary['parameters']} parameters in"
        return [
            f"{self.what_it_did(summary, learned)} {duration(summary['seconds'])}, "
            f"{count(summary['env_steps'])} env steps"
            f"{_validation(summary['best_validation_return_mean'])}, "
            f"{summary['failed_lives']} failed lives"
        ]


def memory_requirements(experiment: MAMLExperiment) -> list[MemoryRequirement]:
    """Returns what meta-training keeps in memory at once, without the libraries; a lower bound."""
    spec, adaptation = make_family(experiment.task).spec, experiment.adaptation
    hidden, samples = sum(experiment.policy.hidden), experiment.outer.tasks * adaptation.env_steps
    batches = adaptation.steps + 1
    sampled = 2 * (2 * spec.observation_size + 2 * spec.action_size + 4)
    # Outputs of the layers, of the gradient step through them, and of the gradient of both.
    derived = 4 * hidden
    # Factors, products and inputs.
    products = 3 * number_of_pairs(spec.observation_size) * experiment.policy.observation_pairs
    names = ("outer.tasks", "adaptation.env_steps", "adaptation.steps")
    return [
        MemoryRequirement(4.0 * samples * batches * sampled, "the samples", names),
        MemoryRequirement(
            4.0 * samples * batches * (derived + products),
            "the outputs of policies that gradients need",
            (*names, "policy.hidden", "policy.observation_pairs"),
        ),
    ]


def _validation(best: float) -> str:
    """Returns the best mean return in validation, for a line; empty before the first."""
    return "" if best == -math.inf else f", {best:.2f} in the best validation"
