"""Tests epg_tf.runs.beginning: a run that begins with what an earlier one evolved."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import json
import shutil

import numpy as np
import pytest
import tensorflow as tf

import epg_tf
from epg_tf.artifacts.artifact import LearnedLoss
from epg_tf.artifacts.loss_files import checksum
from epg_tf.core.errors import ConfigError, RecordError
from epg_tf.core.parameters import split
from epg_tf.core.products import products_of_pairs
from epg_tf.core.types import LifeKey
from epg_tf.epg.inner_loop import InnerLoop, final_inner_settings
from epg_tf.epg.meta_parameters import initial_phi, initial_policy, loss_channels
from epg_tf.epg.shards import Shards
from epg_tf.epg.state import initial_state
from epg_tf.losses.channels import CONSTANT, HISTORY, SCORED, kernel_rows
from epg_tf.losses.parameter_shapes import parameter_shapes
from epg_tf.losses.temporal_conv import TemporalConvLoss
from epg_tf.runs import beginning as beginning_module
from epg_tf.runs import pages
from epg_tf.runs.beginning import beginning, facts_of, scaled
from epg_tf.runs.evolution import EVOLUTION, EvolutionSystem
from epg_tf.runs.fixed_policy import on_observations_as_they_are
from epg_tf.runs.folder import (
    RunFolder,
    RunTarget,
)
from epg_tf.runs.identity import BEGUN_WITH, RunIdentity, beginning_in_words, beginning_of
from epg_tf.runs.session import Session, run_in_folder
from epg_tf.tasks import registry
from epg_tf.tasks.point_goal import PointGoal
from epg_tf.tasks.registry import make_family
from tests.thread_ranks import on_ranks


@pytest.fixture(scope="module")
def tiny(make_tiny):
    """Without guidance, so that lives are compiled for one way of learning."""
    return make_tiny(evolution={"guidance": 0.0})


@pytest.fixture(scope="module")
def shards(tiny):
    with Shards(tiny) as shards:
        yield shards


@pytest.fixture(scope="module")
def earlier(tiny, shards, tmp_path_factory):
    """The loss of a finished run with another seed."""
    folder = tmp_path_factory.mktemp("earlier") / "run"
    run(tiny, shards, folder, seed=7)
    return epg_tf.load_loss(folder / "final")


@pytest.fixture(scope="module")
def whole(tiny, shards, earlier, tmp_path_factory):
    """The folder of a finished run that began with it."""
    folder = tmp_path_factory.mktemp("whole") / "whole"
    run(tiny, shards, folder, earlier)
    return folder


@pytest.fixture(scope="module")
def stopped(tiny, shards, earlier, tmp_path_factory):
    """The folder of one that was stopped after an epoch."""
    folder = tmp_path_factory.mktemp("stopped") / "run"
    run(tiny, shards, folder, earlier, count=1)
    return folder


def run(experiment, shards, folder, earlier=None, seed=3, count=None, **how):
    """Lives so many epochs, or all."""
    system = EvolutionSystem(experiment, seed, shards, earlier=earlier)
    with contextlib.closing(run_in_folder(system, RunTarget(folder, **how))) as epochs:
        return list(itertools.islice(epochs, count))


def test_the_first_state_holds_its_vector_and_its_env_steps(tiny, earlier):
    state = beginning(tiny, 3, earlier)
    assert state.phi.tobytes() == state.best_phi.tobytes() == earlier.phi.tobytes()
    assert state.env_steps == earlier.facts["env_steps"] > 0
    assert state.epoch == 0 and not state.second_moment.any()
    assert state.phi.tobytes() != initial_state(tiny, 3).phi.tobytes()
    fresh = beginning(tiny, 3, None)
    assert fresh.phi.tobytes() == initial_state(tiny, 3).phi.tobytes() and not fresh.env_steps
    assert facts_of(None) == {}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"loss": {"head": 7}}, r"parameter shapes head/kernel is \[.*, these settings have \["),
        ({"loss": {"reward": True}}, r"channels reward is not there, .* have 1 \(history\);"),
        (
            {"policy": {"state_dependent_std": True}},
            r"channels policy log std is 2 \(constant\), these settings have 2 \(policy\)",
        ),
        ({"evolution": {"moves": "both"}}, "kind is temporal_conv_loss, these settings have"),
        ({"loss": {"leaky_slope": 0.5}}, "config.loss.leaky_slope=0.2, these settings have 0.5"),
        ({"inner": {"centred_observations": False}}, "config.inner.centred_observations=True"),
        ({"policy": {"activation": "relu"}}, "config.policy.activation='tanh', these settings"),
    ],
)
def test_other_settings_are_refused_before_anything_is_written(
    make_tiny, earlier, tmp_path, changes, message
):
    with pytest.raises(ConfigError, match=f"^begin_with=.*final:? (has )?{message}") as raised:
        next(epg_tf.evolve_in_folder(make_tiny(**changes), 3, tmp_path / "run", begin_with=earlier))
    assert "\n" not in str(raised.value)
    assert not (tmp_path / "run").exists()


VALLEY = {"start": "quadratic", "products": 4, "factors": 1}


@pytest.fixture(scope="module")
def policies(make_tiny):
    """Fixed linear policies with small weights, by whether they see products of pairs."""
    found, evolution = {}, {"moves": "initialisation", "epochs": 1}
    for pairs in (False, True):
        network = {"hidden": (), "observation_pairs": pairs}
        linear = make_tiny(evolution=evolution, policy=network, inner={"updates": 0})
        policy = unevolved(linear)
        found[pairs] = dataclasses.replace(policy, phi=np.float32(0.03) * policy.phi)
    return found


@pytest.mark.parametrize(("factors", "pairs"), [(1, False), (2, False), (3, False), (2, True)])
def test_a_loss_begins_as_a_valley_around_a_policy(make_tiny, policies, factors, pairs):
    """Its gradient in the means is zero where they are the policy's, twice the difference near
    there, and never that of the fresh valley, whose floor is at zero.
    """
    policy = policies[pairs]
    more = {"channels": ("observation_pairs",)} if pairs else {}
    experiment = make_tiny(loss=VALLEY | {"factors": factors} | more)
    state = beginning(experiment, 3, policy)
    assert state.env_steps == policy.facts["env_steps"]
    channels, loss = loss_channels(experiment), experiment.loss
    network = TemporalConvLoss(1, channels, loss, experiment.inner.update_period)
    network.load(state.phi[None])
    weights = initial_policy(policy.experiment, policy.phi)
    generator = np.random.default_rng(0)
    inputs = {
        channel.name: tf.constant(
            generator.standard_normal((1, loss.buffer_steps, channel.width)), tf.float32
        )
        for channel in channels
        if channel.kind in (HISTORY, SCORED)
    }
    inputs |= {c.name: tf.zeros([1, c.width]) for c in channels if c.kind == CONSTANT}
    if pairs:
        inputs["observation_pairs"] = products_of_pairs(inputs["observation"])
    seen = tf.concat([inputs[name] for name in ("observation", *more.get("channels", ()))], axis=2)
    floor = tf.matmul(seen, weights["output/kernel"][None])
    floor += weights["output/bias"]
    last = tf.constant([[experiment.inner.update_period - 1]])
    for away in (0.0, 0.1):
        means = floor + away
        with tf.GradientTape() as tape:
            tape.watch(means)
            total = tf.reduce_sum(network({**inputs, "policy_mean": means, "minibatch": last}))
        slope = tape.gradient(total, means)[0, -1]
        np.testing.assert_allclose(slope, np.full(slope.shape, 2 * away), rtol=0.02, atol=1e-6)
    assert np.abs(floor[0, -1]).min() > 1e-4


NOT_LEARNING = {
    "policy": {"hidden": ()},
    "evolution": {"moves": "initialisation", "guidance": 1.0, "final_guidance": 1.0},
    "surrogate": {"kind": "reinforce"},
}


def unevolved(experiment):
    """A fixed linear policy that nobody evolved."""
    phi = np.random.default_rng(0).standard_normal(initial_phi(experiment, 0).size)
    return LearnedLoss(phi.astype(np.float32), experiment, {"env_steps": 3})


@pytest.mark.parametrize("centred", [True, False])
def test_a_policy_is_the_same_whatever_agents_have_normalised(make_tiny, centred):
    """The floor of the valley, at observations as they are, is what the policy does after its own
    normalisation, life by life, in the mean.
    """
    inner = {"updates": 3, "learning_rate": 0.0, "centred_observations": centred}
    policy = unevolved(make_tiny(inner=inner, **NOT_LEARNING))
    linear = policy.experiment
    experiment = make_tiny(loss=VALLEY | {"channels": ("observation_as_it_is",)})
    learning = with_settings(policy, "inner", learning_rate=0.1)  # it does not, here
    phi, channels = beginning(experiment, 3, learning).phi, loss_channels(experiment)
    params = split(phi[None], parameter_shapes(channels, experiment.loss))
    rows = kernel_rows(channels)["observation_as_it_is"]
    kernel, bias = -params["products/kernel"][0][rows, :2], -params["products/bias"][0][:2]

    weights = initial_policy(policy.experiment, policy.phi)
    sixty_four = dataclasses.replace(linear.compute, shard_lives=64)
    lives = dataclasses.replace(linear, compute=sixty_four)
    loop = InnerLoop(lives, make_family(linear.task))
    keys = [LifeKey(0, "beginning", 0, index) for index in range(64)]
    loop.run(keys, np.tile(policy.phi, (64, 1)), final_inner_settings(linear))
    shift, scale = loop.observation_scaling
    assert np.abs(scale - 1.0).max() > 0.1
    observation = np.random.default_rng(0).standard_normal((5, kernel.shape[0]))
    normalised = (observation[None] - shift[:, None]) * scale[:, None]
    means = (normalised @ weights["output/kernel"] + weights["output/bias"]).mean(axis=0)
    np.testing.assert_allclose(observation @ kernel + bias, means, rtol=1e-4, atol=1e-5)


def test_what_does_not_vary_within_lives_counts_nothing(make_tiny, monkeypatch):
    """To the policy it is zero in every life, and its row is 100 times its weights otherwise."""

    class WithConstant(PointGoal):
        observation_size = PointGoal.observation_size + 1

        def observe(self, state):
            constant = np.full((len(state.qpos), 1), 3.0)
            return np.concatenate([super().observe(state), constant], axis=1)

    monkeypatch.setitem(registry.FAMILIES, "with_constant", WithConstant)
    inner = {"updates": 3, "learning_rate": 0.0}
    task = {"family": "with_constant", "episode_limit": 6}
    policy = unevolved(make_tiny(task=task, inner=inner, **NOT_LEARNING))
    kernel, _ = on_observations_as_they_are(policy)
    assert kernel[:-1].all() and not kernel[-1].any()


def test_a_policy_of_other_units_is_refused(make_tiny, policies, monkeypatch):
    experiment = make_tiny(loss=VALLEY | {"channels": ("observation_as_it_is",)})
    beginning(experiment, 3, policies[False])
    units = iter([(np.zeros(6), np.ones(6)), (np.zeros(6), np.full(6, 2.0))])

    def of_other_units(task):
        family = registry.make_family(task)
        family.observation_units = next(units)
        return family

    monkeypatch.setattr(beginning_module, "make_family", of_other_units)
    with pytest.raises(ConfigError, match="in other units than those of 'point_goal'") as raised:
        beginning(experiment, 3, policies[False])
    assert "\n" not in str(raised.value)


def test_a_policy_of_choices_is_the_floor_of_probabilities(make_tiny):
    """Where its logits are far apart, the most likely choice has the highest floor."""
    cartpole = {"family": "gymnasium:CartPole-v1", "frame_skip": 1, "episode_limit": 6}
    policy = unevolved(make_tiny(task=cartpole, inner={"updates": 0}, **NOT_LEARNING))
    channels = ("observation_as_it_is",)
    experiment = make_tiny(task=cartpole, loss=VALLEY | {"products": 2, "channels": channels})
    found = beginning(experiment, 3, policy).phi
    params = split(found[None], parameter_shapes(loss_channels(experiment), experiment.loss))
    rows = kernel_rows(loss_channels(experiment))["observation_as_it_is"]
    weights = initial_policy(policy.experiment, policy.phi)
    observation = np.random.default_rng(1).standard_normal((20, 4))
    logits = observation @ weights["output/kernel"] + weights["output/bias"]
    floor = -observation @ params["products/kernel"][0][rows, :2] - params["products/bias"][0][:2]
    np.testing.assert_allclose(floor[:, 1], 0.5 + (logits[:, 1] - logits[:, 0]) / 4, atol=1e-5)
    np.testing.assert_allclose(floor.sum(axis=1), 1.0, atol=1e-5)


ANT = {"family": "goal_ant", "frame_skip": 5, "episode_limit": 6}
TURNED = VALLEY | {
    "products": 8,
    "channels": ("observation_towards_reward",),
    "without": ("observation",),
}
NOT_CENTRED = {"centred_observations": False}


def of_ants(make_tiny, **inner):
    """A fixed linear policy of ants that nobody evolved."""
    return unevolved(make_tiny(task=ANT, inner={"updates": 0, **inner}, **NOT_LEARNING))


@pytest.mark.parametrize("without", [("observation",), ()])
def test_a_loss_that_turns_observations_has_the_policy_at_what_it_turned(make_tiny, without):
    policy = of_ants(make_tiny, **NOT_CENTRED)
    experiment = make_tiny(task=ANT, loss=TURNED | {"without": without}, inner=NOT_CENTRED)
    phi = beginning(experiment, 3, policy).phi
    channels = loss_channels(experiment)
    params = split(phi[None], parameter_shapes(channels, experiment.loss))
    rows = kernel_rows(channels)["observation_towards_reward"]
    found = params["products/kernel"][0][list(rows), :8]
    expected = initial_policy(policy.experiment, policy.phi)["output/kernel"]
    np.testing.assert_array_equal(found, -expected)


def test_a_policy_with_centred_observations_is_not_turned(make_tiny):
    with pytest.raises(ConfigError, match="is neither centred nor multiplied"):
        beginning(make_tiny(task=ANT, loss=TURNED), 3, of_ants(make_tiny))


def test_a_scaled_policy_has_its_mean_actions_times_the_factor(make_tiny):
    policy = of_ants(make_tiny)
    less = scaled(policy, 0.25)
    before, after = (initial_policy(p.experiment, p.phi) for p in (policy, less))
    assert all(before[name].any() for name in before) and set(before) == set(after)
    for name, values in before.items():
        factor = 0.25 if name in ("output/kernel", "output/bias") else 1.0
        np.testing.assert_array_equal(after[name], np.float32(factor) * values)
    stated = facts_of(less)
    assert stated["scale"] == 0.25 and "scale" not in facts_of(policy)
    assert stated["phi_sha256"] != facts_of(policy)["phi_sha256"]


def with_settings(policy, group, **changes):
    """Returns it as if its settings were others."""
    settings = dataclasses.replace(getattr(policy.experiment, group), **changes)
    experiment = dataclasses.replace(policy.experiment, **{group: settings})
    return dataclasses.replace(policy, experiment=experiment)


@pytest.mark.parametrize("scale", [0.0, -1.0, float("nan"), float("inf")])
def test_a_scale_is_a_number_above_0(make_tiny, scale):
    with pytest.raises(ConfigError, match=f"^begin_scale={scale} is not above 0 and finite"):
        scaled(of_ants(make_tiny), scale)


def test_only_a_linear_policy_of_means_can_be_scaled(make_tiny, earlier):
    stating = with_settings(of_ants(make_tiny), "policy", state_dependent_std=True)
    with pytest.raises(ConfigError, match="gives deviations, too, or choices"):
        scaled(stating, 0.5)
    with pytest.raises(ConfigError, match=r"^begin_scale=0.5 is for fixed linear policies"):
        scaled(earlier, 0.5)


def test_a_run_with_a_scaled_policy_names_the_scale_where_it_refuses_another(make_tiny, tmp_path):
    """One that is not named is the run's own."""
    policy = of_ants(make_tiny)
    settings = policy.experiment.to_mapping()
    identities = [
        RunIdentity(EVOLUTION, settings, 3, facts_of(scaled(policy, s))) for s in (0.5, 0.25)
    ]
    folder = tmp_path / "run"
    RunFolder(identities[0], RunTarget(folder)).close()
    stated = beginning_of(json.loads((folder / "config.json").read_text()))
    assert beginning_in_words(stated) == "phi with begin_scale=0.5"
    message = r"begin_with=phi with begin_scale=0.25: the run in .* with phi with begin_scale=0.5;"
    with pytest.raises(RecordError, match=message):
        RunFolder(identities[1], RunTarget(folder, resume=True))
    RunFolder(RunIdentity(EVOLUTION, settings, 3), RunTarget(folder, resume=True)).close()


