"""Says what a user's own family of tasks is made of, so that a changed one is noticed."""

from __future__ import annotations

import contextlib
import hashlib
import json

import gymnasium
import mujoco
import numpy as np
from gymnasium.envs.registration import load_env_creator

from epg_tf.tasks.bodies import BodyFamily
from epg_tf.tasks.gymnasium_family import GymnasiumFamily, registered
from epg_tf.tasks.registry import is_importable, is_packaged, make_family, named_environment
from epg_tf.tasks.settings import TaskConfig
from epg_tf.tasks.source_digest import is_own, source_digest


def fingerprint(task: TaskConfig | str) -> dict[str, str]:
    """Returns what a family of the user is made of.

    Args:
      task: Names the family, with its settings or as FAMILY@EPISODE_LIMIT.

    Returns:
      SHA-256 of `source`, of the compiled MuJoCo `model` and of the environment's `arguments`, as
      far as there are any, and the version of `mujoco`; empty for families of packages, which
      versions describe.

    Raises:
      ConfigError: There is no such family, or it has a mistake.
    """
    name = task.partition("@")[0] if isinstance(task, str) else task.family
    if is_packaged(name) and is_importable(name):
        return {}
    family = named_environment(task) if isinstance(task, str) else make_family(task)
    kinds, found = [*type(family).__mro__], {}
    if isinstance(family, GymnasiumFamily):
        made, parts = zip(*(_of_environment(family) for _ in range(2)), strict=True)
        kinds += made[0]
        found = {name: value for name, value in parts[0].items() if parts[1].get(name) == value}
    if isinstance(family, BodyFamily):
        found = _of_model(family.model)
    own = [kind for kind in kinds if is_own(kind)]
    return {"source": source_digest(*own), **found} if own else found


def _of_environment(family: GymnasiumFamily) -> tuple[list[object], dict[str, str]]:
    """Returns what makes an environment, with all wrappers, and digests of its other parts.

    A model that is drawn at random has another digest each time.
    """
    spec = registered(family.env_id, family.name)
    entry = spec.entry_point
    kinds: list[object] = [load_env_creator(entry) if isinstance(entry, str) else entry]
    with contextlib.closing(family.make()) as environment:
        layer = environment
        while isinstance(layer, gymnasium.Wrapper):
            kinds += type(layer).__mro__
            layer = layer.env
        kinds += type(layer).__mro__
        model = getattr(layer, "model", None)
        parts = _of_model(model) if isinstance(model, mujoco.MjModel) else {}
    arguments = [spec.kwargs, [wrapper.kwargs for wrapper in spec.additional_wrappers]]
    text = json.dumps(arguments, sort_keys=True, default=lambda value: type(value).__name__)
    return kinds, {"arguments": hashlib.sha256(text.encode()).hexdigest(), **parts}


def _of_model(model: mujoco.MjModel) -> dict[str, str]:
    """Returns the digest of a compiled model, which has all files in it, and MuJoCo's version."""
    content = np.empty(mujoco.mj_sizeModel(model), np.uint8)
    mujoco.mj_saveModel(model, None, content)
    return {"model": hashlib.sha256(content.tobytes()).hexdigest(), "mujoco": mujoco.__version__}
