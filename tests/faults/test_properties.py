"""Tests properties that hold for all inputs, with inputs that Hypothesis searches."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import example, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from epg_tf.agents.buffer import Buffer
from epg_tf.core.array_files import read_arrays, write_arrays
from epg_tf.core.errors import ConfigError, RecordError
from epg_tf.core.types import EnvironmentSpec
from epg_tf.epg.evolution_strategies import shaped
from epg_tf.epg.settings import Experiment
from epg_tf.losses.surrogates import Steps, advantages
from epg_tf.runs.metrics import MetricsFile
from epg_tf.tasks.base import StepResult

quick = settings(max_examples=100, deadline=None, derandomize=True)

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=8,
)
GROUPS = sorted(Experiment().to_mapping())
FIELDS = {group: sorted(fields) for group, fields in Experiment().to_mapping().items()}


@quick
@given(st.data(), st.sampled_from(GROUPS), JSON)
def test_any_value_of_a_setting_is_read_or_refused_in_one_line(data, group, value):
    field = data.draw(st.sampled_from(FIELDS[group]))
    try:
        experiment = Experiment.from_mapping({group: {field: value}})
    except ConfigError as error:
        assert "\n" not in str(error) and str(error).startswith("config")
    else:
        assert Experiment.from_mapping(experiment.to_mapping()) == experiment


@quick
@given(JSON)
@example({"\n": None})
def test_any_mapping_is_read_or_refused(mapping):
    try:
        Experiment.from_mapping(mapping)
    except ConfigError as error:
        assert "\n" not in str(error)


@quick
@given(st.binary(max_size=400))
def test_any_bytes_are_no_arrays_or_refused(tmp_path_factory, content):
    path = tmp_path_factory.mktemp("bytes") / "loss.npz"
    path.write_bytes(content)
    with pytest.raises(RecordError) as error:
        read_arrays(path, 10**6)
    assert "\n" not in str(error.value)


@quick
@given(arrays.arrays(np.float32, arrays.array_shapes(min_dims=0, max_dims=3, max_side=4)))
def test_arrays_are_read_as_they_were_written(tmp_path_factory, array):
    path = tmp_path_factory.mktemp("arrays") / "loss.npz"
    write_arrays(path, {"phi": array})
    assert read_arrays(path, 10**6)["phi"].tobytes() == array.tobytes()


def slow_advantages(steps, discount, gae_lambda):
    """The sum of discounted TD errors up to the end of an episode, one step after the other."""
    lives, count = steps.reward.shape
    found = np.zeros((lives, count))
    for life in range(lives):
        for first in range(count):
            weight = 1.0
            for step in range(first, count):
                at = life, step
                next_value = 0.0 if steps.terminated[at] else steps.next_value[at]
                error = steps.reward[at] + discount * next_value - steps.value[at]
                found[life, first] += weight * error
                weight *= discount * gae_lambda
                if steps.terminated[at] or steps.truncated[at]:
                    break
    return found


@quick
@given(st.integers(1, 3), st.integers(1, 9), st.integers(0, 2**32), st.data())
def test_advantages_are_those_of_a_slow_sum(lives, count, seed, data):
    discount, gae_lambda = data.draw(st.floats(0.0, 1.0)), data.draw(st.floats(0.0, 1.0))
    generator = np.random.default_rng(seed)
    reward, value, reached = generator.standard_normal((3, lives, count)).astype(np.float32)
    ends = (generator.random((2, lives, count)) < 0.25).astype(np.float32)
    # Within an episode the state reached is the one that is acted in next.
    goes_on = (ends.sum(axis=0) == 0)[:, :-1]
    reached[:, :-1] = np.where(goes_on, value[:, 1:], reached[:, :-1])
    steps = Steps(reward, value, reached, *ends)
    estimate = advantages(Steps(*map(tf.constant, steps)), discount, gae_lambda).numpy()
    np.testing.assert_allclose(
        estimate, slow_advantages(steps, discount, gae_lambda), rtol=1e-4, atol=1e-4
    )


@quick
@given(st.integers(1, 3), st.integers(1, 4), st.integers(0, 8), st.integers(0, 5), st.data())
def test_a_buffer_holds_the_newest_steps_in_order(lives, period, more, periods, data):
    steps, seed = period + more, data.draw(st.integers(0, 2**32))
    generator = np.random.default_rng(seed)
    buffer = Buffer(lives, steps, period, EnvironmentSpec(2, 1))
    lived = []
    for _ in range(periods):
        buffer.make_room()
        for step in range(period):
            before, after = generator.standard_normal((2, lives, 2)).astype(np.float32)
            action = generator.standard_normal((lives, 1)).astype(np.float32)
            reward = generator.standard_normal(lives).astype(np.float32)
            ends = generator.random((2, lives)) < 0.3
            no = np.zeros(lives, bool)
            buffer.write(step, before, action, StepResult(after, reward, *ends, no, no))
            columns = [before, action, reward[:, None], *ends.astype(np.float32)[:, :, None]]
            lived.append((np.concatenate(columns, axis=1), after))
    kept = lived[-steps:]
    padding = np.zeros((lives, steps - len(kept), 6), np.float32)
    wanted = np.concatenate([padding, *(row[:, None] for row, _ in kept)], axis=1)
    np.testing.assert_array_equal(buffer.steps, wanted)
    np.testing.assert_array_equal(buffer.lived, [0.0] * (steps - len(kept)) + [1.0] * len(kept))
    np.testing.assert_array_equal(buffer.newest(), wanted[:, -period:, :4])
    for number, (_, after) in enumerate(lived[-period:]):
        np.testing.assert_array_equal(buffer.next_observation[:, number], after)
    buffer.clear()
    assert not buffer.steps.any() and not buffer.lived.any()


RETURNS = st.lists(st.floats(-1e6, 1e6) | st.just(float("nan")), min_size=8, max_size=8).map(
    np.array
)


@quick
@given(RETURNS, st.floats(0.1, 10.0), st.floats(-100.0, 100.0))
def test_ranks_ignore_the_unit_of_returns_and_are_finite(returns, scale, shift):
    returns = np.round(returns)  # so that scaling cannot make two different ones equal
    weights = shaped(returns, 8, "rank", np.arange(8))
    assert np.isfinite(weights).all() and abs(weights.sum()) < 1e-6
    np.testing.assert_array_equal(
        weights, shaped(np.float64(scale) * returns + shift, 8, "rank", np.arange(8))
    )


@quick
@given(st.lists(st.floats(allow_infinity=False), min_size=1, max_size=6), st.integers(0, 40))
def test_metrics_survive_a_torn_last_line(tmp_path_factory, values, cut):
    path = tmp_path_factory.mktemp("metrics") / "metrics.csv"
    for number, value in enumerate(values):
        MetricsFile(path).append({"epoch": number, "value": value})
    whole = MetricsFile(path).read()
    path.write_bytes(path.read_bytes()[: -cut or None])
    rows = MetricsFile(path).read()
    assert repr(rows) == repr(whole[: len(rows)]) and len(rows) <= len(whole)
