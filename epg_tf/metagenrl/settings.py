"""Every setting of a run of MetaGenRL (Kirsch et al. 2019), and what must fit together.

Defaults are the paper's (Tables 3 and 4, Appendix B.2), but for `objective.next_value`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Annotated, Literal

from epg_tf.core.settings import (
    Count,
    Natural,
    NonNegative,
    Positive,
    PositiveShare,
    Range,
    Settings,
    Share,
    Threads,
    setting,
)
from epg_tf.losses.settings import ObjectiveConfig


@dataclasses.dataclass(frozen=True)
class AgentConfig(Settings):
    """An agent: deterministic policy, twin critics, replay; TD3's parts (Fujimoto et al. 2018)."""

    hidden: tuple[Count, ...] = setting(
        (350, 350), "units of each hidden layer of policy and critics"
    )
    policy_learning_rate: NonNegative = setting(1e-3, "of Adam, on the gradient of the objective")
    critic_learning_rate: Positive = setting(1e-3, "of Adam")
    clip: Annotated[float, Range(0, 1000, open=True)] = setting(
        1.0, "largest global norm of a gradient"
    )
    discount: Share = setting(0.99, "gamma, per env step")
    batch: Count = setting(100, "chunks in a batch")
    chunk: Count = setting(20, "env steps of a truncated trajectory")
    policy_delay: Count = setting(2, "critic updates per update of policy and objective")
    tau: PositiveShare = setting(0.005, "of Polyak averaging of the target networks")
    exploration: Annotated[float, Range(0, 10)] = setting(
        0.1, "standard deviation of the noise on actions, which are in [-1, 1]"
    )
    target_policy_noise: NonNegative = setting(
        0.2, "standard deviation of the noise on target actions"
    )
    target_policy_noise_clip: NonNegative = setting(0.5, "largest absolute value of that noise")
    random_steps: Natural = setting(10_000, "env steps of uniformly random actions at the start")
    updates_after: Natural = setting(1000, "env steps before the first update")
    replay_steps: Count = setting(1_000_000, "newest env steps kept, of each agent")
    scale_rewards: bool = setting(
        False,
        "whether an agent learns from rewards divided by the root mean square of those before its "
        "first update, where that is above 1",
    )


@dataclasses.dataclass(frozen=True)
class MetaConfig(Settings):
    """How the objective is learned (Equation 6)."""

    learning_rate: NonNegative = setting(1e-3, "of the objective's Adam, in the first round")
    final_learning_rate: NonNegative = setting(0.0, "after annealing")
    learning_rate_rounds: Natural = setting(
        0, "rounds of linear annealing of the learning rate; 0: none"
    )
    normalize_agent_gradients: bool = setting(
        False,
        "whether each agent's gradient of the objective is scaled to norm 1; False: clipped to "
        "agent.clip",
    )
    virtual_steps: Count = setting(
        1, "steps of the policy before the critic rates it; the paper tries 1, 3 and 5"
    )
    virtual_learning_rate: NonNegative = setting(
        1e-3, "of these steps, which are plain gradient descent"
    )
    unit_virtual_steps: bool = setting(
        False,
        "whether gradients of these steps are scaled to norm 1, so that only their direction "
        "counts",
    )
    warm_up: Literal["ddpg", "learning_rate"] = setting(
        "ddpg",
        "ddpg: blend from DDPG's gradient to that of the objective; learning_rate: raise that of "
        "the policies from zero",
    )
    warm_up_steps: Natural = setting(10_000, "env steps per agent")

    def conflicts(self) -> Iterator[str]:
        """Yields a line for all that does not fit together."""
        if self.final_learning_rate and not self.learning_rate_rounds:
            yield (
                f"config.meta.final_learning_rate={self.final_learning_rate} needs rounds to "
                "anneal in; set config.meta.learning_rate_rounds, or final_learning_rate to 0"
            )


@dataclasses.dataclass(frozen=True)
class BaselineConfig(Settings):
    """Tests of objectives, and what these are compared with; `epg-tf tune` finds the rates of the
    latter.
    """

    off_policy_learning_rate: Positive = setting(1e-3, "of the policies under off-policy REINFORCE")
    gae_lambda: Share = setting(
        0.97, "lambda of generalized advantage estimation, of off-policy REINFORCE"
    )
    update_period: Count = setting(
        1000, "env steps between the updates of PPO and on-policy REINFORCE"
    )
    minibatch: Count = setting(50, "env steps, of PPO and on-policy REINFORCE")
    ppo_learning_rate: Positive = setting(3e-4, "of PPO's Adam")
    ppo_epochs: Count = setting(10, "of PPO, over the steps of an update")
    reinforce_learning_rate: Positive = setting(
        1e-3, "of on-policy REINFORCE, one epoch per update"
    )
    td3_learning_rate: Positive = setting(1e-3, "of policy and critics of TF-Agents' TD3")
    ddpg_with_td3_learning_rate: Positive = setting(
        1e-3, "of the policies that follow their critics alone"
    )
    ddpg_learning_rate: Positive = setting(1e-3, "of policy and critics of TF-Agents' DDPG")