@pytest.mark.parametrize(
    ("loss", "inner", "message"),
    [
        ({"start": "centred"}, {}, "start='centred', shared.*no place"),
        (VALLEY | {"without": ("observation",)}, {}, r"without=\('observation',\) has no place"),
        (VALLEY, {"centred_observations": False}, "has config.inner.centred_observations=True"),
    ],
)
def test_a_loss_without_place_for_a_policy_is_refused(make_tiny, policies, loss, inner, message):
    with pytest.raises(ConfigError, match=f"^begin_with=.*{message}") as raised:
        beginning(make_tiny(loss=loss, inner=inner), 3, policies[False])
    assert "\n" not in str(raised.value)


def test_a_policy_that_no_valley_has_is_refused(make_tiny, policies):
    valley, fresh = make_tiny(loss=VALLEY), policies[False]
    seeing = make_tiny(loss=VALLEY | {"channels": ("observation_as_it_is",)})
    with pytest.raises(ConfigError, match="have 'observation_pairs' among them, and not"):
        beginning(seeing, 3, policies[True])
    for policy, message in (
        (policies[True], r"channels=\(\) does not see the same; have 'observation_pairs'"),
        (
            with_settings(fresh, "policy", hidden=(3,)),
            r"hidden=\(3,\), and the floor of a valley is linear",
        ),
    ):
        with pytest.raises(ConfigError, match=message) as raised:
            beginning(valley, 3, policy)
        assert "\n" not in str(raised.value)


