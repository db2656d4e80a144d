"""Tests epg_tf.metagenrl.learner: an update is made of the right pieces, in the right order, agent
by agent.
"""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import tensorflow as tf

from epg_tf.agents.deterministic import policy_action
from epg_tf.core.parameters import flattened
from epg_tf.core.types import EnvironmentSpec, LifeKey
from epg_tf.losses.lstm_objective import LSTMObjective, parameter_count
from epg_tf.losses.objectives import Chunks
from epg_tf.losses.settings import ObjectiveConfig
from epg_tf.metagenrl import learner as learner_module
from epg_tf.metagenrl import meta_gradient, td3
from epg_tf.metagenrl.learner import PopulationLearner
from epg_tf.metagenrl.settings import AgentConfig, MetaConfig
from epg_tf.metagenrl.update import compiled_update
from tests import metagenrl_reference as slow
from tests import reference

P, B, T, O, A = 3, 5, 4, 4, 2  # noqa: E741 (the legend's letter)
AGENT = AgentConfig(hidden=(8,), batch=B, chunk=T, discount=0.9, tau=0.1, clip=0.5)
META = MetaConfig(virtual_learning_rate=0.1)
OBJECTIVE = ObjectiveConfig(lstm_units=4, action_layers=2, action_filters=4)
ALPHA = 0.6 * np.random.default_rng(0).standard_normal((P, parameter_count(OBJECTIVE))).astype(
    np.float32
)
KEYS, STRANGER = (
    [LifeKey(3, "metagenrl", 0, index) for index in range(P)],
    LifeKey(4, "metagenrl", 0, 1),
)


@pytest.fixture(autouse=True)
def eagerly():
    """Spares tests the compilation, which takes longer than all the rest."""
    tf.config.run_functions_eagerly(True)
    yield
    tf.config.run_functions_eagerly(False)


def make_learner(meta=META, keys=KEYS, alpha=ALPHA, **changes):
    """Returns fresh agents, each with an objective of its own."""
    objective = LSTMObjective(len(keys), OBJECTIVE, AGENT.discount)
    objective.load(alpha)
    agent = dataclasses.replace(AGENT, **changes)
    learner = PopulationLearner(len(keys), EnvironmentSpec(O, A), agent, objective, meta)
    learner.initialize_agents(range(len(keys)), keys)
    return learner


def update_inputs(learner, seed=1, delay=AGENT.policy_delay):
    """Returns batches for an update of P agents, [K, P, ...], and noise for target
    actions, [policy_delay, P, ...].
    """
    chunks = slow.random_chunks(
        learner.batches,
        P,
        B,
        steps=T,
        observation_size=O,
        action_size=A,
        seed=seed,
        dtype=np.float32,
    )
    noise = np.random.default_rng(seed).standard_normal((delay, P, B, T, A)).astype(np.float32)
    return chunks, noise


def teach(learner, given, blend=0.5, rate=1e-2, inactive=()):
    """Takes one update; returns its results as arrays by name."""
    chunks, noise = given
    active = np.array([member not in inactive for member in range(noise.shape[1])])
    return {
        name: np.array(part)
        for name, part in learner.update(chunks, noise, blend, rate, active)._asdict().items()
    }


def experienced(meta=META, **changes):
    """Returns agents after 3, 1 and 2 updates, so that no moment, step count or target is what it
    was at the start.
    """
    learner = make_learner(meta, **changes)
    for seed, inactive in ((10, []), (11, [1]), (12, [1, 2])):
        teach(
            learner, update_inputs(learner, seed, changes.get("policy_delay", 2)), inactive=inactive
        )
    return learner


def clip_by_hand(gradient, limit):
    """Scales one agent's gradient down to the limit."""
    gradient = [np.asarray(part, np.float64) for part in gradient]
    norm = np.sqrt(sum(np.square(part).sum() for part in gradient))
    return [part * min(1.0, limit / norm) for part in gradient]


