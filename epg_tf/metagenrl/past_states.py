"""Keeps earlier states of agents, to which agents may return (MetaGenRL, Appendix A.2).

The paper finds that an objective gets worse once all agents are good, suspects that it forgets how
to teach fresh ones, and names older policies in the population as a possible remedy, without
stating how. Here an agent that returns gets back policy, critics, targets and Adam's moments; its
replay and its age stay.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from epg_tf.core.metagenrl_experiment import PastAgentsConfig
from epg_tf.core.types import Array

_PREFIX = "past/"


class PastStates:
    """Holds S earlier states of each of P agents.

    States enter at the start of a round. Each of those that have entered in an agent's life is
    among the kept ones with equal probability (reservoir sampling, Vitter 1985, algorithm R).

    Args:
      settings: S, and how often agents return.
      arrays: An agent's state by names, [P, ...] each.
    """

    def __init__(self, settings: PastAgentsConfig, arrays: Mapping[str, Array]) -> None:
        self._share = settings.share
        self._rows = settings.states
        self._kept = {
            name: np.zeros((len(values), self._rows, *values.shape[1:]), values.dtype)
            for name, values in arrays.items()
        }

    def visit(
        self,
        arrays: Mapping[str, Array],
        lived: Array,
        streams: Mapping[int, np.random.Generator],
    ) -> dict[str, Array]:
        """Lets the states of agents enter, and returns those with which the round begins.

        Args:
          arrays: The present states by names, [P, ...] each.
          lived: [P], rounds of the agents' lives so far; in round 0 the kept states are forgotten.
          streams: Agent -> source of its draws; other agents neither enter nor return.

        Returns:
          States like `arrays`.
        """
        found = {name: values.copy() for name, values in arrays.items()}
        for agent, stream in streams.items():
            entered = int(lived[agent]) + 1
            row = entered - 1 if entered <= self._rows else int(stream.integers(entered))
            if row < self._rows:
                for name, values in arrays.items():
                    self._kept[name][agent, row] = values[agent]
            if stream.random() < self._share:
                row = int(stream.integers(min(entered, self._rows)))
                for name, values in found.items():
                    values[agent] = self._kept[name][agent, row]
        return found

    def arrays(self) -> dict[str, Array]:
        """Returns copies of all that is kept, by names; nothing if S is 0."""
        if not self._rows:
            return {}
        return {f"{_PREFIX}{name}": values.copy() for name, values in self._kept.items()}

    def load(self, arrays: Mapping[str, Array]) -> None:
        """Takes what `arrays` returned, which may be among other arrays."""
        for name in self._kept if self._rows else ():
            self._kept[name] = arrays[f"{_PREFIX}{name}"].copy()