def test_a_stopped_run_ends_with_the_same_bits(tiny, shards, earlier, whole, stopped, tmp_path):
    """Resumed without naming the beginning, and with it; the folder and its losses state it."""
    ends = []
    for folder, again in (
        (whole, None),
        (tmp_path / "unnamed", None),
        (tmp_path / "named", earlier),
    ):
        if folder != whole:
            shutil.copytree(stopped, folder)
            run(tiny, shards, folder, again, resume=True)
        ends.append((folder / "final" / "loss.npz").read_bytes())
        facts = json.loads((folder / "config.json").read_text())
        assert facts[BEGUN_WITH] == {"loss": earlier.name, "phi_sha256": checksum(earlier.phi)}
        assert epg_tf.load_loss(folder).facts[BEGUN_WITH] == facts[BEGUN_WITH]
        summary = json.loads((folder / "summary.json").read_text())
        assert summary["env_steps"] > earlier.facts["env_steps"]
        assert beginning_in_words(beginning_of(facts)) == earlier.name
    assert ends[0] == ends[1] == ends[2]
    (tmp_path / "without_rows").mkdir()  # a page has pictures of them
    shutil.copy(whole / "config.json", tmp_path / "without_rows")
    (section,) = pages.read_entry(tmp_path / "without_rows").sections[-1:]
    assert section.blocks[-1].text.endswith(f"--begin_with={earlier.name}")


