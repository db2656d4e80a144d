"""RandomHopper, reward-free (EPG, Figure 5). Variants: `laptop` (default) and `paper`.

From the final paper, Table 1 and section 4:

    workers W          256      update period M    64 env steps     inner Adam           1e-3, beta (0.9, 0.999)
    noise vectors V     64      updates           128               outer Adam           1e-2 -> 1e-3 over 2000 epochs
    epochs E          5000      life U           8192 env steps     alpha                1 -> 0 over 500 epochs
    minibatch B         32      buffer N          512 or 1024       L2 on phi            0.001

Not in the paper, taken from the authors' code: sigma 0.01, N = 512, frame_skip 2, limit 1000, ranges, PPO constants.
PPO as a baseline is ours: tuned by launch.tune_baseline, 32 lives a setting.
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
    task=TaskConfig(family="random_hopper", frame_skip=2, episode_limit=1000),
    loss=LossConfig(buffer_steps=512),
    inner=InnerConfig(updates=128, update_period=64, minibatch=32, learning_rate=1e-3),
    surrogate=SurrogateConfig(baseline_learning_rate=3e-3, baseline_passes=4),
    evolution=EvolutionConfig(epochs=5000, lives=256, noise_vectors=64, sigma=0.01, learning_rate=1e-2,
                              final_learning_rate=1e-3, learning_rate_epochs=2000, l2=1e-3, guidance_epochs=500),
    compute=ComputeConfig(shard_lives=64),
)

# Shorter lives and buffer, no guidance, antithetic pairs that share task and noise: about 27 s an epoch on 2 cores.
_LAPTOP = Experiment(
    task=TaskConfig(family="random_hopper", frame_skip=4, episode_limit=250),
    loss=LossConfig(buffer_steps=128),
    inner=InnerConfig(updates=128, update_period=32, minibatch=32, learning_rate=1e-3),
    surrogate=SurrogateConfig(baseline_learning_rate=1e-3, baseline_passes=4),
    evolution=EvolutionConfig(epochs=100, lives=128, noise_vectors=128, sigma=0.1, antithetic=True,
                              common_random_numbers=True, learning_rate=2e-2, final_learning_rate=5e-3,
                              learning_rate_epochs=100, l2=0.0, guidance=0.0, guidance_epochs=0,
                              validation_period=10),
    compute=ComputeConfig(shard_lives=64),
)


def get_config(variant: str = "laptop") -> ConfigDict:
    """Returns the settings of a variant.

    Raises:
      ValueError: There is no such variant.
    """
    variants = {"laptop": _LAPTOP, "paper": _PAPER}
    if variant not in variants:
        raise ValueError(f"--config=configs/random_hopper.py:{variant} has no such variant; use :laptop or :paper")
    return ConfigDict(variants[variant].to_mapping())
