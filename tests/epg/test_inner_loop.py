"""Tests epg_tf.epg.inner_loop and shards: whole lives, bit by bit."""

from __future__ import annotations

import dataclasses
import hashlib
import threading

import numpy as np
import pytest

from epg_tf.agents.policies import fresh_weights
from epg_tf.core.errors import Interrupted
from epg_tf.core.parameters import parameter_count
from epg_tf.core.random_streams import life_generator
from epg_tf.core.types import LifeKey
from epg_tf.epg.inner_loop import InnerLoop, InnerLoopSettings
from epg_tf.epg.lives import weighted_return
from epg_tf.epg.meta_parameters import loss_shapes
from epg_tf.epg.shards import Shards
from epg_tf.tasks.point_goal import PointGoal
from epg_tf.tasks.registry import make_family

P, M, UPDATES, LIMIT = 4, 8, 3, 6  # of the tiny experiment
KEYS = [LifeKey(1, "test", 0, index) for index in range(8)]
TEACHINGS = LEARNED, BLENDED, SURROGATE = [
    InnerLoopSettings(alpha, 1e-2) for alpha in (0.0, 0.5, 1.0)
]


class OddRewards(PointGoal):
    """The same MDPs, rewarded arbitrarily: so much that a trace of it, anywhere, would turn some
    unit of the loss.
    """

    def reward(self, before, after, action):
        """Returns noise made of positions."""
        return 1e8 * np.sin(1e4 * after.qpos[:, 0]) - 7.0


class GoalRewards(PointGoal):
    """Every step of an episode is rewarded by what the episode's start drew."""

    def reward(self, before, after, action):
        """Returns the first coordinate of the goal."""
        return after.goal[:, 0].copy()


class LateSuccess(PointGoal):
    """An episode succeeds if what its start drew is positive; before its last step, all do and none
    does, in turn.
    """

    def terminated(self, state):
        """Returns False, and counts: it is asked once per env step."""
        self.steps = getattr(self, "steps", -1) + 1
        return super().terminated(state)

    def succeeded(self, state):
        """Returns whether the first coordinate of the goal is positive, at the last step; nonsense
        before.
        """
        if self.steps % LIMIT != LIMIT - 1:
            return np.full(len(state.qpos), self.steps % 2 == 0)
        return state.goal[:, 0] > 0


class NoGoal(PointGoal):
    """The same without a goal to reach."""

    goal_reaching = False


class Choices(PointGoal):
    """The body is pushed along one of two axes; the first choice pays 1, the second nothing."""

    discrete_actions = True

    def reward(self, before, after, action):
        """Returns whether the first was chosen."""
        return action[:, 0].copy()


class Hopeless(PointGoal):
    """Always at the goal, and for light bodies never a number."""

    def reward(self, before, after, action):
        """Returns NaN for bodies of less than 1 kg, 0 for others."""
        return np.where(after.task["mass"] < 1.0, np.nan, 0.0)

    def succeeded(self, state):
        """Returns True."""
        return np.ones(len(state.qpos), bool)


def make_phi(experiment, lives, seed=0):
    """Returns one random phi per life, [L, D]."""
    size = parameter_count(loss_shapes(experiment))
    return 0.3 * np.random.default_rng(seed).standard_normal((lives, size)).astype(np.float32)


LEARNERS = {}


def make_loop(experiment, family=PointGoal):
    """Returns an `InnerLoop` of the family. Those of equal settings share a compiled learner."""
    loop = InnerLoop(experiment, family(experiment.task.frame_skip, experiment.task.episode_limit))
    parts = experiment.loss, experiment.inner, experiment.policy, experiment.surrogate
    loop.learner = LEARNERS.setdefault((*parts, loop.family.spec), loop.learner)
    return loop


def rows(results, lives=None):
    """Returns everything the lives left behind, as comparable bits per life."""
    lives = range(len(results)) if lives is None else lives
    names = [field.name for field in dataclasses.fields(results)]
    return [
        tuple(np.ascontiguousarray(getattr(results, name)[life]).tobytes() for name in names)
        for life in lives
    ]


