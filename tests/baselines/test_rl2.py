"""Tests RL² and E-RL²: what counts as reward, lives of a policy, learning, and its folder."""

from __future__ import annotations

import dataclasses
import functools
import json

import numpy as np
import pytest
from tf_agents.trajectories import Trajectory

from epg_tf.artifacts.artifact import load, load_loss, save
from epg_tf.baselines.method import LossName, Request
from epg_tf.baselines.played_trials import Trials, play_trials, without_exploration
from epg_tf.baselines.recurrent_ppo import RecurrentAgent
from epg_tf.baselines.rl2 import RL2Trainer, episode_table, mean_returns
from epg_tf.baselines.rl2_lives import RL2Method
from epg_tf.baselines.rl2_settings import RL2Experiment
from epg_tf.core.errors import ConfigError, RecordError
from epg_tf.core.types import LifeKey
from epg_tf.epg.meta_parameters import initial_phi
from epg_tf.epg.settings import Experiment
from epg_tf.evaluation.trained_methods import load_trained
from epg_tf.tasks.registry import make_family
from epg_tf.tasks.settings import TaskConfig
from epg_tf.tasks.trials import TrialEnvironment

TASK = TaskConfig("hidden_goal", 4, 6)
TINY = {
    "task": dataclasses.asdict(TASK),
    "iterations": 3,
    "trials": 4,
    "validation_period": 2,
    "validation_trials": 2,
    "network": {"input_units": 4, "lstm_units": 4},
    "ppo": {"epochs": 2},
}


@functools.cache
def tiny_agent() -> RecurrentAgent:
    """Returns one agent for all tests: TensorFlow traces its functions for seconds."""
    experiment = RL2Experiment.from_mapping(TINY)
    return RecurrentAgent(make_family(TASK), experiment.network, experiment.ppo, seed=0)


def trial_returns(agent, task, keys) -> np.ndarray:
    """Returns the return of each of two episodes of a trial for each key, [P, 2]."""
    environment = TrialEnvironment(make_family(task), len(keys), 2 * task.episode_limit)
    return episode_table(play_trials(environment, agent, keys), 2)


def trials_of(returns, diverged, reward=None, episode=None) -> Trials:
    nothing = np.zeros((2, 5), np.float32)
    trajectory = Trajectory((), (), (), (), (), nothing if reward is None else reward, ())
    return Trials(trajectory, np.array(episode), returns, np.array(diverged))


def test_e_rl2_zeroes_exactly_the_rewards_of_the_first_episodes():
    reward = np.array([[1, 2, 3, 4, 0], [5, 6, 7, 8, 0]], np.float32)
    trials = trials_of([[], []], [False, False], reward, [[0, 0, 1, 1], [0, 1, 2, 3]])
    counted = {n: without_exploration(trials, n).reward.tolist() for n in (0, 1, 2)}
    assert counted == {
        0: [[1, 2, 3, 4, 0], [5, 6, 7, 8, 0]],
        1: [[0, 0, 3, 4, 0], [0, 6, 7, 8, 0]],
        2: [[0, 0, 0, 0, 0], [0, 0, 7, 8, 0]],
    }
    assert trials.trajectory.reward.tolist() == reward.tolist()


def test_means_by_episode_leave_out_what_did_not_end_and_count_what_diverged_as_the_worst():
    trials = trials_of([[1.0, 2.0, 9.0], [3.0], [70.0, 80.0]], [False, False, True])
    np.testing.assert_array_equal(
        episode_table(trials, 2), [[1.0, 2.0], [3.0, np.nan], [np.nan, np.nan]]
    )
    np.testing.assert_array_equal(mean_returns(trials, 4), [5.0 / 3.0, 2.0, 9.0, np.nan])


def test_the_method_is_named_by_its_exploratory_episodes():
    explores = RL2Experiment.from_mapping({"trial": {"exploratory_episodes": 1}})
    assert (RL2Experiment().method, explores.method) == ("rl2", "e_rl2")


def test_a_family_of_other_sizes_is_refused():
    method = RL2Method("rl2", RL2Experiment.from_mapping(TINY), np.zeros(1, np.float32), 4)
    request = Request(TaskConfig("half_cheetah", 5, 6), 0, "test", 2, 8, 1)
    with pytest.raises(ConfigError, match="was meta-trained in hidden_goal"):
        method.train(request)


