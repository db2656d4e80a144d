"""A run of each system that is small enough for a test."""

from __future__ import annotations

import csv
import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.launch import commands


@dataclasses.dataclass(frozen=True)
class System:
    """How a system is run, killed and compared.

    Attributes:
      config: Name of its config.
      settings: Of a short run, by their full names.
      length: Name of the setting of a run's length.
      moments: Files whose appearance is when a run is killed, one run after the other.
      compute: Settings that change no bit, for the runs that are killed.
      losses: Folders of what a run leaves.
    """

    config: str
    settings: Mapping[str, Any]
    length: str
    moments: tuple[str, ...] = ("checkpoints/epoch_00000001.npz",)
    compute: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    losses: tuple[str, ...] = ("best", "final")

    def flags(self, **changes) -> list[str]:
        """Returns --config flags, with `changes` (GROUP__FIELD=VALUE)."""
        changed = {name.replace("__", "."): value for name, value in changes.items()}
        settings = {**self.settings, **changed}
        return [
            f"--config={self.config}",
            *(f"--config.{name}={value}" for name, value in settings.items()),
        ]

    def left(self, folder: Path) -> list[object]:
        """Returns what a run leaves: its losses to the byte, its rows without times."""
        losses = [(folder / name / "loss.npz").read_bytes() for name in self.losses]
        with open(folder / "metrics.csv", newline="") as stream:
            rows = list(csv.DictReader(stream))
        return [*losses, [{k: v for k, v in row.items() if "second" not in k} for row in rows]]


SYSTEMS = {
    "evolution": System(
        "point_goal",
        {**commands.TINY, "surrogate.kind": "reinforce"},
        "evolution.epochs",
        ("config.json", "checkpoints/epoch_00000001.npz", "checkpoints/epoch_00000003.npz"),
        {"compute__parallel": "processes", "compute__threads": 2},
    ),
    "metagenrl": System(
        "metagenrl_laptop",
        {
            "environments": "('gymnasium:Pendulum-v1@10',)",
            "agents": 2,
            "steps_per_agent": 60,
            "round_steps": 20,
            "life_rounds": 2,
            "objective_period": 1,
            "agent.hidden": "(4,)",
            "agent.batch": 2,
            "agent.chunk": 3,
            "agent.random_steps": 20,
            "agent.updates_after": 4,
            "agent.replay_steps": 40,
            "objective.lstm_units": 3,
            "objective.action_filters": 2,
            "baseline.update_period": 20,
            "baseline.minibatch": 10,
        },
        "steps_per_agent",
        ("agents/shard_000/weights/epoch_00000002.npz",),  # the objective's comes after it
        losses=("final",),
    ),
    "maml": System(
        "maml_half_cheetah",
        {
            "task.family": "point_goal",
            "task.frame_skip": 2,
            "task.episode_limit": 6,
            "task.physics": "exact",
            "policy.hidden": "(4,)",
            "adaptation.env_steps": 12,
            "outer.tasks": 2,
            "outer.iterations": 3,
            "outer.validation_period": 1,
        },
        "outer.iterations",
    ),
    "rl2": System(
        "rl2_half_cheetah",
        {
            "task.family": "hidden_goal",
            "task.physics": "exact",
            "task.episode_limit": 6,
            "iterations": 3,
            "trials": 4,
            "validation_period": 2,
            "validation_trials": 2,
            "network.input_units": 4,
            "network.lstm_units": 4,
            "ppo.epochs": 2,
            "threads": 1,
        },
        "iterations",
        compute={"threads": 2},
    ),
}
