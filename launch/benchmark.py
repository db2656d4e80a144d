"""Measures speed in one run: physics alone, whole lives, and where the time of a life goes.

    epg-tf benchmark --config=random_hopper:paper --lives=256 --json=speed.json

"Physics" is the engine, "family" the family's own code around it: tasks and starts, observations,
rewards and ends.
"""

from __future__ import annotations

from . import command_line, config_flag  # first: it silences the frameworks

from absl import flags

from epg_tf.core import files, formatting
from epg_tf.core.experiment import Experiment
from epg_tf.epg.inner_loop import PARTS
from epg_tf.evaluation.speed import LifeSpeed, measure_lives

flags.adopt_module_key_flags(config_flag)
_LIVES = flags.DEFINE_integer("lives", 256, "Number of lives.", lower_bound=1, upper_bound=10**6)
_JSON = flags.DEFINE_string("json", None, "File for the numbers.")
_UPDATES = flags.DEFINE_integer(
    "updates", None, "Updates per life; the config's by default.", lower_bound=1, upper_bound=10**7
)
_MARKDOWN = flags.DEFINE_bool(
    "markdown", False, "Print one row of a table of docs/speed.md and nothing else."
)
_SEED = flags.DEFINE_integer("seed", 0, "Seed of all randomness.", lower_bound=0)


def main(argv: list[str]) -> int:
    """Measures and prints; returns the exit code."""
    del argv
    config_flag.refuse("evolution", reason="there is no evolution in this command; leave it out")
    experiment = config_flag.experiment()
    command_line.check_json(_JSON)
    speed = measure_lives(experiment, _SEED.value, _LIVES.value, _UPDATES.value)
    if _MARKDOWN.value:
        print(_row(speed))
    else:
        _report(experiment, speed)
    if _JSON.value:
        files.write_json(_JSON.value, vars(speed))
        print(f"numbers are in {_JSON.value}")
    return 0


def _report(experiment: Experiment, speed: LifeSpeed) -> None:
    count = formatting.count
    shares = ", ".join(f"{part} {share:.0%}" for part, share in speed.shares.items())
    print(
        f"{speed.family}: {speed.lives} lives in shards of {speed.shard_lives} on "
        f"{speed.threads} threads, {count(speed.env_steps)} env steps in "
        f"{formatting.duration(speed.seconds)}\n"
        f"physics alone  {count(speed.physics_env_steps_per_second)} env steps/s\n"
        f"whole lives    {count(speed.life_env_steps_per_second)} env steps/s, "
        f"{speed.ratio:.2f} of physics alone\n"
        f"time of a life {shares}\n"
        f"one update     {speed.update_milliseconds:.1f} ms per shard "
        f"(M {experiment.inner.update_period}, N {experiment.loss.buffer_steps}, "
        f"B {experiment.inner.minibatch})\n"
        f"peak memory    {speed.peak_rss_bytes / 2**30:.2f} GiB"
    )


def _row(speed: LifeSpeed) -> str:
    shares = " / ".join(f"{speed.shares[part]:.0%}"[:-1] for part in PARTS)
    physics = formatting.count(speed.physics_env_steps_per_second)
    lives = formatting.count(speed.life_env_steps_per_second)
    return f"| `{speed.family}` | {physics} | {lives} | {speed.ratio:.2f} | {shares} % |"


if __name__ == "__main__":
    command_line.run(main)
