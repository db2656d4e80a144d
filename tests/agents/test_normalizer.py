"""Tests epg_tf.agents.normalizer."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from epg_tf.agents import normalizer

P, K = 3, 4


def batches(sizes, shift=0.0):
    """Returns batches [P, M, K] float32 of different lives and quantities."""
    generator = np.random.default_rng(0)
    scale, offset = generator.uniform(0.5, 5.0, (2, P, 1, K))
    return [
        (generator.standard_normal((P, size, K)) * scale + offset + shift).astype(np.float32)
        for size in sizes
    ]


def merged(parts):
    """Returns the moments of all parts, merged one after the other."""
    moments = normalizer.empty_moments(P, K)
    for part in parts:
        moments = normalizer.merge(moments, part)
    return moments


@pytest.mark.parametrize("sizes", [(7,), (1, 1, 1), (8, 8, 8, 8), (1, 50, 3)])
@pytest.mark.parametrize("shift", [0.0, 1e4])
def test_merging_equals_two_passes_over_everything(sizes, shift):
    """Also where the mean is far larger than the deviation, which spoils sums of squares."""
    parts = batches(sizes, shift=shift)
    everything = np.concatenate(parts, axis=1).astype(np.float64)
    moments = merged(parts)
    assert moments.steps == sum(sizes)
    np.testing.assert_allclose(moments.mean, everything.mean(axis=1), rtol=1e-10)
    np.testing.assert_allclose(
        moments.squares / moments.steps, everything.var(axis=1), rtol=1e-8, atol=1e-9
    )


def test_normalised_steps_have_mean_zero_and_deviation_one():
    parts = batches((16, 16))
    shift, scale = normalizer.scaling(merged(parts))
    normalised = normalizer.normalize(np.concatenate(parts, axis=1), shift[:, None], scale[:, None])
    np.testing.assert_allclose(normalised.mean(axis=1), 0.0, atol=1e-5)
    np.testing.assert_allclose(normalised.std(axis=1), 1.0, rtol=1e-5)
    assert shift.dtype == scale.dtype == np.float32


def test_arrays_and_tensors_are_normalised_to_the_same_bits():
    parts = batches((16,))
    shift, scale = (part[:, None] for part in normalizer.scaling(merged(parts)))
    tensors = (tf.constant(values) for values in (parts[0], shift, scale))
    np.testing.assert_array_equal(
        normalizer.normalize(*tensors), normalizer.normalize(parts[0], shift, scale)
    )


def test_before_the_first_step_nothing_changes():
    shift, scale = normalizer.scaling(normalizer.empty_moments(P, K))
    assert not shift.any() and (scale == 1.0).all() and shift.shape == scale.shape == (P, K)


def test_what_does_not_vary_is_centred_but_not_blown_up():
    """The deviation counts as at least `DEVIATION_FLOOR`."""
    constant = np.full((P, 8, K), 3.0, np.float32)
    shift, scale = normalizer.scaling(normalizer.merge(normalizer.empty_moments(P, K), constant))
    assert (shift == 3.0).all()
    np.testing.assert_allclose(scale, 1.0 / normalizer.DEVIATION_FLOOR)


def test_quantities_about_zero_are_divided_by_their_root_mean_square_alone():
    parts = batches((16, 16), shift=2.0)
    everything = np.concatenate(parts, axis=1).astype(np.float64)
    moments = merged(parts)
    usual_shift, usual_scale = normalizer.scaling(moments)
    shift, scale = normalizer.scaling(moments, about_zero=2)
    assert not shift[:, :2].any()
    root_mean_square = np.sqrt(np.square(everything[:, :, :2]).mean(axis=1))
    np.testing.assert_allclose(scale[:, :2], 1.0 / root_mean_square, rtol=1e-5)
    np.testing.assert_array_equal(shift[:, 2:], usual_shift[:, 2:])
    np.testing.assert_array_equal(scale[:, 2:], usual_scale[:, 2:])
    np.testing.assert_array_equal(normalizer.scaling(moments)[0], usual_shift)  # moments are kept


def test_lives_do_not_mix():
    """Changing, even spoiling, one life's steps changes no bit of the others' moments."""
    parts = batches((8, 8))
    spoilt = [part.copy() for part in parts]
    spoilt[0][1] = np.nan
    one, other = merged(parts), merged(spoilt)
    for name in ("mean", "squares"):
        healthy, ill = getattr(one, name), getattr(other, name)
        assert healthy[[0, 2]].tobytes() == ill[[0, 2]].tobytes() and np.isnan(ill[1]).all()
