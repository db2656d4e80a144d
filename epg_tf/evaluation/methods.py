"""The registry of methods: what is evaluated, what it is compared with, and the words with which a
user asks for them.

Another method derives from `baselines.method.Method`, and needs a label in `LABELS` there and an
entry in `LOSS_METHODS` or `OBJECTIVE_METHODS`; one that was meta-trained before needs a loader in
`trained_methods`.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from epg_tf.baselines import off_policy, policy_gradient
from epg_tf.baselines.inner_loop_method import InnerLoopMethod, InnerLoops
from epg_tf.baselines.kept_shards import ShardFiles
from epg_tf.baselines.method import LossName, Method, learned_name
from epg_tf.core.errors import ConfigError
from epg_tf.core.types import Array
from epg_tf.epg.inner_loop import InnerLoopSettings, final_inner_settings
from epg_tf.epg.meta_parameters import evolves_loss, initial_phi
from epg_tf.epg.settings import Experiment
from epg_tf.evaluation import objective_method
from epg_tf.evaluation.trained_methods import NAMES as TRAINED
from epg_tf.metagenrl.settings import MetaGenRLExperiment
from epg_tf.tasks.registry import make_family

ALONE = "alone"
"""Word for an evaluation without the methods of each, e.g. where an earlier one has them."""
UNEVOLVED = ("random_loss", "centred_loss", "policy_gradient_loss")
IN_SHARDS = ("sac", "td3", "ddpg")
"""Methods that take hours: what ended of them is kept shard by shard."""
_FIRST_UNEVOLVED = 2**31  # seeds of unevolved losses start here, far from those that people choose


@dataclasses.dataclass(frozen=True)
class Evaluated:
    """What the methods of an evaluation are made from.

    Attributes:
      experiment: Settings, an `Experiment` or a `MetaGenRLExperiment`.
      phi: [D] float32, the learned loss or objective; read-only, so no method can change it.
      loss: Its name.
      loops: Of a loss of EPG: what runs the lives of its agents.
      alpha: Of a loss: share of PPO in what its agents minimise (EPG + PPO; v1, Figure 7).
      kept: By the keys of the methods that take hours, the shards of theirs that have lived.
    """

    experiment: Any
    phi: Array
    loss: LossName
    loops: InnerLoops | None = None
    alpha: float = 0.0
    kept: Mapping[str, ShardFiles] = dataclasses.field(default_factory=dict)

    def inner_loop(
        self,
        name: str,
        inner_settings: InnerLoopSettings,
        phi: Callable[[int], Array] | None = None,
    ) -> InnerLoopMethod:
        """Returns a method in the lives of the loss; agents have `phi`, or the learned loss."""
        assert self.loops is not None
        loss = self.loss if name == learned_name(self.experiment) else None
        return InnerLoopMethod(
            name, self.loops, phi or (lambda agent: self.phi), inner_settings, loss=loss
        )


def with_ppo(experiment: Experiment) -> Experiment:
    """Returns the settings of an evaluation: the surrogate is PPO."""
    surrogate = dataclasses.replace(experiment.surrogate, kind="ppo")
    return dataclasses.replace(experiment, surrogate=surrogate)


def inner_loops(experiment: Experiment) -> InnerLoops:
    """Returns what runs the lives of the evaluation of a loss; KL is measured."""
    return InnerLoops(with_ppo(experiment), measure_kl=True)


def _learned_loss(evaluated: Evaluated) -> Method:
    """Returns the method that uses what evolution moved, frozen (see `learned_name`): where that is
    a loss, agents minimise (1 - alpha) of it + alpha PPO.
    """
    inner_settings = dataclasses.replace(
        final_inner_settings(evaluated.experiment), alpha=evaluated.alpha
    )
    return evaluated.inner_loop(learned_name(evaluated.experiment), inner_settings)


def _ppo_as_epg(evaluated: Evaluated) -> Method:
    """Returns PPO with EPG's M, and a learning rate and a number of epochs of its own (the papers'
    protocol).
    """
    own = evaluated.experiment.surrogate
    inner_settings = InnerLoopSettings(
        1.0, own.baseline_learning_rate, own.baseline_epochs, fresh=True
    )
    return evaluated.inner_loop("ppo_as_epg", inner_settings)


def _unevolved(name: str, evaluated: Evaluated) -> Method:
    """Returns the method that gives each agent another loss, as evolution could begin."""
    experiment = evaluated.experiment
    start: Any = name.removesuffix("_loss")
    loss = dataclasses.replace(experiment.loss, start=start)
    started = dataclasses.replace(experiment, loss=loss)
    return evaluated.inner_loop(
        name,
        InnerLoopSettings(0.0, experiment.inner.learning_rate, fresh=True),
        lambda agent: initial_phi(started, _FIRST_UNEVOLVED + agent),
    )


@dataclasses.dataclass(frozen=True)
class Registry:
    """The methods of one kind of evaluation.

    Attributes:
      methods: Key -> what makes the method, in the order of tables; what is evaluated comes first.
      always: Methods that every evaluation trains, unless it is `ALONE`.
      groups: Word -> the methods that it stands for.
      trained: Methods that were meta-trained before, each from a folder that the user names.
    """

    methods: Mapping[str, Callable[[Evaluated], Method]]
    always: tuple[str, ...]
    groups: Mapping[str, tuple[str, ...]]
    trained: tuple[str, ...] = ()

    @property
    def baselines(self) -> tuple[str, ...]:
        """The methods that are no part of every evaluation; they may live longer than others."""
        return tuple(name for name in self.methods if name not in self.always)

    def chosen(self, words: Sequence[str]) -> tuple[str, ...]:
        """Returns the methods of an evaluation in the order of tables, but for those that were
        meta-trained before (`folders`).

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
            name, colon, _ = word.partition(":")
            if word == ALONE or name in self.trained:
                continue
            if name not in self.groups and name not in self.baselines:
                with_folder = (f"{each}:FOLDER" for each in self.trained)
                names = dict.fromkeys((*self.groups, ALONE, *self.baselines, *with_folder))
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


