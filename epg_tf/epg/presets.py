"""Presets of EPG, for configs: the scales of the paper's versions, one for a laptop, one with full
lifetimes for a night, and one for families that need learning.
"""

import dataclasses
from typing import Any

from epg_tf.agents.settings import PolicyConfig
from epg_tf.epg.baseline_settings import SACConfig, TD3Config
from epg_tf.epg.evolution_settings import EvolutionConfig
from epg_tf.epg.settings import ComputeConfig, Experiment, InnerConfig
from epg_tf.losses.settings import AS_IT_IS, LossConfig, SurrogateConfig
from epg_tf.tasks.settings import TaskConfig

WINNING_SAC = SACConfig(batch=64, random_steps=50, target_entropy=0.0, tau=0.05)
WINNING_TD3 = TD3Config(
    learning_rate=3e-3, updates_per_step=2, random_steps=50, exploration=0.4, tau=0.05
)
"""Settings that won most searches in bodies (results/records)."""

FIXED_LOG_STD = -2.0
"""Of fixed policies, and of agents that are to do as one does: natural logarithm."""


def paper(task: TaskConfig, update_period: int, updates: int, reward: bool = False) -> Experiment:
    """Returns an experiment of the final paper, Table 1 and section 4.

        workers W         256    minibatch B           32
        noise vectors V    64    buffer N     512 or 1024
        epochs E         5000    inner Adam          1e-3
        outer Adam      1e-2 to 1e-3 over 2000 epochs
        alpha              1 to 0 over 500 epochs
        L2 on phi       0.001

    Not in the paper, taken from the authors' code: sigma 0.01, N = 512, PPO's constants.
    """
    return Experiment(
        task=task,
        loss=LossConfig(buffer_steps=512, reward=reward),
        surrogate=SurrogateConfig(baseline_learning_rate=3e-3, baseline_epochs=4),
        inner=InnerConfig(
            updates=updates, update_period=update_period, minibatch=32, learning_rate=1e-3
        ),
        evolution=EvolutionConfig(
            epochs=5000,
            lives=256,
            noise_vectors=64,
            sigma=0.01,
            learning_rate=1e-2,
            final_learning_rate=1e-3,
            learning_rate_epochs=2000,
            l2=1e-3,
            guidance_epochs=500,
        ),
        compute=ComputeConfig(shard_lives=64),
    )


def paper_v1(task: TaskConfig, updates: int, reward: bool = False) -> Experiment:
    """Returns an experiment of the paper's first version, sections 3.3 and 4.1.

        workers, noise vectors  32    buffer N, update period M  128
        epochs E              3000    filters                    8 and 8
        alpha                 1 to 0 over 500 epochs

    A trajectory of M steps is one gradient step. The network of a policy returns means and
    deviations, and fitness is the final return and the time-weighted returns of the life (footnote
    1). Noise vectors are weighted by returns, not by ranks (Eq. 5). Not in that version: what
    `paper` takes from the final one, Adam among it, except L2, which is 0.
    """
    final = paper(task, update_period=128, updates=updates, reward=reward)
    return dataclasses.replace(
        final,
        policy=PolicyConfig(state_dependent_std=True),
        loss=dataclasses.replace(final.loss, buffer_steps=128, filters=(8, 8)),
        inner=dataclasses.replace(final.inner, minibatch=128),
        evolution=dataclasses.replace(
            final.evolution,
            epochs=3000,
            lives=32,
            noise_vectors=32,
            fitness="raw",
            fitness_from="weighted",
            l2=0.0,
        ),
        compute=ComputeConfig(shard_lives=16),
    )


