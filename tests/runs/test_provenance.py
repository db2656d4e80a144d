"""Tests epg_tf.runs.provenance: what results are made with where a process adds to others'."""

from __future__ import annotations

from epg_tf.core.files import plain
from epg_tf.runs.provenance import continued, provenance


def test_the_same_code_continues_without_a_word():
    now = provenance()
    assert continued(None) == {"made_with": now} == continued({"made_with": plain(now)})


def test_every_other_code_is_stated_once_in_order():
    now, first, second = plain(provenance()), {"commit": "a"}, {"commit": "b"}
    assert continued({"made_with": first}) == {"made_with": first, "continued_with": [now]}
    twice = {"made_with": now, "continued_with": [second]}
    assert continued(twice) == twice
    again = {"made_with": first, "continued_with": [now]}
    assert continued(again) == again
    third = {"made_with": first, "continued_with": [second]}
    assert continued(third) == {"made_with": first, "continued_with": [second, now]}
    assert third["continued_with"] == [second]


def test_what_is_not_known_is_not_claimed():
    assert continued({}) == {"made_with": None, "continued_with": [provenance()]}
