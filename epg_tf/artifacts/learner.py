"""Trains a Keras policy with an exported loss; needs TensorFlow and NumPy alone.

`epg-tf export` writes a copy of this file beside the SavedModel. A program that uses it:

    learner = Learner("exported", env.action_space)
    observation, _ = env.reset()
    for _ in range(2048):
        observation, reward, terminated, truncated, _ = env.step(learner.act(observation))
        learner.record(observation, reward, terminated, truncated)
        if terminated or truncated:
            observation, _ = env.reset()

Shapes: O size of observations, A of actions, K independent parts of an action, N steps that the
loss sees, M env steps between updates, B steps in a minibatch, T any number of steps.
"""

from __future__ import annotations

import importlib
import json
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

_SCALING = ("steps", "shift", "scale", "_mean", "_squares")


class Learner:
    """Owns an agent: a policy, its exploration, its memory, and what it has lived.

    Args:
      folder: An export of a loss or of an initial policy.
      action_space: Of the environment, as in Gymnasium: Box, Discrete, MultiDiscrete, MultiBinary.
      policy: Keras model, which learns in place: normalised observations [T, O] -> means, or logits
        where actions are discrete, [T, A]; means, then log standard deviations, [T, 2 A], where the
        loss was evolved so. None: the network that the loss was evolved with.
      seed: Of exploration, minibatches, and the network if there is no `policy`.

    Attributes:
      about: The description of the export, see README.md.
      policy: The Keras model.
      steps: Env steps lived.
      shift, scale: [O + A + 1] each; (x - shift) * scale is the newest normalisation of an
        observation, an action and a reward side by side.

    Raises:
      ValueError: The export, the action space or the policy is of another kind or size.
    """

    def __init__(self, folder: str | Path, action_space: Any, policy: Any = None, seed: int = 0):
        self._loaded = tf.saved_model.load(str(folder))
        self.about = about = json.loads(self._loaded.describe()["json"].numpy())
        if about["format_version"] not in (1, 2, 3) or "guidance" not in about:
            raise ValueError(f"{folder} is not what this file reads; use the learner.py in it")
        self.noise, self.orders, draws = np.random.default_rng(seed).spawn(3)
        self._actions = (Choices if about["discrete_actions"] else Gaussian)(about, action_space)
        self.policy = self._initial_policy(draws) if policy is None else policy
        self._seen, self._period = about["observation_size"], about["update_period"]
        found, needed = self.policy(tf.zeros([1, self._seen])).shape[-1], self._actions.outputs
        if found != needed:
            raise ValueError(f"policy returns {found} numbers, but the loss needs {needed}")
        self._moved = [*self.policy.trainable_variables, *self._actions.variables]
        memory = about["memory"]
        self._memory = memory and tf.Variable(tf.zeros([memory["inputs"], memory["units"]]))
        self._variables = [*self._moved, *([self._memory] if memory else [])]
        self._guidance: Any = None
        if about["guidance"]:  # by a file that few exports need
            sizes = [self._seen, *about["surrogate"]["value_hidden"], 1]
            values = network(sizes, "tanh", 1.0, draws)
            name = f"{__package__}.guidance" if __package__ else "guidance"
            self._guidance = importlib.import_module(name).Guidance(about["surrogate"], values)
            self._variables += values.trainable_variables
        moments = [tf.Variable(tf.zeros(variable.shape)) for variable in self._variables * 2]
        self._adam = [tf.Variable(0.0), *moments]  # steps, then first and second moments
        self._forward = tf.function(self._parameters, autograph=False)
        self._take_step = tf.function(self._step, autograph=False)
        size = self._seen + about["action_size"] + 1
        self.steps = 0
        self._acted: tuple[np.ndarray, np.ndarray] | None = None  # observation, action
        self.shift, self.scale = np.zeros(size, np.float32), np.ones(size, np.float32)
        self._mean, self._squares = np.zeros(size), np.zeros(size)
        widths = {"step": size, "ends": 2, "lived": 1, "time": 1, "goal": 3, "after": self._seen}
        rows = about.get("buffer_steps", self._period)  # an initial policy has no loss
        self._life = {name: np.zeros((rows, width), np.float32) for name, width in widths.items()}

    def act(self, observation: Any) -> Any:
        """Draws an action of the environment, within its bounds, at an observation of it, [O]."""
        seen = self._in_units(observation)
        action = self._actions.draw(self._forward(self._normalised(seen[None])), self.noise)[0]
        self._acted = seen, action
        return self._actions.taken(action)

    def record(
        self,
        next_observation: Any,
        reward: float,
        terminated: bool,
        truncated: bool,
        goal: Sequence[float] = (0.0, 0.0, 0.0),
    ) -> None:
        """Records what followed the newest action; after every M env steps, learns.

        Args:
          next_observation: [O], as the environment returned it, before any reset.
          reward: Of the step; may be anything where the loss does not see it.
          terminated: Whether the environment ended the episode.
          truncated: Whether a time limit, or you, cut it.
          goal: Where the goal was before the step (m), for losses that see it.
        """
        if self._acted is None:
            raise RuntimeError("record() needs an action; call act() before each record()")
        (seen, action), self._acted = self._acted, None
        length = max(1, self.about["agent"]["updates"] * self._period)
        row = {"step": [*seen, *action, reward], "ends": [terminated, truncated], "lived": [1.0]}
        row |= {"time": [min(self.steps / length, 1.0)], "goal": [*goal]}
        row |= {"after": [*self._in_units(next_observation)]}
        for name, values in self._life.items():
            self._life[name] = np.concatenate([values[1:], np.asarray([row[name]], np.float32)])
        self.steps += 1
        if self.steps % self._period == 0:
            self._update()

    def save(self, path: str | Path) -> None:
        """Writes the agent and what it has lived, up to the newest `record`, to a file .npz."""
        streams = [stream.bit_generator.state for stream in (self.noise, self.orders)]
        numbers = {f"variable_{n}": variable.numpy() for n, variable in enumerate(self._saved())}
        scaling = {name: getattr(self, name) for name in _SCALING}
        with open(path, "wb") as file:
            np.savez(file, streams=json.dumps(streams), **scaling, **self._life, **numbers)

    def load(self, path: str | Path) -> None:
        """Goes on where `save` was called, with the same numbers from the same observation."""
        with np.load(path) as saved:
            for number, variable in enumerate(self._saved()):
                variable.assign(saved[f"variable_{number}"])
            states = json.loads(str(saved["streams"]))
            self.noise.bit_generator.state, self.orders.bit_generator.state = states
            for name in _SCALING:
                setattr(self, name, saved[name][()])
            self._life = {name: saved[name] for name in self._life}

    def _saved(self) -> list[Any]:
        return [*self.policy.weights, *self._variables, *self._adam]

    def _initial_policy(self, draws: np.random.Generator) -> Any:
        """Returns the network that the loss was evolved with, as its agents start."""
        agent, outputs = self.about["agent"], self._actions.outputs
        sizes = [self.about["observation_size"], *agent["hidden"], outputs]
        pairs = [Pairs()] if self.about["format_version"] == 3 else []
        model = network(sizes, agent["activation"], agent["last_kernel_norm"], draws, pairs)
        if agent["state_dependent_std"]:
            bias = model.layers[-1].bias
            bias.assign(tf.where(tf.range(outputs) < outputs // 2, 0.0, agent["log_std"]))
        if start := self.about["initial_policy"]:
            weights = self._loaded.initial_policy()
            moved = [*model.trainable_variables, *self._actions.variables]
            for variable, name in zip(moved, start["shapes"], strict=True):
                variable.assign(weights[name])
        return model

    def _in_units(self, observation: Any) -> np.ndarray:
        units, seen = self.about["units"]["observations"], np.asarray(observation, np.float32)
        return seen if units is None else (seen - np.float32(units[0])) * np.float32(units[1])

    def _normalised(self, observation: np.ndarray) -> tf.Tensor:
        return tf.constant((observation - self.shift[: self._seen]) * self.scale[: self._seen])

    def _parameters(self, observation: tf.Tensor) -> tuple[tf.Tensor, ...]:
        return self._actions.parameters(self.policy(observation))

    def _update(self) -> None:
        """Learns from the newest M steps, each of them in one minibatch."""
        self._normalise_anew()
        inputs = self._inputs()
        newest, targets = inputs["observation"][-self._period :], {}
        before, start = self._forward(newest), [tf.identity(part) for part in self._moved]
        if self._guidance:
            life = {name: values[-self._period :] for name, values in self._life.items()}
            rows = {"observation": newest, "after": self._normalised(life["after"]), "old": before}
            rows["action"] = inputs["as_sampled"][-self._period :]
            targets = self._guidance.targets(rows, life)
        order = tf.constant(self.orders.permutation(self._period), tf.int32)
        minibatches = tf.reshape(order, [-1, self.about["minibatch"]])
        finite = [self._take_step(inputs, targets, minibatch) for minibatch in minibatches]
        if not all(finite):
            warnings.warn("a gradient was not finite and was left out", stacklevel=3)
        if self.about["agent"]["kl_limit"] and self.about["guidance"] < 1.0:
            self._shorten(start, before, newest)

    def _normalise_anew(self) -> None:
        """Adds the newest M steps to the moments of the life (Chan et al. 1979)."""
        newest, count = self._life["step"][-self._period :].astype(float), self._period
        mean, before = newest.mean(axis=0), self.steps - count
        delta = mean - self._mean
        self._squares += np.square(newest - mean).sum(axis=0)
        self._squares += np.square(delta) * (before * count / self.steps)
        self._mean += delta * (count / self.steps)
        rules, shift, squares = self.about["normalisation"], self._mean, self._squares / self.steps
        if rules["about_zero"]:  # what observations are at 0 means something
            centred = np.arange(len(shift)) >= self._seen
            squares, shift = squares + ~centred * np.square(shift), centred * shift
        scale = 1.0 / np.maximum(np.sqrt(squares), rules["floor"])
        self.shift, self.scale = shift.astype(np.float32), scale.astype(np.float32)

    def _inputs(self) -> dict[str, tf.Tensor]:
        """Returns what the loss sees of the life, [N, width] each."""
        life, cuts = self._life, [self._seen, -1]
        raw, names = np.split(life["step"], cuts, axis=1), ("observation", "action", "reward")
        parts = np.split((life["step"] - self.shift) * self.scale * life["lived"], cuts, axis=1)
        inputs = dict(zip(names, parts, strict=True))
        ended, terminated = life["ends"].max(axis=1, keepdims=True), life["ends"][:, :1]
        if hasattr(self._loaded, "further_channels"):
            given = {"ended": ended, "terminated": terminated, "time_in_life": life["time"]}
            given |= {"raw_observation": raw[0], "raw_reward": raw[2], "goal": life["goal"]}
            given |= {"lived": life["lived"], **inputs}
            given = {name: tf.constant(values[None]) for name, values in given.items()}
            inputs |= {n: v[0] for n, v in self._loaded.further_channels(given).items()}
        limits = self.about.get("termination_marks_time_limits")
        inputs |= {"as_sampled": raw[1], "termination": ended if limits else terminated}
        return {name: tf.convert_to_tensor(values) for name, values in inputs.items()}

    def _step(
        self, inputs: Mapping[str, tf.Tensor], targets: Mapping[str, Any], minibatch: tf.Tensor
    ) -> tf.Tensor:
        """Takes one gradient step; returns whether the gradient was finite."""
        alpha = self.about["guidance"]
        with tf.GradientTape() as tape:
            loss = (1.0 - alpha) * self._learned(inputs, minibatch) if alpha < 1.0 else 0.0
            if self._guidance:
                rows = tf.nest.map_structure(lambda part: tf.gather(part, minibatch), targets)
                new = self._parameters(rows["observation"])
                loss += alpha * self._guidance.loss(self._actions, rows, new)
        gradients = tape.gradient(loss, self._variables, unconnected_gradients="zero")
        sums = [tf.reduce_sum(tf.square(part)) for part in gradients]
        finite = tf.reduce_all(tf.math.is_finite([loss, *sums]))
        self._descend([tf.where(finite, part, 0.0) for part in gradients])
        return finite

    def _descend(self, gradients: Sequence[tf.Tensor]) -> None:
        """Takes a step of Adam (Kingma and Ba 2015), the same in all versions of Keras."""
        step, *moments = self._adam
        step.assign_add(1.0)
        half, rate = len(gradients), self.about["agent"]["learning_rate"]
        rows = zip(self._variables, gradients, moments[:half], moments[half:], strict=True)
        for variable, gradient, first, second in rows:
            mean = first.assign(0.9 * first + 0.1 * gradient) / (1.0 - 0.9**step)
            square = second.assign(0.999 * second + 0.001 * tf.square(gradient))
            deviation = tf.sqrt(square / (1.0 - 0.999**step)) + 1e-8
            variable.assign(variable - rate * mean / deviation)

    def _learned(self, inputs: Mapping[str, tf.Tensor], minibatch: tf.Tensor) -> tf.Tensor:
        """Returns the exported loss of a minibatch [B]."""
        parameters, names = self._parameters(inputs["observation"]), self.about["inputs"]
        given = {**inputs, **self._actions.channels(parameters), "minibatch": minibatch}
        if "policy_log_prob" in names:
            given["policy_log_prob"] = self._actions.log_prob(parameters, inputs["as_sampled"])
        if "memory" in names:
            given["memory"] = tf.tanh(tf.reduce_sum(self._memory, axis=0))
        return self._loaded.loss({name: given[name][None] for name in names})["loss"][0]

    def _shorten(self, start: Sequence[tf.Tensor], before: Any, newest: tf.Tensor) -> None:
        """Shortens an update of the policy that causes more than `kl_limit` nats of divergence."""
        for power in (0.5, 1.0):
            divergence = np.mean(self._actions.kl(before, self._forward(newest)))
            excess = divergence / self.about["agent"]["kl_limit"]
            if excess <= 1.0:
                return
            share = np.float32(excess**-power if np.isfinite(excess) else 0.0)
            for variable, old in zip(self._moved, start, strict=True):
                variable.assign(old + share * (variable - old) if share else old)


class Gaussian:
    """Normal actions; their parameters are means and log standard deviations, both [T, A]. The
    policy has `outputs` numbers; `variables` are log standard deviations that it does not return.
    """

    def __init__(self, about: Mapping[str, Any], space: Any):
        size, agent = about["action_size"], about["agent"]
        if not hasattr(space, "low") or np.size(space.low) != size:
            raise ValueError(f"action_space is {space}; the loss needs a Box of {size} numbers")
        self._space, shared = space, not agent["state_dependent_std"]
        self.outputs = size if shared else 2 * size
        self.variables = [tf.Variable(tf.fill([size], float(agent["log_std"])))] if shared else []

    def parameters(self, output: tf.Tensor) -> tuple[tf.Tensor, ...]:
        """Returns the parameters of actions at the policy's output."""
        if self.variables:
            return output, tf.broadcast_to(self.variables[0], tf.shape(output))
        return tuple(tf.split(output, 2, axis=-1))

    def channels(self, parameters: Sequence[tf.Tensor]) -> dict[str, tf.Tensor]:
        """Returns what the loss sees of them."""
        log_std = tf.identity(self.variables[0]) if self.variables else parameters[1]
        return {"policy_mean": parameters[0], "policy_log_std": log_std}

    def draw(self, parameters: Sequence[tf.Tensor], noise: np.random.Generator) -> np.ndarray:
        """Draws actions [T, A]."""
        mean, log_std = (part.numpy() for part in parameters)
        return mean + np.exp(log_std) * noise.standard_normal(mean.shape, dtype=np.float32)

    def taken(self, action: np.ndarray) -> Any:
        """Returns the environment's action: bounds, where there are two, are at -1 and 1."""
        low, high = np.ravel(self._space.low), np.ravel(self._space.high)
        bounded = np.isfinite(low) & np.isfinite(high)
        least, most = np.where(bounded, low, -1.0), np.where(bounded, high, 1.0)
        scaled = np.clip(least + (most - least) / 2.0 * (action + 1.0), low, high)
        return scaled.reshape(self._space.shape).astype(self._space.dtype)

    def log_prob(self, parameters: Sequence[tf.Tensor], action: tf.Tensor) -> tf.Tensor:
        """Returns the log density of each component, [T, A]."""
        mean, log_std = parameters
        distance = (action - mean) * tf.exp(-log_std)
        return -0.5 * tf.square(distance) - log_std - 0.5 * np.log(2.0 * np.pi)

    def kl(self, old: Sequence[tf.Tensor], new: Sequence[tf.Tensor]) -> tf.Tensor:
        """Returns KL(old, new), [T], in nats."""
        wider = old[1] - new[1]
        moved = tf.square((old[0] - new[0]) * tf.exp(-new[1]))
        return tf.reduce_sum(0.5 * (moved + tf.math.expm1(2.0 * wider)) - wider, axis=-1)


class Choices:
    """Discrete actions, one-hot rows of K parts side by side; their parameters are (log
    probabilities [T, A],). Methods as those of `Gaussian`.
    """

    def __init__(self, about: Mapping[str, Any], space: Any):
        parts, self.outputs = about["discrete_actions"], about["action_size"]
        self._parts = parts if isinstance(parts, list) else [self.outputs]
        # Discrete has n and no shape, MultiBinary a shape, MultiDiscrete nvec.
        n = [2] * int(np.prod(space.shape)) if space.shape else getattr(space, "n", 0)
        if np.ravel(getattr(space, "nvec", n)).tolist() != self._parts:
            raise ValueError(f"action_space is {space}; the loss needs choices {self._parts}")
        self._space, self.variables = space, list[tf.Variable]()

    def parameters(self, output: tf.Tensor) -> tuple[tf.Tensor, ...]:
        """Returns the parameters of actions at the policy's output."""
        parts = tf.split(output, self._parts, axis=-1)
        return (tf.concat([tf.nn.log_softmax(part) for part in parts], axis=-1),)

    def channels(self, parameters: Sequence[tf.Tensor]) -> dict[str, tf.Tensor]:
        """Returns what the loss sees of them."""
        return {"policy_probability": tf.exp(parameters[0])}

    def draw(self, parameters: Sequence[tf.Tensor], noise: np.random.Generator) -> np.ndarray:
        """Draws one-hot rows [T, A]."""
        perturbed = parameters[0] + noise.gumbel(size=parameters[0].shape).astype(np.float32)
        parts = tf.split(perturbed, self._parts, axis=-1)
        rows = [tf.one_hot(tf.argmax(part, axis=-1), part.shape[-1]) for part in parts]
        return tf.concat(rows, axis=-1).numpy()

    def taken(self, action: np.ndarray) -> Any:
        """Returns the environment's action: a number, or one for each part."""
        parts = np.split(action, np.cumsum(self._parts)[:-1])
        numbers = np.reshape([part.argmax() for part in parts], self._space.shape)
        return (numbers + getattr(self._space, "start", 0)).astype(self._space.dtype)[()]

    def log_prob(self, parameters: Sequence[tf.Tensor], action: tf.Tensor) -> tf.Tensor:
        """Returns the log probability of the choice in each part, [T, K]."""
        parts = tf.split(parameters[0] * action, self._parts, axis=-1)
        return tf.stack([tf.reduce_sum(part, axis=-1) for part in parts], axis=-1)

    def kl(self, old: Sequence[tf.Tensor], new: Sequence[tf.Tensor]) -> tf.Tensor:
        """Returns KL(old, new), [T], in nats."""
        return tf.reduce_sum(tf.exp(old[0]) * (old[0] - new[0]), axis=-1)


class Pairs(tf.keras.layers.Layer):
    """Appends the products of all pairs j <= k of components: [T, O] -> [T, O + O (O + 1) / 2]."""

    def call(self, values: tf.Tensor) -> tf.Tensor:
        """Returns components, then products."""
        first, second = np.triu_indices(values.shape[-1])
        products = tf.gather(values, first, axis=-1) * tf.gather(values, second, axis=-1)
        return tf.concat([values, products], axis=-1)


def network(
    sizes: Sequence[int],
    activation: str,
    last_norm: float,
    draws: np.random.Generator,
    first: Sequence[Any] = (),
) -> Any:
    """Returns a dense Keras network of such sizes, after the layers `first`; columns of its kernels
    have the norm 1, those of the last one `last_norm`.
    """
    dense = [tf.keras.layers.Dense(units, activation) for units in sizes[1:-1]]
    dense.append(tf.keras.layers.Dense(sizes[-1]))
    model = tf.keras.Sequential([tf.keras.Input([sizes[0]]), *first, *dense])
    for layer in dense:
        kernel = draws.standard_normal(layer.kernel.shape)
        kernel *= (last_norm if layer is dense[-1] else 1.0) / np.linalg.norm(kernel, axis=0)
        layer.kernel.assign(kernel)
    return model
