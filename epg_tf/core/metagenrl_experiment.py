"""Holds every setting of a MetaGenRL run (Kirsch et al. 2019), each with its type, bounds, meaning
and default, and checks what must fit together.

Defaults are the paper's (Tables 3 and 4, Appendix B.2), but for `objective.next_value`. Files in
`configs/` and launch flags speak of these as `config.FIELD` and `config.GROUP.FIELD`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Annotated, Any, Literal

from msgspec import Meta

from epg_tf.core import fields
from epg_tf.core.errors import ConfigError
from epg_tf.core.fields import (
    AtLeastTwo,
    Count,
    Natural,
    NonNegative,
    Positive,
    PositiveShare,
    Share,
    Threads,
    means,
)


@dataclasses.dataclass(frozen=True)
class ObjectiveConfig:
    """The learned objective: an LSTM that runs backwards in time (Appendix B.1)."""

    lstm_units: Annotated[Count, means("units of the LSTM")] = 32
    action_layers: Annotated[Count, means("1x1 convolutions over action dimensions")] = 3
    action_filters: Annotated[
        AtLeastTwo, means("of each of these; half of them ReLU, half square")
    ] = 32
    bound: Annotated[Positive, means("of the absolute value of the objective at a step")] = 1000.0
    time: Annotated[
        bool, means("whether the number of a step in its chunk is an input of the objective")
    ] = True
    value_inputs: Annotated[
        int,
        Meta(ge=0, le=2),
        means("values that are inputs: 2 of this state and the next, 1 of this state, 0 none"),
    ] = 2
    next_value: Annotated[
        Literal["difference", "value"],
        means(
            "how the value of the next state enters: in a temporal difference, or itself, as the "
            "paper prints it"
        ),
    ] = "difference"


@dataclasses.dataclass(frozen=True)
class AgentConfig:
    """An agent: deterministic policy, twin critics, replay; TD3's parts (Fujimoto et al. 2018)."""

    hidden: Annotated[
        tuple[Count, ...], means("units of each hidden layer of policy and critics")
    ] = (350, 350)
    policy_learning_rate: Annotated[
        NonNegative, means("of Adam, on the gradient of the objective")
    ] = 1e-3
    critic_learning_rate: Annotated[Positive, means("of Adam")] = 1e-3
    clip: Annotated[float, Meta(gt=0, le=1000), means("largest global norm of a gradient")] = 1.0
    discount: Annotated[Share, means("gamma, per env step")] = 0.99
    batch: Annotated[Count, means("chunks in a batch")] = 100
    chunk: Annotated[Count, means("env steps of a truncated trajectory")] = 20
    policy_delay: Annotated[Count, means("critic updates per update of policy and objective")] = 2
    tau: Annotated[PositiveShare, means("of Polyak averaging of the target networks")] = 0.005
    exploration: Annotated[
        float,
        Meta(ge=0, le=10),
        means("standard deviation of the noise on actions, which are in [-1, 1]"),
    ] = 0.1
    target_policy_noise: Annotated[
        NonNegative, means("standard deviation of the noise on target actions")
    ] = 0.2
    target_policy_noise_clip: Annotated[
        NonNegative, means("largest absolute value of that noise")
    ] = 0.5
    random_steps: Annotated[
        Natural, means("env steps of uniformly random actions at the start")
    ] = 10_000
    updates_after: Annotated[Natural, means("env steps before the first update")] = 1000
    replay_steps: Annotated[Count, means("newest env steps kept, of each agent")] = 1_000_000
    scale_rewards: Annotated[
        bool,
        means(
            "whether an agent learns from rewards divided by the root mean square of those before "
            "its first update, where that is above 1"
        ),
    ] = False


@dataclasses.dataclass(frozen=True)
class MetaConfig:
    """How the objective is learned (Equation 6)."""

    learning_rate: Annotated[NonNegative, means("of the objective's Adam, in the first round")] = (
        1e-3
    )
    final_learning_rate: Annotated[NonNegative, means("after annealing")] = 0.0
    learning_rate_rounds: Annotated[
        Natural, means("rounds of linear annealing of the learning rate; 0: none")
    ] = 0
    normalize_agent_gradients: Annotated[
        bool,
        means(
            "whether each agent's gradient of the objective is scaled to norm 1; False: clipped "
            "to agent.clip"
        ),
    ] = False
    virtual_steps: Annotated[
        Count, means("steps of the policy before the critic rates it; the paper tries 1, 3 and 5")
    ] = 1
    virtual_learning_rate: Annotated[
        NonNegative, means("of these steps, which are plain gradient descent")
    ] = 1e-3
    unit_virtual_steps: Annotated[
        bool,
        means(
            "whether gradients of these steps are scaled to norm 1, so that only their direction "
            "counts"
        ),
    ] = False
    warm_up: Annotated[
        Literal["ddpg", "learning_rate"],
        means(
            "ddpg: blend from DDPG's gradient to that of the objective; learning_rate: raise "
            "that of the policies from zero"
        ),
    ] = "ddpg"
    warm_up_steps: Annotated[Natural, means("env steps per agent")] = 10_000


