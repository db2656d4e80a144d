"""Makes a learned loss an agent of TF-Agents: any driver collects, any replay buffer keeps."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf
from tf_agents.agents import tf_agent
from tf_agents.policies import greedy_policy
from tf_agents.trajectories import time_step as ts
from tf_agents.trajectories import trajectory

from epg_tf.agents import normalizer
from epg_tf.agents.buffer import Buffer
from epg_tf.artifacts.artifact import LearnedLoss
from epg_tf.artifacts.saved_policy import TrainedPolicy
from epg_tf.core.errors import ConfigError
from epg_tf.core.random_streams import life_generator
from epg_tf.core.types import Array, LifeKey
from epg_tf.epg.inner_loop import final_inner_settings
from epg_tf.epg.learner import Learner, RawExperience
from epg_tf.epg.lives import minibatches
from epg_tf.losses.extra_channels import sees_goal
from epg_tf.tasks.registry import make_family


class LearnedLossAgent(tf_agent.TFAgent):
    """Learns with a learned loss alone, as agents of evaluations do (Algorithm 2).

    `train` takes the steps of one environment in the order in which they were taken, each once. The
    agent keeps the newest N of them, and updates its policy after every M-th; steps after that wait
    for the next call. Its `LossInfo` is of the newest update, NaN before the first: the loss before
    it, "kl", the KL divergence (nats) that it caused, and "finite", whether all gradients were: it
    leaves out steps of others. `initialize` begins another life. Checkpoints hold policies alone.

    `collect_policy` draws actions and leaves it to the environment to clip them, as those of this
    package do, and `wrappers.ActionClipWrapper`. `policy` takes the most likely ones.

    Args:
      time_step_spec: Of the environment.
      action_spec: Of the environment.
      learned: The loss; its experiment says how the agent learns.
      seed: Of the first policy and of minibatches, >= 0.
      train_step_counter: Counts updates; TensorFlow's global step by default.

    Raises:
      ConfigError: The environment is not one like those that the loss was evolved in, or the loss
        needs more than what a trajectory tells.
    """

    def __init__(
        self,
        time_step_spec: ts.TimeStep,
        action_spec: Any,
        learned: LearnedLoss,
        seed: int = 0,
        train_step_counter: tf.Variable | None = None,
    ):
        experiment = learned.experiment
        if final_inner_settings(experiment).alpha or sees_goal(experiment.loss):
            raise ConfigError(
                f"loss {learned.name!r} needs PPO beside it, or to see goals, which trajectories "
                "do not tell; choose another one"
            )
        self._family = make_family(experiment.task)
        spec = self._family.spec
        self._learned, self._key = learned, LifeKey(seed, "environment", 0, 0)
        self._learner = Learner(1, spec, experiment, measure_kl=True)
        self._learner.observer = self._measure_loss
        self._score = tf.function(self._score_steps, autograph=False)
        self._buffer = Buffer(1, experiment.loss.buffer_steps, experiment.inner.update_period, spec)
        weights = [variable[0] for variable in self._learner.agent.policy.variables_in_order]
        scaling = np.zeros(spec.observation_size), np.ones(spec.observation_size)
        activation = experiment.policy.activation
        collect = TrainedPolicy(self._family, weights, activation, *scaling, clip=False)
        _check_specs(time_step_spec, action_spec, collect)
        both = greedy_policy.GreedyPolicy(collect), collect
        super().__init__(
            time_step_spec, action_spec, *both, None, train_step_counter=train_step_counter
        )
        self._initialize()

    def _initialize(self) -> None:
        """Begins a life: a fresh policy, and nothing lived."""
        inner, size = self._learned.experiment.inner, self._family.observation_size
        self._learner.begin([self._key], self._learned.phi[None], 0.0, inner.learning_rate)
        self._buffer.clear(self._learned.experiment.life_steps)
        self._order = life_generator(self._key, "minibatch")
        self._moments = normalizer.empty_moments(1, self._buffer.newest().shape[2])
        self._waiting = np.zeros((0, self._buffer.steps.shape[2]), np.float32)
        self._measured = np.float32(np.nan), np.float32(np.nan), np.True_
        self._show_policy(np.zeros(size), np.ones(size))

    def _show_policy(self, shift: Array, scale: Array) -> None:
        """Gives the policies of TF-Agents the weights and the normalisation of observations."""
        weights = [weight[0] for weight in self._learner.weights()]
        self.collect_policy.assign(weights, shift, scale)

    def _train(
        self, experience: trajectory.Trajectory, weights: tf.Tensor | None = None
    ) -> tf_agent.LossInfo:
        if weights is not None or experience.reward.shape[0] != 1:
            raise ConfigError(
                "train() takes the steps of one environment, [1, T, ...], without weights; there "
                f"are {experience.reward.shape[0]} environments"
            )
        updates, loss, kl, finite = tf.numpy_function(
            self._live,
            [values[0] for values in tf.nest.flatten(experience)],
            [self.train_step_counter.dtype, tf.float32, tf.float32, tf.bool],
        )
        self.train_step_counter.assign_add(updates)
        return tf_agent.LossInfo(loss, {"kl": kl, "finite": finite})

    def _live(self, *parts: Array) -> tuple[Any, ...]:
        """Takes T steps; returns how many updates they made, and what `LossInfo` has."""
        rows = self._rows(trajectory.Trajectory(*parts[:3], (), *parts[3:]))
        self._waiting = np.concatenate([self._waiting, rows])
        period = self._buffer.update_period
        updates = len(self._waiting) // period
        for _ in range(updates):
            self._buffer.make_room()
            self._buffer.steps[0, -period:], self._waiting = np.split(self._waiting, [period])
            self._update()
        return self.train_step_counter.dtype.as_numpy_dtype(updates), *self._measured

    def _rows(self, steps: trajectory.Trajectory) -> Array:
        """Returns steps as a `Buffer` has them, in a policy's units."""
        family, action = self._family, steps.action
        if family.discrete_actions:
            action = family.choice_rows(action)
        elif family.action_units is not None:
            action = (action - family.action_units[0]) / family.action_units[1]
        terminated = steps.is_last() & (steps.discount == 0.0)
        ends = np.stack([steps.reward, terminated, steps.is_last() & ~terminated], axis=1)
        seen = family.policy_observation(steps.observation)
        # Between the last step of an episode and the first one of the next nothing is lived.
        rows = np.concatenate([seen, action, ends], axis=1)[~steps.is_boundary()]
        return rows.astype(np.float32)

    def _update(self) -> None:
        """Updates normalisation and policy from the newest M steps (Equation 6)."""
        inner, size = self._learned.experiment.inner, self._family.observation_size
        self._moments = normalizer.merge(self._moments, self._buffer.newest())
        about_zero = 0 if inner.centred_observations else size
        shift, scale = normalizer.scaling(self._moments, about_zero)
        order = minibatches([self._order], inner, 1)
        finite, kl = self._learner.update(self._buffer, shift, scale, order)
        self._measured = self._measured[0], kl[0], finite[0]
        self._show_policy(shift[0, :size], scale[0, :size])

    def _measure_loss(self, _: Learner, raw: RawExperience, order: tf.Tensor) -> None:
        loss = self._score(raw, tf.reshape(order, [1, -1])).numpy()
        self._measured = loss[0], *self._measured[1:]

    def _score_steps(self, raw: RawExperience, steps: tf.Tensor) -> tf.Tensor:
        agent, loss = self._learner.agent, self._learner.loss
        return loss.minibatch_loss(agent, loss.prepare(agent, self._learner.experience(raw)), steps)


def _check_specs(time_step_spec: ts.TimeStep, action_spec: Any, policy: TrainedPolicy) -> None:
    """Raises ConfigError unless an environment has the sizes and bounds that a policy is for."""
    there, seen = time_step_spec.observation, policy.time_step_spec.observation
    observation = tf.TensorSpec(there.shape, there.dtype, seen.name)
    bounds, taken = (action_spec.minimum, action_spec.maximum), policy.action_spec
    action = type(taken)(action_spec.shape, action_spec.dtype, *bounds, taken.name)
    for given, wanted in ((observation, seen), (action, taken)):
        if given != wanted:
            raise ConfigError(f"the environment has {given}; the loss is for {wanted}")
