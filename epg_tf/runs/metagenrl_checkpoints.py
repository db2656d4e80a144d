"""Saves the state of a run of MetaGenRL on every rank, and restores it.

Rank 0 saves the objective, and each rank the shards of its agents, so all hosts must share the
folder. After each round a shard saves its weights (the newest few states are kept) and the steps of
that round. The replay is restored from the steps of the newest rounds, so that a checkpoint costs
the steps of one round, whatever the length of the replay.
"""

from __future__ import annotations

import enum
import itertools
from pathlib import Path
from typing import Any

import numpy as np

from epg_tf.core.errors import RecordError, VersionError
from epg_tf.core.types import Array
from epg_tf.metagenrl.agents import AgentShard
from epg_tf.metagenrl.population import Population
from epg_tf.metagenrl.settings import MetaGenRLExperiment
from epg_tf.metagenrl.state import ObjectiveState, initial_state
from epg_tf.runs import checkpoints
from epg_tf.runs.checkpoints import Wanted
from epg_tf.runs.identity import RunIdentity
from epg_tf.runs.metrics import MetricsFile

_KEEP = 3


class Needed(enum.Enum):
    """Which steps of the rounds in a replay must be undamaged for a checkpoint to be read."""

    ALL = "all"
    NEWEST = "newest"
    NONE = "none"


def save_state(path: Path, state: ObjectiveState, identity: RunIdentity) -> None:
    """Saves the objective; the shards of the same round must be saved before."""
    arrays, facts = arrays_of(state)
    checkpoints.save(path / "checkpoints", state.round, arrays, facts, _KEEP, identity)


def arrays_of(state: ObjectiveState) -> tuple[dict[str, Array], dict[str, Any]]:
    """Returns the arrays and the facts of the checkpoint of an objective."""
    arrays = {
        "parameters": state.parameters,
        "first_moment": state.first_moment,
        "second_moment": state.second_moment,
    }
    return arrays, {"updates": state.updates}


def save_shards(path: Path, population: Population, identity: RunIdentity) -> None:
    """Saves the shards of this rank, after a round or before the first."""
    experiment = population.experiment
    for number, shard in population.shards.items():
        folder = _shard_folder(path, number)
        for made in (folder.parent, folder):
            made.mkdir(exist_ok=True)
        if shard.round:
            steps = shard.replay.newest(experiment.round_steps)
            keep = _replay_rounds(experiment) + _KEEP - 1
            checkpoints.save(folder / "steps", shard.round, steps, {}, keep, identity)
        arrays = shard.arrays()
        checkpoints.save(folder / "weights", shard.round, arrays, {}, _KEEP, identity)


