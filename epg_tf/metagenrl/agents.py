"""Lets P agents of one environment act in lockstep, remember, and learn (the inner lines of
MetaGenRL's Algorithm 1).

Time is cut into rounds of equally many env steps. All episodes start anew with a round, cut off as
by a time limit where they had not ended. So between rounds agents' weights and replays are all
there is, no simulation need be saved, and every random stream is named by (seed, round, agent,
purpose).
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Mapping, Sequence

import numpy as np

from epg_tf.agents.replay import Replay
from epg_tf.core.errors import ConfigError
from epg_tf.core.metagenrl_experiment import AgentConfig, MetaConfig
from epg_tf.core.random_streams import life_generator
from epg_tf.core.types import Array, LifeKey
from epg_tf.losses.objectives import ObjectiveModel
from epg_tf.metagenrl.learner import PopulationLearner
from epg_tf.metagenrl.update import UpdateResult
from epg_tf.tasks.base import TaskFamily
from epg_tf.tasks.episodes import mean_returns
from epg_tf.tasks.registry import simulate

PARTS = ("acting", "environment", "replay", "tensorflow")


@dataclasses.dataclass(frozen=True)
class Lives:
    """When agents die and are born anew, in rounds.

    Attributes:
      length: Of a life; 0: it has no end.
      shortened: [P] by how much each agent's first life is shorter, < length; differences keep ages
        apart for good.
    """

    length: int
    shortened: Array

    def births(self, number: int) -> Array:
        """Returns the round in which the agents that live in round `number` were born, [P]."""
        if not self.length:
            return np.zeros_like(self.shortened)
        return np.maximum(
            0, (number + self.shortened) // self.length * self.length - self.shortened
        )


class ActorShard:
    """P agents that share an environment, an objective and a compiled update. One thread at a time
    may use it.

    Args:
      family: Their environment.
      agent: Settings of agents.
      objective: What their policies follow.
      meta: How it is learned; None: it is frozen.
      round_steps: Env steps in a round, a multiple of the policy delay.
      keys: Name the agents; the epoch in them is replaced by the round.
      lives: When agents die, to be born anew.

    Attributes:
      learner: Their weights.
      replay: Their steps.
      round: Rounds done.
      failed: [P] bool, True where physics diverged or a gradient was not finite.
      seconds: Time spent so far (s), by `PARTS`.
    """

    def __init__(
        self,
        family: TaskFamily,
        agent: AgentConfig,
        objective: ObjectiveModel,
        meta: MetaConfig | None,
        round_steps: int,
        keys: Sequence[LifeKey],
        lives: Lives,
    ):
        check_continuous(family)
        self.family, self.population, self.round = family, len(keys), 0
        self._agent, self._meta, self._round_steps, self._keys = (
            agent,
            meta,
            round_steps,
            tuple(keys),
        )
        self._lives, self._simulation = lives, simulate(family, self.population)
        self.learner = PopulationLearner(self.population, family.spec, agent, objective, meta)
        self.replay = Replay(
            self.population, agent.replay_steps, family.observation_size, family.action_size
        )
        self.failed = np.zeros(self.population, bool)
        self._enter(np.arange(self.population))
        self.seconds = dict.fromkeys(PARTS, 0.0)

    def _streams(self, purpose: str) -> list[np.random.Generator]:
        return [
            life_generator(key, purpose)
            for key in self._named(np.full(self.population, self.round))
        ]

    def _named(self, rounds: Array) -> list[LifeKey]:
        return [
            LifeKey(key.seed, key.phase, int(number), key.index)
            for key, number in zip(self._keys, rounds, strict=True)
        ]

    def _enter(self, fresh: Array) -> None:
        """Gives all agents their lives' tasks, and those that are born now fresh weights."""
        keys = self._named(self._lives.births(self.round))
        self._simulation.set_tasks(
            [self.family.sample_task(life_generator(key, "task")) for key in keys]
        )
        self.learner.initialize_agents(fresh, [keys[agent] for agent in fresh])
        self.failed[fresh] = False

    def begin_round(self) -> None:
        """Starts new episodes and the round's random streams."""
        self._resets, self._draws, self._smoothings = (
            self._streams(purpose) for purpose in ("reset", "minibatch", "smoothing")
        )
        births = self._lives.births(self.round)
        fresh = np.flatnonzero(births == self.round)
        if self.round and fresh.size:
            self._enter(fresh)
        self._ages = (self.round - births) * self._round_steps
        self._at_random = self._ages < self._agent.random_steps
        shape = (self._round_steps, self.family.action_size)
        self._noise = np.stack(
            [
                g.uniform(-1.0, 1.0, shape).astype(np.float32)
                if at_random
                else self._agent.exploration * g.standard_normal(shape, dtype=np.float32)
                for g, at_random in zip(self._streams("action"), self._at_random, strict=True)
            ],
            axis=1,
        )
        self._step = 0
        self._observation = self._simulation.reset(np.arange(self.population), self._resets)
        self._running, self._returns = (
            np.zeros(self.population),
            [[] for _ in range(self.population)],
        )
        self._acting = self.learner.acting_policy()
        self._taught: list[UpdateResult] = []

    def advance(self) -> UpdateResult | None:
        """Takes as many env steps as there are critic updates in an update, then one update where
        it is due.
        """
        for _ in range(self._agent.policy_delay):
            self._take_step()
        taken = self.round * self._round_steps + self._step
        return self._learn(taken) if taken >= max(1, self._agent.updates_after) else None

    def _take_step(self) -> None:
        clock = time.perf_counter
        started = clock()
        action = self._noise[self._step]
        if not self._at_random.all():
            policy = self._acting.act(self._observation) * ~self._at_random[:, None]
            action = np.clip(policy + action, -1.0, 1.0)
        acted = clock()
        result = self._simulation.step(self.family.within_bounds(action))
        self._step += 1
        last = self._step == self._round_steps
        ended = result.terminated | result.truncated
        stepped = clock()
        self.replay.write(
            {
                "observation": self._observation,
                "action": action,
                "reward": result.reward,
                "terminated": result.terminated,
                "ended": ended | last,
                "next_observation": result.observation,
            }
        )
        self.failed |= result.diverged
        self._running += result.reward
        self._observation = result.observation
        written = clock()
        if ended.any() and not last:
            self._follow(np.flatnonzero(ended))
        elif last:
            self._close(np.flatnonzero(ended))
        self.seconds["acting"] += acted - started
        self.seconds["environment"] += stepped - acted + clock() - written
        self.seconds["replay"] += written - stepped

    def _close(self, ids: Array) -> None:
        for agent in ids:
            self._returns[agent].append(self._running[agent])
        self._running[ids] = 0.0

    def _follow(self, ids: Array) -> None:
        self._close(ids)
        self._observation = self._observation.copy()
        self._observation[ids] = self._simulation.next_episode(ids, self._resets)

    def _learn(self, taken: int) -> UpdateResult:
        agent, started = self._agent, time.perf_counter()
        ages = self._ages + self._step
        chunks = self.replay.draw(self._draws, ages, self.learner.batches, agent.batch, agent.chunk)
        shape = (agent.policy_delay, agent.batch, agent.chunk, self.family.action_size)
        smoothing = np.stack(
            [g.standard_normal(shape, dtype=np.float32) for g in self._smoothings], axis=1
        )
        blend, rate = warm_up(self._meta, agent.policy_learning_rate, taken)
        drawn = time.perf_counter()
        taught = self.learner.update(chunks, smoothing, blend, rate, ages >= agent.updates_after)
        self.failed |= ~taught.finite.numpy()
        self._acting = self.learner.acting_policy()
        self._taught.append(taught)
        self.seconds["replay"] += drawn - started
        self.seconds["tensorflow"] += time.perf_counter() - drawn
        return taught

    def end_round(self) -> dict[str, Array]:
        """Closes the round.

        Returns:
          Per agent, [P], NaN where there was none: "training_return" mean of the episodes that
          ended in the round, all with exploration; "critic_error", "value" and "agreement" (see
          `UpdateResult`) means over its updates; "failed" so far.
        """
        self.round += 1
        found = {
            name: [getattr(taught, name).numpy() for taught in self._taught]
            for name in ("critic_error", "value", "agreement")
        }
        nothing = np.full(self.population, np.nan)
        return {
            "training_return": np.array([np.mean(row) if row else np.nan for row in self._returns]),
            "failed": self.failed.astype(np.float64),
            **{name: np.mean(rows, axis=0) if rows else nothing for name, rows in found.items()},
        }

    def arrays(self) -> dict[str, Array]:
        """Returns all that the next round goes on from, but the replay."""
        return {**self.learner.arrays(), "failed": self.failed}

    def load(self, round_number: int, arrays: Mapping[str, Array]) -> None:
        """Takes what `arrays` returned after a round."""
        self.round = round_number
        self._enter(np.arange(0))
        self.learner.load(arrays)
        self.failed = arrays["failed"].copy()

    def evaluate(self, episodes: int) -> Array:
        """Plays whole episodes without exploration; returns each agent's mean return, [P].

        Between rounds only: it uses the agents' simulations. Tasks are the agents' own, starts are
        of the round.
        """
        policy = self.learner.acting_policy()
        return mean_returns(
            self._simulation,
            lambda seen: self.family.within_bounds(policy.act(seen)),
            self._streams("final_reset"),
            episodes,
        )


