"""Defines the errors of the package; all have one base, `EpgError`."""

from __future__ import annotations


class EpgError(Exception):
    """Is the base of all errors that this package raises for its users; the message is one line."""


class ConfigError(EpgError, ValueError):
    """A setting is unusable; the message names the field, the value and what to do."""


class RecordError(EpgError, ValueError):
    """A file or folder is unusable; the message names it and says what to do."""


class CommunicationError(EpgError, RuntimeError):
    """Ranks cannot work together.

    Attributes:
      reporting_rank: The rank that should report it.
    """

    reporting_rank = 0


class RenderError(EpgError, RuntimeError):
    """Nothing can be drawn on this machine; the message says why and what to do."""


class Interrupted(EpgError):
    """Lives were given up because the run was asked to stop."""


class Stopped(EpgError):
    """Waiting for other ranks was given up because the run was asked to stop."""
