"""Trains a Keras policy with an exported objective; needs TensorFlow and NumPy alone.

`epg-tf export` writes a copy of this file, as learner.py, beside the SavedModel of an objective.
Programs use it as they use the learner of a loss:

    learner = Learner("exported", env.action_space)
    observation, _ = env.reset()
    for _ in range(8000):
        observation, reward, terminated, truncated, _ = env.step(learner.act(observation))
        learner.record(observation, reward, terminated, truncated)
        if terminated or truncated:
            observation, _ = env.reset()

Shapes: O size of observations, A of actions, B chunks in a batch, T env steps in a chunk.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf


class Learner:
    """Owns an agent: a policy, twin critics, slow copies of these, and a replay of what it lived.

    Args:
      folder: An export of an objective.
      action_space: Of the environment, as in Gymnasium: a Box with bounds.
      policy: Keras model, which learns in place: observations [B, O] -> actions [B, A] in [-1, 1],
        which are the bounds. None: a network as those of meta-training.
      seed: Of exploration, batches, and networks.

    Attributes:
      about: The description of the export, see README.md.
      policy: The Keras model; None before the first observation unless it was given.
      steps: Env steps lived.

    Raises:
      ValueError: The export is of another kind, or actions are discrete or not bounded.
    """

    def __init__(self, folder: str | Path, action_space: Any, policy: Any = None, seed: int = 0):
        self._loaded = tf.saved_model.load(str(folder))
        self.about = json.loads(self._loaded.describe()["json"].numpy())
        if "chunk" not in self.about:
            raise ValueError(f"{folder} holds no objective; use the learner.py in it")
        bounds = np.abs([getattr(action_space, name, np.inf) for name in ("low", "high")])
        if not (bounds <= 1e9).all():  # beyond are the limits of a type of numbers
            raise ValueError(f"action_space is {action_space}; objectives need a Box with bounds")
        self.noise, self.orders, self._draws = np.random.default_rng(seed).spawn(3)
        self._space, self.policy, self.steps = action_space, policy, 0
        self._settings, self._unit = self.about["agent"], 0.0
        self._acted: tuple[np.ndarray, np.ndarray] | None = None  # observation, action
        self._replay: dict[str, np.ndarray] = {}

    def act(self, observation: Any) -> Any:
        """Returns an action of the environment at an observation of it, [O]: with exploration, or
        random at first.

        Raises:
          ValueError: A number of the observation is not finite.
        """
        seen, settings = np.ravel(np.asarray(observation, np.float32)), self._settings
        if not np.isfinite(seen).all():
            raise ValueError(f"observation={observation} is not finite; reset the environment")
        if not self._replay:
            self._build(len(seen))
        size = np.size(self._space.low)
        if self.steps < settings["random_steps"]:
            action = self.noise.uniform(-1.0, 1.0, size)
        else:
            noise = settings["exploration"] * self.noise.standard_normal(size)
            action = np.clip(self._act(seen[None])[0].numpy() + noise, -1.0, 1.0)
        self._acted = seen, action.astype(np.float32)
        low, high = np.ravel(self._space.low), np.ravel(self._space.high)
        taken = np.clip(low + (high - low) / 2.0 * (action + 1.0), low, high)
        return taken.reshape(self._space.shape).astype(self._space.dtype)

    def record(
        self, next_observation: Any, reward: float, terminated: bool, truncated: bool
    ) -> None:
        """Records what followed the newest action; learns after every `policy_delay` env steps.

        Args:
          next_observation: [O], as the environment returned it, before any reset.
          reward: Of the step.
          terminated: Whether the environment ended the episode.
          truncated: Whether a time limit, or you, cut it.

        Raises:
          RuntimeError: There is no action.
          ValueError: A number is not finite; the step is not recorded, and the one before it counts
            as the episode's last.
        """
        if self._acted is None:
            raise RuntimeError("record() needs an action; call act() before each record()")
        with np.errstate(over="ignore"):
            numbers = np.asarray([reward, *np.ravel(next_observation)]).astype(np.float32)
        if not np.isfinite(numbers).all():
            self._replay["ended"][(self.steps - 1) % self._settings["replay_steps"]] = 1.0
            raise ValueError(
                f"reward={reward} or next_observation={next_observation} is not finite; reset the "
                "environment, or correct it"
            )
        row = self.steps % self._settings["replay_steps"]
        step = {"observation": self._acted[0], "action": self._acted[1], "reward": reward}
        step |= {"terminated": terminated, "ended": terminated or truncated}
        step |= {"next_observation": np.ravel(next_observation)}
        for name, value in step.items():
            self._replay[name][row] = value
        self.steps, self._acted = self.steps + 1, None
        due = self.steps >= max(1, self._settings["updates_after"])
        if due and self.steps % self._settings["policy_delay"] == 0:
            batches = self._batches()
            noise = self.noise.standard_normal(batches["action"].shape, dtype=np.float32)
            given = {name: tf.constant(part) for name, part in batches.items()}
            if not self._update(given, noise):
                warnings.warn("a gradient was not finite and was left out", stacklevel=2)

    def save(self, path: str | Path) -> None:
        """Writes the agent and its replay, up to the newest `record`, to a file .npz."""
        held = min(self.steps, self._settings["replay_steps"])
        streams = [stream.bit_generator.state for stream in (self.noise, self.orders)]
        numbers = {f"variable_{n}": variable.numpy() for n, variable in enumerate(self._saved())}
        numbers |= {name: values[:held] for name, values in self._replay.items()}
        with open(path, "wb") as file:
            np.savez(
                file, streams=json.dumps(streams), steps=self.steps, unit=self._unit, **numbers
            )

    def load(self, path: str | Path) -> None:
        """Goes on where `save` was called, with the same numbers from the same observation."""
        with np.load(path) as saved:
            if not self._replay:
                self._build(saved["observation"].shape[1])
            for number, variable in enumerate(self._saved()):
                variable.assign(saved[f"variable_{number}"])
            states = json.loads(str(saved["streams"]))
            self.noise.bit_generator.state, self.orders.bit_generator.state = states
            self.steps, self._unit = int(saved["steps"]), float(saved["unit"])
            for name, values in self._replay.items():
                values[: len(saved[name])] = saved[name]

    def _saved(self) -> list[Any]:
        networks = [self.policy, *self._critics, self._slow_policy, *self._slow_critics]
        weights = [weight for network in networks for weight in network.weights]
        return [*weights, *self._policy_adam, *self._critic_adam]

    def _build(self, seen: int) -> None:
        """Makes networks and replay for observations of so many numbers."""
        hidden, acted = self._settings["hidden"], int(np.size(self._space.low))
        if self.policy is None:
            self.policy = network([seen, *hidden, acted], "tanh", self._draws)
        sizes = [seen + acted, *hidden, 1]
        self._critics = [network(sizes, None, self._draws) for _ in range(2)]
        self._slow_policy, *self._slow_critics = map(_copy, [self.policy, *self._critics])
        self._moved = self.policy.trainable_variables
        self._values = [part for critic in self._critics for part in critic.trainable_variables]
        self._policy_adam, self._critic_adam = map(_moments, (self._moved, self._values))
        self._act = tf.function(self.policy, autograph=False)
        self._update = tf.function(self._learn, autograph=False)
        shapes: dict[str, tuple[int, ...]] = {
            "observation": (seen,),
            "action": (acted,),
            "next_observation": (seen,),
        }
        shapes |= {name: () for name in ("reward", "terminated", "ended")}
        steps = self._settings["replay_steps"]
        self._replay = {n: np.zeros((steps, *shape), np.float32) for n, shape in shapes.items()}

    def _batches(self) -> dict[str, np.ndarray]:
        """Draws a batch for each of `policy_delay` steps of the critics, [policy_delay, B, T, ...].

        Steps are cut after every T, from a place drawn anew, and where episodes end; chunks are the
        blocks between cuts, drawn without repeats unless there are too few.
        """
        settings, length = self._settings, self.about["chunk"]
        capacity, shape = settings["replay_steps"], (settings["policy_delay"], settings["batch"])
        held, count = min(self.steps, capacity), int(np.prod(shape))
        cut = np.zeros(held + 1, bool)
        cut[1:] = self._replay["ended"][(np.arange(held) + self.steps - held) % capacity]
        cut[int(self.orders.integers(length)) : held : length] = True
        cut[[0, held]] = True
        edges = np.flatnonzero(cut)
        chosen = self.orders.choice(len(edges) - 1, count, replace=len(edges) - 1 < count)
        mask = np.arange(length) < np.diff(edges)[chosen][:, None]
        rows = (edges[chosen][:, None] + np.arange(length) + self.steps - held) % capacity
        batches = {"mask": mask.astype(np.float32)}
        for name, values in self._replay.items():
            part = values[rows]
            batches[name] = np.where(mask if part.ndim == 2 else mask[..., None], part, 0.0)
        if settings["reward_rule"] != "as received":
            if not self._unit:
                rewards = self._replay["reward"][:held].astype(float)
                self._unit = max(1.0, float(np.sqrt(np.mean(np.square(rewards)))))
            batches["reward"] = batches["reward"] / np.float32(self._unit)
        return {name: part.reshape(*shape, *part.shape[1:]) for name, part in batches.items()}

    def _learn(self, batches: dict[str, tf.Tensor], noise: tf.Tensor) -> tf.Tensor:
        """Moves the critics towards what their copies say (TD3), then the policy down the
        objective, and all copies a little; returns whether all gradients were finite.
        """
        settings, finite = self._settings, []
        for number in range(settings["policy_delay"]):
            batch = {name: part[number] for name, part in batches.items()}
            target = self._target(batch, noise[number])
            with tf.GradientTape() as tape:
                errors = [
                    tf.square(_value(c, batch, batch["action"]) - target) for c in self._critics
                ]
                error = tf.reduce_sum(batch["mask"] * tf.add_n(errors))
                error /= tf.reduce_sum(batch["mask"])
            slopes = tape.gradient(error, self._values)
            rate = settings["critic_learning_rate"]
            finite += [_descend(self._values, slopes, self._critic_adam, rate, settings["clip"])]
        batch, critic = {name: part[0] for name, part in batches.items()}, self._critics[0]
        after = {"observation": batch["next_observation"]}
        given = {name: batch[name] for name in ("action", "reward", "mask")}
        given["value"] = _value(critic, batch, _rows(self.policy, batch["observation"]))
        later = _value(critic, after, _rows(self.policy, after["observation"]))
        given["next_value"] = later * (1.0 - batch["terminated"])
        with tf.GradientTape() as tape:
            given["predicted_action"] = _rows(self.policy, batch["observation"])
            inputs = {name: part[None] for name, part in given.items()}  # of one agent
            score = self._loaded.objective(inputs)["objective"][0]
        slopes = tape.gradient(score, self._moved)
        rate = settings["learning_rate"]
        finite += [_descend(self._moved, slopes, self._policy_adam, rate, settings["clip"])]
        pairs = zip(
            [self._slow_policy, *self._slow_critics], [self.policy, *self._critics], strict=True
        )
        for slow, now in pairs:
            for old, new in zip(slow.weights, now.weights, strict=True):
                old.assign(old + settings["tau"] * (new - old))
        return tf.reduce_all(finite)

    def _target(self, batch: dict[str, tf.Tensor], noise: tf.Tensor) -> tf.Tensor:
        """Returns what critics are to say, [B, T]."""
        settings, after = self._settings, {"observation": batch["next_observation"]}
        limit = settings["target_policy_noise_clip"]
        noise = tf.clip_by_value(settings["target_policy_noise"] * noise, -limit, limit)
        action = _rows(self._slow_policy, after["observation"]) + noise
        action = tf.clip_by_value(action, -1.0, 1.0)
        values = [_value(critic, after, action) for critic in self._slow_critics]
        later = settings["discount"] * (1.0 - batch["terminated"]) * tf.minimum(*values)
        return batch["reward"] + later


def network(sizes: Sequence[int], activation: str | None, draws: np.random.Generator) -> Any:
    """Returns a network as those of meta-training: dense, layer norm, ReLU; `activation` of its
    outputs; weights uniform within 1 / sqrt(inputs).
    """
    layers = [tf.keras.Input([sizes[0]])]
    for units in sizes[1:-1]:
        layers += [tf.keras.layers.Dense(units), tf.keras.layers.LayerNormalization(epsilon=1e-5)]
        layers += [tf.keras.layers.ReLU()]
    model = tf.keras.Sequential([*layers, tf.keras.layers.Dense(sizes[-1], activation)])
    for layer in model.layers:
        if isinstance(layer, tf.keras.layers.Dense):
            limit = 1.0 / np.sqrt(layer.kernel.shape[0])
            for part in (layer.kernel, layer.bias):
                part.assign(draws.uniform(-limit, limit, part.shape))
    return model


def _copy(model: Any) -> Any:
    copied = tf.keras.models.clone_model(model)
    copied.set_weights(model.get_weights())
    return copied


def _rows(model: Any, *inputs: tf.Tensor) -> tf.Tensor:
    """Applies a network of rows [B, ...] to chunks [B, T, ...]."""
    together = tf.concat(inputs, axis=-1)
    shape = tf.shape(together)
    found = model(tf.reshape(together, [-1, together.shape[-1]]))
    return tf.reshape(found, tf.concat([shape[:-1], tf.shape(found)[-1:]], axis=0))


def _value(critic: Any, batch: dict[str, tf.Tensor], action: tf.Tensor) -> tf.Tensor:
    return _rows(critic, batch["observation"], action)[..., 0]


def _moments(variables: Sequence[Any]) -> list[tf.Variable]:
    """Returns steps of Adam, then first and second moments of each variable."""
    return [tf.Variable(0.0), *(tf.Variable(tf.zeros(part.shape)) for part in [*variables] * 2)]


def _descend(
    variables: Sequence[Any],
    gradients: Sequence[tf.Tensor],
    state: Sequence[tf.Variable],
    rate: float,
    clip: float,
) -> tf.Tensor:
    """Takes a step of Adam with gradients of norm `clip` at most; none if that is not finite.
    Returns whether it was.
    """
    norm = tf.linalg.global_norm(gradients)
    keep, share = tf.math.is_finite(norm), clip / tf.maximum(norm, clip)
    step, *moments = state
    step.assign_add(tf.cast(keep, tf.float32))
    half = len(variables)
    rows = zip(variables, gradients, moments[:half], moments[half:], strict=True)
    for variable, gradient, first, second in rows:
        gradient *= share
        mean = 0.9 * first + 0.1 * gradient
        square = 0.999 * second + 0.001 * tf.square(gradient)
        change = rate * mean / (1.0 - 0.9**step)
        change /= tf.sqrt(square / (1.0 - 0.999**step)) + 1e-8
        for old, new in ((first, mean), (second, square), (variable, variable - change)):
            old.assign(tf.where(keep, new, old))
    return keep
