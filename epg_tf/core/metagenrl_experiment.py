"""Holds every setting of a MetaGenRL run (Kirsch et al. 2019), with its default, its meaning and
the checks.

Defaults are the paper's (Tables 3 and 4, Appendix B.2). Files in `configs/` and launch flags speak
of these as `config.FIELD` and `config.GROUP.FIELD`.
"""

from __future__ import annotations

import dataclasses
import typing
from collections.abc import Mapping
from typing import Any

from epg_tf.core.errors import ConfigError
from epg_tf.core.experiment import typed, typed_fields


@dataclasses.dataclass(frozen=True)
class ObjectiveConfig:
    """The learned objective: an LSTM that runs backwards in time (Appendix B.1)."""

    lstm_units: int = 32
    action_layers: int = 3  # 1x1 convolutions over action dimensions
    action_filters: int = 32  # half of them ReLU, half square
    bound: float = 1000.0  # of a step's value
    time: bool = True  # whether it is told the step's number in the chunk
    value_inputs: int = (
        2  # value estimates it sees: 2 of this state and the next, 1 of this state alone, 0 none
    )


@dataclasses.dataclass(frozen=True)
class AgentConfig:
    """An agent: deterministic policy, twin critics, replay; TD3's parts (Fujimoto et al. 2018)."""

    hidden: tuple[int, ...] = (350, 350)  # of policy and critics
    policy_learning_rate: float = 1e-3  # of Adam, on the gradient of the objective
    critic_learning_rate: float = 1e-3
    clip: float = 1.0  # largest global norm of a gradient
    discount: float = 0.99
    batch: int = 100  # chunks
    chunk: int = 20  # steps of a truncated trajectory
    policy_delay: int = 2  # critic updates per update of policy and objective
    tau: float = 0.005  # of Polyak averaging
    exploration: float = 0.1  # deviation of the noise on actions, which lie in [-1, 1]
    target_policy_noise: float = 0.2  # deviation of the noise on target actions
    target_policy_noise_clip: float = 0.5
    random_steps: int = 10_000  # env steps of uniformly random actions at the start
    updates_after: int = 1000  # env steps before the first update
    replay_steps: int = 1_000_000  # newest env steps kept, of each agent


@dataclasses.dataclass(frozen=True)
class MetaConfig:
    """How the objective is learned (Equation 6)."""

    learning_rate: float = 1e-3  # of the objective's Adam, in the first round
    final_learning_rate: float = 0.0
    learning_rate_rounds: int = 0  # of linear annealing between the two; 0: none
    normalize_agent_gradients: bool = False  # scale every agent's gradient of the objective to norm 1; False: clip it at agent.clip
    virtual_steps: int = 1  # of the policy before the critic judges it; the paper tries 1, 3 and 5
    virtual_learning_rate: float = 1e-3  # of those steps: plain gradient descent
    unit_virtual_steps: bool = (
        False  # scale their gradients to norm 1, so that the judge looks at directions alone
    )
    warm_up: str = "ddpg"  # blend the objective in from DDPG's; or "learning_rate": raise the policies' from zero
    warm_up_steps: int = 10_000  # env steps per agent


@dataclasses.dataclass(frozen=True)
class BaselineConfig:
    """What objectives are compared with in a test; `launch.tune_objective_test` finds the rates."""

    off_policy_learning_rate: float = 1e-3  # of the policies under off-policy REINFORCE
    gae_lambda: float = 0.97  # of its advantages
    update_period: int = 1000  # env steps between the updates of PPO and on-policy REINFORCE
    minibatch: int = 50  # env steps
    ppo_learning_rate: float = 3e-4
    ppo_epochs: int = 10  # over the steps of an update
    reinforce_learning_rate: float = 1e-3  # on-policy, one pass
    td3_learning_rate: float = 1e-3  # of TF-Agents' TD3, policy and critics
    ddpg_learning_rate: float = 1e-3


@dataclasses.dataclass(frozen=True)
class MetaGenRLExperiment:
    """Everything that decides a run, but its seed."""

    environments: tuple[str, ...] = (
        "gymnasium:LunarLanderContinuous-v3",
    )  # FAMILY or FAMILY@EPISODE_LIMIT
    agents: int = 20  # distributed equally over the environments
    steps_per_agent: int = 1_000_000
    round_steps: int = (
        1000  # env steps after which all episodes start anew, and the run is recorded
    )
    life_rounds: int = (
        0  # after which an agent starts from scratch, births spread over time; 0: it lives on
    )
    objective_period: int = 50  # rounds between kept objectives
    shard_agents: int = (
        10  # agents updated at once; part of the numbers, as threads and ranks are not
    )
    threads: int = 0  # shards at work at once; 0: one per CPU this process may use
    objective: ObjectiveConfig = ObjectiveConfig()
    agent: AgentConfig = AgentConfig()
    meta: MetaConfig = MetaConfig()
    baseline: BaselineConfig = BaselineConfig()

    @property
    def rounds(self) -> int:
        """Number of rounds of the run."""
        return self.steps_per_agent // self.round_steps

    def to_mapping(self) -> dict[str, Any]:
        """Returns the settings as nested dictionaries."""
        return dataclasses.asdict(self)


