"""FetchReach, reward-free (EPG, Figure 11). Variants: `laptop` (default) and `paper`.

From the final paper, Table 1 and section 4:

    workers W          256      update period M    32 env steps     inner Adam           1e-3, beta (0.9, 0.999)
    noise vectors V     64      updates           256               outer Adam           1e-2 -> 1e-3 over 2000 epochs
    epochs E          5000      life U           8192 env steps     alpha                1 -> 0 over 500 epochs
    minibatch B         32      buffer N          512 or 1024       L2 on phi            0.001

Not in the paper: frame_skip 20, limit 50 (FetchReach's); sigma 0.01, N = 512 and PPO's constants (the authors' code).
PPO's learning rate and passes are those tuned for RandomHopper.
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

_PAPER = Experiment(
    task=TaskConfig(family="fetch", frame_skip=20, episode_limit=50),
    loss=LossConfig(buffer_steps=512),
    inner=InnerConfig(updates=256, update_period=32, minibatch=32, learning_rate=1e-3),
    surrogate=SurrogateConfig(baseline_learning_rate=3e-3, baseline_passes=4),
    evolution=EvolutionConfig(epochs=5000, lives=256, noise_vectors=64, sigma=0.01, learning_rate=1e-2,
                              final_learning_rate=1e-3, learning_rate_epochs=2000, l2=1e-3, guidance_epochs=500),
    compute=ComputeConfig(shard_lives=64),
)

# An env step of the arm is 20 physics steps with contacts, so lives are short: 41 episodes. PointGoal's small loss.
_LAPTOP = Experiment(
    task=TaskConfig(family="fetch", frame_skip=20, episode_limit=25),
    loss=LossConfig(buffer_steps=128, filters=(4, 4), context=8, pooling="mean", memory_units=4),
    inner=InnerConfig(updates=32, update_period=32, minibatch=32, learning_rate=1e-2),
    surrogate=SurrogateConfig(baseline_learning_rate=1e-3, baseline_passes=4),
    evolution=EvolutionConfig(epochs=100, lives=128, noise_vectors=128, sigma=0.1, antithetic=True,
                              common_random_numbers=True, learning_rate=2e-2, final_learning_rate=5e-3,
                              learning_rate_epochs=100, l2=0.0, guidance=0.0, guidance_epochs=0,
                              validation_period=10),
    compute=ComputeConfig(shard_lives=64),  # two shards an epoch, one per core
)


def get_config(variant: str = "laptop") -> ConfigDict:
    """Returns the settings of a variant.

    Raises:
      ValueError: There is no such variant.
    """
    variants = {"laptop": _LAPTOP, "paper": _PAPER}
    if variant not in variants:
        raise ValueError(f"--config=configs/fetch.py:{variant} has no such variant; use :laptop or :paper")
    return ConfigDict(variants[variant].to_mapping())
