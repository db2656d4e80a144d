"""Tests epg_tf.tasks.gymnasium_vector against as many single environments."""

from __future__ import annotations

import gymnasium
import numpy as np
import pytest

from epg_tf.tasks.gymnasium_environment import TaskEnv
from epg_tf.tasks.gymnasium_vector import TaskVectorEnv
from epg_tf.tasks.registry import FAMILIES
from tests.tasks.families import Compass

P = 3


def both(name, **settings):
    """Returns the environments that step in lockstep, and as many single ones."""
    modes = ("vector_entry_point", "sync")
    return [
        gymnasium.make_vec(name, num_envs=P, vectorization_mode=mode, **settings) for mode in modes
    ]


def assert_same(one, other):
    """Compares results of `reset` or `step`; of infos, where both say that they are valid."""
    for mine, theirs in zip(one[:-1], other[:-1], strict=True):
        np.testing.assert_array_equal(mine, theirs)
        assert mine.dtype == theirs.dtype
    for name, valid in other[-1].items():
        if name.startswith("_") and isinstance(valid, np.ndarray):
            np.testing.assert_array_equal(one[-1][name], valid)
            if name != "_task":
                np.testing.assert_array_equal(one[-1][name[1:]], other[-1][name[1:]])
    for name, value in other[-1]["task"].items():
        np.testing.assert_array_equal(one[-1]["task"][name], value)


@pytest.mark.parametrize(
    "name", ["point_goal", "random_walker", "random_reacher", "goal_ant_no_reset", "fetch_target"]
)
def test_members_are_single_environments_to_the_bit(name):
    """Over ends, time limits, new seeds and new tasks, with actions beyond the bounds."""
    mine, theirs = both(f"epg_tf/{FAMILIES[name].__name__}-v0", max_episode_steps=25)
    assert isinstance(mine, TaskVectorEnv)
    for space in ("observation_space", "action_space", "single_action_space"):
        assert getattr(mine, space) == getattr(theirs, space)
    actions = np.random.default_rng(0).uniform(-1.5, 1.5, (60, *mine.action_space.shape))
    ends = np.zeros(2, int)
    for given in ({"seed": 3}, {}, {"options": {"task": "new"}}, {"seed": [7, 5, 9]}):
        assert_same(mine.reset(**given), theirs.reset(**given))
        for action in actions.astype(np.float32):
            result = mine.step(action)
            assert_same(result, theirs.step(action))
            ends += [result[2].sum(), result[3].sum()]
    assert ends[1] or ends[0]
    assert ends[0] or name != "random_walker"


def test_an_entry_point_is_the_default_and_records_statistics():
    vector = gymnasium.make_vec("epg_tf/PointGoal-v0", num_envs=P)
    recorded = gymnasium.wrappers.vector.RecordEpisodeStatistics(vector)
    recorded.reset(seed=0)
    for _ in range(25):
        *_, truncated, infos = recorded.step(np.zeros((P, 2), np.float32))
    assert truncated.all() and infos["episode"]["l"].tolist() == [25] * P


def test_named_tasks_are_those_of_all_members():
    vector = gymnasium.make_vec("epg_tf/RandomHopper-v0", num_envs=P)
    _, infos = vector.reset(seed=0, options={"task": {"gravity": -3.7}})
    assert infos["task"]["gravity"].tolist() == [-3.7] * P


class TestRefusals:
    """One line that says what is wrong."""

    def test_stepping_before_a_start(self):
        with pytest.raises(gymnasium.error.ResetNeeded, match=r"^call reset\(\) before step\(\)$"):
            TaskVectorEnv(P, "point_goal", 25).step(np.zeros((P, 2)))

    @pytest.mark.parametrize(
        ("call", "line"),
        [
            (lambda env: env.reset(seed=[1, 2]), "seed=.1, 2. must be one number, or one for each"),
            (lambda env: env.step(np.zeros(2)), r"actions have shape \(2,\); it must be \(3, 2\)"),
            (lambda env: env.reset(options={"tasks": {}}), "options names 'tasks'"),
            (lambda _: TaskVectorEnv(P, "point_goal", 25, render_mode="human"), "render_mode="),
        ],
        ids=["seeds", "actions", "options", "drawing"],
    )
    def test_unusable_arguments(self, call, line):
        vector = TaskVectorEnv(P, "point_goal", 25)
        vector.reset(seed=0)
        with pytest.raises(ValueError, match=f"^{line}"):
            call(vector)


def test_discrete_actions_are_the_numbers_of_single_environments(monkeypatch):
    monkeypatch.setitem(FAMILIES, Compass.name, Compass)
    mine = TaskVectorEnv(P, Compass.name, 5)
    mine.reset(seed=0)
    action = np.array([3, 0, 2])
    observation = mine.step(action)[0]
    single = TaskEnv(Compass.name)
    for member in range(P):
        single.reset(seed=member)
        np.testing.assert_array_equal(single.step(action[member])[0], observation[member])
    with pytest.raises(ValueError, match="^actions=.* must be in MultiDiscrete"):
        mine.step(np.array([0, 1, 9]))
