"""PointGoal on a laptop: our own family, a reward-free loss within minutes. The demo's config.

A life is 1024 env steps, 40 episodes. The fitness is the mean return of all of them: they need no
more env steps, and have less variance than three episodes with the final policy
(docs/lessons.md). The network has 1089 parameters; the paper's layer sizes would have 7877. A
small one needs fewer lives, because evolution strategies try random directions of phi. Groups of
baselines are of epg-tf tune (results/records).
"""

from epg_tf.epg.baseline_settings import PPOConfig, ReinforceConfig, SACConfig, TD3Config
from epg_tf.epg.evolution_settings import EvolutionConfig
from epg_tf.epg.settings import ComputeConfig, Experiment, InnerConfig
from epg_tf.losses.settings import LossConfig, SurrogateConfig
from epg_tf.tasks.settings import TaskConfig


def get_config() -> Experiment:
    """Returns the experiment's settings."""
    return Experiment(
        task=TaskConfig(family="point_goal", frame_skip=4, episode_limit=25),
        loss=LossConfig(
            buffer_steps=128,
            filters=(4, 4),
            context=8,
            pooling="mean",
            memory_units=4,
            start="centred",
        ),
        inner=InnerConfig(updates=32, update_period=32, minibatch=32, learning_rate=1e-2),
        surrogate=SurrogateConfig(discount=0.9, baseline_learning_rate=3e-4, baseline_epochs=16),
        ppo=PPOConfig(
            update_period=64,
            minibatch=64,
            epochs=16,
            learning_rate=3e-4,
            log_std=0.0,
            discount=0.95,
            gae_lambda=0.8,
        ),
        reinforce=ReinforceConfig(discount=0.9),
        sac=SACConfig(
            learning_rate=1e-2,
            random_steps=100,
            target_entropy=-1.0,
            temperature=0.1,
            discount=0.95,
            tau=0.01,
        ),
        td3=TD3Config(
            learning_rate=0.01,
            batch=32,
            updates_per_step=2,
            random_steps=100,
            discount=0.95,
            tau=0.01,
            exploration=0.1,
            target_policy_noise=0.1,
        ),
        evolution=EvolutionConfig(
            epochs=100,
            lives=32,
            noise_vectors=32,
            sigma=0.1,
            antithetic=True,
            common_random_numbers=True,
            fitness_from="whole_life",
            learning_rate=5e-2,
            final_learning_rate=5e-3,
            learning_rate_epochs=100,
            l2=0.0,
            guidance=0.0,
            final_guidance=0.0,
            guidance_epochs=0,
            validation_period=10,
            validation_lives=128,
        ),
        compute=ComputeConfig(shard_lives=16),
    )