def laptop(task: TaskConfig, updates: int, reward: bool = False) -> Experiment:
    """Returns an experiment for 2 cores: short lives, a small loss, antithetic pairs with common
    numbers, no guidance.

    The loss has about a tenth of the paper's parameters, because evolution strategies try random
    directions of phi. It starts centred, so that agents' actions do not saturate. Epochs have few
    lives and learning rates are high. docs/lessons.md shows the effect of each of these.
    """
    return Experiment(
        task=task,
        surrogate=SurrogateConfig(baseline_learning_rate=1e-3, baseline_epochs=4),
        loss=LossConfig(
            buffer_steps=128,
            reward=reward,
            filters=(4, 4),
            context=8,
            pooling="mean",
            memory_units=4,
            start="centred",
        ),
        inner=InnerConfig(updates=updates, update_period=32, minibatch=32, learning_rate=3e-3),
        evolution=EvolutionConfig(
            epochs=200,
            lives=32,
            noise_vectors=32,
            sigma=0.1,
            antithetic=True,
            common_random_numbers=True,
            learning_rate=5e-2,
            final_learning_rate=5e-3,
            learning_rate_epochs=200,
            l2=0.0,
            guidance=0.0,
            guidance_epochs=0,
            validation_period=20,
        ),
        compute=ComputeConfig(shard_lives=16),  # one for each of two cores, see docs/benchmarks.md
    )


def stepwise(usual: LossConfig) -> LossConfig:
    """Returns a loss that sees one env step at a time, without memory."""
    return dataclasses.replace(usual, widths=(1, 1), strides=(1, 1), filters=(8, 4), memory_units=0)


def night(task: TaskConfig, update_period: int, updates: int, reward: bool = False) -> Experiment:
    """Returns an experiment with the paper's bodies and lives (Table 1) for one night on 2 cores,
    in coarse physics.

    It is `laptop` with 64 lives an epoch, half of them in each of two shards. With the reward, the
    loss begins as correlating, and agents explore less and update four times as often. SAC and TD3
    are those that won most searches.
    """
    usual = laptop(dataclasses.replace(task, physics="coarse"), updates, reward)
    loss = dataclasses.replace(stepwise(usual.loss), start="correlating")
    return dataclasses.replace(
        usual,
        policy=PolicyConfig(log_std=-1.0) if reward else usual.policy,
        loss=loss if reward else usual.loss,
        inner=dataclasses.replace(
            usual.inner,
            update_period=update_period,
            minibatch=update_period // 4 if reward else update_period,
        ),
        evolution=dataclasses.replace(
            usual.evolution,
            epochs=300,
            lives=64,
            noise_vectors=64,
            learning_rate=4e-2,
            learning_rate_epochs=300,
        ),
        compute=ComputeConfig(shard_lives=32),
        sac=WINNING_SAC,
        td3=WINNING_TD3,
    )


def valley(
    usual: LossConfig, actions: int, log_std_limits: tuple[float, float] | None
) -> LossConfig:
    """Returns a loss that begins as a quadratic valley around the means, or probabilities, and has
    little else, for evolution strategies, which try random directions of phi.

    It has one product unit, a square, for each component of the action, as many as the valley
    needs. It sees one step at a time, but for one number of context, has no memory, and holds
    policies within limits.

    Args:
      usual: The other settings.
      actions: A, components of an action.
      log_std_limits: Lowest and highest of policies; None where actions are discrete.
    """
    limits: dict[str, Any] = {}
    if log_std_limits is not None:
        limits = {"mean_limit": 1.0, "log_std_limits": log_std_limits}
    return dataclasses.replace(
        usual,
        start="quadratic",
        products=actions,
        factors=1,
        head=1,
        widths=(1, 1),
        strides=(1, 1),
        filters=(1, 1),
        context=1,
        memory_units=0,
        **limits,
    )


def around_policy(usual: Experiment, actions: int, discrete: bool = False) -> Experiment:
    """Returns an experiment whose loss may begin around a fixed linear policy: agents imitate it as
    fast as they can and explore as little as it does, and there is less noise on the loss.

    It sees observations as they are: those that an agent has normalised by falling would make the
    policy another one.

    Args:
      usual: The other settings.
      actions: A, components of an action.
      discrete: Whether actions are.
    """
    limits = None if discrete else (-3.0, FIXED_LOG_STD)
    loss = valley(usual.loss, actions, limits)
    return dataclasses.replace(
        usual,
        policy=dataclasses.replace(usual.policy, log_std=FIXED_LOG_STD),
        loss=dataclasses.replace(loss, channels=(*loss.channels, AS_IT_IS)),
        inner=dataclasses.replace(usual.inner, kl_limit=0.0),
        evolution=dataclasses.replace(
            usual.evolution, sigma=0.03, learning_rate=1.2e-2, final_learning_rate=1.2e-3
        ),
    )


