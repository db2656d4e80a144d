"""MetaGenRL in four small environments at once, 45 minutes on one core.

| setting | laptop | here | reason |
|---|---|---|---|
| environments | PointGoal | and Pendulum, InvertedPendulum, Reacher | (1) |
| agents, env steps per agent | 16, 12 k | 24, 32 k | six in each environment |
| env steps until an agent starts again | 4 k | 8 k | Pendulum takes longer |
| rewards | as they are | in units of each agent's first ones | (2) |
| discount | 0.95 | 0.97 | episodes of up to 200 env steps |
| random steps | 500 | 1000 | a round |
| tests on fresh agents | none | every 8 rounds | (3) |

(1) Observations of 6, 3, 4 and 10 numbers, actions of 2, 1, 1 and 2. An episode of InvertedPendulum
ends after 200 env steps, because those of a round are cut after 1000. (2) A reward of Pendulum is
about ten times as large as one of the others, and so would its critics' values be, which move as
fast as all others. (3) In the four environments and in
InvertedDoublePendulum, 4 agents in each, 4 k env steps; best/ is chosen by the four.

One meta-training is 768 k env steps, with tests about 30 minutes of CPU time on one core: 24 agents
make 290 agent updates in a second of CPU time, and a test takes 2 minutes.
"""

import dataclasses

from epg_tf.metagenrl.settings import MetaGenRLExperiment, ValidationConfig
from epg_tf.runs.config_files import load_experiment


def get_config() -> MetaGenRLExperiment:
    """Returns the experiment's settings."""
    laptop = load_experiment("metagenrl_laptop")
    assert isinstance(laptop, MetaGenRLExperiment)
    return dataclasses.replace(
        laptop,
        environments=(
            "point_goal",
            "gymnasium:Pendulum-v1",
            "gymnasium:InvertedPendulum-v5@200",
            "gymnasium:Reacher-v5",
        ),
        agents=24,
        steps_per_agent=32_000,
        round_steps=1000,
        shard_agents=6,
        agent=dataclasses.replace(
            laptop.agent, discount=0.97, random_steps=1000, updates_after=200, scale_rewards=True
        ),
        meta=dataclasses.replace(laptop.meta, learning_rate_rounds=32),
        baseline=dataclasses.replace(laptop.baseline, update_period=1000),
        validation=ValidationConfig(
            period=8, environments=("gymnasium:InvertedDoublePendulum-v5@200",), env_steps=4000
        ),
    )
