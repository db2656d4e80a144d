"""Methods of the test of a learned loss (EPG, Algorithm 2): it, and what it is compared with."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Literal

from epg_tf.baselines import off_policy, policy_gradient
from epg_tf.baselines.inner_loop_method import InnerLoopMethod, InnerLoops
from epg_tf.baselines.lived_shards import KeptShards
from epg_tf.baselines.method import LossName, Method, learned_name
from epg_tf.core.types import Array
from epg_tf.epg.inner_loop import Teaching, final_teaching
from epg_tf.epg.meta_parameters import initial_phi, moves_loss
from epg_tf.epg.settings import Experiment

_UNEVOLVED = 2**31  # seeds of unevolved losses start here, far from the seeds people choose


@dataclasses.dataclass(frozen=True)
class EvaluatedLoss:
    """What the methods of a test are made from.

    Attributes:
      loops: What runs their lives; its experiment holds their settings.
      phi: [D] float32, the learned loss; read-only, so no method can change it.
      loss: Its name.
      alpha: Share of PPO in what the learned loss's agents minimise (EPG + PPO; v1, Figure 7).
      kept: By the keys of the methods that take hours, the shards of theirs that have lived.
    """

    loops: InnerLoops
    phi: Array
    loss: LossName
    alpha: float = 0.0
    kept: Mapping[str, KeptShards] = dataclasses.field(default_factory=dict)

    def of_agent(self, agent: int) -> Array:
        """Returns the parameters of the loss of an agent: the same for all."""
        del agent
        return self.phi


def with_ppo(experiment: Experiment) -> Experiment:
    """Returns the settings of a test: the surrogate is PPO."""
    surrogate = dataclasses.replace(experiment.surrogate, kind="ppo")
    return dataclasses.replace(experiment, surrogate=surrogate)


def inner_loops(experiment: Experiment) -> InnerLoops:
    """Returns what runs the lives of a test; KL is measured."""
    return InnerLoops(with_ppo(experiment), measure_kl=True)


def learned_loss(evaluated: EvaluatedLoss) -> Method:
    """Returns the method that uses what evolution moved, frozen (see `learned_name`): where that is
    a loss, agents minimise (1 - alpha) of it + alpha PPO.
    """
    experiment = evaluated.loops.experiment
    return InnerLoopMethod(
        learned_name(experiment),
        evaluated.loops,
        evaluated.of_agent,
        dataclasses.replace(final_teaching(experiment), alpha=evaluated.alpha),
        loss=evaluated.loss,
    )


def ppo(evaluated: EvaluatedLoss) -> Method:
    """Returns PPO with settings of its own, M included."""
    return policy_gradient.beside_loss("ppo", evaluated.loops.experiment)


def ppo_as_epg(evaluated: EvaluatedLoss) -> Method:
    """Returns PPO with EPG's M, and a learning rate and a number of epochs of its own (the papers'
    protocol).
    """
    surrogate = evaluated.loops.experiment.surrogate
    teaching = Teaching(
        1.0, surrogate.baseline_learning_rate, surrogate.baseline_epochs, fresh=True
    )
    return InnerLoopMethod("ppo_as_epg", evaluated.loops, evaluated.of_agent, teaching)


def sac(evaluated: EvaluatedLoss) -> Method:
    """Returns SAC of TF-Agents."""
    return off_policy.beside_loss("sac", evaluated.loops.experiment, evaluated.kept.get("sac"))


def td3(evaluated: EvaluatedLoss) -> Method:
    """Returns TD3 of TF-Agents."""
    return off_policy.beside_loss("td3", evaluated.loops.experiment, evaluated.kept.get("td3"))


def reinforce(evaluated: EvaluatedLoss) -> Method:
    """Returns on-policy REINFORCE with settings of its own, M included."""
    return policy_gradient.beside_loss("reinforce", evaluated.loops.experiment)


def untrained(evaluated: EvaluatedLoss) -> Method:
    """Returns the method whose agents never learn."""
    teaching = Teaching(0.0, 0.0, fresh=True)
    return InnerLoopMethod("untrained", evaluated.loops, evaluated.of_agent, teaching)


def random_loss(evaluated: EvaluatedLoss) -> Method:
    """Returns the method that gives each agent another loss with a random start, never evolved."""
    return _unevolved("random_loss", evaluated, "random")


def centred_loss(evaluated: EvaluatedLoss) -> Method:
    """Returns the method that gives each agent another loss with a centred start, never evolved."""
    return _unevolved("centred_loss", evaluated, "centred")


def policy_gradient_loss(evaluated: EvaluatedLoss) -> Method:
    """Returns the method that gives each agent another loss that begins as REINFORCE and was never
    evolved.
    """
    return _unevolved("policy_gradient_loss", evaluated, "policy_gradient")


def _unevolved(
    name: str,
    evaluated: EvaluatedLoss,
    start: Literal["random", "centred", "policy_gradient"],
) -> Method:
    experiment = evaluated.loops.experiment
    started = dataclasses.replace(
        experiment, loss=dataclasses.replace(experiment.loss, start=start)
    )
    teaching = Teaching(0.0, experiment.inner.learning_rate, fresh=True)
    return InnerLoopMethod(
        name, evaluated.loops, lambda agent: initial_phi(started, _UNEVOLVED + agent), teaching
    )


METHODS: dict[str, Callable[[EvaluatedLoss], Method]] = {
    "epg": learned_loss,
    "ppo": ppo,
    "ppo_as_epg": ppo_as_epg,
    "sac": sac,
    "td3": td3,
    "reinforce": reinforce,
    "untrained": untrained,
    "random_loss": random_loss,
    "centred_loss": centred_loss,
    "policy_gradient_loss": policy_gradient_loss,
}
IN_SHARDS = ("sac", "td3")
"""Methods that take hours: what ended of them is kept shard by shard."""
UNEVOLVED = ("random_loss", "centred_loss", "policy_gradient_loss")


def applicable(experiment: Experiment, names: Sequence[str]) -> tuple[str, ...]:
    """Returns those of some `METHODS` that a test can have: no unevolved loss beside no loss, one
    that begins as a policy gradient only beside one that did, and a centred one only if it sees the
    policy.
    """
    left_out = set() if moves_loss(experiment) else {*UNEVOLVED}
    if experiment.loss.start != "policy_gradient":
        left_out.add("policy_gradient_loss")
    if "policy" in experiment.loss.without:
        left_out.add("centred_loss")
    return tuple(name for name in names if name not in left_out)
