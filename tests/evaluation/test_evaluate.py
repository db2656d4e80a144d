"""Tests epg_tf.evaluation.evaluate and checks: evaluations of losses of EPG."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from epg_tf.artifacts.artifact import LearnedLoss
from epg_tf.baselines.method import LossName, Request, loss_name
from epg_tf.core.errors import ConfigError
from epg_tf.core.types import LifeKey
from epg_tf.epg.inner_loop import InnerLoopSettings
from epg_tf.epg.meta_parameters import initial_phi
from epg_tf.epg.shards import Shards
from epg_tf.evaluation.evaluate import Evaluation, evaluate
from epg_tf.evaluation.methods import LOSS_METHODS, Evaluated, inner_loops
from epg_tf.evaluation.requests import loss_request
from epg_tf.evaluation.results import Results
from epg_tf.evaluation.trained_agent import train_agent
from epg_tf.tasks.settings import TaskConfig

QUICK = {"policy": {"hidden": ()}, "surrogate": {"kind": "reinforce"}}  # to compile


def learned(experiment, loops):
    """Returns the method of a fresh loss."""
    evaluated = Evaluated(experiment, initial_phi(experiment, 0), LossName("a", 1), loops)
    return LOSS_METHODS.methods["epg"](evaluated)


@pytest.fixture(scope="module")
def found(tiny):
    return evaluate(tiny, initial_phi(tiny, 0), seed=3, lives=5)


def test_every_method_trains_the_same_agents(found):
    rows = ["epg", "ppo", "ppo_as_epg", "untrained", "random_loss", "centred_loss"]
    assert list(found.groups()) == rows
    for name, rows in found.groups().items():
        assert rows.pivot()[0].tolist() == [24] if name == "ppo" else [8, 16, 24]
        assert rows.final().shape == (5,)
    assert found.select("epg").loss[0] == "phi" and set(found.select("ppo").loss) == {""}
    assert (found.select("untrained").pivot("kl")[1] == 0.0).all()
    assert (found.select("epg").pivot("kl")[1] > 0.0).all()


def test_the_numbers_are_those_of_the_inner_loop(tiny, found):
    """Keys of phase "test", alpha 0, the loss's learning rate, shards of the experiment's size."""
    keys = [LifeKey(3, "test", 0, index) for index in range(5)]
    phi = initial_phi(tiny, 0)
    with Shards(tiny, measure_kl=True) as shards:
        lives = shards.run(keys, lambda life: phi, InnerLoopSettings(0.0, tiny.inner.learning_rate))
    rows = found.select("epg")
    np.testing.assert_array_equal(rows.final(), lives.final_return)
    np.testing.assert_array_equal(rows.pivot()[1], lives.episode_return)
    np.testing.assert_array_equal(rows.pivot("kl")[1], lives.kl)
    assert rows.final("policy_sha256").tolist() == lives.policy_hash.tolist()


@pytest.mark.slow
def test_tests_are_in_exact_physics_whatever_those_of_evolution(make_tiny):
    task = {"family": "random_reacher", "frame_skip": 2, "episode_limit": 6}
    coarse, exact = (
        make_tiny(task={**task, "physics": p}, policy={"hidden": ()}) for p in ("coarse", "exact")
    )
    phi = initial_phi(coarse, 0)
    returns = [evaluate(e, phi, 3, 2, methods=["epg"]).final() for e in (coarse, exact)]
    np.testing.assert_array_equal(*returns)
    assert loss_request(coarse, 3, 2).task == exact.task
    assert loss_request(exact, 3, 2, physics="coarse").task == coarse.task
    learned = LearnedLoss(phi, coarse, {})
    assert train_agent(learned, 3, lives=2).final_return == returns[0][0]
    assert train_agent(learned, 3, physics="coarse", lives=2).final_return != returns[0][0]


def test_requests_decide_task_length_and_final_episodes(tiny, found):
    task = TaskConfig("point_goal", 2, 4)
    with inner_loops(tiny) as loops:
        method = learned(tiny, loops)
        short = method.train(Request(task, 3, "test", 2, 16, 1))
        assert short.env_steps.tolist() == [8, 16] and method.loss == LossName("a", 1)
        with pytest.raises(ConfigError, match="env_steps=17 is no multiple"):
            method.train(Request(task, 3, "test", 2, 17, 1))
    assert (found.select("epg").pivot()[1][:2, 1] != short.returns[:, 1]).all()


def test_few_agents_live_in_a_small_shard_as_they_would_among_many(tiny, found):
    """Nobody lives twice to fill a shard of four."""
    with inner_loops(tiny) as loops:
        sizes = [loops._shards_for(loss_request(tiny, 3, n)).shard_lives for n in (5, 2)]
        few = learned(tiny, loops).train(loss_request(tiny, 3, 2))
    many = found.select("epg")
    assert sizes == [4, 2]
    np.testing.assert_array_equal(few.policy_sha256, many.final("policy_sha256")[:2])
    np.testing.assert_array_equal(few.returns, many.pivot()[1][:2])
    np.testing.assert_array_equal(few.final_return, many.final()[:2])


def test_any_agent_can_be_trained_again(tiny, found):
    """The fifth is in the second shard."""
    life = 4
    assert tiny.compute.shard_lives == 4
    agent = train_agent(LearnedLoss(initial_phi(tiny, 0), tiny, {}), 3, life)
    rows = found.select("epg")
    assert agent.policy_sha256 == rows.final("policy_sha256")[life]
    assert agent.final_return == rows.final()[life]
    assert agent.facts["life"] == life and agent.facts["loss"] == "phi"
    assert agent.facts["final_return"] == agent.final_return


def test_agents_that_are_not_there_are_refused(tiny):
    learned = LearnedLoss(initial_phi(tiny, 0), tiny, {})
    with pytest.raises(ConfigError, match="^life=-1 must be 0 or more"):
        train_agent(learned, 0, -1)
    with pytest.raises(ConfigError, match="^life=3 must be 0 or more and below 3"):
        train_agent(learned, 0, 3, lives=3)
    with pytest.raises(ConfigError, match="phi has shape .5,.; a loss of these settings has"):
        train_agent(dataclasses.replace(learned, phi=learned.phi[:5]), 0)


@pytest.mark.parametrize(("facts", "seed"), [({"seed": 4}, 4), ({}, None), ({"seed": "x"}, None)])
def test_losses_are_named_with_their_seed(facts, seed):
    assert loss_name("a", facts) == LossName("a", seed)


def test_a_foreign_phi_and_too_few_lives_are_refused(tiny):
    phi = initial_phi(tiny, 0)
    with pytest.raises(ConfigError, match="phi has shape .5,.; a loss of these settings has"):
        evaluate(tiny, phi[:5], seed=0)
    with pytest.raises(ConfigError, match="lives=1"):
        evaluate(tiny, phi, seed=0, lives=1)


def outcome(experiment, methods, lives=3, alpha=None, compare_updates=1):
    """Returns the results of a test of the loss that evolution starts from."""
    learned = LearnedLoss(initial_phi(experiment, 0), experiment, {})
    request = loss_request(experiment, 3, lives)
    evaluation = Evaluation(
        learned,
        LossName("a"),
        request,
        methods,
        alpha=alpha,
        compare_updates=compare_updates,
    )
    return Results.join(list(evaluation.run())), evaluation.about()


@pytest.mark.slow
def test_every_rival_has_a_row_and_may_live_longer_and_its_settings_are_stated(make_tiny, found):
    loss = {"start": "policy_gradient", "reward": True, "products": 2}
    tiny = make_tiny(sac={"batch": 4}, td3={"hidden": (3,)}, loss=loss)
    results, about = outcome(tiny, tuple(LOSS_METHODS.methods), compare_updates=3)
    names = "epg ppo ppo_as_epg sac td3 reinforce untrained random_loss centred_loss"
    names += " policy_gradient_loss"
    assert list(results.groups()) == names.split()
    assert about["rivals"]["sac"]["batch"] == 4 and about["rivals"]["td3"]["hidden"] == (3,)
    assert (about["alpha"], about["compare_updates"]) == (0.0, 3)
    steps = {name: int(rows.env_steps.max()) for name, rows in results.groups().items()}
    rivals = {"ppo", "ppo_as_epg", "sac", "td3", "reinforce"}
    assert steps == {name: 72 if name in rivals else 24 for name in steps}
    short, long = (each.select("ppo_as_epg").pivot()[1] for each in (found, results))
    np.testing.assert_array_equal(long[:, :3], short[:3])


def test_alpha_1_is_ppo_to_the_bit(make_tiny):
    """With the same rate, and one epoch, in all that is measured."""
    tiny = make_tiny(
        policy={"hidden": ()},
        inner={"learning_rate": 1e-2},
        surrogate={"baseline_learning_rate": 1e-2, "baseline_epochs": 1},
    )
    results, _ = outcome(tiny, ("epg", "ppo_as_epg"), alpha=1.0)
    loss, ppo = results.select("epg"), results.select("ppo_as_epg")
    for column in ("returns", "kl", "success", "env_steps", "policy_sha256"):
        np.testing.assert_array_equal(getattr(loss, column), getattr(ppo, column))
    half = outcome(tiny, ("epg",), alpha=0.5)[0]
    assert (half.final("policy_sha256") != loss.final("policy_sha256")).all()


def of_moves(make, moves, **changes):
    """Returns name and fresh vector of what an evolution of `moves` learns."""
    guidance = {"final_guidance": 1.0} if moves == "initialisation" else {}
    experiment = make(evolution={"moves": moves, **guidance}, **changes)
    return LossName(moves, 0), LearnedLoss(initial_phi(experiment, 0), experiment, {"env_steps": 9})


@pytest.mark.slow
def test_losses_with_and_without_an_initial_policy_are_rows_of_one_table(make_tiny):
    """The others, too, are the same as in tests of their own, to the bit."""
    moved = {
        "epg": of_moves(make_tiny, "loss", **QUICK),
        "epg_i": of_moves(make_tiny, "both", inner={"kl_limit": 0.1}, **QUICK),
        "ppo_i": of_moves(make_tiny, "initialisation", **QUICK),
    }
    (name, learned), *others = moved.values()
    request = loss_request(learned.experiment, 3, 4)
    methods = ("epg", "untrained")
    evaluation = Evaluation(learned, name, request, methods, others=tuple(others))
    together = Results.join(list(evaluation.run()))
    assert list(together.groups()) == ["epg", "epg_i", "ppo_i", "untrained"]
    costs = evaluation.about()["meta_training_env_steps"]
    assert costs == {"epg loss": 9, "epg_i both": 9, "ppo_i initialisation": 9}
    for method, (name, learned) in zip(("epg_i", "ppo_i"), others, strict=True):
        alone = Results.join(list(Evaluation(learned, name, request, ("epg",)).run()))
        for column in ("returns", "policy_sha256"):
            mine = getattr(together.select(method), column)
            np.testing.assert_array_equal(mine, getattr(alone, column))


SLOWER = {"updates": 1, "update_period": 24, "minibatch": 8}


@pytest.mark.parametrize(
    ("moves", "changes", "given", "message"),
    [
        ("loss", {"inner": {"kl_limit": 0.1}}, {}, "has config.inner.kl_limit=0.1, 'a' has 0.0"),
        ("both", {"inner": {"updates": 5}}, {}, "has lives of 40 env steps, 'a' of 24"),
        (
            "both",
            {"inner": {"centred_observations": False}},
            {},
            "has config.inner.centred_observations=False, 'a' has True",
        ),
        ("both", {"policy": {"log_std": -2.0}}, {}, "has config.policy.log_std=-2.0, 'a' has "),
        ("both", {"task": {"family": "hidden_goal"}}, {}, "phi has shape"),
        ("loss", {"surrogate": {"clip": 0.1}}, {}, None),
        (
            "loss",
            {"surrogate": {"clip": 0.1}},
            {"alpha": 0.1},
            "has config.surrogate.clip=0.1, 'a' has 0.2",
        ),
        ("initialisation", {}, {"alpha": 0.5}, "leave alpha=0.5 out, so that they learn by"),
        ("both", {"inner": SLOWER}, {"updates": 1}, "^updates=1 gives lives of 8 env steps, no mu"),
    ],
)
def test_losses_whose_agents_would_live_otherwise_are_refused(
    make_tiny, moves, changes, given, message
):
    """Before any agent lives; PPO's settings matter only where it takes part."""
    _, learned = of_moves(make_tiny, "loss")
    request = loss_request(learned.experiment, 3, 4, given.get("updates"))
    other = of_moves(make_tiny, moves, **changes)

    def made():
        return Evaluation(
            learned, LossName("a"), request, ("epg",), others=(other,), alpha=given.get("alpha")
        )

    if message is None:
        made()
        return
    with pytest.raises(ConfigError, match=message):
        made()


