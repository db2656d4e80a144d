"""Tests that the plain families equal Gymnasium's tasks in every step."""

from __future__ import annotations

import dataclasses
import sys
import types

import mujoco
import numpy as np
import pytest

from epg_tf.tasks.physics import BodySimulation
from epg_tf.tasks.registry import FAMILIES

STEPS = 200
ONE = np.array([0])


@dataclasses.dataclass(frozen=True)
class Plain:
    """A plain family and what 200 random steps must contain to make the comparison strict."""

    name: str
    identifier: str
    frame_skip: int
    options: dict = dataclasses.field(default_factory=dict)
    active: str = (
        "ncon"  # MjData's count of what must act on the body: contacts, or constraints of any kind
    )
    acts: int = 10  # in how many steps at least
    ends: int = 1  # episodes that terminate


PLAIN = [
    Plain("hopper", "Hopper-v5", 4),
    Plain("walker2d", "Walker2d-v5", 4),
    Plain("half_cheetah", "HalfCheetah-v5", 5, ends=0),
    Plain("reacher", "Reacher-v5", 2, active="nefc", ends=0),
    Plain("ant", "Ant-v5", 5, {"include_cfrc_ext_in_observation": False, "contact_cost_weight": 0}),
]


@pytest.fixture
def make_environment(monkeypatch):
    """A function: identifier and options -> Gymnasium's own environment, without its time limit."""
    try:
        import imageio  # noqa: F401
    except ModuleNotFoundError:  # Gymnasium imports it to save pictures, which nobody does here
        monkeypatch.setitem(sys.modules, "imageio", types.ModuleType("imageio"))
    import gymnasium

    made = []

    def make(identifier, options):
        made.append(gymnasium.make(identifier, **options).unwrapped)
        return made[-1]

    yield make
    for environment in made:
        environment.close()


def start_together(simulation, environment, generator):
    """Begins an episode in both, from a start that the family draws."""
    observation = simulation.reset(ONE, [generator])
    mujoco.mj_resetData(environment.model, environment.data)
    environment.set_state(simulation.state.qpos[0].copy(), simulation.state.qvel[0].copy())
    np.testing.assert_array_equal(observation[0], environment._get_obs().astype(np.float32))


@pytest.mark.parametrize("plain", PLAIN, ids=lambda plain: plain.name)
def test_a_plain_family_is_gymnasiums(plain, make_environment):
    environment = make_environment(plain.identifier, plain.options)
    assert environment.frame_skip == plain.frame_skip
    family, generator = FAMILIES[plain.name](plain.frame_skip, 10**6), np.random.default_rng(0)
    simulation = BodySimulation(family, 1)
    assert family.sample_task(generator) == {} and family.seconds_per_step == pytest.approx(
        environment.dt
    )
    assert environment.observation_space.shape == (family.observation_size,)
    start_together(simulation, environment, generator)
    acting = ended = 0
    # Gymnasium leaves clipping to others, and its effort is that of the action it gets; ours is the
    # clipped action's.
    for action in generator.uniform(-1.3, 1.3, (STEPS, family.action_size)):
        clipped = np.clip(action, -1.0, 1.0)
        before = simulation.state.rows(ONE)
        result = simulation.step(action[None])
        after = simulation.state.rows(ONE)
        observation, reward, terminated, _, _ = environment.step(clipped)
        ours = family.observe(after), family.reward(before, after, clipped[None])
        np.testing.assert_allclose(ours[0][0], observation, rtol=0, atol=1e-9)
        np.testing.assert_allclose(ours[1][0], reward, rtol=0, atol=1e-9)
        np.testing.assert_array_equal(result.observation, ours[0].astype(np.float32))
        np.testing.assert_array_equal(result.reward, ours[1].astype(np.float32))
        assert (
            result.terminated[0] == family.terminated(after)[0] == terminated
            and not result.diverged[0]
        )
        acting += getattr(environment.data, plain.active) > 0
        ended += terminated
        if terminated:
            start_together(simulation, environment, generator)
    assert acting >= plain.acts and ended >= plain.ends


@pytest.mark.parametrize("plain", PLAIN, ids=lambda plain: plain.name)
def test_starts_are_distributed_as_gymnasiums(plain, make_environment):
    """Bounds and moments of 2000 starts; enough to tell a range from a deviation, and either from
    another size.
    """
    environment = make_environment(plain.identifier, plain.options)
    family, generator, count = (
        FAMILIES[plain.name](plain.frame_skip, 100),
        np.random.default_rng(0),
        2000,
    )
    ours = np.stack([np.concatenate(family.start(generator, {})[:2]) for _ in range(count)])
    environment.reset(seed=0)
    theirs = []
    for _ in range(count):
        environment.reset_model()
        theirs.append(environment.state_vector())
    theirs = np.stack(theirs)
    spread = theirs.std(axis=0)
    error = 5 * np.maximum(spread, 1e-12) / np.sqrt(count)
    assert (np.abs(ours.mean(axis=0) - theirs.mean(axis=0)) < 1.5 * error).all()
    np.testing.assert_allclose(ours.std(axis=0), spread, rtol=0.1, atol=1e-12)
    kurtosis = [
        np.mean(((part - part.mean(axis=0)) / np.maximum(spread, 1e-12)) ** 4, axis=0)
        for part in (ours, theirs)
    ]
    np.testing.assert_allclose(
        kurtosis[0], kurtosis[1], atol=0.6
    )  # 1.8 of a range, 3 of a deviation
