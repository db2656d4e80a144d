"""MetaGenRL at the paper's scale: metagenrl_paper:cheetah_lunar, or another set of
Table 2.

| setting (Tables 3 and 4, Appendix B.2) | paper | here |
|---|---|---|
| agents | 20, distributed equally | 20 |
| env steps per agent | 1 M | 1 M |
| policy, critics | 3 layers, 350 units, ReLU, layer norm | the same; (1) |
| objective | LSTM 32, 3 action layers of 32 filters, bound 1000 | the same |
| its inputs of values | V(s), V(s') | the same, standardised |
| batch, truncated episode length | 100, 20 | 100 chunks of 20 steps |
| learning rates: critic, policy, virtual, objective | 1e-3 | 1e-3 |
| gradient clipping, discount, tau | 1.0, 0.99, 0.005 | the same |
| exploration, target policy noise and its clip | 0.1, 0.2, 0.5 | the same; (2) |
| random steps, annealing from DDPG | 10 k, 10 k | the same |
| what annealing blends | objectives | directions of their gradients; (3) |
| first update | not given | after 1000 env steps |
| environments | HalfCheetah-v2, Hopper-v2, LunarLanderContinuous-v2 | v5, v5, v3; (4) |

(1) The third layer is the output. (2) In units of half the range of actions. (3) See
docs/metagenrl.md. (4) Gymnasium no longer has the old versions; returns differ between versions.

All episodes begin anew every 1000 env steps, the time limit of all three. Lunar needs the extra
epg_tf[lunar].
"""

from epg_tf.losses.settings import ObjectiveConfig
from epg_tf.metagenrl.settings import MetaGenRLExperiment
from epg_tf.runs.config_files import joined_environments

_NAMES = {
    "cheetah": "gymnasium:HalfCheetah-v5",
    "hopper": "gymnasium:Hopper-v5",
    "lunar": "gymnasium:LunarLanderContinuous-v3",
}


def get_config(training_set: str = "cheetah_lunar") -> MetaGenRLExperiment:
    """Returns the settings for environments joined by underscores, of cheetah, hopper and lunar.

    Raises:
      ConfigError: One of them is unknown.
    """
    return MetaGenRLExperiment(
        environments=joined_environments(_NAMES, training_set, "metagenrl_paper"),
        objective=ObjectiveConfig(next_value="value"),
    )
