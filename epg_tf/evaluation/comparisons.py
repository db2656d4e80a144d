"""Says which methods a test trains, from the words with which a user asks for them."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping, Sequence

from epg_tf.baselines.off_policy import has_bounds
from epg_tf.core.errors import ConfigError
from epg_tf.epg.settings import Experiment
from epg_tf.evaluation import loss_methods, objective_methods, trained_methods
from epg_tf.tasks.registry import make_family

ALONE = "alone"
"""Word for a test without the methods of every test, e.g. where an earlier one has them."""


@dataclasses.dataclass(frozen=True)
class Menu:
    """What one kind of test can compare with.

    Attributes:
      always: Methods that every test trains, unless it is `ALONE`; what is tested comes first.
      groups: Word -> the methods that it stands for.
      methods: All methods without a folder, in the order of tables.
      trained: Methods that were meta-trained before, each from a folder that the user names.
    """

    always: tuple[str, ...]
    groups: Mapping[str, tuple[str, ...]]
    methods: tuple[str, ...]
    trained: tuple[str, ...] = ()

    @property
    def rivals(self) -> tuple[str, ...]:
        """The methods that are no part of every test; they may live longer than the others."""
        return tuple(name for name in self.methods if name not in self.always)

    def chosen(self, words: Sequence[str]) -> tuple[str, ...]:
        """Returns the methods of a test, those of every test included, in the order of tables;
        those that were meta-trained before are in `folders`.

        Args:
          words: Each the key of a group, else NAME of a method, or NAME:FOLDER of one that was
            meta-trained before; `ALONE` among them leaves out what no word names.

        Raises:
          ConfigError: A word means nothing, names a folder that its method has no use for, or names
            none that its method needs.
        """
        wanted = set(self.always[:1] if ALONE in words else self.always)
        self.folders(words)
        for word in words:
            if word == ALONE:
                continue
            name, colon, _ = word.partition(":")
            if name in self.trained:
                continue
            if name not in self.groups and name not in self.rivals:
                with_folder = (f"{each}:FOLDER" for each in self.trained)
                names = dict.fromkeys((*self.groups, ALONE, *self.rivals, *with_folder))
                raise ConfigError(f"compare={word!r} is no method; name some of {', '.join(names)}")
            if colon:
                raise ConfigError(
                    f"compare={word!r}: {name} was not trained before; leave the folder out"
                )
            wanted |= set(self.groups.get(name, (name,)))
        return tuple(name for name in self.methods if name in wanted)

    def folders(self, words: Sequence[str]) -> tuple[tuple[str, str], ...]:
        """Returns the methods that were meta-trained before, as pairs of name and folder, in the
        order of the words.

        Raises:
          ConfigError: A word of such a method has no folder, or is there twice.
        """
        found: list[tuple[str, str]] = []
        for word in words:
            name, _, folder = word.partition(":")
            if name not in self.trained:
                continue
            if not folder:
                raise ConfigError(
                    f"compare={word!r} was meta-trained before; name its folder, e.g. "
                    f"{name}:runs/{name}"
                )
            if (name, folder) in found:
                raise ConfigError(f"compare={word!r} is there twice; name each run once")
            found.append((name, folder))
        return tuple(found)


def asked_for(menu: Menu, rivals: Sequence[str], methods: Collection[str]) -> str:
    """Returns what asks for a test again: its rivals, with `ALONE` where they are all, or the word
    for none of them.

    Args:
      menu: Of its kind.
      rivals: Of the test, with folders where they have some.
      methods: All that it trained.
    """
    if set(methods) & set(menu.always[1:]):
        return ",".join(rivals) or "none"
    return ",".join((ALONE, *rivals))


LOSSES = Menu(
    ("epg", "untrained", *loss_methods.UNEVOLVED),
    {
        "none": (),
        "ppo": ("ppo", "ppo_as_epg"),
        "all": ("ppo", "ppo_as_epg", "sac", "td3", "reinforce"),
    },
    tuple(loss_methods.METHODS),
    tuple(trained_methods.LOADERS),
)
"""Of the test of a loss of EPG."""

OBJECTIVES = Menu(
    ("objective", "untrained_objective"),
    {
        "none": (),
        "ppo": ("off_policy_reinforce", "ppo"),
        "all": ("off_policy_reinforce", "ppo", "reinforce", "td3", "ddpg"),
    },
    tuple(objective_methods.METHODS),
)
"""Of the test of an objective of MetaGenRL."""


def of_loss(experiment: Experiment, words: Sequence[str], env_steps: int) -> tuple[str, ...]:
    """Returns the methods of the test of a loss; "all" leaves out what its actions do not allow.

    Args:
      experiment: Settings of the test.
      words: As for `Menu.chosen`.
      env_steps: Of a life.

    Raises:
      ConfigError: As there, or lives have no updates, in which rivals would learn.
    """
    names = LOSSES.chosen(words)
    if not env_steps and {*names} & {*LOSSES.groups["all"]}:
        raise ConfigError(
            f"compare={','.join(words)} names what learns, and lives have 0 updates; give "
            "updates, or compare with none"
        )
    if has_bounds(make_family(experiment.task)):
        return names
    return tuple(name for name in names if name not in ("sac", "td3") or name in words)
