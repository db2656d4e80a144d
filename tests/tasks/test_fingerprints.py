"""Tests epg_tf.tasks.fingerprints and source_digest: what a family of a user is made of, and when
that changes.
"""

from __future__ import annotations

import importlib
import sys

import gymnasium
import mujoco
import numpy as np
import pytest

from epg_tf.tasks import registry
from epg_tf.tasks.bodies import BodyFamily
from epg_tf.tasks.fingerprints import fingerprint
from epg_tf.tasks.point_goal import PointGoal
from epg_tf.tasks.settings import TaskConfig
from epg_tf.tasks.source_digest import is_own, source_digest

XML = """<mujoco><worldbody><body><joint name="x" type="slide" axis="1 0 0"/>
<geom size=".1" mass="1"/></body></worldbody>
<actuator><motor joint="x" ctrllimited="true" ctrlrange="-1 1"/></actuator></mujoco>"""


class Slide(BodyFamily):
    """A body on a rail."""

    name = "slide_of_test"
    observation_size = 2

    def start(self, generator, task):
        """Draws a place."""
        return generator.uniform(-1, 1, 1), np.zeros(1), np.zeros(0)

    def observe(self, state):
        """Returns place and speed."""
        return np.concatenate([state.qpos, state.qvel], axis=1)

    def reward(self, before, after, action):
        """Returns minus the distance."""
        return -np.abs(after.qpos[:, 0])


class Line(gymnasium.Env):
    """An environment of the user, whose reward is scaled by an argument."""

    def __init__(self, scale=1.0):
        self.scale = scale
        self.observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (1,), np.float32)
        self.action_space = gymnasium.spaces.Box(-1.0, 1.0, (1,), np.float32)

    def reset(self, *, seed=None, options=None):
        """Starts at a random place."""
        super().reset(seed=seed)
        self.x = float(self.np_random.uniform(-1, 1))
        return np.array([self.x], np.float32), {}

    def step(self, action):
        """Moves."""
        self.x += float(action[0])
        return np.array([self.x], np.float32), -self.scale * abs(self.x), False, False, {}


class Doubled(gymnasium.RewardWrapper):
    """Doubles rewards."""

    def reward(self, reward):
        """Returns twice the reward."""
        return 2 * reward


@pytest.fixture
def slide(tmp_path, monkeypatch):
    """A function: the content of a model file -> what the family is made of."""
    monkeypatch.setattr(registry, "FAMILIES", dict(registry.FAMILIES))
    registry.register_family(Slide)
    monkeypatch.setattr(Slide, "model_file", tmp_path / "slide.xml", raising=False)

    def made_of(xml):
        (tmp_path / "slide.xml").write_text(xml)
        return fingerprint(TaskConfig("slide_of_test", 10, 50))

    return made_of


@pytest.fixture
def line(monkeypatch):
    """A function: arguments of a registration -> what the family of the id is made of."""
    monkeypatch.setattr(gymnasium.envs.registration, "registry", dict(gymnasium.registry))
    monkeypatch.setattr(gymnasium, "registry", gymnasium.envs.registration.registry)

    def made_of(entry=Line, **how):
        gymnasium.registry.pop("LineOfTest-v0", None)
        gymnasium.register("LineOfTest-v0", entry_point=entry, max_episode_steps=9, **how)
        return fingerprint("gymnasium:LineOfTest-v0@9")

    return made_of


def test_the_compiled_model_counts_and_remarks_in_its_file_do_not(slide):
    found = slide(XML)
    assert set(found) == {"source", "model", "mujoco"} and found["mujoco"] == mujoco.__version__
    assert slide(XML.replace("<worldbody>", "<!-- a remark -->\n<worldbody>")) == found
    heavier = slide(XML.replace('mass="1"', 'mass="2"'))
    assert heavier["model"] != found["model"] and heavier["source"] == found["source"]