def unit_by_hand(gradient):
    """Scales one agent's gradient to norm 1, down or up."""
    return clip_by_hand([1e9 * np.asarray(part, np.float64) for part in gradient], 1.0)


class OneAgent:
    """What an update is to do to one agent, put together from functions that have tests of their
    own.
    """

    def __init__(self, arrays, member):
        self.alone = slice(member, member + 1)
        self.state = {}
        for name, part in arrays.items():
            if name != "updates":
                kind, _ = name.rsplit("/", 1)
                self.state.setdefault(kind, []).append(part[self.alone])
        self.updates = int(arrays["updates"][member])

    def adam(self, name, gradient, step, rate):
        for place, slope in enumerate(gradient):
            adam, weights = reference.Adam(rate), self.state[f"{name}/weights"]
            adam.m, adam.v, adam.t = (
                self.state[f"{name}/first"][place],
                self.state[f"{name}/second"][place],
                step - 1,
            )
            weights[place] = np.float32(weights[place] + adam.change(slope))
            self.state[f"{name}/first"][place], self.state[f"{name}/second"][place] = adam.m, adam.v

    def update(self, agent, meta, alpha, chunks, noise, blend, rate):
        """Changes the state; returns the results."""
        batches = [
            Chunks(**{name: tf.constant(part[number, self.alone]) for name, part in chunks.items()})
            for number in range(len(chunks["mask"]))
        ]
        errors = []
        for number, batch in enumerate(batches[: agent.policy_delay]):
            action = td3.smoothed(
                policy_action(batch.next_observation, self.state["policy/target"]),
                noise[number, self.alone],
                agent.target_policy_noise,
                agent.target_policy_noise_clip,
            )
            target = td3.targets(batch, action, self.state["twin_critics/target"], agent.discount)
            critics = [tf.constant(part) for part in self.state["twin_critics/weights"]]
            with tf.GradientTape() as tape:
                tape.watch(critics)
                errors.append(td3.critic_error(batch, critics, target)[0])
            gradient = clip_by_hand(tape.gradient(errors[-1], critics), agent.clip)
            self.adam(
                "twin_critics",
                gradient,
                self.updates * agent.policy_delay + number + 1,
                agent.critic_learning_rate,
            )
        policy = [tf.constant(part) for part in self.state["policy/weights"]]
        critic, steps = (
            [part[:, 0] for part in self.state["twin_critics/weights"]],
            meta.virtual_steps if meta else 0,
        )
        objective = LSTMObjective(1, OBJECTIVE, agent.discount)
        objective.load(alpha[self.alone])
        seen = [meta_gradient.trajectories_of(batch, policy, critic) for batch in batches]
        own = meta_gradient.policy_gradient(objective, policy, batches[0].observation, seen[0])
        with tf.GradientTape() as tape:
            tape.watch(policy)
            action = policy_action(batches[0].observation, policy)
            value = tf.reduce_sum(td3.q_objective(batches[0], action, critic)) / B
        ddpg, parts = tape.gradient(value, policy), list(objective.params.values())
        with tf.GradientTape() as tape:
            moved, _ = meta_gradient.virtual_policies(
                objective,
                policy,
                [b.observation for b in batches[:steps]],
                seen[:steps],
                meta.virtual_learning_rate if meta else 0.0,
            )
            meta_loss = meta_gradient.meta_loss(batches[-1 if meta else 0], moved, critic)
        learned = np.zeros((1, 0))
        if meta:
            slopes = tape.gradient(meta_loss, parts)
            learned = flattened(
                unit_by_hand(slopes)
                if meta.normalize_agent_gradients
                else clip_by_hand(slopes, agent.clip)
            )
        gradient = (
            own
            if blend == 1.0
            else [
                blend * one + (1.0 - blend) * other
                for one, other in zip(unit_by_hand(own), unit_by_hand(ddpg), strict=True)
            ]
        )
        self.adam("policy", clip_by_hand(gradient, agent.clip), self.updates + 1, rate)
        for name in ("policy", "twin_critics"):
            self.state[f"{name}/target"] = [
                old + agent.tau * (new - old)
                for old, new in zip(
                    self.state[f"{name}/target"], self.state[f"{name}/weights"], strict=True
                )
            ]
        return {
            "objective_gradient": learned[0],
            "critic_error": np.mean(errors),
            "value": -meta_loss[0],
            "agreement": td3.cosine(own, ddpg)[0],
            "finite": True,
        }


