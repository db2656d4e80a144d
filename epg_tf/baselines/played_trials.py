"""Plays trials of RL² with a recurrent policy, for PPO to learn from (Duan et al. 2016)."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf
from tf_agents.trajectories import Trajectory
from tf_agents.trajectories import time_step as ts

from epg_tf.baselines.recurrent_ppo import RecurrentAgent
from epg_tf.core.random_streams import life_generator
from epg_tf.core.types import Array, LifeKey
from epg_tf.tasks.trials import TrialEnvironment


@dataclasses.dataclass(frozen=True)
class Trials:
    """Holds what happened in P trials of T env steps.

    Attributes:
      trajectory: Of TF-Agents, arrays [P, T + 1, ...]; the last row only ends the trial.
      episode: [P, T] int, number of the episode that each env step belongs to.
      returns: For each trial, the returns of its episodes that ended, in their order.
      diverged: [P] bool, whether physics failed.
    """

    trajectory: Trajectory
    episode: Array
    returns: list[list[float]]
    diverged: Array


def play_trials(
    environment: TrialEnvironment, agent: RecurrentAgent, keys: Sequence[LifeKey]
) -> Trials:
    """Plays a trial in each of P tasks, with random actions and without learning.

    Args:
      environment: Of P trials.
      agent: Acts.
      keys: P keys, which name tasks, starts and noise.
    """
    population = environment.population
    time_step, state = environment.begin(keys), agent.initial_state(population)
    streams = [life_generator(key, "action") for key in keys]
    noise = np.stack([agent.draw_noise(stream, environment.env_steps) for stream in streams])
    rows, episodes = [], []
    returns: list[list[float]] = [[] for _ in keys]
    for step in range(environment.env_steps):
        action, info, state = agent.act(time_step, state, noise[:, step])
        next_time_step = environment.step(action)
        rows.append(_row(time_step, action, info, next_time_step))
        episodes.append(environment.episode)
        for trial, value in zip(environment.ended.ids, environment.ended.returns, strict=True):
            returns[trial].append(float(value))
        time_step = next_time_step
    action, info, _ = agent.act(time_step, state, np.zeros_like(noise[:, 0]))
    rows.append(_row(time_step, action, info, ts.restart(time_step.observation, population)))
    trajectory = tf.nest.map_structure(lambda *parts: np.stack(parts, axis=1), *rows)
    return Trials(trajectory, np.stack(episodes, axis=1), returns, environment.diverged)


def _row(time_step: ts.TimeStep, action: Any, info: Any, next_time_step: ts.TimeStep) -> Trajectory:
    """Returns an env step of P trials, arrays [P, ...]."""
    return Trajectory(
        step_type=time_step.step_type,
        observation=time_step.observation,
        action=action,
        policy_info=tf.nest.map_structure(lambda part: part.numpy(), info),
        next_step_type=next_time_step.step_type,
        reward=next_time_step.reward,
        discount=next_time_step.discount,
    )


def without_exploration(trials: Trials, exploratory: int) -> Trajectory:
    """Returns the trajectory with the rewards of the first episodes set to 0 (E-RL²).

    Policies still see these rewards in their observations.

    Args:
      trials: As played.
      exploratory: Number of these episodes; 0 leaves all rewards (RL²).
    """
    reward = trials.trajectory.reward.copy()
    reward[:, :-1][trials.episode < exploratory] = 0.0
    return trials.trajectory.replace(reward=reward)
