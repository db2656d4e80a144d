"""What all commands share: flags, one-line errors, exit codes.

Import this before anything that imports TensorFlow.
"""

from __future__ import annotations

import math
import contextlib
import os
import re
import shlex
import shutil
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NoReturn

_REPORT_SECONDS = 10.0  # how long other ranks wait for the one that reports and ends the job
# Flags that name a file or folder; messages of the package begin with its path.
_PATH_FLAGS = ("run_dir", "output_dir", "test_dir", "save_policy", "loss")
# What messages of the package name -> what users of a command can do.
_ARGUMENTS = {
    "load the file that registers yours": "name the file that registers yours with --config=FILE",
    "first load the file that registers it, e.g. the config of its run": (
        "name the file that registers it with --config=FILE"
    ),
    "resume=True": "--resume",
    "overwrite=True": "--overwrite",
    "allow_changed_family=True": "--allow_changed_family",
    "a larger timeout": "a larger --rank_timeout",
}

from . import surroundings  # first: it prepares the process

from absl import app, flags, logging

from epg_tf.core import notices

if not surroundings.VERBOSE:
    notices.silence()  # before TensorFlow is imported, also where epg_tf/__init__.py is not

from epg_tf.core import communication, files, threads
from epg_tf.core.errors import CommunicationError, ConfigError, EpgError, RecordError

from . import arguments, flag_errors, flag_help


flags.DEFINE_integer(
    "threads",
    None,
    "Threads that compute, of each rank; by default as --config says, else one per CPU that this "
    "process may use. Only tune and the choice of settings depend on it.",
    lower_bound=1,
    upper_bound=1024,
)
_HELP = re.compile(r"--?help(short|full)?(=(true|t|1))?", re.IGNORECASE)


class UsageError(ValueError):
    """A flag is unusable; the message is one line with flag, value and what to do."""


class _Ended(SystemExit):
    """This program ends the process; any other SystemExit is of code of the user."""


def program(command: str) -> str:
    """Returns how a user starts a command, e.g. "epg-tf meta-test" for "meta_test".

    In a checkout it names the interpreter that runs, which need not be the shell's: make starts
    that of .venv.
    """
    if __package__ == "launch":  # in a checkout
        return f"{_interpreter()} -m launch.{command}"
    return f"epg-tf {command.replace('_', '-')}"


def _interpreter() -> str:
    """Returns the words by which a shell finds the running interpreter."""
    running = Path(sys.executable)
    found = shutil.which("python")
    if found is not None and Path(found).absolute() == running.absolute():
        return "python"
    here = Path.cwd()
    near = running.relative_to(here) if running.is_relative_to(here) else running
    return shlex.quote(str(near))


def page_line(folder: str | os.PathLike[str]) -> str:
    """Returns the line that says how to make a page of a run or a test."""
    path = Path(folder)
    named, output = shlex.quote(f"{path}"), shlex.quote(f"{path}.html")
    return f"a page to look at: {program('report')} --run_dir={named} --output={output}"


def parse_flags(module: str) -> None:
    """Reads the flags; answers --help, and ends with one line where a flag is unusable.

    A command calls it after it has defined its flags, and imports what takes seconds, such as
    TensorFlow, below the call.

    Args:
      module: `__name__` of the command; nothing happens where that is only imported.
    """
    if module != "__main__":
        return
    with _ending_with_the_reader():
        app.define_help_flags()
        if any(_HELP.fullmatch(word) for word in sys.argv[1:]):
            if "--helpfull" in sys.argv[1:]:
                app.usage(writeto_stdout=True)
            else:
                print(sys.modules["__main__"].__doc__, flag_help.text(), sep="")
            end(0)
        if "--words" in sys.argv[1:]:
            print(flag_help.words())
            end(0)
        rest = _parse(sys.argv)
        if len(rest) > 1:
            fail(f"{rest[1]!r} is not a flag; flags look like --name=value, see --help")
        if not surroundings.VERBOSE:
            logging.set_verbosity(logging.ERROR)


def required(flag: flags.FlagHolder[str | None], example: str) -> str:
    """Returns the value of a flag; where it has none, proposes one.

    Raises:
      UsageError: It is missing or empty.
    """
    if not flag.value:
        raise UsageError(f"--{flag.name} is missing; for example --{flag.name}={example}")
    return flag.value


