"""Measures speed in one run, in exact and in coarse physics: physics alone, whole lives, and where
the time of a life goes.

    epg-tf benchmark --config=random_hopper:paper --lives=256 --json=speed.json

"Physics" is the engine, "family" the family's own code around it: tasks and starts, observations,
rewards and ends.
"""

from __future__ import annotations

from . import command_line, config_flag  # first: it silences the frameworks

from absl import flags

from epg_tf.core import files, formatting
from epg_tf.epg.settings import Experiment
from epg_tf.epg.baseline_settings import RIVALS
from epg_tf.epg.inner_loop import PARTS
from epg_tf.evaluation.speed import LifeSpeed, SpeedComparison, compare_physics

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
    config_flag.refuse(*RIVALS, reason="no rival learns in this command; leave it out")
    config_flag.refuse("task.physics", reason="both physics are measured; leave it out")
    experiment = config_flag.experiment()
    command_line.check_json(_JSON)
    speed = compare_physics(experiment, _SEED.value, _LIVES.value, _UPDATES.value)
    if _MARKDOWN.value:
        print(_row(speed))
    else:
        _report(experiment, speed)
    if _JSON.value:
        files.write_json(_JSON.value, speed.to_mapping())
        print(f"numbers are in {_JSON.value}")
    return 0


def _report(experiment: Experiment, speed: SpeedComparison) -> None:
    exact = speed.exact
    print(
        f"{exact.family}: {exact.lives} lives in shards of {exact.shard_lives} on "
        f"{exact.threads} threads (M {experiment.inner.update_period}, "
        f"N {experiment.loss.buffer_steps}, B {experiment.inner.minibatch})"
    )
    for physics, found in (("exact", exact), ("coarse", speed.coarse)):
        if found is None:
            print(f"{physics} physics: the family declares none")
        else:
            _report_lives(physics, found)
    newest = speed.coarse or exact
    print(f"peak memory      of this process {newest.peak_rss_bytes / 2**30:.2f} GiB")
    if speed.speedup is not None:
        print(f"whole lives are {speed.speedup:.1f} times as fast in coarse physics")


def _report_lives(physics: str, speed: LifeSpeed) -> None:
    count = formatting.count
    shares = ", ".join(f"{part} {share:.0%}" for part, share in speed.shares.items())
    print(
        f"{physics} physics: {count(speed.env_steps)} env steps in "
        f"{formatting.duration(speed.seconds)}\n"
        f"  physics alone  {count(speed.physics_env_steps_per_second)} env steps/s\n"
        f"  whole lives    {count(speed.life_env_steps_per_second)} env steps/s, "
        f"{speed.ratio:.2f} of physics alone\n"
        f"  time of a life {shares}\n"
        f"  one update     {speed.update_milliseconds:.1f} ms per shard"
    )


def _row(speed: SpeedComparison) -> str:
    speedup = "—" if speed.speedup is None else f"{speed.speedup:.1f}"
    return (
        f"| `{speed.exact.family}` | {_cells(speed.exact)} | {_cells(speed.coarse)} | {speedup} |"
    )


def _cells(speed: LifeSpeed | None) -> str:
    """Returns the cells of one kind of physics; dashes where there is none."""
    if speed is None:
        return "— | — | — | —"
    shares = " / ".join(f"{speed.shares[part]:.0%}"[:-1] for part in PARTS)
    physics = formatting.count(speed.physics_env_steps_per_second)
    lives = formatting.count(speed.life_env_steps_per_second)
    return f"{physics} | {lives} | {speed.ratio:.2f} | {shares}"


if __name__ == "__main__":
    command_line.run(main)
