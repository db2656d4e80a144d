"""MetaGenRL within a night on 2 cores: metagenrl_night:small (default), or a set of bodies, e.g.
metagenrl_night:hopper_cheetah.

| setting | paper | `small` | bodies |
|---|---|---|---|
| environments | two of three | those of metagenrl_small | those named: (1) |
| agents, env steps of each | 20, 1 M | 24, 80 k | 16, 96 k |
| env steps until an agent starts again | never | 16 k | 24 k |
| virtual steps | 1 | 3: (2) | 3 |
| networks, batch | 350, 350; 100 x 20 | those of metagenrl_small | those |
| tests on fresh agents, every | - | 16 rounds, 8 k env steps | 24 rounds, 8 k env steps |

(1) As in metagenrl_bodies, with the same tests of 4 agents each. (2) In Figure 6 of the paper three
virtual steps are better than one; two seeds of ours do not show it (docs/metagenrl.md, Ablations).
An update takes 1.75 times as long.

Two runs of `small` took 4.3 and 5.0 hours on a core that other jobs shared, a third 1.8 hours, its
last 54 rounds on two cores. One of `hopper_cheetah` took 1.1 hours on two cores with
`--config.threads=2`, one of `cheetah_lunar` 2.6 hours on a core, both beside other jobs. An
update of networks of 128 units on batches of 32 x 20 takes nine times as long as one of these with
one virtual step, so in as much time such a run would have fewer env steps than metagenrl_bodies.
"""

import dataclasses

from epg_tf.core.errors import ConfigError
from epg_tf.metagenrl.settings import MetaGenRLExperiment
from epg_tf.runs.config_files import load_experiment


def get_config(training_set: str = "small") -> MetaGenRLExperiment:
    """Returns the settings for `small`, or for environments joined by underscores.

    Raises:
      ConfigError: One of them is unknown.
    """
    if training_set == "small":
        return _longer(_shorter("metagenrl_small"))
    try:
        bodies = _shorter(f"metagenrl_bodies:{training_set}")
    except ConfigError as error:  # its message names a config that the caller does not have
        words = str(error).replace("metagenrl_bodies", "metagenrl_night")
        raise ConfigError(words.replace("; join", "; write small, or join")) from error
    return _larger(bodies)


def _shorter(name: str) -> MetaGenRLExperiment:
    experiment = load_experiment(name)
    assert isinstance(experiment, MetaGenRLExperiment)
    return experiment


def _longer(small: MetaGenRLExperiment) -> MetaGenRLExperiment:
    return dataclasses.replace(
        small,
        steps_per_agent=80_000,
        life_rounds=16,
        objective_period=16,
        meta=dataclasses.replace(small.meta, learning_rate_rounds=80, virtual_steps=3),
        validation=dataclasses.replace(small.validation, period=16, env_steps=8000),
    )


def _larger(bodies: MetaGenRLExperiment) -> MetaGenRLExperiment:
    return dataclasses.replace(
        bodies,
        agents=8 * len(bodies.environments),
        steps_per_agent=96_000,
        life_rounds=24,
        objective_period=24,
        shard_agents=8,
        meta=dataclasses.replace(bodies.meta, learning_rate_rounds=96, virtual_steps=3),
        validation=dataclasses.replace(bodies.validation, period=24),
    )