@pytest.fixture(scope="module")
def loop(tiny):
    """One loop for many tests: each also proves that lives leave nothing behind."""
    return make_loop(tiny)


@pytest.fixture(scope="module")
def phi(tiny):
    return make_phi(tiny, 8)


@pytest.fixture(scope="module")
def lives(loop, phi):
    """Lives 0 to 3, undisturbed."""
    return loop.run(KEYS[:P], phi[:P], LEARNED)


@pytest.mark.parametrize(
    ("inner_settings", "family"), [*((each, PointGoal) for each in TEACHINGS), (BLENDED, Choices)]
)
def test_a_life_does_not_depend_on_its_neighbours_or_its_place(tiny, inner_settings, family):
    loop, others = make_loop(tiny, family), [6, 2, 5, 1]
    size = parameter_count(loop.learner.loss.shapes)
    phi = 0.3 * np.random.default_rng(0).standard_normal((8, size)).astype(np.float32)
    alone = loop.run(KEYS[:P], phi[:P], inner_settings)
    moved = loop.run([KEYS[i] for i in others], phi[others], inner_settings)
    assert not alone.failed.any() and len(set(alone.policy_hash)) == P
    assert rows(moved, [1, 3]) == rows(alone, [2, 1])


def test_two_shards_at_a_time_equal_one_at_a_time(make_tiny, tiny, phi):
    """Nor does a life depend on threads, or on the shard it shares one with; a last shard may be
    short.
    """
    with Shards(make_tiny(compute={"threads": 2})) as shards:
        assert shards.threads == 2
        done = []
        together = shards.run(KEYS, lambda life: phi[life], LEARNED, done=done.append)
        assert done == [P, P]
        short = shards.run(KEYS[:6], lambda life: phi[life], LEARNED, done=done.append)
        assert done[2:] == [P, 2]
    loop = make_loop(tiny)
    apart = [loop.run(KEYS[start : start + P], phi[start : start + P], LEARNED) for start in (4, 0)]
    assert rows(together) == rows(apart[1]) + rows(apart[0])
    assert len(short) == 6 and rows(short) == rows(together, range(6))


def test_observations_that_are_not_centred_keep_their_zero(make_tiny, phi):
    for centred in (True, False):
        loop = make_loop(make_tiny(inner={"centred_observations": centred}))
        loop.run(KEYS[:P], phi[:P], LEARNED)
        shift, scale = loop.observation_scaling
        assert shift.any() == centred and (scale != 1.0).all()


def test_the_time_in_a_life_is_a_share_of_its_length(make_tiny):
    """Of the life that is run, whatever the config says."""
    experiment = make_tiny(loss={"channels": ("time_in_life",)})
    loop, phi = make_loop(experiment), make_phi(experiment, P)
    for updates in (None, 2):
        loop.run(KEYS[:P], phi, dataclasses.replace(LEARNED, updates=updates))
        steps = (updates or UPDATES) * M
        newest = loop._buffer.time_in_life[-M:]
        np.testing.assert_allclose(newest, np.arange(steps - M, steps) / steps, rtol=1e-6)


BLIND = {"products": 2, "channels": ("novelty", "time_in_life")}


@pytest.mark.parametrize(
    ("changes", "reward"),
    [
        ({}, False),
        ({"reward": True}, True),
        (BLIND, False),
        ({"channels": ("future_reward",)}, True),
    ],
)
def test_rewards_reach_a_life_only_if_the_loss_declares_them(make_tiny, changes, reward):
    """The headline claim: without declared rewards, changing them changes no bit of training."""
    experiment = make_tiny(loss=changes)
    phi = make_phi(experiment, P)
    usual, odd = (
        make_loop(experiment, family).run(KEYS[:P], phi, dataclasses.replace(LEARNED, updates=8))
        for family in (PointGoal, OddRewards)
    )
    assert (
        not (usual.failed | odd.failed).any() and not (usual.final_return == odd.final_return).any()
    )
    assert (usual.policy_hash == odd.policy_hash).tolist() == [not reward] * P


