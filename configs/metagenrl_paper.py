"""MetaGenRL at the paper's scale: --config=configs/metagenrl_paper.py:cheetah_lunar, or another set
of Table 2.

| setting (Tables 3 and 4, Appendix B.2) | paper | here |
|---|---|---|
| agents | 20, distributed equally | 20 |
| env steps per agent | 1 M | 1 M |
| policy, critics | 3 layers, 350 units, ReLU, layer norm | the same; the third layer is the output |
| objective | LSTM 32, 3 action layers of 32 filters, bound 1000 | the same |
| batch, truncated episode length | 100, 20 | 100 chunks of 20 steps |
| learning rates: critic, policy, virtual, objective | 1e-3 | 1e-3 |
| gradient clipping, discount, target speed | 1.0, 0.99, 0.005 | the same |
| exploration, critic noise and its clip | 0.1, 0.2, 0.5 | the same, in units of half the action range |
| random steps, annealing from DDPG | 10 k, 10 k | the same |
| ... blended as | objectives | directions of their gradients, see docs/metagenrl.md |
| first update | not said | after 1000 env steps |
| environments | HalfCheetah-v2, Hopper-v2, LunarLanderContinuous-v2 | v5, v5, v3: the old ones are gone |

Episodes start anew every 1000 env steps, the time limit of all three. Gymnasium's returns differ
between versions. Lunar needs the extra epg_tf[lunar].
"""

from ml_collections import ConfigDict

from epg_tf.core.errors import ConfigError
from epg_tf.core.metagenrl_experiment import MetaGenRLExperiment

_NAMES = {
    "cheetah": "gymnasium:HalfCheetah-v5",
    "hopper": "gymnasium:Hopper-v5",
    "lunar": "gymnasium:LunarLanderContinuous-v3",
}


def get_config(training_set: str = "cheetah_lunar") -> ConfigDict:
    """Returns the settings for environments joined by underscores, of cheetah, hopper and lunar.

    Raises:
      ConfigError: One of them is unknown.
    """
    names = training_set.split("_")
    for name in names:
        if name not in _NAMES:
            raise ConfigError(
                f"configs/metagenrl_paper.py:{training_set} names {name!r}; join some of "
                f"{sorted(_NAMES)} by underscores"
            )
    return ConfigDict(
        MetaGenRLExperiment(environments=tuple(_NAMES[name] for name in names)).to_mapping()
    )
