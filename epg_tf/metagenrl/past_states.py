"""Keeps earlier states of agents, which agents become again for a round (MetaGenRL, Appendix A.2).

The paper finds that an objective gets worse once all agents are good, suspects that it forgets how
to teach fresh ones, and names older policies in the population as a possible remedy, without
stating how. Here an agent spends some rounds as it was after an earlier round of its life, and then
goes on as it was before. Policy, critics, targets and Adam's moments are those of the earlier
state; the replay and the age are the agent's own.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from epg_tf.core.errors import VersionError
from epg_tf.core.types import Array
from epg_tf.metagenrl.settings import PastAgentsConfig

_KEPT, _PRESENT, _AWAY = "past/", "past_present/", "past_away"


class PastStates:
    """Holds S earlier states of each of P agents, and the present states of those that are away.

    Each of the states with which the rounds of a life began is among the kept ones with equal
    probability (reservoir sampling, Vitter 1985, algorithm R).

    Args:
      settings: S, and how often agents become what they were.
      arrays: The agents' states by names, [P, ...] each.
    """

    def __init__(self, settings: PastAgentsConfig, arrays: Mapping[str, Array]) -> None:
        self._share, self._rows = settings.share, settings.states
        states = arrays if self._rows else {}
        self._kept = {
            name: np.zeros((len(values), self._rows, *values.shape[1:]), values.dtype)
            for name, values in states.items()
        }
        self._present = {name: np.zeros_like(values) for name, values in states.items()}
        self._away = np.zeros(max(map(len, states.values()), default=0), bool)

    def visit(
        self,
        arrays: Mapping[str, Array],
        lived: Array,
        streams: Mapping[int, np.random.Generator],
    ) -> dict[str, Array]:
        """Returns the states with which a round begins, and keeps the present ones.

        Args:
          arrays: The states after the round before, by names, [P, ...] each; those of agents that
            were away are given up.
          lived: [P], rounds of the agents' lives so far; at 0 all that was kept is forgotten.
          streams: Agent -> source of its draws; other agents keep nothing and stay as they are.

        Returns:
          States like `arrays`.
        """
        found = {name: values.copy() for name, values in arrays.items()}
        for agent, stream in streams.items():
            entered = int(lived[agent])
            if self._away[agent] and entered:
                for name, values in found.items():
                    values[agent] = self._present[name][agent]
            for name, values in found.items():
                self._present[name][agent] = values[agent]
            self._away[agent] = entered > 0 and stream.random() < self._share
            if self._away[agent]:
                row = int(stream.integers(min(entered, self._rows)))
                for name, values in found.items():
                    values[agent] = self._kept[name][agent, row]
            row = entered if entered < self._rows else int(stream.integers(entered + 1))
            if row < self._rows:
                for name, values in self._present.items():
                    self._kept[name][agent, row] = values[agent]
        return found

    def arrays(self) -> dict[str, Array]:
        """Returns copies of all that is kept, by names; nothing if S is 0."""
        return {name: values.copy() for name, values in self._named().items()}

    def _named(self) -> dict[str, Array]:
        kept = {f"{_KEPT}{name}": values for name, values in self._kept.items()}
        present = {f"{_PRESENT}{name}": values for name, values in self._present.items()}
        return {**kept, **present, _AWAY: self._away} if self._rows else {}

    def load(self, arrays: Mapping[str, Array]) -> None:
        """Takes what `arrays` returned, which may be among other arrays.

        Raises:
          VersionError: An array is missing or has another shape; nothing is taken then.
        """
        named = self._named()
        for name, values in named.items():
            if name not in arrays or arrays[name].shape != values.shape:
                raise VersionError(
                    f"agents' array {name} is missing or of another shape, so other settings or "
                    f"another version of epg_tf wrote it; begin a new run"
                )
        for name, values in named.items():
            values[...] = arrays[name]