class TestAnAgent:
    """One small agent that never learned."""

    def test_state_is_kept_in_a_trial_and_cleared_between_trials(self):
        """The same keys give the same actions, which depend on what came before in the trial."""
        agent, keys = tiny_agent(), [LifeKey(0, "test", 0, number) for number in range(4)]
        environment = TrialEnvironment(make_family(TASK), 4, 12)
        first = play_trials(environment, agent, keys)
        again = play_trials(environment, agent, keys)
        other = play_trials(environment, agent, [LifeKey(1, "test", 0, n) for n in range(4)])
        np.testing.assert_array_equal(first.trajectory.action, again.trajectory.action)
        assert (first.trajectory.action != other.trajectory.action).any()
        assert [len(returns) for returns in first.returns] == [2, 2, 2, 2]
        means = first.trajectory.policy_info["dist_params"]["loc"]
        step = first.trajectory
        start = environment.begin(keys)
        # The first observation of the second episode, but without a past: another action.
        fresh = start._replace(observation=step.observation[:, 6])
        still = np.zeros((4, 2), np.float32)
        without_past, _, _ = agent.act(fresh, agent.initial_state(4), still)
        assert (np.abs(without_past - means[:, 6]) > 1e-7).any(axis=1).all()
        # A FIRST step clears whatever state there is.
        _, _, used = agent.act(start, agent.initial_state(4), still)
        cleared, _, _ = agent.act(fresh, used, still)
        np.testing.assert_array_equal(cleared, without_past)

    def test_a_life_does_not_depend_on_its_neighbours(self):
        agent = tiny_agent()
        keys = [LifeKey(0, "test", 0, number) for number in range(4)]
        others = [*keys[:3], LifeKey(0, "test", 0, 77)]
        one, two = (trial_returns(agent, TASK, each) for each in (keys, others))
        np.testing.assert_array_equal(one[:3], two[:3])
        assert (one[3] != two[3]).all()

    def test_lives_have_the_curve_and_the_final_episodes_of_a_request(self):
        experiment = RL2Experiment.from_mapping(TINY)
        vector = tiny_agent().policy_vector()
        method = RL2Method("rl2", experiment, vector, 4, threads=2)
        request = Request(TASK, 0, "test", 3, 20, 2)
        curves = method.train(request)
        assert curves.env_steps.tolist() == [4, 8, 12, 16, 20]
        assert np.isnan(curves.returns[:, 0]).all()  # no episode of 6 env steps has ended
        assert np.isfinite(curves.returns[:, 1:]).all()
        fewer = method.train(dataclasses.replace(request, agents=2))
        np.testing.assert_array_equal(fewer.final_return, curves.final_return[:2])
        np.testing.assert_array_equal(fewer.returns, curves.returns[:2])
        assert np.isfinite(curves.final_return).all()
        assert curves.success.tolist() == [0.0, 0.0, 0.0]  # none reached the goal
        # Its episodes are those of trials of the same keys, with the same noise.
        trial = trial_returns(tiny_agent(), TASK, request.keys())
        np.testing.assert_allclose(curves.returns[:, [1, 2]], trial, rtol=1e-4, atol=1e-5)

    def test_what_fails_after_its_final_episodes_does_not_count(self, monkeypatch):
        """Episodes of CartPole end at different times; who waits goes on, and then diverges."""
        begin, count = TrialEnvironment.begin_episodes, TrialEnvironment._count

        def begin_episodes(environment, streams):
            environment.waits = np.zeros(len(streams), bool)
            return begin(environment, streams)

        def count_and_diverge(environment, reward, over, success):
            count(environment, reward, over, success)
            environment.diverged |= environment.waits
            environment.waits |= over

        monkeypatch.setattr(TrialEnvironment, "begin_episodes", begin_episodes)
        monkeypatch.setattr(TrialEnvironment, "_count", count_and_diverge)
        task = TaskConfig("gymnasium:CartPole-v1", 1, 60)
        experiment = RL2Experiment.from_mapping({**TINY, "task": dataclasses.asdict(task)})
        vector = RL2Trainer(experiment, 0).agent.policy_vector()
        method = RL2Method("rl2", experiment, vector, 4, threads=2)
        curves = method.train(Request(task, 0, "test", 4, 0, 1))
        assert np.isfinite(curves.final_return).all() and len({*curves.final_return}) > 1

    def test_a_saved_policy_is_loaded_into_the_table_of_methods(self, tmp_path):
        experiment, agent = RL2Experiment.from_mapping(TINY), tiny_agent()
        vector = agent.policy_vector()
        save(tmp_path / "best", vector, experiment, {"seed": 5}, agent.policy_shapes())
        home = Experiment(task=TASK)
        trained = load_trained("rl2", str(tmp_path), home)
        method = trained.method
        assert trained.task == experiment.task and trained.facts["seed"] == 5
        with pytest.raises(RecordError, match="it is a policy of rl2; compare it by that name"):
            load_trained("e_rl2", str(tmp_path), home)
        assert (method.name, method.explores) == ("rl2", True)
        assert method.loss == LossName(str(tmp_path / "best"), 5)
        assert method.period == home.inner.update_period
        np.testing.assert_array_equal(method.policy, vector)
        other = RecurrentAgent(make_family(TASK), experiment.network, experiment.ppo, seed=9)
        assert (other.policy_vector() != vector).any()
        other.load_policy(method.policy)
        np.testing.assert_array_equal(other.policy_vector(), vector)
        with pytest.raises(RecordError, match="it is a policy of RL², not a loss"):
            load_loss(tmp_path)
        larger = json.loads((tmp_path / "best" / "loss.json").read_text())
        larger["config"]["network"]["lstm_units"] += 1
        (tmp_path / "best" / "loss.json").write_text(json.dumps(larger))
        foreign = load_trained("rl2", str(tmp_path), home).method
        with pytest.raises(RecordError, match=f"has {vector.size} parameters, its config needs"):
            foreign.train(Request(TASK, 0, "test", 1, 1, 1))

    def test_actions_may_be_choices_and_episodes_may_end_early(self):
        """CartPole: its return is the number of env steps, and a trial has more than two ends."""
        task = {"family": "gymnasium:CartPole-v1", "frame_skip": 1, "episode_limit": 60}
        experiment = RL2Experiment.from_mapping({**TINY, "task": task, "iterations": 2})
        metrics = [result.metrics for result in RL2Trainer(experiment, 0).iterate(0, 0.0)]
        first, second = (metrics[1][f"training_return/episode_{number}"] for number in (1, 2))
        assert 8 <= first < 60 and 8 <= second < 60
        assert np.isfinite(metrics[1]["value_loss"]) and metrics[1]["diverged_trials"] == 0


