"""Saves the state of a run of MAML as a checkpoint, and reads it from one."""

from __future__ import annotations

from pathlib import Path

from epg_tf.agents.normalizer import Moments
from epg_tf.baselines.maml_lives import Initialisation
from epg_tf.baselines.maml_state import MAMLState
from epg_tf.core.errors import VersionError
from epg_tf.core.files import PathLike
from epg_tf.runs import checkpoints


def save_state(path: PathLike, state: MAMLState) -> None:
    """Writes a checkpoint into the folder of a run."""
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
    checkpoints.save(Path(path) / "checkpoints", state.iteration, arrays, facts)


def state_of(path: PathLike, checkpoint: checkpoints.Checkpoint) -> MAMLState:
    """Returns the state in a checkpoint of the run in a folder.

    Raises:
      VersionError: Another version of this package wrote it.
    """
    arrays, facts = checkpoint.arrays, checkpoint.facts
    try:
        return MAMLState(
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
    except KeyError as error:
        raise VersionError(
            f"{path}: the checkpoint of iteration {checkpoint.epoch} has no {error}, so another "
            "version of epg_tf wrote it; resume with that one, or start another run"
        ) from error