def test_losses_with_other_shares_of_ppo_are_refused_unless_one_is_given(make_tiny):
    _, learned = of_moves(make_tiny, "loss")
    guided = make_tiny(evolution={"final_guidance": 0.5})
    other = (LossName("b"), LearnedLoss(learned.phi, guided, {}))
    request = loss_request(learned.experiment, 3, 4)
    with pytest.raises(ConfigError, match="config.evolution.final_guidance=0.5, 'a' has 0.0"):
        Evaluation(learned, LossName("a"), request, ("epg",), others=(other,))
    given = Evaluation(learned, LossName("a"), request, ("epg",), others=(other,), alpha=0.1)
    assert given.about()["other_alphas"] == {"b": 0.1} and given.about()["alpha"] == 0.1


def test_a_loss_is_in_a_table_once(make_tiny, tmp_path):
    _, learned = of_moves(make_tiny, "loss")
    request = loss_request(learned.experiment, 3, 4)
    there = dataclasses.replace(learned, folder=tmp_path / "best")
    for name, other in (("a", learned), ("b", there)):
        with pytest.raises(ConfigError, match="is there twice; name each loss once"):
            Evaluation(
                dataclasses.replace(there, folder=tmp_path / "x" / ".." / "best"),
                LossName("a"),
                request,
                ("epg",),
                others=((LossName(name), other),),
            )


