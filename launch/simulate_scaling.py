"""Predicts the time of an epoch on 1 to 1,440 cores, from shards timed on this machine.

    epg-tf simulate-scaling --config=random_hopper:paper

`epg_tf/evaluation/scaling.py` says how epochs are drawn, docs/scaling.md what was found.
"""

from __future__ import annotations

from collections.abc import Sequence

from . import command_line, config_flag  # first: it silences the frameworks

from absl import flags

from epg_tf.core import files, formatting
from epg_tf.epg.baseline_settings import RIVALS
from epg_tf.evaluation import scaling

flags.adopt_module_key_flags(config_flag)
_SIZES = flags.DEFINE_list("shard_lives", ["1", "4", "16", "64"], "Shard sizes P to time.")
_CORES = flags.DEFINE_list(
    "cores", ["1", "2", "4", "16", "64", "256", "1440"], "Numbers of cores to predict."
)
_UPDATES = flags.DEFINE_integer(
    "updates", 8, "Updates timed per size.", lower_bound=2, upper_bound=10**5
)
_EPOCHS = flags.DEFINE_integer(
    "epochs", 200, "Epochs drawn per prediction.", lower_bound=1, upper_bound=10**6
)
_NETWORK = flags.DEFINE_float(
    "network_milliseconds",
    5.0,
    "Time of one allreduce of the fitness.",
    lower_bound=0.0,
    upper_bound=1e6,
)
_JSON = flags.DEFINE_string("json", None, "File for the numbers.")
_SEED = flags.DEFINE_integer("seed", 0, "Seed of all randomness.", lower_bound=0)
_MOST = 10**5  # cores, or lives of a shard


def main(argv: list[str]) -> int:
    """Times shards, predicts epochs, and prints a table; returns the exit code."""
    del argv
    config_flag.refuse(*RIVALS, reason="no rival learns in this command; leave it out")
    config_flag.refuse("compute.shard_lives", reason="--shard_lives takes its place")
    config_flag.refuse("compute.threads", reason="--cores takes its place")
    experiment = config_flag.experiment()
    if experiment.mix.families:
        raise command_line.UsageError(
            f"--config.mix.families={experiment.mix.families}: shards of several families are not "
            "simulated; name a config of one family"
        )
    command_line.check_json(_JSON)
    sizes = _numbers("shard_lives", _SIZES.value)
    cores = _numbers("cores", _CORES.value)
    measured = scaling.measure(experiment, sizes, _UPDATES.value, _SEED.value)
    mean, deviation = float(measured.final_steps.mean()), float(measured.final_steps.std())
    plays = experiment.evolution.plays_final_episodes
    unplayed = "" if plays else " (not played in evolution with these settings)"
    updates = scaling.epoch_updates(experiment)
    print(
        f"{experiment.task.family}: {experiment.evolution.lives} lives of "
        f"{updates:.4g} updates; final episodes of a life take "
        f"{mean:.0f} env steps, standard deviation {deviation:.0f}{unplayed}"
    )
    draws = scaling.Draws(_EPOCHS.value, _NETWORK.value / 1e3, _SEED.value)
    rows = scaling.predict(experiment, measured, cores, draws)
    _print(rows)
    if _JSON.value:
        numbers = {
            "rows": [vars(row) for row in rows],
            "times": {size: vars(times) for size, times in measured.times.items()},
            "noise_seconds": measured.noise_seconds,
            "final_steps_mean": mean,
            "final_steps_deviation": deviation,
            "updates_of_a_life": updates,
            "plays_final_episodes": plays,
        }
        files.write_json(_JSON.value, numbers)
    return 0


def _numbers(flag: str, words: list[str]) -> list[int]:
    digits = all(word.isascii() and word.isdigit() for word in words)  # "²" is a digit, too
    if not words or not digits or not all(0 < int(word) <= _MOST for word in words):
        raise command_line.UsageError(
            f"--{flag}={','.join(words)} must be whole numbers from 1 to {_MOST}, separated by "
            "commas"
        )
    return [int(word) for word in words]


def _print(rows: Sequence[scaling.Prediction]) -> None:
    print("| cores | P | epoch | of a core's time, waiting | efficiency |\n|---|---|---|---|---|")
    for row in rows:
        efficiency = "" if row.efficiency is None else f"{row.efficiency:.0%}"
        print(
            f"| {row.cores} | {row.shard_lives} | {formatting.duration(row.seconds)} | "
            f"{row.waiting:.0%} | {efficiency} |"
        )


if __name__ == "__main__":
    command_line.run(main)