LOSS_METHODS = Registry(
    {
        "epg": _learned_loss,
        "ppo": lambda it: policy_gradient.beside_loss("ppo", it.experiment),
        "ppo_as_epg": _ppo_as_epg,
        "sac": lambda it: off_policy.beside_loss("sac", it.experiment, it.kept.get("sac")),
        "td3": lambda it: off_policy.beside_loss("td3", it.experiment, it.kept.get("td3")),
        "reinforce": lambda it: policy_gradient.beside_loss("reinforce", it.experiment),
        "untrained": lambda it: it.inner_loop("untrained", InnerLoopSettings(0.0, 0.0, fresh=True)),
        **{name: functools.partial(_unevolved, name) for name in UNEVOLVED},
    },
    ("epg", "untrained", *UNEVOLVED),
    {
        "none": (),
        "ppo": ("ppo", "ppo_as_epg"),
        "all": ("ppo", "ppo_as_epg", "sac", "td3", "reinforce"),
    },
    TRAINED,
)
"""Of the evaluation of a loss of EPG."""

OBJECTIVE_METHODS = Registry(
    {
        "objective": lambda it: objective_method.learned_objective(it.experiment, it.phi, it.loss),
        "untrained_objective": lambda it: objective_method.untrained_objective(it.experiment),
        "off_policy_reinforce": lambda it: objective_method.off_policy_reinforce(it.experiment),
        "ddpg_with_td3": lambda it: objective_method.ddpg_with_td3(it.experiment),
        "ppo": lambda it: policy_gradient.beside_objective("ppo", it.experiment),
        "reinforce": lambda it: policy_gradient.beside_objective("reinforce", it.experiment),
        "td3": lambda it: off_policy.beside_objective("td3", it.experiment, it.kept.get("td3")),
        "ddpg": lambda it: off_policy.beside_objective("ddpg", it.experiment, it.kept.get("ddpg")),
    },
    ("objective", "untrained_objective"),
    {
        "none": (),
        "all": ("off_policy_reinforce", "ddpg_with_td3", "ppo", "reinforce", "td3", "ddpg"),
    },
)
"""Of the evaluation of an objective of MetaGenRL."""


def registry_of(experiment: Experiment | MetaGenRLExperiment) -> Registry:
    """Returns the methods of the evaluation of what settings describe."""
    return OBJECTIVE_METHODS if isinstance(experiment, MetaGenRLExperiment) else LOSS_METHODS


def of_loss(experiment: Experiment, words: Sequence[str], env_steps: int) -> tuple[str, ...]:
    """Returns the methods of the evaluation of a loss; "all" leaves out what its actions do not
    allow.

    Raises:
      ConfigError: As of `Registry.chosen`, or lives have no updates, in which baselines would
        learn.
    """
    names = LOSS_METHODS.chosen(words)
    if not env_steps and {*names} & {*LOSS_METHODS.groups["all"]}:
        raise ConfigError(
            f"compare={','.join(words)} names what learns, and lives have 0 updates; give "
            "updates, or compare with none"
        )
    if off_policy.has_bounds(make_family(experiment.task)):
        return names
    return tuple(name for name in names if name not in ("sac", "td3") or name in words)


def applicable(
    experiment: Experiment | MetaGenRLExperiment, names: Sequence[str]
) -> tuple[str, ...]:
    """Returns those of some methods that an evaluation can have: no unevolved loss beside no loss,
    one that begins as a policy gradient only beside one that did, and a centred one only if it sees
    the policy.
    """
    if isinstance(experiment, MetaGenRLExperiment):
        return tuple(names)
    left_out = set() if evolves_loss(experiment) else {*UNEVOLVED}
    if experiment.loss.start != "policy_gradient":
        left_out.add("policy_gradient_loss")
    if "policy" in experiment.loss.without:
        left_out.add("centred_loss")
    return tuple(name for name in names if name not in left_out)
