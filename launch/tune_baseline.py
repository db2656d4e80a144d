"""Tunes the policy-gradient baseline of a family, on tasks that neither evolution nor testing
meets.

    epg-tf tune-baseline --config=point_goal

Prints the settings to write into the config: `baseline_learning_rate` and `baseline_epochs`.
"""

from __future__ import annotations

import dataclasses

from . import command_line, config_flag  # first: it silences the frameworks

from absl import flags

import numpy as np

from epg_tf.baselines.policy_gradient import no_loss
from epg_tf.core import formatting
from epg_tf.core.experiment import LossConfig
from epg_tf.core.types import LifeKey
from epg_tf.epg.inner_loop import Teaching
from epg_tf.epg.shards import Shards
from epg_tf.evaluation.summary import summarize_lives

flags.adopt_module_key_flags(config_flag)
_RATES = flags.DEFINE_list(
    "learning_rates", ["1e-4", "3e-4", "1e-3", "3e-3", "1e-2", "3e-2"], "Rates to try."
)
_EPOCHS = flags.DEFINE_list(
    "epochs", ["1", "4"], "Numbers of epochs over each update's steps to try."
)
_LIVES = flags.DEFINE_integer("lives", 64, "Lives per setting.", lower_bound=2, upper_bound=10**6)
_SEED = flags.DEFINE_integer("seed", 0, "Seed of all randomness.", lower_bound=0)


def main(argv: list[str]) -> int:
    """Tries every setting on the same tasks and names the best; returns the exit code."""
    del argv
    config_flag.refuse("evolution", reason="there is no evolution in this command; leave it out")
    unused = (f"loss.{field.name}" for field in dataclasses.fields(LossConfig))
    learned = (name for name in unused if name != "loss.buffer_steps")  # it must hold M steps
    config_flag.refuse(*learned, reason="no learned loss takes part; leave it out")
    tuned = ("surrogate.baseline_learning_rate", "surrogate.baseline_epochs")
    config_flag.refuse(*tuned, reason="it is what --learning_rates and --epochs try")
    config_flag.refuse("task.physics", reason="baselines are tuned in exact physics; leave it out")
    experiment = config_flag.experiment(physics="exact")
    rates = command_line.positive_numbers("learning_rates", _RATES.value, float)
    epochs = command_line.positive_numbers("epochs", _EPOCHS.value, int)
    keys = [LifeKey(_SEED.value, "tuning", 0, index) for index in range(_LIVES.value)]
    print(
        f"{experiment.surrogate.kind} on {_LIVES.value} {experiment.task.family} tasks, "
        f"{formatting.count(experiment.life_steps)} env steps each; mean final return and 95 % "
        "interval"
    )
    results = []
    with Shards(experiment) as shards:
        for times in epochs:
            for rate in rates:
                lives = shards.run(keys, no_loss, Teaching(1.0, rate, times))
                results.append((summarize_lives(lives, experiment.life_steps), rate, times))
                row = results[-1][0]
                print(
                    f"  learning rate {rate:<8g} epochs {times}  {row.final_return_mean:9.2f}  "
                    f"[{row.ci95[0]:.2f}, {row.ci95[1]:.2f}]  failed {row.failed_lives}",
                    flush=True,
                )
    if all(row.failed_lives == row.lives for row, _, _ in results):
        raise command_line.UsageError(
            f"--learning_rates={','.join(_RATES.value)}: every life failed; try smaller"
        )
    best, rate, times = max(
        results, key=lambda item: np.nan_to_num(item[0].final_return_mean, nan=-np.inf)
    )
    print(
        f"best: SurrogateConfig(baseline_learning_rate={rate:g}, baseline_epochs={times}), mean "
        f"{best.final_return_mean:.2f}; write it into your config, or pass "
        f"--config.surrogate.baseline_learning_rate={rate:g} "
        f"--config.surrogate.baseline_epochs={times}"
    )
    return 0


if __name__ == "__main__":
    command_line.run(main)
