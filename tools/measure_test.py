"""Measures something in a test of epg-tf meta-test: what the scripts that do so have in common."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from epg_tf.core import files
from epg_tf.core.errors import ConfigError, RecordError
from epg_tf.core.experiment import TaskConfig
from epg_tf.evaluation.results import Results, read_results


def measure_test(
    words: Sequence[str],
    purpose: str,
    prepare: Callable[[Results, TaskConfig, Mapping[str, Any]], Any],
    measure: Callable[[Results, Any], dict[str, Any]],
    describe: Callable[[Any], str],
) -> int:
    """Writes and prints what `measure` finds in the test that a command line names.

    Args:
      words: Of the command line, `--output=FILE.json TEST`; TEST is the folder of a test of a loss
        of EPG. Wrong ones end the process with exit code 2, as --help does with 0.
      purpose: What the script does, for --help.
      prepare: Of results, task and `about` of the summary: what `measure` needs besides the
        results; a ConfigError if there is nothing to measure in such a test.
      measure: Of results and that: what is found, by method.
      describe: Of what is found of one method: a line about it.

    Returns:
      The exit code; 2, after a line on what is wrong, for folders without such a test.

    Raises:
      OSError: The file cannot be written.
    """
    parser = argparse.ArgumentParser(description=purpose, allow_abbrev=False)
    parser.add_argument("--output", required=True, help="file for the numbers, .json")
    parser.add_argument("test", help="folder of a test of epg-tf meta-test")
    given = parser.parse_args(words)
    output = Path(given.output)
    if output.suffix != ".json" or not output.parent.is_dir():
        parser.error(f"--output={output} must end in .json and lie in a folder that exists")
    if output.exists():
        parser.error(f"--output={output}: there is such a file; name another")
    try:
        results = read_results(given.test)
        about = files.read_json(Path(given.test) / "summary.json", "the summary of a test")["about"]
        if not len(results):
            raise RecordError(f"{given.test}: its curves.csv has no rows; name another test")
        prepared = prepare(results, TaskConfig(**about["task"]), about)
        origin = {**about["made_with"], "task": about["task"]}
    except (ConfigError, RecordError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except (KeyError, TypeError) as error:
        print(f"error: {given.test} holds no test of a loss of EPG ({error!r})", file=sys.stderr)
        return 2
    found = measure(results, prepared)
    files.write_json(output, {"about": origin, **found})
    for name, one in found.items():
        print(f"{name}: {describe(one)}")
    return 0
