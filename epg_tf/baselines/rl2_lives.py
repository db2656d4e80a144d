"""Lets agents of RL² and E-RL² live in the tasks of a test (EPG, Algorithm 2): only the state of
the recurrent policy changes.

An agent lives in the task, and starts from the resets, of the learned loss's agent of the same
number, for as many env steps; its state is kept across all episodes of its life. Its curve is of
the newest episode, at the same env steps as that of EPG; its final episodes go on with the state.
Actions are random throughout, as those of EPG's agents.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np

from epg_tf.baselines.lived_shards import LivedShard, live_in_shards, outcome
from epg_tf.baselines.method import LearningCurves, Method, Request
from epg_tf.baselines.recurrent_ppo import RecurrentAgent
from epg_tf.baselines.rl2 import rl2_family
from epg_tf.baselines.rl2_settings import RL2Experiment
from epg_tf.core.errors import ConfigError, RecordError
from epg_tf.core.threads import configure_tensorflow, threads_of
from epg_tf.core.types import Array, LifeKey
from epg_tf.epg.lives import life_streams
from epg_tf.tasks.base import TaskFamily
from epg_tf.tasks.trials import TrialEnvironment

_SHARD_LIVES = 32  # in lockstep; part of the numbers


@dataclasses.dataclass(frozen=True, eq=False)
class RL2Method(Method):
    """Lets a meta-trained recurrent policy live.

    Attributes:
      name: "rl2" or "e_rl2", as meta-trained.
      experiment: Of meta-training.
      policy: [D] float32, of `RecurrentAgent.policy_vector`.
      loss: Names where it was read from.
      period: Env steps between points of the curve.
      threads: Shards computed at once; 0: one per CPU.
    """

    experiment: RL2Experiment
    policy: Array
    period: int
    threads: int = 0

    def train(self, request: Request) -> LearningCurves:
        """Lets L agents live; NaN where physics failed.

        Raises:
          ConfigError: Observations or actions differ from those of meta-training.
          RecordError: The policy has another size than its settings say.
        """
        home, family = self.experiment.task, rl2_family(request.task)
        if family.spec != rl2_family(home).spec:
            raise ConfigError(
                f"config.task.family={request.task.family!r}: the policy of {self.name} was "
                f"meta-trained in {home.family}, whose observations or actions are others; "
                "compare it in a family that has the same"
            )
        configure_tensorflow(threads_of(self.threads))  # before the agent, which starts TensorFlow
        agent = RecurrentAgent(family, self.experiment.network, self.experiment.ppo, seed=0)
        if (needed := agent.policy_vector().size) != self.policy.size:
            raise RecordError(
                f"{self.loss.name if self.loss else self.name}: the policy has {self.policy.size} "
                f"parameters, its config needs {needed}; restore both files from the run that "
                "wrote them"
            )
        agent.load_policy(self.policy)
        return live_in_shards(
            lambda shard: _Lives(agent, family, shard, request).live(self.period),
            request.keys(),
            _SHARD_LIVES,
            self.threads,
            self.period,
        )


class _Lives:
    """P lives of one recurrent policy, in lockstep.

    Args:
      agent: Acts.
      family: Where they live.
      keys: P keys, which name the random streams.
      request: Env steps and final episodes.
    """

    def __init__(
        self,
        agent: RecurrentAgent,
        family: TaskFamily,
        keys: Sequence[LifeKey],
        request: Request,
    ) -> None:
        self._agent, self._keys, self._request = agent, keys, request
        final_steps = request.episodes * family.episode_limit
        self._environment = TrialEnvironment(family, len(keys), request.env_steps + final_steps + 1)
        self._time_step = self._environment.begin(keys)
        self._state = agent.initial_state(len(keys))

    def live(self, period: int) -> LivedShard:
        """Lives to the end.

        Args:
          period: Env steps between points of the curves.
        """
        newest, curve = np.full(len(self._keys), np.nan), []
        streams = life_streams(self._keys, "action")
        for step in range(self._request.env_steps):
            if step % period == 0:
                noise = np.stack([self._agent.draw_noise(stream, period) for stream in streams])
            self._take_step(noise[:, step % period])
            ended = self._environment.ended
            newest[ended.ids] = ended.returns
            if (step + 1) % period == 0:
                curve.append(newest.copy())
        final, success, failed = self._play_final_episodes()
        points = np.stack(curve, axis=1) if curve else np.zeros((len(self._keys), 0))
        return outcome(self._environment.family, points, final, success, failed)

    def _take_step(self, noise: Array) -> None:
        action, _, self._state = self._agent.act(self._time_step, self._state, noise)
        self._time_step = self._environment.step(action)

    def _play_final_episodes(self) -> tuple[Array, Array, Array]:
        """Returns mean return and share of successes of each life's final episodes, and whether its
        physics diverged up to their end, all [P]; what it plays while others go on does not count.
        """
        count, population = self._request.episodes, len(self._keys)
        streams = life_streams(self._keys, "final_action")
        played = np.zeros(population, np.int64)
        returns, successes = np.zeros(population), np.zeros(population)
        failed = self._environment.diverged.copy()
        self._time_step = self._environment.begin_episodes(life_streams(self._keys, "final_reset"))
        while (played < count).any():
            noise = np.stack([self._agent.draw_noise(stream, 1)[0] for stream in streams])
            self._take_step(noise)
            failed |= self._environment.diverged & (played < count)
            ended = self._environment.ended
            counted = played[ended.ids] < count
            returns[ended.ids] += np.where(counted, ended.returns, 0.0)
            successes[ended.ids] += counted & ended.success
            played[ended.ids] += 1
        return returns / count, successes / count, failed
