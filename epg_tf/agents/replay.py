"""Holds the newest steps of P agents, and draws chunks of trajectories from them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from epg_tf.core.types import Array


class Replay:
    """Rings of steps, all agents in lockstep.

    Args:
      population: P.
      capacity: Steps kept of each agent, >= 1.
      observation_size: O.
      action_size: A.

    Attributes:
      steps: Steps held of each agent.
    """

    def __init__(self, population: int, capacity: int, observation_size: int, action_size: int):
        shapes = {
            "observation": (observation_size,),
            "action": (action_size,),
            "reward": (),
            "terminated": (),
            "ended": (),
            "next_observation": (observation_size,),
        }
        self._fields = {
            name: np.zeros((population, capacity, *shape), np.float32)
            for name, shape in shapes.items()
        }
        self._population, self._capacity = population, capacity
        self._written = 0

    @property
    def steps(self) -> int:
        """Steps held of each agent."""
        return min(self._written, self._capacity)

    def write(self, step: Mapping[str, Array]) -> None:
        """Adds one step of every agent, over the oldest where the ring is full.

        Args:
          step: By field: observation [P, O], action [P, A], reward [P], terminated [P] bool, ended
            [P] bool (terminated, or by a time limit: what comes next is another episode),
            next_observation [P, O].
        """
        row = self._written % self._capacity
        for name, values in step.items():
            self._fields[name][:, row] = values
        self._written += 1

    def newest(self, steps: int) -> dict[str, Array]:
        """Returns the newest steps of every agent by field, oldest first, [P, steps, ...]; it must
        hold so many.
        """
        rows = np.arange(self._written - steps, self._written) % self._capacity
        return {name: values[:, rows] for name, values in self._fields.items()}

    def shapes(self, steps: int) -> dict[str, tuple[int, ...]]:
        """Returns the shapes of what `newest` returns, by field."""
        return {
            name: (values.shape[0], steps, *values.shape[2:])
            for name, values in self._fields.items()
        }

    def extend(self, steps: Mapping[str, Array]) -> None:
        """Adds steps as `newest` returns them."""
        count = next(iter(steps.values())).shape[1]
        rows = np.arange(self._written, self._written + count) % self._capacity
        for name, values in steps.items():
            self._fields[name][:, rows] = values
        self._written += count

    def clear(self) -> None:
        """Removes all steps."""
        self._written = 0

    def draw(
        self,
        generators: Sequence[np.random.Generator],
        ages: Array,
        batches: int,
        batch: int,
        length: int,
    ) -> dict[str, Array]:
        """Draws chunks that have no step in common, while there are enough steps for that.

        An agent's steps are cut after every T, from a place drawn anew each time, and where
        episodes end. Chunks are the blocks between cuts, drawn without repeats unless there are too
        few. As each step lies in one block, all steps are drawn equally often.

        Args:
          generators: P streams.
          ages: [P] int, env steps of an agent's life so far, >= 1; earlier ones are not drawn.
          batches: K.
          batch: B.
          length: T, the longest a chunk may be.

        Returns:
          Fields of `objectives.Chunks` by name, each [K, P, B, T, ...] float32, zeros in the
          padding.
        """
        held = np.minimum(ages, self.steps)
        blocks = [
            self._blocks(member, int(steps), generator, batches * batch, length)
            for member, (generator, steps) in enumerate(zip(generators, held, strict=True))
        ]
        starts, sizes = (np.stack(part)[:, :, None] for part in zip(*blocks, strict=True))
        numbers = starts + np.arange(length)  # counted from an agent's oldest step
        rows = (numbers + self._written - held[:, None, None]) % self._capacity
        members = np.arange(self._population)[:, None, None]
        mask = (np.arange(length) < sizes).astype(np.float32)
        flat = (members * self._capacity + rows).ravel()
        drawn = {"mask": mask}
        for name in ("observation", "action", "reward", "terminated", "next_observation"):
            values = self._fields[name]
            part = values.reshape(-1, *values.shape[2:])[flat].reshape(
                *rows.shape, *values.shape[2:]
            )
            present = mask.astype(bool)
            drawn[name] = np.where(
                present if part.ndim == 3 else present[..., None], part, np.float32(0.0)
            )
        return {
            name: part.reshape(self._population, batches, batch, *part.shape[2:]).swapaxes(0, 1)
            for name, part in drawn.items()
        }

    def _blocks(
        self, member: int, held: int, generator: np.random.Generator, count: int, length: int
    ) -> tuple[Array, Array]:
        """Draws `count` blocks of an agent's newest `held` steps.

        Returns:
          [count] int, where they begin, counted from the oldest of these steps; [count] int, how
          many steps each has, 1 to `length`.
        """
        rows = (np.arange(held) + self._written - held) % self._capacity
        is_edge = np.zeros(held + 1, bool)
        is_edge[1:] = self._fields["ended"][member, rows]
        is_edge[int(generator.integers(length)) : held : length] = True
        is_edge[[0, held]] = True
        edges = np.flatnonzero(is_edge)
        chosen = generator.choice(len(edges) - 1, count, replace=len(edges) - 1 < count)
        return edges[chosen], np.diff(edges)[chosen]
