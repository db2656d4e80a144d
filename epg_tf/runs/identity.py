"""Describes what makes two runs the same run: system, settings and seed."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Callable, Mapping
from typing import Any

from epg_tf.artifacts.artifact import versions
from epg_tf.core.errors import ConfigError
from epg_tf.core.old_settings import renamed
from epg_tf.core.settings import changes, flat

LOG = "log.txt"
OWN_FILES = (
    "metrics.csv",
    "tensorboard",
    "checkpoints",
    "best",
    "final",
    "learning_curve.png",
    "summary.json",
    "config.json",
    LOG,
)
"""What a run writes that has a best and a final result, and draws its progress."""

BEGUN_WITH = "begun_with"  # in the facts of a run that began with what another one evolved
SCALE = "scale"  # there: what the mean actions of a policy were multiplied by
_BEGUN = "begun"  # in checkpoints: its checksum; those of earlier versions lack it


@dataclasses.dataclass(frozen=True)
class RunKind:
    """What is the same for all runs of one system.

    Attributes:
      name: Of the system, e.g. "evolution".
      unit: What a step of it is called, e.g. "epoch".
      own: Names of what a run writes, which overwriting replaces.
      may_change: Settings, as "config.GROUP.FIELD", that may differ when a run is resumed.
      per_rank: Settings that may differ between the ranks of a run.
      from_mapping: Makes an experiment of settings, or raises ConfigError.
    """

    name: str
    unit: str
    own: tuple[str, ...]
    may_change: frozenset[str]
    per_rank: frozenset[str]
    from_mapping: Callable[[Any], Any]


@dataclasses.dataclass(frozen=True)
class RunIdentity:
    """What makes a run this run: equal identities give equal numbers.

    Attributes:
      kind: Its system.
      settings: Of its experiment, nested mappings.
      seed: Of all its randomness.
      begun: The vector that it begins with: "loss", its name; "phi_sha256", its checksum; and
        `SCALE`, if there is one. Empty: what settings and seed imply.
    """

    kind: RunKind
    settings: Mapping[str, Any]
    seed: int
    begun: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    def __post_init__(self) -> None:
        """Raises ConfigError where the seed cannot name random streams."""
        if not isinstance(self.seed, int) or self.seed < 0:
            raise ConfigError(f"seed={self.seed!r} must be a whole number of at least 0")

    def described(self) -> dict[str, Any]:
        """Returns what files say of a run, for JSON."""
        begun = self.begun.get("phi_sha256")
        return {"seed": self.seed, "config": self.settings, _BEGUN: begun}

    def difference(self, description: Mapping[str, Any], where: str) -> str:
        """Compares with what a file says of the run that wrote it.

        Args:
          description: As `described`; others of its entries do not matter.
          where: Names the file, or its folder.

        Returns:
          The seed, the beginning or the first setting that differs and decides numbers, e.g.
          "seed=1: the run in runs/a has seed 0"; empty where there is none.

        Raises:
          ConfigError: The settings there are not usable.
        """
        before, now = description.get("seed"), self.seed
        if type(before) is not int or before != now:
            return f"seed={now}: {where} has seed {before!r:.50}"
        there = self.kind.from_mapping(renamed(description.get("config"))).to_mapping()
        for field, old, new in changes(there, self.settings, self.kind.may_change):
            return f"{field}={new!r}: {where} has {old!r}"
        mine = self.begun.get("phi_sha256")
        if (its := description.get(_BEGUN, mine)) != mine:  # config.json says it in other words
            if mine is None:
                return f"{where} began with another loss, and this run with a fresh one"
            began = "another loss" if its else "a fresh loss"
            return f"begin_with={self.begun['loss']}: {where} began with {began}"
        return ""

    def experiment(self) -> Any:
        """Returns the experiment that the settings describe."""
        return self.kind.from_mapping(self.settings)

    def digest(self) -> bytes:
        """Returns the SHA-256 of what must be the same on every rank, package versions included."""
        shared = [item for item in flat(self.settings) if item[0] not in self.kind.per_rank]
        text = json.dumps([self.kind.name, shared, self.seed, versions()])
        return hashlib.sha256(text.encode()).digest()


def beginning_of(description: Mapping[str, Any]) -> dict[str, Any]:
    """Returns what a run began with by its config.json or facts, as in `RunIdentity`."""
    begun = description.get(BEGUN_WITH)
    return begun if isinstance(begun, dict) else {}


def beginning_in_words(begun: Mapping[str, Any]) -> str | None:
    """Returns what a run began with, and what that was multiplied by; None: a fresh vector."""
    scale = begun.get(SCALE)
    times = f" with begin_scale={scale:g}" if isinstance(scale, int | float) else ""
    return f"{begun.get('loss')}{times}" if begun else None