@dataclasses.dataclass(frozen=True)
class BaselineConfig:
    """Tests of objectives, and what these are compared with; `epg-tf tune` finds
    the rates of the latter.
    """

    objective_learning_rate: Annotated[
        NonNegative,
        means("of the policies under an objective in a test; 0: agent.policy_learning_rate"),
    ] = 0.0
    off_policy_learning_rate: Annotated[
        Positive, means("of the policies under off-policy REINFORCE")
    ] = 1e-3
    gae_lambda: Annotated[
        Share, means("lambda of generalized advantage estimation, of off-policy REINFORCE")
    ] = 0.97
    update_period: Annotated[
        Count, means("env steps between the updates of PPO and on-policy REINFORCE")
    ] = 1000
    minibatch: Annotated[Count, means("env steps, of PPO and on-policy REINFORCE")] = 50
    ppo_learning_rate: Annotated[Positive, means("of PPO's Adam")] = 3e-4
    ppo_epochs: Annotated[Count, means("of PPO, over the steps of an update")] = 10
    reinforce_learning_rate: Annotated[
        Positive, means("of on-policy REINFORCE, one epoch per update")
    ] = 1e-3
    td3_learning_rate: Annotated[Positive, means("of policy and critics of TF-Agents' TD3")] = 1e-3
    ddpg_learning_rate: Annotated[Positive, means("of policy and critics of TF-Agents' DDPG")] = (
        1e-3
    )


@dataclasses.dataclass(frozen=True)
class PastAgentsConfig:
    """Rounds that agents spend as they were earlier in their lives, meant to keep the objective
    from forgetting how to teach agents that know little (Appendix A.2).
    """

    states: Annotated[
        Natural,
        means("earlier states of each agent that are kept, evenly drawn from its life; 0: none"),
    ] = 0
    share: Annotated[
        Share, means("probability that an agent spends a round in one of them, with its own replay")
    ] = 0.25


@dataclasses.dataclass(frozen=True)
class ValidationConfig:
    """How the objective is tested along meta-training, on fresh agents; best/ is chosen by this."""

    period: Annotated[Natural, means("rounds between tests; 0: there are none")] = 0
    environments: Annotated[
        tuple[str, ...],
        means("where agents are tested beside config.environments; best/ is not chosen by these"),
    ] = ()
    agents: Annotated[Count, means("fresh agents in each environment, the same in each test")] = 4
    env_steps: Annotated[Count, means("env steps of each, whole rounds")] = 10_000
    episodes: Annotated[Count, means("that each plays at the end, without exploration")] = 3
    patience: Annotated[
        Natural, means("tests after that of the best objective so far that end the run; 0: none do")
    ] = 0


@dataclasses.dataclass(frozen=True)
class MetaGenRLExperiment:
    """Everything that decides a run, except its seed."""

    environments: Annotated[tuple[str, ...], means("each FAMILY or FAMILY@EPISODE_LIMIT")] = (
        "gymnasium:LunarLanderContinuous-v3",
    )
    agents: Annotated[Count, means("distributed equally over the environments")] = 20
    steps_per_agent: Annotated[Natural, means("env steps of each agent")] = 1_000_000
    round_steps: Annotated[
        Count, means("env steps in a round; then all episodes begin anew, and the run is recorded")
    ] = 1000
    life_rounds: Annotated[
        Natural,
        means(
            "rounds until an agent starts again from scratch, spread over time; 0: it never does"
        ),
    ] = 0
    failed_rounds: Annotated[
        Natural, means("rounds in a row whose agents all fail that end the run; 0: none do")
    ] = 3
    objective_period: Annotated[Count, means("rounds between objectives that are kept")] = 50
    shard_agents: Annotated[
        Count, means("agents updated together; results depend on it, to rounding")
    ] = 10
    threads: Annotated[
        Threads, means("shards computed at once; 0: one per CPU; no effect on results")
    ] = 0
    objective: ObjectiveConfig = ObjectiveConfig()
    agent: AgentConfig = AgentConfig()
    meta: MetaConfig = MetaConfig()
    past: PastAgentsConfig = PastAgentsConfig()
    baseline: BaselineConfig = BaselineConfig()
    validation: ValidationConfig = ValidationConfig()

    @property
    def rounds(self) -> int:
        """Number of rounds of the run."""
        return self.steps_per_agent // self.round_steps

    @property
    def past_agents(self) -> PastAgentsConfig:
        """Settings of earlier states, without more of them than a life has rounds.

        A run's own number of rounds is no limit, because a resumed run may have more.
        """
        longest = self.life_rounds or self.past.states
        return dataclasses.replace(self.past, states=min(self.past.states, longest))

    def to_mapping(self) -> dict[str, Any]:
        """Returns the settings as nested dictionaries."""
        return dataclasses.asdict(self)


