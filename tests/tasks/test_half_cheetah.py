"""Tests epg_tf.tasks.half_cheetah: DirectionalHalfCheetah, and that Gymnasium's file is loaded
quietly.

HalfCheetah itself is held against Gymnasium's in test_gymnasium_oracle.
"""

from __future__ import annotations

import mujoco
import numpy as np
import pytest

from epg_tf.tasks.half_cheetah import DirectionalHalfCheetah, HalfCheetah
from epg_tf.tasks.quantities import Task
from tests.tasks.compiled_bodies import assert_same_motion, assert_same_numbers, simulate, states

pytestmark = pytest.mark.filterwarnings(
    "ignore:compiler attribute 'settotalmass'"
)  # said by MjSpec in Python


def compiled(family: DirectionalHalfCheetah, task: Task) -> mujoco.MjModel:
    """Returns the body of `task` as MuJoCo's compiler makes it."""
    spec = mujoco.MjSpec.from_file(str(family.model_file))
    spec.compiler.settotalmass = 14 * task["mass"]
    for geom in spec.geoms:
        geom.friction = np.array(geom.friction) * task["friction"]
    return spec.compile()


@pytest.mark.parametrize("task_range", ["training", "out_of_distribution"])
def test_every_number_of_a_cheetah_is_the_compilers(task_range):
    assert_same_numbers(DirectionalHalfCheetah(5, 100, task_range), compiled, list(range(4)))


def test_a_heavier_cheetah_moves_like_the_same_body_freshly_compiled():
    family = DirectionalHalfCheetah(5, 10**6, "out_of_distribution")
    assert_same_motion(
        family, compiled, list(range(4)), "ncon", steps=50
    )  # then rounding has grown


def test_training_varies_direction_alone():
    tasks = [
        DirectionalHalfCheetah(5, 100).sample_task(np.random.default_rng(seed))
        for seed in range(40)
    ]
    assert {float(task["direction"]) for task in tasks} == {-1.0, 1.0}
    assert {(float(task["mass"]), float(task["friction"])) for task in tasks} == {(1.0, 1.0)}


def test_out_of_distribution_the_body_is_another_and_directions_are_the_same():
    family = DirectionalHalfCheetah(5, 100, "out_of_distribution")
    tasks = [family.sample_task(np.random.default_rng(seed)) for seed in range(40)]
    assert {float(task["direction"]) for task in tasks} == {-1.0, 1.0}
    for name in ("mass", "friction"):
        values = [float(task[name]) for task in tasks]
        assert 2.0 <= min(values) < 2.2 and 2.8 < max(values) <= 3.0


def test_reward_is_velocity_in_the_tasks_direction_less_effort():
    before = states([[1.0, *[0] * 8]] * 3)
    after = states(
        [[1.1, *[3] * 8]] * 3, task={"direction": [1.0, -1.0, -1.0]}
    )  # 2 m/s, of 5 * 0.01 s per env step
    action = np.array([[1.0] * 6, [1.0] * 6, [0.5, 0, 0, 0, 0, -0.5]])
    np.testing.assert_allclose(
        DirectionalHalfCheetah(5, 100).reward(before, after, action), [1.7, -2.3, -2.025]
    )
    np.testing.assert_allclose(HalfCheetah(5, 100).reward(before, after, action), [1.4, 1.4, 1.95])


def test_effort_is_that_of_the_clipped_action():
    rewards = []
    for size in (1.0, 7.0):
        simulation, _ = simulate(DirectionalHalfCheetah(5, 100), [0])
        rewards.append(simulation.step(np.full((1, 6), size)).reward[0])
    assert rewards[0] == rewards[1]


@pytest.mark.parametrize(
    "family", [HalfCheetah(5, 100), DirectionalHalfCheetah(5, 100)], ids=lambda f: f.name
)
def test_it_observes_everything_but_the_forward_position_and_never_ends(family):
    state = states([np.arange(9.0)], [np.arange(20.0, 29.0)])
    np.testing.assert_array_equal(family.observe(state), [[*range(1, 9), *range(20, 29)]])
    upside_down = states([[0, -5, np.pi, *[9] * 6]], 1e3)
    assert not family.terminated(upside_down).any() and family.observation_size == 17


def test_gymnasiums_file_is_loaded_without_a_word(capfd, tmp_path, monkeypatch):
    """MuJoCo would call an attribute of it deprecated, on the terminal and in a file beside the
    user's.
    """
    monkeypatch.chdir(tmp_path)
    HalfCheetah(5, 100)
    assert capfd.readouterr() == ("", "") and not list(tmp_path.iterdir())


def test_a_broken_file_is_still_refused(tmp_path):
    class Broken(HalfCheetah):
        """Its file is none."""

        model_file = tmp_path / "broken.xml"

    Broken.model_file.write_text('<mujoco><worldbody><geom size="-1"/></worldbody></mujoco>')
    with pytest.raises(ValueError, match="size 0 must be positive"):
        Broken(5, 100)
