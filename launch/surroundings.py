"""Prepares the process of a command before any framework is imported: signals, output, variables.

Importing it is enough. It ends the process with one line where a command could not work.
"""

from __future__ import annotations

import os
import re
import signal
import sys
from typing import NoReturn

VERBOSE = any(re.fullmatch(r"--?(v|verbosity)(=[1-9]\d*)?", word) for word in sys.argv[1:])
"""Whether the user wants notices of the frameworks, and tracebacks."""


def end_at_once(number: int, frame: object) -> None:
    """Ends the process with one line; all files are written atomically."""
    del frame
    if os.environ.get("HOROVOD_RANK", "0") == "0":  # the frameworks may not have been imported yet
        print(f"interrupted by {signal.Signals(number).name}", file=sys.stderr, flush=True)
    os._exit(128 + number)


def _prepare_streams() -> None:
    """Opens closed streams, and lets all of them print letters that their encoding does not have.

    Without it the next file that is opened would be standard error.
    """
    descriptor = os.open(os.devnull, os.O_RDWR)
    while descriptor <= 2:
        descriptor = os.open(os.devnull, os.O_RDWR)
    os.close(descriptor)
    for name, number in (("stdout", 1), ("stderr", 2)):
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(number, "w"))
        if hasattr(stream := getattr(sys, name), "reconfigure"):
            stream.reconfigure(errors="replace")


def _refuse(message: str) -> NoReturn:
    print(f"error: {message}", file=sys.stderr)
    sys.exit(2)


def _check_interpreter() -> None:
    """Refuses what no command can work with."""
    try:
        os.getcwd()
    except OSError:
        _refuse("the working folder was removed; change to one that exists")
    if sys.flags.optimize > 1:
        _refuse("PYTHONOPTIMIZE=2 (-OO) removes texts that this program reads; unset it")


def _silence_frameworks() -> None:
    """Silences notices that do not concern users of this package; `-v=1` keeps them."""
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # a shard is one thread
    os.environ["MPLBACKEND"] = "agg"  # pictures are files; a name that is none would be an error
    if VERBOSE:
        os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "0")
        return
    import logging
    import warnings

    warnings.filterwarnings("ignore")
    for name in ("tensorflow", "OpenGL"):
        logging.getLogger(name).setLevel(logging.ERROR)


def _import_mujoco() -> None:
    """Imports MuJoCo, which refuses some values of MUJOCO_GL at once."""
    try:
        import mujoco  # noqa: F401
    except RuntimeError as error:
        _refuse(f"{error}; unset it, or set it to egl or osmesa")
    except (AttributeError, ImportError, OSError) as error:  # it names a missing library
        if "MUJOCO_GL" not in os.environ or VERBOSE:
            raise
        _refuse(
            f"MUJOCO_GL={os.environ['MUJOCO_GL']}: its library cannot be loaded ({error}); "
            "install it (for osmesa libosmesa6), or unset MUJOCO_GL"
        )


_prepare_streams()
for _number in (signal.SIGINT, signal.SIGTERM):
    signal.signal(_number, end_at_once)
_check_interpreter()
_silence_frameworks()
_import_mujoco()