@pytest.mark.slow
def test_alpha_is_that_with_which_evolution_ends_unless_it_is_given(make_tiny):
    """That it matters is what test_alpha_1_is_ppo_to_the_bit shows."""
    guided = make_tiny(evolution={"final_guidance": 0.25}, **QUICK)
    usual, about = outcome(guided, ("epg",))
    assert about["alpha"] == 0.25
    given = outcome(make_tiny(**QUICK), ("epg",), alpha=0.25)[0]
    np.testing.assert_array_equal(usual.final("policy_sha256"), given.final("policy_sha256"))
    assert (outcome(guided, ("epg",), alpha=0.0)[0].final() != usual.final()).any()
    agent = train_agent(LearnedLoss(initial_phi(guided, 0), guided, {}), 3, 1, lives=3)
    assert agent.policy_sha256 == usual.final("policy_sha256")[1]


def test_a_loss_that_began_as_reinforce_is_compared_with_its_start(make_tiny):
    """After one update: what differs between fresh losses has no gradient yet."""
    loss = {"start": "policy_gradient", "reward": True, "products": 2}
    tiny = make_tiny(loss=loss, inner={"updates": 1})
    results, _ = outcome(tiny, ("epg", "policy_gradient_loss"))
    evolved, fresh = (rows.final() for rows in results.groups().values())
    np.testing.assert_allclose(evolved, fresh, rtol=1e-4)


