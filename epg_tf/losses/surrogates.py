"""Policy-gradient losses in the contract of learned ones: REINFORCE, with and without a value
network, and PPO.

They see the true rewards, which are not normalised; advantages are standardised per life and
update. A time limit is not an end: the value of the state it cut off is bootstrapped, and no
advantage flows across it.
"""

from __future__ import annotations

from typing import NamedTuple

import tensorflow as tf
from tf_agents.utils import value_ops

from epg_tf.losses.contract import AgentLike, Experience, Loss, ValueLike
from epg_tf.losses.settings import SurrogateConfig

_TINY = 1e-8
_ROUNDING = 1e-5  # of a mean: deviations below it are of rounding alone


class Targets(NamedTuple):
    """Targets of one update over the newest M steps.

    Attributes:
      observation: [P, M, O], normalised.
      action: [P, M, A], as sampled.
      advantage: [P, M], standardised.
      value_target: [P, M].
      policy_output: Of the policy before the update, at M states: as `PolicyLike` returns it.
      shared_output: [P, K], of the policy before the update: log deviations or nothing.
    """

    observation: tf.Tensor
    action: tf.Tensor
    advantage: tf.Tensor
    value_target: tf.Tensor
    policy_output: tf.Tensor
    shared_output: tf.Tensor


class Steps(NamedTuple):
    """M consecutive steps of P lives, all [P, M].

    Attributes:
      reward: As received.
      value: V of the state acted in.
      next_value: V of the state reached, in the same episode.
      terminated: 1.0 where the reached state is worth nothing.
      truncated: 1.0 where a time limit cut the episode.
    """

    reward: tf.Tensor
    value: tf.Tensor
    next_value: tf.Tensor
    terminated: tf.Tensor
    truncated: tf.Tensor


def advantages(steps: Steps, discount: float, gae_lambda: float) -> tf.Tensor:
    """Computes generalised advantage estimates (Schulman et al. 2016, Eq. 16) over M consecutive
    steps.

    TF-Agents' recursion has one kind of end, discount 0. So whatever value follows a time limit is
    added to the reward, and the discount is set to 0 at every episode's last step. The value that
    follows the last of the M steps is the recursion's final one.

    Args:
      steps: Rewards, values and ends.
      discount: gamma.
      gae_lambda: lambda.

    Returns:
      [P, M], without gradient.
    """
    reward, value, next_value, terminated, truncated = steps
    goes_on = discount * (1.0 - terminated) * (1.0 - truncated)
    bootstrapped = reward + discount * truncated * (1.0 - terminated) * next_value
    return value_ops.generalized_advantage_estimation(
        values=value,
        final_value=next_value[:, -1],
        discounts=goes_on,
        rewards=bootstrapped,
        td_lambda=gae_lambda,
        time_major=False,
    )


def standardised(values: tf.Tensor) -> tf.Tensor:
    """Shifts and scales each row of [P, M] to mean 0 and deviation 1; to nearly 0 where all of it
    is one number.
    """
    mean, variance = tf.nn.moments(values, axes=[1], keepdims=True)
    deviation = tf.maximum(tf.sqrt(variance), _ROUNDING * tf.abs(mean))
    return (values - mean) / (deviation + _TINY)


class Surrogate(Loss[Targets]):
    """A loss that weights actions by advantages, estimated with the value network unless a subclass
    has it otherwise.

    Args:
      config: Discount, lambda and coefficients.
    """

    def __init__(self, config: SurrogateConfig):
        self.config = config

    def prepare(self, agent: AgentLike, experience: Experience) -> Targets:
        """Estimates advantages with the value network as it stands."""
        return self._targets(agent, experience, agent.value, self.config.gae_lambda)

    def _targets(
        self, agent: AgentLike, experience: Experience, value_of: ValueLike, gae_lambda: float
    ) -> Targets:
        observation = experience.observation[:, -experience.raw_reward.shape[1] :]
        value = value_of(observation)
        steps = Steps(
            experience.raw_reward,
            value,
            value_of(experience.next_observation),
            experience.terminated,
            experience.truncated,
        )
        estimate = advantages(steps, self.config.discount, gae_lambda)
        return Targets(
            observation,
            experience.raw_action,
            standardised(estimate),
            estimate + value,
            agent.policy(observation),
            tf.identity(agent.policy.shared_output),
        )


