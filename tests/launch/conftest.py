"""Keeps pytest's own answers to signals: a launcher that is imported takes them over."""

import signal

_BEFORE = {name: signal.getsignal(name) for name in (signal.SIGINT, signal.SIGTERM)}

from launch import command_line  # noqa: E402, F401

for _name, _handler in _BEFORE.items():
    signal.signal(_name, _handler)
