"""Tests epg_tf.core.threads: TensorFlow's threads cannot change once it has started."""

from __future__ import annotations

import subprocess
import sys
import warnings

import pytest
import tensorflow as tf

from epg_tf.core import threads
from epg_tf.core.threads import configure_tensorflow, cpus, threads_of, use
from tests.launch import commands

AFTER_OTHER_WORK = """
import sys, warnings
import tensorflow as tf
{setting}
tf.keras.Sequential([tf.keras.layers.Dense(3)])(tf.ones([2, 4]))
import epg_tf
with warnings.catch_warnings(record=True) as caught:
    agent = epg_tf.train_agent(epg_tf.load_loss("point_goal"), seed=0, updates=2)
print(agent.policy_sha256, [str(each.message)[:46] for each in caught])
"""


def test_cpus_are_shared_and_never_none():
    assert 1 <= cpus(2) <= cpus(1)
    assert cpus(10**6) == 1


def test_a_process_uses_as_many_threads_as_it_was_told(monkeypatch):
    """Else as many as a setting says; else one per CPU."""
    monkeypatch.setattr(threads, "_told", [])
    assert (threads_of(3, 2), threads_of(0, 2)) == (3, cpus(2))
    use(5)
    use(7)
    assert (threads_of(3, 2), threads_of(0, 2)) == (7, 7)


def test_other_threads_after_the_start_change_nothing():
    tf.constant(0.0)  # starts TensorFlow
    before = tf.config.threading.get_inter_op_parallelism_threads()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        configure_tensorflow(before + 1)
    assert tf.config.threading.get_inter_op_parallelism_threads() == before


@pytest.mark.slow
def test_agents_learn_the_same_after_other_work_of_tensorflow():
    """With TensorFlow's own choice of threads, which is warned of, as with one."""
    one = "tf.config.threading.set_intra_op_parallelism_threads(1)"
    found = []
    for setting in ("", one):
        process = subprocess.run(
            [sys.executable, "-c", AFTER_OTHER_WORK.format(setting=setting)],
            capture_output=True,
            text=True,
            check=False,
            env=commands.environment(),
        )
        assert process.returncode == 0, process.stderr
        found.append(process.stdout.split(maxsplit=1))
    (several, warned), (single, silent) = found
    assert several == single
    assert "TensorFlow has started with each operation on" in warned and silent == "[]\n"
