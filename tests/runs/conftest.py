"""Spares each test its pictures, half of a short run; fixtures of modules draw theirs."""

import pytest

from epg_tf.runs.session import Session


@pytest.fixture(autouse=True)
def _no_pictures(monkeypatch):
    monkeypatch.setattr(Session, "_draw", lambda self, folder: None)
