"""Tests epg_tf.studies.speed: what is measured, not how fast it is."""

from __future__ import annotations

import pytest

from epg_tf.studies.speed import compare_physics

REACHER = {"family": "random_reacher", "frame_skip": 2, "episode_limit": 6}


def test_the_same_lives_are_measured_in_both_physics_whatever_the_config_says(make_tiny):
    exact, coarse = compare_physics(make_tiny(task={**REACHER, "physics": "coarse"}), 0, 4)
    assert exact.env_steps == coarse.env_steps == 4 * (3 * 8 + 3 * 6)
    for speed in (exact, coarse):
        assert speed.ratio * speed.physics_env_steps_per_second == pytest.approx(
            speed.life_env_steps_per_second
        )
        assert sum(speed.shares.values()) == pytest.approx(1.0)


def test_a_family_without_coarse_physics_has_no_speedup(tiny):
    assert compare_physics(tiny, 0, 4)[1] is None
