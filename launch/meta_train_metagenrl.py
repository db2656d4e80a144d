"""Meta-learns an objective with MetaGenRL, in one process or in many.

    python -m launch.meta_train_metagenrl --config=configs/metagenrl_laptop.py
    --run_dir=runs/objective horovodrun -np 2 -H localhost:2 python -m launch.meta_train_metagenrl
    --config=... --run_dir=runs/objective

Under horovodrun all hosts must see the same --run_dir: every rank keeps the agents that live on it
there.
"""

from __future__ import annotations

import hashlib
import math
import shlex
import time
from pathlib import Path

from launch import command_line  # first: it quietens the frameworks

import numpy as np  # isort: skip
from absl import flags  # isort: skip
from ml_collections import config_flags  # isort: skip

from epg_tf.core import formatting
from epg_tf.core.errors import ConfigError, Interrupted, Stopped
from epg_tf.metagenrl.state import ObjectiveState, RoundResult, initial_state
from epg_tf.metagenrl.population import Population, metagenrl
from epg_tf.metagenrl.shard_plans import plan_shards
from epg_tf.core.threads import configure_tensorflow, cpus
from epg_tf.core.communication import Communicator
from epg_tf.losses.lstm_objective import parameter_count
from epg_tf.core.metagenrl_experiment import MetaGenRLExperiment
from epg_tf.tasks.registry import named_environment
from launch import run_flags
from epg_tf.runs import metagenrl_run
from epg_tf.runs.metagenrl_run import ObjectiveFolder
from launch.run_flags import RunFlags

_CONFIG = config_flags.DEFINE_config_file(
    "config", None, "Experiment file, e.g. configs/metagenrl_laptop.py."
)
flags.adopt_module_key_flags(run_flags)


def main(argv: list[str]) -> int:
    """Runs meta-training to its end, or to Ctrl-C or SIGTERM; returns the exit code."""
    del argv
    experiment = command_line.metagenrl_experiment_of(_CONFIG)
    asked = run_flags.read("runs/objective")
    communicator = run_flags.join()
    configure_tensorflow(
        experiment.threads or cpus(communicator.local_size)
    )  # before the first collective uses it
    return asked.guard(lambda: _Run(experiment, asked, communicator).train())


