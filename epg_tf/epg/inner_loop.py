"""Runs the inner loop of Evolved Policy Gradients for P lives in lockstep.

`InnerLoop.run` is Algorithm 2, and so the inner loop of Algorithm 1; the single env steps and
updates of the lives are in `epg/lives.py`.
"""

from __future__ import annotations

import contextlib
import dataclasses
import threading
import time
from collections.abc import Iterator, Sequence

from epg_tf.agents.buffer import Buffer
from epg_tf.core.errors import ConfigError, Interrupted
from epg_tf.core.types import Array, LifeKey, LifeResults
from epg_tf.epg.conditions import Condition
from epg_tf.epg.evolution_settings import PLAYED_FOR
from epg_tf.epg.learner import Learner
from epg_tf.epg.lives import Lives, life_streams, sample_tasks
from epg_tf.epg.past_policies import Starts
from epg_tf.epg.settings import Experiment
from epg_tf.losses.extra_channels import GOAL_SIZE, sees_goal
from epg_tf.tasks.base import Simulation, TaskFamily
from epg_tf.tasks.episodes import Episodes, Watch
from epg_tf.tasks.registry import simulate

PARTS = ("acting", "physics", "family", "updating", "rest")


@dataclasses.dataclass(frozen=True)
class InnerLoopSettings:
    """Says how the agents of lives learn, and how their lives are valued.

    Attributes:
      alpha: Weight of the surrogate: 0 the learned loss alone, 1 the surrogate alone.
      learning_rate: Of the agents' Adam; 0: they do not learn.
      epochs: Epochs over the M steps of an update, i.e. how often it uses each of them; the paper's
        number is 1. Epochs of evolution are another thing: each has W lives.
      fitness_from: Episodes that give the fitness of a life: "final_episodes", with the final
        policy after the life; "whole_life", all that ended within it; or "weighted", see
        `lives.weighted_return`.
      final_noise: Factor of the noise on actions in final episodes; 0: the most likely actions.
      updates: Updates in a life; None: the experiment's number.
      fresh: Whether agents start from fresh policies even where evolution moved the initial one.
      condition: How lives differ from ordinary ones; None: they do not.
      starts: Where lives go on from earlier ones, and whose agents are returned; None: all begin
        afresh, and none are.
    """

    alpha: float
    learning_rate: float
    epochs: int = 1
    fitness_from: str = "final_episodes"
    final_noise: float = 1.0
    updates: int | None = None
    fresh: bool = False
    condition: Condition | None = None
    starts: Starts | None = None

    def of(self, lives: Sequence[int]) -> InnerLoopSettings:
        """Returns the same for some of the lives, numbered from 0 in the given order."""
        if self.starts is None:
            return self
        return dataclasses.replace(self, starts=self.starts.of(lives))


def final_inner_settings(experiment: Experiment) -> InnerLoopSettings:
    """Returns how agents learn once evolution has ended, with the alpha that it ends with."""
    return InnerLoopSettings(experiment.evolution.final_guidance, experiment.inner.learning_rate)


