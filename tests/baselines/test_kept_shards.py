"""Tests epg_tf.baselines.kept_shards: which shards a test goes on with, and which it removes."""

from __future__ import annotations

import threading

import numpy as np
import pytest

from epg_tf.baselines.kept_shards import FOLDER, ShardFiles, discard_shards
from epg_tf.baselines.kept_shards import digest_of_test as digest
from epg_tf.baselines.lived_shards import LivedShard
from epg_tf.core.array_files import write_arrays

NAN = np.nan
SHARD = LivedShard(np.array([[1 / 3, NAN], [2.0, 3.0]]), np.array([NAN, 0.1]), np.array([0.0, 1.0]))
ABOUT = {"seed": 4, "task": {"family": "x", "range": (1, 1 / 3)}, "none": NAN}
TEST = digest(ABOUT, 6)


def kept(folder, method="sac", test=TEST, state=lambda: None):
    return ShardFiles(folder, method, test, state)


def test_shards_come_back_to_the_last_bit(tmp_path):
    mine = kept(tmp_path)
    assert mine.read((2, 3), (2, 2)) is None
    mine.write((2, 3), SHARD)
    mine.write((4, 5), SHARD._replace(success=np.ones(2, np.float32)))
    for one, other in zip(SHARD, mine.read((2, 3), (2, 2)), strict=True):
        np.testing.assert_array_equal(one, other)
    assert mine.read((4, 5), (2, 2)).success.tolist() == [1.0, 1.0]


def test_no_other_shard_method_or_test_reads_it(tmp_path):
    kept(tmp_path).write((2, 3), SHARD)
    assert kept(tmp_path).read((2, 2), (2, 2)) is None
    assert kept(tmp_path, "td3").read((2, 3), (2, 2)) is None
    for about, agents in (({**ABOUT, "seed": 5}, 6), (ABOUT, 7), ({**ABOUT, "none": 0.0}, 6)):
        assert kept(tmp_path, test=digest(about, agents)).read((2, 3), (2, 2)) is None
    assert digest({**ABOUT, "task": {"range": [1, 1 / 3], "family": "x"}}, 6) == TEST


@pytest.mark.parametrize("damage", ["bytes", "shape", "type", "names", "size"])
def test_a_damaged_shard_counts_as_not_lived(tmp_path, damage):
    mine = kept(tmp_path)
    mine.write((2, 3), SHARD)
    (path,), arrays = (tmp_path / FOLDER).iterdir(), SHARD._asdict()
    assert mine.read((2, 3), (2, 2)) is not None
    if damage == "bytes":
        path.write_bytes(path.read_bytes()[:-30])
    elif damage == "type":
        write_arrays(path, {**arrays, "success": np.ones(2, np.int64)})
    elif damage == "names":
        write_arrays(path, {**arrays, "other": np.ones(2)})
    elif damage == "size":
        write_arrays(path, {**arrays, "returns": np.ones((2, 2**20))})
    assert mine.read((2, 3), (2, 3) if damage == "shape" else (2, 2)) is None


def test_a_long_curve_is_read_again(tmp_path):
    long = SHARD._replace(returns=np.ones((2, 2**20)))
    kept(tmp_path).write((0, 1), long)
    assert kept(tmp_path).read((0, 1), (2, 2**20)) is not None


def test_what_is_tested_is_stated_before_each_shard_by_one_thread_at_a_time(tmp_path):
    inside, seen = [], []

    def state():
        inside.append(1)
        seen.append((len(inside), len([*tmp_path.glob(f"{FOLDER}/*")])))
        inside.pop()

    mine = kept(tmp_path, state=state)
    threads = [threading.Thread(target=mine.write, args=((n, n), SHARD)) for n in range(8)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert seen == [(1, number) for number in range(8)]


def test_shards_of_finished_methods_of_this_test_go_and_others_stay(tmp_path):
    discard_shards(tmp_path, {"sac"}, TEST)  # there is nothing
    for method, test in (("sac", TEST), ("td3", TEST), ("sac", digest(ABOUT, 7))):
        kept(tmp_path, method, test).write((0, 1), SHARD)
    half_written = tmp_path / FOLDER / f".sac-2-3-{TEST}.npz.123.tmp"
    half_written.write_bytes(b"PK")
    discard_shards(tmp_path, {"epg", "sac"}, TEST)
    assert not half_written.exists()
    assert kept(tmp_path).read((0, 1), (2, 2)) is None
    assert kept(tmp_path, "td3").read((0, 1), (2, 2)) is not None
    assert kept(tmp_path, "sac", digest(ABOUT, 7)).read((0, 1), (2, 2)) is not None
    discard_shards(tmp_path, {"td3"}, TEST)
    discard_shards(tmp_path, {"sac"}, digest(ABOUT, 7))
    assert not (tmp_path / FOLDER).exists()
