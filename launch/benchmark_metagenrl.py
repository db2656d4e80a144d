"""Measures MetaGenRL's agents: all at once against the same ones one by one, and shares of time.

    epg-tf benchmark-metagenrl --config=metagenrl_laptop

Both ways take env steps, draw chunks and compute the objective's gradient, on one thread.
"""

from __future__ import annotations

from . import command_line, config_flag  # first: it silences the frameworks

from absl import flags

from epg_tf.core import files
from epg_tf.evaluation.metagenrl_speed import measure_agents, shard_size

flags.adopt_module_key_flags(config_flag)
_UPDATES = flags.DEFINE_integer(
    "updates", 100, "Updates to time, of each agent.", lower_bound=1, upper_bound=10**6
)
_REPEATS = flags.DEFINE_integer(
    "repeats",
    3,
    "Times that both ways are measured, in turn; medians are printed.",
    lower_bound=1,
    upper_bound=1000,
)
_JSON = flags.DEFINE_string("json", None, "File for the numbers; it ends in .json.")


def main(argv: list[str]) -> int:
    """Measures and prints; returns the exit code."""
    del argv
    rounds = ("failed_rounds", "objective_period")
    config_flag.refuse(*rounds, reason="agents take as many steps as --updates needs")
    config_flag.refuse("threads", reason="agents are measured on one thread; leave it out")
    unused = ("baseline", "validation", "past")
    config_flag.refuse(*unused, reason="agents learn from their first step; leave it out")
    experiment = config_flag.metagenrl_experiment()
    command_line.check_json(_JSON)
    agent = experiment.agent
    print(
        f"{shard_size(experiment)} agents in {experiment.environments[0]}, batches of "
        f"{agent.batch} x {agent.chunk} steps, networks of {agent.hidden} units; compiling ...",
        flush=True,
    )
    speed = measure_agents(experiment, _UPDATES.value, _REPEATS.value)
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
    if _JSON.value is not None:
        files.write_json(_JSON.value, {**vars(speed), "config": experiment.to_mapping()})
    return 0


if __name__ == "__main__":
    command_line.run(main)
