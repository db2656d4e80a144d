"""Announces what a user may not expect of a run: units of policies, and minutes without a word."""

from __future__ import annotations

import dataclasses
import time

import numpy as np

from epg_tf.agents.policies import network_sizes
from epg_tf.core.formatting import count, duration
from epg_tf.epg.settings import Experiment
from epg_tf.metagenrl.settings import MetaGenRLExperiment
from epg_tf.tasks import units
from epg_tf.tasks.bodies import BodyFamily
from epg_tf.tasks.registry import make_family, named_environment, simulate

LONG = 60.0  # s
_TRIED = 50  # physics steps that are timed
_OPERATIONS_PER_SECOND = 2e10  # of one thread, about
_COMPILE_SECONDS = 0.1  # for a step of a chunk and a virtual step, about


def evolution_waits(experiment: Experiment) -> list[str]:
    """Returns a line for units that differ from the environment's, and for what takes a shard long
    between two looks at the clock.
    """
    alone = [experiment.of_task(number) for number in range(len(experiment.tasks))]
    return [line for one in alone for line in _waits_of_task(one)]


def _waits_of_task(experiment: Experiment) -> list[str]:
    lives, inner, loss = experiment.compute.shard_lives, experiment.inner, experiment.loss
    family = make_family(experiment.task)
    lines = units.remarks(family)
    if isinstance(family, BodyFamily):
        steps = lives * inner.update_period * family.physics_steps
        # Only what can be long is measured: no physics step takes 10 ms.
        if steps * 0.01 > LONG and (seconds := steps * _physics_seconds(experiment)) > LONG:
            lines.append(
                f"slow: {inner.update_period} env steps of a shard of {lives} lives are "
                f"{count(steps)} physics steps and take about {duration(seconds)}, in which the "
                f"run cannot stop; config.task.frame_skip={experiment.task.frame_skip} sets them"
            )
    sizes = network_sizes(family.spec, experiment.policy)
    weights = sum(before * after for before, after in zip(sizes[:-1], sizes[1:], strict=True))
    minibatches = inner.update_period // inner.minibatch
    # A product is an addition and a multiplication, forwards and twice as many backwards.
    seconds = 6.0 * minibatches * lives * loss.buffer_steps * weights / _OPERATIONS_PER_SECOND
    if seconds > LONG:
        lines.append(
            f"slow: an update of a shard of {lives} lives takes about {duration(seconds)}, in "
            f"which the run cannot stop; config.loss.buffer_steps={loss.buffer_steps}, "
            f"config.policy.hidden={experiment.policy.hidden} and observation_pairs="
            f"{experiment.policy.observation_pairs} set it"
        )
    return lines


def _physics_seconds(experiment: Experiment) -> float:
    """Measures how long a physics step of one simulation takes."""
    family = make_family(dataclasses.replace(experiment.task, frame_skip=1))
    simulation = simulate(family, 1)
    generator = np.random.default_rng(0)
    simulation.set_tasks([family.sample_task(generator)])
    simulation.reset(np.arange(1), [generator])
    action = np.zeros((1, family.action_size))
    simulation.advance(action)
    started = time.perf_counter()
    for _ in range(_TRIED):
        simulation.advance(action)
    return (time.perf_counter() - started) / _TRIED


def metagenrl_waits(experiment: MetaGenRLExperiment) -> list[str]:
    """Returns a line for units that differ from an environment's, and where the compilation of the
    update takes long.
    """
    families = map(named_environment, experiment.environments)
    lines = [line for family in families for line in units.remarks(family)]
    chunk, virtual_steps = experiment.agent.chunk, experiment.meta.virtual_steps
    seconds = _COMPILE_SECONDS * chunk * virtual_steps
    if seconds <= LONG:
        return lines
    return [
        *lines,
        f"slow: the first update is compiled for about {duration(seconds)}, each step of a chunk "
        f"for itself; config.agent.chunk={chunk} and config.meta.virtual_steps={virtual_steps} "
        "set it",
    ]
