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
            [P] bool (for good or by a time limit: what comes next is another episode),
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

        An agent's steps are cut into blocks of T, at a place drawn anew each time; chunks are
        blocks, drawn without repeats unless there are too few.

        Args:
          generators: P streams.
          ages: [P] int, env steps of an agent's life so far, >= 1; earlier ones are not drawn.
          batches: K.
          batch: B.
          length: T; a chunk ends earlier where its episode, or what is held of it, does.

        Returns:
          Fields of `objectives.Chunks` by name, each [K, P, B, T, ...] float32, zeros in the
          padding.
        """
        held = np.minimum(ages, self.steps)
        starts = np.stack(
            [
                _block_starts(generator, int(steps), batches * batch, length)
                for generator, steps in zip(generators, held, strict=True)
            ]
        )
        numbers = starts[:, :, None] + np.arange(length)  # counted from an agent's oldest step
        rows = (numbers + self._written - held[:, None, None]) % self._capacity
        members = np.arange(self._population)[:, None, None]
        goes_on = 1.0 - self._fields["ended"][members, rows]
        mask = np.ones(rows.shape, np.float32)
        mask[:, :, 1:] = np.cumprod(goes_on[:, :, :-1], axis=2)
        mask *= numbers < held[:, None, None]
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


def _block_starts(generator: np.random.Generator, held: int, count: int, length: int) -> Array:
    """Cuts `held` steps into blocks and draws where `count` of them begin; a last block may be
    short.
    """
    offset = int(generator.integers(min(length, held)))
    blocks = -(-(held - offset) // length)
    return offset + length * generator.choice(blocks, count, replace=blocks < count)