def metagenrl_from_mapping(mapping: Any) -> MetaGenRLExperiment:
    """Returns an experiment read from nested mappings; missing fields take their defaults.

    Raises:
      ConfigError: A name is unknown, a value has the wrong type or is out of bounds, or settings do
        not fit together.
    """
    experiment = fields.read(MetaGenRLExperiment, mapping)
    for conflict in (*_environment_conflicts(experiment), *_round_conflicts(experiment)):
        raise ConfigError(conflict)
    return experiment


def _environment_conflicts(experiment: MetaGenRLExperiment) -> Iterator[str]:
    environments = experiment.environments
    if not environments or experiment.agents % len(environments):
        yield (
            f"config.agents={experiment.agents} cannot be distributed equally over "
            f"config.environments={environments}; make it a multiple of their number"
        )
    if len(set(environments)) < len(environments):
        yield (
            f"config.environments={environments} names one twice; name it once, and set "
            "config.agents higher"
        )

    both = (*environments, *experiment.validation.environments)
    if len(set(environments)) == len(environments) and len(set(both)) < len(both):
        yield (
            f"config.validation.environments={experiment.validation.environments} names one twice, "
            f"or one of config.environments={environments}, where agents are tested in any case; "
            "leave it out"
        )


def _round_conflicts(experiment: MetaGenRLExperiment) -> Iterator[str]:
    agent, baseline, period = experiment.agent, experiment.baseline, experiment.round_steps
    if period % agent.policy_delay:
        yield (
            f"config.round_steps={period} is no multiple of config.agent.policy_delay="
            f"{agent.policy_delay}; choose one, because an update ends within its round"
        )
    if experiment.steps_per_agent % period:
        yield (
            f"config.steps_per_agent={experiment.steps_per_agent} is no multiple of "
            f"config.round_steps={period}; a run consists of whole rounds"
        )
    if agent.random_steps % period:
        yield (
            f"config.agent.random_steps={agent.random_steps} is no multiple of "
            f"config.round_steps={period}; agents explore at random for whole rounds"
        )
    if agent.replay_steps < period:
        yield (
            f"config.agent.replay_steps={agent.replay_steps} is below "
            f"config.round_steps={period}; a replay holds at least one round"
        )
    validation = experiment.validation
    if validation.patience and not validation.period:
        yield (
            f"config.validation.patience={validation.patience} counts tests, and there are none; "
            "set config.validation.period too"
        )
    if experiment.past.share != PastAgentsConfig.share and not experiment.past.states:
        yield (
            f"config.past.share={experiment.past.share} chooses between earlier states, and none "
            "are kept; set config.past.states too"
        )
    if validation.period and validation.env_steps % period:
        yield (
            f"config.validation.env_steps={validation.env_steps} is no multiple of "
            f"config.round_steps={period}; agents learn for whole rounds"
        )
    if validation.period and validation.env_steps <= max(agent.random_steps, agent.updates_after):
        yield (
            f"config.validation.env_steps={validation.env_steps} is not above "
            f"config.agent.random_steps={agent.random_steps} and config.agent.updates_after="
            f"{agent.updates_after}, before which agents act at random or do not learn; choose more"
        )
    if baseline.update_period % baseline.minibatch:
        yield (
            f"config.baseline.minibatch={baseline.minibatch} does not divide "
            f"config.baseline.update_period={baseline.update_period}; choose a divisor"
        )
