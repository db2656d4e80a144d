"""PPO and REINFORCE by EPG's inner loop, each with settings of its own: period, minibatch, epochs,
learning rate, deviation and discount (Algorithm 2 with another loss).
"""

from __future__ import annotations

import dataclasses
from typing import Any

from epg_tf.baselines.inner_loop_method import InnerLoops
from epg_tf.baselines.method import Baseline, LearningCurves, Request
from epg_tf.baselines.policy_gradient import no_loss, unused_loss
from epg_tf.core.errors import ConfigError
from epg_tf.epg.baseline_settings import PPOConfig
from epg_tf.epg.inner_loop import Teaching
from epg_tf.epg.settings import Experiment


@dataclasses.dataclass(frozen=True)
class OwnPeriodMethod(Baseline):
    """Trains the agents of a loss of EPG by PPO or REINFORCE.

    Attributes:
      name: "ppo" or "reinforce", which is also the group of its settings.
      experiment: Settings.
    """

    experiment: Experiment

    def train(self, request: Request) -> LearningCurves:
        """Trains L agents."""
        settings = own_settings(self.experiment, self.name, request.env_steps)
        rival = settings.ppo if self.name == "ppo" else settings.reinforce
        with InnerLoops(settings, measure_kl=True) as loops:
            teaching = Teaching(1.0, rival.learning_rate, rival.epochs, fresh=True)
            return loops.run(request, no_loss, teaching)


def own_settings(experiment: Experiment, name: str, env_steps: int) -> Experiment:
    """Returns the settings of the inner loop for a rival.

    A life must be a whole number of updates, and an update of minibatches. So the period becomes
    the divisor of the life that is nearest to the configured one, and the minibatch that of the
    period.

    Args:
      experiment: Settings of the test.
      name: "ppo" or "reinforce".
      env_steps: Of a life.

    Raises:
      ConfigError: A life has no env steps to learn in.
    """
    if env_steps < 1:
        raise ConfigError(
            f"config.{name}: a life of {env_steps} env steps has nothing to learn from; set "
            "config.inner.updates above 0, or compare with other methods"
        )
    rival = experiment.ppo if name == "ppo" else experiment.reinforce
    period = nearest_divisor(env_steps, rival.update_period)
    own: dict[str, Any] = {"discount": rival.discount}
    if isinstance(rival, PPOConfig):
        own["gae_lambda"] = rival.gae_lambda
    return dataclasses.replace(
        experiment,
        policy=dataclasses.replace(experiment.policy, log_std=rival.log_std),
        loss=unused_loss(period),
        inner=dataclasses.replace(
            experiment.inner,
            update_period=period,
            minibatch=nearest_divisor(period, rival.minibatch),
            kl_limit=0.0,  # the learned loss's; the rival's settings are tuned without
        ),
        surrogate=dataclasses.replace(
            experiment.surrogate, kind="ppo" if name == "ppo" else "reinforce", **own
        ),
    )


def nearest_divisor(number: int, wanted: int) -> int:
    """Returns the divisor of `number` with the ratio to `wanted` nearest to 1, both >= 1."""
    divisors = (each for each in range(1, number + 1) if number % each == 0)
    return min(divisors, key=lambda each: max(each / wanted, wanted / each))
