"""PPO and on-policy REINFORCE from EPG's inner loop, on the terms of an objective's test
(MetaGenRL, Appendix B.3).

REINFORCE has generalised advantage estimates, as the paper's; lambda is that of PPO.
"""

from __future__ import annotations

import dataclasses

import numpy as np

from epg_tf.agents.settings import PolicyConfig
from epg_tf.baselines.inner_loop_method import InnerLoops
from epg_tf.baselines.method import Baseline, LearningCurves, Request
from epg_tf.core.types import Array
from epg_tf.epg.inner_loop import Teaching
from epg_tf.epg.settings import ComputeConfig, Experiment, InnerConfig
from epg_tf.losses.settings import LossConfig, SurrogateConfig
from epg_tf.metagenrl.settings import MetaGenRLExperiment


@dataclasses.dataclass(frozen=True)
class PolicyGradientMethod(Baseline):
    """Trains fresh Gaussian policies, normalised as in EPG's inner loop.

    Its curve is of the newest episode at each update, with exploration; its final episodes are
    played without.

    Attributes:
      name: "ppo" or "reinforce".
      experiment: Settings, of which sizes, discount and `baseline` apply.
    """

    experiment: MetaGenRLExperiment

    def train(self, request: Request) -> LearningCurves:
        """Trains L agents; errors as of `inner_loop_experiment`."""
        settings = inner_loop_experiment(self.experiment, request, self.name)
        teaching = Teaching(
            1.0,
            settings.surrogate.baseline_learning_rate,
            settings.surrogate.baseline_epochs,
            final_noise=0.0,
        )
        with InnerLoops(settings) as loops:
            return loops.run(request, no_loss, teaching)


def unused_loss(buffer_steps: int) -> LossConfig:
    """Returns settings of the smallest loss, for lives in which none takes part; the buffer is as
    long as an update needs, since all of it is normalised every time.
    """
    return LossConfig(
        buffer_steps=buffer_steps, widths=(1, 1), strides=(1, 1), pooling="mean", memory_units=0
    )


def no_loss(agent: int) -> Array:
    """Returns parameters for an agent that alpha = 1 keeps from any learned loss."""
    del agent
    return np.zeros(1, np.float32)


def inner_loop_experiment(
    experiment: MetaGenRLExperiment, request: Request, name: str
) -> Experiment:
    """Returns the settings of the inner loop that correspond to those of an objective's test.

    Args:
      experiment: Settings, of which sizes, discount and `baseline` apply.
      request: Which agents.
      name: "ppo" or "reinforce".

    Raises:
      ConfigError: They do not fit together.
    """
    baseline, agent = experiment.baseline, experiment.agent
    ppo = name == "ppo"
    found = Experiment(
        task=request.task,
        policy=PolicyConfig(hidden=agent.hidden),
        loss=unused_loss(baseline.update_period),
        inner=InnerConfig(
            updates=request.env_steps // baseline.update_period,
            update_period=baseline.update_period,
            minibatch=baseline.minibatch,
            final_episodes=request.episodes,
        ),
        surrogate=SurrogateConfig(
            kind="ppo" if ppo else "reinforce_with_values",
            discount=agent.discount,
            value_hidden=agent.hidden,
            baseline_learning_rate=(
                baseline.ppo_learning_rate if ppo else baseline.reinforce_learning_rate
            ),
            baseline_epochs=baseline.ppo_epochs if ppo else 1,
        ),
        compute=ComputeConfig(
            shard_lives=min(request.agents, experiment.shard_agents), threads=experiment.threads
        ),
    )
    found.check()
    return found
