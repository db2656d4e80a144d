"""Finds and reads config files: the pretrained ones by name, users' own by path.

A config file is Python of the user: `get_config(variant)` returns an experiment, or its settings as
nested mappings. It may register a family of tasks, and import modules that lie beside it. Variants
are the keys of its `VARIANTS`, if it has them.
"""

from __future__ import annotations

import ast
import dataclasses
import difflib
import importlib.util
import inspect
import re
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from epg_tf.baselines.maml_settings import MAMLExperiment
from epg_tf.baselines.rl2_settings import RL2Experiment
from epg_tf.core import files
from epg_tf.core.errors import ConfigError, EpgError
from epg_tf.core.old_settings import renamed
from epg_tf.epg.settings import Experiment
from epg_tf.metagenrl.settings import MetaGenRLExperiment

AnyExperiment = Experiment | MetaGenRLExperiment | MAMLExperiment | RL2Experiment
SYSTEMS: dict[str, type[AnyExperiment]] = {
    "epg": Experiment,
    "metagenrl": MetaGenRLExperiment,
    "maml": MAMLExperiment,
    "rl2": RL2Experiment,
}
"""Short name of each system -> its settings."""
RUN_SETTINGS = "config.json"  # of the folder of a run
FLAG_CONFIG = Path(__file__).with_name("flag_config.py")
"""The file that launch flags load, with the name of a config as its variant."""
_PACKAGE = Path(__file__).parents[1]
# An installed package has them inside, a checkout beside it.
CONFIGS = next(
    (folder for folder in (_PACKAGE / "configs", _PACKAGE.parent / "configs") if folder.is_dir()),
    _PACKAGE / "configs",
)


@dataclasses.dataclass(frozen=True)
class ConfigFile:
    """A config file and the variant that is meant, or the folder of a run.

    Attributes:
      path: Of the file or folder.
      variant: Argument of its `get_config`; None for the default.
    """

    path: Path
    variant: str | None

    def __str__(self) -> str:
        """Returns PATH or PATH:VARIANT."""
        return str(self.path) if self.variant is None else f"{self.path}:{self.variant}"


def package_configs() -> list[str]:
    """Returns the names of the configs that come with the package."""
    return sorted(path.stem for path in CONFIGS.glob("*.py") if path.stem != "__init__")


def find_config(name: str) -> ConfigFile:
    """Returns the file, or the folder of a run, that a name means.

    Args:
      name: NAME or NAME:VARIANT of a config of the package; the path of a file that ends in .py,
        with or without :VARIANT; or the folder of a run, for its settings. A leading ~ is the home
        folder.

    Raises:
      ConfigError: There is no such config.
    """
    file, variant = _split(name)
    if file in package_configs():
        return ConfigFile(CONFIGS / f"{file}.py", variant)
    folder = Path(name).expanduser()
    if name and (folder / RUN_SETTINGS).is_file():
        return ConfigFile(folder, None)
    if not file.endswith(".py"):
        near = difflib.get_close_matches(file, package_configs(), 1)
        guess = f"did you mean {near[0]!r}? " if near else ""
        raise ConfigError(
            f"config={name!r} is not the name of a config of the package; {guess}use one of "
            f"{', '.join(package_configs())}, the path of a file that ends in .py, or the folder "
            "of a run"
        )
    path = Path(file).expanduser()
    if not path.is_file():
        pretrained = f"; the config is {path.stem!r}" if path.stem in package_configs() else ""
        raise ConfigError(f"config={name!r}: there is no file {path}{pretrained}")
    return ConfigFile(path, variant)


def _split(name: str) -> tuple[str, str | None]:
    """Returns the file, or the name of a config of the package, and the variant; paths may have
    colons."""
    path = re.fullmatch(r"(.*?\.py)(?::(.*))?", name, re.DOTALL)
    if path:
        return path[1], path[2]
    file, colon, variant = name.partition(":")
    return file, variant if colon else None


def absolute(config: ConfigFile) -> ConfigFile:
    """Returns a config that is found from any working folder."""
    return ConfigFile(config.path.resolve(), config.variant)


def load_experiment(name: str) -> AnyExperiment:
    """Returns the experiment of a config; runs its code.

    Args:
      name: As for `find_config`, e.g. "random_hopper:paper" or "my_family.py".

    Raises:
      ConfigError: There is no such config or variant, or its settings are unusable.
      RecordError: It is the folder of a run whose settings cannot be read.
    """
    return read_experiment(load_settings(name))


