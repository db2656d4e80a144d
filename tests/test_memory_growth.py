"""Tests that a long run needs no more memory than a short one."""

from __future__ import annotations

import gc
import os
from pathlib import Path

import pytest

from epg_tf.core.types import LifeKey
from epg_tf.epg.inner_loop import InnerLoopSettings
from epg_tf.epg.shards import Shards
from epg_tf.epg.state import initial_state
from epg_tf.metagenrl.population import meta_learn
from epg_tf.metagenrl.settings import MetaGenRLExperiment
from tests.metagenrl.test_population import TINY

pytestmark = pytest.mark.slow


def resident() -> int:
    """Returns the memory that this process uses (bytes)."""
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def test_updates_of_shards_leak_nothing(make_tiny):
    """Three thousand updates once leaked 3.4 MB, see `core.eager_tensors`."""
    experiment = make_tiny(inner={"updates": 50})
    phi = initial_state(experiment, 0).phi
    inner_settings = InnerLoopSettings(0.0, 0.01)

    def live(lives: range) -> None:
        for number in lives:
            keys = [LifeKey(0, "evolution", number, index) for index in range(4)]
            shards.run(keys, lambda life: phi, inner_settings)

    with Shards(experiment) as shards:
        live(range(20))
        before = resident()
        live(range(20, 80))
    assert resident() - before < 2**19


def test_updates_of_objectives_leak_nothing():
    """One thousand updates once leaked 9 MB."""
    experiment = MetaGenRLExperiment.from_mapping(
        {
            **TINY,
            "environments": ("point_goal@5",),
            "round_steps": 100,
            "steps_per_agent": 2500,
            "agent": {**TINY["agent"], "random_steps": 100, "replay_steps": 200},
        }
    )
    before = 0
    for result in meta_learn(experiment, 0):
        if result.state.round == 5:
            before = resident()
    assert result.state.updates > 1200
    assert resident() - before < 2**20
