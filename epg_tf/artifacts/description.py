"""Describes an export to its users: inputs, sizes, rules, origin."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from epg_tf.agents.normalizer import DEVIATION_FLOOR
from epg_tf.artifacts import loss_files
from epg_tf.artifacts.artifact import Artifact, interface
from epg_tf.artifacts.exported import PREDICTED, loss_inputs, objective_inputs
from epg_tf.core.parameters import parameter_count
from epg_tf.epg.meta_parameters import evolves_loss, evolves_policy, start_shapes
from epg_tf.epg.settings import Experiment
from epg_tf.losses.channels import MINIBATCH, Channel
from epg_tf.losses.extra_channels import extra_channel, meaning_of
from epg_tf.metagenrl.settings import AgentConfig, MetaGenRLExperiment
from epg_tf.tasks.registry import make_family
from epg_tf.tasks.settings import TaskConfig

FORMAT_VERSION = 1
NOT_CENTRED = 2  # format version where observations are not centred, which version 1 does not know
PAIRS = 3  # format version where policies see products of pairs, which earlier ones do not know

_MEANINGS = {
    "observation": "what the agent saw before acting, in `units`, normalised",
    "action": "what it did, as sampled, in `units`, before any clipping to bounds (one-hot where "
    "actions are discrete), normalised",
    "reward": "what it received, normalised",
    "termination": "1 where an episode ended{}, else 0",
    "policy_mean": "the policy's mean at each observation, as it is now, in units of actions (not "
    "normalised)",
    "policy_probability": "the policy's probability of each action at each observation, as it is "
    "now",
    "policy_log_std": "the policy's log standard deviation{}",
    "memory": "the agent's memory, see `memory`",
    "policy_log_prob": "log probability, under the policy as it is now, of the action as sampled: "
    "of each component, or of the choice in each part; only the newest M steps are read",
    "action_effects": "coefficients [A, O], flattened, of a ridge regression of the change of each "
    "normalised observation to the next step on the normalised action and observation, see "
    "epg_tf.losses.action_effects",
    MINIBATCH: "which of the newest M steps to score, 0 the oldest of them",
}

_OBJECTIVE_MEANINGS = {
    "action": "what the agent did, in [-1, 1]: half the range of actions is 1",
    "reward": "what it received for that{}",
    "value": "the first critic's value of the state before it, of the action that the policy takes "
    "there now",
    "next_value": "the same of the state after it; 0 where the episode terminated (a time "
    "limit does not count)",
    "mask": "1 where there is a step, 0 in the padding behind the end of an episode; the first "
    "step of a chunk is no padding",
    PREDICTED: "what the policy does there now, in [-1, 1]; gradients flow through this alone",
}

_PAIRS_TOO = (
    ", then the products of all pairs j <= k of its components, (1, 1), (1, 2), ... (2, 2), ..."
)
_CENTRED = "(x - mean) / max(standard deviation of the population, floor)"
_ABOUT_ZERO = "x / max(root mean square, floor)"
_OVER = (
    ", over all steps of the life so far, the newest M included; the policy's input is normalised "
    "by the numbers of the newest update, and not at all before the first"
)
_BEFORE = (
    "Steps before the life began stand at the front and are zero where recorded; the policy is "
    "evaluated at them as at others"
)


def describe(learned: Artifact[Any]) -> dict[str, Any]:
    """Returns what a user of an export must know, for JSON: sizes, inputs, rules, origin.

    An initial policy without a loss has no inputs; its agents learn by a policy-gradient loss,
    which `surrogate` holds.
    """
    experiment = learned.experiment
    objective = isinstance(experiment, MetaGenRLExperiment)
    return {
        **(_of_objective(experiment) if objective else _of_loss(experiment)),
        "parameters": learned.phi.size,
        "phi_sha256": loss_files.checksum(learned.phi),
        "facts": learned.facts,
    }


def _of_objective(experiment: MetaGenRLExperiment) -> dict[str, Any]:
    agent = experiment.agent
    units = ", as scaled by `agent.reward_rule`" if agent.scale_rewards else ""
    meanings = {name: text.format(units) for name, text in _OBJECTIVE_MEANINGS.items()}
    return {
        "format_version": FORMAT_VERSION,
        "kind": "exported_lstm_objective",
        "environments": list(experiment.environments),
        "chunk": agent.chunk,
        "inputs": _inputs(objective_inputs(agent.chunk), meanings),
        "reduction": "sum over the steps of a chunk, mean over chunks; lower is better",
        "normalisation": "none by the caller: rewards and values are standardised inside, over an "
        "agent's batch",
        "agent": _td3_agent(agent),
    }


def _inputs(specs: Mapping[str, tf.TensorSpec], meanings: Mapping[str, str]) -> dict[str, Any]:
    """Returns what each input is; letters stand for sizes of axes that the caller chooses."""
    return {
        name: {
            "shape": [size or letter for letter, size in zip("PBTA", spec.shape, strict=False)],
            "type": spec.dtype.name,
            "meaning": meanings[name],
        }
        for name, spec in specs.items()
    }


def _of_loss(experiment: Experiment) -> dict[str, Any]:
    known = interface(experiment)
    alone = not evolves_loss(experiment)
    alpha = 1.0 if alone else experiment.evolution.final_guidance
    return {
        "format_version": _version(experiment),
        **known,
        "kind": "exported_initial_policy" if alone else "exported_temporal_conv_loss",
        "task": dataclasses.asdict(experiment.task),
        "units": _units(experiment.task),
        "update_period": experiment.inner.update_period,
        "minibatch": experiment.inner.minibatch,
        **(_policy_alone(experiment) if alone else _loss(experiment, known)),
        "guidance": alpha,
        "guidance_rule": "agents minimise (1 - guidance) * loss + guidance * surrogate",
        "surrogate": dataclasses.asdict(experiment.surrogate) if alpha else None,
        "agent": _agent(experiment),
        "initial_policy": _initial_policy(experiment),
    }


def _units(task: TaskConfig) -> dict[str, Any]:
    """Returns what lies between a policy and the environment."""
    family = make_family(task)
    actions, observations = (
        None if units is None else [part.tolist() for part in units]
        for units in (family.action_units, family.observation_units)
    )
    return {
        "actions": actions,
        "action_rule": "the environment gets middle + half * action, clipped to its bounds, where "
        "`actions` is [middle, half]; the action itself, clipped, where it is null. So a policy's "
        "actions are in [-1, 1] in any environment with bounds",
        "observations": observations,
        "observation_rule": "the policy and the loss get (observation - shift) * scale, where "
        "`observations` is [shift, scale]; the observation itself where it is null. In another "
        "environment choose them so that each component is near 1",
    }


def _version(experiment: Experiment) -> int:
    """Returns the format version, so that no reader of an earlier one misuses an export."""
    if experiment.policy.observation_pairs:
        return PAIRS
    return FORMAT_VERSION if experiment.inner.centred_observations else NOT_CENTRED


def _loss(experiment: Experiment, known: dict[str, Any]) -> dict[str, Any]:
    """Returns what an export's loss is given, and how."""
    loss, specs = experiment.loss, loss_inputs(channels_of(known), experiment.loss)
    meanings = {name: _meaning(name, experiment) for name in specs}
    return {
        "buffer_steps": loss.buffer_steps,
        "inputs": _inputs(specs, meanings),
        "reduction": "mean",
        "termination_marks_time_limits": loss.truncation_as_end,
        "normalisation": _rules(
            [name for name in specs if name in ("observation", "action", "reward")],
            f"{_rule(experiment, False)}. {_BEFORE}",
            experiment,
        ),
        "memory": {
            "inputs": loss.memory_inputs,
            "units": loss.memory_units,
            "rule": "tanh of the sum over inputs of a kernel [inputs, units], zero at first, "
            "learned with the policy",
        }
        if loss.memory_units
        else None,
    }