def test_arguments_and_wrappers_of_an_environment_count(line):
    found = line()
    assert set(found) == {"source", "arguments"} and line() == found
    scaled = line(kwargs={"scale": 2.0})
    assert scaled["arguments"] != found["arguments"] and scaled["source"] == found["source"]
    wrapped = line(additional_wrappers=(Doubled.wrapper_spec(),))
    assert wrapped["source"] != found["source"]


def test_a_wrapper_of_the_user_around_an_environment_of_a_package_counts(line):
    entry = "gymnasium.envs.classic_control:PendulumEnv"
    assert set(line(entry)) == {"arguments"}
    assert "source" in line(entry, additional_wrappers=(Doubled.wrapper_spec(),))


def doubled_line():
    """A factory: the environment itself does not name it."""
    return Doubled(Line())


@pytest.mark.parametrize("entry", [f"{__name__}:doubled_line", doubled_line, lambda: Line()])
def test_a_factory_counts_however_it_is_named(line, entry):
    assert line(entry)["source"] != line()["source"]


@pytest.mark.parametrize("name", ["point_goal", "gymnasium:Pendulum-v1@50"])
def test_families_of_packages_are_described_by_versions(name):
    assert fingerprint(name) == {}


def test_an_id_that_a_file_registers_is_not_shipped(line):
    line()
    names = ("gymnasium:Pendulum-v1", "gymnasium:LineOfTest-v0", "point_goal", "mine")
    assert [registry.is_packaged(name) for name in names] == [True, False, True, False]


HELPERS = "def bonus(x):\n    return 2 * x\n"
FILE = """
import numpy as np
from helpers_of_test import bonus

SCALE = 3.0
UNUSED = 1

def cost(x):
    return SCALE * x

class Base:
    def reward(self, x):
        return -cost(x) + bonus(x)

class Family(Base):
    def start(self):
        return np.zeros(1)

def get_config(epochs=3):
    return {"epochs": epochs}
"""


@pytest.fixture
def digest(tmp_path, monkeypatch):
    """A function (file, helpers) -> digest of the class `Family` in a file with that content."""
    monkeypatch.syspath_prepend(tmp_path)

    def of(text=FILE, helpers=HELPERS):
        (tmp_path / "family_of_test.py").write_text(text)
        (tmp_path / "helpers_of_test.py").write_text(helpers)
        for name in ("family_of_test", "helpers_of_test"):
            sys.modules.pop(name, None)
        importlib.invalidate_caches()
        return source_digest(importlib.import_module("family_of_test").Family)

    yield of
    for name in ("family_of_test", "helpers_of_test"):
        sys.modules.pop(name, None)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("np.zeros(1)", "np.ones(1)"),  # the class
        ("-cost(x)", "cost(x)"),  # a base
        ("return SCALE * x", "return SCALE + x"),  # a function that it calls
        ("SCALE = 3.0", "SCALE = 4.0"),  # a constant that the function names
        ("def get_config", "Family.start = lambda self: 5\n\ndef get_config"),
    ],
)
def test_what_the_class_does_changes_the_digest(digest, old, new):
    assert old in FILE and digest(FILE.replace(old, new)) != digest()


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("class Base:", "# A remark.\n\nclass Base:"),
        ("    def start(self):", '    """Has tasks."""\n\n    def start( self ):'),
        ("epochs=3", "epochs=30"),
        ("UNUSED = 1", "UNUSED = 2"),
    ],
)
def test_remarks_layout_and_settings_do_not(digest, old, new):
    assert old in FILE and digest(FILE.replace(old, new)) == digest()


def test_a_module_beside_it_counts(digest):
    assert digest(helpers=HELPERS.replace("2", "3")) != digest() == digest(FILE, "#\n" + HELPERS)


def test_only_files_of_the_user_are_own(digest):
    digest()
    assert is_own(sys.modules["family_of_test"].Family)
    kinds = (PointGoal, gymnasium.Env, np.ndarray, importlib.abc.Loader, object, "pkg:Class", None)
    assert not any(map(is_own, kinds))
