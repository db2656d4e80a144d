"""Imports what every launcher imports from other packages; see `prepared_process`."""

import os

for _name, _value in {"TF_CPP_MIN_LOG_LEVEL": "3", "OPENBLAS_NUM_THREADS": "1"}.items():
    os.environ[_name] = _value

import logging  # noqa: E402
import warnings  # noqa: E402

import gym_notices.notices  # noqa: E402

gym_notices.notices.notices.clear()
warnings.filterwarnings("ignore")
logging.getLogger("tensorflow").setLevel(logging.ERROR)

import absl.app  # noqa: E402, F401
import gymnasium  # noqa: E402, F401
import matplotlib.backends.backend_agg  # noqa: E402, F401
import matplotlib.figure  # noqa: E402, F401
import ml_collections.config_flags  # noqa: E402, F401
import msgspec  # noqa: E402, F401
import mujoco.batch  # noqa: E402, F401
import scipy.stats  # noqa: E402, F401
import tensorflow  # noqa: E402, F401
import tensorflow_probability  # noqa: E402, F401
import tf_agents.agents.ddpg.ddpg_agent  # noqa: E402, F401
import tf_agents.agents.td3.td3_agent  # noqa: E402, F401
import tf_agents.policies.policy_saver  # noqa: E402, F401
import tf_agents.utils.value_ops  # noqa: E402, F401
import tqdm  # noqa: E402, F401