@pytest.mark.parametrize(
    ("meta", "changes", "blend", "compiled"),
    [
        (META, {}, 0.3, True),
        (
            dataclasses.replace(META, normalize_agent_gradients=True),
            {"policy_delay": 3, "hidden": (6, 5)},
            1.0,
            False,
        ),
        (dataclasses.replace(META, virtual_steps=3), {"clip": 0.003}, 0.5, False),
        (META, {"policy_delay": 1}, 0.0, False),
        (None, {}, 1.0, False),
    ],
)
def test_an_update_equals_its_pieces(meta, changes, blend, compiled):
    """`policy_delay` steps of the critics, one of the policy, then the targets; DDPG alone with a
    blend of 0.
    """
    tf.config.run_functions_eagerly(not compiled)
    learner = experienced(meta, **changes)
    before, given = learner.arrays(), update_inputs(learner, delay=changes.get("policy_delay", 2))
    taught, after = teach(learner, given, blend), learner.arrays()
    for member in range(P):
        alone = OneAgent(before, member)
        expected = alone.update(
            dataclasses.replace(AGENT, **changes), meta, ALPHA, *given, blend, 1e-2
        )
        for name, part in expected.items():
            np.testing.assert_allclose(
                taught[name][member], part, rtol=1e-3, atol=1e-5, err_msg=name
            )
        for kind, parts in alone.state.items():
            for place, part in enumerate(parts):
                found, old = (arrays[f"{kind}/{place}"][member] for arrays in (after, before))
                np.testing.assert_allclose(
                    found, part[0], rtol=1e-3, atol=1e-5, err_msg=f"{kind}/{place}"
                )
                assert (found != old).any()
    assert before["updates"].tolist() == [3, 1, 2] and after["updates"].tolist() == [4, 2, 3]


@pytest.mark.parametrize(
    ("changes", "meta", "count"),
    [
        ({}, META, 3),
        ({}, None, 2),
        ({"policy_delay": 1}, None, 1),
        ({"policy_delay": 4}, META, 5),
        ({}, dataclasses.replace(META, virtual_steps=5), 6),
    ],
)
def test_an_update_takes_as_many_batches_as_critics_or_objective_need_and_one_new_one(
    changes, meta, count
):
    assert make_learner(meta, **changes).batches == count


def test_the_objective_is_left_to_others():
    """Frozen or not, an update moves policies and never the weights of the objective; frozen, it
    has no gradient.
    """
    policies = []
    chunks, noise = update_inputs(make_learner(META))
    for meta, size in ((META, ALPHA.shape[1]), (None, 0)):
        learner = make_learner(meta)
        given = {name: part[: learner.batches] for name, part in chunks.items()}
        taught = teach(learner, (given, noise), blend=1.0)
        assert taught["objective_gradient"].shape == (P, size)
        np.testing.assert_array_equal(flattened(list(learner.objective.params.values())), ALPHA)
        policies.append(learner.arrays()["policy/weights/0"])
    np.testing.assert_allclose(policies[0], policies[1], atol=1e-5)
    assert np.abs(policies[0] - make_learner().arrays()["policy/weights/0"]).max() > 5e-3


def test_arrays_are_all_that_learning_goes_on_from():
    learner, other = experienced(), make_learner(keys=[STRANGER] * P)
    kept = learner.arrays()
    copies = {name: part.copy() for name, part in kept.items()}
    teach(learner, update_inputs(learner, 20))
    assert all(kept[name].tobytes() == copies[name].tobytes() for name in kept)
    other.load(kept)
    for seed in (20, 21):
        found = teach(other, update_inputs(other, seed))
    expected = teach(learner, update_inputs(learner, 21))
    assert all(found[name].tobytes() == expected[name].tobytes() for name in expected)
    assert all(
        part.tobytes() == other.arrays()[name].tobytes() for name, part in learner.arrays().items()
    )