def test_unevolved_losses_differ_from_agent_to_agent_and_in_their_start(make_tiny, found):
    """Whatever the start of evolution."""
    names = "random_loss", "centred_loss"
    results, _ = outcome(make_tiny(loss={"start": "centred"}), names)
    one, other = (results.select(name).final() for name in names)
    for name, again in zip(names, (one, other), strict=True):
        np.testing.assert_array_equal(found.select(name).final()[:3], again)
    assert (one != other).any()


def test_a_test_states_which_parameters_it_is_of(tiny):
    """The facts of two losses may be the same."""
    request, phi = loss_request(tiny, 3, 5), initial_phi(tiny, 0)
    one, other = (
        Evaluation(LearnedLoss(each, tiny, {}), LossName("x"), request, ("epg",)).about()
        for each in (phi, phi + np.float32(1e-3))
    )
    assert {name for name in one if one[name] != other[name]} == {"parameters_sha256"}


def test_what_was_found_before_is_not_run_again_and_changes_no_other_row(tiny, found):
    """Known rows come back as they are, even such as no agent could have."""
    marked = dataclasses.replace(found.select("ppo"), returns=np.full(10, 7.0))
    learned, name = LearnedLoss(initial_phi(tiny, 0), tiny, {}), LossName("phi")
    methods = ("epg", "ppo", "untrained")
    evaluation = Evaluation(learned, name, loss_request(tiny, 3, 5), methods)
    epg, ppo, untrained = evaluation.run({("ppo", ""): marked, ("epg", "other"): marked})
    assert ppo is marked
    for again, key in ((epg, "epg"), (untrained, "untrained")):
        np.testing.assert_array_equal(again.returns, found.select(key).returns)
