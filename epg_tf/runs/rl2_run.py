"""Records a run of RL² in its folder, and restores it from there."""

from __future__ import annotations

from typing import Any

from epg_tf.artifacts.loss_files import holds_loss
from epg_tf.artifacts.rl2_policy import load_rl2, save_rl2
from epg_tf.baselines.recurrent_ppo import RecurrentAgent
from epg_tf.baselines.rl2 import IterationResult, metric_columns
from epg_tf.core import files
from epg_tf.core.errors import VersionError
from epg_tf.core.rl2_experiment import RL2Experiment, rl2_from_mapping
from epg_tf.runs import checkpoints
from epg_tf.runs.checkpoints import Checkpoint
from epg_tf.runs.folder import RunFolder, RunLength, RunTarget
from epg_tf.runs.identity import OWN_FILES, RunIdentity, RunKind
from epg_tf.runs.rare_drawing import RareDrawing

RL2 = RunKind(
    name="rl2",
    own=OWN_FILES,
    may_change=frozenset({"config.iterations", "config.threads"}),
    per_rank=frozenset({"config.threads"}),
    from_mapping=rl2_from_mapping,
)


class RL2Run:
    """The folder of one run of RL², open for writing until `close`.

    Args:
      experiment: Settings of the run.
      seed: Of the run.
      target: The folder, and what happens to an earlier run there.

    Attributes:
      path: The folder.
      warnings: Lines about damaged checkpoints, changed versions and missing rows.

    Raises:
      RecordError: The folder cannot be used in this way; nothing has been deleted.
    """

    def __init__(self, experiment: RL2Experiment, seed: int, target: RunTarget):
        identity = RunIdentity(RL2, experiment.to_mapping(), seed)
        self._folder = RunFolder(identity, target)
        self._experiment = experiment
        self.path = self._folder.path
        self.warnings: list[str] = []
        self._picture = RareDrawing(self._draw)

    def restore(self, agent: RecurrentAgent) -> tuple[int, float]:
        """Sets the agent to the newest state that is saved, and drops what is later.

        Args:
          agent: As new; stays so where nothing is saved.

        Returns:
          (iterations done, best validation return so far).

        Raises:
          RecordError: No checkpoint can be read, though there is or was one, or the run has
            already more iterations than its experiment allows. Nothing has been deleted.
          VersionError: Another version of this package wrote the checkpoint.
        """
        checkpoint = self._folder.newest_checkpoint()
        if checkpoint is None:  # or a kill in the first iteration would leave rows alone
            self._save_state(agent, 0, float("-inf"))
            done, best_return = 0, float("-inf")
        else:
            done, best_return = self._load(checkpoint, agent)
        length = RunLength(self._experiment.iterations, "config.iterations")
        self._folder.continue_after(done, length, metric_columns(self._experiment))
        self.warnings = self._folder.warnings
        return done, best_return

    def _load(self, checkpoint: Checkpoint, agent: RecurrentAgent) -> tuple[int, float]:
        """Sets the agent to a checkpoint; returns its iteration and best validation return."""
        try:
            best_return = float(checkpoint.facts["best_return"])
            agent.load(checkpoint.arrays)
        except (KeyError, ValueError) as error:
            raise VersionError(
                f"{self.path}: the checkpoint of iteration {checkpoint.epoch} does not fit "
                f"({error}), so another version of epg_tf wrote it; resume with that one, or start "
                "another run"
            ) from error
        return checkpoint.epoch, best_return

    def record(self, result: IterationResult, agent: RecurrentAgent) -> None:
        """Writes one iteration; the checkpoint last, so that after a kill it is repeated."""
        self._folder.metrics.append(result.metrics)
        numbers = {name: value for name, value in result.metrics.items() if name != "epoch"}
        self._folder.board.scalars(result.iteration, numbers, "rl2")
        if result.is_best:
            self._save(agent, "best", result.iteration, result.best_return)
            self._picture.update()
        self._save_state(agent, result.iteration, result.best_return)

    def _save_state(self, agent: RecurrentAgent, iteration: int, best_return: float) -> None:
        facts = {"best_return": best_return}
        checkpoints.save(self.path / "checkpoints", iteration, agent.arrays(), facts)

    def _draw(self) -> None:
        from epg_tf.reports import objective_plots  # here: `import epg_tf` needs no matplotlib

        ends = sorted({1, self._experiment.trial.episodes})
        returns = {f"return of episode {k}": f"training_return/episode_{k}" for k in ends}
        rows = self._folder.metrics.read()
        objective_plots.training_curves(rows, returns, self.path / "learning_curve.png")

    def _save(
        self, agent: RecurrentAgent, name: str, iteration: int, validation_return: float | None
    ) -> None:
        facts = {
            **self._folder.facts,
            "iteration": iteration,
            "env_steps": self._experiment.env_steps_after(iteration),
            "validation_return": validation_return,
        }
        shapes = agent.policy_shapes()
        save_rl2(self.path / name, agent.policy_vector(), shapes, self._experiment, facts)

    def _state_cost_of_best(self, done: int, agent: RecurrentAgent) -> None:
        """States in `best/` the env steps of the whole run, which found out that it is the best."""
        if not holds_loss(self.path / "best"):
            return
        best = load_rl2(self.path / "best")
        facts = {**best.facts, "env_steps": self._experiment.env_steps_after(done)}
        shapes = agent.policy_shapes()
        save_rl2(self.path / "best", best.vector, shapes, self._experiment, facts)

    def finish(self, done: int, best_return: float, agent: RecurrentAgent) -> dict[str, Any]:
        """Writes `final/`, the learning curve and `summary.json`; returns the summary."""
        rows = self._folder.metrics.read()
        self._save(agent, "final", done, None)
        self._state_cost_of_best(done, agent)
        self._picture.draw()
        summary = {
            "iterations": done,
            "env_steps": self._experiment.env_steps_after(done),
            "seconds": sum(row["seconds"] for row in rows),
            "parameters": int(agent.policy_vector().size),
            "best_validation_return": best_return,
            **self._folder.facts,
        }
        files.write_json(self.path / "summary.json", summary)
        return summary

    def close(self) -> None:
        """Closes the log and lets other processes use the folder."""
        self._folder.close()
