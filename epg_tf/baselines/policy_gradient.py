"""PPO and on-policy REINFORCE from EPG's inner loop, on the terms of an objective's test
(MetaGenRL, Appendix B.3).

REINFORCE is that of `losses.surrogates`, with returns to go and no value network; the paper's has a
GAE baseline.
"""

from __future__ import annotations

import numpy as np

from epg_tf.core.experiment import (
    ComputeConfig,
    Experiment,
    InnerConfig,
    LossConfig,
    PolicyConfig,
    SurrogateConfig,
    TaskConfig,
    validate,
)
from epg_tf.core.metagenrl_experiment import MetaGenRLExperiment
from epg_tf.core.types import Array, LifeKey
from epg_tf.epg.inner_loop import Teaching
from epg_tf.epg.shards import Shards
from epg_tf.tasks.base import TaskFamily

KINDS = ("ppo", "reinforce")


def inner_loop_experiment(
    experiment: MetaGenRLExperiment,
    family: TaskFamily,
    kind: str,
    steps: int,
    episodes: int,
    agents: int,
) -> Experiment:
    """Returns the settings of the inner loop that correspond to those of a test; arguments as in
    `learning_curves`.

    Raises:
      ConfigError: They do not fit together.
    """
    baseline, agent = experiment.baseline, experiment.agent
    rate = baseline.ppo_learning_rate if kind == "ppo" else baseline.reinforce_learning_rate
    passes = baseline.ppo_epochs if kind == "ppo" else 1
    found = Experiment(
        task=TaskConfig(family.name, family.frame_skip, family.episode_limit),
        policy=PolicyConfig(hidden=agent.hidden),
        loss=LossConfig(
            buffer_steps=baseline.update_period,
            widths=(1, 1),
            strides=(1, 1),
            pooling="mean",
            memory_units=0,
        ),  # takes no part
        inner=InnerConfig(
            updates=steps // baseline.update_period,
            update_period=baseline.update_period,
            minibatch=baseline.minibatch,
            final_episodes=episodes,
        ),
        surrogate=SurrogateConfig(
            kind="ppo" if kind == "ppo" else "reinforce",
            discount=agent.discount,
            value_hidden=agent.hidden,
            baseline_learning_rate=rate,
            baseline_epochs=passes,
        ),
        compute=ComputeConfig(
            shard_lives=min(agents, experiment.shard_agents), threads=experiment.threads
        ),
    )
    validate(found)
    return found


def learning_curves(
    experiment: MetaGenRLExperiment,
    family: TaskFamily,
    seed: int,
    agents: int,
    steps: int,
    episodes: int,
    kind: str,
    phase: str,
) -> tuple[Array, Array]:
    """Trains fresh Gaussian policies, normalised as in EPG's inner loop.

    Args:
      experiment: Settings, of which sizes, discount and `baseline` apply.
      family: Where they live.
      seed: Names tasks and streams.
      agents: L.
      steps: Env steps of learning of each.
      episodes: After it, with the final policy and no exploration.
      kind: Of `KINDS`.
      phase: Of the streams.

    Returns:
      (env steps [T], returns [L, T]): of the newest episode at each update, with exploration; at
      the last update the mean of those final episodes. NaN before the first, and where an agent
      failed.
    """
    settings = inner_loop_experiment(experiment, family, kind, steps, episodes, agents)
    keys = [LifeKey(seed, phase, 0, index) for index in range(agents)]
    unused = np.zeros(1, np.float32)  # alpha = 1: no learned loss takes part
    teaching = Teaching(
        1.0,
        settings.surrogate.baseline_learning_rate,
        settings.surrogate.baseline_epochs,
        final_noise=0.0,
    )
    with Shards(settings) as shards:
        lives = shards.run(keys, lambda life: unused, teaching)
    returns = np.where(lives.failed[:, None], np.nan, lives.episode_return)
    returns[:, -1] = lives.final_return
    return (np.arange(settings.inner.updates) + 1) * settings.inner.update_period, returns