@pytest.mark.parametrize("spent", [-5, True, 2**70, 1.5, None])
def test_env_steps_that_are_no_count_are_refused(tiny, earlier, spent):
    damaged = dataclasses.replace(earlier, facts=earlier.facts | {"env_steps": spent})
    with pytest.raises(ConfigError, match="which is no count") as raised:
        beginning(tiny, 3, damaged)
    assert "\n" not in str(raised.value)


def test_a_run_that_was_killed_before_its_first_checkpoint_wants_its_beginning(
    tiny, shards, earlier, whole, stopped, tmp_path
):
    """Without it the run would go on with a fresh loss, and state the other one."""
    folder = shutil.copytree(stopped, tmp_path / "run")
    shutil.rmtree(folder / "checkpoints")
    (folder / "metrics.csv").unlink()
    with pytest.raises(RecordError, match="began with .*final and has no checkpoint yet; pass"):
        run(tiny, shards, folder, None, resume=True)
    run(tiny, shards, folder, earlier, resume=True)
    ends = [(path / "final" / "loss.npz").read_bytes() for path in (whole, folder)]
    assert ends[0] == ends[1]


@pytest.mark.parametrize(
    ("begun", "named"),
    [("x", True), *((each, False) for each in ("x", {}, {"loss": "a"}, {"phi_sha256": 3}, None))],
)
def test_a_damaged_statement_is_refused(tiny, shards, earlier, stopped, tmp_path, begun, named):
    shutil.copytree(stopped, tmp_path / "run")
    config = tmp_path / "run" / "config.json"
    config.write_text(json.dumps(json.loads(config.read_text()) | {BEGUN_WITH: begun}))
    given = earlier if named else None
    with pytest.raises(RecordError, match="config.json is damaged .begun_with=") as raised:
        run(tiny, shards, tmp_path / "run", given, resume=True)
    assert "\n" not in str(raised.value)


