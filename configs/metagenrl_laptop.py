"""MetaGenRL on a laptop, trained in PointGoal within minutes on 2 cores.

| setting | paper | here | reason |
|---|---|---|---|
| environments | HalfCheetah, Hopper, LunarLander | PointGoal, random bodies | critics learn soon |
| agents, env steps per agent | 20, 1 M | 16, 12 k | |
| learning rate of the objective | 1e-3 | 1e-3, annealed to 1e-4 | (1) |
| env steps until an agent starts again | never | 4 k, spread over time | (2) |
| an agent's gradient of the objective | clipped to norm 1 | scaled to norm 1 | (3) |
| virtual step | along the gradient | of fixed length | (4) |
| value of the next state | itself | in a temporal difference | docs/metagenrl.md |
| learning rate of policies | 1e-3 | 3e-3 | tuned in tests of objectives |
| policy, critics | 350, 350 | 64, 64 | speed |
| objective | LSTM 32, 3 x 32 filters | LSTM 16, 1 x 16 filters | speed |
| batch | 100 x 20 steps | 16 x 10 | speed |
| discount, tau | 0.99, 0.005 | 0.95, 0.01 | episodes of 25 env steps |
| random steps; annealing from DDPG | 10 k; 10 k | 500; 4 k | |

(1) There are few updates, with noisy gradients. (2) Otherwise the objective forgets how to train a
new policy. (3) Otherwise the critics of new agents, whose gradients are largest, decide. (4)
Otherwise an objective with larger gradients is taken for a better one.
"""

from epg_tf.losses.settings import ObjectiveConfig
from epg_tf.metagenrl.settings import AgentConfig, BaselineConfig, MetaConfig, MetaGenRLExperiment


def get_config() -> MetaGenRLExperiment:
    """Returns the experiment's settings."""
    return MetaGenRLExperiment(
        environments=("point_goal",),
        agents=16,
        steps_per_agent=12_000,
        round_steps=500,
        life_rounds=8,
        objective_period=4,
        shard_agents=8,
        objective=ObjectiveConfig(lstm_units=16, action_layers=1, action_filters=16),
        agent=AgentConfig(
            hidden=(64, 64),
            policy_learning_rate=3e-3,
            batch=16,
            chunk=10,
            discount=0.95,
            tau=0.01,
            random_steps=500,
            updates_after=100,
            replay_steps=100_000,
        ),
        meta=MetaConfig(
            final_learning_rate=1e-4,
            learning_rate_rounds=24,
            normalize_agent_gradients=True,
            unit_virtual_steps=True,
            warm_up_steps=4000,
        ),
        baseline=BaselineConfig(  # tuned, see docs/metagenrl.md
            off_policy_learning_rate=1e-2,
            gae_lambda=0.0,
            update_period=500,
            ppo_learning_rate=3e-3,
            td3_learning_rate=1e-2,
            ddpg_learning_rate=1e-2,
        ),
    )