class _Run:
    """One rank's part in a run."""

    def __init__(
        self, experiment: MetaGenRLExperiment, asked: RunFlags, communicator: Communicator
    ):
        self._experiment, self._communicator, self._path = (
            experiment,
            communicator,
            Path(asked.run_dir),
        )
        self._seed, settings = asked.seed, experiment.to_mapping()
        settings.pop("threads")
        communicator.check_same(
            "what the run does (settings, seed, versions)", asked.identity(settings)
        )
        self._folder = None
        if communicator.rank == 0:
            self._folder = ObjectiveFolder(
                asked.run_dir, experiment, asked.seed, asked.resume, asked.overwrite
            )
        self._wait()
        if not (self._path / "config.json").is_file():
            raise ConfigError(
                f"--run_dir={asked.run_dir}: rank {communicator.rank} does not see what rank 0 "
                "wrote "
                f"there; name a folder that all hosts share"
            )
        self._population = Population(experiment, asked.seed, communicator)
        self._stopped_by = command_line.stop_on_signals(
            "stopping after the update that agents are in",
            communicator,
            self._population.stopped.set,
        )

    def _wait(self) -> None:
        """Returns once all ranks have come here."""
        self._communicator.sum(np.zeros(1, np.int64))

    def train(self) -> int:
        """Trains and records until the end or a signal, from where the folder is; returns the exit
        code.
        """
        state = initial_state(self._experiment, self._seed)
        try:
            state = self._restore()
            self._started, self._from = time.perf_counter(), state.round
            for result in metagenrl(self._experiment, self._seed, self._population, state):
                metagenrl_run.save_shards(self._path, self._population)
                self._wait()
                state = result.state
                if self._folder:
                    self._folder.record(result)
                    self._show(result)
                if self._stopped_by:
                    raise Interrupted
        except (Interrupted, Stopped):
            if self._folder:
                where = (
                    f"; its checkpoint is in {self._path / 'checkpoints'}" if state.round else ""
                )
                print(
                    f"stopped after round {state.round} of {self._experiment.rounds}{where}\nto "
                    "go on, run the same "
                    f"command with --resume"
                )
            return 128 + self._stopped_by[0]
        if self._folder:
            _conclude(self._folder, state)
        return 0

    def _restore(self) -> ObjectiveState:
        """Returns the state to go on from, the same on every rank, and tells the user."""
        state, notes = metagenrl_run.restore(self._path, self._population, self._seed)
        held = hashlib.sha256(state.parameters.tobytes() + str(state.round).encode()).digest()
        self._communicator.check_same(f"what was restored from --run_dir={self._path}", held)
        if self._folder:
            for note in [f"damaged: {note}" for note in notes] + self._folder.notes:
                print(note)
            self._folder.go_on_from(state)
            _announce(self._experiment, state, self._communicator.size)
        return state

    def _show(self, result: RoundResult) -> None:
        metrics, number, rounds = result.metrics, result.state.round, self._experiment.rounds
        left = rounds - number
        if number == self._from + 1 and left:
            print(
                f"the first round took {formatting.duration(metrics['seconds'])}, compilation "
                "included"
            )
        if number % max(1, rounds // 20) == 0 or not left:
            spent = time.perf_counter() - self._started
            returns = "  ".join(
                f"{name} {metrics[f'training_return/{name}']:.1f}"
                for name in self._experiment.environments
            )
            rest = spent * left / (number - self._from)
            print(
                f"round {number}/{rounds}  mean return {returns}  {formatting.duration(spent)} so "
                "far, "
                f"{formatting.duration(rest)} left",
                flush=True,
            )


def _announce(experiment: MetaGenRLExperiment, state: ObjectiveState, ranks: int) -> None:
    count, agent = formatting.count, experiment.agent
    left = experiment.steps_per_agent - state.round * experiment.round_steps
    where = ", ".join(experiment.environments)
    if not left:
        print(f"all {state.round} rounds are done; writing what a finished run leaves")
        return
    print(
        f"meta-learning an objective of {parameter_count(experiment.objective)} parameters with "
        f"{experiment.agents} "
        f"agents in {where}"
        + (f", on {ranks} ranks" if ranks > 1 else "")
        + (f", from round {state.round} on" if state.round else "")
    )
    updates = left // agent.policy_delay
    print(
        f"cost: {experiment.agents} agents x {count(left)} env steps = "
        f"{count(experiment.agents * left)} env steps; "
        f"{count(updates)} updates of the objective, each with {agent.policy_delay} critic "
        "updates and "
        f"{experiment.meta.virtual_steps} virtual steps on {agent.batch} x {agent.chunk} steps "
        "per agent; replays of "
        f"at most {count(_replay_bytes(experiment) / 2**20)} MiB in all, in memory and again in "
        "the run's folder"
    )
    shards = len(plan_shards(experiment))
    if ranks > shards:
        print(
            f"{ranks - shards} of {ranks} ranks have nothing to do: there are only {shards} "
            "shards of at most "
            f"config.shard_agents={experiment.shard_agents} agents"
        )


def _replay_bytes(experiment: MetaGenRLExperiment) -> float:
    each = experiment.agents // len(experiment.environments)
    families = [named_environment(name) for name in experiment.environments]
    numbers = sum(2 * family.observation_size + family.action_size + 3 for family in families)
    return 4.0 * numbers * each * experiment.agent.replay_steps


def _conclude(folder: ObjectiveFolder, state: ObjectiveState) -> None:
    summary, path = folder.finish(state), folder.path
    last = ", ".join(
        f"{name.split('/', 1)[1]} {value:.1f}" for name, value in summary["last"].items()
    )
    print(
        f"meta-learned {summary['parameters']} parameters in "
        f"{formatting.duration(summary['seconds'])}, "
        f"{formatting.count(summary['env_steps'])} env steps; mean return in the last round: "
        f"{last or 'none'}; "
        f"{summary['failed_agents']} failed agents"
    )
    if any(math.isnan(value) for value in summary["last"].values()):
        print(
            "no episode ended in the last round in some environment; longer config.round_steps "
            "show more"
        )
    loss, output = shlex.quote(f"{path}/final"), shlex.quote(f"{path}-test")
    print(
        f"results are in {path}; next: python -m launch.meta_test --loss={loss} "
        f"--output_dir={output}"
    )


if __name__ == "__main__":
    command_line.run(main)