def test_learning_rate_zero_or_a_phi_that_is_not_finite_leaves_the_policy_as_born(tiny, loop, phi):
    still = loop.run(KEYS[:P], phi[:P], InnerLoopSettings(0.0, 0.0)).policy_hash
    ill = loop.run(KEYS[:P], np.nan * phi[:P], LEARNED).policy_hash
    for key, *found in zip(KEYS[:P], still, ill, strict=True):
        weights = fresh_weights(life_generator(key, "policy"), loop.family.spec, tiny.policy)
        memory = np.zeros((2, 3), np.float32)
        born = hashlib.sha256(b"".join(w.tobytes() for w in [*weights, memory])).hexdigest()
        assert found == [born, born]


def test_non_finite_phi_fails_its_life_alone(loop, phi, lives):
    broken = phi[:P].copy()
    broken[1], broken[3, -2] = np.nan, np.inf  # all of it; one weight of the output layer
    results = loop.run(KEYS[:P], broken, LEARNED)
    assert results.failed.tolist() == [False, True, False, True]
    assert np.isnan(results.final_return).tolist() == [False, True, False, True]
    assert rows(results, [0, 2]) == rows(lives, [0, 2])
    assert rows(loop.run(KEYS[:P], phi[:P], LEARNED)) == rows(lives)  # nothing is left of it


@pytest.mark.parametrize("poison", [np.nan, 1e30])
@pytest.mark.parametrize("when", [3, UPDATES * M + 2], ids=["learning", "final_episodes"])
def test_diverging_physics_fails_its_life_alone(
    loop, phi, lives, monkeypatch, tmp_path, poison, when
):
    """One simulation's velocity is spoilt once."""
    monkeypatch.chdir(tmp_path)  # MuJoCo logs its warning to the working directory
    simulation, count = loop._simulation, 0
    step = simulation.step

    def spoilt(action, ids=None):
        nonlocal count
        count += 1
        if count == when:
            simulation.state.qvel[2, 0] = poison
        return step(action, ids)

    monkeypatch.setattr(simulation, "step", spoilt)
    results = loop.run(KEYS[:P], phi[:P], LEARNED)
    assert results.failed.tolist() == [False, False, True, False] and np.isnan(
        results.final_return[2]
    )
    assert rows(results, [0, 1, 3]) == rows(lives, [0, 1, 3])
    monkeypatch.undo()
    assert rows(loop.run(KEYS[:P], phi[:P], LEARNED)) == rows(lives)


