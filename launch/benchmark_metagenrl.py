"""Measures MetaGenRL's agents: all at once against the same ones one by one, and where the time
goes.

    python -m launch.benchmark_metagenrl --config=configs/metagenrl_laptop.py

Both take env steps, draw chunks and compute the objective's gradient, on one shard's thread.
"""

from __future__ import annotations

import dataclasses
import time

from launch import command_line  # first: it quietens the frameworks

import numpy as np  # isort: skip
from absl import flags  # isort: skip
from ml_collections import config_flags  # isort: skip

from epg_tf.metagenrl.agents import PARTS, AgentShard, Lifetimes, ShardSettings
from epg_tf.core.threads import configure_tensorflow
from epg_tf.losses.lstm_objective import LSTMObjective, initial_parameters, stacked
from epg_tf.core.metagenrl_experiment import MetaGenRLExperiment
from epg_tf.core.random_streams import loss_generator
from epg_tf.core import files
from epg_tf.tasks.registry import named_environment
from epg_tf.core.types import LifeKey

_CONFIG = config_flags.DEFINE_config_file(
    "config", None, "Experiment file, e.g. configs/metagenrl_laptop.py."
)
_UPDATES = flags.DEFINE_integer(
    "updates", 100, "Updates to time, of each agent.", lower_bound=1, upper_bound=10**6
)
_REPEATS = flags.DEFINE_integer(
    "repeats",
    3,
    "Times that both are measured, in turn; medians are printed.",
    lower_bound=1,
    upper_bound=1000,
)
_JSON = flags.DEFINE_string(
    "json", None, "Where to write the numbers, too; a file that ends in .json."
)


def main(argv: list[str]) -> int:
    """Measures and prints; returns the exit code."""
    del argv
    experiment = command_line.metagenrl_experiment_of(_CONFIG)
    experiment = dataclasses.replace(
        experiment, agent=dataclasses.replace(experiment.agent, random_steps=0)
    )
    command_line.check_json(_JSON)
    configure_tensorflow(1)
    agents = min(experiment.shard_agents, experiment.agents // len(experiment.environments))
    print(
        f"{agents} agents in {experiment.environments[0]}, batches of {experiment.agent.batch} x "
        f"{experiment.agent.chunk} steps, networks of {experiment.agent.hidden} units; compiling "
        "...",
        flush=True,
    )
    together = [_shard(experiment, range(agents))]
    alone = [_shard(experiment, [index]) for index in range(agents)]
    rates: dict[str, list[float]] = {"together": [], "alone": []}
    for _ in range(_REPEATS.value):
        for name, shards in (("together", together), ("alone", alone)):
            rates[name].append(agents * _UPDATES.value / _seconds(shards))
    medians = {name: float(np.median(values)) for name, values in rates.items()}
    spent = {part: together[0].seconds[part] for part in PARTS}
    shares = {part: seconds / sum(spent.values()) for part, seconds in spent.items()}
    print(
        f"all at once: {medians['together']:.0f} agent updates/s   one by one: "
        f"{medians['alone']:.0f}   ratio "
        f"{medians['together'] / medians['alone']:.2f}"
    )
    print(
        f"an update of {agents} agents, {experiment.agent.policy_delay} env steps each included: "
        f"{1e3 * agents / medians['together']:.1f} ms"
    )
    print(
        "share of the time, all at once: "
        + ", ".join(f"{part} {share:.1%}" for part, share in shares.items())
        + f"; outside TensorFlow {1.0 - shares['tensorflow']:.1%}"
    )
    if _JSON.value is not None:
        files.write_json(
            _JSON.value,
            {
                "agents": agents,
                "agent_updates_per_second": rates,
                "medians": medians,
                "ratio": medians["together"] / medians["alone"],
                "shares": shares,
                "config": experiment.to_mapping(),
            },
        )
    return 0


def _shard(experiment: MetaGenRLExperiment, indices: range | list[int]) -> AgentShard:
    """Returns agents that have taken their first update, so that all is compiled."""
    keys = [LifeKey(0, "benchmark", 0, index) for index in indices]
    objective = LSTMObjective(len(keys), experiment.objective, experiment.agent.discount)
    objective.load(stacked(initial_parameters(loss_generator(0), experiment.objective), len(keys)))
    steps = experiment.agent.policy_delay * (
        _UPDATES.value * _REPEATS.value + experiment.agent.updates_after + 1
    )
    shard = AgentShard(
        named_environment(experiment.environments[0]),
        keys,
        objective,
        ShardSettings(
            experiment.agent, experiment.meta, steps, Lifetimes(0, np.zeros(len(keys), np.int64))
        ),
    )
    shard.begin_round()
    while shard.advance() is None:
        pass
    shard.seconds = dict.fromkeys(PARTS, 0.0)
    return shard


def _seconds(shards: list[AgentShard]) -> float:
    """Returns how long all shards take, one after the other at every update."""
    started = time.perf_counter()
    for _ in range(_UPDATES.value):
        for shard in shards:
            shard.advance()
    return time.perf_counter() - started


if __name__ == "__main__":
    command_line.run(main)