@pytest.mark.parametrize(
    ("shape", "message"),
    [
        ([10**30], "its shapes need 1000"),
        ([-1, -6], "parameter_shapes are not lists of sizes"),
        ([10**10, [0]], "parameter_shapes are not lists of sizes"),
    ],
)
def test_foreign_shapes_are_refused_before_anything_is_made_of_them(tmp_path, shape, message):
    experiment = RL2Experiment.from_mapping(TINY)
    save(tmp_path, np.zeros(6, np.float32), experiment, {}, {"policy_00": [2, 3]})
    assert load(tmp_path, RL2Experiment).phi.size == 6
    described = json.loads((tmp_path / "loss.json").read_text())
    described["parameter_shapes"]["policy_00"] = shape
    (tmp_path / "loss.json").write_text(json.dumps(described))
    with pytest.raises(RecordError, match=message):
        load(tmp_path, RL2Experiment)


def test_a_loss_of_epg_is_no_policy_of_rl2(tmp_path):
    home = Experiment(task=TASK)
    save(tmp_path, initial_phi(home, 0), home, {})
    with pytest.raises(RecordError, match="it is a loss of EPG, not a policy of RL²"):
        load(tmp_path, RL2Experiment)


@pytest.mark.slow
def test_rl2_learns_to_find_the_goal():
    """HiddenGoal: only rewards show the goal, so the second episode is better than the first, and
    far better than standing still, which gets 0.
    """
    task = TaskConfig("hidden_goal", 4, 10)
    experiment = RL2Experiment.from_mapping({"task": dataclasses.asdict(task), "iterations": 40})
    trainer = RL2Trainer(experiment, 0)
    results = list(trainer.iterate(0, float("-inf")))
    assert results[-1].metrics["env_steps"] == 40 * 64 * 20 + 2 * 64 * 20  # with validation
    keys = [LifeKey(0, "test", 0, number) for number in range(128)]
    returns = trial_returns(trainer.agent, experiment.task, keys)
    gain = returns[:, 1] - returns[:, 0]
    assert returns[:, 1].mean() > 4.0
    assert gain.mean() > 3.0 * gain.std() / np.sqrt(len(gain))
