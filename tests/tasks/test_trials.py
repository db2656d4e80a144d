"""Tests epg_tf.tasks.trials: what a recurrent policy sees in the episodes of a trial."""

from __future__ import annotations

import numpy as np

from epg_tf.core.random_streams import life_generator
from epg_tf.core.types import LifeKey
from epg_tf.tasks.episodes import Episodes
from epg_tf.tasks.hidden_goal import HiddenGoal
from epg_tf.tasks.registry import simulate
from epg_tf.tasks.trials import TrialEnvironment, trial_specs

FIRST, MID, LAST = 0, 1, 2


class Paid(HiddenGoal):
    """Rewards the first component of the action; terminates at once where the goal is above."""

    def terminated(self, state):
        """Returns True for directions above 0."""
        return state.task["direction"] > 0

    def reward(self, before, after, action):
        """Returns the first component."""
        return action[:, 0]


def keys_with(*above: bool) -> list[LifeKey]:
    """Returns keys of lives whose goals are above, or not."""
    family = Paid(2, 2)
    found = (LifeKey(3, "test", 0, number) for number in range(100))
    keys = []
    for wanted in above:
        for key in found:
            direction = family.sample_task(life_generator(key, "task"))["direction"]
            if bool(direction > 0) == wanted:
                keys.append(key)
                break
    return keys


def test_a_policy_sees_the_action_the_reward_and_the_end_before():
    """Two members, two episodes of two env steps; actions beyond the bounds are seen clipped."""
    environment = TrialEnvironment(Paid(2, 2), 2, 4)
    step = environment.begin(keys_with(False, False))
    np.testing.assert_array_equal(step.observation[:, 4:], np.zeros((2, 4)))
    assert step.step_type.tolist() == [FIRST, FIRST]
    seen, types, discounts, rewards = [], [], [], []
    for action in ([[0.5, -1.7], [-0.25, 0.0]], [[1.5, 0.0], [0.0, 0.25]]) * 2:
        step = environment.step(np.array(action, np.float32))
        seen.append(step.observation[:, 4:].tolist())
        types.append(step.step_type.tolist())
        discounts.append(step.discount.tolist())
        rewards.append(step.reward.tolist())
    within = [[0.5, -1.0, 0.5, 0.0], [-0.25, 0.0, -0.25, 0.0]]
    ending = [[1.0, 0.0, 1.0, 1.0], [0.0, 0.25, 0.0, 1.0]]
    assert seen == [within, ending, within, ending]
    assert types == [[MID, MID]] * 3 + [[LAST, LAST]]
    assert discounts == [[1.0, 1.0]] * 3 + [[0.0, 0.0]]
    assert rewards == [[0.5, -0.25], [1.0, 0.0]] * 2
    assert environment.ended.ids.tolist() == [0, 1]
    assert environment.ended.returns.tolist() == [1.5, -0.25]


def test_one_member_ends_without_a_step_of_the_other():
    short, long = keys_with(True, False)
    together, alone = TrialEnvironment(Paid(2, 3), 2, 3), TrialEnvironment(Paid(2, 3), 1, 3)
    together.begin([short, long])
    alone.begin([long])
    ended, episodes = [], []
    for first in (0.25, 0.5, 0.75):
        action = np.array([[first, 0.0]], np.float32)
        both, one = together.step(np.repeat(action, 2, axis=0)), alone.step(action)
        np.testing.assert_array_equal(both.observation[1], one.observation[0])
        ended.append((together.ended.ids.tolist(), together.ended.returns.tolist()))
        episodes.append(together.episode.tolist())
    assert ended == [([0], [0.25]), ([0], [0.5]), ([0, 1], [0.75, 1.5])]
    assert episodes == [[0, 0], [1, 0], [2, 0]]


def test_tasks_and_starts_are_those_of_the_lives_of_other_methods():
    family, keys = HiddenGoal(4, 3), [LifeKey(1, "test", 0, number) for number in range(3)]
    environment = TrialEnvironment(family, 3, 7)
    simulation = simulate(family, 3)
    simulation.set_tasks([family.sample_task(life_generator(key, "task")) for key in keys])
    episodes = Episodes(simulation, [life_generator(key, "reset") for key in keys])
    step = environment.begin(keys)
    for action in np.random.default_rng(0).uniform(-1, 1, (7, 3, 2)).astype(np.float32):
        np.testing.assert_array_equal(step.observation[:, :4], episodes.observation)
        step = environment.step(action)
        result, ended = episodes.step(action)
        np.testing.assert_array_equal(step.reward, result.reward)
        np.testing.assert_array_equal(environment.ended.returns, ended.returns)


def test_episodes_can_begin_anew_within_a_trial():
    environment = TrialEnvironment(Paid(2, 4), 1, 9)
    (key,) = keys_with(False)
    environment.begin([key])
    environment.step(np.array([[0.5, 0.25]], np.float32))
    stream = life_generator(key, "final_reset")
    step = environment.begin_episodes([stream])
    start = life_generator(key, "final_reset").uniform(-0.05, 0.05, 2)
    np.testing.assert_allclose(step.observation[0, :2], start, rtol=1e-6)
    assert step.observation[0, 4:].tolist() == [0.5, 0.25, 0.5, 1.0]
    assert step.step_type.tolist() == [MID]  # so the state of the policy is kept
    for _ in range(4):
        environment.step(np.array([[0.25, 0.0]], np.float32))
    assert environment.ended.returns.tolist() == [1.0] and environment.episode.tolist() == [1]


def test_specs_are_of_what_is_seen_and_done():
    """Discrete actions are in test_gymnasium_probe.py."""
    environment = TrialEnvironment(HiddenGoal(2, 3), 2, 6)
    seen, action = trial_specs(environment.family)
    start = environment.begin([LifeKey(0, "test", 0, number) for number in range(2)])
    assert start.observation.shape == (2, *seen.observation.shape)
    assert start.observation.dtype == seen.observation.dtype.as_numpy_dtype
    assert (action.shape, float(action.minimum), float(action.maximum)) == ((2,), -1.0, 1.0)
