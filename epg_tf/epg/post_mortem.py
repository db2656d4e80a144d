"""Finds out why lives failed, by living some of them again."""

from __future__ import annotations

import dataclasses
import itertools
import threading

import numpy as np

from epg_tf.core.types import Array
from epg_tf.epg.epoch_plan import PerturbedPhi, life_keys, life_tasks
from epg_tf.epg.inner_loop import InnerLoop
from epg_tf.epg.outer_loop import teaching_in
from epg_tf.epg.past_policies import starts_of
from epg_tf.epg.settings import Experiment
from epg_tf.epg.shards import lives_of_shards
from epg_tf.epg.state import EvolutionState
from epg_tf.tasks.base import Simulation, StepResult
from epg_tf.tasks.registry import make_family


def why_lives_failed(
    experiment: Experiment, seed: int, state: EvolutionState, stop: threading.Event
) -> str:
    """Lives the first shard of an epoch again and says what failed first.

    Args:
      experiment: Settings.
      seed: Of the run.
      state: Before the epoch.
      stop: When set, the lives end early.

    Returns:
      Which life failed first, and whether in its environment or in its learning.

    Raises:
      Interrupted: `stop` was set.
    """
    size = experiment.compute.shard_lives
    keys = life_keys(experiment.evolution, seed, state.epoch)
    own = lives_of_shards(life_tasks(experiment), size)[0]
    shard = own + own[-1:] * (size - len(own))
    phi_of_life = PerturbedPhi(experiment.evolution, seed, state, cached=2)
    phi: Array = np.stack([phi_of_life(life) for life in shard])
    alone = experiment.of_task(0)
    loop = InnerLoop(alone, make_family(alone.task), stop=stop)
    diverged, numbers = list[str](), itertools.count(1)

    def watch(simulation: Simulation, result: StepResult) -> None:
        """Notes the env step in which the first of the lives diverged."""
        step = next(numbers)
        if not diverged and result.diverged.any():
            life = shard[int(np.flatnonzero(result.diverged)[0])]
            diverged.append(f"in life {life} {simulation.divergence} at env step {step}")

    starts = starts_of(experiment, state.past, keys, keep=False)
    inner_settings = teaching_in(experiment, seed, state.epoch)
    inner_settings = dataclasses.replace(inner_settings, starts=starts).of(shard)
    lives = loop.run([keys[life] for life in shard], phi, inner_settings, watch)
    if diverged:
        return diverged[0]
    failed = np.flatnonzero(lives.failed)
    if not failed.size:
        return "lived again, the first lives do not fail"
    return f"in life {shard[failed[0]]} the loss or its gradient was not finite"
