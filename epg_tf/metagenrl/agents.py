"""Lets P agents of one environment act in lockstep, remember, and learn (MetaGenRL, Algorithm 1).

Time is divided into rounds of equally many env steps. New episodes begin with a round; those
that have not ended by then are cut as by a time limit. So between rounds the agents' weights and
replays are all there is, no simulation need be saved, and (seed, round, agent, purpose) names
every random stream.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Mapping, Sequence

import numpy as np

from epg_tf.agents.replay import Replay
from epg_tf.core.errors import ConfigError
from epg_tf.core.random_streams import life_generator
from epg_tf.core.types import Array, LifeKey
from epg_tf.losses.objectives import ObjectiveModel
from epg_tf.metagenrl.learner import PopulationLearner
from epg_tf.metagenrl.settings import MetaConfig, MetaGenRLExperiment
from epg_tf.metagenrl.update import UpdateResult
from epg_tf.metagenrl.warm_up import warm_up
from epg_tf.tasks.base import TaskFamily
from epg_tf.tasks.episodes import Episodes, play_episodes, success_or_failure
from epg_tf.tasks.registry import simulate

PARTS = ("acting", "environment", "replay", "tensorflow")


@dataclasses.dataclass(frozen=True)
class Lifetimes:
    """Defines in which rounds agents start from scratch.

    Attributes:
      length: Rounds in a life; 0: it has no end.
      shortened: [P] rounds by which each agent's first life is shorter, < length; because of
        these, agents have different ages in every later life, too.
    """

    length: int
    shortened: Array

    def first_rounds(self, number: int) -> Array:
        """Returns the first round of each agent's life that goes on in round `number`, [P]."""
        if not self.length:
            return np.zeros_like(self.shortened)
        ended = (number + self.shortened) // self.length * self.length
        return np.maximum(0, ended - self.shortened)


