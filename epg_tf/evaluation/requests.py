"""Makes requests: which fresh agents an evaluation trains."""

from __future__ import annotations

from epg_tf.baselines.method import Request
from epg_tf.core.errors import ConfigError
from epg_tf.epg.settings import Experiment
from epg_tf.metagenrl.agents import check_continuous
from epg_tf.metagenrl.settings import MetaGenRLExperiment
from epg_tf.tasks.registry import named_environment
from epg_tf.tasks.settings import Physics, TaskConfig


def loss_request(
    experiment: Experiment,
    seed: int,
    lives: int,
    updates: int | None = None,
    physics: Physics = "exact",
) -> Request:
    """Returns the request of the evaluation of a loss of EPG, whatever physics it evolved in; other
    arguments as in `evaluate`.
    """
    inner = experiment.inner
    return Request(
        experiment.in_physics(physics).task,
        seed,
        "test",
        lives,
        (inner.updates if updates is None else updates) * inner.update_period,
        inner.final_episodes,
    )


def objective_request(
    experiment: MetaGenRLExperiment,
    environment: str | None,
    seed: int,
    agents: int,
    env_steps: int | None = None,
    episodes: int = 5,
) -> Request:
    """Returns the request of the evaluation of an objective of MetaGenRL.

    Args:
      environment: FAMILY or FAMILY@EPISODE_LIMIT; None for the first one of meta-training.
      seed: Names agents and their streams; meta-training met none of them.
      agents: Number of agents per method.
      env_steps: Of learning of each; None for as many as an agent of meta-training has.
      episodes: In each evaluation.

    Raises:
      ConfigError: The environment is unknown or has no continuous actions, or the env steps are
        below 1, no whole rounds or no whole updates of the baselines.
    """
    family = named_environment(environment or experiment.environments[0])
    check_continuous(family)
    steps = (experiment.life_rounds or experiment.rounds) * experiment.round_steps
    if env_steps is not None:
        steps = env_steps
    if steps < 1:
        raise ConfigError(f"env_steps={steps} must be 1 or more, or agents learn nothing")
    for period, field in (
        (experiment.round_steps, "round_steps"),
        (experiment.baseline.update_period, "baseline.update_period"),
    ):
        if steps % period:
            raise ConfigError(
                f"env_steps={steps} is no multiple of the objective's config.{field}={period}; "
                "choose one"
            )
    task = TaskConfig(family.name, family.frame_skip, family.episode_limit)
    return Request(task, seed, "objective_test", agents, steps, episodes)
