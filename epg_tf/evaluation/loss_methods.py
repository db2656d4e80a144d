"""Methods of the test of a learned loss (EPG, Algorithm 2): it, and what it is compared with."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

from epg_tf.baselines.inner_loop_method import InnerLoopMethod, InnerLoops
from epg_tf.baselines.method import LossName, Method, learned_name
from epg_tf.core.experiment import Experiment
from epg_tf.core.types import Array
from epg_tf.epg.inner_loop import Teaching, final_teaching
from epg_tf.epg.meta_parameters import initial_phi, moves_loss

_UNEVOLVED = 2**31  # seeds of unevolved losses start here, far from the seeds people choose


@dataclasses.dataclass(frozen=True)
class EvaluatedLoss:
    """What the methods of a test are made from.

    Attributes:
      loops: What runs their lives; its experiment holds their settings.
      phi: [D] float32, the learned loss; read-only, so no method can change it.
      loss: Its name.
    """

    loops: InnerLoops
    phi: Array
    loss: LossName

    def of_agent(self, agent: int) -> Array:
        """Returns the parameters of the loss of an agent: the same for all."""
        del agent
        return self.phi


def inner_loops(experiment: Experiment) -> InnerLoops:
    """Returns what runs the lives of a test: the surrogate is PPO, and KL is measured."""
    surrogate = dataclasses.replace(experiment.surrogate, kind="ppo")
    return InnerLoops(dataclasses.replace(experiment, surrogate=surrogate), measure_kl=True)


def learned_loss(evaluated: EvaluatedLoss) -> Method:
    """Returns the method that uses what evolution moved, frozen: see `learned_name`."""
    experiment = evaluated.loops.experiment
    return InnerLoopMethod(
        learned_name(experiment),
        evaluated.loops,
        evaluated.of_agent,
        final_teaching(experiment),
        loss=evaluated.loss,
    )


def ppo(evaluated: EvaluatedLoss) -> Method:
    """Returns PPO, with a learning rate and a number of epochs of its own."""
    surrogate = evaluated.loops.experiment.surrogate
    teaching = Teaching(
        1.0, surrogate.baseline_learning_rate, surrogate.baseline_epochs, fresh=True
    )
    return InnerLoopMethod("ppo", evaluated.loops, evaluated.of_agent, teaching)


def untrained(evaluated: EvaluatedLoss) -> Method:
    """Returns the method whose agents never learn."""
    teaching = Teaching(0.0, 0.0, fresh=True)
    return InnerLoopMethod("untrained", evaluated.loops, evaluated.of_agent, teaching)


def random_loss(evaluated: EvaluatedLoss) -> Method:
    """Returns the method that gives each agent another loss, which was never evolved."""
    experiment = evaluated.loops.experiment

    def unevolved(agent: int) -> Array:
        return initial_phi(experiment, _UNEVOLVED + agent)

    teaching = Teaching(0.0, experiment.inner.learning_rate, fresh=True)
    return InnerLoopMethod("random_loss", evaluated.loops, unevolved, teaching)


METHODS: dict[str, Callable[[EvaluatedLoss], Method]] = {
    "epg": learned_loss,
    "ppo": ppo,
    "untrained": untrained,
    "random_loss": random_loss,
}


def applicable(experiment: Experiment, names: Sequence[str]) -> tuple[str, ...]:
    """Returns those of some `METHODS` that a test can have: no unevolved loss beside no loss."""
    return tuple(name for name in names if name != "random_loss" or moves_loss(experiment))
