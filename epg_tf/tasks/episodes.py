"""Plays whole episodes, to see how good policies are."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from epg_tf.core.types import Array
from epg_tf.tasks.base import Simulation


def mean_returns(
    simulation: Simulation,
    act: Callable[[Array], Array],
    resets: Sequence[np.random.Generator],
    episodes: int,
) -> Array:
    """Plays the same number of episodes in every simulation.

    Args:
      simulation: P of them; where they stood is lost.
      act: Maps observations [P, O] to actions [P, A] within the family's bounds; rows of those that
        have finished mean nothing.
      resets: P streams, of starts.
      episodes: Of each, >= 1.

    Returns:
      [P] mean returns; NaN where physics diverged.
    """
    total, left = np.zeros(simulation.population), np.full(simulation.population, episodes)
    playing = np.arange(simulation.population)
    observation = simulation.reset(playing, resets)
    while playing.size:
        action = act(observation)
        result = simulation.step(
            action[playing], None if playing.size == simulation.population else playing
        )
        total[playing] += np.where(result.diverged, np.nan, result.reward)
        observation = observation.copy()
        observation[playing] = result.observation
        ended = result.terminated | result.truncated
        left[playing[ended]] -= 1
        again = playing[ended & (left[playing] > 0)]
        if again.size:
            observation[again] = simulation.next_episode(again, resets)
        playing = playing[left[playing] > 0]
    return total / episodes