def teaching(task: TaskConfig, reward: bool) -> Experiment:
    """Returns an experiment like `laptop` for families in which no fixed policy does well.

    Agents explore less at first and update four times as often. The fitness is the mean return of
    all episodes of a life, so that a loss that teaches sooner is better; it needs no other env
    steps. With the reward, the loss begins as a policy gradient whose steps are limited, without
    memory; without it, the temporal convolutions are needed, because an action shows in the next
    env step's observation.
    """
    usual = laptop(task, updates=32, reward=reward)
    loss = dataclasses.replace(stepwise(usual.loss), start="policy_gradient", products=8)
    return dataclasses.replace(
        usual,
        policy=PolicyConfig(log_std=-1.0),
        loss=loss if reward else usual.loss,
        inner=dataclasses.replace(
            usual.inner, minibatch=8, learning_rate=1e-2, kl_limit=0.02 if reward else 0.0
        ),
        evolution=dataclasses.replace(
            usual.evolution,
            lives=64,
            noise_vectors=64,
            fitness_from="whole_life",
            learning_rate=4e-2,
            final_learning_rate=4e-3,
        ),
        compute=ComputeConfig(shard_lives=32),
    )


def identifying(task: TaskConfig, channels: tuple[str, ...] = ()) -> Experiment:
    """Returns an experiment like `teaching`, without reward, for families in which motors must be
    found out: signs, gains, wiring.

    The loss begins as `losses.identifying` alone. It sees the last 256 env steps, from which the
    effects of actions are clear.

    Args:
      task: The family.
      channels: Further inputs of the loss, such as "goal" or "observation_pairs".
    """
    usual = teaching(task, reward=False)
    loss = dataclasses.replace(
        stepwise(usual.loss),
        start="identifying",
        identifying=8,
        buffer_steps=256,
        filters=(2, 2),
        context=2,
        head=4,
        channels=channels,
    )
    return dataclasses.replace(
        usual,
        loss=loss,
        evolution=dataclasses.replace(usual.evolution, epochs=100, learning_rate_epochs=100),
    )


def evolved_starts(experiment: Experiment, scale: str) -> dict[str, Experiment]:
    """Returns EPG+I and PPO+I (section 4.2, Figure 13) by the name of the variant.

    EPG+I moves the initial policy with the loss; PPO+I moves that of agents that learn by PPO. All
    else is as in `experiment`, but on a laptop there is less noise than for a loss alone.

    Args:
      experiment: The other settings.
      scale: "laptop" or "paper".
    """
    both: dict[str, Any] = {"moves": "both"}
    alone: dict[str, Any] = {"moves": "initialisation", "guidance": 1.0, "final_guidance": 1.0}
    if scale == "laptop":
        both |= {"sigma": 0.03, "learning_rate": 3e-2}
        alone |= {"sigma": 0.03, "learning_rate": 4e-3, "final_learning_rate": 1e-3}
    return {
        f"{scale}_{name}": dataclasses.replace(
            experiment, evolution=dataclasses.replace(experiment.evolution, **changes)
        )
        for name, changes in (("epg_i", both), ("ppo_i", alone))
    }


def fixed_policy(task: TaskConfig) -> Experiment:
    """Returns an experiment that evolves one linear policy for all tasks, whose agents do not
    learn; what a loss must beat where its agents are to adapt.

    Observations are normalised by 256 env steps before the episodes that count.
    """
    usual = laptop(task, updates=2)
    return dataclasses.replace(
        usual,
        policy=PolicyConfig(hidden=(), log_std=FIXED_LOG_STD),
        inner=dataclasses.replace(usual.inner, update_period=128, minibatch=32, learning_rate=0.0),
        evolution=dataclasses.replace(
            usual.evolution,
            moves="initialisation",
            lives=64,
            noise_vectors=64,
            learning_rate=1e-1,
            final_learning_rate=1e-2,
            guidance=1.0,
            final_guidance=1.0,
            validation_period=0,
        ),
        compute=ComputeConfig(shard_lives=32),
    )
