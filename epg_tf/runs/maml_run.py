"""Meta-trains by MAML in a folder: starts or resumes the run and records every iteration.

It runs in one process on one thread; lives are in lockstep, so an iteration is one shard.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import numpy as np

from epg_tf.artifacts.learned_start import save_start
from epg_tf.baselines.maml import COLUMNS, MetaTraining
from epg_tf.baselines.maml_lives import Initialisation
from epg_tf.baselines.maml_state import IterationResult, MAMLState, initial_state
from epg_tf.core import files
from epg_tf.core.errors import Interrupted
from epg_tf.core.maml_experiment import MAMLExperiment, maml_from_mapping
from epg_tf.core.memory import MemoryNeed, refuse_what_cannot_fit
from epg_tf.core.products import number_of_pairs
from epg_tf.core.threads import configure_tensorflow
from epg_tf.runs import standstill
from epg_tf.runs.folder import RunFolder, RunLength, RunTarget
from epg_tf.runs.identity import OWN_FILES, RunIdentity, RunKind
from epg_tf.runs.maml_checkpoints import save_state, state_of
from epg_tf.runs.maml_progress import MAMLProgress
from epg_tf.runs.progress import Write
from epg_tf.runs.rare_drawing import RareDrawing
from epg_tf.tasks.registry import make_family

MAML = RunKind(
    name="maml",
    own=OWN_FILES,
    may_change=frozenset({"config.outer.iterations"}),
    per_rank=frozenset(),
    from_mapping=maml_from_mapping,
)

CURVE_COLUMNS = {
    "return before adaptation": "return_before_mean",
    "return after adaptation": "return_after_mean",
}
"""Panels of the learning curve, and their columns in metrics.csv."""


class MAMLRun:
    """One run of MAML and its folder, open for writing until `close`.

    Args:
      experiment: Settings.
      seed: Of all randomness.
      target: The folder, and what happens to an earlier run there.
      write: Called with lines about progress.
      threads: Operations of TensorFlow at once; no effect on results, and little on speed.

    Raises:
      ConfigError: The settings need more memory than there is.
      RecordError: The folder cannot be used in this way; nothing has been deleted.
    """

    def __init__(
        self,
        experiment: MAMLExperiment,
        seed: int,
        target: RunTarget,
        write: Write,
        threads: int = 1,
    ):
        refuse_what_cannot_fit(memory_needs(experiment))
        configure_tensorflow(threads)
        self._experiment, self._seed = experiment, seed
        self._stop = threading.Event()
        self._progress = MAMLProgress(experiment, write)
        self._folder = RunFolder(RunIdentity(MAML, experiment.to_mapping(), seed), target)
        self._picture = RareDrawing(self._draw)

    def iterations(self) -> Iterator[IterationResult]:
        """Meta-trains and records to the end, from the state in the folder.

        Yields:
          A result per iteration, after it is recorded.

        Raises:
          Interrupted: `stop` was called.
          RecordError: No checkpoint can be read, or the run is already longer.
          RunFailed: All lives of an iteration failed.
          OSError: A file cannot be written; earlier checkpoints are unchanged.
        """
        state = self._restored()
        self._progress.begin(state, self._folder.warnings)
        try:
            training = MetaTraining(self._experiment, self._seed, self._stop)
            for result in training.iterations(state):
                state = result.state
                self._record(result)
                yield result
        except (Interrupted, KeyboardInterrupt, GeneratorExit):
            self._progress.stopped(state)
            raise
        self._finish(state)

    def stop(self) -> None:
        """Ends the run within the current iteration, which a resumed run repeats."""
        self._stop.set()

    def close(self) -> None:
        """Lets other processes use the folder."""
        self._progress.close()
        self._folder.close()

    def _restored(self) -> MAMLState:
        """Returns the newest state that is saved, or the initial one, and drops what is later."""
        checkpoint = self._folder.newest_checkpoint()
        state = initial_state(self._experiment, self._seed)
        if checkpoint is not None:
            state = state_of(self._folder.path, checkpoint)
        self._folder.continue_after(
            state.iteration,
            RunLength(self._experiment.outer.iterations, "config.outer.iterations"),
            COLUMNS,
        )
        self._save(state)
        return state

    def _record(self, result: IterationResult) -> None:
        """Writes one iteration; the checkpoint last, so that a kill repeats it."""
        state = result.state
        self._folder.metrics.append(result.metrics)
        numbers = {name: value for name, value in result.metrics.items() if name != "epoch"}
        self._folder.board.scalars(state.iteration, numbers, "maml")
        self._save(state)
        self._picture.update()
        self._progress.show(result)

    def _save(self, state: MAMLState) -> None:
        """Writes the checkpoint, and `best/`, which a kill may have left one validation behind."""
        save_state(self._folder.path, state)
        if state.best_return > -np.inf:
            self._save_start("best", state.best, state.best_iteration, state)

    def _save_start(
        self, name: str, start: Initialisation, iteration: int, state: MAMLState
    ) -> None:
        validated = state.best_return if state.best_return > -np.inf else None
        facts = {
            **self._folder.facts,
            "env_steps": state.env_steps,
            "iteration": iteration,
            "best_validation_return_mean": validated,
            "chosen": "best in validation" if name == "best" else "last iteration",
        }
        save_start(self._folder.path / name, start, self._experiment, facts)

    def _draw(self) -> None:
        from epg_tf.reports import objective_plots  # here: `import epg_tf` needs no matplotlib

        path = self._folder.path / "learning_curve.png"
        objective_plots.training_curves(self._folder.metrics.read(), CURVE_COLUMNS, path)

    def _finish(self, state: MAMLState) -> None:
        """Writes `final/` and `summary.json`."""
        rows = self._folder.metrics.read()
        self._save_start("final", state.start, state.iteration, state)
        self._picture.draw()
        unchanged = standstill.of_maml()
        summary: dict[str, Any] = {
            "iterations": state.iteration,
            "env_steps": state.env_steps,
            "seconds": sum(row["seconds"] for row in rows),
            "parameters": state.weights.size,
            "last_return_before_mean": rows[-1]["return_before_mean"] if rows else None,
            "last_return_after_mean": rows[-1]["return_after_mean"] if rows else None,
            "best_validation_return_mean": state.best_return,
            "failed_lives": int(sum(row["failed_lives"] for row in rows)),
            "unchanged_iterations": unchanged.count(rows),
            "verdict": unchanged.verdict(rows),
            **self._folder.facts,
        }
        files.write_json(self._folder.path / "summary.json", summary)
        self._progress.finished(summary)


def memory_needs(experiment: MAMLExperiment) -> list[MemoryNeed]:
    """Returns what meta-training keeps in memory at once, without the libraries; a lower bound."""
    spec, adaptation = make_family(experiment.task).spec, experiment.adaptation
    hidden, samples = sum(experiment.policy.hidden), experiment.outer.tasks * adaptation.env_steps
    batches = adaptation.steps + 1
    sampled = 2 * (2 * spec.observation_size + 2 * spec.action_size + 4)
    # Outputs of the layers, of the gradient step through them, and of the gradient of both.
    derived = hidden * (1 if adaptation.first_order else 4)
    pairs = experiment.policy.observation_pairs
    products = 3 * number_of_pairs(spec.observation_size) * pairs  # factors, products, inputs
    named = (
        f"config.outer.tasks={experiment.outer.tasks}, config.adaptation.env_steps="
        f"{adaptation.env_steps}, config.adaptation.steps={adaptation.steps}"
    )
    return [
        MemoryNeed(4.0 * samples * batches * sampled, "the samples", named),
        MemoryNeed(
            4.0 * samples * batches * (derived + products),
            "the outputs of policies that gradients need",
            f"{named}, config.policy.hidden={experiment.policy.hidden}, "
            f"config.policy.observation_pairs={pairs}",
        ),
    ]
