"""Tests how objectives are tested: fresh agents, a frozen teacher, and what they are compared with."""

from __future__ import annotations

import numpy as np
import pytest

from epg_tf.baselines import policy_gradient
from epg_tf.core.errors import ConfigError
from epg_tf.core.metagenrl_experiment import from_mapping
from epg_tf.evaluation.objective_methods import METHODS, train_fresh_agents
from epg_tf.losses.lstm_objective import initial_parameters
from epg_tf.tasks.registry import named_environment
from launch.objective_report import scores

TINY = from_mapping(
    {
        "environments": ("point_goal@5",),
        "agents": 2,
        "steps_per_agent": 20,
        "round_steps": 10,
        "shard_agents": 2,
        "threads": 2,
        "objective": {"lstm_units": 3, "action_layers": 1, "action_filters": 2},
        "agent": {
            "hidden": (4,),
            "batch": 2,
            "chunk": 3,
            "random_steps": 0,
            "updates_after": 2,
            "replay_steps": 20,
            "policy_learning_rate": 1e-2,
        },
        "baseline": {"update_period": 10, "minibatch": 5, "off_policy_learning_rate": 1e-2},
    }
)
FAMILY = named_environment("point_goal@5")
PARAMETERS = initial_parameters(np.random.default_rng(0), TINY.objective)


def trained(parameters=PARAMETERS, agents=3, method="objective", seed=0, phase="objective_test"):
    return train_fresh_agents(TINY, parameters, FAMILY, seed, agents, 20, 2, method, phase)


@pytest.fixture(scope="module")
def tested():
    return {method: trained(method=method) for method in METHODS}


def test_curves_have_an_evaluation_before_learning_and_after_every_round(tested):
    for found in tested.values():
        assert found.env_steps.tolist() == [0, 10, 20]
        assert found.returns.shape == (3, 3) and (found.returns < 0).all()


def test_methods_meet_the_same_agents_and_differ_in_what_they_teach(tested):
    starts = [found.returns[:, 0] for found in tested.values()]
    np.testing.assert_array_equal(starts[0], starts[1])
    np.testing.assert_array_equal(starts[0], starts[2])
    assert len({found.returns[:, 2].tobytes() for found in tested.values()}) == len(METHODS)


def test_the_objective_alone_decides_and_stays_as_it_is(tested):
    before = PARAMETERS.copy()
    np.testing.assert_array_equal(trained().returns, tested["objective"].returns)
    assert PARAMETERS.tobytes() == before.tobytes()
    assert (trained(-PARAMETERS).returns[:, 2] != tested["objective"].returns[:, 2]).any()
    np.testing.assert_array_equal(
        trained(-PARAMETERS, method="off_policy_reinforce").returns,
        tested["off_policy_reinforce"].returns,
    )


def test_agents_do_not_depend_on_how_many_there_are_nor_on_other_seeds(tested):
    np.testing.assert_array_equal(trained(agents=4).returns[:3], tested["objective"].returns)
    for other in (trained(seed=1), trained(phase="objective_tuning")):
        assert (other.returns[:, 0] != tested["objective"].returns[:, 0]).all()


@pytest.mark.parametrize("kind", policy_gradient.KINDS)
def test_on_policy_rows_take_the_same_env_steps(kind):
    steps, returns = policy_gradient.learning_curves(
        TINY, FAMILY, 0, 3, 20, 2, kind, "objective_test"
    )
    assert steps.tolist() == [10, 20] and returns.shape == (3, 2) and (returns < 0).all()
    settings = policy_gradient.inner_loop_experiment(TINY, FAMILY, kind, 20, 2, 3)
    assert settings.life_steps == 20 and settings.surrogate.kind == kind
    assert (
        settings.surrogate.discount == TINY.agent.discount
        and settings.policy.hidden == TINY.agent.hidden
    )


def test_on_policy_rows_refuse_what_does_not_fit():
    with pytest.raises(ConfigError):
        policy_gradient.inner_loop_experiment(TINY, FAMILY, "ppo", 0, 2, 3)


def test_scores_count_failed_agents_as_the_worst():
    found = scores(
        {"objective": (np.array([0, 10]), np.array([[-9.0, -1.0], [-9.0, -3.0], [-9.0, np.nan]]))}
    )
    row = found["objective"]
    assert row["final_return_mean"] == pytest.approx((-1 - 3 - 3) / 3)
    assert (row["failed_agents"], row["agents"], row["env_steps"]) == (1, 3, 10)
    assert row["auc_mean"] == pytest.approx((-5 - 6 - 9) / 3)
    assert row["ci95_low"] < row["final_return_mean"] < row["ci95_high"]


def test_scores_compare_methods_agent_by_agent():
    def curve(*final):
        return np.array([0, 10]), np.stack([np.full(len(final), -9.0), np.array(final)], axis=1)

    found = scores({"objective": curve(-1.0, -5.0, -9.0), "td3": curve(-1.5, -5.6, -9.7)})
    row = found["td3"]
    assert row["ahead_mean"] == pytest.approx(0.6)  # of 0.5, 0.6, 0.7; Student's t of 2 is 4.3027
    assert row["ahead_ci95_low"] == pytest.approx(0.6 - 4.3027 * 0.1 / np.sqrt(3), abs=1e-4)
    assert row["ahead_ci95_high"] == pytest.approx(0.6 + 4.3027 * 0.1 / np.sqrt(3), abs=1e-4)
    assert row["ci95_low"] < -9.0 and "ahead_mean" not in found["objective"]
