"""One update of P agents as a pure function: critics, then policies, targets, and what the
objective should learn.

Compiled once per process for agents of the same sizes and settings, however many shards of them
there are.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import NamedTuple

import tensorflow as tf

from epg_tf.agents.deterministic import first_critic, policy_action
from epg_tf.core.metagenrl_experiment import AgentConfig, MetaConfig
from epg_tf.core.optimizers import adam_update
from epg_tf.losses.objectives import Chunks, Objective, Recipe, flattened, total
from epg_tf.metagenrl import meta_gradient, td3

Weights = list[tf.Tensor]


class Learned(NamedTuple):
    """A network in learning: P policies, or P twin critics, whose parts have the leading axes [2,
    P].

    Attributes:
      weights: As `agents.actor_critic.Weights`.
      target: Slowly following them.
      first: First moments of Adam.
      second: Second moments.
    """

    weights: Weights
    target: Weights
    first: Weights
    second: Weights


class AgentState(NamedTuple):
    """All that P agents go on from; `updates` [P] counts those of the policies."""

    policy: Learned
    critics: Learned
    updates: tf.Tensor


class UpdateResult(NamedTuple):
    """What one update of P agents found out.

    Attributes:
      objective_gradient: [P, D], each agent's; [P, 0] where the objective is not being learned.
      critic_error: [P], mean squared TD error.
      value: [P], the first critic's value of the policies, mean over a batch; after the virtual
        steps if any.
      agreement: [P], cosine of the angle between the objective's and DDPG's gradient of the policy.
      finite: [P] bool, whether all of this was, gradients before they were clipped included; where
        not, the agent stays as it is, but for its targets, and has no say in the objective.
    """

    objective_gradient: tf.Tensor
    critic_error: tf.Tensor
    value: tf.Tensor
    agreement: tf.Tensor
    finite: tf.Tensor


def batches_needed(agent: AgentConfig, meta: MetaConfig | None) -> int:
    """Returns K, how many batches of chunks an update takes."""
    return max(agent.policy_delay, 1 + (meta.virtual_steps if meta else 0))


@functools.cache
def compiled_update(
    agent: AgentConfig, meta: MetaConfig | None, recipe: Recipe
) -> Callable[..., tuple]:
    """Returns the compiled update.

    Args:
      agent: Settings of agents.
      meta: How the objective is learned; None: it is frozen.
      recipe: Makes the objective from its weights.

    Returns:
      A function of
        state: `AgentState`.
        parts: The objective's weights, name -> [P, ...].
        chunks: `Chunks` with another leading axis of K batches. Critics take the first ones, the
          objective as many as it needs, beginning with the first, and its judge the one after
          those.
        smoothing: [policy_delay, P, B, T, A], standard normal.
        blend: Weight of the objective in what policies follow; the rest is DDPG's. Below 1 both
          gradients are first scaled to norm 1, for the two objectives have no scale in common.
        policy_rate: Learning rate of the policies.
        active: [P], 1.0 or 0.0: such agents keep their weights and have no say in the objective.
      that returns the new state and `UpdateResult`.
    """

    def update(
        state: AgentState,
        parts: dict[str, tf.Tensor],
        chunks: Chunks,
        smoothing: tf.Tensor,
        blend: tf.Tensor,
        policy_rate: tf.Tensor,
        active: tf.Tensor,
    ) -> tuple[AgentState, UpdateResult]:
        batches = [
            Chunks(*(part[number] for part in chunks))
            for number in range(batches_needed(agent, meta))
        ]
        critics, error = state.critics, 0.0
        for number in range(agent.policy_delay):
            step = state.updates * agent.policy_delay + number + 1.0
            critics, one_error = _moved_critics(
                critics,
                state.policy.target,
                batches[number],
                smoothing[number],
                step,
                active,
                agent,
            )
            error += one_error / agent.policy_delay
        weights, critic = state.policy.weights, first_critic(critics.weights)
        gradient, objective_gradient, value = _gradients(
            batches, weights, critic, parts, meta, recipe
        )
        ddpg = _ddpg_gradient(batches[0], weights, critic)
        finite = td3.finite([error, value, *objective_gradient, *gradient, *ddpg])
        active *= tf.cast(finite, active.dtype)
        critics = _unless(finite, critics, state.critics)
        followed = td3.clipped(_blended(gradient, ddpg, blend), agent.clip)
        policy = _adam(state.policy, followed, state.updates + 1.0, policy_rate, active, axis=0)
        new = AgentState(
            *(
                network._replace(target=td3.averaged(network.target, network.weights, agent.tau))
                for network in (policy, critics)
            ),
            state.updates + active,
        )
        say = (
            td3.unit(objective_gradient)
            if meta and meta.normalize_agent_gradients
            else td3.clipped(objective_gradient, agent.clip)
        )
        return new, UpdateResult(
            flattened(say) * active[:, None], error, value, td3.cosine(gradient, ddpg), finite
        )

    return tf.function(update)


def _unless(finite: tf.Tensor, new: Learned, old: Learned) -> Learned:
    """Returns critics as they were where an agent is not `finite`, [P]."""
    return tf.nest.map_structure(
        lambda after, before: tf.where(
            tf.reshape(finite, [-1] + [1] * (after.shape.rank - 2)), after, before
        ),
        new,
        old,
    )


def _blended(gradient: Weights, ddpg: Weights, blend: tf.Tensor) -> Weights:
    """Returns what policies follow: the objective's gradient, or while it warms up a blend of
    directions.
    """
    return [
        tf.where(blend < 1.0, blend * own + (1.0 - blend) * other, raw)
        for raw, own, other in zip(gradient, td3.unit(gradient), td3.unit(ddpg), strict=True)
    ]


def _moved_critics(
    critics: Learned,
    policy_target: Weights,
    chunks: Chunks,
    noise: tf.Tensor,
    step: tf.Tensor,
    active: tf.Tensor,
    agent: AgentConfig,
) -> tuple[Learned, tf.Tensor]:
    action = td3.smoothed(
        policy_action(chunks.next_observation, policy_target),
        noise,
        agent.target_policy_noise,
        agent.target_policy_noise_clip,
    )
    target = td3.targets(chunks, action, critics.target, agent.discount)
    with tf.GradientTape(watch_accessed_variables=False) as tape:
        tape.watch(critics.weights)
        error = td3.critic_error(chunks, critics.weights, tf.stop_gradient(target))
    gradient = td3.clipped(tape.gradient(error, critics.weights), agent.clip, axis=1)
    return _adam(critics, gradient, step, agent.critic_learning_rate, active, axis=1), error


def _gradients(
    batches: Sequence[Chunks],
    policy: Weights,
    critic: Weights,
    parts: dict[str, tf.Tensor],
    meta: MetaConfig | None,
    recipe: Recipe,
) -> tuple[Weights, Weights, tf.Tensor]:
    """Returns the objective's gradient of the policies, the judge's of the objective, if any, and
    the judge's value.
    """
    if meta is None:
        batch, objective = batches[0], recipe.objective(parts)
        gradient = meta_gradient.policy_gradient(
            objective,
            policy,
            batch.observation,
            meta_gradient.trajectories_of(batch, policy, critic),
        )
        return (
            gradient,
            [tf.zeros([batch.mask.shape[0], 0])],
            -meta_gradient.meta_loss(batch, policy, critic),
        )
    virtual = batches[: meta.virtual_steps]
    seen = [meta_gradient.trajectories_of(batch, policy, critic) for batch in virtual]
    with tf.GradientTape(watch_accessed_variables=False) as tape:
        tape.watch(parts)
        objective: Objective = recipe.objective(parts)
        moved, gradient = meta_gradient.virtual_policies(
            objective,
            policy,
            [batch.observation for batch in virtual],
            seen,
            meta.virtual_learning_rate,
            meta.unit_virtual_steps,
        )
        meta_loss = meta_gradient.meta_loss(batches[meta.virtual_steps], moved, critic)
    by_name = tape.gradient(meta_loss, parts)
    return gradient, [by_name[name] for name in recipe.names], -meta_loss


def _ddpg_gradient(chunks: Chunks, policy: Weights, critic: Weights) -> Weights:
    with tf.GradientTape(watch_accessed_variables=False) as tape:
        tape.watch(policy)
        value = total(td3.q_objective(chunks, policy_action(chunks.observation, policy), critic))
    return tape.gradient(value, policy)


def _adam(
    network: Learned,
    gradient: Weights,
    step: tf.Tensor,
    rate: float | tf.Tensor,
    active: tf.Tensor,
    axis: int,
) -> Learned:
    """Moves the agents that are active; they are on `axis`, and `step` is [P]."""
    moved: list[tuple] = []
    for weight, slope, *moments in zip(
        network.weights, gradient, network.first, network.second, strict=True
    ):
        own = [-1] + [1] * (slope.shape.rank - 1 - axis)  # so that [P] meets [..., P, ...]
        there = tf.reshape(active, own)
        update, *new = adam_update(slope, *moments, tf.reshape(step, own), learning_rate=rate)
        moved.append(
            (
                weight + there * update,
                *(old + there * (after - old) for old, after in zip(moments, new, strict=True)),
            )
        )
    weights, first, second = (list(column) for column in zip(*moved, strict=True))
    return Learned(weights, network.target, first, second)
