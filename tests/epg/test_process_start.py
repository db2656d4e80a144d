"""Tests epg_tf.epg.process_start: processes for shards that start before they are asked for."""

from __future__ import annotations

import subprocess
import sys

import pytest

from epg_tf.epg.process_start import start_ahead
from epg_tf.epg.shards import Shards

COMPUTE = {"shard_lives": 2, "threads": 2, "parallel": "processes"}
LIVES = {"lives": 6, "noise_vectors": 2}


@pytest.fixture
def experiment(make_tiny):
    return make_tiny(evolution=LIVES, compute=COMPUTE)


@pytest.mark.slow
def test_as_many_start_as_shards_run_beside_the_first(experiment):
    with start_ahead(experiment) as started:
        assert [process.process.poll() for process in started] == [None]
        with Shards(experiment, started=started) as shards:
            loop = shards._make_loop(1)
            assert loop._process is started[0].process
            loop.close()
    assert started[0].process.poll() is not None


@pytest.mark.parametrize(
    "compute", [{"shard_lives": 6}, {"threads": 1}, {"parallel": "threads"}], ids=str
)
def test_none_starts_where_none_would_be_used(make_tiny, compute):
    with start_ahead(make_tiny(evolution=LIVES, compute={**COMPUTE, **compute})) as started:
        assert started == []


def test_none_starts_for_a_family_of_a_user(make_tiny):
    family = {"family": "of_a_user"}
    with start_ahead(make_tiny(task=family, evolution=LIVES, compute=COMPUTE)) as started:
        assert started == []


def test_those_that_no_shard_used_end_too(experiment):
    with start_ahead(experiment) as started:
        pass
    assert started[0].process.poll() is not None


def test_tensorflow_comes_later():
    modules = "epg_tf.epg.process_start, launch.meta_test_flags"
    code = f"import sys, {modules}; sys.exit('tensorflow' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