@pytest.mark.parametrize(("meta", "blend"), [(META, 0.5), (None, 1.0)])
def test_an_agent_that_is_inactive_or_ill_stays_where_it_is_and_harms_nobody(meta, blend):
    """But for an inactive agent's targets. Though DDPG's gradient has no rewards in it, and former
    moments would carry an agent on whose rewards are not finite.
    """
    learner = experienced(meta)
    before, (chunks, noise) = learner.arrays(), update_inputs(learner)
    expected, healthy = teach(learner, (chunks, noise), blend), learner.arrays()
    spoilt = {**chunks, "reward": chunks["reward"].copy()}
    spoilt["reward"][:, 1] = np.nan
    for ill, given, inactive in ((False, chunks, [1]), (True, spoilt, [])):
        learner.load(before)
        found = teach(learner, (given, noise), blend, inactive=inactive)
        assert expected["finite"].all() and found["finite"].tolist() == [True, not ill, True]
        assert not found["objective_gradient"][1].any()
        for name, part in expected.items():
            assert part[[0, 2]].tobytes() == found[name][[0, 2]].tobytes(), name
        for name, two in learner.arrays().items():
            one, old = healthy[name], before[name]
            assert one[[0, 2]].tobytes() == two[[0, 2]].tobytes(), name
            if "target" not in name:
                assert two[1].tobytes() == old[1].tobytes(), name
            elif not ill:
                weights = before[name.replace("target", "weights")][1]
                followed = old[1] + AGENT.tau * (weights - old[1])
                np.testing.assert_allclose(two[1], followed, atol=1e-6)


@pytest.mark.parametrize("where", ["objective", "meta_loss"])
def test_an_objective_or_a_meta_loss_that_is_not_finite_is_reported(where):
    """The critics' errors are finite: the batch of the meta_loss is not one of theirs."""
    alpha = ALPHA.copy()
    alpha[1] *= np.nan if where == "objective" else 1.0
    learner = make_learner(None if where == "objective" else META, alpha=alpha, policy_delay=1)
    chunks, noise = update_inputs(learner, delay=1)
    chunks["observation"][1:, 1] = np.nan
    taught = teach(learner, (chunks, noise), blend=1.0)
    assert (
        taught["finite"].tolist() == [True, False, True]
        and np.isfinite(taught["critic_error"]).all()
    )


def test_fresh_agents():
    """Targets begin where weights do, moments and counts at zero; agents and twins differ, by their
    keys alone.
    """
    arrays, others = (
        make_learner().arrays(),
        make_learner(keys=[KEYS[2], KEYS[0], STRANGER]).arrays(),
    )
    for name, part in arrays.items():
        if "target" in name:
            assert part.tobytes() == arrays[name.replace("target", "weights")].tobytes()
        assert "weights" in name or "target" in name or not part.any()
    policy, critics = arrays["policy/weights/0"], arrays["twin_critics/weights/0"]
    np.testing.assert_array_equal(others["policy/weights/0"][:2], policy[[2, 0]])
    np.testing.assert_array_equal(others["twin_critics/weights/0"][:2], critics[[2, 0]])
    assert len({part.tobytes() for part in (*policy, *others["policy/weights/0"])}) == 4
    assert len({part.tobytes() for part in critics.reshape(2 * P, -1)}) == 2 * P


def test_a_new_start_forgets_everything_and_harms_nobody():
    learner = experienced()
    before, fresh = learner.arrays(), make_learner(keys=[KEYS[0], STRANGER, KEYS[1]]).arrays()
    learner.initialize_agents([1, 2], [STRANGER, KEYS[1]])
    for name, part in learner.arrays().items():
        found, old, new = part, before[name], fresh[name]
        assert (
            found[0].tobytes() == old[0].tobytes() and found[1:].tobytes() == new[1:].tobytes()
        ), name


