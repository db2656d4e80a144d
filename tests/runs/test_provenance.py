"""Tests epg_tf.runs.provenance: what results are made with where a process goes on with others'."""

from __future__ import annotations

from epg_tf.core.files import plain
from epg_tf.runs.provenance import continued, provenance


def test_the_same_code_continues_without_a_word():
    now = provenance()
    assert continued({}) == {"made_with": now} == continued({"made_with": plain(now)})


def test_other_code_is_stated_beside_the_first_and_stays():
    now, first = provenance(), {**plain(provenance()), "commit": "0" * 40}
    assert continued({"made_with": first}) == {"made_with": first, "continued_with": now}
    once = {"made_with": plain(now), "continued_with": first}
    assert continued(once) == {"made_with": plain(now), "continued_with": now}
