"""Trains a policy with an exported loss; needs only TensorFlow, NumPy, Gymnasium, and no reward.

epg-tf export --loss=random_hopper --output_dir=exported
python examples/train_without_reward.py exported Hopper-v5
"""

import json
import sys

import gymnasium
import numpy as np
import tensorflow as tf


def make_policy(about):
    """Returns the policy's mean as a Keras model; each kernel column has the given norm."""

    def dense(units, activation, norm):
        def kernel(shape, dtype=None):
            return norm * tf.math.l2_normalize(tf.random.normal(shape, dtype=dtype), axis=0)

        return tf.keras.layers.Dense(units, activation, kernel_initializer=kernel)

    agent = about["agent"]
    layers = [dense(units, agent["activation"], 1.0) for units in agent["hidden"]]
    layers += [dense(about["action_size"], None, agent["last_kernel_norm"])]
    return tf.keras.Sequential([tf.keras.Input([about["observation_size"]]), *layers])


def train(folder, env_id, seed=0):
    """Trains one agent; returns policy, normalisation (shift, scale), and lengths of episodes."""
    loaded = tf.saved_model.load(folder)
    about = json.loads(loaded.describe()["json"].numpy())
    old = "policy_log_deviation" in about["inputs"]  # older exports have another name
    log_std_name = "policy_log_deviation" if old else "policy_log_std"
    own = {"observation", "action", "termination", "policy_mean", log_std_name, "minibatch"}
    if other := (own ^ set(about["inputs"])) - {"memory"}:
        raise SystemExit(f"this example takes losses of other inputs; see {', '.join(other)}")
    agent, memory, size = about["agent"], about["memory"], about["action_size"]
    if about["format_version"] > 2 or agent.get("state_dependent_std") or agent.get("kl_limit"):
        raise SystemExit("this example reads formats 1, 2; no state_dependent_std, no kl_limit")
    sizes = {"observation": about["observation_size"], "action": size, "termination": 1}
    period, steps = about["update_period"], about["buffer_steps"]
    marks_limits = about["termination_marks_time_limits"]
    env = gymnasium.make(env_id, max_episode_steps=about["task"]["episode_limit"])
    low, high = env.action_space.low, env.action_space.high
    tf.keras.utils.set_random_seed(seed)
    policy = make_policy(about)
    log_std = tf.Variable(tf.fill([size], float(agent[log_std_name.removeprefix("policy_")])))
    kernel = tf.Variable(tf.zeros([memory["inputs"], memory["units"]])) if memory else None
    variables = policy.trainable_variables + [log_std] + ([kernel] if memory else [])
    optimizer = tf.keras.optimizers.Adam(agent["learning_rate"])

    @tf.function
    def learn(recorded, minibatch):
        with tf.GradientTape() as tape:
            inputs = {**recorded, log_std_name: log_std[None], "minibatch": minibatch[None]}
            inputs["policy_mean"] = policy(recorded["observation"][0])[None]
            if memory:
                inputs["memory"] = tf.tanh(tf.reduce_sum(kernel, axis=0))[None]
            loss = loaded.loss(inputs)["loss"][0]
        optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables, strict=True))

    life = {name: np.zeros((0, width), np.float32) for name, width in sizes.items()}
    shift, scale = np.zeros(sizes["observation"]), np.ones(sizes["observation"])
    (observation, _), lengths, length = env.reset(seed=seed), [], 0
    for _ in range(agent["updates"]):
        for _ in range(period):
            mean = policy(np.float32((observation - shift) * scale)[None])[0].numpy()
            action = mean + np.exp(log_std) * np.random.standard_normal(size)
            row = {"observation": observation, "action": action}
            scaled = low + (np.clip(action, -1, 1) + 1) / 2 * (high - low)
            observation, _, terminated, truncated, _ = env.step(scaled)
            row["termination"] = [terminated or (truncated and marks_limits)]
            life = {name: np.append(life[name], np.float32([row[name]]), axis=0) for name in life}
            length += 1
            if terminated or truncated:
                (observation, _), lengths, length = env.reset(), [*lengths, length], 0
        recorded = {"termination": life["termination"]}
        for name in ("action", "observation"):  # the policy then uses the scale of observations
            rules = about["normalisation"]
            shift = 0.0 if name in rules.get("about_zero", []) else life[name].mean(0)
            scale = 1 / np.maximum(np.sqrt(np.square(life[name] - shift).mean(0)), rules["floor"])
            recorded[name] = (life[name] - shift) * scale
        padding = [(max(0, steps - len(life["action"])), 0), (0, 0)]
        recorded = {
            name: tf.constant(np.pad(values[-steps:], padding), tf.float32)[None]
            for name, values in recorded.items()
        }
        for minibatch in np.random.permutation(period).reshape(-1, about["minibatch"]):
            learn(recorded, tf.constant(minibatch, tf.int32))
    return policy, (shift, scale), lengths


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    found = train(*sys.argv[1:3], *map(int, sys.argv[3:4]))[2] or sys.exit("no episode ended")
    tenth = max(1, len(found) // 10)
    first, last = np.mean(found[:tenth]), np.mean(found[-tenth:])
    print(f"{len(found)} episodes of {first:.0f} env steps at first, {last:.0f} in the last tenth")