@dataclasses.dataclass(frozen=True)
class ValidationConfig(Settings):
    """How the objective is tested along meta-training, on fresh agents; best/ is chosen by this."""

    period: Natural = setting(0, "rounds between tests; 0: there are none")
    environments: tuple[str, ...] = setting(
        (), "where agents are tested beside config.environments; best/ is not chosen by these"
    )
    agents: Count = setting(4, "fresh agents in each environment, the same in each test")
    env_steps: Count = setting(10_000, "env steps of each, whole rounds")
    episodes: Count = setting(3, "that each plays at the end, without exploration")


@dataclasses.dataclass(frozen=True)
class MetaGenRLExperiment(Settings):
    """Everything that decides a run, except its seed."""

    environments: tuple[str, ...] = setting(
        ("gymnasium:LunarLanderContinuous-v3",), "each FAMILY or FAMILY@EPISODE_LIMIT"
    )
    agents: Count = setting(20, "distributed equally over the environments")
    steps_per_agent: Natural = setting(1_000_000, "env steps of each agent")
    round_steps: Count = setting(
        1000, "env steps in a round; then all episodes begin anew, and the run is recorded"
    )
    life_rounds: Natural = setting(
        0, "rounds until an agent starts again from scratch, spread over time; 0: it never does"
    )
    failed_rounds: Natural = setting(
        3, "rounds in a row whose agents all fail that end the run; 0: none do"
    )
    objective_period: Count = setting(50, "rounds between objectives that are kept")
    shard_agents: Count = setting(10, "agents updated together; results depend on it, to rounding")
    threads: Threads = setting(0, "shards computed at once; 0: one per CPU; no effect on results")
    objective: ObjectiveConfig = ObjectiveConfig()
    agent: AgentConfig = AgentConfig()
    meta: MetaConfig = MetaConfig()
    baseline: BaselineConfig = BaselineConfig()
    validation: ValidationConfig = ValidationConfig()

    @property
    def rounds(self) -> int:
        """Number of rounds of the run."""
        return self.steps_per_agent // self.round_steps

    def conflicts(self) -> Iterator[str]:
        """Yields a line for all that does not fit together."""
        environments = self.environments
        if not environments or self.agents % len(environments):
            yield (
                f"config.agents={self.agents} cannot be distributed equally over "
                f"config.environments={environments}; make it a multiple of their number"
            )
        if len(set(environments)) < len(environments):
            yield (
                f"config.environments={environments} names one twice; name it once, and set "
                "config.agents higher"
            )

        both = (*environments, *self.validation.environments)
        if len(set(environments)) == len(environments) and len(set(both)) < len(both):
            yield (
                f"config.validation.environments={self.validation.environments} names one "
                f"twice, or one of config.environments={environments}, where agents are tested in "
                "any case; leave it out"
            )
        yield from self._round_conflicts()

    def _round_conflicts(self) -> Iterator[str]:
        agent, baseline, validation = self.agent, self.baseline, self.validation
        period = self.round_steps
        if period % agent.policy_delay:
            yield (
                f"config.round_steps={period} is no multiple of config.agent.policy_delay="
                f"{agent.policy_delay}; choose one, because an update ends within its round"
            )
        tested = validation.env_steps if validation.period else 0
        for name, steps, reason in (
            ("steps_per_agent", self.steps_per_agent, "a run consists of whole rounds"),
            ("agent.random_steps", agent.random_steps, "agents explore at random for whole rounds"),
            ("validation.env_steps", tested, "agents learn for whole rounds"),
        ):
            if steps % period:
                yield (
                    f"config.{name}={steps} is no multiple of config.round_steps={period}; {reason}"
                )
        if agent.replay_steps < period:
            yield (
                f"config.agent.replay_steps={agent.replay_steps} is below "
                f"config.round_steps={period}; a replay holds at least one round"
            )
        for name, number, steps in (
            ("steps_per_agent", self.steps_per_agent, self.steps_per_agent),
            ("life_rounds", self.life_rounds, self.life_rounds * period),
            ("validation.env_steps", tested, tested),
        ):
            if 0 < steps <= max(agent.random_steps, agent.updates_after):
                yield (
                    f"config.{name}={number} are {steps} env steps, not more than "
                    f"config.agent.random_steps={agent.random_steps} and "
                    f"config.agent.updates_after={agent.updates_after}, before which agents act at "
                    "random or do not learn; choose more"
                )
        if baseline.update_period % baseline.minibatch:
            yield (
                f"config.baseline.minibatch={baseline.minibatch} does not divide "
                f"config.baseline.update_period={baseline.update_period}; choose a divisor"
            )
