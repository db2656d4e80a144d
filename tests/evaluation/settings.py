"""Settings of evaluations of objectives that take milliseconds, for tests."""

from __future__ import annotations

import numpy as np

from epg_tf.losses.lstm_objective import initial_parameters
from epg_tf.metagenrl.settings import MetaGenRLExperiment

OBJECTIVE = MetaGenRLExperiment.from_mapping(
    {
        "environments": ("point_goal@5",),
        "agents": 2,
        "steps_per_agent": 20,
        "round_steps": 10,
        "shard_agents": 2,
        "threads": 1,
        "objective": {"lstm_units": 3, "action_layers": 1, "action_filters": 2},
        "agent": {
            "hidden": (4,),
            "batch": 2,
            "chunk": 3,
            "random_steps": 0,
            "updates_after": 2,
            "replay_steps": 20,
            "policy_learning_rate": 1e-2,
        },
        "baseline": {"update_period": 10, "minibatch": 5, "off_policy_learning_rate": 1e-2},
    }
)
PARAMETERS = initial_parameters(np.random.default_rng(0), OBJECTIVE.objective)
