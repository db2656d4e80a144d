"""Tests evaluations of objectives of MetaGenRL: a frozen objective, and its baselines."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from epg_tf.artifacts.artifact import LearnedObjective
from epg_tf.baselines.method import LossName
from epg_tf.core.errors import ConfigError
from epg_tf.evaluation.evaluate import Evaluation, evaluate_objective
from epg_tf.evaluation.methods import OBJECTIVE_METHODS, Evaluated
from epg_tf.evaluation.requests import objective_request
from epg_tf.evaluation.results import Results
from epg_tf.evaluation.summary import summarize
from epg_tf.evaluation.trained_agent import train_objective_agent
from epg_tf.metagenrl.settings import MetaGenRLExperiment
from epg_tf.tasks import point_body
from tests.evaluation.settings import OBJECTIVE as TINY
from tests.evaluation.settings import PARAMETERS

OFF_POLICY = ("objective", "untrained_objective", "off_policy_reinforce")


def requested(agents=3, seed=0, phase="objective_test", steps=20):
    request = objective_request(TINY, "point_goal@5", seed, agents, steps, 2)
    return dataclasses.replace(request, phase=phase)


def trained(parameters=PARAMETERS, method="objective", **request):
    evaluated = Evaluated(TINY, parameters, LossName("run/final", 0))
    return OBJECTIVE_METHODS.methods[method](evaluated).train(requested(**request))


@pytest.fixture(scope="module")
def tested():
    return {method: trained(method=method) for method in OFF_POLICY}


@pytest.mark.slow
def test_ddpg_has_the_agents_of_objectives_and_its_own_rate(tested):
    baseline = dataclasses.replace(TINY.baseline, ddpg_with_td3_learning_rate=0.5)
    faster = dataclasses.replace(TINY, baseline=baseline)
    usual, fast = (
        OBJECTIVE_METHODS.methods["ddpg_with_td3"](Evaluated(each, PARAMETERS, LossName("a")))
        for each in (TINY, faster)
    )
    assert fast.experiment.agent.policy_learning_rate == 0.5
    usual, expected = usual.train(requested()), tested["objective"]
    np.testing.assert_array_equal(usual.env_steps, expected.env_steps)
    np.testing.assert_array_equal(usual.returns[:, 0], expected.returns[:, 0])  # unlearned
    assert np.isfinite(usual.returns).all()


@pytest.mark.parametrize("radius", [0.0, 1e9])
def test_the_share_of_episodes_at_the_goal_is_known(monkeypatch, radius):
    monkeypatch.setattr(point_body, "GOAL_RADIUS", radius)
    assert set(trained().success) == {float(radius > 0.0)}


@pytest.mark.parametrize("steps", [0, -10])
def test_agents_that_would_learn_nothing_are_refused(steps):
    with pytest.raises(ConfigError, match=f"env_steps={steps} must be 1 or more"):
        requested(steps=steps)


def test_the_objective_alone_has_a_loss():
    evaluated = Evaluated(TINY, PARAMETERS, LossName("run/final", 0))
    methods = {name: make(evaluated) for name, make in OBJECTIVE_METHODS.methods.items()}
    assert [name for name, method in methods.items() if method.loss] == ["objective"]
    assert [name for name, method in methods.items() if method.explores] == ["ppo", "reinforce"]


def test_evaluate_objective_trains_the_agents_of_the_request():
    learned = LearnedObjective(PARAMETERS, TINY, {})
    found = evaluate_objective(learned, 0, 2, methods=["objective", "untrained_objective"])
    assert list(found.groups()) == ["objective", "untrained_objective"]
    evaluated = Evaluated(TINY, PARAMETERS, LossName("objective"))
    request = objective_request(TINY, None, 0, 2)
    for method, rows in found.groups().items():
        expected = OBJECTIVE_METHODS.methods[method](evaluated).train(request)
        np.testing.assert_array_equal(rows.pivot()[1], expected.returns)


def test_any_agent_can_be_trained_again():
    """The third is in the second shard."""
    learned = LearnedObjective(PARAMETERS, TINY, {})
    found = evaluate_objective(learned, 0, 3, methods=["objective"])
    for agent in (0, 2):
        trained_again = train_objective_agent(learned, 0, agent, agents=3)
        assert trained_again.final_return == found.final()[agent]
        action = trained_again.act(np.zeros((4, 6)))
        assert action.shape == (4, 2) and (action == action[0]).all()
        assert set(trained_again.task) == {"mass", "damping", "gain"}
        assert trained_again.facts["agent"] == agent
    for number, message in (
        (3, "agent=3 must be 0 or more and below 3"),
        (-1, "agent=-1 must be 0"),
    ):
        with pytest.raises(ConfigError, match=message):
            train_objective_agent(learned, 0, number, agents=3)


def both_objectives(first=TINY, second=TINY, names=("a", "b")):
    losses = [LearnedObjective(PARAMETERS, first, {}), LearnedObjective(-PARAMETERS, second, {})]
    (name, learned), other = zip(map(LossName, names), losses, strict=True)
    methods = ("objective", "untrained_objective")
    return Evaluation(learned, name, requested(), methods, others=(other,))


@pytest.mark.slow
def test_several_objectives_have_the_rows_of_each_alone_and_a_mean(tested):
    evaluation = both_objectives()
    results = Results.join(list(evaluation.run()))
    assert list(results.groups()) == ["objective a", "objective b", "untrained_objective"]
    finals = [tested["objective"].final_return, trained(-PARAMETERS).final_return]
    for name, expected in zip(("a", "b"), finals, strict=True):
        np.testing.assert_array_equal(results.select(loss=name).final(), expected)
    summaries = summarize(results)
    assert summaries["objective"].losses == 2
    assert summaries["objective"].final_return_mean == pytest.approx(np.mean(finals))
    ahead = np.mean(finals) - tested["untrained_objective"].final_return.mean()
    assert summaries["untrained_objective"].ahead_mean == pytest.approx(ahead)
    assert evaluation.about()["other_losses"] == ["b"]


@pytest.mark.parametrize(
    ("group", "field", "value"),
    [
        ("agent", "policy_learning_rate", 2e-2),
        ("objective", "time", False),
        ("meta", "virtual_steps", 3),
        ("validation", "episodes", 2),
        (None, "life_rounds", 1),
        (None, "environments", ("point_goal@6",)),
    ],
)
def test_objectives_of_other_settings_are_no_seeds_of_one_method(group, field, value):
    change = {field: value}
    if group is not None:
        change = {group: dataclasses.replace(getattr(TINY, group), **change)}
    message = f"loss='b' has config.{f'{group}.' if group else ''}{field}="
    with pytest.raises(ConfigError, match=message):
        both_objectives(second=dataclasses.replace(TINY, **change))


def test_settings_without_effect_on_the_objective_may_differ_and_names_may_not():
    baseline = dataclasses.replace(TINY.baseline, ppo_learning_rate=1e-2)
    both_objectives(
        second=dataclasses.replace(TINY, threads=2, objective_period=7, baseline=baseline)
    )
    with pytest.raises(ConfigError, match="loss='a' is there twice"):
        both_objectives(names=("a", "a"))


@pytest.mark.slow
def test_curves_have_an_evaluation_before_learning_and_after_every_round(tested):
    for found in tested.values():
        assert found.env_steps.tolist() == [0, 10, 20]
        assert found.returns.shape == (3, 3) and (found.returns < 0).all()
        np.testing.assert_array_equal(found.final_return, found.returns[:, -1])


@pytest.mark.slow
def test_methods_meet_the_same_agents_and_differ_in_what_they_teach(tested):
    starts = [found.returns[:, 0] for found in tested.values()]
    np.testing.assert_array_equal(starts[0], starts[1])
    np.testing.assert_array_equal(starts[0], starts[2])
    assert len({found.returns[:, 2].tobytes() for found in tested.values()}) == len(OFF_POLICY)


@pytest.mark.slow
def test_the_objective_alone_decides_and_stays_as_it_is(tested):
    before = PARAMETERS.copy()
    np.testing.assert_array_equal(trained().returns, tested["objective"].returns)
    assert PARAMETERS.tobytes() == before.tobytes()
    assert (trained(-PARAMETERS).returns[:, 2] != tested["objective"].returns[:, 2]).any()
    np.testing.assert_array_equal(
        trained(-PARAMETERS, method="off_policy_reinforce").returns,
        tested["off_policy_reinforce"].returns,
    )


@pytest.mark.slow
def test_agents_do_not_depend_on_how_many_there_are_nor_on_other_seeds(tested):
    np.testing.assert_array_equal(trained(agents=4).returns[:3], tested["objective"].returns)
    for other in (trained(seed=1), trained(phase="objective_tuning")):
        assert (other.returns[:, 0] != tested["objective"].returns[:, 0]).all()


@pytest.mark.parametrize("name", ["ppo", "reinforce"])
def test_on_policy_rows_take_the_same_env_steps(name):
    found = trained(method=name, agents=2)
    assert found.env_steps.tolist() == [10, 20]
    assert found.returns.shape == (2, 2) and (found.returns < 0).all()
    assert (found.final_return < 0).all()


def test_requests_of_objectives_are_checked():
    experiment = MetaGenRLExperiment(environments=("point_goal",))
    request = objective_request(experiment, None, 0, 8)
    assert request.task.family == "point_goal" and request.phase == "objective_test"
    for environment, steps, message in (
        ("nowhere", None, "'nowhere' is not a task family"),
        ("gymnasium:CartPole-v1", None, "its actions are discrete"),
        (None, experiment.round_steps + 1, "^env_steps=.* is no multiple of the objective's"),
    ):
        with pytest.raises(ConfigError, match=message):
            objective_request(experiment, environment, 0, 8, steps)


@pytest.mark.parametrize("life_rounds", [0, 3])
def test_agents_learn_as_long_as_in_meta_training(life_rounds):
    """For a life, or for the whole run where lives have no end."""
    experiment = MetaGenRLExperiment(
        environments=("point_goal",), steps_per_agent=20_000, round_steps=2000
    )
    experiment = dataclasses.replace(experiment, life_rounds=life_rounds)
    request = objective_request(experiment, None, 0, 8)
    assert request.env_steps == (life_rounds or 10) * 2000
