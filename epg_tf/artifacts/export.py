"""Turns a learned loss into a SavedModel that needs only TensorFlow, and describes its inputs."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from epg_tf.agents.normalizer import DEVIATION_FLOOR
from epg_tf.artifacts import loss_files, saved_models
from epg_tf.artifacts.exported_loss import ExportedLoss, input_specs
from epg_tf.artifacts.learned_loss import LearnedLoss, interface, save_loss
from epg_tf.core import files
from epg_tf.core.errors import RecordError
from epg_tf.losses.channels import MINIBATCH, Channel

FORMAT_VERSION = 1
MARKERS = ("loss.json", "card.md")  # of an export; a run's losses have no card

_BUFFER_LIMIT = 2**16  # steps; the papers' have 512 and 1024
_TOLERANCE = 1e-6  # relative, of losses and gradients that were written and read again

_MEANINGS = {
    "observation": "what the agent saw before acting, normalised",
    "action": "what it did, as sampled, before any clipping to bounds (one-hot where actions are "
    "discrete), normalised",
    "reward": "what it received, normalised",
    "termination": "1 where an episode ended{}, else 0",
    "policy_mean": "the policy's mean at each observation, as it is now, in units of actions (not "
    "normalised)",
    "policy_probability": "the policy's probability of each action at each observation, as it is "
    "now",
    "policy_log_std": "the policy's log standard deviation, which no state changes",
    "memory": "the agent's memory, see `memory`",
    MINIBATCH: "which of the newest M steps to score, 0 the oldest of them",
}


def describe(learned: LearnedLoss) -> dict[str, Any]:
    """Returns what a user of an exported loss must know, for JSON: sizes, inputs, rules, origin."""
    experiment = learned.experiment
    loss, inner, policy = experiment.loss, experiment.inner, experiment.policy
    known = interface(experiment)
    end = ", also at a time limit" if loss.truncation_as_end else " for good, not at a time limit"
    inputs = {
        name: {
            "shape": _letters(name, spec.shape),
            "type": spec.dtype.name,
            "meaning": _MEANINGS[name].format(end),
        }
        for name, spec in input_specs(_channels(known), loss).items()
    }
    return {
        "format_version": FORMAT_VERSION,
        **known,
        "kind": "exported_temporal_conv_loss",
        "task": dataclasses.asdict(experiment.task),
        "buffer_steps": loss.buffer_steps,
        "update_period": inner.update_period,
        "minibatch": inner.minibatch,
        "inputs": inputs,
        "reduction": loss.reduction,
        "termination_marks_time_limits": loss.truncation_as_end,
        "normalisation": {
            "channels": [
                c["name"]
                for c in known["channels"]
                if c["name"] in ("observation", "action", "reward")
            ],
            "rule": "(x - mean) / max(standard deviation of the population, floor), over all "
            "steps of the life so far, the newest M included; the policy's input is normalised by "
            "the numbers of the newest update, and not at all before the first. Steps before the "
            "life began stand at the front and are zero where recorded; the policy is evaluated "
            "at them as at others",
            "floor": DEVIATION_FLOOR,
        },
        "memory": {
            "inputs": loss.memory_inputs,
            "units": loss.memory_units,
            "rule": "tanh of the sum over inputs of a kernel [inputs, units], zero at first, "
            "learned with the policy",
        }
        if loss.memory_units
        else None,
        "agent": {
            "hidden": list(policy.hidden),
            "activation": policy.activation,
            "log_std": policy.log_std,
            "last_kernel_norm": policy.output_scale,
            "optimizer": "Adam, beta 0.9 and 0.999",
            "learning_rate": inner.learning_rate,
            "updates": inner.updates,
            "rule": "after every M env steps: one gradient step on each of M / minibatch "
            "minibatches, which together hold each of the newest M steps once",
        },
        "parameters": learned.phi.size,
        "phi_sha256": loss_files.checksum(learned.phi),
        "facts": learned.facts,
    }


def export_loss(learned: LearnedLoss, folder: files.PathLike, card: str) -> float:
    """Writes a loss as a SavedModel, with phi, its description and a card, and reads it again.

    Args:
      learned: The loss.
      folder: Exists; files of an earlier export are replaced once the new one is complete.
      card: Text of card.md.

    Returns:
      The largest difference between the loss and what was read, see `largest_difference`.

    Raises:
      RecordError: That is above 1e-6, the buffer is too long, or files cannot be written; nothing
      was replaced.
    """
    differences, loss = [], learned.experiment.loss
    if loss.buffer_steps > _BUFFER_LIMIT:
        raise RecordError(
            f"config.loss.buffer_steps={loss.buffer_steps} of the loss is above {_BUFFER_LIMIT}, "
            f"more than exports are tested with; use a loss with a shorter buffer"
        )

    def write(temporary: str) -> None:
        module = _module(learned)
        options = tf.saved_model.SaveOptions(save_debug_info=False)
        tf.saved_model.save(module, temporary, signatures=module.signatures(), options=options)
        save_loss(temporary, learned.phi, learned.experiment, learned.facts)
        (Path(temporary) / "card.md").write_text(card, encoding="utf-8")
        differences.append(largest_difference(learned, temporary))
        if not differences[0] <= _TOLERANCE:
            raise RecordError(
                f"{folder}: the SavedModel that was read again differs by {differences[0]:.1e} and "
                "was not kept; check phi for huge parameters, which overflow, or report this"
            )

    saved_models.write_saved_model(folder, write)
    return differences[0]


def largest_difference(learned: LearnedLoss, folder: files.PathLike, agents: int = 3) -> float:
    """Opens an exported loss and compares it with `learned` on random inputs.

    Returns:
      The largest difference of losses, the tape's gradients and the signature's, relative to the
      largest value.

    Raises:
      RecordError: What is in `folder` cannot be opened.
    """
    exported, own = saved_models.open_saved_model(folder), _module(learned)
    generator, inner = np.random.default_rng(0), learned.experiment.inner
    specs = input_specs(_channels(interface(learned.experiment)), learned.experiment.loss)
    inputs = {
        name: tf.constant(generator.standard_normal([agents, *spec.shape[1:]]), tf.float32)
        for name, spec in specs.items()
        if name != MINIBATCH
    }
    order = generator.integers(inner.update_period, size=(agents, inner.minibatch))
    inputs[MINIBATCH] = tf.constant(order, tf.int32)
    gradients = own.gradients(inputs)
    moved = {name: inputs[name] for name in gradients}
    with tf.GradientTape() as tape:
        tape.watch(moved)
        found = exported.loss(inputs | moved)
        total = tf.reduce_sum(found["loss"])
    by_tape = tape.gradient(total, moved, unconnected_gradients="zero")
    by_name = exported.signatures["gradients"](**inputs)
    pairs = [(found["per_step"], own.loss(inputs)["per_step"])]
    pairs += [(other[name], gradients[name]) for other in (by_tape, by_name) for name in moved]
    return max(_relative(one, other) for one, other in pairs)


def _relative(found: tf.Tensor, expected: tf.Tensor) -> float:
    scale = float(tf.reduce_max(tf.abs(expected)))
    return float(tf.reduce_max(tf.abs(found - expected))) / (scale or 1.0)


def _module(learned: LearnedLoss) -> ExportedLoss:
    experiment = learned.experiment
    return ExportedLoss(
        learned.phi,
        _channels(interface(experiment)),
        experiment.loss,
        experiment.inner.update_period,
        json.dumps(files.plain(describe(learned))),
    )


def _channels(known: dict[str, Any]) -> list[Channel]:
    return [Channel(**channel) for channel in known["channels"]]


def _letters(name: str, shape: tf.TensorShape) -> list[str | int]:
    """Returns a shape with the legend's letters for what the caller chooses."""
    return ["P", "B"] if name == MINIBATCH else ["P", *shape[1:]]
