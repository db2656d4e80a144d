"""Measures speed: whole lifetimes and physics alone (EPG), or agents at once and alone (MetaGenRL).

    epg-tf benchmark --config=random_hopper:paper --lives=256 --json=speed.json
    epg-tf benchmark --config=metagenrl_laptop

EPG is measured in exact and in coarse physics. "Physics" is the engine, "family" the family's own
code around it: tasks and starts, observations, rewards and ends. With --cores an epoch is predicted
on so many cores, from shards that are timed here: epg_tf/studies/scaling.py says how.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from . import command_line, config_flag  # first: it silences the frameworks

from absl import flags

flags.adopt_module_key_flags(config_flag)
_LIVES = flags.DEFINE_integer(
    "lives", 256, "Of EPG: number of lives.", lower_bound=1, upper_bound=10**6
)
_UPDATES = flags.DEFINE_integer(
    "updates",
    None,
    "Updates per life, the config's by default; of each agent of MetaGenRL, 100 by default.",
    lower_bound=1,
    upper_bound=10**7,
)
_MARKDOWN = flags.DEFINE_bool("markdown", False, "Of EPG: print a row of `make throughput` only.")
_CORES = flags.DEFINE_list(
    "cores", None, "Of EPG: predict the time of an epoch on so many cores, e.g. 1,2,16,1440."
)
_SIZES = flags.DEFINE_list(
    "shard_lives", ["1", "4", "16", "64"], "With --cores: shard sizes P to time."
)
_NETWORK = flags.DEFINE_float(
    "network_milliseconds",
    5.0,
    "With --cores: time of one allreduce of the fitness.",
    lower_bound=0.0,
    upper_bound=1e6,
)
_SEED = flags.DEFINE_integer("seed", 0, "Seed of all randomness.", lower_bound=0)
_JSON = flags.DEFINE_string("json", None, "File for the numbers.")

command_line.parse_flags(__name__)

from epg_tf.core import files, formatting
from epg_tf.epg.settings import Experiment
from epg_tf.metagenrl.settings import MetaGenRLExperiment
from .evaluation_flags import check_json

if TYPE_CHECKING:  # they import TensorFlow, and flags are read before it is
    from epg_tf.studies.speed import LifeSpeed

_REPEATS = 3  # of both ways of MetaGenRL, in turn; medians are printed
_EPOCHS = 200  # drawn for a prediction
_MOST = 10**5  # cores, or lives of a shard


def main(argv: list[str]) -> int:
    """Measures and prints; returns the exit code."""
    del argv
    experiment = config_flag.experiment_of((Experiment, MetaGenRLExperiment))
    check_json(_JSON)
    if isinstance(experiment, MetaGenRLExperiment):
        found = _agents(experiment)
    elif _CORES.value is not None:
        found = _prediction(experiment)
    else:
        found = _lifetimes(experiment)
    if _JSON.value:
        files.write_json(_JSON.value, found)
        print(f"numbers are in {_JSON.value}")
    return 0


def _lifetimes(experiment: Experiment) -> dict[str, Any]:
    """Measures whole lifetimes of EPG in both kinds of physics; returns the numbers."""
    config_flag.refuse("task.physics", reason="both physics are measured; leave it out")
    from epg_tf.studies.speed import compare_physics

    exact, coarse = compare_physics(experiment, _SEED.value, _LIVES.value, _UPDATES.value)
    found: dict[str, Any] = {"exact": vars(exact), "coarse": None, "speedup": None}
    if coarse is not None:
        rate = coarse.life_env_steps_per_second
        found |= {"coarse": vars(coarse), "speedup": rate / exact.life_env_steps_per_second}
    if _MARKDOWN.value:
        cells = "- | - | -" if coarse is None else _cells(coarse)
        print(f"| {exact.threads} | {_cells(exact)} | {cells} |")
        return found
    print(
        f"{exact.family}: {exact.lives} lives in shards of {exact.shard_lives} on "
        f"{exact.threads} threads (M {experiment.inner.update_period}, "
        f"N {experiment.loss.buffer_steps}, B {experiment.inner.minibatch})"
    )
    _report_lives("exact", exact)
    if coarse is None:
        print("coarse physics: the family declares none")
    else:
        _report_lives("coarse", coarse)
    newest = coarse or exact
    print(f"peak memory      of this process {newest.peak_rss_bytes / 2**30:.2f} GiB")
    if coarse is not None:
        print(f"whole lives are {found['speedup']:.1f} times as fast in coarse physics")
    return found


def _report_lives(physics: str, speed: LifeSpeed) -> None:
    count = formatting.count
    shares = ", ".join(f"{part} {share:.0%}" for part, share in speed.shares.items())
    print(
        f"{physics} physics: {count(speed.env_steps)} env steps in "
        f"{formatting.duration(speed.seconds)}\n"
        f"  physics alone  {count(speed.physics_env_steps_per_second)} env steps/s, one core times "
        f"{speed.threads}\n"
        f"  whole lives    {count(speed.life_env_steps_per_second)} env steps/s, "
        f"{speed.ratio:.2f} of physics alone\n"
        f"  time of a life {shares}\n"
        f"  one update     {speed.update_milliseconds:.1f} ms per shard"
    )


def _cells(speed: LifeSpeed) -> str:
    """Returns the cells of one kind of physics."""
    from epg_tf.epg.inner_loop import PARTS

    shares = " / ".join(f"{speed.shares[part]:.0%}"[:-1] for part in PARTS)
    lives = formatting.count(speed.life_env_steps_per_second)
    return f"{lives} | {speed.ratio:.2f} | {shares}"


def _agents(experiment: MetaGenRLExperiment) -> dict[str, Any]:
    """Measures agents of MetaGenRL all at once and one by one; returns the numbers.

    Both ways take env steps, draw chunks and compute the objective's gradient, on one thread.
    """
    from epg_tf.studies.metagenrl_speed import measure_agents, shard_size

    agent = experiment.agent
    print(
        f"{shard_size(experiment)} agents in {experiment.environments[0]}, batches of "
        f"{agent.batch} x {agent.chunk} steps, networks of {agent.hidden} units; compiling ...",
        flush=True,
    )
    speed = measure_agents(experiment, _UPDATES.value or 100, _REPEATS)
    together, alone = speed.medians["together"], speed.medians["alone"]
    shares = ", ".join(f"{part} {share:.1%}" for part, share in speed.shares.items())
    print(
        f"all at once: {together:.0f} agent updates/s   one by one: {alone:.0f}   "
        f"ratio {speed.ratio:.2f}\n"
        f"an update of {speed.agents} agents, {agent.policy_delay} env steps each included: "
        f"{1e3 * speed.agents / together:.1f} ms\n"
        f"share of the time, all at once: {shares}; "
        f"outside TensorFlow {1.0 - speed.shares['tensorflow']:.1%}"
    )
    return {**vars(speed), "config": experiment.to_mapping()}


def _prediction(experiment: Experiment) -> dict[str, Any]:
    """Times shards and predicts epochs on many cores; returns the numbers."""
    if experiment.mix.families:
        raise command_line.UsageError(
            f"--config.mix.families={experiment.mix.families}: shards of several families are not "
            "simulated; name a config of one family"
        )
    sizes = _numbers("shard_lives", _SIZES.value or ())
    cores = _numbers("cores", _CORES.value or ())
    from epg_tf.studies import scaling

    measured = scaling.measure(experiment, sizes, max(_UPDATES.value or 8, 2), _SEED.value)
    mean, deviation = float(measured.final_steps.mean()), float(measured.final_steps.std())
    plays = experiment.evolution.plays_final_episodes
    unplayed = "" if plays else " (not played in evolution with these settings)"
    updates = scaling.epoch_updates(experiment)
    print(
        f"{experiment.task.family}: {experiment.evolution.lives} lives of "
        f"{updates:.4g} updates; final episodes of a life take "
        f"{mean:.0f} env steps, standard deviation {deviation:.0f}{unplayed}"
    )
    draws = scaling.Draws(_EPOCHS, _NETWORK.value / 1e3, _SEED.value)
    rows = scaling.predict(experiment, measured, cores, draws)
    print("| cores | P | epoch | of a core's time, waiting | efficiency |\n|---|---|---|---|---|")
    for row in rows:
        efficiency = "" if row.efficiency is None else f"{row.efficiency:.0%}"
        print(
            f"| {row.cores} | {row.shard_lives} | {formatting.duration(row.seconds)} | "
            f"{row.waiting:.0%} | {efficiency} |"
        )
    return {
        "rows": [vars(row) for row in rows],
        "times": {size: vars(times) for size, times in measured.times.items()},
        "noise_seconds": measured.noise_seconds,
        "final_steps_mean": mean,
        "final_steps_deviation": deviation,
        "updates_of_a_life": updates,
        "plays_final_episodes": plays,
    }


def _numbers(flag: str, words: Sequence[str]) -> list[int]:
    digits = all(word.isascii() and word.isdigit() for word in words)  # "²" is a digit, too
    if not words or not digits or not all(0 < int(word) <= _MOST for word in words):
        raise command_line.UsageError(
            f"--{flag}={','.join(words)} must be whole numbers from 1 to {_MOST}, separated by "
            "commas"
        )
    return [int(word) for word in words]


if __name__ == "__main__":
    command_line.run(main)
