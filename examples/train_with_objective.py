"""Trains a Keras actor with an exported objective; needs only TensorFlow, NumPy and Gymnasium.

epg-tf export --loss=point_goal_objective --output_dir=exported
python examples/train_with_objective.py exported Pendulum-v1
"""

import json
import sys

import gymnasium
import numpy as np
import tensorflow as tf


def network(inputs, hidden, outputs, activation=None):
    """Returns a network as those of meta-training: dense, layer norm, ReLU."""
    layers = [tf.keras.Input([None, inputs])]
    for units in hidden:
        layers += [tf.keras.layers.Dense(units), tf.keras.layers.LayerNormalization(epsilon=1e-5)]
        layers += [tf.keras.layers.ReLU()]
    return tf.keras.Sequential([*layers, tf.keras.layers.Dense(outputs, activation)])


def value(critic, states, actions):
    """Returns what a critic says of actions in states."""
    return critic(tf.concat([states, actions], axis=-1))[..., 0]


class Agent:
    """An actor and two critics, each with a copy that follows it slowly."""

    def __init__(self, objective, settings, seen, moved):
        """Takes the exported objective, its settings, and the sizes of observation and action."""
        self.objective, self.settings = objective, settings
        sizes = {"actor": (seen, settings["hidden"], moved, "tanh")}
        sizes |= {name: (seen + moved, settings["hidden"], 1) for name in ("q1", "q2")}
        self.now, self.slow = (
            {name: network(*size) for name, size in sizes.items()} for _ in range(2)
        )
        for name in sizes:
            self.slow[name].set_weights(self.now[name].get_weights())
        self.policy_adam, self.critic_adam = (
            tf.keras.optimizers.Adam(settings[name], global_clipnorm=settings["clip"])
            for name in ("learning_rate", "critic_learning_rate")
        )

    @tf.function
    def learn_values(self, before, action, reward, ended, after, mask):
        """Moves the critics towards what their copies say of the next state, as TD3 does."""
        settings = self.settings
        noise = settings["target_policy_noise"] * tf.random.normal(tf.shape(action))
        limit = settings["target_policy_noise_clip"]
        smooth = tf.clip_by_value(
            self.slow["actor"](after) + tf.clip_by_value(noise, -limit, limit), -1, 1
        )
        later = tf.minimum(*(value(self.slow[name], after, smooth) for name in ("q1", "q2")))
        target = reward + settings["discount"] * (1 - ended) * later
        critics = [self.now["q1"], self.now["q2"]]
        weights = [weight for critic in critics for weight in critic.trainable_variables]
        with tf.GradientTape() as tape:
            errors = [tf.square(value(critic, before, action) - target) for critic in critics]
            error = tf.reduce_sum(mask * tf.add_n(errors)) / tf.reduce_sum(mask)
        self.critic_adam.apply_gradients(zip(tape.gradient(error, weights), weights, strict=True))

    @tf.function
    def follow_objective(self, before, action, reward, ended, after, mask):
        """Moves the actor down the objective, and all copies a little."""
        actor, critic = self.now["actor"], self.now["q1"]
        inputs = {"action": action, "reward": reward, "mask": mask}
        inputs["value"] = value(critic, before, actor(before))
        inputs["next_value"] = value(critic, after, actor(after)) * (1 - ended)
        inputs = {name: part[None] for name, part in inputs.items()}  # of one agent
        weights = actor.trainable_variables
        with tf.GradientTape() as tape:
            found = self.objective({**inputs, "predicted_action": actor(before)[None]})
        slopes = tape.gradient(found["objective"], weights)
        self.policy_adam.apply_gradients(zip(slopes, weights, strict=True))
        for name, slow in self.slow.items():
            for old, new in zip(slow.variables, self.now[name].variables, strict=True):
                old.assign_add(self.settings["tau"] * (new - old))


def train(folder, env_id, env_steps=8000, seed=0):
    """Trains one agent with exploration; returns its actor and the returns of its episodes."""
    loaded = tf.saved_model.load(folder)
    about = json.loads(loaded.describe()["json"].numpy())
    if about["format_version"] != 1 or "chunk" not in about:
        sys.exit("this example reads objectives of format version 1, no losses of EPG")
    settings, length, env = about["agent"], about["chunk"], gymnasium.make(env_id)
    if settings["reward_rule"] != "as received" or not hasattr(env.action_space, "low"):
        sys.exit("this example does not scale rewards, and needs continuous actions")
    low, high = env.action_space.low, env.action_space.high
    moved = env.action_space.shape[0]
    tf.keras.utils.set_random_seed(seed)
    agent = Agent(loaded.objective, settings, env.observation_space.shape[0], moved)
    actor, steps, returns, total = agent.now["actor"], [], [], 0.0
    state, _ = env.reset(seed=seed)
    for number in range(1, env_steps + 1):
        if number <= settings["random_steps"]:
            action = np.random.uniform(-1, 1, moved)
        else:
            noise = settings["exploration"] * np.random.standard_normal(moved)
            action = np.clip(actor(np.float32(state)[None, None])[0, 0] + noise, -1, 1)
        after, reward, ended, truncated, _ = env.step(low + (action + 1) / 2 * (high - low))
        steps.append((state, action, reward, ended, after, ended or truncated))
        state, total = after, total + reward
        if ended or truncated:
            (state, _), returns, total = env.reset(), [*returns, total], 0.0
        if number > max(settings["updates_after"], length):
            batch = draw(steps, settings["batch"], length)
            agent.learn_values(*batch)
            if number % settings["policy_delay"] == 0:
                agent.follow_objective(*batch)
    return actor, returns


def draw(steps, count, length):
    """Returns parts of chunks [B, T, ...] of steps that follow each other in one episode."""
    starts = np.random.randint(len(steps) - length + 1, size=count)
    chunks = [[steps[start + step] for step in range(length)] for start in starts]
    *parts, over = (
        np.float32([[row[part] for row in rows] for rows in chunks]) for part in range(6)
    )
    mask = np.cumsum(over, axis=1) - over == 0
    return [tf.constant(part) for part in (*parts, np.float32(mask))]


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    found = train(*sys.argv[1:3], *map(int, sys.argv[3:5]))[1] or sys.exit("no episode ended")
    tenth = max(1, len(found) // 10)
    first, last = np.mean(found[:tenth]), np.mean(found[-tenth:])
    words = f"the first {tenth} returned {first:.1f}, the last {tenth} {last:.1f}"
    print(f"{len(found)} episodes; {words}")