def test_the_acting_policy_is_a_copy_of_the_policy():
    learner = make_learner()
    acting, observation = (
        learner.acting_policy(),
        np.random.default_rng(0).standard_normal((P, O)).astype(np.float32),
    )
    weights = [learner.arrays()[f"policy/weights/{place}"] for place in range(6)]
    before = acting.act(observation)
    np.testing.assert_allclose(before, policy_action(observation, weights), atol=1e-6)
    teach(learner, update_inputs(learner))
    np.testing.assert_array_equal(acting.act(observation), before)
    assert (learner.acting_policy().act(observation) != before).all()


def test_agents_in_several_calls_learn_as_in_one(monkeypatch):
    """Each call takes its own agents' part of everything: all three at once, or two and one."""
    found = []
    for layer_bytes in (4 * B * T * 8 * P, 4 * B * T * 8 * 2):
        monkeypatch.setattr(learner_module, "_LAYER_BYTES", layer_bytes)
        learner = make_learner()
        teach(learner, update_inputs(learner, 10), inactive=[1])
        taught = teach(learner, update_inputs(learner), inactive=[0])
        found.append({**taught, **learner.arrays()})
        acting = learner.acting_policy().act(np.ones((P, O), np.float32))
        found[-1]["action"] = acting
    for name, part in found[0].items():
        np.testing.assert_allclose(found[1][name], part, rtol=1e-3, atol=1e-5, err_msg=name)


def test_agents_at_once_depend_on_the_size_of_a_layer():
    """All of a laptop's; one of the paper's, whose layer takes 2.8 MB."""
    laptop = AgentConfig(hidden=(64, 64), batch=16, chunk=10)
    assert learner_module.agents_at_once(8, laptop) == 8
    assert learner_module.agents_at_once(1000, laptop) == 102
    assert learner_module.agents_at_once(10, AgentConfig()) == 1
    assert learner_module.agents_at_once(10, AgentConfig(hidden=(4000,))) == 1


def test_equal_objectives_share_one_compiled_update():
    """Whatever their params are; another discount is another objective."""
    objectives = [LSTMObjective(P, OBJECTIVE, discount).function for discount in (0.9, 0.9, 0.8)]
    updates = [compiled_update(AGENT, META, objective) for objective in objectives]
    assert updates[0] is updates[1] and updates[0] is not updates[2]


def test_without_an_objective_policies_follow_the_moved_critic():
    agent = dataclasses.replace(AGENT, clip=0.1)
    learner = PopulationLearner(P, EnvironmentSpec(O, A), agent, None, None)
    learner.initialize_agents(range(P), KEYS)
    before = learner.arrays()
    given = update_inputs(learner)
    found = teach(learner, given, blend=1.0)
    np.testing.assert_allclose(found["agreement"], 1.0, rtol=1e-5)
    assert found["objective_gradient"].shape == (P, 0)
    after = learner.arrays()
    parts = sorted(name for name in before if name.startswith("policy/weights/"))
    policy = [tf.constant(before[name]) for name in parts]
    critic = [tf.constant(after[name.replace("policy", "twin_critics")][:, 0]) for name in parts]
    batch = Chunks(**{name: tf.constant(part[0]) for name, part in given[0].items()})
    with tf.GradientTape() as tape:
        tape.watch(policy)
        action = policy_action(batch.observation, policy)
        value = tf.reduce_sum(td3.q_objective(batch, action, critic)) / B
    gradients = tape.gradient(value, policy)
    for member in range(P):
        expected = clip_by_hand([part[member] for part in gradients], agent.clip)
        for name, part in zip(parts, expected, strict=True):
            first = after[name.replace("weights", "first")][member]
            np.testing.assert_allclose(first, 0.1 * part, rtol=2e-4, atol=1e-8)
