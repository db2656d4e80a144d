"""One update of P agents as a pure function: critics, then policies, targets, and the gradient of
the objective.

Compiled once per process for agents of the same sizes and settings, however many shards of them
there are.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import NamedTuple

import tensorflow as tf

from epg_tf.agents.deterministic import Weights, policy_action, weight_shapes
from epg_tf.core.gradients import finite_rows, per_row
from epg_tf.core.optimizers import adam_rows
from epg_tf.core.parameters import Params, flattened, unflattened
from epg_tf.losses.objectives import Chunks, Objective, total
from epg_tf.metagenrl import meta_gradient, td3
from epg_tf.metagenrl.settings import AgentConfig, MetaConfig


class Learned(NamedTuple):
    """A network that learns: P policies, [P, D], or P twin critics, [P, 2, D].

    All weights of a network are one vector, so that Adam takes a dozen operations, not a hundred.

    Attributes:
      weights: `agents.deterministic.Weights` side by side.
      target: The same, following them slowly.
      first: First moments of Adam.
      second: Second moments.
    """

    weights: tf.Tensor
    target: tf.Tensor
    first: tf.Tensor
    second: tf.Tensor


class AgentState(NamedTuple):
    """All that later updates of P agents depend on; `updates` [P] counts those of the policies."""

    policy: Learned
    critics: Learned
    updates: tf.Tensor


class UpdateInputs(NamedTuple):
    """What an update of P agents takes besides their state and the objective's params.

    Attributes:
      chunks: With another leading axis of K batches. Critics take the first ones, the objective as
        many as it needs, beginning with the first; the last batch measures its meta_loss. It has no
        step in common with the others once the replay holds K B chunks, see `Replay.draw`.
      target_noise: [policy_delay, P, B, T, A], standard normal.
      blend: Weight of the objective in the policies' gradient; the rest is DDPG's. Below 1 both
        gradients are first scaled to norm 1, since the two have no scale in common.
      policy_rate: Learning rate of the policies.
      active: [P], 1.0 or 0.0; agents that are not active keep their weights and do not contribute
        to the objective.
    """

    chunks: Chunks
    target_noise: tf.Tensor
    blend: tf.Tensor
    policy_rate: tf.Tensor
    active: tf.Tensor


class UpdateResult(NamedTuple):
    """What one update of P agents measured, as tensors or arrays.

    Attributes:
      objective_gradient: [P, D], each agent's; [P, 0] where the objective is not being learned.
      critic_error: [P], squared TD errors of both critics, added; mean over steps and updates.
      value: [P], the first critic's value of the policies, mean over a batch; after the virtual
        steps if any.
      agreement: [P], cosine of the angle between the objective's and DDPG's gradient of the policy.
      finite: [P] bool, whether all of this was, and the policy's gradients before they were
        clipped; where not, the agent stays as it is, except for its targets, and does not
        contribute to the objective.
    """

    objective_gradient: tf.Tensor
    critic_error: tf.Tensor
    value: tf.Tensor
    agreement: tf.Tensor
    finite: tf.Tensor


CompiledUpdate = Callable[[AgentState, Params, UpdateInputs], tuple[AgentState, UpdateResult]]


class NetworkSizes(NamedTuple):
    """Layer sizes of policies and critics, from input to output."""

    policy: tuple[int, ...]
    critics: tuple[int, ...]


def network_sizes(observation_size: int, action_size: int, agent: AgentConfig) -> NetworkSizes:
    """Returns the sizes of the networks of agents whose observations and actions are so long."""
    return NetworkSizes(
        (observation_size, *agent.hidden, action_size),
        (observation_size + action_size, *agent.hidden, 1),
    )


def batches_needed(agent: AgentConfig, meta: MetaConfig | None) -> int:
    """Returns K, how many batches of chunks an update takes."""
    if meta is None:
        return agent.policy_delay
    return max(agent.policy_delay, meta.virtual_steps) + 1


@functools.cache
def compiled_update(
    agent: AgentConfig, meta: MetaConfig | None, objective: Objective | None
) -> CompiledUpdate:
    """Returns the compiled update.

    Args:
      agent: Settings of agents.
      meta: How the objective is learned; None: it is frozen.
      objective: What policies minimise, as a pure function; None: they follow DDPG's gradient,
        with `meta` None.

    Returns:
      A function of (state, the objective's params, inputs) that returns the new state and
      `UpdateResult`. The params are the same throughout; they move afterwards, by the gradients of
      all agents, in `Population.run_round`.
    """

    def update(
        state: AgentState, params: Params, inputs: UpdateInputs
    ) -> tuple[AgentState, UpdateResult]:
        batches = [
            Chunks(*(field[number] for field in inputs.chunks))
            for number in range(batches_needed(agent, meta))
        ]
        sizes = _sizes(batches[0], agent)
        # Critics: `policy_delay` steps of TD3, a batch each.
        critics, error = _moved_critics(state, batches, inputs, agent)
        weights = unflattened(state.policy.weights, weight_shapes(sizes.policy))
        critic = unflattened(critics.weights[:, 0], weight_shapes(sizes.critics))
        # Policies: grad_theta L_alpha. The objective: grad_alpha of -Q1(s, pi_theta'(s)) (Eq. 6).
        ddpg = _ddpg_gradient(batches[0], weights, critic)
        if objective is None:
            gradient, objective_gradient = ddpg, tf.zeros([ddpg.shape[0], 0])
            value = -meta_gradient.meta_loss(batches[0], weights, critic)
        else:
            gradient, objective_gradient, value = _gradients(
                batches, weights, critic, params, meta, objective
            )
        # Agents that are not finite keep their weights, and give the objective no gradient.
        finite = finite_rows([error, value, objective_gradient, gradient, ddpg])
        active = inputs.active * tf.cast(finite, inputs.active.dtype)
        critics = _unless(finite, critics, state.critics)
        (blended,) = td3.clipped([_blended(gradient, ddpg, inputs.blend)], agent.clip)
        policy = _adam(state.policy, blended, state.updates + 1.0, inputs.policy_rate, active)
        # Targets: Polyak averages.
        policy, critics = (
            network._replace(target=td3.averaged(network.target, network.weights, agent.tau))
            for network in (policy, critics)
        )
        (scaled,) = (
            td3.unit([objective_gradient])
            if meta and meta.normalize_agent_gradients
            else td3.clipped([objective_gradient], agent.clip)
        )
        result = UpdateResult(
            objective_gradient=scaled * active[:, None],
            critic_error=error,
            value=value,
            agreement=td3.cosine([gradient], [ddpg]),
            finite=finite,
        )
        return AgentState(policy, critics, state.updates + active), result

    return tf.function(update, autograph=False)


def _sizes(chunks: Chunks, agent: AgentConfig) -> NetworkSizes:
    return network_sizes(chunks.observation.shape[-1], chunks.action.shape[-1], agent)


def _unless(finite: tf.Tensor, new: Learned, old: Learned) -> Learned:
    """Returns critics as they were where an agent is not `finite`, [P]; targets have not moved."""
    # This op takes a condition per row, and copies rows; tf.where takes three times as long.
    weights, first, second = (
        tf.raw_ops.Select(condition=finite, x=getattr(new, kind), y=getattr(old, kind))
        for kind in ("weights", "first", "second")
    )
    return Learned(weights, old.target, first, second)


def _blended(gradient: tf.Tensor, ddpg: tf.Tensor, blend: tf.Tensor) -> tf.Tensor:
    """Returns the gradient of policies: the objective's, or a blend of directions in warm-up."""
    (unit,), (ddpg_unit,) = td3.unit([gradient]), td3.unit([ddpg])
    return tf.where(blend < 1.0, blend * unit + (1.0 - blend) * ddpg_unit, gradient)


def _moved_critics(
    state: AgentState, batches: Sequence[Chunks], inputs: UpdateInputs, agent: AgentConfig
) -> tuple[Learned, tf.Tensor]:
    """Moves the critics `policy_delay` times; returns them and their mean error, [P]."""
    critics, error = state.critics, 0.0
    for number in range(agent.policy_delay):
        step = state.updates * agent.policy_delay + number + 1.0
        gradient, one_error = _critic_gradient(
            critics, state.policy.target, batches[number], inputs.target_noise[number], agent
        )
        critics = _adam(critics, gradient, step, agent.critic_learning_rate, inputs.active)
        error += one_error / agent.policy_delay
    return critics, error


def _critic_gradient(
    critics: Learned,
    policy_target: tf.Tensor,
    chunks: Chunks,
    noise: tf.Tensor,
    agent: AgentConfig,
) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns the clipped gradient of the critics' TD error, [P, 2, D], and the error, [P]."""
    sizes = _sizes(chunks, agent)
    action = td3.smoothed(
        policy_action(
            chunks.next_observation, unflattened(policy_target, weight_shapes(sizes.policy))
        ),
        noise,
        agent.target_policy_noise,
        agent.target_policy_noise_clip,
    )
    shapes = weight_shapes(sizes.critics)
    target = td3.targets(chunks, action, unflattened(critics.target, shapes), agent.discount)
    with tf.GradientTape(watch_accessed_variables=False) as tape:
        tape.watch(critics.weights)
        error = td3.critic_error(
            chunks, unflattened(critics.weights, shapes), tf.stop_gradient(target)
        )
    (clipped,) = td3.clipped([tape.gradient(error, critics.weights)], agent.clip)
    return clipped, error


def _gradients(
    batches: Sequence[Chunks],
    policy: Weights,
    critic: Weights,
    params: Params,
    meta: MetaConfig | None,
    objective: Objective,
) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """Returns the objective's gradient of the policies, the meta_loss's gradient of the objective's
    params (of width 0 where it is frozen), both flat, and the policies' value.
    """
    score = functools.partial(objective.per_step, params)
    if meta is None:
        batch = batches[0]
        recorded = meta_gradient.trajectories_of(batch, policy, critic)
        gradient = meta_gradient.policy_gradient(score, policy, batch.observation, recorded)
        nothing = tf.zeros([batch.mask.shape[0], 0])
        return flattened(gradient), nothing, -meta_gradient.meta_loss(batch, policy, critic)
    virtual = batches[: meta.virtual_steps]
    trajectories = [meta_gradient.trajectories_of(batch, policy, critic) for batch in virtual]
    with tf.GradientTape(watch_accessed_variables=False) as tape:
        tape.watch(params)
        moved, gradient = meta_gradient.virtual_policies(
            score,
            policy,
            [batch.observation for batch in virtual],
            trajectories,
            meta.virtual_learning_rate,
            meta.unit_virtual_steps,
        )
        meta_loss = meta_gradient.meta_loss(batches[-1], moved, critic)
    by_name = tape.gradient(meta_loss, params)
    learned = flattened([by_name[name] for name in objective.shapes])
    return flattened(gradient), learned, -meta_loss


def _ddpg_gradient(chunks: Chunks, policy: Weights, critic: Weights) -> tf.Tensor:
    with tf.GradientTape(watch_accessed_variables=False) as tape:
        tape.watch(policy)
        value = total(td3.q_objective(chunks, policy_action(chunks.observation, policy), critic))
    return flattened(tape.gradient(value, policy))


def _adam(
    network: Learned,
    gradient: tf.Tensor,
    step: tf.Tensor,
    rate: float | tf.Tensor,
    active: tf.Tensor,
) -> Learned:
    """Moves the agents that are active; `step` and `active` are [P]."""
    change, first, second = adam_rows(
        gradient,
        (network.first, network.second),
        per_row(step, gradient),
        per_row(active, gradient),
        rate,
    )
    return Learned(network.weights + change, network.target, first, second)
