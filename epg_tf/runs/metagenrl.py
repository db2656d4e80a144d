"""Adapts MetaGenRL to a session."""

from __future__ import annotations

import hashlib
import math
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from epg_tf.artifacts.artifact import save
from epg_tf.core import files
from epg_tf.core.communication import Communicator
from epg_tf.core.errors import RecordError
from epg_tf.core.formatting import count, duration
from epg_tf.core.memory import refuse_what_cannot_fit
from epg_tf.core.threads import threads_of
from epg_tf.core.types import Array, EnvironmentSpec
from epg_tf.losses.lstm_objective import parameter_count
from epg_tf.metagenrl.memory_requirements import memory_requirements, replay_bytes
from epg_tf.metagenrl.population import Population, meta_learn, metric_columns
from epg_tf.metagenrl.settings import MetaGenRLExperiment
from epg_tf.metagenrl.shard_plans import plan_shards
from epg_tf.metagenrl.state import RoundResult, initial_state
from epg_tf.metagenrl.validation import (
    best_round,
    is_validated,
    validation_columns,
    validation_places,
)
from epg_tf.runs import checkpoints, metagenrl_checkpoints, standstill
from epg_tf.runs.folder import CONFIG, RunFolder, RunLength, RunTarget
from epg_tf.runs.folder_lock import check_in_place
from epg_tf.runs.identity import OWN_FILES, RunKind
from epg_tf.runs.kept_objectives import drop_after, keep_best, kept_name
from epg_tf.runs.progress import Write
from epg_tf.runs.session import run_in_folder
from epg_tf.runs.system import Failures, System, failures
from epg_tf.tasks.registry import named_environment
from epg_tf.tasks.units import remarks

METAGENRL = RunKind(
    name="metagenrl",
    unit="round",
    own=(*OWN_FILES, "agents", "objectives"),
    may_change=frozenset(
        {
            "config.steps_per_agent",
            "config.failed_rounds",
            "config.threads",
            "config.objective_period",
        }
    ),
    per_rank=frozenset({"config.threads"}),
    from_mapping=MetaGenRLExperiment.from_mapping,
)


def meta_learn_in_folder(
    experiment: MetaGenRLExperiment,
    seed: int,
    run_dir: files.PathLike,
    *,
    resume: bool = False,
    overwrite: bool = False,
    write: Write | None = None,
) -> Iterator[RoundResult]:
    """Meta-learns an objective in this process and records the run.

    The files are those of the command epg-tf meta-train. Stopped in any way, the run can
    be resumed, and ends with the same bits as without the stop.

    Args:
      experiment: Settings.
      seed: Of all randomness, >= 0.
      run_dir: Folder for all files of the run; `read_run` reads it.
      resume: Continue the run that is there, or start it if there is none.
      overwrite: Replace the run that is there; other files in the folder stay.
      write: Called with lines about progress, e.g. print; None is silent.

    Yields:
      A `RoundResult` per round, after it is recorded. After the last one `final/` and
      `summary.json` are written.

    Raises:
      RecordError: The folder cannot be used in this way; nothing has been deleted.
      ConfigError: The settings need more memory than there is.
      OSError: A file cannot be written; earlier checkpoints are unchanged.
      RunFailed: In `config.failed_rounds` rounds in a row all agents had failed.
    """
    target = RunTarget(run_dir, resume, overwrite)
    yield from run_in_folder(MetaGenRLSystem(experiment, seed), target, write)


