"""Describes an exported objective to its users: inputs, sizes, rules, origin."""

from __future__ import annotations

from typing import Any

from epg_tf.artifacts import loss_files
from epg_tf.artifacts.exported_objective import PREDICTED, input_specs
from epg_tf.artifacts.learned_objective import LearnedObjective
from epg_tf.core.metagenrl_experiment import AgentConfig

FORMAT_VERSION = 1

_LETTERS = ("P", "B", None, "A")  # of axes; the third is the length of chunks

_MEANINGS = {
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


def describe_objective(learned: LearnedObjective) -> dict[str, Any]:
    """Returns what a user of an exported objective must know, for JSON: sizes, inputs, rules,
    origin.
    """
    experiment, agent = learned.experiment, learned.experiment.agent
    units = ", as scaled by `agent.reward_rule`" if agent.scale_rewards else ""
    inputs = {
        name: {
            "shape": [
                agent.chunk if letter is None else letter for letter in _LETTERS[: len(spec.shape)]
            ],
            "type": spec.dtype.name,
            "meaning": _MEANINGS[name].format(units),
        }
        for name, spec in input_specs(agent.chunk).items()
    }
    return {
        "format_version": FORMAT_VERSION,
        "kind": "exported_lstm_objective",
        "environments": list(experiment.environments),
        "chunk": agent.chunk,
        "inputs": inputs,
        "reduction": "sum over the steps of a chunk, mean over chunks; lower is better",
        "normalisation": "none by the caller: rewards and values are standardised inside, over an "
        "agent's batch",
        "agent": _agent(agent),
        "parameters": learned.parameters.size,
        "phi_sha256": loss_files.checksum(learned.parameters),
        "facts": learned.facts,
    }


def _agent(agent: AgentConfig) -> dict[str, Any]:
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