def restore(
    path: Path, population: Population, identity: RunIdentity
) -> tuple[ObjectiveState, list[str]]:
    """Restores objective and agents of the newest round that is undamaged on all ranks.

    If none is, because steps of earlier rounds are damaged, the newest one whose weights are, and
    whose own round's steps are; if there is none, the newest one whose weights are.

    Returns:
      (the state; one message for every damaged checkpoint that was skipped). Without checkpoints
      the state is the initial one, which is then saved.

    Raises:
      RecordError: There is or was a checkpoint, but none can be read; or one is of a run of another
        seed or other settings.
    """
    communicator = population.communicator
    errors: list[tuple[Needed, RecordError]] = []
    found = np.zeros(_KEEP, np.int64)
    rounds = checkpoints.epochs(path / "checkpoints")[-_KEEP:]
    found[: len(rounds)] = [min(each, 2**62) + 1 for each in rounds]  # 0: none
    found = communicator.broadcast(found)
    newest_first = sorted((int(each) - 1 for each in found if each), reverse=True)
    # Steps of earlier rounds are part of all checkpoints: where some are damaged, none may be
    # whole. Then the newest one goes on with the steps that came after the damaged ones.
    for needed, number in itertools.product(Needed, newest_first):
        state: ObjectiveState | None = None
        messages: list[str] = []
        try:
            state, messages = _read(path, population, number, needed, identity)
        except checkpoints.OtherRunError:
            raise
        except RecordError as error:
            errors.append((needed, error))
        failures = communicator.sum(np.array([state is None], np.int64))
        if state is not None and failures[0] == 0:
            skipped = [
                f"{error}; skipped for an older checkpoint"
                for tried, error in errors
                if tried is needed
            ]
            return state, skipped + messages
    reason, remedy = "", "restore one"
    if found.any():
        reason = "another rank cannot read its agents"
        if errors:
            reason = str(errors[0][1]).split(";")[0]
        if any(isinstance(error, VersionError) for _, error in errors):
            remedy = "use the version of epg_tf that wrote the run"
    elif MetricsFile(path / "metrics.csv").read():
        reason = "there is none, but metrics.csv has rows"
    if reason:
        raise RecordError(
            f"{path}: no checkpoint can be read ({reason}); {remedy}, or pass overwrite=True to "
            "start again"
        )
    state = initial_state(population.experiment, identity.seed)
    save_shards(path, population, identity)  # or a kill in the first round would leave rows alone
    communicator.sum(np.zeros(1, np.int64))
    if communicator.rank == 0:
        save_state(path, state, identity)
    return state, []


def _read(
    path: Path, population: Population, number: int, needed: Needed, identity: RunIdentity
) -> tuple[ObjectiveState, list[str]]:
    """Reads a checkpoint into the population; returns the objective, and messages about replays
    that begin later than they should, which does not happen where all steps are `needed`.
    """
    arrays, facts = arrays_of(initial_state(population.experiment, identity.seed))
    wanted = Wanted(identity, arrays, facts, finite={"parameters"})
    saved = checkpoints.load(path / "checkpoints", number, wanted)
    messages = []
    for shard_number, shard in population.shards.items():
        folder = _shard_folder(path, shard_number)
        # Agents that failed have numbers that are not finite.
        wanted = Wanted(identity, shard.arrays(), {}, nan=True)
        weights = checkpoints.load(folder / "weights", number, wanted)
        messages += _restore_replay(shard, folder, number, identity, needed)
        shard.load(number, weights.arrays)
    own = {name: saved.arrays[name] for name in arrays}
    return ObjectiveState(round=number, updates=saved.facts["updates"], **own), messages


def _restore_replay(
    shard: AgentShard, folder: Path, number: int, identity: RunIdentity, needed: Needed
) -> list[str]:
    """Fills the replay with the steps of the newest rounds; returns messages about missing ones.

    Raises:
      RecordError: Steps that are `needed` are damaged.
    """
    experiment = identity.experiment()
    shapes = shard.replay.shapes(experiment.round_steps)
    like = {name: np.broadcast_to(np.float32(0.0), shape) for name, shape in shapes.items()}
    wanted = Wanted(identity, like, {}, nan=True)
    shard.replay.clear()
    messages: list[str] = []
    for earlier in range(max(0, number - _replay_rounds(experiment)) + 1, number + 1):
        try:
            steps = checkpoints.load(folder / "steps", earlier, wanted).arrays
            shard.replay.extend({name: steps[name] for name in shapes})
        except checkpoints.OtherRunError:
            raise
        except RecordError as error:
            if needed is Needed.ALL or (needed is Needed.NEWEST and earlier == number):
                raise
            shard.replay.clear()
            messages = [
                f"{error}; its agents go on with the steps after round {earlier} alone, so numbers "
                f"will differ from those of an undisturbed run"
            ]
    return messages


def _replay_rounds(experiment: MetaGenRLExperiment) -> int:
    """Returns how many rounds fill a replay."""
    return -(-experiment.agent.replay_steps // experiment.round_steps)


def _shard_folder(path: Path, number: int) -> Path:
    return path / "agents" / f"shard_{number:03d}"