@pytest.mark.parametrize("epochs", [1, 3])
def test_an_update_uses_each_newest_step_once_per_epoch(loop, phi, monkeypatch, epochs):
    orders, update = [], loop.learner.update

    def watched(buffer, shift, scale, order):
        orders.append(order.copy())
        return update(buffer, shift, scale, order)

    monkeypatch.setattr(loop.learner, "update", watched)
    loop.run(KEYS[:P], phi[:P], InnerLoopSettings(1.0, 1e-3, epochs))
    assert len(orders) == UPDATES and orders[0].shape == (epochs * M // 4, P, 4)
    sequences = set()
    for order in orders:
        for life in range(P):
            for taken in order[:, life].reshape(epochs, M):
                assert sorted(taken) == list(range(M))
                sequences.add(tuple(taken))
    assert len(sequences) == UPDATES * P * epochs  # shuffled anew each time


def drawn(loop, key, purpose, episodes):
    """Returns the first coordinates of the goals of a life's episodes."""
    resets = life_generator(key, purpose)
    return np.array([loop.family.start(resets, {})[2][0] for _ in range(episodes)])


FITNESS = {  # source: (what is counted of four episodes in the life and three after it)
    "final_episodes": lambda life, final: np.mean(final),
    "whole_life": lambda life, final: np.mean(life),
    "weighted": lambda life, final: weighted_return(list(life), np.mean(final)),
}


@pytest.mark.parametrize("source", FITNESS)
def test_what_judges_a_life(tiny, source):
    """Returns, successes and env steps of these episodes; learning is the same, and returns after
    updates 1, 2, 3 are those of episodes 1, 2, 4: an update has 8 steps, an episode 6.
    """
    loop, phi = make_loop(tiny, GoalRewards), make_phi(tiny, P)
    inner_settings = dataclasses.replace(LEARNED, fitness_from=source)
    results, plain = loop.run(KEYS[:P], phi, inner_settings), loop.run(KEYS[:P], phi, LEARNED)
    own = source == "whole_life"
    assert results.env_steps.tolist() == [UPDATES * M + (0 if own else 3 * LIMIT)] * P
    assert results.policy_hash.tolist() == plain.policy_hash.tolist()
    for life, key in enumerate(KEYS[:P]):
        within, final = (
            LIMIT * drawn(loop, key, *how) for how in (("reset", 4), ("final_reset", 3))
        )
        assert results.final_return[life] == pytest.approx(FITNESS[source](within, final), rel=1e-5)
        np.testing.assert_allclose(results.episode_return[life], within[[0, 1, 3]], rtol=1e-5)


@pytest.mark.parametrize("source", ["final_episodes", "whole_life"])
def test_success_is_the_share_of_episodes_that_end_at_the_goal(tiny, source):
    """Goals reached are counted over those of the life itself, four, whatever judges it."""
    loop, phi = make_loop(tiny, LateSuccess), make_phi(tiny, P)
    final = source == "final_episodes"
    results = loop.run(KEYS[:P], phi, dataclasses.replace(LEARNED, fitness_from=source))
    assert loop.family.steps + 1 == UPDATES * M + 3 * LIMIT * final and UPDATES * M % LIMIT == 0
    for life, key in enumerate(KEYS[:P]):
        within = drawn(loop, key, "reset", 4) > 0
        judged = drawn(loop, key, "final_reset", 3) > 0 if final else within
        assert results.success[life] == pytest.approx(np.mean(judged))
        assert results.goals_reached[life] == within.sum()
    assert len(set(results.success)) > 1 and len(set(results.goals_reached)) > 1
    assert np.isnan(make_loop(tiny, NoGoal).run(KEYS[:P], phi, LEARNED).success).all()


def test_before_the_first_episode_ends_its_return_is_nan(make_tiny):
    experiment = make_tiny(task={"episode_limit": 9})
    results = make_loop(experiment).run(KEYS[:P], make_phi(experiment, P), LEARNED)
    assert np.isnan(results.episode_return).tolist() == [[True, False, False]] * P


def test_a_surrogate_learns_which_choice_pays(make_tiny):
    """The known optimum: every step of the final episodes pays 1."""
    experiment = make_tiny(
        inner={"update_period": 32, "minibatch": 16}, surrogate={"discount": 0.0}
    )
    results = make_loop(experiment, Choices).run(
        KEYS[:P], np.zeros((P, 1), np.float32), InnerLoopSettings(1.0, 1e-2, 4, updates=40)
    )
    assert results.episode_return[:, 0].mean() < 0.75 * LIMIT
    assert (results.final_return > 0.9 * LIMIT).all()


def test_a_life_that_fails_does_not_succeed(tiny):
    loop = make_loop(tiny, Hopeless)
    masses = [loop.family.sample_task(life_generator(key, "task"))["mass"] for key in KEYS[:P]]
    assert min(masses) < 1.0 < max(masses)
    success = loop.run(KEYS[:P], make_phi(tiny, P), LEARNED).success
    assert success.tolist() == [float(mass > 1.0) for mass in masses]


def test_a_family_that_continues_goes_on_after_a_time_limit_but_starts_final_episodes_afresh(
    tiny, monkeypatch
):
    """Starts are drawn once at birth, once before the final episodes, and never at a time limit."""
    monkeypatch.setattr(PointGoal, "continues", True)
    loop, starts, start = make_loop(tiny), [], PointGoal.start
    monkeypatch.setattr(PointGoal, "start", lambda *given: starts.append(1) or start(*given))
    results = loop.run(KEYS[:P], make_phi(tiny, P), LEARNED)
    assert len(starts) == 2 * P
    assert results.env_steps.tolist() == [UPDATES * M + 3 * LIMIT] * P


def test_the_first_papers_fitness_weighs_the_episodes_of_a_life():
    """Its footnote: 4 + 1/3 (1/3 * 1 + 2/3 * 2 + 3/3 * 3 + 4/3 * 4)."""
    assert weighted_return([1.0, 2.0, 3.0], 4.0) == pytest.approx(4 + 30 / 9)
    assert weighted_return([5.0], 1.0) == pytest.approx(1 + (5 + 2 * 1))
    assert np.isnan(weighted_return([], 1.0))


def test_the_memorys_norm_is_that_of_its_weights(tiny, make_tiny):
    loop = make_loop(tiny)
    results = loop.run(KEYS[:P], make_phi(tiny, P), LEARNED)
    kernel = loop.learner.agent.memory.kernel.numpy()
    assert results.memory_norm == pytest.approx(np.sqrt(np.square(kernel).sum(axis=(1, 2))))
    assert (results.memory_norm > 0).all()
    without = make_tiny(loss={"memory_units": 0})
    results = make_loop(without).run(KEYS[:P], make_phi(without, P), LEARNED)
    assert np.isnan(results.memory_norm).all()


def test_the_number_of_updates_can_be_chosen(loop, phi, lives):
    """The beginning of a longer life is the shorter life."""
    longer = loop.run(KEYS[:P], phi[:P], dataclasses.replace(LEARNED, updates=5))
    assert longer.episode_return.shape == (P, 5)
    np.testing.assert_array_equal(longer.episode_return[:, :UPDATES], lives.episode_return)
    assert not set(longer.policy_hash) & set(lives.policy_hash)
    assert loop.run(
        KEYS[:P], phi[:P], dataclasses.replace(LEARNED, updates=0)
    ).episode_return.shape == (P, 0)


def test_measuring_kl_changes_nothing_else(tiny, phi, lives):
    measured = InnerLoop(tiny, make_family(tiny.task), measure_kl=True).run(
        KEYS[:P], phi[:P], LEARNED
    )
    assert (
        (measured.policy_hash == lives.policy_hash).all()
        and (measured.kl > 0).all()
        and np.isnan(lives.kl).all()
    )


def test_the_surrogate_alone_needs_no_phi(loop, phi):
    results = [loop.run(KEYS[:P], part, SURROGATE) for part in (phi[:P], phi[:P] * np.nan)]
    assert rows(results[0]) == rows(results[1]) and not results[1].failed.any()


def test_discrete_actions_follow_the_lifes_own_noise(make_tiny):
    """With logits of nearly 0, each choice is the larger of two Gumbel numbers from the life's own
    streams.
    """
    loop = make_loop(make_tiny(policy={"output_scale": 1e-9}), Choices)
    results = loop.run(KEYS[:P], np.zeros((P, 1), np.float32), InnerLoopSettings(1.0, 0.0))
    for life, key in enumerate(KEYS[:P]):
        first = [
            life_generator(key, purpose).gumbel(size=(UPDATES * M, 2)).argmax(axis=1) == 0
            for purpose in ("action", "final_action")
        ]
        episodes = first[0].reshape(-1, LIMIT).sum(axis=1)
        assert results.episode_return[life].tolist() == [episodes[0], episodes[1], episodes[3]]
        assert results.final_return[life] == pytest.approx(first[1][: 3 * LIMIT].sum() / 3)
    assert len(set(results.final_return)) > 1


def test_stop_interrupts_lives(tiny, phi):
    stop = threading.Event()
    stopped = InnerLoop(tiny, make_family(tiny.task), stop=stop)
    stop.set()
    with pytest.raises(Interrupted):
        stopped.run(KEYS[:P], phi[:P], LEARNED)
    shards = Shards(tiny)
    shards.close()
    with pytest.raises((Interrupted, RuntimeError)):
        shards.run(KEYS, lambda life: phi[life], LEARNED)
