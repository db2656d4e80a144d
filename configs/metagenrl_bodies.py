"""MetaGenRL in bodies, two of them within an hour on one core: metagenrl_bodies:hopper_cheetah
(default), or others of hopper, cheetah, walker and lunar, joined by underscores.

| setting | metagenrl_small | here | reason |
|---|---|---|---|
| environments | four small ones | those named | lunar needs the extra epg_tf[lunar] |
| agents, env steps per agent | 24, 32 k | 6 in each, 64 k | |
| env steps until an agent starts again | 8 k | 16 k | bodies take longer |
| policy's learning rate | 3e-3 | 1e-3 | as the paper's |
| discount | 0.97 | 0.99 | episodes of up to 1000 env steps |
| tests on fresh agents | every 8 rounds, 4 k env steps | every 16, 8 k | (1) |

(1) 4 agents in each environment, and in those of hopper, cheetah and walker that were not named;
best/ is chosen by the first. Physics is exact.
"""

import dataclasses

from epg_tf.metagenrl.settings import MetaGenRLExperiment, ValidationConfig
from epg_tf.runs.config_files import joined_environments, load_experiment

_BODIES = {"hopper": "hopper", "cheetah": "half_cheetah", "walker": "walker2d"}
_NAMES = {**_BODIES, "lunar": "gymnasium:LunarLanderContinuous-v3"}


def get_config(training_set: str = "hopper_cheetah") -> MetaGenRLExperiment:
    """Returns the settings for environments joined by underscores.

    Raises:
      ConfigError: One of them is unknown.
    """
    environments = joined_environments(_NAMES, training_set, "metagenrl_bodies")
    small = load_experiment("metagenrl_small")
    assert isinstance(small, MetaGenRLExperiment)
    others = tuple(family for family in _BODIES.values() if family not in environments)
    return dataclasses.replace(
        small,
        environments=environments,
        agents=6 * len(environments),
        steps_per_agent=64_000,
        life_rounds=16,
        agent=dataclasses.replace(small.agent, policy_learning_rate=1e-3, discount=0.99),
        meta=dataclasses.replace(small.meta, learning_rate_rounds=64),
        validation=ValidationConfig(period=16, environments=others, agents=4, env_steps=8000),
    )
