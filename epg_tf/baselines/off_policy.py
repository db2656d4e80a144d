"""TD3 and DDPG by TF-Agents, one agent at a time, on the terms of an objective's test (MetaGenRL,
Appendix B.3).

Exploration, env steps, updates per env step, transitions per update, sizes of the networks and
evaluations are those of the population's agents; the algorithm is TF-Agents' own: no layer norm, no
clipping of gradients, smoothed target actions may leave [-1, 1]; rewards are as received, whatever
`agent.scale_rewards` says. One critic update per env step; TD3 moves its policy at every second,
DDPG at each.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import tensorflow as tf
from tf_agents.agents.ddpg import actor_network, critic_network, ddpg_agent
from tf_agents.agents.td3 import td3_agent
from tf_agents.agents.tf_agent import TFAgent
from tf_agents.networks.network import Network
from tf_agents.specs import BoundedTensorSpec, TensorSpec
from tf_agents.trajectories import time_step as ts
from tf_agents.trajectories.policy_step import PolicyStep
from tf_agents.trajectories.trajectory import Transition

from epg_tf.agents.replay import Replay
from epg_tf.baselines.method import Baseline, LearningCurves, Request, curves_of_evaluations
from epg_tf.core.random_streams import life_generator
from epg_tf.core.types import Array, LifeKey
from epg_tf.metagenrl.settings import AgentConfig
from epg_tf.tasks.base import Simulation, TaskFamily
from epg_tf.tasks.episodes import Episodes, play_episodes
from epg_tf.tasks.registry import make_family, simulate

AgentSpecs = tuple[ts.TimeStep, BoundedTensorSpec]
"""Of time steps and actions, as TF-Agents' agents take them."""


def make_agent(
    name: str, family: TaskFamily, config: AgentConfig, learning_rate: float, seed: int
) -> TFAgent:
    """Returns "td3" or "ddpg" by TF-Agents, ready to act and learn.

    Args:
      name: "td3" or "ddpg".
      family: Where it lives.
      config: Settings of the population's agents, as far as they apply.
      learning_rate: Of policy and critics.
      seed: Of the weights; TF-Agents draws its own noise from TensorFlow's global seed.
    """
    observation = TensorSpec([family.observation_size], tf.float32)
    action = BoundedTensorSpec([family.action_size], tf.float32, -1.0, 1.0)
    specs = ts.time_step_spec(observation), action
    actor = _actor(observation, action, config, seed)
    critics = [_critic(observation, action, config, seed + place) for place in (2, 4)]
    make = _ddpg if name == "ddpg" else _td3
    agent = make(specs, actor, critics, config, learning_rate)
    agent.initialize()
    return agent


def _initializer(seed: int) -> tf.keras.initializers.Initializer:
    return tf.keras.initializers.VarianceScaling(1.0 / 3.0, "fan_in", "uniform", seed=seed)


def _actor(
    observation: TensorSpec, action: BoundedTensorSpec, config: AgentConfig, seed: int
) -> Network:
    """Returns a policy network; it uses `seed` and the number after it."""
    return actor_network.ActorNetwork(
        observation,
        action,
        config.hidden,
        kernel_initializer=_initializer(seed),
        last_kernel_initializer=_initializer(seed + 1),
    )


def _critic(
    observation: TensorSpec, action: BoundedTensorSpec, config: AgentConfig, seed: int
) -> Network:
    """Returns a critic network; it uses `seed` and the number after it."""
    return critic_network.CriticNetwork(
        (observation, action),
        joint_fc_layer_params=config.hidden,
        kernel_initializer=_initializer(seed),
        last_kernel_initializer=_initializer(seed + 1),
    )


def _step_counter() -> tf.Variable:
    """Returns a counter for one agent; TF-Agents' default is shared by all agents of a process."""
    return tf.Variable(0, dtype=tf.int64)


def _ddpg(
    specs: AgentSpecs,
    actor: Network,
    critics: Sequence[Network],
    config: AgentConfig,
    learning_rate: float,
) -> TFAgent:
    """Returns DDPG, which uses the first critic alone."""
    return ddpg_agent.DdpgAgent(
        *specs,
        actor,
        critics[0],
        tf.keras.optimizers.Adam(learning_rate),
        tf.keras.optimizers.Adam(learning_rate),
        target_update_tau=config.tau,
        td_errors_loss_fn=_squared,
        gamma=config.discount,
        train_step_counter=_step_counter(),
    )


def _td3(
    specs: AgentSpecs,
    actor: Network,
    critics: Sequence[Network],
    config: AgentConfig,
    learning_rate: float,
) -> TFAgent:
    """Returns TD3."""
    return td3_agent.Td3Agent(
        *specs,
        actor,
        critics[0],
        tf.keras.optimizers.Adam(learning_rate),
        tf.keras.optimizers.Adam(learning_rate),
        critic_network_2=critics[1],
        target_update_tau=config.tau,
        target_update_period=config.policy_delay,
        actor_update_period=config.policy_delay,
        td_errors_loss_fn=_squared,
        gamma=config.discount,
        target_policy_noise=config.target_policy_noise,
        target_policy_noise_clip=config.target_policy_noise_clip,
        train_step_counter=_step_counter(),
    )


