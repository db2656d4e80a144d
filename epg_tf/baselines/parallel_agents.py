"""SAC, TD3 and DDPG of TF-Agents for P agents at once (Haarnoja et al. 2018; Fujimoto et al. 2018;
Lillicrap et al. 2016).

Losses, optimisation and targets are TF-Agents' own. P agents are one agent of TF-Agents whose
observations are [B, O], actions [B, A] and rewards [B], whose batches are the P, and whose networks
keep the P apart. Losses are scaled to the sum over agents of their means over B, so each agent gets
the gradient that it would get alone. Noise comes from the caller, since TF-Agents would draw it
from generators that agents share.
"""

from __future__ import annotations

import abc
import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
from tf_agents.agents.ddpg import ddpg_agent
from tf_agents.agents.sac import sac_agent
from tf_agents.agents.td3 import td3_agent
from tf_agents.agents.tf_agent import TFAgent
from tf_agents.networks.network import Network
from tf_agents.specs import BoundedTensorSpec, TensorSpec
from tf_agents.trajectories import time_step as ts
from tf_agents.trajectories.policy_step import PolicyStep
from tf_agents.trajectories.trajectory import Transition

from epg_tf.core.parallel_layers import parallel_mlp
from epg_tf.core.types import Array, EnvironmentSpec
from epg_tf.epg.baseline_settings import SACConfig, TD3Config

Settings = SACConfig | TD3Config

_LOG_STD_BOUNDS = (-20.0, 2.0)  # of TF-Agents' SAC and of its authors
_POLICY_DELAY = 2  # d of TD3


@dataclasses.dataclass
class Noise:
    """Standard normal numbers of one update.

    Attributes:
      left: K of [P, B, A], those that are still to be used, first of K first.
    """

    left: list[tf.Tensor] = dataclasses.field(default_factory=list)


class ParallelNetwork(Network):
    """P multilayer perceptrons with ReLU units and variables of their own.

    Args:
      input_tensor_spec: Of one input or of several, each [B, sizes].
      weights: Initial ones, (kernel [P, in, out], bias [P, out]) of each layer, side by side.
      name: Of the network.
    """

    def __init__(self, input_tensor_spec: Any, weights: Sequence[Array], name: str) -> None:
        super().__init__(input_tensor_spec=input_tensor_spec, state_spec=(), name=name)
        self.weights_ = [tf.Variable(value, name=f"{name}/{i}") for i, value in enumerate(weights)]

    def outputs(self, inputs: tf.Tensor) -> tf.Tensor:
        """Returns [P, B, out] at inputs [P, B, in]."""
        pairs = list(zip(self.weights_[::2], self.weights_[1::2], strict=True))
        return parallel_mlp(inputs, pairs, tf.nn.relu)

    def call(
        self, inputs: Any, step_type: Any = (), network_state: Any = (), training: bool = False
    ) -> tuple[tf.Tensor, Any]:
        """Returns `result` at inputs, and the state that it was given."""
        del step_type, training
        return self.result(inputs), network_state

    @abc.abstractmethod
    def result(self, inputs: Any) -> tf.Tensor:
        """Returns what the network is for."""


class Critic(ParallelNetwork):
    """Maps (observations, actions) to values."""

    def result(self, inputs: Any) -> tf.Tensor:
        """Returns the values [P, B]."""
        return tf.squeeze(self.outputs(tf.concat(inputs, axis=-1)), -1)


class Actor(ParallelNetwork):
    """Maps observations to actions within [-1, 1]."""

    def result(self, inputs: Any) -> tf.Tensor:
        """Returns the actions [P, B, A]."""
        return tf.tanh(self.outputs(inputs))


