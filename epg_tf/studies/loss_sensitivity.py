"""Measures which inputs the loss of one step depends on, and how far away in time (EPG, Figure 21;
first version, Figure 9 and section 4.6).
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import tensorflow as tf

from epg_tf.artifacts.artifact import LearnedLoss
from epg_tf.baselines.method import Request
from epg_tf.core.errors import ConfigError
from epg_tf.core.types import Array
from epg_tf.epg.learner import Learner, RawExperience
from epg_tf.evaluation.statistics import confidence_interval, median_interval
from epg_tf.losses.channels import CONSTANT, HISTORY, MINIBATCH, POLICY, SCORED
from epg_tf.losses.contract import Experience
from epg_tf.losses.temporal_conv import TemporalConv
from epg_tf.studies.analysed_lives import observe_lives

STEP = 25  # of the papers


@dataclasses.dataclass(frozen=True, eq=False)
class LossSensitivity:
    """How the loss of one step depends on each input at each step of the buffer.

    Attributes:
      channels: Names of the C' inputs that the loss declares, in its order.
      norms: [C', L, N] Euclidean norms of dL_t / dx_s over the components of an input, oldest step
        first; of L lives.
      step: Index of t in the buffer, 0 to N - 1.
      lived: [N] bool, False in the padding of a buffer that is not full.
    """

    channels: tuple[str, ...]
    norms: Array
    step: int
    lived: Array


def measure_loss_sensitivity(
    learned: LearnedLoss, request: Request, step: int = STEP
) -> LossSensitivity:
    """Trains L agents by the loss alone and differentiates the loss of a step at the last update.

    Args:
      learned: The loss.
      request: From `analysed_lives.analysis_request`.
      step: t, a number among the newest M steps, which are those that are scored; 0 is the oldest.

    Raises:
      ConfigError: The newest M steps have no such step.
    """
    inner, steps = learned.experiment.inner, learned.experiment.loss.buffer_steps
    if not 0 <= step < inner.update_period:
        raise ConfigError(
            f"step={step} is not scored; choose one of the newest M steps, 0 to "
            f"config.inner.update_period - 1 = {inner.update_period - 1}"
        )
    updates = request.env_steps // inner.update_period
    found: list[LossSensitivity] = []
    seen = 0

    def look(learner: Learner, raw: RawExperience, order: tf.Tensor) -> None:
        nonlocal seen
        del order
        seen += 1
        if seen < updates:
            return
        inputs = loss_inputs(learner, learner.experience(raw))
        slopes = input_gradients(learner.loss.network, learner.loss.params, inputs, step)
        norms = np.stack([np.linalg.norm(slope, axis=2) for slope in slopes.values()])
        place = steps - inner.update_period + step
        found.append(LossSensitivity(tuple(slopes), norms, place, np.asarray(raw.lived) > 0.0))

    observe_lives(learned, request, look)
    return found[0]


def loss_inputs(learner: Learner, experience: Experience) -> dict[str, tf.Tensor]:
    """Returns all inputs of the learned losses of P agents, name -> [P, N, width], in their order.

    What is the same at all steps (log deviations, the memory) is repeated for each of them. The log
    probability of an action is known, and scored, at the newest M steps alone; elsewhere it is 0.

    Args:
      learner: Has the agents and their losses.
      experience: The buffer.
    """
    network, agent = learner.loss.network, learner.agent
    observation = experience.observation
    steps = observation.shape[1]
    by_kind = {HISTORY: [experience.channel(name) for name in network.names(HISTORY)]}
    memory = agent.memory_output()
    constants = [agent.policy.shared_output] if "policy_log_std" in network.names(CONSTANT) else []
    constants += [] if memory is None else [memory]
    by_kind[CONSTANT] = [tf.repeat(constant[:, None], steps, axis=1) for constant in constants]
    widths = [channel.width for channel in network.channels if channel.kind == POLICY]
    seen = agent.policy.loss_input(observation)
    by_kind[POLICY] = tf.split(seen, widths, axis=2) if widths else []
    by_kind[SCORED] = []
    if network.names(SCORED):
        newest = observation[:, -network.update_period :]
        log_prob = agent.policy.log_prob_from(
            agent.policy(newest), agent.policy.shared_output, experience.raw_action
        )
        by_kind[SCORED] = [tf.pad(log_prob, [[0, 0], [steps - network.update_period, 0], [0, 0]])]
    named = {
        name: values
        for kind, inputs in by_kind.items()
        for name, values in zip(network.names(kind), inputs, strict=True)
    }
    return {channel.name: named[channel.name] for channel in network.channels}


def input_gradients(
    network: TemporalConv, params: Any, inputs: dict[str, tf.Tensor], step: int
) -> dict[str, Array]:
    """Differentiates the loss of a step by all inputs, each on its own: policy outputs do
    not follow the observations that they were computed from.

    The network declares channels that are the same at all steps as if they were recorded, which is
    the same function of them; so their effect is seen step by step, too.

    Args:
      network: The loss as a pure function.
      params: Its weights, of P lives.
      inputs: From `loss_inputs`.
      step: t, among the newest M.

    Returns:
      Name -> dL_t / dx_s, [P, N, width].
    """
    recorded = tuple(
        dataclasses.replace(channel, kind=HISTORY) if channel.kind == CONSTANT else channel
        for channel in network.channels
    )
    spread = dataclasses.replace(network, channels=recorded)
    population = next(iter(inputs.values())).shape[0]
    minibatch = tf.fill([population, 1], step)
    with tf.GradientTape() as tape:
        tape.watch(inputs)
        loss = tf.reduce_sum(spread.losses(params, {**inputs, MINIBATCH: minibatch}))
    slopes = tape.gradient(loss, inputs, unconnected_gradients=tf.UnconnectedGradients.ZERO)
    return {name: slope.numpy() for name, slope in slopes.items()}


def summarize_loss_sensitivity(found: LossSensitivity) -> dict[str, Any]:
    """Returns the numbers of Figure 21, of each input, over the steps that were lived.

    Returns:
      Name -> `at_step`, the norm at t, and `elsewhere`, the mean norm at other steps, both means
      over lives with their `ci95`; `at_step_over_largest_elsewhere`, its median over lives with
      `ci95`; `lives_with_peak`, the share of lives whose largest norm is that at t; and
      `steps_with_effect`, the share of other steps whose norm is not 0.
    """
    others = found.lived.copy()
    others[found.step] = False
    if not others.any():
        raise ValueError("there is one lived step; ask for a longer life")
    return {
        name: _numbers(norms[:, found.step].astype(np.float64), norms[:, others])
        for name, norms in zip(found.channels, found.norms, strict=True)
    }


def _numbers(at_step: Array, elsewhere: Array) -> dict[str, Any]:
    """Returns the numbers of one input from its norms at t, [L], and at other steps, [L, S]."""
    largest, mean = elsewhere.max(axis=1), elsewhere.mean(axis=1, dtype=np.float64)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = at_step / largest
    ratio = ratio[~np.isnan(ratio)]  # of inputs that the loss depends on at all
    return {
        "at_step": {"mean": float(at_step.mean()), "ci95": confidence_interval(at_step)},
        "elsewhere": {"mean": float(mean.mean()), "ci95": confidence_interval(mean)},
        "at_step_over_largest_elsewhere": {
            "median": float(np.median(ratio)) if len(ratio) else float("nan"),
            "ci95": median_interval(ratio),
        },
        "lives_with_peak": float(np.mean(at_step > largest)),
        "steps_with_effect": float(np.mean(elsewhere > 0.0)),
    }


def loss_sensitivity_rows(found: LossSensitivity) -> list[dict[str, float | int | str]]:
    """Returns the tidy table: one row per input, life and lived step; steps are numbered as in the
    buffer.
    """
    return [
        {
            "channel": channel,
            "life": life,
            "step": step,
            "scored_step": found.step,
            "norm": float(norm),
        }
        for channel, norms in zip(found.channels, found.norms, strict=True)
        for (life, step), norm in np.ndenumerate(norms)
        if found.lived[step]
    ]