class AgentShard:
    """Holds P agents that share an environment, an objective and a compiled update.

    One thread at a time may use it.

    Args:
      family: Their environment.
      keys: Name the agents; the round replaces the epoch in them.
      objective: What their policies follow; None: DDPG's gradient.
      experiment: How they learn, and how long a round is.
      meta: How the objective is learned; None: it is frozen.
      lifetimes: When agents start from scratch; None: never.

    Attributes:
      learner: Their weights.
      replay: Their steps.
      round: Rounds done.
      failed: [P] bool, True where physics diverged or a gradient was not finite, in this life and
        process.
      failures: Agent -> what was wrong when it first failed, of one of those that fail at once.
      seconds: Time spent so far (s), by `PARTS`.

    Raises:
      ConfigError: The actions of the family are discrete or unbounded.
    """

    def __init__(
        self,
        family: TaskFamily,
        keys: Sequence[LifeKey],
        objective: ObjectiveModel | None,
        experiment: MetaGenRLExperiment,
        meta: MetaConfig | None = None,
        lifetimes: Lifetimes | None = None,
    ) -> None:
        check_continuous(family)
        agent = experiment.agent
        self.family = family
        self.population = len(keys)
        self.round = 0
        self.learner = PopulationLearner(self.population, family.spec, agent, objective, meta)
        self.replay = Replay(
            self.population, agent.replay_steps, family.observation_size, family.action_size
        )
        self.failed, self._failed_now = np.zeros((2, self.population), bool)
        self.failures: dict[int, str] = {}
        self.seconds = dict.fromkeys(PARTS, 0.0)
        self._reward_units = np.zeros(self.population, np.float32)
        self._agent = agent
        self._meta = meta
        self._round_steps = experiment.round_steps
        self._lifetimes = lifetimes or Lifetimes(0, np.zeros(self.population, np.int64))
        self._keys = tuple(keys)
        self._simulation = simulate(family, self.population)
        self._start_lives(np.arange(self.population))

    def _keys_of(self, rounds: Array) -> list[LifeKey]:
        return [
            dataclasses.replace(key, epoch=int(number))
            for key, number in zip(self._keys, rounds, strict=True)
        ]

    def _streams(self, purpose: str) -> list[np.random.Generator]:
        keys = self._keys_of(np.full(self.population, self.round))
        return [life_generator(key, purpose) for key in keys]

    def _start_lives(self, fresh: Array) -> None:
        """Gives all agents the tasks of their lives, and the agents `fresh` new weights."""
        keys = self._keys_of(self._lifetimes.first_rounds(self.round))
        self._simulation.set_tasks(
            [self.family.sample_task(life_generator(key, "task")) for key in keys]
        )
        self.learner.initialize_agents(fresh, [keys[agent] for agent in fresh])
        self.failed[fresh] = False
        self._reward_units[fresh] = 0.0
        for agent in fresh:
            self.failures.pop(int(agent), None)

    def begin_round(self) -> None:
        """Starts new episodes and the round's random streams."""
        self._batch_streams = self._streams("minibatch")
        self._target_noise_streams = self._streams("target_noise")
        first_rounds = self._lifetimes.first_rounds(self.round)
        fresh = np.flatnonzero(first_rounds == self.round)
        if self.round and fresh.size:
            self._start_lives(fresh)
        self._ages = (self.round - first_rounds) * self._round_steps
        self._random = self._ages < self._agent.random_steps
        self._noise = self._draw_noise()
        self._step = 0
        self._failed_now[:] = False
        self._episodes = Episodes(self._simulation, self._streams("reset"))
        self._returns: list[list[float]] = [[] for _ in range(self.population)]
        self._policy = self.learner.acting_policy()
        self._updates: list[UpdateResult] = []

    def _draw_noise(self) -> Array:
        """Draws the round's random actions or exploration noise, [round steps, P, A] float32."""
        shape = (self._round_steps, self.family.action_size)
        noise = []
        for stream, random in zip(self._streams("action"), self._random, strict=True):
            if random:
                noise.append(stream.uniform(-1.0, 1.0, shape).astype(np.float32))
            else:
                normal = stream.standard_normal(shape, dtype=np.float32)
                noise.append(self._agent.exploration * normal)
        return np.stack(noise, axis=1)

    def advance(self) -> UpdateResult | None:
        """Takes `policy_delay` env steps, then one update where it is due.

        Returns:
          What the update found; None where there was none.
        """
        for _ in range(self._agent.policy_delay):
            self._take_step()
        taken = self.round * self._round_steps + self._step
        if taken < max(1, self._agent.updates_after):
            return None
        return self._learn(taken)

    def _take_step(self) -> None:
        clock = time.perf_counter
        started = clock()
        observation = self._episodes.observation
        action = self._noise[self._step]
        if not self._random.all():
            policy_action = self._policy.act(observation) * ~self._random[:, None]
            action = np.clip(policy_action + action, -1.0, 1.0)
        acted = clock()
        result, ended = self._episodes.step(action)
        stepped = clock()
        self._step += 1
        last = self._step == self._round_steps
        self.replay.write(
            {
                "observation": observation,
                "action": action,
                "reward": result.reward,
                "terminated": result.terminated,
                "ended": result.terminated | result.truncated | last,
                "next_observation": result.observation,
            }
        )
        self._note_failures(result.diverged, self._simulation.divergence)
        for agent, value in zip(ended.ids, ended.returns, strict=True):
            self._returns[agent].append(value)
        self.seconds["acting"] += acted - started
        self.seconds["environment"] += stepped - acted
        self.seconds["replay"] += clock() - stepped

    def _note_failures(self, failed: Array, reason: str) -> None:
        """Notes which agents, [P] bool, have failed now, and why the first of them did."""
        self.failed |= failed
        self._failed_now |= failed
        for agent in np.flatnonzero(failed)[:1]:
            where = f"agent {self._keys[agent].index} in {self.family.name}"
            when = f"at env step {self._step} of round {self.round + 1}"
            self.failures.setdefault(int(agent), f"{where}: {reason} {when}")

    def _learn(self, taken: int) -> UpdateResult:
        agent, started = self._agent, time.perf_counter()
        ages = self._ages + self._step
        chunks = self.replay.draw(
            self._batch_streams, ages, self.learner.batches, agent.batch, agent.chunk
        )
        active = ages >= agent.updates_after
        if agent.scale_rewards:
            chunks["reward"] = chunks["reward"] / self._units_of_rewards(ages, active)
        shape = (agent.policy_delay, agent.batch, agent.chunk, self.family.action_size)
        target_noise = np.stack(
            [g.standard_normal(shape, dtype=np.float32) for g in self._target_noise_streams], axis=1
        )
        blend, rate = warm_up(self._meta, agent.policy_learning_rate, taken)
        drawn = time.perf_counter()
        result = self.learner.update(chunks, target_noise, blend, rate, active)
        self._note_failures(~result.finite, "a gradient or the critics' error was not finite")
        self._policy = self.learner.acting_policy()
        # Without the objective's gradient, which would fill gigabytes in a round of the paper.
        self._updates.append(result._replace(objective_gradient=np.zeros((self.population, 0))))
        self.seconds["replay"] += drawn - started
        self.seconds["tensorflow"] += time.perf_counter() - drawn
        return result

    def _units_of_rewards(self, ages: Array, active: Array) -> Array:
        """Returns what rewards are divided by, [P, 1, 1] float32: the root mean square of an
        agent's rewards before its first update, at least 1.

        Args:
          ages: [P], env steps of the agents' lives so far.
          active: [P] bool, the agents whose updates have begun; it is 1 for others.
        """
        for agent in np.flatnonzero(active & (self._reward_units == 0.0)):
            seen = min(int(ages[agent]), self.replay.steps)
            rewards = self.replay.newest(seen)["reward"][agent].astype(np.float64)
            self._reward_units[agent] = max(1.0, float(np.sqrt(np.mean(np.square(rewards)))))
        return np.maximum(self._reward_units, np.float32(1.0))[:, None, None]

    def end_round(self) -> dict[str, Array]:
        """Ends the round.

        Returns:
          Numbers per agent, [P], NaN where there was none: "training_return", the mean of the
          episodes that ended in the round, all with exploration; "critic_error", "value" and
          "agreement" (see `UpdateResult`), means over its updates; "failed", 1.0 where the agent
          failed in this round.
        """
        self.round += 1
        numbers = {
            "training_return": np.array([np.mean(row) if row else np.nan for row in self._returns]),
            "failed": self._failed_now.astype(np.float64),
        }
        for name in ("critic_error", "value", "agreement"):
            rows = [getattr(result, name) for result in self._updates]
            numbers[name] = np.mean(rows, axis=0) if rows else np.full(self.population, np.nan)
        return numbers

    def arrays(self) -> dict[str, Array]:
        """Returns all that the next round continues from, but the replay."""
        return {**self.learner.arrays(), "reward_units": self._reward_units}

    def load(self, round_number: int, arrays: Mapping[str, Array]) -> None:
        """Takes what `arrays` returned after a round."""
        self.round = round_number
        self._start_lives(np.arange(0))
        self.learner.load(arrays)
        self._reward_units = arrays["reward_units"].copy()

    def evaluate(self, episodes: int) -> tuple[Array, Array]:
        """Plays whole episodes without exploration.

        Only between rounds, since it uses the agents' simulations. Tasks are the agents' own,
        starts are those of the round.

        Returns:
          [P] mean returns, NaN where physics diverged; [P] shares of episodes that ended at the
          goal, NaN in families without goals.
        """
        policy = self.learner.acting_policy()
        played = play_episodes(self._simulation, policy.act, self._streams("final_reset"), episodes)
        success = success_or_failure(self.family, played.success_rate, played.diverged)
        return np.where(played.diverged, np.nan, played.mean_return), success


def check_continuous(family: TaskFamily) -> None:
    """Refuses environments in which a deterministic policy cannot act.

    Raises:
      ConfigError: Actions are discrete or unbounded.
    """
    if family.discrete_actions:
        raise ConfigError(
            f"environment {family.name}: its actions are discrete, but MetaGenRL's policies are "
            f"deterministic; choose one with continuous actions"
        )
    if not np.isfinite(family.action_bounds).all():
        raise ConfigError(
            f"environment {family.name}: its actions have no finite bounds, which MetaGenRL needs; "
            f"{family.how_to_bound}"
        )
