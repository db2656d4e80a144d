"""The cost of meta-training by the published protocols, beside that of losses which were evolved:
the example of an analysis that reads losses.
"""

from __future__ import annotations

import functools

from epg_tf.artifacts.artifact import load_loss
from epg_tf.core.experiment import Experiment
from epg_tf.core.formatting import count
from epg_tf.figures.costs import run_env_steps, sequential_env_steps
from epg_tf.figures.declaration import Findings, Found, Row
from epg_tf.figures.settings import wanted
from epg_tf.reports.table_pictures import bars

PROTOCOLS = {
    "RandomHopper": "random_hopper:paper",
    "RandomWalker": "random_walker:paper",
    "RandomReacher": "random_reacher:paper",
    "RandomReacher, first version": "random_reacher:paper_v1",
    "DirectionalHopper": "directional_hopper:paper",
    "DirectionalHalfCheetah": "directional_half_cheetah:paper",
    "GoalAnt": "goal_ant:paper",
    "Fetch": "fetch:paper",
}
"""Name of a protocol -> its config."""


def meta_training_cost(found: Found) -> Findings:
    """Computes the env steps of all lives of each protocol, final episodes at their longest, and
    those that a worker takes one after the other; and what the losses found here took.
    """
    rows: list[Row] = [_protocol(name, config) for name, config in PROTOCOLS.items()]
    for need, loss in found.losses:
        learned = load_loss(loss.name)
        steps = (learned.experiment.life_steps, sequential_env_steps(learned.experiment))
        taken = int(learned.facts["env_steps"])
        rows.append(_row(f"ours: {need.label}", loss.name, *steps, taken, 1))
    numbers = [
        f"{row['protocol']}: {count(float(row['sequential_env_steps']))} env steps one after the "
        f"other, {count(float(row['env_steps']))} in all"
        for row in rows
    ]
    values = {str(row["protocol"]): float(row["env_steps"]) for row in rows}
    faint = [str(row["protocol"]) for row in rows if not row["measured"]]
    draw = functools.partial(
        bars, values, x_label="env steps of meta-training (grey: computed)", faint=faint
    )
    return Findings(rows, numbers, draw)


def _protocol(name: str, config: str) -> Row:
    experiment = wanted(config)
    assert isinstance(experiment, Experiment)
    total = int(run_env_steps(experiment))
    return _row(name, config, experiment.life_steps, sequential_env_steps(experiment), total, 0)


def _row(name: str, source: str, life: int, sequential: int, total: int, measured: int) -> Row:
    return {
        "protocol": name,
        "source": source,
        "env_steps_of_a_life": life,
        "sequential_env_steps": sequential,
        "env_steps": total,
        "measured": measured,
    }
