"""Makes small tables of results for tests."""

from __future__ import annotations

import dataclasses

import numpy as np

from epg_tf.baselines.method import LABELS, LearningCurves, LossName, Request
from epg_tf.evaluation.results import Results, tabulate
from epg_tf.tasks.settings import TaskConfig

NAN = float("nan")


@dataclasses.dataclass(frozen=True)
class Stub:
    """A method that trains nobody."""

    name: str
    explores: bool = True
    loss: LossName | None = None

    @property
    def label(self) -> str:
        return LABELS[self.name]

    def train(self, request):
        raise AssertionError(f"a table of made-up results trains nobody: {request}")


def table(
    name: str, final, curve, *, explores: bool = True, kl=None, loss: LossName | None = None
) -> Results:
    """Returns the results of L agents: final returns [L], NaN where failed, curves [L, T]."""
    final, curve = np.array(final, float), np.array(curve, float)
    agents, points = curve.shape
    curves = LearningCurves(
        10 * np.arange(1, points + 1),
        curve,
        np.full(curve.shape, NAN) if kl is None else np.array(kl, float),
        final,
        np.full(agents, NAN),
        np.full(agents, "", object),
    )
    request = Request(TaskConfig(), 0, "test", agents, 10 * points, 3)
    return tabulate(Stub(name, explores, loss), request, curves)