def from_mapping(mapping: Mapping[str, Any]) -> MetaGenRLExperiment:
    """Builds a validated experiment from nested dictionaries; missing fields take their defaults.

    Raises:
      ConfigError: A key is unknown, a value has the wrong type, or the settings do not fit
      together.
    """
    if not isinstance(mapping, Mapping):
        raise ConfigError(f"config={mapping!r} is not a mapping of settings")
    hints, values = typing.get_type_hints(MetaGenRLExperiment), {}
    for name, value in mapping.items():
        if name not in hints:
            raise ConfigError(
                f"config.{name} is not a setting of MetaGenRL; there are {sorted(hints)} (configs "
                "of EPG "
                f"are for launch.meta_train)"
            )
        group = dataclasses.is_dataclass(hints[name])
        values[name] = (
            hints[name](**typed_fields(name, hints[name], value))
            if group
            else typed(f"config.{name}", hints[name], value)
        )
    experiment = MetaGenRLExperiment(**values)
    validate(experiment)
    return experiment


_MAY_BE_ZERO = {
    "value_inputs",
    "discount",
    "gae_lambda",
    "exploration",
    "smoothing",
    "target_policy_noise_clip",
    "random_steps",
    "learning_rate_rounds",
    "life_rounds",
    "updates_after",
    "virtual_learning_rate",
    "warm_up_steps",
    "threads",
    "steps_per_agent",
    "policy_learning_rate",
    "learning_rate",
    "final_learning_rate",
}
_AT_MOST = {
    "value_inputs": 2,
    "discount": 1,
    "gae_lambda": 1,
    "tau": 1,
    "exploration": 10,
    "threads": 1024,
    "clip": 1000,
}


def validate(experiment: MetaGenRLExperiment) -> None:
    """Checks ranges, choices and what must fit together.

    Raises:
      ConfigError: Names the first setting that is unusable.
    """
    for name, value in experiment.to_mapping().items():
        for field, part in value.items() if isinstance(value, dict) else [(name, value)]:
            _check_range(
                f"config.{name}.{field}" if isinstance(value, dict) else f"config.{name}",
                field,
                part,
            )
    agent, meta, period = experiment.agent, experiment.meta, experiment.round_steps
    if not experiment.environments or experiment.agents % len(experiment.environments):
        raise ConfigError(
            f"config.agents={experiment.agents} cannot be distributed equally over "
            f"config.environments={experiment.environments}; make it a multiple of their number"
        )
    if len(set(experiment.environments)) < len(experiment.environments):
        raise ConfigError(
            f"config.environments={experiment.environments} names one twice; more agents do the "
            "same"
        )
    if period % agent.policy_delay:
        raise ConfigError(
            f"config.round_steps={period} is no multiple of config.agent.policy_delay="
            f"{agent.policy_delay}; updates must not straddle rounds"
        )
    if experiment.steps_per_agent % period:
        raise ConfigError(
            f"config.steps_per_agent={experiment.steps_per_agent} is no multiple of "
            "config.round_steps="
            f"{period}; a run consists of whole rounds"
        )
    if agent.random_steps % period:
        raise ConfigError(
            f"config.agent.random_steps={agent.random_steps} is no multiple of config.round_steps="
            f"{period}; agents explore at random for whole rounds"
        )
    if agent.replay_steps < period:
        raise ConfigError(
            f"config.agent.replay_steps={agent.replay_steps} is below "
            f"config.round_steps={period}; a "
            f"replay holds at least one round"
        )
    if experiment.objective.action_filters < 2:
        raise ConfigError(
            "config.objective.action_filters=1 leaves no unit for one of the two activations; set "
            "2 or "
            "more"
        )
    if meta.warm_up not in ("ddpg", "learning_rate"):
        raise ConfigError(
            f"config.meta.warm_up={meta.warm_up!r} is unknown; choose one of ['ddpg', "
            "'learning_rate']"
        )
    baseline = experiment.baseline
    if baseline.update_period % baseline.minibatch:
        raise ConfigError(
            f"config.baseline.minibatch={baseline.minibatch} does not divide "
            f"config.baseline.update_period={baseline.update_period}; choose a divisor"
        )


def _check_range(field: str, name: str, value: Any) -> None:
    if isinstance(value, (bool, str)):
        return
    for number in value if isinstance(value, tuple) else (value,):
        if isinstance(number, str):
            continue
        if number < 0 or (number == 0 and name not in _MAY_BE_ZERO):
            raise ConfigError(
                f"{field}={value!r} must be {'at least 0' if name in _MAY_BE_ZERO else 'above 0'}"
            )
        if number > _AT_MOST.get(name, number):
            raise ConfigError(f"{field}={value!r} must be at most {_AT_MOST[name]}")
