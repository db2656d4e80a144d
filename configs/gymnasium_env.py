"""Any Gymnasium environment on a laptop: --config=configs/gymnasium_env.py:Pendulum-v1, or another id.

There is one task, so what evolves may be a loss that knows this task by heart. Layer sizes are those of
configs/point_goal.py. PPO's settings are not tuned; launch.tune_baseline does that.
"""

from ml_collections import ConfigDict

from epg_tf.config import (
    ComputeConfig,
    EvolutionConfig,
    Experiment,
    InnerConfig,
    LossConfig,
    SurrogateConfig,
    TaskConfig,
)
from epg_tf.tasks.gymnasium_family import PREFIX, registered_limit


def get_config(env_id: str = "Pendulum-v1") -> ConfigDict:
    """Returns the settings for one environment.

    Raises:
      ConfigError: Gymnasium knows no such id.
    """
    experiment = Experiment(
        task=TaskConfig(family=PREFIX + env_id, frame_skip=1, episode_limit=registered_limit(env_id)),
        loss=LossConfig(buffer_steps=128, filters=(4, 4), context=8, pooling="mean", memory_units=4),
        inner=InnerConfig(updates=64, update_period=32, minibatch=32, learning_rate=1e-2),
        surrogate=SurrogateConfig(baseline_learning_rate=3e-4, baseline_passes=16),
        evolution=EvolutionConfig(
            epochs=120, lives=128, noise_vectors=128, sigma=0.1, antithetic=True, common_random_numbers=True,
            learning_rate=2e-2, final_learning_rate=5e-3, learning_rate_epochs=120, l2=0.0,
            guidance=0.0, final_guidance=0.0, guidance_epochs=0, validation_period=10),
        compute=ComputeConfig(shard_lives=64),
    )
    return ConfigDict(experiment.to_mapping())
