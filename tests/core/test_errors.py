"""Tests epg_tf.core.errors."""

from __future__ import annotations

import pytest

from epg_tf.core.errors import EpgError, Interrupted, Stopped


@pytest.mark.parametrize("kind", [Interrupted, Stopped])
def test_an_error_raised_without_a_message_has_one_line(kind):
    with pytest.raises(EpgError, match=r"^stop\(\) ended .*; resume the run") as raised:
        raise kind
    assert "\n" not in str(raised.value)
    assert str(kind("of its own")) == "of its own"
