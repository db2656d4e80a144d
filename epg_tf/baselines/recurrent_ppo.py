"""PPO of TF-Agents with its recurrent networks, for trials of RL² (Duan et al. 2016).

Networks, losses, advantages and normalisation are TF-Agents' own. Noise of actions and the order of
minibatches come from the caller, since TF-Agents would draw them from generators that a resumed run
does not have.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
from tf_agents.agents.ppo.ppo_clip_agent import PPOClipAgent
from tf_agents.networks.actor_distribution_rnn_network import ActorDistributionRnnNetwork
from tf_agents.networks.network import Network
from tf_agents.networks.normal_projection_network import NormalProjectionNetwork
from tf_agents.networks.value_rnn_network import ValueRnnNetwork
from tf_agents.specs import BoundedTensorSpec, tensor_spec
from tf_agents.trajectories import TimeStep, Trajectory

from epg_tf.baselines.rl2_settings import RecurrentConfig, RecurrentPPOConfig
from epg_tf.core.random_streams import life_generator
from epg_tf.core.types import Array, LifeKey
from epg_tf.tasks.base import TaskFamily
from epg_tf.tasks.trials import trial_specs

_LAST_LAYER = 0.1  # scale of its kernel, so that the first actions and values are near 0
_BODY = 3  # kernels of the input layer and the LSTM; each part of an action has a last layer


class RecurrentAgent:
    """A recurrent policy with its value network, normalisation and optimizer.

    Args:
      family: Where it acts; gives the sizes.
      network: Sizes of policy and value network.
      ppo: How it learns.
      seed: Of its weights.

    Attributes:
      discrete_actions: As of the family.
      action_size: As of the family.
    """

    def __init__(
        self,
        family: TaskFamily,
        network: RecurrentConfig,
        ppo: RecurrentPPOConfig,
        seed: int,
    ) -> None:
        self.discrete_actions, self.action_size = family.discrete_actions, family.action_size
        self._config, self._choices = ppo, family.spec.choices
        time_step, action = trial_specs(family)
        self._actor = _actor(time_step.observation, action, network)
        self._value = ValueRnnNetwork(time_step.observation, **_sizes(network))
        self._optimizer = tf.keras.optimizers.Adam(ppo.learning_rate)
        self._agent = PPOClipAgent(
            time_step,
            action,
            self._optimizer,
            self._actor,
            self._value,
            importance_ratio_clipping=ppo.clip,
            lambda_value=ppo.gae_lambda,
            discount_factor=ppo.discount,
            entropy_regularization=ppo.entropy,
            gradient_clipping=ppo.gradient_norm,
            num_epochs=1,
            use_gae=True,
            use_td_lambda_return=True,
            compute_value_and_advantage_in_train=False,  # or each minibatch would do it again
            update_normalizers_in_train=False,
            aggregate_losses_across_replicas=False,
            train_step_counter=tf.Variable(0, dtype=tf.int64),
        )
        self._agent.initialize()
        for part, purpose in ((self._actor, "policy"), (self._value, "critic")):
            _draw_weights(part, life_generator(LifeKey(seed, "rl2", 0, 0), purpose))
        self._optimizer.build(self._trainable())
        # As TF-Agents does; AutoGraph would warn about TF-Agents' code.
        self._act, self._prepare, self._train = (
            tf.function(function, autograph=False)
            for function in (self._sampled, self._prepared, self._agent.train)
        )

    def _trainable(self) -> list[tf.Variable]:
        return [*self._actor.trainable_weights, *self._value.trainable_weights]

    def variables(self) -> dict[str, tf.Variable]:
        """Returns all that changes in training, by names that are the same in every process."""
        agent = self._agent
        groups = {
            "policy": self._actor.variables,
            "value": self._value.variables,
            "optimizer": self._optimizer.variables,
            "observations": tf.nest.flatten(agent._observation_normalizer.variables),
            "rewards": tf.nest.flatten(agent._reward_normalizer.variables),
        }
        return {
            f"{group}_{number:02d}": variable
            for group, variables in groups.items()
            for number, variable in enumerate(variables)
        }

    def arrays(self) -> dict[str, Array]:
        """Returns copies of the values of `variables`."""
        return {name: variable.numpy() for name, variable in self.variables().items()}

    def load(self, arrays: Mapping[str, Array]) -> None:
        """Sets what `arrays` returned.

        Raises:
          KeyError: One is missing.
          ValueError: One has another shape.
        """
        for name, variable in self.variables().items():
            variable.assign(arrays[name])

    def policy_shapes(self) -> dict[str, list[int]]:
        """Returns the shapes of what acting needs: weights, and normalisation of observations."""
        return {name: list(variable.shape) for name, variable in self._acting().items()}

    def policy_vector(self) -> Array:
        """Returns what acting needs, [D] float32."""
        return np.concatenate([variable.numpy().ravel() for variable in self._acting().values()])

    def load_policy(self, vector: Array) -> None:
        """Sets what `policy_vector` returned, [D]."""
        sizes = [int(np.prod(variable.shape)) for variable in self._acting().values()]
        parts = np.split(vector, np.cumsum(sizes)[:-1])
        for part, variable in zip(parts, self._acting().values(), strict=True):
            variable.assign(part.reshape(variable.shape))

    def _acting(self) -> dict[str, tf.Variable]:
        wanted = ("policy_", "observations_")
        return {name: value for name, value in self.variables().items() if name.startswith(wanted)}

    def initial_state(self, population: int) -> Any:
        """Returns the state of P policies before a trial."""
        return self._agent.collect_policy.get_initial_state(population)

    def draw_noise(self, stream: np.random.Generator, steps: int) -> Array:
        """Returns what makes the actions of T env steps random, [T, A] float32."""
        shape = (steps, self.action_size)
        drawn = stream.gumbel(size=shape) if self.discrete_actions else stream.normal(size=shape)
        return drawn.astype(np.float32)

    def act(self, time_step: TimeStep, state: Any, noise: Array) -> tuple[Any, Any, Any]:
        """Returns actions [P, A] (or [P], or a tuple of them, one for each part), TF-Agents' policy
        info, and the state after them.

        Args:
          time_step: Of P trials.
          state: Before it.
          noise: [P, A], of `draw_noise`; zeros give the most likely actions.
        """
        action, info, state = self._act(time_step, state, noise)
        return tf.nest.map_structure(lambda part: part.numpy(), action), info, state

    def _sampled(self, time_step: TimeStep, state: Any, noise: tf.Tensor) -> tuple[Any, Any, Any]:
        step = self._agent.collect_policy.distribution(time_step, state)
        if self.discrete_actions:
            parts = tf.split(noise, self._choices, axis=-1)
            drawn = [
                tf.argmax(part.logits_parameter() + own, axis=-1, output_type=tf.int32)
                for part, own in zip(tf.nest.flatten(step.action), parts, strict=True)
            ]
            action = tf.nest.pack_sequence_as(step.action, drawn)
        else:
            action = step.action.mean() + step.action.stddev() * noise
        return action, step.info, step.state

    def update(self, trajectory: Trajectory, orders: Sequence[Array]) -> dict[str, float]:
        """Learns from P trials.

        Args:
          trajectory: Arrays [P, T + 1, ...].
          orders: Of the trials in each epoch, [P] int each.

        Returns:
          Means over the last epoch: "policy_loss", "value_loss", "clipped_share".
        """
        prepared = self._prepare(trajectory)
        losses: list[tuple[float, ...]] = []
        for order in orders:
            losses = []
            for rows in np.split(order, self._config.minibatches):
                extra = self._train(_rows_of(prepared, rows)).extra
                losses.append(
                    (
                        float(extra.policy_gradient_loss),
                        float(extra.value_estimation_loss),
                        float(extra.clip_fraction),
                    )
                )
        self._agent.update_observation_normalizer(tf.constant(trajectory.observation))
        means = np.mean(losses, axis=0)
        names = ("policy_loss", "value_loss", "clipped_share")
        return dict(zip(names, map(float, means), strict=True))

    def _prepared(self, trajectory: Trajectory) -> Trajectory:
        """Adds advantages and targets; rewards are normalised by all so far, these included."""
        self._agent.update_reward_normalizer(trajectory.reward)
        return self._agent.preprocess_sequence(trajectory)

    def observe(self, trajectory: Trajectory) -> None:
        """Updates normalisation alone."""
        self._agent.update_reward_normalizer(tf.constant(trajectory.reward))
        self._agent.update_observation_normalizer(tf.constant(trajectory.observation))


def _rows_of(trajectory: Trajectory, rows: Array) -> Trajectory:
    """Returns the trials of these rows."""
    return tf.nest.map_structure(lambda part: tf.gather(part, rows), trajectory)


def _sizes(network: RecurrentConfig) -> dict[str, Any]:
    """Returns the layers of a network.

    One input layer: TF-Agents sorts weights by names that Keras numbers, and with two of them the
    order, and so the rounding of a gradient's norm, would depend on earlier agents of the process.
    """
    return {
        "input_fc_layer_params": (network.input_units,),
        "lstm_size": (network.lstm_units,),
        "output_fc_layer_params": None,
        "activation_fn": tf.keras.activations.tanh,
    }


def _actor(
    observation: tensor_spec.TensorSpec, action: BoundedTensorSpec, network: RecurrentConfig
) -> Network:
    """Returns the policy: TF-Agents' own but for the first standard deviation."""

    def gaussian(spec: BoundedTensorSpec) -> Network:
        return NormalProjectionNetwork(
            spec,
            std_bias_initializer_value=float(np.log(np.expm1(np.exp(network.log_std)))),
        )

    return ActorDistributionRnnNetwork(
        observation, action, continuous_projection_net=gaussian, **_sizes(network)
    )


def _draw_weights(network: Network, stream: np.random.Generator) -> None:
    """Draws new kernels, normal with variance 1 / inputs, smaller in the last layer.

    TF-Agents' recurrent networks take no seed, and Keras would draw one that no other process has.
    """
    kernels = [weight for weight in network.trainable_weights if len(weight.shape) == 2]
    for number, kernel in enumerate(kernels):
        scale = 1.0 if number < _BODY else _LAST_LAYER
        values = scale * stream.standard_normal(kernel.shape) / np.sqrt(kernel.shape[0])
        kernel.assign(values.astype(np.float32))
