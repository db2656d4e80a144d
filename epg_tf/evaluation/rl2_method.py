"""RL² and E-RL² as methods of the test of a learned loss (EPG, Figures 9 and 18)."""

from __future__ import annotations

from collections.abc import Callable

from epg_tf.artifacts.rl2_policy import load_rl2
from epg_tf.baselines.rl2_lives import RL2Method
from epg_tf.core.files import PathLike
from epg_tf.evaluation.evaluate import loss_name
from epg_tf.evaluation.loss_methods import EvaluatedLoss


def load(folder: PathLike) -> Callable[[EvaluatedLoss], RL2Method]:
    """Reads a meta-trained policy; returns what makes the method of a test of it.

    The method's name is "rl2" or "e_rl2"; points of its curve are at the same env steps as those of
    the learned loss.

    Args:
      folder: As for `load_rl2`.

    Raises:
      RecordError: There is no usable policy in `folder`.
    """
    found = load_rl2(folder)
    name = loss_name(str(found.folder), found.facts)

    def method(evaluated: EvaluatedLoss) -> RL2Method:
        experiment = evaluated.loops.experiment
        return RL2Method(
            found.experiment,
            found.vector,
            name,
            experiment.inner.update_period,
            experiment.compute.threads,
        )

    return method