def warm_up(meta: MetaConfig | None, policy_rate: float, taken: int) -> tuple[float, float]:
    """Returns the objective's share in what policies follow, and their learning rate (Appendix
    B.2).

    Args:
      meta: How the objective is learned; None: there is nothing to warm up.
      policy_rate: The learning rate after the warm-up.
      taken: Env steps so far.
    """
    if meta is None or taken >= meta.warm_up_steps:
        return 1.0, policy_rate
    share = taken / meta.warm_up_steps
    if meta.warm_up == "ddpg":
        return share, policy_rate
    return 1.0, policy_rate * float(np.expm1(_GROWTH * share) / np.expm1(_GROWTH))


_GROWTH = float(np.log(1000.0))  # the learning rate grows as exp(share * this) - 1, from zero


def check_continuous(family: TaskFamily) -> None:
    """Refuses environments that a deterministic policy cannot act in.

    Raises:
      ConfigError: Actions are discrete or unbounded.
    """
    if family.discrete_actions:
        raise ConfigError(
            f"environment {family.name}: its actions are discrete, MetaGenRL's policies are "
            f"deterministic; choose one with continuous actions"
        )
    if not np.isfinite(family.action_bounds).all():
        raise ConfigError(
            f"environment {family.name}: its actions have no bounds; wrap it in "
            f"gymnasium.wrappers.RescaleAction and register that"
        )
