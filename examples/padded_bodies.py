"""RL² where bodies have other sizes (MetaGenRL, Table 2): observations and actions are padded.

    epg-tf meta-train --config=examples/padded_bodies.py --run_dir=runs/rl2
    epg-tf meta-train --config=mixed:cheetah_lunar --run_dir=runs/epg
    epg-tf meta-test --loss=runs/epg --compare=alone,rl2:runs/rl2 --updates=500 --lives=12 \
        --config=examples/padded_bodies.py:agents --config.task.range=out_of_distribution

Meta-training is in HalfCheetah (--config.task.range=body=0:0) and LunarLanderContinuous (body=1:1),
out_of_distribution is Hopper. The loss is one that serves any body. With 48 iterations of 16 trials
of 2000 env steps RL² has, without validation, as many env steps as the agents of
metagenrl_night:cheetah_lunar, 1.54 M. LunarLander needs the extra epg_tf[lunar].
"""

import dataclasses

import gymnasium
import numpy as np

from epg_tf.baselines.rl2_settings import RecurrentPPOConfig, RL2Experiment
from epg_tf.runs.config_files import config_of, load_experiment
from epg_tf.tasks.gymnasium_family import GymnasiumFamily
from epg_tf.tasks.quantities import Quantity
from epg_tf.tasks.registry import register_family
from epg_tf.tasks.settings import TaskConfig

BODIES = ("HalfCheetah-v5", "LunarLanderContinuous-v3", "Hopper-v5")
OBSERVATIONS, ACTIONS = 17, 6  # of HalfCheetah; the others have fewer


class PaddedBody(gymnasium.Env):
    """Plays one of `BODIES`: zeros follow its observation, and it takes the first actions alone."""

    observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (OBSERVATIONS,), np.float64)
    action_space = gymnasium.spaces.Box(-1.0, 1.0, (ACTIONS,), np.float32)

    def __init__(self):
        self._made = {}
        self.become(0)

    def become(self, body):
        """Chooses the number of the body that the next reset starts."""
        if body not in self._made:
            self._made[body] = gymnasium.make(BODIES[body], disable_env_checker=True).unwrapped
        self._body = self._made[body]

    def reset(self, *, seed=None, options=None):
        """Starts an episode of the body."""
        observation, info = self._body.reset(seed=seed, options=options)
        return self._padded(observation), info

    def step(self, action):
        """Steps the body; its own actions all lie within -1 and 1."""
        used = action[: self._body.action_space.shape[0]]
        observation, *rest = self._body.step(used)
        return self._padded(observation), *rest

    def _padded(self, observation):
        padded = np.zeros(OBSERVATIONS)
        padded[: len(observation)] = observation
        return padded


gymnasium.register("PaddedBody-v0", PaddedBody)


@register_family
class PaddedBodies(GymnasiumFamily):
    """HalfCheetah and LunarLanderContinuous, out of distribution Hopper, all of one size."""

    name = "padded_bodies"
    env_id = "PaddedBody-v0"
    quantities = (
        Quantity("body", "0, 1 or 2", (0.0, 1.0), shifted=(2.0, 2.0), nominal=0.0, either=True),
    )

    def configure(self, environment, task):
        """Chooses the body."""
        environment.unwrapped.become(round(float(task["body"])))


def _variants():
    """Returns the settings of RL², and those of agents of a loss in its bodies."""
    task = TaskConfig("padded_bodies", frame_skip=1, episode_limit=1000)
    rl2 = RL2Experiment(
        task=task,
        iterations=48,
        trials=16,
        validation_period=12,
        validation_trials=16,
        ppo=RecurrentPPOConfig(minibatches=4),
    )
    agents = load_experiment("mixed:cheetah_lunar").of_task(0)
    return {"rl2": rl2, "agents": dataclasses.replace(agents, task=task)}


VARIANTS = _variants()
get_config = config_of(VARIANTS)
