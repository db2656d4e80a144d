"""Notices that a user's family of tasks is another one than when its run was last started."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from epg_tf.epg.settings import Experiment
from epg_tf.metagenrl.settings import MetaGenRLExperiment
from epg_tf.tasks.fingerprints import fingerprint

FAMILIES = "families"
"""Of a run's config.json: name -> what the family is made of, of the families of the user."""

_WORDS = {"source": "source code", "model": "MuJoCo model", "arguments": "arguments"}


def fingerprints(experiment: Any) -> dict[str, dict[str, str]]:
    """Returns what the families of the user are made of that a run meets, by name.

    Args:
      experiment: Settings of the run, of any system.

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
