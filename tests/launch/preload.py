"""Imports, in the server of `commands.run`, what all launchers import, so that they start at once.

The server is forked for every command, so it must not start TensorFlow's runtime, and must not
import `launch`, whose flags differ from command to command.
"""

import importlib
import os
import pkgutil

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
os.environ["OPENBLAS_NUM_THREADS"] = "1"

import gym_notices.notices  # noqa: E402

gym_notices.notices.notices.clear()

import absl.app  # noqa: E402, F401
import absl.flags  # noqa: E402, F401
import absl.logging  # noqa: E402, F401
import ml_collections.config_flags  # noqa: E402, F401
import mujoco  # noqa: E402, F401
import tensorflow  # noqa: E402, F401
import tf_agents.agents.ddpg.ddpg_agent  # noqa: E402, F401
import tf_agents.agents.td3.td3_agent  # noqa: E402, F401
import tf_agents.policies.policy_saver  # noqa: E402, F401

import epg_tf  # noqa: E402

for _module in pkgutil.walk_packages(epg_tf.__path__, "epg_tf."):
    importlib.import_module(_module.name)
