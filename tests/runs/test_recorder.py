"""Tests epg_tf.runs.recorder: where a run continues, above all when another process replaces a rank
0 that was lost.
"""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from epg_tf.core.errors import RecordError
from epg_tf.epg.epoch_metrics import COLUMNS
from epg_tf.epg.state import initial_state
from epg_tf.runs import checkpoints
from epg_tf.runs.folder import RunTarget
from epg_tf.runs.metrics import MetricsFile
from epg_tf.runs.progress import EvolutionProgress
from epg_tf.runs.recorder import NullRecorder, Recorder


def state_after(experiment, epoch):
    state = initial_state(experiment, 3)
    return dataclasses.replace(state, epoch=epoch, phi=state.phi + np.float32(epoch))


def saved(folder) -> list[str]:
    return sorted(path.name for path in (folder / "checkpoints").iterdir())


@pytest.fixture
def lines():
    """What the progress has written."""
    return []


@pytest.fixture
def recorder(tiny, tmp_path, lines):
    """A function that makes a recorder for the same folder, as another process would do after the
    first has died.
    """
    made = []

    def make(resume=False, overwrite=False):
        for other in made:
            other.close()
        target = RunTarget(tmp_path / "run", resume, overwrite)
        progress = EvolutionProgress(tiny, target.path, lines.append)
        made.append(Recorder(tiny, 3, target, progress))
        return made[-1]

    yield make
    for other in made:
        other.close()


def test_the_null_recorder_starts_or_keeps_its_state(tiny):
    null = NullRecorder(tiny, 3)
    assert null.begin(None, 2).phi.tobytes() == initial_state(tiny, 3).phi.tobytes()
    state = state_after(tiny, 2)
    assert null.begin(state, 2) is state


def test_the_first_process_starts_and_names_its_ranks(recorder, tmp_path, lines):
    """Two shards an epoch, so that one of three ranks is idle."""
    assert recorder().begin(None, 3).epoch == 0
    assert lines[0] == f"evolving a loss for point_goal in {tmp_path / 'run'}, on 3 ranks"
    assert lines[2].startswith(
        "1 of 3 ranks have nothing to do: an epoch has only 2 shards of config.compute.shard"
    )
    assert saved(tmp_path / "run") == ["epoch_00000000.npz"]


@pytest.mark.parametrize("flags", [{}, {"resume": True}, {"overwrite": True}])
@pytest.mark.parametrize("epoch", [1, 2, 3])
def test_a_replacement_continues_from_the_folder(recorder, tiny, tmp_path, flags, epoch):
    """Rank 0 may have died after a checkpoint that others do not know, or before it wrote an epoch:
    that is then repeated, and no row is missing.
    """
    first = recorder()
    first.begin(None, 2)
    first.run.save_state(state_after(tiny, 2))
    for number in (1, 2):
        MetricsFile(tmp_path / "run" / "metrics.csv").append(
            {**dict.fromkeys(COLUMNS, 0.0), "epoch": number}
        )
    state = recorder(**flags).begin(state_after(tiny, epoch), 1)
    assert state.epoch == 2 and state.phi.tobytes() == state_after(tiny, 2).phi.tobytes()


def test_a_replacement_continues_from_memory_if_the_folder_is_far_behind(recorder, tiny, tmp_path):
    """As on a machine that does not share the folder: its own then begins with that state."""
    assert recorder().begin(state_after(tiny, 2), 1).epoch == 2
    newest, messages = checkpoints.load_newest(tmp_path / "run" / "checkpoints")
    assert newest.epoch == 2 and not messages
    assert newest.arrays["phi"].tobytes() == state_after(tiny, 2).phi.tobytes()


def test_a_process_that_has_only_started_replaces_none(recorder):
    recorder().begin(None, 2)
    with pytest.raises(RecordError, match="resume=True"):
        recorder().begin(None, 2)


def test_a_recorder_that_stays_keeps_its_folder_open(recorder, tiny, tmp_path, lines):
    """Others were lost or joined: it continues from memory."""
    stays = recorder()
    stays.begin(None, 2)
    run = stays.run
    state = state_after(tiny, 1)
    assert stays.begin(state, 1) is state and stays.run is run
    assert f"in {tmp_path / 'run'}, continued after epoch 1" in lines[-2]


def test_ranks_lost_before_the_first_state_do_not_start_a_resumed_run_again(
    recorder, tiny, tmp_path
):
    """Rank 0 opened the folder and lost ranks in the first broadcast, so it knows no state yet."""
    recorder().begin(state_after(tiny, 2), 2)
    resumed = recorder(resume=True)
    for ranks in (2, 1):
        state = resumed.begin(None, ranks)
        assert state.epoch == 2 and state.phi.tobytes() == state_after(tiny, 2).phi.tobytes()
