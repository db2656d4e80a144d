"""Defines the errors of the package; all have one base, `EpgError`."""

from __future__ import annotations


class EpgError(Exception):
    """Is the base of the errors that this package raises for its users; messages are one line."""


class ConfigError(EpgError, ValueError):
    """A setting is unusable; the message names the field, the value and what to do."""


class RecordError(EpgError, ValueError):
    """A file or folder is unusable; the message names it, first of all, and says what to do."""


class VersionError(RecordError):
    """Another version of this package wrote a file, and this version cannot read it."""


class CommunicationError(EpgError, RuntimeError):
    """Ranks cannot work together.

    Attributes:
      reporting_rank: The rank that reports it to the user.
    """

    reporting_rank = 0


class RunFailed(EpgError, RuntimeError):
    """A run ended because nothing could be learned any more; the message says why."""


class RenderError(EpgError, RuntimeError):
    """Nothing can be drawn on this machine; the message says why and what to do."""


class Interrupted(EpgError):
    """Lives ended early because `stop` was called.

    Args:
      message: What was interrupted, and what to do.
    """

    def __init__(
        self, message: str = "stop() ended the work early; resume the run, or start it again"
    ):
        super().__init__(message)


class Stopped(EpgError):
    """Waiting for other ranks ended because `stop` was called.

    Args:
      message: What was stopped, and what to do.
    """

    def __init__(
        self, message: str = "stop() ended the wait for other ranks; resume the run on all ranks"
    ):
        super().__init__(message)
