"""Says how lives differ from ordinary ones, to find out what their agents have learned from."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Literal

from epg_tf.core.types import LifeKey

Kind = Literal["transfer", "yoked", "switch"]


@dataclasses.dataclass(frozen=True)
class Condition:
    """Pairs each life with another one, and says what the life gets from it.

    Attributes:
      kind: "transfer": the final episodes are in the other life's task. "yoked": an agent learns
        from what the other life's agent experiences, which acts and learns as ever; its final
        episodes are in its own task, its normalisation is that of what it learned from. "switch":
        after `update` updates a life goes on in the other life's task.
      others: others[i] is the index of the life that is paired with the life of index i.
      update: Of a switch, >= 1.
    """

    kind: Kind
    others: tuple[int, ...]
    update: int = 0

    def switches_before(self, update: int) -> bool:
        """Returns whether tasks change before update number `update`, from 0."""
        return self.kind == "switch" and update == self.update

    def of_others(self, keys: Sequence[LifeKey]) -> list[LifeKey]:
        """Returns the keys of the lives that are paired with those of `keys`."""
        return [dataclasses.replace(key, index=self.others[key.index]) for key in keys]
