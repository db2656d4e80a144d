"""Tests epg_tf.tasks.episodes."""

from __future__ import annotations

import numpy as np

from epg_tf.tasks.episodes import Episodes, play_episodes
from epg_tf.tasks.registry import named_environment, simulate


def generators(*seeds):
    return [np.random.default_rng(seed) for seed in seeds]


def played(seeds, episodes, name="gymnasium:InvertedPendulum-v5@30"):
    """Plays without action: the pole falls, so that episodes end at different times."""
    family = named_environment(name)
    return play_episodes(
        simulate(family, len(seeds)),
        lambda seen: np.zeros((len(seen), family.action_size)),
        generators(*seeds),
        episodes,
    )


def test_returns_are_those_of_a_plain_loop():
    """The reward is 1 for every env step but one in which the pole falls."""
    family = named_environment("gymnasium:InvertedPendulum-v5@30")
    lengths = []
    simulation, (stream,) = simulate(family, 1), generators(3)
    simulation.reset(np.arange(1), [stream])
    for _ in range(4):
        rewards, ended = 0.0, False
        while not ended:
            result = simulation.step(np.zeros((1, 1)))
            rewards, ended = (
                rewards + result.reward[0],
                bool(result.terminated[0] or result.truncated[0]),
            )
        lengths.append(rewards)
        simulation.next_episode(np.arange(1), [stream])
    outcome = played([3], 4)
    assert outcome.mean_return == np.mean(lengths) and not outcome.diverged.any()
    assert outcome.env_steps[0] == sum(lengths) + sum(length < 30 for length in lengths)
    assert len(set(lengths)) > 1 and max(lengths) <= 30


def test_neighbours_do_not_matter():
    together = played([3, 4, 5], 3)
    alone = [played([seed], 3) for seed in (3, 4, 5)]
    assert together.mean_return.tolist() == [one.mean_return[0] for one in alone]
    assert together.env_steps.tolist() == [one.env_steps[0] for one in alone]
    assert len(set(together.mean_return)) > 1


def test_an_endless_loop_continues_with_the_next_episode():
    """PointGoal with a limit of 3: every third step ends all episodes, and new starts follow."""
    family = named_environment("point_goal@3")
    simulation = simulate(family, 2)
    simulation.set_tasks([family.sample_task(g) for g in generators(1, 2)])
    seen = []
    episodes = Episodes(simulation, generators(3, 4), watch=lambda sim, result: seen.append(result))
    returns = np.zeros(2)
    for step in range(1, 7):
        before = episodes.observation.copy()
        result, ended = episodes.step(np.zeros((2, family.action_size)))
        assert seen[-1] is result and episodes.playing.tolist() == [0, 1]
        returns += result.reward
        if step % 3:
            assert not ended.ids.size
            np.testing.assert_array_equal(episodes.observation, result.observation)
        else:
            assert ended.ids.tolist() == [0, 1]
            np.testing.assert_array_equal(ended.returns, returns)
            assert (episodes.observation != result.observation).any(axis=1).all()
            returns[:] = 0.0
        assert before.shape == episodes.observation.shape
    assert episodes.engine_seconds > 0.0


def test_a_simulation_that_has_played_its_episodes_is_not_stepped():
    family = named_environment("gymnasium:InvertedPendulum-v5@30")
    episodes = Episodes(simulate(family, 2), generators(3, 5), limit=1)
    rows = []
    while episodes.playing.size:
        result, _ = episodes.step(np.zeros((2, 1)))
        rows.append(len(result.reward))
    assert sorted(set(rows), reverse=True) == [2, 1]  # one of them ends before the other


def test_those_that_still_play_begin_anew():
    family = named_environment("gymnasium:InvertedPendulum-v5@30")
    episodes = Episodes(simulate(family, 2), generators(3, 5), limit=1)
    while episodes.playing.size == 2:
        episodes.step(np.zeros((2, 1)))
    before = episodes.observation
    kept = before.copy()
    episodes.begin_anew()
    (playing,) = episodes.playing
    assert episodes.observation.shape == (2, family.observation_size)
    assert (episodes.observation[playing] != kept[playing]).any()
    np.testing.assert_array_equal(episodes.observation[1 - playing], kept[1 - playing])
    np.testing.assert_array_equal(before, kept)


def test_kept_results_and_observations_stay_as_they_were():
    """Also those from before the first partial step, where one simulation has finished."""
    family = named_environment("gymnasium:InvertedPendulum-v5@30")
    kept = []

    def keep(array):
        kept.append((array, array.copy()))

    episodes = Episodes(simulate(family, 3), generators(3, 4, 5), 1)
    partial = 0
    while episodes.playing.size:
        partial += episodes.playing.size < 3
        keep(episodes.observation)
        result, _ = episodes.step(np.zeros((3, family.action_size)))
        keep(result.observation)
    assert partial
    for array, copy in kept:
        np.testing.assert_array_equal(array, copy)