class GaussianActor(ParallelNetwork):
    """Maps observations to normal distributions, whose samples a tanh puts into [-1, 1]."""

    def moments(self, observation: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns mean and log of the standard deviation, both [P, B, A], before the tanh."""
        mean, log_std = tf.split(self.outputs(observation), 2, axis=-1)
        return mean, tf.clip_by_value(log_std, *_LOG_STD_BOUNDS)

    def result(self, inputs: Any) -> tf.Tensor:
        """Returns the most likely actions [P, B, A]."""
        return tf.tanh(self.moments(inputs)[0])


class SmoothedActor(Actor):
    """Adds clipped noise to the actions (TD3's target policy).

    As in TF-Agents, and unlike in the TD3 of `epg_tf.metagenrl`, the sum is not clipped to [-1, 1].

    Args:
      input_tensor_spec: As for `ParallelNetwork`.
      weights: As for `ParallelNetwork`.
      name: Of the network.
      smoothing: Deviation of the noise, and where it is clipped.
      noise: Where to take it from.
    """

    def __init__(
        self,
        input_tensor_spec: Any,
        weights: Sequence[Array],
        name: str,
        smoothing: tuple[float, float],
        noise: Noise,
    ) -> None:
        super().__init__(input_tensor_spec, weights, name)
        self._smoothing, self._noise = smoothing, noise

    def result(self, inputs: Any) -> tf.Tensor:
        """Returns the actions [P, B, A]."""
        action = super().result(inputs)
        if not self._noise.left:  # TF-Agents calls it once to build it
            return action
        scale, clip = self._smoothing
        return action + tf.clip_by_value(scale * self._noise.left.pop(0), -clip, clip)


class KeyedSac(sac_agent.SacAgent):
    """SAC of TF-Agents whose actions come from given noise.

    Attributes:
      noise: Where it takes the noise from: first for the target, then for policy and temperature.
    """

    noise: Noise

    def _actions_and_log_probs(
        self, time_steps: ts.TimeStep, training: bool = False
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns sampled actions [P, B, A], and their log probabilities [P, B]."""
        del training
        mean, log_std = self._actor_network.moments(time_steps.observation)
        noise = self.noise.left.pop(0)
        raw = mean + tf.exp(log_std) * noise
        # log(1 - tanh(u)^2), written so that it has no logarithm of 0.
        slope = 2.0 * (np.log(2.0) - raw - tf.nn.softplus(-2.0 * raw))
        normal = -0.5 * tf.square(noise) - log_std - 0.5 * np.log(2.0 * np.pi)
        return tf.tanh(raw), tf.reduce_sum(normal - slope, axis=-1)


class AddedTd3(td3_agent.Td3Agent):
    """TD3 of TF-Agents whose policies' losses are added over the agents."""

    def actor_loss(
        self, time_steps: ts.TimeStep, weights: Any = None, training: bool = False
    ) -> tf.Tensor:
        """Returns the sum over the agents of their mean losses; TF-Agents' is the mean of sums."""
        population, batch = time_steps.reward.shape
        return population / batch * super().actor_loss(time_steps, weights, training)


class AddedDdpg(ddpg_agent.DdpgAgent):
    """DDPG of TF-Agents whose policies' losses are added over the agents."""

    def actor_loss(
        self, time_steps: ts.TimeStep, weights: Any = None, training: bool = False
    ) -> tf.Tensor:
        """Returns the sum over the agents of their mean losses; TF-Agents' is the mean of means."""
        return time_steps.reward.shape[0] * super().actor_loss(time_steps, weights, training)


class ParallelAgents:
    """P agents by SAC, TD3 or DDPG.

    Args:
      name: "sac", "td3" or "ddpg", which is TD3 without its three parts: twin critics, delayed
        policies and smoothed targets.
      settings: Of the agents; those of DDPG are TD3's as far as they apply.
      spec: Of what they live in; actions are components in [-1, 1].
      generators: (of policies, of critics), P streams each, for initial weights.

    Attributes:
      noises: K, standard normal numbers for an action component that an update takes.
    """

    def __init__(
        self,
        name: str,
        settings: Settings,
        spec: EnvironmentSpec,
        generators: tuple[Sequence[np.random.Generator], Sequence[np.random.Generator]],
    ) -> None:
        self._noise = Noise()
        self._exploration = settings.exploration if isinstance(settings, TD3Config) else 0.0
        self.noises, make = _KINDS[name]
        observed, acted, hidden = spec.observation_size, spec.action_size, settings.hidden
        self._sizes = (observed, acted, 1, 1, observed)
        observation = TensorSpec([settings.batch, observed], tf.float32)
        action = BoundedTensorSpec([settings.batch, acted], tf.float32, -1.0, 1.0)
        each = TensorSpec([settings.batch], tf.float32)
        steps = ts.TimeStep(TensorSpec([], tf.int32, "step_type"), each, each, observation)
        kind, outputs = (GaussianActor, 2 * acted) if name == "sac" else (Actor, acted)
        weights = _initial(generators[0], (observed, *hidden, outputs))
        self._actor = kind(observation, weights, "actor")
        sizes = (observed + acted, *hidden, 1)
        critics = [
            Critic((observation, action), _initial(generators[1], sizes), f"critic_{number}")
            for number in range(2)
        ]
        self._agent = make(settings, (steps, action), self._actor, critics, self._noise)
        self._agent.initialize()
        self._act = tf.function(self._acted, autograph=False)
        self._train = tf.function(self._trained, autograph=False)

    def act(self, observation: Array, noise: Array) -> Array:
        """Returns actions within [-1, 1], [P, A].

        Args:
          observation: [P, O].
          noise: [P, A] standard normal; zeros for the most likely actions.
        """
        return self._act(tf.constant(observation), tf.constant(noise)).numpy()

    def _acted(self, observation: tf.Tensor, noise: tf.Tensor) -> tf.Tensor:
        if isinstance(self._actor, GaussianActor):
            mean, log_std = self._actor.moments(observation[:, None])
            return tf.tanh(mean[:, 0] + tf.exp(log_std[:, 0]) * noise)
        action = self._actor.result(observation[:, None])
        return tf.clip_by_value(action[:, 0] + self._exploration * noise, -1.0, 1.0)

    def train(self, steps: Array, noise: Array) -> None:
        """Updates every agent U times.

        Args:
          steps: [P, U, B, O + A + 1 + 1 + O]: observation, action, reward, terminated as 0.0 or
            1.0, next observation.
          noise: [P, U, K, B, A] standard normal.

        Raises:
          tf.errors.InvalidArgumentError: A loss is not finite.
        """
        self._train(tf.constant(steps), tf.constant(noise))

    def _trained(self, steps: tf.Tensor, noise: tf.Tensor) -> None:
        def update(number: tf.Tensor) -> tuple[tf.Tensor]:
            self._update(steps[:, number], noise[:, number])
            return (number + 1,)

        tf.while_loop(lambda number: number < steps.shape[1], update, (0,))

    def _update(self, steps: tf.Tensor, noise: tf.Tensor) -> None:
        """Updates every agent once, from steps [P, B, ...] and noise [P, K, B, A]."""
        observation, action, reward, terminated, following = tf.split(steps, self._sizes, axis=-1)
        reward, terminated = reward[..., 0], terminated[..., 0]
        kinds = tf.ones(steps.shape[:1], tf.int32)  # "in mid-episode", which TF-Agents ignores
        now = ts.TimeStep(kinds, tf.zeros_like(reward), tf.ones_like(reward), observation)
        then = ts.TimeStep(kinds, reward, 1.0 - terminated, following)
        self._noise.left[:] = tf.unstack(noise, axis=1)
        self._agent.train(Transition(now, PolicyStep(action), then))
        assert not self._noise.left  # else TF-Agents drew its own


def _initial(generators: Sequence[np.random.Generator], sizes: Sequence[int]) -> list[Array]:
    """Draws the weights of P networks: uniform within 1 / sqrt(inputs), biases 0."""
    weights: list[Array] = []
    for before, after in zip(sizes[:-1], sizes[1:], strict=True):
        bound = before**-0.5
        kernels = [stream.uniform(-bound, bound, (before, after)) for stream in generators]
        biases = np.zeros((len(generators), after), np.float32)
        weights += [np.stack(kernels).astype(np.float32), biases]
    return weights


def _adam(learning_rate: float) -> tf.keras.optimizers.legacy.Adam:
    return tf.keras.optimizers.legacy.Adam(learning_rate)


def _added(target: tf.Tensor, value: tf.Tensor) -> tf.Tensor:
    """Returns errors [P, B] whose mean, which TF-Agents takes, is the sum of the agents' means."""
    return value.shape[0] * tf.math.squared_difference(target, value)


def _step_counter() -> tf.Variable:
    """Returns a counter for these agents; TF-Agents' default is shared by all of a process."""
    return tf.Variable(0, dtype=tf.int64)


def _sac(
    settings: SACConfig,
    specs: tuple[ts.TimeStep, BoundedTensorSpec],
    actor: GaussianActor,
    critics: Sequence[Critic],
    noise: Noise,
) -> TFAgent:
    """Returns SAC, each agent with a temperature of its own."""
    population = actor.weights_[0].shape[0]
    scale = population / settings.batch  # TF-Agents' losses are means over agents of sums
    agent = KeyedSac(
        *specs,
        critics[0],
        actor,
        _adam(settings.learning_rate),
        _adam(settings.learning_rate),
        _adam(settings.learning_rate),
        critic_network_2=critics[1],
        target_update_tau=settings.tau,
        critic_loss_weight=scale,
        actor_loss_weight=scale,
        alpha_loss_weight=scale,
        td_errors_loss_fn=tf.math.squared_difference,
        gamma=settings.discount,
        initial_log_alpha=np.full((population, 1), np.log(settings.temperature), np.float32),
        target_entropy=settings.target_entropy * specs[1].shape[-1],
        train_step_counter=_step_counter(),
    )
    agent.noise = noise
    return agent


def _td3(
    settings: TD3Config,
    specs: tuple[ts.TimeStep, BoundedTensorSpec],
    actor: Actor,
    critics: Sequence[Critic],
    noise: Noise,
) -> TFAgent:
    """Returns TD3; its target policy takes the noise, so TF-Agents adds none."""
    smoothing = settings.target_policy_noise, settings.target_policy_noise_clip
    target = SmoothedActor(specs[0].observation, _values(actor), "target_actor", smoothing, noise)
    return AddedTd3(
        *specs,
        actor,
        critics[0],
        _adam(settings.learning_rate),
        _adam(settings.learning_rate),
        target_actor_network=target,
        critic_network_2=critics[1],
        target_update_tau=settings.tau,
        target_update_period=_POLICY_DELAY,
        actor_update_period=_POLICY_DELAY,
        td_errors_loss_fn=_added,
        gamma=settings.discount,
        target_policy_noise=0.0,
        train_step_counter=_step_counter(),
    )


def _ddpg(
    settings: TD3Config,
    specs: tuple[ts.TimeStep, BoundedTensorSpec],
    actor: Actor,
    critics: Sequence[Critic],
    noise: Noise,
) -> TFAgent:
    """Returns DDPG, which uses the first critic alone and no noise."""
    del noise
    return AddedDdpg(
        *specs,
        actor,
        critics[0],
        _adam(settings.learning_rate),
        _adam(settings.learning_rate),
        target_actor_network=Actor(specs[0].observation, _values(actor), "target_actor"),
        target_critic_network=Critic(
            critics[0].input_tensor_spec, _values(critics[0]), "target_critic"
        ),
        target_update_tau=settings.tau,
        td_errors_loss_fn=_added,
        gamma=settings.discount,
        train_step_counter=_step_counter(),
    )


def _values(network: ParallelNetwork) -> list[Array]:
    return [variable.numpy() for variable in network.weights_]


_KINDS: dict[str, tuple[int, Callable[..., TFAgent]]] = {
    "sac": (3, _sac),
    "td3": (1, _td3),
    "ddpg": (0, _ddpg),
}
"""Name -> (K of the noise of an update, what makes the agent)."""
