"""Evolves one linear policy for all tasks of a family, within a number of seconds: what a loss must
beat where its agents are to adapt, and what a loss can begin around.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from epg_tf.artifacts.artifact import LearnedLoss, load_loss, save
from epg_tf.artifacts.loss_files import holds_loss
from epg_tf.epg import presets
from epg_tf.epg.outer_loop import evolve
from epg_tf.epg.shards import Shards
from epg_tf.epg.state import initial_state
from epg_tf.tasks.settings import TaskConfig

FOLDER = "zero_shot_linear"
"""Its name beside a loss."""


def evolved_policy(
    task: TaskConfig, seed: int, seconds: float, folder: Path, check: Callable[[], None]
) -> LearnedLoss:
    """Evolves the policy and writes it to `FOLDER` in a folder; returns the one that is there.

    Args:
      task: The family.
      seed: Of all randomness.
      seconds: After which no other epoch begins.
      folder: Of the loss.
      check: Called after each epoch; may raise Interrupted.
    """
    path = folder / FOLDER
    if not holds_loss(path):  # its description is written last
        end = time.monotonic() + seconds
        settings = presets.fixed_policy(task)
        state = initial_state(settings, seed)
        with Shards(settings) as shards:
            for result in evolve(settings, seed, state, shards):
                state = result.state
                check()
                if time.monotonic() > end:
                    break
        facts = {"seed": seed, "env_steps": state.env_steps, "epoch": state.epoch}
        save(path, state.phi, settings, facts)
    return load_loss(path)
