"""epg_tf.runs.recorder: where a run goes on, above all when another process takes over from a rank
0 that was lost.
"""

import dataclasses
import os

import numpy as np
import pytest

from epg_tf.core.errors import RecordError
from epg_tf.epg.outer_loop import initial_state
from epg_tf.runs import checkpoints
from epg_tf.runs.recorder import NullRecorder, Recorder


def state_after(experiment, epoch):
    state = initial_state(experiment, 3)
    return dataclasses.replace(state, epoch=epoch, phi=state.phi + np.float32(epoch))


def saved(folder) -> list[str]:
    return sorted(path.name for path in (folder / "checkpoints").iterdir())


@pytest.fixture
def recorder(tiny, tmp_path):
    """A function that makes a recorder for the same folder, as another process would after the
    first has died.
    """
    made = []

    def make(resume=False, overwrite=False):
        for other in made:  # the lock goes with its process
            os.close(other._folder._lock)
        made.append(Recorder(tiny, 3, str(tmp_path / "run"), resume, overwrite))
        return made[-1]

    return make


def test_a_bystander_starts_afresh_or_keeps_what_it_has(tiny):
    bystander = NullRecorder(tiny, 3)
    assert bystander.begin(None, 2).phi.tobytes() == initial_state(tiny, 3).phi.tobytes()
    state = state_after(tiny, 2)
    assert bystander.begin(state, 2) is state


def test_the_first_process_starts_afresh_and_says_on_how_many_ranks(
    recorder, tiny, tmp_path, capsys
):
    """Two shards an epoch, so that one of three ranks is idle."""
    assert recorder().begin(None, 3).epoch == 0
    said = capsys.readouterr().out.splitlines()
    assert said[0] == f"evolving a loss for point_goal in {tmp_path / 'run'}, on 3 ranks"
    assert said[2].startswith(
        "1 of 3 ranks have nothing to do: an epoch has only 2 shards of config.compute.shard"
    )
    assert saved(tmp_path / "run") == ["epoch_00000000.npz"]


@pytest.mark.parametrize("flags", [{}, {"resume": True}, {"overwrite": True}])
@pytest.mark.parametrize("epoch", [1, 2, 3])
def test_who_takes_over_goes_on_from_the_folder_whatever_the_flags(
    recorder, tiny, tmp_path, flags, epoch
):
    """Rank 0 may have died after a checkpoint that others did not hear of, or before it wrote an
    epoch: then that is lived again, and no row is missing."""
    first = recorder()
    first.begin(None, 2)
    first._folder.save_state(state_after(tiny, 2))
    for number in (1, 2):
        first._folder.metrics.append({"epoch": number})
    went_on = recorder(**flags).begin(state_after(tiny, epoch), 1)
    assert went_on.epoch == 2 and went_on.phi.tobytes() == state_after(tiny, 2).phi.tobytes()


def test_who_takes_over_goes_on_from_memory_if_the_folder_is_far_behind(recorder, tiny, tmp_path):
    """As on a machine that does not share the folder: its own then begins with that state."""
    went_on = recorder().begin(state_after(tiny, 2), 1)
    assert went_on.epoch == 2
    newest, messages = checkpoints.load_newest(tmp_path / "run" / "checkpoints")
    assert newest.epoch == 2 and not messages
    assert newest.arrays["phi"].tobytes() == state_after(tiny, 2).phi.tobytes()


def test_a_process_that_has_only_started_takes_over_nothing(recorder, tiny):
    first = recorder()
    first.begin(None, 2)
    with pytest.raises(RecordError, match="--resume"):
        recorder().begin(None, 2)


def test_a_recorder_that_stays_keeps_its_folder_open(recorder, tiny, tmp_path, capsys):
    """Others were lost or joined: it goes on from memory."""
    stays = recorder()
    stays.begin(None, 2)
    folder = stays._folder
    state = state_after(tiny, 1)
    assert stays.begin(state, 1) is state and stays._folder is folder
    assert f"in {tmp_path / 'run'}, from epoch 1 on" in capsys.readouterr().out