def _squared(target: tf.Tensor, value: tf.Tensor) -> tf.Tensor:
    return tf.square(target - value)


@dataclasses.dataclass(frozen=True)
class OffPolicyMethod(Baseline):
    """Trains agents by TF-Agents, one after the other.

    Attributes:
      name: "td3" or "ddpg".
      config: Settings of the population's agents, as far as they apply.
      learning_rate: Of policy and critics.
      period: Env steps between evaluations; new episodes begin after each.
    """

    config: AgentConfig
    learning_rate: float
    period: int

    @property
    def explores(self) -> bool:
        """False: the curve is of evaluations."""
        return False

    def train(self, request: Request) -> LearningCurves:
        """Trains L agents.

        Returns:
          Curves of request.env_steps / period + 1 evaluations without exploration, the first before
          any learning; NaN once physics diverged or a gradient was not finite.

        Raises:
          ConfigError: There is no such family.
        """
        family = make_family(request.task)
        returns = [self._curve(family, key, request) for key in request.keys()]
        steps = np.arange(request.env_steps // self.period + 1) * self.period
        return curves_of_evaluations(steps, np.stack(returns))

    def _curve(self, family: TaskFamily, key: LifeKey, request: Request) -> Array:
        """Trains one agent; returns its evaluations, [T]."""
        config, period = self.config, self.period
        seed = int(life_generator(key, "policy").integers(2**31 - 10))
        tf.random.set_seed(seed)  # of the smoothing noise that TF-Agents draws itself
        agent = make_agent(self.name, family, config, self.learning_rate, seed)
        simulation, taken = simulate(family, 1), 0
        simulation.set_tasks([family.sample_task(life_generator(key, "task"))])
        replay = Replay(1, config.replay_steps, family.observation_size, family.action_size)
        act, train = tf.function(agent.policy.action), tf.function(agent.train)

        def greedy(observation: Array) -> Array:
            return act(ts.restart(tf.constant(observation), batch_size=1)).action.numpy()

        def evaluated(number: int) -> float:
            named = LifeKey(key.seed, key.phase, number, key.index)
            resets = [life_generator(named, "final_reset")]
            played = play_episodes(simulation, greedy, resets, request.episodes)
            return float("nan") if played.diverged[0] else float(played.mean_return[0])

        curve, failed = [evaluated(0)], False
        for number in range(request.env_steps // period):
            named = LifeKey(key.seed, key.phase, number, key.index)
            draws = [life_generator(named, "minibatch")]
            for step in _steps(simulation, greedy, named, config, number * period, period):
                failed |= bool(step.pop("diverged")[0])
                replay.write(step)
                taken += 1
                if taken >= config.updates_after and not failed:
                    drawn = replay.draw(draws, np.array([taken]), 1, config.batch * config.chunk, 1)
                    try:
                        train(_transitions(drawn))
                    except tf.errors.InvalidArgumentError:  # TF-Agents checks its losses
                        failed = True
            curve.append(np.nan if failed else evaluated(number + 1))
        return np.array(curve)


def _steps(
    simulation: Simulation,
    greedy: Callable[[Array], Array],
    key: LifeKey,
    config: AgentConfig,
    taken: int,
    period: int,
) -> Iterator[dict[str, Array]]:
    """Yields a period's env steps, acted with exploration by the policy of that moment.

    Args:
      simulation: Of one agent.
      greedy: Maps an observation to the policy's action.
      key: Names the streams of the period.
      config: Of the agent: its exploration.
      taken: Env steps before the period.
      period: Env steps.
    """
    family = simulation.family
    noise = life_generator(key, "action")
    shape = (1, family.action_size)
    episodes = Episodes(simulation, [life_generator(key, "reset")])
    for step in range(period):
        observation = episodes.observation
        if taken < config.random_steps:
            action = noise.uniform(-1.0, 1.0, shape).astype(np.float32)
        else:
            disturbed = greedy(observation) + config.exploration * noise.standard_normal(shape)
            action = np.clip(disturbed, -1.0, 1.0).astype(np.float32)
        result, _ = episodes.step(action)
        ended = result.terminated | result.truncated
        yield {
            "observation": observation,
            "action": action,
            "reward": result.reward,
            "terminated": result.terminated,
            "ended": ended | (step == period - 1),
            "next_observation": result.observation,
            "diverged": result.diverged,
        }


def _transitions(drawn: dict[str, Array]) -> Transition:
    """Turns single steps, [1, 1, B, 1, ...], into TF-Agents' transitions; only termination has
    discount 0.
    """
    observation, action, reward, terminated, next_observation = (
        tf.constant(drawn[name][0, 0, :, 0])
        for name in ("observation", "action", "reward", "terminated", "next_observation")
    )
    count = reward.shape[0]
    now = ts.TimeStep(tf.fill([count], 1), tf.zeros([count]), tf.ones([count]), observation)
    then = ts.TimeStep(
        tf.cast(1.0 + terminated, tf.int32), reward, 1.0 - terminated, next_observation
    )
    return Transition(now, PolicyStep(action), then)
