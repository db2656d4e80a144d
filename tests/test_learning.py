"""Learning claims with thresholds; minutes each, so they are slow tests."""

import dataclasses

import pytest

import epg_tf
from configs import metagenrl_laptop, point_goal
from epg_tf.baselines.method import LossName
from epg_tf.core.types import LifeKey
from epg_tf.epg.inner_loop import InnerLoopSettings
from epg_tf.epg.meta_parameters import initial_phi
from epg_tf.evaluation.evaluate import train_all
from epg_tf.evaluation.methods import OBJECTIVE_METHODS, Evaluated
from epg_tf.evaluation.requests import objective_request
from epg_tf.evaluation.statistics import surviving_interval
from epg_tf.metagenrl.population import meta_learn

pytestmark = pytest.mark.slow
LONG = 128  # updates; 4096 env steps


@pytest.fixture(scope="module")
def experiment():
    return point_goal.get_config()


def test_tuned_ppo_learns(experiment):
    """The baseline is no straw man: in a life four times as long it beats no learning, intervals
    apart.
    """
    results = epg_tf.evaluate(
        experiment,
        _unused(experiment),
        seed=1,
        lives=64,
        updates=LONG,
        methods=("ppo", "untrained"),
    )
    scores = epg_tf.summarize(results)
    assert scores["ppo"].ci95[0] > scores["untrained"].ci95[1]


def test_reinforce_learns(experiment):
    """The other surrogate, too, improves on no learning at all."""
    surrogate = dataclasses.replace(experiment.surrogate, kind="reinforce")
    keys = [LifeKey(1, "test", 0, index) for index in range(64)]
    with epg_tf.Shards(dataclasses.replace(experiment, surrogate=surrogate)) as shards:
        learned, still = (
            shards.run(
                keys,
                lambda life: _unused(experiment),
                InnerLoopSettings(1.0, rate, epochs=4, updates=LONG),
            )
            for rate in (1e-3, 0.0)
        )
    low, high = (surviving_interval(each.final_return) for each in (learned, still))
    assert low[0] > high[1]


def test_evolution_improves_a_reward_free_loss(experiment):
    """A third of the demo's evolution makes a loss far better than the one it started from, on
    unseen tasks.
    """
    evolution = dataclasses.replace(experiment.evolution, epochs=experiment.evolution.epochs // 3)
    short = dataclasses.replace(experiment, evolution=evolution)
    assert not short.loss.reward
    *_, last = epg_tf.evolve(short, seed=3)
    results = epg_tf.evaluate(
        short, last.state.phi, seed=3, lives=64, methods=("epg", "random_loss")
    )
    scores = epg_tf.summarize(results)
    assert scores["epg"].ci95[0] > scores["random_loss"].ci95[1]


def _unused(experiment):
    return initial_phi(experiment, 0)


def test_metagenrl_learns_an_objective():
    """Half the laptop's meta-training, with half its agents, makes an objective that fresh agents
    learn from.
    """
    laptop = metagenrl_laptop.get_config()
    short = dataclasses.replace(
        laptop,
        agents=8,
        steps_per_agent=laptop.steps_per_agent // 2,
        meta=dataclasses.replace(laptop.meta, learning_rate_rounds=laptop.rounds // 2),
    )
    *_, last = meta_learn(short, seed=3)
    found = {
        method: evaluate_objective(short, last.state.parameters, method)
        for method in ("objective", "untrained_objective")
    }
    assert found["objective"].ci95[0] > found["untrained_objective"].ci95[1]


def evaluate_objective(experiment, parameters, method):
    """Returns the summary of 8 fresh agents in point_goal."""
    request = objective_request(experiment, "point_goal", 3, 8, 2000, 5)
    evaluated = Evaluated(experiment, parameters, LossName("learned"))
    (table,) = train_all([OBJECTIVE_METHODS.methods[method](evaluated)], request)
    return epg_tf.summarize(table)[method]
