"""Trains a policy with an exported loss; needs TensorFlow, NumPy and Gymnasium alone and reads no
reward.

python -m launch.export_loss --loss=random_hopper --output_dir=exported
python examples/train_without_reward.py exported Hopper-v5
"""

import json
import sys

import gymnasium
import numpy as np
import tensorflow as tf


def columns_of_norm(norm):
    """Returns a Keras initializer: random kernels whose columns all have this norm."""
    return lambda shape, dtype=None: (
        norm * tf.math.l2_normalize(tf.random.normal(shape, dtype=dtype), axis=0)
    )


def train(folder, env_id, seed=0):
    """Lives one life; returns the policy, its normalisation (shift, scale) and the length of each
    episode.
    """
    loaded = tf.saved_model.load(folder)
    about = json.loads(loaded.describe()["json"].numpy())
    assert about["format_version"] == 1 and "reward" not in about["inputs"], (
        "made for version 1, without reward"
    )
    steps, period, agent, memory = (
        about["buffer_steps"],
        about["update_period"],
        about["agent"],
        about["memory"],
    )
    sizes = {
        "observation": about["observation_size"],
        "action": about["action_size"],
        "termination": 1,
    }
    env = gymnasium.make(env_id, max_episode_steps=about["task"]["episode_limit"])
    low, high = env.action_space.low, env.action_space.high
    tf.keras.utils.set_random_seed(seed)

    layers = [
        tf.keras.layers.Dense(units, agent["activation"], kernel_initializer=columns_of_norm(1.0))
        for units in agent["hidden"]
    ]
    layers += [
        tf.keras.layers.Dense(
            sizes["action"], kernel_initializer=columns_of_norm(agent["last_kernel_norm"])
        )
    ]
    policy = tf.keras.Sequential([tf.keras.Input([sizes["observation"]]), *layers])
    log_std = tf.Variable(tf.fill([sizes["action"]], float(agent["log_std"])))
    kernel = tf.Variable(tf.zeros([memory["inputs"], memory["units"]])) if memory else None
    variables = policy.trainable_variables + [log_std] + ([kernel] if memory else [])
    optimizer = tf.keras.optimizers.Adam(agent["learning_rate"])

    @tf.function
    def learn(recorded, minibatch):
        with tf.GradientTape() as tape:
            inputs = recorded | {
                "policy_mean": policy(recorded["observation"][0])[None],
                "policy_log_std": log_std[None],
                "minibatch": minibatch[None],
            }
            if memory:
                inputs["memory"] = tf.tanh(tf.reduce_sum(kernel, axis=0))[None]
            loss = loaded.loss(inputs)["loss"][0]
        optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables, strict=True))

    life = {name: np.zeros((0, size), np.float32) for name, size in sizes.items()}
    shift, scale = np.zeros(sizes["observation"]), np.ones(sizes["observation"])
    (observation, _), lengths, length = env.reset(seed=seed), [], 0
    for _ in range(agent["updates"]):
        for _ in range(period):
            mean = policy(np.float32((observation - shift) * scale)[None])[0].numpy()
            action = mean + np.exp(log_std) * np.random.standard_normal(sizes["action"])
            row = {"observation": observation, "action": action}
            observation, _, terminated, truncated, _ = env.step(np.clip(action, low, high))
            length += 1
            row["termination"] = [
                terminated or (truncated and about["termination_marks_time_limits"])
            ]
            life = {name: np.append(life[name], np.float32([row[name]]), axis=0) for name in life}
            if terminated or truncated:
                (observation, _), lengths, length = env.reset(), [*lengths, length], 0
        recorded = {"termination": life["termination"]}
        for name in (
            "action",
            "observation",
        ):  # the policy goes on with the scaling of observations
            shift, scale = (
                life[name].mean(0),
                1 / np.maximum(life[name].std(0), about["normalisation"]["floor"]),
            )
            recorded[name] = (life[name] - shift) * scale
        padding = max(0, steps - len(life["action"]))
        recorded = {
            name: tf.constant(np.pad(values[-steps:], [(padding, 0), (0, 0)]), tf.float32)[None]
            for name, values in recorded.items()
        }
        for minibatch in np.random.permutation(period).reshape(-1, about["minibatch"]):
            learn(recorded, tf.constant(minibatch, tf.int32))
    return policy, (shift, scale), lengths


if __name__ == "__main__":
    found = (
        train(*sys.argv[1:3], *map(int, sys.argv[3:4]))[2]
        if len(sys.argv) > 2
        else sys.exit(__doc__)
    )
    tenth = max(1, len(found) // 10)
    print(
        f"{len(found)} episodes; the first {tenth} lasted {np.mean(found[:tenth]):.0f} env steps "
        "on average, "
        f"the last {tenth} {np.mean(found[-tenth:]):.0f}"
    )
