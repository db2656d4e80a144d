"""PPO and on-policy REINFORCE by EPG's inner loop (Algorithm 2 with another loss), each with
settings of its own.
"""

from __future__ import annotations

import dataclasses

import numpy as np

from epg_tf.agents.settings import PolicyConfig
from epg_tf.baselines.inner_loop_method import InnerLoops
from epg_tf.baselines.method import LearningCurves, Method, Request
from epg_tf.core.errors import ConfigError
from epg_tf.core.types import Array
from epg_tf.epg.inner_loop import InnerLoopSettings
from epg_tf.epg.settings import ComputeConfig, Experiment, InnerConfig
from epg_tf.losses.settings import LossConfig, SurrogateConfig
from epg_tf.metagenrl.settings import MetaGenRLExperiment


@dataclasses.dataclass(frozen=True)
class PolicyGradientMethod(Method):
    """Trains fresh Gaussian policies; the curve is of the newest episode, with exploration.

    Attributes:
      experiment: Settings of the inner loop; a request replaces task, length and final episodes.
      inner_settings: How agents learn.
      measure_kl: Whether curves have the KL divergence of updates.
    """

    experiment: Experiment
    inner_settings: InnerLoopSettings
    measure_kl: bool = False

    def train(self, request: Request) -> LearningCurves:
        """Trains L agents; errors as of `fitted`."""
        with InnerLoops(fitted(self.experiment, request.env_steps), self.measure_kl) as loops:
            return loops.run(request, no_loss, self.inner_settings)


def beside_loss(name: str, experiment: Experiment) -> PolicyGradientMethod:
    """Returns the method on the terms of the evaluation of a loss of EPG.

    Args:
      name: "ppo" or "reinforce", which is also the group of its settings.
      experiment: Settings.
    """
    own = experiment.ppo if name == "ppo" else experiment.reinforce
    gae_lambda = experiment.ppo.gae_lambda if name == "ppo" else experiment.surrogate.gae_lambda
    settings = dataclasses.replace(
        experiment,
        policy=dataclasses.replace(experiment.policy, log_std=own.log_std),
        inner=dataclasses.replace(
            experiment.inner,
            update_period=own.update_period,
            minibatch=own.minibatch,
            kl_limit=0.0,  # the learned loss's; these settings are tuned without
        ),
        surrogate=dataclasses.replace(
            experiment.surrogate,
            kind="ppo" if name == "ppo" else "reinforce",
            discount=own.discount,
            gae_lambda=gae_lambda,
        ),
    )
    inner_settings = InnerLoopSettings(1.0, own.learning_rate, own.epochs, fresh=True)
    return PolicyGradientMethod(name, settings, inner_settings, measure_kl=True)


def beside_objective(name: str, experiment: MetaGenRLExperiment) -> PolicyGradientMethod:
    """Returns the method on the terms of the evaluation of an objective (MetaGenRL, Appendix B.3).

    REINFORCE has generalised advantage estimates, as the paper's; lambda is that of PPO. Final
    episodes are played without exploration.

    Args:
      name: "ppo" or "reinforce".
      experiment: Settings, of which sizes, discount and `baseline` apply.
    """
    baseline, agent = experiment.baseline, experiment.agent
    ppo = name == "ppo"
    settings = Experiment(
        policy=PolicyConfig(hidden=agent.hidden),
        inner=InnerConfig(update_period=baseline.update_period, minibatch=baseline.minibatch),
        surrogate=SurrogateConfig(
            kind="ppo" if ppo else "reinforce_with_values",
            discount=agent.discount,
            value_hidden=agent.hidden,
        ),
        compute=ComputeConfig(shard_lives=experiment.shard_agents, threads=experiment.threads),
    )
    rate = baseline.ppo_learning_rate if ppo else baseline.reinforce_learning_rate
    epochs = baseline.ppo_epochs if ppo else 1
    return PolicyGradientMethod(
        name, settings, InnerLoopSettings(1.0, rate, epochs, final_noise=0.0)
    )


def fitted(experiment: Experiment, env_steps: int) -> Experiment:
    """Returns the settings of the inner loop for a lifetime.

    A lifetime is a whole number of updates, and an update of minibatches. So the period becomes the
    divisor of the lifetime that is nearest to the configured one, and the minibatch that of the
    period. The buffer is as long as an update needs, since all of it is normalised every time.

    Args:
      experiment: Settings.
      env_steps: Of a lifetime.

    Raises:
      ConfigError: A lifetime has no env steps to learn in.
    """
    inner, kind = experiment.inner, experiment.surrogate.kind
    if env_steps < 1:
        raise ConfigError(
            f"config.{kind}: a life of {env_steps} env steps has nothing to learn from; set "
            "config.inner.updates above 0, or compare with other methods"
        )
    period = nearest_divisor(env_steps, inner.update_period)
    minibatch = nearest_divisor(period, inner.minibatch)
    return dataclasses.replace(
        experiment,
        loss=LossConfig(
            buffer_steps=period, widths=(1, 1), strides=(1, 1), pooling="mean", memory_units=0
        ),
        inner=dataclasses.replace(inner, update_period=period, minibatch=minibatch),
    )


def no_loss(agent: int) -> Array:
    """Returns parameters for an agent that alpha = 1 keeps from any learned loss."""
    del agent
    return np.zeros(1, np.float32)


def nearest_divisor(number: int, wanted: int) -> int:
    """Returns the divisor of `number` with the ratio to `wanted` nearest to 1, both >= 1."""
    divisors = (each for each in range(1, number + 1) if number % each == 0)
    return min(divisors, key=lambda each: max(each / wanted, wanted / each))
