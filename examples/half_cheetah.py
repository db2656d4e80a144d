"""Trains a Keras policy in Gymnasium's HalfCheetah to run in the direction that a reward names.

epg-tf export --loss=directional_half_cheetah --output_dir=exported
cp exported/learner.py examples/half_cheetah.py .
python half_cheetah.py exported -1
"""

import sys

import gymnasium
import tensorflow as tf
from learner import Learner  # which needs TensorFlow and NumPy alone

folder, direction, seed = sys.argv[1], float(sys.argv[2]), int([*sys.argv, 0][3])
tf.keras.utils.set_random_seed(seed)
hidden = [tf.keras.layers.Dense(units, "tanh") for units in (64, 64)]
policy = tf.keras.Sequential([*hidden, tf.keras.layers.Dense(6)])
env = gymnasium.make("HalfCheetah-v5", max_episode_steps=100)
learner = Learner(folder, env.action_space, policy, seed)
observation, _ = env.reset(seed=seed)
total = 0.0
for step in range(2048):
    observation, _, terminated, truncated, info = env.step(learner.act(observation))
    reward = direction * info["reward_forward"] + info["reward_ctrl"]
    learner.record(observation, reward, terminated, truncated)
    total += reward
    if terminated or truncated:
        print(f"env step {step + 1}: return {total:.1f}, ended at {info['x_position']:.1f} m")
        observation, _ = env.reset()
        total = 0.0
