"""Tests runs of RL² through the library: the same bits after any interruption."""

from __future__ import annotations

import contextlib
import itertools

import pytest

import epg_tf
from epg_tf.artifacts.rl2_policy import load_rl2
from epg_tf.core.config_files import load_experiment
from epg_tf.core.errors import ConfigError, RecordError, VersionError
from epg_tf.core.rl2_experiment import rl2_from_mapping
from epg_tf.runs import checkpoints
from epg_tf.runs.folder import RunTarget
from epg_tf.runs.rl2_progress import cost_lines
from epg_tf.runs.rl2_run import RL2Run
from epg_tf.runs.rl2_session import meta_train_rl2_in_folder
from tests.baselines.test_rl2 import TINY, tiny_agent


def test_the_cost_is_stated():
    what, cost = cost_lines(load_experiment("rl2_half_cheetah"), 100)
    assert what.endswith("by RL² in directional_half_cheetah, continued after iteration 100")
    assert cost == (
        "cost: 50 iterations x 64 trials x 200 env steps = 640 k env steps; 16 updates by PPO in "
        "an iteration; validation 25.6 k env steps more"
    )
    explores = rl2_from_mapping({"trial": {"exploratory_episodes": 1}})
    assert "by E-RL² in point_goal" in cost_lines(explores, 0)[0]


def test_env_steps_count_validation_as_those_of_other_methods_do():
    tiny = rl2_from_mapping(TINY)
    found = [tiny.env_steps_after(iterations) for iterations in range(6)]
    assert found == [0, 48, 96 + 24, 144 + 24, 192 + 48, 240 + 48]


@pytest.mark.parametrize("missing", ["best_return", "an array"])
def test_checkpoints_of_another_version_are_named(tmp_path, missing):
    agent, tiny = tiny_agent(), rl2_from_mapping(TINY)
    facts, arrays = {"best_return": 1.0}, agent.arrays()
    if missing == "best_return":
        facts = {}
    else:
        arrays.pop(sorted(arrays)[0])
    run = RL2Run(tiny, 0, RunTarget(tmp_path / "run"))
    with contextlib.closing(run):
        checkpoints.save(tmp_path / "run" / "checkpoints", 1, arrays, facts)
        with pytest.raises(VersionError, match="checkpoint of iteration 1 does not fit"):
            run.restore(agent)


def test_settings_that_need_too_much_memory_are_refused(tmp_path):
    huge = rl2_from_mapping({"trials": 1_000_000, "task": {"episode_limit": 100_000}})
    with pytest.raises(ConfigError, match="config.trials=1000000"):
        list(meta_train_rl2_in_folder(huge, 0, tmp_path / "run"))
    assert not (tmp_path / "run").exists()


@pytest.mark.slow
def test_a_run_is_recorded_and_resumed_to_the_same_bits(tmp_path):
    """Abandoned after an iteration, and with its newest checkpoint damaged after the next one."""
    tiny = rl2_from_mapping(TINY)
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    results = list(meta_train_rl2_in_folder(tiny, 0, whole))
    assert [result.iteration for result in results] == [1, 2, 3]
    record = epg_tf.read_run(whole)
    assert (record.kind, record.seed, record.finished) == ("rl2", 0, True)
    assert record.experiment == tiny and len(record.metrics) == 3
    assert (record.best, record.final) == (whole / "best", whole / "final")
    best = load_rl2(whole)
    assert best.folder == whole / "best" and best.facts["iteration"] == 2
    assert best.facts["env_steps"] == record.summary["env_steps"]  # finding it took all of them
    assert record.summary["env_steps"] == record.metrics[-1]["env_steps"] == 3 * 4 * 12 + 2 * 12

    for stop in (1, 1):
        iterations = meta_train_rl2_in_folder(tiny, 0, parts, resume=True)
        assert len(list(itertools.islice(iterations, stop))) == stop
        iterations.close()
    assert not epg_tf.read_run(parts).finished
    newest = parts / "checkpoints" / "epoch_00000002.npz"
    newest.write_bytes(newest.read_bytes()[:-100])
    lines = []
    resumed = meta_train_rl2_in_folder(tiny, 0, parts, resume=True, write=lines.append)
    assert [result.iteration for result in resumed] == [2, 3]
    assert lines[0].startswith("damaged: ") and "continued after iteration 1" in lines[1]
    assert lines[-1].startswith("meta-trained a policy of 224 parameters")
    for name in ("best/loss.npz", "final/loss.npz", "checkpoints/epoch_00000003.npz"):
        assert (whole / name).read_bytes() == (parts / name).read_bytes(), name
    with pytest.raises(RecordError, match="seed=1: the run in"):
        list(meta_train_rl2_in_folder(tiny, 1, parts, resume=True))
