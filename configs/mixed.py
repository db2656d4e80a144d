"""One loss for several bodies, rewards declared. Variants: `laptop` (HiddenGoal, TurnedMotors,
DirectionalHalfCheetah and DirectionalHopper; not in the papers) and `cheetah_lunar` (HalfCheetah
and LunarLanderContinuous: EPG beside MetaGenRL, there Table 2).

A life is 2048 env steps in one of the families, of `cheetah_lunar` 8192. The fresh loss is
REINFORCE on the rewards of the next ten env steps or so, shared by all components of an action;
with an inner rate of 3e-3 it teaches in the families of `laptop` before any evolution. Returns
count in units of about what a good agent gets. `cheetah_lunar` has 10 M env steps, validation
included, where metagenrl_night:cheetah_lunar has 2.0 M. Its run ends within the schedule of its
step size.
"""

import dataclasses

from epg_tf.epg import presets
from epg_tf.epg.evolution_settings import MixConfig
from epg_tf.epg.settings import Experiment
from epg_tf.runs.config_files import config_of
from epg_tf.tasks.settings import TaskConfig


def _laptop() -> Experiment:
    usual = presets.teaching(TaskConfig("hidden_goal", 4, 25), reward=True)
    return dataclasses.replace(
        usual,
        loss=dataclasses.replace(
            usual.loss,
            shared_over_actions=True,
            channels=("future_reward",),
            future_discount=0.9,
            products=4,
        ),
        inner=dataclasses.replace(usual.inner, updates=64, learning_rate=3e-3),
        evolution=dataclasses.replace(
            usual.evolution,
            lives=128,
            noise_vectors=128,
            fitness="rank_in_pair",
            epochs=100,
            learning_rate=3e-2,
            final_learning_rate=3e-3,
            learning_rate_epochs=100,
            validation_period=10,
        ),
        mix=MixConfig(
            families=("turned_motors", "directional_half_cheetah", "directional_hopper"),
            frame_skips=(4, 5, 4),
            episode_limits=(25, 100, 250),
            physics=("exact", "coarse", "coarse"),
            return_units=(10.0, 13.0, 200.0, 200.0),
        ),
    )


def _cheetah_lunar() -> Experiment:
    usual = _laptop()
    return dataclasses.replace(
        usual,
        task=TaskConfig("half_cheetah", 5, 1000, physics="coarse"),
        inner=dataclasses.replace(usual.inner, updates=256),
        evolution=dataclasses.replace(
            usual.evolution, lives=32, noise_vectors=32, epochs=30, learning_rate_epochs=50
        ),
        mix=MixConfig(
            families=("gymnasium:LunarLanderContinuous-v3",),
            frame_skips=(1,),
            episode_limits=(1000,),
            physics=("exact",),
            return_units=(700.0, 200.0),
        ),
    )


VARIANTS = {"laptop": _laptop(), "cheetah_lunar": _cheetah_lunar()}

get_config = config_of(VARIANTS)
