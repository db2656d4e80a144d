"""Tests epg_tf.core.settings: what a reader of settings accepts and refuses, and that every setting
of both systems is described.
"""

from __future__ import annotations

import dataclasses
import types
from typing import Literal

import numpy as np
import pytest

from epg_tf.core.errors import ConfigError
from epg_tf.core.settings import Count, Description, Number, Positive, Settings, Share, setting
from epg_tf.epg.settings import Experiment
from epg_tf.metagenrl.settings import MetaGenRLExperiment

SYSTEMS = [Experiment, MetaGenRLExperiment]


@dataclasses.dataclass(frozen=True)
class _Group(Settings):
    count: Count = setting(3, "things")
    size: Positive = setting(0.5, "m")
    share: Share = setting(1.0, "of all")
    number: Number = setting(-1.0, "any")
    pair: tuple[Count, Count] = setting((1, 2), "two")
    several: tuple[Count, ...] = setting((), "any number of them")
    word: Literal["yes", "no"] = setting("yes", "a choice")


@dataclasses.dataclass(frozen=True)
class _Settings(Settings):
    name: str = setting("x", "free")
    group: _Group = _Group()


def test_reads_nested_mappings():
    mapping = types.MappingProxyType({"group": types.MappingProxyType({"count": 4})})
    assert _Settings.from_mapping(mapping) == _Settings(group=_Group(count=4))
    assert _Settings.from_mapping({}) == _Settings()


def test_converts_what_means_the_same():
    values = {"size": 2, "share": np.float64(0.5), "pair": [3, 4], "several": [5]}
    found = _Settings.from_mapping({"group": values}).group
    assert found == _Group(size=2.0, share=0.5, pair=(3, 4), several=(5,))
    assert type(found.size) is float and type(found.share) is float


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"count": 0}, "config.group.count=0 must be at least 1"),
        ({"count": 10**8}, "config.group.count=100000000 is too large; set it to at most 1e+07"),
        ({"count": 1.0}, "config.group.count=1.0 must be a whole number without a point"),
        ({"size": 0}, "config.group.size=0 must be above 0"),
        ({"size": float("nan")}, "config.group.size=nan must be a finite number"),
        ({"share": 1.5}, "config.group.share=1.5 must be at most 1"),
        ({"number": -1e8}, "config.group.number=-100000000.0 must be at least -1e+07"),
        ({"pair": (1, 0)}, "config.group.pair[1]=0 must be at least 1"),
        (
            {"pair": (1,)},
            "config.group.pair=(1,) must be 2 values in brackets, each a whole",
        ),
        ({"several": 1}, "config.group.several=1 must be several values in brackets, each a whole"),
        ({"several": ("a",)}, "config.group.several[0]='a' must be a whole number"),
        ({"word": "maybe"}, "config.group.word='maybe' is unknown; choose one of ['no', 'yes']"),
        ({"wrd": "yes"}, "config.group.wrd is not a setting; config.group has ['count',"),
        (None, "config.group=None is not a group of settings; set its fields, e.g. config.group."),
    ],
)
def test_names_field_value_and_remedy(values, message):
    with pytest.raises(ConfigError) as caught:
        _Settings.from_mapping({"group": values})
    assert str(caught.value).startswith(message) and "\n" not in str(caught.value)


def test_a_long_value_is_cut():
    with pytest.raises(ConfigError) as caught:
        _Settings.from_mapping({"group": {"count": "many " * 100}})
    assert len(str(caught.value)) < 130


def test_describes_a_field():
    rows = {row.name: row for row in _Settings.describe()}
    assert list(rows)[:2] == ["config.name", "config.group.count"]
    assert rows["config.group.share"] == Description(
        "config.group.share", "float", 1.0, "at least 0, at most 1", "of all"
    )
    assert rows["config.group.pair"].type == "tuple of 2 int values"
    assert rows["config.group.several"].bounds == "at least 1"
    assert rows["config.group.word"].bounds == "'no' or 'yes'"
    assert rows["config.group.word"].type == "str"
    (factors,) = (row for row in Experiment.describe() if "factors" in row.name)
    assert (factors.type, factors.bounds) == ("int", "1 or 2 or 3")


@pytest.mark.parametrize("system", SYSTEMS)
def test_every_setting_has_a_meaning_and_every_number_a_lower_bound(system):
    rows = system.describe()
    assert len(rows) > 40
    assert [row.name for row in rows if not row.meaning] == []
    numbers = [
        row
        for row in rows
        if ("int" in row.type or "float" in row.type) and " or " not in row.bounds
    ]
    unbounded = [row.name for row in numbers if not row.bounds.startswith(("above 0", "at least "))]
    assert set(unbounded) <= {
        "config.loss.log_std_limits",
        "config.policy.log_std",
        "config.ppo.log_std",
        "config.reinforce.log_std",
        "config.sac.target_entropy",
    }


@pytest.mark.parametrize("system", SYSTEMS)
def test_defaults_are_within_their_bounds(system):
    assert system.from_mapping(dataclasses.asdict(system())) == system()


@pytest.mark.parametrize("system", SYSTEMS)
def test_descriptions_agree_with_the_defaults(system):
    for row in system.describe():
        value = system()
        for name in row.name.split(".")[1:]:
            value = getattr(value, name)
        assert value == row.default