def run(main: Callable[[list[str]], int | None]) -> None:
    """Runs `main`; exits with its code, or with 2 and one line if the user's input is at fault."""
    if not flags.FLAGS.is_parsed():
        parse_flags("__main__")

    def guarded(argv: list[str]) -> None:
        if not surroundings.VERBOSE:
            logging.set_verbosity(logging.ERROR)  # app.run has raised it
        try:
            if "threads" in flags.FLAGS and (count := flags.FLAGS["threads"].value):
                threads.use(count)
            end(main(argv))
        except _Ended:
            raise
        except UsageError as error:
            fail(str(error))
        except (KeyboardInterrupt, SystemExit, GeneratorExit) as error:
            fail(_what_ended_it(error), 1)
        except (ConfigError, RecordError, communication.HorovodUnusable) as error:
            _show_traceback()
            fail(with_flags(str(error)))
        except CommunicationError as error:
            fail(with_flags(str(error)), 1, error.reporting_rank)
        except EpgError as error:  # RunFailed, ProcessLost
            _show_traceback()
            fail(with_flags(str(error)), 1)
        except MemoryError as error:
            _fail_for_memory(error)
        except BrokenPipeError:
            raise
        except (PermissionError, IsADirectoryError, NotADirectoryError) as error:
            _show_traceback()
            fail(f"{files.one_line(error)}; name another path, or change its permissions")
        except OSError as error:  # e.g. a full disk; files that are there are whole
            _show_traceback()
            fail(f"{error}; remove the cause and run the same command {_again()}", 1)
        except Exception as error:
            # TensorFlow's own kind; its module is not imported here only to be compared.
            if type(error).__name__ != "ResourceExhaustedError":
                raise
            _fail_for_memory(error)

    with _ending_with_the_reader():
        app.run(guarded, argv=sys.argv[:1], flags_parser=lambda argv: argv)


@contextlib.contextmanager
def _ending_with_the_reader() -> Iterator[None]:
    """Ends the process in silence where the reader of its output has ended."""
    try:
        yield
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(128 + getattr(signal, "SIGPIPE", 13))  # Windows has no such signal


def _what_ended_it(error: BaseException) -> str:
    """Returns the line on code of the user that tried to end this program.

    Ctrl-C is none of that: it is a signal with a handler, see `stop_on_signals`.
    """
    where = traceback.extract_tb(error.__traceback__)[-1]
    return (
        f"{where.filename}:{where.lineno} raised {type(error).__name__}, which would end this "
        "command before its work is done; correct that code"
    )


def _again() -> str:
    """Returns how the command that runs has to be repeated, so that it keeps what it has done."""
    known = flags.FLAGS
    if "resume" not in known:
        return "again with --overwrite" if "overwrite" in known else "again"
    instead = "overwrite" in known and known["overwrite"].value
    return "with --resume instead of --overwrite" if instead else "with --resume"


def _fail_for_memory(error: Exception) -> NoReturn:
    """Fails with what could not be allocated; of TensorFlow's message that is the first line."""
    _show_traceback()
    reason = next(iter(str(error).strip().splitlines()), type(error).__name__)
    reason = re.sub(r"^\{\{.*?\}\} *", "", reason)
    fail(
        f"these settings need more memory than there is ({reason[:200]}); make the sizes in "
        "--config smaller"
    )


def _parse(argv: list[str]) -> list[str]:
    """Returns the words that are no flags, the program first."""
    try:
        others = flags.FLAGS([argv[0], *arguments.prepared(argv[1:], list(flags.FLAGS))])
    except ConfigError as error:
        if surroundings.VERBOSE:
            raise
        fail(f"--{error}" if str(error).startswith("config=") else _what_is_wrong(error))
    except (KeyboardInterrupt, SystemExit, GeneratorExit) as error:
        fail(_what_ended_it(error))
    except Exception as error:  # a config file is Python of the user: it may raise anything
        if surroundings.VERBOSE:
            raise
        fail(_what_is_wrong(error))
    for name, value in flags.FLAGS.flag_values_dict().items():
        if isinstance(value, float) and not math.isfinite(value):  # bounds let NaN pass
            fail(f"--{name}={value} must be a finite number")
    return others