def test_another_beginning_is_refused_where_a_run_is_resumed(tiny, shards, earlier, tmp_path):
    other = dataclasses.replace(earlier, phi=earlier.phi + 1.0)
    for name, first, message in (
        ("fresh", None, "began with a fresh loss"),
        ("other", other, "began with .*final"),
    ):
        folder = tmp_path / name
        run(tiny, shards, folder, first, count=1)
        before = {path: path.read_bytes() for path in folder.rglob("*.npz")}
        with pytest.raises(RecordError, match=f"^begin_with=.*: the run in .*{name} {message}"):
            run(tiny, shards, folder, earlier, resume=True)
        assert {path: path.read_bytes() for path in folder.rglob("*.npz")} == before


def test_a_checkpoint_of_another_beginning_is_refused(tiny, shards, earlier, tmp_path):
    """Those of a resumed run, which does not name its beginning again, are its own."""
    begun, fresh = tmp_path / "begun", tmp_path / "fresh"
    for folder, first in ((begun, earlier), (fresh, None)):
        run(tiny, shards, folder, first, count=1)
        run(tiny, shards, folder, None, count=1, resume=True)
    for folder, other, named, began in (
        (begun, fresh, f"begin_with={earlier.name}: ", "a fresh loss"),
        (fresh, begun, "", "another loss, and this run with a fresh one"),
    ):
        copied = shutil.copytree(folder, tmp_path / f"{folder.name}_copied")
        shutil.rmtree(copied / "checkpoints")
        shutil.copytree(other / "checkpoints", copied / "checkpoints")
        message = f"^{named}the run that wrote .*02.npz began with {began}; remove"
        with pytest.raises(RecordError, match=message):
            run(tiny, shards, copied, None, resume=True)


def test_all_ranks_begin_with_that_of_rank_0(tiny, shards, earlier, tmp_path):
    def first_phi(rank):
        given = earlier if rank.rank == 0 else None
        system = EvolutionSystem(tiny, 3, shards, rank, given)
        with contextlib.closing(Session(system, RunTarget(tmp_path / "run"))) as session:
            session.begin()
            return system.state.phi.tobytes()

    assert on_ranks(2, first_phi) == [earlier.phi.tobytes()] * 2
