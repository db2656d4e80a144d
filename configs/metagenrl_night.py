"""MetaGenRL within a night on 2 cores: metagenrl_night:small (default), or a set of bodies, e.g.
metagenrl_night:hopper_cheetah.

| setting | paper | `small` | bodies |
|---|---|---|---|
| environments | two of three | those of metagenrl_small | those named: (1) |
| agents, env steps of each | 20, 1 M | 24, 800 k | 16, 200 k |
| env steps until an agent starts again | never | 32 k | 50 k |
| policy, critics | 350, 350 | 64, 64 | 128, 128 |
| batch | 100 chunks of 20 steps | 16 of 10 | 32 of 20 |
| objective | LSTM 32, 3 layers of 32 filters | LSTM 16, 1 of 16 | LSTM 32, 2 of 32 |
| tests on fresh agents, every | - | 40 rounds | 50 rounds, 20 k env steps |

(1) As in metagenrl_bodies, with the same tests of 4 agents each. Physics is exact: an env step is 1
to 2 % of the time of an update.

Estimates with tests, from benchmark-metagenrl on a core that other jobs shared: 33 agent updates a
second for bodies and 290 for `small`, an update for every two env steps; on 2 cores about 9 and 5
hours.
"""

import dataclasses

from ml_collections import ConfigDict

from epg_tf.core.config_files import load_experiment
from epg_tf.core.errors import ConfigError
from epg_tf.core.metagenrl_experiment import MetaGenRLExperiment, ObjectiveConfig


def get_config(training_set: str = "small") -> ConfigDict:
    """Returns the settings for `small`, or for environments joined by underscores.

    Raises:
      ConfigError: One of them is unknown.
    """
    if training_set == "small":
        return ConfigDict(_longer(_shorter("metagenrl_small")).to_mapping())
    try:
        bodies = _shorter(f"metagenrl_bodies:{training_set}")
    except ConfigError as error:  # its message names a config that the caller does not have
        words = str(error).replace("metagenrl_bodies", "metagenrl_night")
        raise ConfigError(words.replace("; join", "; write small, or join")) from error
    return ConfigDict(_larger(bodies).to_mapping())


def _shorter(name: str) -> MetaGenRLExperiment:
    experiment = load_experiment(name)
    assert isinstance(experiment, MetaGenRLExperiment)
    return experiment


def _longer(small: MetaGenRLExperiment) -> MetaGenRLExperiment:
    return dataclasses.replace(
        small,
        steps_per_agent=800_000,
        life_rounds=32,
        objective_period=40,
        meta=dataclasses.replace(small.meta, learning_rate_rounds=800),
        validation=dataclasses.replace(small.validation, period=40, env_steps=8000),
    )


def _larger(bodies: MetaGenRLExperiment) -> MetaGenRLExperiment:
    count = len(bodies.environments)
    return dataclasses.replace(
        bodies,
        agents=8 * count,
        steps_per_agent=200_000,
        life_rounds=50,
        objective_period=50,
        shard_agents=8,
        objective=ObjectiveConfig(lstm_units=32, action_layers=2, action_filters=32),
        agent=dataclasses.replace(bodies.agent, hidden=(128, 128), batch=32, chunk=20, tau=0.005),
        meta=dataclasses.replace(bodies.meta, learning_rate_rounds=200),
        validation=dataclasses.replace(bodies.validation, period=50, env_steps=20_000),
    )