class ProximalPolicyOptimization(Surrogate):
    """PPO with clipping, a KL penalty and a value network (Schulman et al. 2017, Eq. 7 to 9).

        L = -min(rho A, clip(rho, 1 - c, 1 + c) A) + k KL(old, new) + v (V(s) - target)^2

    The old policy is the one before the update at observations as normalised now, a little off from
    when it acted.
    """

    def minibatch_loss(self, agent: AgentLike, prepared: Targets, steps: tf.Tensor) -> tf.Tensor:
        """Averages the PPO loss over a minibatch, [P]."""
        config = self.config
        varying = {
            name: tf.gather(values, steps, batch_dims=1)
            for name, values in prepared._asdict().items()
            if name != "shared_output"
        }
        rows = Targets(**varying, shared_output=prepared.shared_output)
        old = agent.policy.distribution_from(rows.policy_output, rows.shared_output)
        new = agent.policy.distribution(rows.observation)
        ratio = tf.exp(new.log_prob(rows.action) - old.log_prob(rows.action))
        clipped = tf.clip_by_value(ratio, 1.0 - config.clip, 1.0 + config.clip)
        policy = -tf.minimum(ratio * rows.advantage, clipped * rows.advantage)
        penalty = config.kl_coefficient * old.kl_divergence(new)
        error = tf.square(agent.value(rows.observation) - rows.value_target)
        return tf.reduce_mean(policy + penalty + config.value_coefficient * error, axis=1)


class Reinforce(Surrogate):
    """REINFORCE with standardised discounted returns-to-go as weights (Williams 1992; EPG, Eq. 2).

    L = -A log pi(a | s)
    """

    def prepare(self, agent: AgentLike, experience: Experience) -> Targets:
        """Sums the discounted rewards that followed each step within the newest M; no value is
        bootstrapped.
        """
        return self._targets(agent, experience, _worth_nothing, 1.0)

    def minibatch_loss(self, agent: AgentLike, prepared: Targets, steps: tf.Tensor) -> tf.Tensor:
        """Averages -A log pi over a minibatch, [P]."""
        observation, action, advantage = (
            tf.gather(part, steps, batch_dims=1) for part in prepared[:3]
        )
        log_prob = agent.policy.distribution(observation).log_prob(action)
        return -tf.reduce_mean(advantage * log_prob, axis=1)


class ReinforceWithValues(Surrogate):
    """REINFORCE with generalised advantage estimates as weights (Schulman et al. 2016, Eq. 9;
    on-policy REINFORCE of MetaGenRL, Appendix B.3).

    L = -A log pi(a | s) + v (V(s) - target)^2
    """

    def minibatch_loss(self, agent: AgentLike, prepared: Targets, steps: tf.Tensor) -> tf.Tensor:
        """Averages -A log pi, and the error of the values, over a minibatch, [P]."""
        observation, action, advantage, target = (
            tf.gather(part, steps, batch_dims=1) for part in prepared[:4]
        )
        log_prob = agent.policy.distribution(observation).log_prob(action)
        error = tf.square(agent.value(observation) - target)
        return tf.reduce_mean(self.config.value_coefficient * error - advantage * log_prob, axis=1)


def _worth_nothing(observation: tf.Tensor) -> tf.Tensor:
    return tf.zeros_like(observation[..., 0])


SURROGATES: dict[str, type[Surrogate]] = {
    "ppo": ProximalPolicyOptimization,
    "reinforce": Reinforce,
    "reinforce_with_values": ReinforceWithValues,
}
