"""PointGoal on a laptop: our own family, a reward-free loss within minutes. The demo's config."""

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


def get_config() -> ConfigDict:
    """Returns the experiment's settings."""
    experiment = Experiment(
        task=TaskConfig(family="point_goal", frame_skip=2, episode_limit=50),
        loss=LossConfig(buffer_steps=128),
        inner=InnerConfig(updates=128, update_period=32, minibatch=32, learning_rate=3e-3),
        surrogate=SurrogateConfig(),
        evolution=EvolutionConfig(
            epochs=60, lives=128, noise_vectors=128, sigma=0.1, antithetic=True, common_random_numbers=True,
            learning_rate=2e-2, final_learning_rate=5e-3, learning_rate_epochs=60, l2=0.0,
            guidance=0.0, guidance_epochs=0, validation_period=10, validation_lives=64),
        compute=ComputeConfig(shard_lives=32),
    )
    return ConfigDict(experiment.to_mapping())