def _what_is_wrong(error: Exception) -> str:
    return flag_errors.in_one_line(error, sys.argv[1:], program("settings"), list(flags.FLAGS))


def with_flags(message: str) -> str:
    """Returns a message of the package, which names paths and arguments, in terms of flags.

    A path at its start gets the name of the flag with that value, as does an argument `NAME=...`;
    `resume=True` and the like become flags wherever they are.
    """
    for argument, flag in _ARGUMENTS.items():
        message = message.replace(argument, flag)
    named = re.match(r"(\w+)=", message)
    if named and named[1] in flags.FLAGS:
        return f"--{message}"
    for name in _PATH_FLAGS:
        value = flags.FLAGS[name].value if name in flags.FLAGS else None
        for path in value if isinstance(value, list) else [value]:
            if path and message.startswith(f"{Path(path)}: "):
                return f"--{name}={message}"
    return message


def _show_traceback() -> None:
    """Shows where an error came from, for `-v=1`."""
    if surroundings.VERBOSE:
        traceback.print_exc()


def fail(message: str, code: int = 2, reporting_rank: int = 0) -> NoReturn:
    """Prints one line to standard error and exits.

    Of several ranks only one prints it, as all fail in the same way; the others wait until the
    launcher ends them, and print theirs if it does not.

    Args:
      reporting_rank: The rank that prints at once.
    """
    rank, where = communication.launched_rank(), ""
    if rank is not None and rank != reporting_rank:
        for name in (signal.SIGINT, signal.SIGTERM):
            signal.signal(name, surroundings.end_at_once)
        time.sleep(_REPORT_SECONDS)
        where = f" on rank {rank}"
    print(f"error{where}: {message}", file=sys.stderr)
    end(code)


def end(code: int | None = 0) -> NoReturn:
    """Exits; one of several ranks at once after an error, as Horovod would wait for lost ranks."""
    if code and communication.launched_rank() is not None:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    raise _Ended(code)


def stop_on_signals(
    notice: str, communicator: communication.Communicator, stop: Callable[[], None]
) -> list[int]:
    """Turns the first Ctrl-C or SIGTERM into a clean stop; a second one ends the process at once.

    Args:
      notice: What rank 0 then prints.

    Returns:
      A list that will contain the signal's number.
    """
    received: list[int] = []

    def handle(number: int, frame: object) -> None:
        del frame
        received.append(number)
        if communicator.rank == 0:
            print(notice, file=sys.stderr, flush=True)
        stop()
        for name in (signal.SIGINT, signal.SIGTERM):
            signal.signal(name, signal.SIG_DFL)

    for name in (signal.SIGINT, signal.SIGTERM):
        signal.signal(name, handle)
    return received


def positive_numbers(flag: str, words: list[str]) -> list[float]:
    """Reads the words of a list flag as numbers.

    Raises:
      UsageError: One of them is no number, or is not above 0 and at most 1000.
    """
    try:
        numbers = [float(word) for word in words]
    except ValueError:
        numbers = []
    if not numbers or not all(0 < number <= 1000 for number in numbers):
        raise UsageError(
            f"--{flag}={','.join(words)} must be numbers above 0 and at most 1000, "
            "separated by commas"
        )
    return numbers


def with_flag_files(words: Sequence[str]) -> list[str]:
    """Returns the words of a command line with the content of each --flagfile in its place; exits
    with one line where a file cannot be read.
    """
    try:
        for path in _flag_files(words):
            files.read_text(path, "the file of flags")
        return flags.FLAGS.read_flags_from_files(list(words))
    except (flags.Error, OSError, ValueError) as error:
        reason = " ".join(str(error).removeprefix("ERROR:: ").split())
        fail(f"--flagfile: {reason}; name a text file with one flag a line")


def _flag_files(words: Sequence[str]) -> list[str]:
    """Returns the files that --flagfile names."""
    found = [re.fullmatch(r"--?flagfile=(.*)", word, re.DOTALL) for word in words]
    return [os.path.expanduser(match[1]) for match in found if match]


sys.argv[1:] = with_flag_files(sys.argv[1:])  # names of configs and settings are looked for there