def load_settings(name: str) -> Mapping[str, Any]:
    """Returns what a config says as nested mappings, which only a run has checked; runs its code.

    Arguments and errors are as of `load_experiment`.
    """
    config = find_config(name)
    if config.path.is_dir():
        return run_settings(config.path).to_mapping()
    arguments = () if config.variant is None else (config.variant,)
    try:
        get_config = _module(config).get_config
        if arguments and not inspect.signature(get_config).parameters:
            raise ConfigError("this config has no variants; leave out the colon and what follows")
        return _plain(get_config(*arguments))
    except EpgError as error:
        raise ConfigError(f"config={name!r}: {' '.join(str(error).split())}") from error
    except Exception as error:  # the file is Python of the user: it may raise anything
        reason = " ".join(f"{type(error).__name__}: {error}".split())
        raise ConfigError(f"config={name!r} gives no settings ({reason})") from error


def run_settings(folder: files.PathLike) -> AnyExperiment:
    """Returns the settings of the run in `folder`; runs no code.

    Raises:
      ConfigError: Its config.json does not hold usable settings.
      RecordError: It cannot be read.
    """
    saved = files.read_json(Path(folder) / RUN_SETTINGS, "the run's config").get("config")
    where = f"config={str(folder)!r}: {RUN_SETTINGS} there"
    if not isinstance(saved, Mapping):
        raise ConfigError(f"{where} holds no settings; restore it")
    try:
        settings = renamed(saved)
    except ConfigError as error:
        raise ConfigError(f"{where} has {error}") from error
    try:
        return read_experiment(settings)
    except ConfigError as error:
        raise ConfigError(
            f"{where} is damaged, or of another version of epg_tf ({error}); restore it"
        ) from error


def read_experiment(mapping: Mapping[str, Any]) -> AnyExperiment:
    """Returns the experiment, of whatever system, that nested mappings describe.

    Raises:
      ConfigError: Settings are unusable.
    """
    return system_of(mapping).from_mapping(mapping)


def system_of(mapping: Mapping[str, Any]) -> type[AnyExperiment]:
    """Returns the kind of experiment that has most of the names in a mapping; EPG's of several."""

    def known(kind: type[AnyExperiment]) -> int:
        return sum(field.name in mapping for field in dataclasses.fields(kind))

    return max(SYSTEMS.values(), key=known)


def describe_config(name: str) -> tuple[str, tuple[str, ...]]:
    """Returns the first sentence of a config of the package's docstring, and its variants."""
    config = find_config(name)
    text = ast.get_docstring(ast.parse(config.path.read_text(encoding="utf-8"))) or ""
    sentence = " ".join(text.split("\n\n")[0].split())
    return sentence, tuple(getattr(_module(config), "VARIANTS", ()))


def _module(config: ConfigFile) -> ModuleType:
    """Runs a config file as a module of a name that no import uses."""
    folder = str(config.path.resolve().parent)  # the file may import modules that lie there
    if folder != str(CONFIGS.resolve()) and folder not in sys.path:
        sys.path.append(folder)
    spec = importlib.util.spec_from_file_location(f"config of {config.path}", config.path)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


def _plain(settings: Any) -> Mapping[str, Any]:
    """Returns settings as nested mappings; ConfigDict has `to_dict`, experiments `to_mapping`."""
    for convert in ("to_dict", "to_mapping"):
        if hasattr(settings, convert):
            settings = getattr(settings, convert)()
    if not isinstance(settings, Mapping):
        raise TypeError("get_config() must return settings")
    return settings


# For config files


def config_of(variants: Mapping[str, AnyExperiment]) -> Callable[..., AnyExperiment]:
    """Returns the `get_config` of a config file: variant -> its experiment.

    The first variant is the default. For others than these the function raises ConfigError.
    """

    def get_config(variant: str = next(iter(variants))) -> AnyExperiment:
        if variant not in variants:
            near = difflib.get_close_matches(variant, variants, 1)
            guess = f"did you mean :{near[0]}? " if near else ""
            raise ConfigError(
                f":{variant} is no variant of this config; {guess}use one of "
                f"{', '.join(':' + known for known in variants)}"
            )
        return variants[variant]

    return get_config


def joined_environments(known: Mapping[str, str], joined: str, config: str) -> tuple[str, ...]:
    """Returns the environments of a variant of MetaGenRL's configs, in its order.

    Args:
      known: Short name -> environment.
      joined: The variant: short names joined by underscores.

    Raises:
      ConfigError: A short name is unknown.
    """
    names = joined.split("_")
    for name in names:
        if name not in known:
            raise ConfigError(
                f"{config}:{joined} names {name!r}; join some of {', '.join(sorted(known))} by "
                "underscores"
            )
    return tuple(known[name] for name in names)