class MetaGenRLSystem(System[RoundResult]):
    """One run of MetaGenRL on this rank. All hosts share its folder: every rank saves agents there.

    Args:
      experiment: Settings, the same on every rank.
      communicator: The ranks of the run; None: one process.

    Attributes:
      state: The newest one.

    Raises:
      ConfigError: The settings need more memory than there is, or an environment does not fit.
    """

    kind = METAGENRL
    stopping = "stopping after the update that agents are in"

    def __init__(
        self, experiment: MetaGenRLExperiment, seed: int, communicator: Communicator | None = None
    ):
        super().__init__(experiment, seed, communicator)
        ranks = self.communicator
        threads = threads_of(experiment.threads, ranks.local_size)
        needs = memory_requirements(experiment, _specs(experiment), threads, ranks.size)
        refuse_what_cannot_fit(experiment, needs, ranks.local_size)
        self._population = Population(experiment, seed, ranks)
        self._path = Path()
        self.standstill = standstill.of_metagenrl(experiment)
        self.state = initial_state(experiment, seed)
        self.length = RunLength(experiment.rounds, "config.steps_per_agent", experiment.round_steps)
        self.columns = metric_columns(experiment)
        self.curves = {
            f"return in {place}": f"training_return/{place}" for place in experiment.environments
        }
        self.failures = Failures(
            "failed_agents", experiment.agents, experiment.failed_rounds, self._why_failed
        )

    @property
    def done(self) -> int:
        """Rounds done."""
        return self.state.round

    def steps(self, advance: Callable[[int], None]) -> Iterator[RoundResult]:
        """Yields the result of each round, once all ranks have saved its agents."""
        del advance
        rounds = meta_learn(self._experiment, self._seed, self._population, self.state)
        while self.done < self._experiment.rounds:
            result = next(rounds)
            check_in_place(self._path, self._place)
            metagenrl_checkpoints.save_shards(self._path, self._population, self.identity)
            self._wait()
            self.state = result.state
            yield result

    def _wait(self) -> None:
        """Returns once all ranks have called this."""
        self.communicator.sum(np.zeros(1, np.int64))

    def stop(self) -> None:
        """Ends the run after the update that agents are in."""
        self._population.stopped.set()

    def _why_failed(self, steps: int) -> str:
        """Names one of the agents that failed on this rank."""
        return (
            f"all {self._experiment.agents} agents had failed in {steps} rounds in a row "
            f"(config.failed_rounds), the last round {self.done}, e.g. "
            f"{self._population.why_agents_failed()}; correct the environment, or make learning "
            "rates smaller"
        )

    def arrays(self) -> tuple[dict[str, Array], dict[str, Any]]:
        """Returns the objective; agents are saved in `steps`."""
        return metagenrl_checkpoints.arrays_of(self.state)

    def restore(self, path: Path, folder: RunFolder | None) -> None:
        """Restores objective and agents; raises as `System.restore`."""
        self._path = path
        self._wait()
        if not (path / CONFIG).is_file():
            raise RecordError(
                f"{path}: rank {self.communicator.rank} does not see what rank 0 wrote there; name "
                "a folder that all hosts share"
            )
        self._place = os.stat(path)
        state, damaged = metagenrl_checkpoints.restore(path, self._population, self.identity)
        digest = hashlib.sha256(state.parameters.tobytes() + str(state.round).encode()).digest()
        self.communicator.check_same(f"what was restored from {path}", digest)
        self.state = state
        if folder is not None:
            folder.warnings[:0] = [f"damaged: {message}" for message in damaged]

    def keep(self, folder: RunFolder, result: RoundResult | None) -> None:
        """Writes the objective of every `objective_period` rounds, and each that was tested, to a
        folder of its own, and the best of those to `best/`.
        """
        if result is None:
            # Before shards of these rounds are written again: a kill must not leave both together.
            checkpoints.drop_after(folder.path / "checkpoints", self.done)
            drop_after(folder.path, self.done)
        kept = folder.path / "objectives" / kept_name(self.done)
        due = self.done % self._experiment.objective_period == 0
        due = due or is_validated(self._experiment, self.done)
        if due and not (kept / "loss.json").is_file():
            self._save_objective(kept, folder)
        if self._experiment.validation.period:
            keep_best(folder, self._experiment)

    def _save_objective(self, path: Path, folder: RunFolder) -> None:
        facts = {**folder.facts, "round": self.done, "env_steps": self._env_steps()}
        save(path, self.state.parameters, self._experiment, facts)

    def _env_steps(self) -> int:
        return self.done * self._experiment.round_steps * self._experiment.agents

    def finish(self, folder: RunFolder, rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """Writes `final/`."""
        self._save_objective(folder.path / "final", folder)
        last, best = rows[-1] if rows else {}, best_round(self._experiment, rows)
        names = validation_columns(self._experiment)
        return {
            "parameters": self.state.parameters.size,
            "env_steps": self._env_steps(),
            "last": {
                name: value for name, value in last.items() if name.startswith("training_return")
            },
            "best": best and {"round": int(best["epoch"]), **{name: best[name] for name in names}},
            "failed_agents": failures([last], "failed_agents"),
        }

    @staticmethod
    def purpose(experiment: MetaGenRLExperiment) -> str:
        """Returns what is learned, and for which environments."""
        return (
            f"meta-learning an objective of {parameter_count(experiment.objective)} parameters for "
            f"{', '.join(experiment.environments)} with {experiment.agents} agents"
        )

    @staticmethod
    def costs(experiment: MetaGenRLExperiment, done: int = 0, ranks: int = 1) -> list[str]:
        """Returns lines on what a run does after some rounds, and what that costs."""
        agent, agents = experiment.agent, experiment.agents
        replays = replay_bytes(experiment, _specs(experiment)) / 2**20
        left = experiment.steps_per_agent - done * experiment.round_steps
        lines = [
            f"cost: {agents} agents x {count(left)} env steps = {count(agents * left)} env steps; "
            f"{count(left // agent.policy_delay)} updates of the objective, each with "
            f"{agent.policy_delay} critic updates and {experiment.meta.virtual_steps} virtual "
            f"steps on {agent.batch} x {agent.chunk} steps per agent; replays of at most "
            f"{count(replays)} MiB in all, in memory and again in the run's folder",
        ]
        validation, places = experiment.validation, validation_places(experiment)
        if places:
            steps = validation.agents * len(places) * validation.env_steps
            lines.append(
                f"every {validation.period} rounds {validation.agents} fresh agents learn with the "
                f"objective in each of {', '.join(places)}: {count(steps)} env steps a test"
            )
        shards = len(plan_shards(experiment))
        if ranks > shards:
            lines.append(
                f"{ranks - shards} of {ranks} ranks have nothing to do: there are only {shards} "
                f"shards of at most config.shard_agents={experiment.shard_agents} agents"
            )
        families = map(named_environment, experiment.environments)
        return lines + [line for family in families for line in remarks(family)]

    def line(self, result: RoundResult) -> str:
        """Returns the mean returns of a round."""
        returns = "  ".join(
            f"{name} {result.metrics[f'training_return/{name}']:.1f}"
            for name in self._experiment.environments
        )
        return f"mean return {returns}"

    def notes(self, result: RoundResult) -> list[str]:
        """Returns a line on the test of the objective, if there was one."""
        if not is_validated(self._experiment, self.done):
            return []
        places, columns = validation_places(self._experiment), validation_columns(self._experiment)
        tested = "  ".join(
            f"{place} {result.metrics[column]:.1f}"
            for place, column in zip(places, columns, strict=True)
        )
        return [f"round {self.done}: fresh agents with this objective end at {tested}"]

    def ending(self, summary: Mapping[str, Any]) -> list[str]:
        """Returns how a finished run ended."""
        lines = []
        last = ", ".join(
            f"{name.split('/', 1)[1]} {value:.1f}" for name, value in summary["last"].items()
        )
        learned = f"meta-learned {summary['parameters']} parameters in"
        lines.append(
            f"{self.what_it_did(summary, learned)} {duration(summary['seconds'])}, "
            f"{count(summary['env_steps'])} env steps; mean return in the last round: "
            f"{last or 'none'}; {summary['failed_agents']} agents failed in it"
        )
        if any(math.isnan(value) for value in summary["last"].values()):
            lines.append(
                "no episode ended in the last round in some environment; longer "
                "config.round_steps show more"
            )
        return lines


def _specs(experiment: MetaGenRLExperiment) -> dict[str, EnvironmentSpec]:
    names = (*experiment.environments, *experiment.validation.environments)
    return {name: named_environment(name).spec for name in names}
