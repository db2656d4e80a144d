"""Tests epg_tf.tasks.episodes: means over whole episodes, each simulation for itself."""

from __future__ import annotations

import numpy as np

from epg_tf.tasks.episodes import mean_returns
from epg_tf.tasks.registry import named_environment, simulate


def generators(*seeds):
    return [np.random.default_rng(seed) for seed in seeds]


def played(seeds, episodes, name="gymnasium:InvertedPendulum-v5@30"):
    """Mean returns where the pole is let fall, so that episodes end at different times."""
    family = named_environment(name)
    return mean_returns(
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
    assert played([3], 4) == np.mean(lengths)
    assert len(set(lengths)) > 1 and max(lengths) <= 30


def test_neighbours_do_not_matter():
    together = played([3, 4, 5], 3)
    assert together.tolist() == [played([seed], 3)[0] for seed in (3, 4, 5)]
    assert len(set(together)) > 1