class InnerLoop:
    """Runs P lives at a time. One thread at a time may use it.

    Args:
      experiment: Settings.
      family: Where the agents live.
      measure_kl: Whether to measure the KL divergence of each update.
      stop: When set, lives end early with `Interrupted`.

    Raises:
      ConfigError: The loss is to see goals, and the family does not tell them.

    Attributes:
      learner: Holds the agents and updates them.
      seconds: Time spent so far (s), by `PARTS`: "physics" is the engine alone, "family" the code
        of the family around it.
    """

    def __init__(
        self,
        experiment: Experiment,
        family: TaskFamily,
        measure_kl: bool = False,
        stop: threading.Event | None = None,
    ) -> None:
        self.experiment = experiment
        self.family = family
        self.population = experiment.compute.shard_lives
        self.learner = Learner(self.population, family.spec, experiment, measure_kl)
        self.seconds = dict.fromkeys(PARTS, 0.0)
        self._stop = stop or threading.Event()
        self._simulation = simulate(family, self.population)
        self._buffer = Buffer(
            self.population,
            experiment.loss.buffer_steps,
            experiment.inner.update_period,
            family.spec,
            goal_size=GOAL_SIZE if sees_goal(experiment.loss) else 0,
        )
        if self._buffer.goal.size and self._simulation.goals() is None:
            raise ConfigError(
                f"config.loss.channels={experiment.loss.channels} needs the goal, but where the "
                f"goals of {family.name} are is not known; choose another family, or leave it out"
            )
        self._lives: Lives | None = None
        self._passive: Learner | None = None

    def run(
        self,
        keys: Sequence[LifeKey],
        phi: Array,
        inner_settings: InnerLoopSettings,
        watch: Watch | None = None,
        simulation: Simulation | None = None,
    ) -> LifeResults:
        """Runs P lives from fresh agents to their final episodes (Algorithm 2).

        Args:
          keys: P keys.
          phi: [P, D] float32, what evolution moves, of each life: see `meta_parameters`.
          inner_settings: How the agents learn.
          watch: Called after every env step, before ended episodes are followed by others.
          simulation: P simulations of the same family in other physics; the loop's own by default.

        Returns:
          Results of the P lives.

        Raises:
          Interrupted: `stop` was set.
        """
        inner, condition = self.experiment.inner, inner_settings.condition
        updates = inner.updates if inner_settings.updates is None else inner_settings.updates
        simulation = self._simulation if simulation is None else simulation
        others = condition.of_others(keys) if condition is not None else keys
        yoked = condition is not None and condition.kind == "yoked"
        living = others if yoked else keys
        with self._timed(simulation):
            # Initialize the buffer with N zero tuples; initialize the policies randomly.
            self._buffer.clear(updates * inner.update_period)
            self._begin(self.learner, living, phi, inner_settings)
            # Sample an MDP (Algorithm 1).
            simulation.set_tasks(sample_tasks(self.family, living))
            # Sample an initial state.
            episodes = Episodes(simulation, life_streams(living, "reset"), watch=watch)
            earlier = inner_settings.starts.agents if inner_settings.starts else ()
            lives = Lives(living, episodes, self.learner, self._buffer, self.seconds, earlier)
            self._lives = lives
            if yoked:
                lives.add_passive_learner(
                    self._begin(self._passive_learner(), keys, phi, inner_settings)
                )
            for update in range(updates):  # steps t = 1, ..., U, M at a time
                self._check_stop()
                if condition is not None and condition.switches_before(update):
                    lives.switch_tasks(sample_tasks(self.family, others))
                # Sample actions, take them, add tuples to the buffer; reset where needed.
                lives.take_steps(inner.update_period)
                # Where t mod M = 0: losses of minibatches, update of policy and memory (Eq. 6).
                lives.update_agents(inner_settings.epochs)
            if condition is not None and condition.kind == "transfer":
                simulation.set_tasks(sample_tasks(self.family, others))
            if yoked:
                simulation.set_tasks(sample_tasks(self.family, keys))
                lives.continue_with_passive_learner(keys)
            # Sample several trajectories with the trained policies (Algorithm 1).
            if inner_settings.fitness_from in PLAYED_FOR:
                lives.play_final_episodes(inner_settings.final_noise, self._check_stop)
            kept = inner_settings.starts.kept if inner_settings.starts else ()
            return lives.results(inner_settings.fitness_from, kept)

    @staticmethod
    def _begin(
        learner: Learner, keys: Sequence[LifeKey], phi: Array, inner_settings: InnerLoopSettings
    ) -> Learner:
        """Starts P new lives in a learner, and returns it."""
        starts = inner_settings.starts.agents if inner_settings.starts else ()
        learner.begin(
            keys,
            phi,
            inner_settings.alpha,
            inner_settings.learning_rate,
            inner_settings.fresh,
            starts,
        )
        return learner

    def _passive_learner(self) -> Learner:
        """Returns what owns agents that learn from the experience of others."""
        if self._passive is None:
            self._passive = Learner(self.population, self.family.spec, self.experiment, False)
        return self._passive

    @property
    def observation_scaling(self) -> tuple[Array, Array]:
        """The newest lives' normalisation of observations: shift and scale, both [P, O]."""
        if self._lives is None:
            raise ValueError("observation_scaling needs lives; call run() first")
        return self._lives.observation_shift, self._lives.observation_scale

    def _check_stop(self) -> None:
        if self._stop.is_set():
            raise Interrupted

    @contextlib.contextmanager
    def _timed(self, simulation: Simulation) -> Iterator[None]:
        """Counts "family", which the simulation reports, and "rest", which nothing else counts."""
        started = time.perf_counter()
        counted = sum(self.seconds.values())
        in_family = simulation.family_seconds
        yield
        self.seconds["family"] += simulation.family_seconds - in_family
        others = sum(self.seconds.values()) - counted
        self.seconds["rest"] += time.perf_counter() - started - others