def _policy_alone(experiment: Experiment) -> dict[str, Any]:
    """Returns what agents see who learn from an initial policy by a policy gradient alone."""
    return {
        "inputs": {},
        "normalisation": _rules(["observation"], _rule(experiment, True), experiment),
        "memory": None,
    }


def _meaning(name: str, experiment: Experiment) -> str:
    """Returns what an input is."""
    loss = experiment.loss
    if name in loss.channels:
        return meaning_of(extra_channel(name), loss)
    by_state = " at each observation, as it is now"
    endings = {
        "termination": ", also at a time limit"
        if loss.truncation_as_end
        else " by termination, not at a time limit",
        "policy_log_std": by_state
        if experiment.policy.state_dependent_std
        else ", which no state changes",
    }
    return _MEANINGS[name].format(endings.get(name, ""))


def _rule(experiment: Experiment, observations_alone: bool) -> str:
    """Returns how inputs are normalised."""
    if experiment.inner.centred_observations:
        return _CENTRED + _OVER
    if observations_alone:
        return _ABOUT_ZERO + _OVER
    return f"{_CENTRED}, but of observations {_ABOUT_ZERO}{_OVER}"


def _rules(channels: list[str], rule: str, experiment: Experiment) -> dict[str, Any]:
    return {
        "channels": channels,
        "rule": rule,
        "about_zero": [] if experiment.inner.centred_observations else ["observation"],
        "floor": DEVIATION_FLOOR,
    }


