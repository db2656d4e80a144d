"""Trains a TF-Agents agent with an exported loss, in an environment of this package.

epg-tf export --loss=point_goal --output_dir=exported
python examples/tf_agents_learner.py exported
"""

import functools
import json
import sys

import numpy as np
import tensorflow as tf
from tf_agents.agents import tf_agent
from tf_agents.environments import tf_py_environment
from tf_agents.networks import actor_distribution_network, normal_projection_network
from tf_agents.policies import actor_policy
from tf_agents.trajectories import trajectory
from tf_agents.utils import tensor_normalizer

from epg_tf.tasks.registry import make_family
from epg_tf.tasks.settings import TaskConfig
from epg_tf.tasks.tf_agents_environment import TaskEnvironment


class Scaling(tensor_normalizer.StreamingTensorNormalizer):
    """Normalises as the description of a loss requires, with one difference: the square of the
    floor is added to the variance.

    Args:
      spec: Of what is normalised.
      floor: Of the description.
    """

    def __init__(self, spec, floor):
        super().__init__(spec)
        self._floor, self._begun = floor, tf.Variable(False)

    def update(self, tensor):
        """Takes further values, [1, steps, size]."""
        super().update(tensor, outer_dims=(0, 1))
        self._begun.assign(True)

    def normalize(self, tensor):
        """Returns normalised values; before the first update, the values as they are."""
        scaled = super().normalize(tensor, clip_value=0.0, variance_epsilon=self._floor**2)
        return tf.where(self._begun, scaled, tensor)


class LearnedLossAgent(tf_agent.TFAgent):
    """Learns from `buffer_steps` consecutive steps with a loss that sees no reward.

    Args:
      time_step_spec: Of the environment.
      action_spec: Of the environment; actions are Gaussian.
      loaded: An exported loss without the input "reward", from `tf.saved_model.load`.
    """

    def __init__(self, time_step_spec, action_spec, loaded):
        self.loaded = loaded
        self.about = json.loads(loaded.describe()["json"].numpy())
        version, agent = self.about["format_version"], self.about["agent"]
        if version != 1:
            raise ValueError(
                f"format_version={version}; this agent reads 1 and centres observations, which 2 "
                "does not want (use train_without_reward.py), and sees no products of pairs, as 3 "
                "does"
            )
        # Older exports have another name for the log standard deviation.
        names = set(self.about["inputs"])
        old = "policy_log_deviation" in names
        self.log_std_name = "policy_log_deviation" if old else "policy_log_std"
        own = {"observation", "action", "termination", "policy_mean", self.log_std_name}
        if other := (names ^ own) - {"memory", "minibatch"}:
            raise ValueError(f"this agent takes losses of other inputs; see {', '.join(other)}")
        if agent.get("state_dependent_std") or agent.get("kl_limit"):
            raise ValueError("this agent takes no state_dependent_std and no kl_limit")
        projection = functools.partial(
            normal_projection_network.NormalProjectionNetwork,
            mean_transform=None,
            state_dependent_std=False,
            init_means_output_factor=1e-4,
            std_transform=tf.exp,
            std_bias_initializer_value=agent[self.log_std_name.removeprefix("policy_")],
        )
        self.network = actor_distribution_network.ActorDistributionNetwork(
            time_step_spec.observation,
            action_spec,
            fc_layer_params=agent["hidden"],
            activation_fn=tf.keras.activations.get(agent["activation"]),
            continuous_projection_net=projection,
        )
        self.network.create_variables()
        self.scaling = {
            name: Scaling(spec, self.about["normalisation"]["floor"])
            for name, spec in (("observation", time_step_spec.observation), ("action", action_spec))
        }
        policy = actor_policy.ActorPolicy(
            time_step_spec,
            action_spec,
            self.network,
            clip=False,
            observation_normalizer=self.scaling["observation"],
        )
        memory = self.about["memory"]
        self.memory = tf.Variable(tf.zeros([memory["inputs"], memory["units"]])) if memory else None
        self.optimizer = tf.keras.optimizers.Adam(agent["learning_rate"])
        super().__init__(time_step_spec, action_spec, policy, policy, train_sequence_length=None)

    def _loss(self, experience, weights=None, training=False):
        """Scores a minibatch, `weights`, of the newest steps of a trajectory [1, steps so far]."""
        recorded = {
            name: scaling.normalize(getattr(experience, name))
            for name, scaling in self.scaling.items()
        }
        ends = experience.is_last() & (
            (experience.discount == 0.0) | self.about["termination_marks_time_limits"]
        )
        recorded["termination"] = tf.cast(ends, tf.float32)[..., None]
        missing = max(0, self.about["buffer_steps"] - experience.reward.shape[1])
        recorded = {
            name: tf.pad(values, [[0, 0], [missing, 0], [0, 0]])
            for name, values in recorded.items()
        }
        observation = recorded["observation"]
        step_type = tf.ones(observation.shape[:2], tf.int32)
        distribution, _ = self.network(observation, step_type, (), training=training)
        inputs = recorded | {
            "policy_mean": distribution.mean(),
            "minibatch": weights,
            self.log_std_name: tf.math.log(distribution.stddev()[:, -1]),
        }
        if self.memory is not None:
            inputs["memory"] = tf.tanh(tf.reduce_sum(self.memory, axis=0))[None]
        return tf_agent.LossInfo(self.loaded.loss(inputs)["loss"][0], extra=())

    def _train(self, experience, weights=None):
        period, size = self.about["update_period"], self.about["minibatch"]
        for name in self.scaling:
            self.scaling[name].update(getattr(experience, name)[:, -period:])
        for minibatch in tf.reshape(tf.random.shuffle(tf.range(period)), [-1, 1, size]):
            with tf.GradientTape() as tape:
                info = self._loss(experience, minibatch, training=True)
            memory = [] if self.memory is None else [self.memory]
            variables = [*self.network.trainable_variables, *memory]
            gradients = tape.gradient(info.loss, variables)
            self.optimizer.apply_gradients(zip(gradients, variables, strict=True))
        return info


def train(folder, seed=0):
    """Trains one agent; returns the return of each episode, which the agent does not see."""
    tf.random.set_seed(seed)
    loaded = tf.saved_model.load(folder)
    about = json.loads(loaded.describe()["json"].numpy())
    environment = tf_py_environment.TFPyEnvironment(
        TaskEnvironment(make_family(TaskConfig(**about["task"])), 1, seed)
    )
    agent = LearnedLossAgent(environment.time_step_spec(), environment.action_spec(), loaded)
    time_step, steps, returns, total = environment.reset(), [], [], 0.0
    for _ in range(about["agent"]["updates"]):
        for _ in range(about["update_period"]):
            action = agent.collect_policy.action(time_step)
            following = environment.step(action.action)
            steps = [
                *steps[1 - about["buffer_steps"] :],
                trajectory.from_transition(time_step, action, following),
            ]
            time_step, total = following, total + float(following.reward[0])
            if following.is_last():
                time_step, returns, total = environment.reset(), [*returns, total], 0.0
        agent.train(tf.nest.map_structure(lambda *values: tf.stack(values, axis=1), *steps))
    return returns


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    found = train(sys.argv[1], *map(int, sys.argv[2:3])) or sys.exit("no episode ended")
    tenth = max(1, len(found) // 10)
    first, last = np.mean(found[:tenth]), np.mean(found[-tenth:])
    print(
        f"{len(found)} episodes; return of the first {tenth}: {first:.1f}, "
        f"of the last {tenth}: {last:.1f}"
    )
