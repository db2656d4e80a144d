"""Notices that a user's family of tasks is another one than when its run was last started."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from epg_tf.core import files
from epg_tf.epg.settings import Experiment
from epg_tf.metagenrl.settings import MetaGenRLExperiment
from epg_tf.tasks.fingerprints import fingerprint

FAMILIES = "families"
"""Of a run's config.json: name -> what the family is made of, of the families of the user."""

SETTINGS = "settings.py"
_SETTINGS_FILE = '''"""The settings that a search chose for a family of the file below."""

from pathlib import Path

from epg_tf.runs.config_files import load_experiment, run_settings

FILE = {file!r}


def get_config():
    """Returns the settings of the best run; FILE registers what is the user's."""
    load_experiment(FILE)
    return run_settings(Path(__file__).with_name({run!r})).to_mapping()
'''
"""Of a config beside runs whose settings were chosen."""

_WORDS = {"source": "source code", "model": "MuJoCo model", "arguments": "arguments"}


def fingerprints(experiment: Any) -> dict[str, dict[str, str]]:
    """Returns what the families of the user are made of that a run meets, by name.

    Raises:
      ConfigError: A family has a mistake.
    """
    if isinstance(experiment, MetaGenRLExperiment):
        places = (*experiment.environments, *experiment.validation.environments)
        found = {place.partition("@")[0]: fingerprint(place) for place in places}
    else:
        tasks = experiment.tasks if isinstance(experiment, Experiment) else (experiment.task,)
        found = {task.family: fingerprint(task) for task in tasks}
    return {name: parts for name, parts in found.items() if parts}


def changes(before: Any, now: Mapping[str, Mapping[str, str]]) -> str:
    """Returns what has changed, e.g. "the source code of my_family"; empty where nothing has.

    Families and parts that only one side knows are not compared, nor are models that different
    versions of MuJoCo compiled.

    Args:
      before: What an earlier config.json has as `FAMILIES`.
      now: The same of this process.
    """
    found = []
    for name, parts in now.items() if isinstance(before, Mapping) else ():
        earlier = before.get(name)
        if not isinstance(earlier, Mapping):
            continue
        other_mujoco = earlier.get("mujoco") != parts.get("mujoco")
        for part, words in _WORDS.items():
            both = part in parts and part in earlier and not (part == "model" and other_mujoco)
            if both and earlier[part] != parts[part]:
                found.append(f"the {words} of {name}")
    return " and ".join(found)


def write_settings(file: str, run: Path) -> Path:
    """Writes a config with the settings of a run beside it, where a file of the user registers the
    family or a channel; returns its path.

    Args:
      file: Of the user, FILE or FILE:VARIANT.
    """
    path = run.with_name(SETTINGS)
    text = _SETTINGS_FILE.format(file=file, run=run.name).encode()
    files.write_atomically(path, lambda stream: stream.write(text))
    return path