def _agent(experiment: Experiment) -> dict[str, Any]:
    policy, inner = experiment.policy, experiment.inner
    return {
        "hidden": list(policy.hidden),
        "inputs": "the normalised observation" + _PAIRS_TOO * policy.observation_pairs,
        "activation": policy.activation,
        "log_std": policy.log_std,
        "state_dependent_std": policy.state_dependent_std,
        "last_kernel_norm": policy.output_scale,
        "optimizer": "Adam, beta 0.9 and 0.999",
        "learning_rate": inner.learning_rate,
        "kl_limit": inner.kl_limit,
        "kl_rule": f"an update whose mean KL(before, after) over the newest M steps exceeds "
        f"{inner.kl_limit:g} nats has its step of the policy multiplied by "
        f"sqrt({inner.kl_limit:g} / KL)"
        if inner.kl_limit
        else "no limit",
        "updates": inner.updates,
        "rule": "after every M env steps: one gradient step on each of M / minibatch "
        "minibatches, which together hold each of the newest M steps once",
    }


def _initial_policy(experiment: Experiment) -> dict[str, Any] | None:
    """Returns the shapes of an evolved initial policy, or None where agents start afresh."""
    if not evolves_policy(experiment):
        return None
    shapes = start_shapes(experiment)
    return {
        "shapes": {name: list(shape) for name, shape in shapes.items()},
        "parameters": parameter_count(shapes),
        "rule": "every agent starts from these weights, the last of `parameters`; the function "
        "initial_policy returns them by name",
    }


def channels_of(known: dict[str, Any]) -> list[Channel]:
    """Returns the channels that `artifact.interface` lists."""
    return [Channel(**channel) for channel in known["channels"]]


def _td3_agent(agent: AgentConfig) -> dict[str, Any]:
    return {
        "hidden": list(agent.hidden),
        "layers": "policy and twin critics: dense, layer norm, ReLU; the policy ends in tanh",
        "optimizer": "Adam, beta 0.9 and 0.999",
        "learning_rate": agent.policy_learning_rate,
        "critic_learning_rate": agent.critic_learning_rate,
        "gradient_rule": f"gradients are scaled down to a norm of at most {agent.clip:g}",
        "clip": agent.clip,
        "discount": agent.discount,
        "batch": agent.batch,
        "policy_delay": agent.policy_delay,
        "tau": agent.tau,
        "exploration": agent.exploration,
        "target_policy_noise": agent.target_policy_noise,
        "target_policy_noise_clip": agent.target_policy_noise_clip,
        "random_steps": agent.random_steps,
        "updates_after": agent.updates_after,
        "replay_steps": agent.replay_steps,
        "reward_rule": "divided by the root mean square of the rewards before the first update, "
        "where that is above 1"
        if agent.scale_rewards
        else "as received",
        "rule": "critics learn by TD3, one update per env step on a batch of chunks; the policy "
        "takes one step against the gradient of the objective every policy_delay of them",
    }
