"""The figures and tables of MetaGenRL, and what they read.

The paper's environments are HalfCheetah, Hopper and LunarLander. At the scale laptop objectives are
meta-trained in PointGoal, and the environment that they have not seen is Pendulum; those of Table 2
are meta-trained in several environments. All seeds of an objective are evaluated together.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

from epg_tf.figures.agent_analyses import side_by_side
from epg_tf.figures.declaration import Changes, Declaration, Run, Test
from epg_tf.figures.folders import run, test_folder
from epg_tf.figures.run_analyses import objective_stages, without_worst
from epg_tf.figures.tables import returns_table

ENVIRONMENTS = {
    "cheetah": "gymnasium:HalfCheetah-v5",
    "hopper": "gymnasium:Hopper-v5",
    "lunar": "gymnasium:LunarLanderContinuous-v3",
}
_PENDULUM = "gymnasium:Pendulum-v1"
_LAPTOP_FLAGS: dict[str, tuple[tuple[str, object], ...]] = {
    "PointGoal": (("environment", "point_goal"),),
    "Pendulum": (("environment", _PENDULUM), ("env_steps", 8000)),
}
_AGENTS = {"laptop": 8, "night": 8, "paper": 2}  # at least two for each objective
_BASELINES = ("off_policy_reinforce", "ppo", "reinforce", "ddpg_with_td3")
_FEW = ("off_policy_reinforce", "ppo")
_COMPARE = {"laptop": (*_FEW, "ddpg"), "night": _BASELINES, "paper": ("all",)}
_BODIES = {"Hopper": "hopper", "HalfCheetah": "half_cheetah", "Walker2d": "walker2d"}
_TRIO = {"HalfCheetah": "half_cheetah", "Hopper": "hopper", "Lunar": ENVIRONMENTS["lunar"]}
_SMALL = {
    "PointGoal": "point_goal",
    "Pendulum": _PENDULUM,
    "InvertedPendulum": "gymnasium:InvertedPendulum-v5@200",
    "Reacher": "gymnasium:Reacher-v5",
    "InvertedDoublePendulum": "gymnasium:InvertedDoublePendulum-v5@200",
    "TurnedMotors": "turned_motors",
}
_SMALL_NIGHT = {**_SMALL, "MountainCarContinuous": "gymnasium:MountainCarContinuous-v0"}


@dataclasses.dataclass(frozen=True)
class _TrainingSet:
    """Environments that objectives are meta-trained in, and those of their evaluation."""

    config: str
    folder: str  # FOLDER/ or FOLDER/PREFIX_, before the name of an environment
    name: str
    places: Mapping[str, str]
    seeds: int
    env_steps: int | None = None  # of each agent; None: as in meta-training
    optional: bool = False


def _of_paper(names: str) -> _TrainingSet:
    folder = f"tests/metagenrl_paper-{names}-returns-"
    return _TrainingSet(f"metagenrl_paper:{names}", folder, _set(names), ENVIRONMENTS, 6)


def _of_bodies(
    scale: str,
    names: str,
    folder: str,
    places: Mapping[str, str] = _BODIES,
    optional: bool = False,
) -> _TrainingSet:
    config = f"metagenrl_{scale}:{names}"
    return _TrainingSet(config, folder, _set(names), places, 1, 16_000, optional)


def _set(names: str) -> str:
    """Returns what a training set is called, e.g. "cheetah & lunar"."""
    return names.replace("_", " & ")


_SETS = {
    "laptop": (
        _TrainingSet("metagenrl_small", "metagenrl_small/", "small", _SMALL, 3, 8000),
        _of_bodies("bodies", "hopper_cheetah", "metagenrl_bodies/", optional=True),
    ),
    "night": (
        _of_bodies("night", "cheetah_lunar", "metagenrl_night/cheetah_lunar_", _TRIO),
        _of_bodies("night", "hopper_cheetah", "metagenrl_night/hopper_cheetah_"),
        _TrainingSet("metagenrl_night:small", "metagenrl_night/", "small", _SMALL_NIGHT, 3, 8000),
        _of_bodies("night", "hopper_walker", "metagenrl_night/hopper_walker_", optional=True),
        _of_bodies("night", "cheetah_walker", "metagenrl_night/cheetah_walker_", optional=True),
    ),
    "paper": tuple(
        map(_of_paper, ("cheetah_hopper", "cheetah_lunar", "hopper_lunar", "hopper", "lunar"))
    ),
}
_ROWS = (
    "EPG and RL² have evaluations of their own, at the scale night alone; the paper's numbers for "
    "them are of at most 50 M env steps. Baselines have the learning rates that their evaluation "
    "states."
)


def _laptop(place: str, label: str, changes: Changes = (), kind: str = "") -> Test:
    """Returns an evaluation of three objectives, beside baselines if nothing is changed."""
    flags = _LAPTOP_FLAGS[place]
    runs = tuple(run("metagenrl_laptop", seed, changes, kind) for seed in range(3))
    folder = test_folder(runs[0], "-".join(filter(None, (kind, place))))
    return Test(folder, runs, () if kind else _FEW, (), flags, _AGENTS["laptop"], label)


def _paper(
    names: str,
    place: str,
    label: str,
    compare: tuple[str, ...] = (),
    changes: Changes = (),
    kind: str = "",
) -> Test:
    """Returns an evaluation of six objectives in one of the paper's environments."""
    runs = tuple(run(f"metagenrl_paper:{names}", seed, changes, kind) for seed in range(6))
    folder = test_folder(runs[0], "-".join(filter(None, (kind, place))))
    flags = (("environment", ENVIRONMENTS[place]),)
    return Test(folder, runs, compare, (), flags, _AGENTS["paper"], label)


def _generalization(
    number: int, places: tuple[str, str], sets: tuple[Sequence[str], Sequence[str]]
) -> Declaration:
    """Returns a figure with a panel of a seen and one of an unseen environment."""
    panels = [
        _paper(
            names,
            place,
            f"{seen}, {place}: MetaGenRL, {_set(names)}",
            ("all",) if names == several[0] else (),
        )
        for seen, place, several in zip(("seen", "unseen"), places, sets, strict=True)
        for names in several
    ]
    laptop = [
        _laptop("PointGoal", "seen, PointGoal: MetaGenRL, PointGoal"),
        _laptop("Pendulum", "unseen, Pendulum: MetaGenRL, PointGoal"),
    ]
    return Declaration(
        f"metagenrl.fig{number}",
        f"Fresh agents with a learned objective: {' and '.join(dict.fromkeys(places))}",
        f"MetaGenRL, Figure {number}",
        "A learned objective trains fresh agents better than PPO and REINFORCE, in environments "
        "seen in meta-training and in others; DDPG with TD3's parts is about as good.",
        {"laptop": laptop, "paper": panels},
        side_by_side(_BASELINES),
        "Bands are the middle half of agents of all seeds. At the scale laptop all four figures of "
        "this kind (3, 7, 8, 9) are the same picture.",
    )


def _variants(
    kinds: Mapping[str, tuple[str, Changes]], places: Sequence[str]
) -> dict[str, list[Test]]:
    """Returns evaluations of objectives with one thing changed: label -> folder's word, changes."""
    return {
        "laptop": [
            _laptop("PointGoal", f"PointGoal: {label}", changes, word)
            for label, (word, changes) in kinds.items()
        ],
        "paper": [
            _paper("cheetah_lunar", place, f"{place}: {label}", (), changes, word)
            for place in places
            for label, (word, changes) in kinds.items()
        ],
    }


def _progress(number: int, names: str, place: str, claim: str) -> Declaration:
    def one(config: str, environment: str, label: str) -> list[Test]:
        name = config.replace(":", "-")
        whole = Run(f"{name}-0", config)  # with the objectives that it kept on its way
        folder, flags = f"tests/{name}-{label}-progress", (("environment", environment),)
        return [Test(folder, (whole,), (), (), flags, label=label, progress=True)]

    return Declaration(
        f"metagenrl.fig{number}",
        f"Objectives along meta-training, tested in {place}",
        f"MetaGenRL, Figure {number}",
        claim,
        {
            "laptop": one("metagenrl_laptop", "point_goal", "PointGoal"),
            "paper": one(f"metagenrl_paper:{names}", ENVIRONMENTS[place], place),
        },
        objective_stages,
        "At the scale laptop the environment is PointGoal.",
    )


def _point_goal_alone() -> list[Test]:
    """Returns evaluations of objectives of PointGoal alone, each seed on tasks of its own."""
    files = {"PointGoal": "test", "Pendulum": "pendulum"}
    return [
        dataclasses.replace(
            _laptop(place, f"PointGoal: {place}"),
            folder=f"metagenrl_replay/seed{seed}/{file}",
            runs=(run("metagenrl_laptop", seed),),
            flags=(*_LAPTOP_FLAGS[place], ("seed", seed)),
            curves=False,
            optional=seed > 0,
        )
        for place, file in files.items()
        for seed in range(3)
    ]


def _returns(scale: str, sets: int | None = None) -> list[Test]:
    """Returns evaluations in each environment; baselines stand beside its first training set."""
    met: set[str] = set()
    found = []
    for trained in _SETS[scale][:sets]:
        runs = tuple(run(trained.config, seed) for seed in range(trained.seeds))
        steps = (("env_steps", trained.env_steps),) if trained.env_steps else ()
        for place, environment in trained.places.items():
            compare = () if environment in met else _COMPARE[scale]
            met.add(environment)
            found.append(
                Test(
                    trained.folder + _word(place),
                    runs,
                    compare,
                    flags=(("environment", environment), *steps),
                    lives=_AGENTS[scale],
                    label=f"{trained.name}: {place}",
                    optional=trained.optional,
                    curves=False,
                )
            )
    return found


def _word(place: str) -> str:
    """Returns the name of an environment as a part of a file's name, e.g. "half_cheetah"."""
    capitals = [f"_{letter.lower()}" if letter.isupper() else letter for letter in place]
    return "".join(capitals).lstrip("_")


_INPUTS: dict[str, tuple[str, Changes]] = {
    "whole objective": ("", ()),
    "without t": ("no_time", (("objective.time", False),)),
    "without V": ("no_values", (("objective.value_inputs", 0),)),
    "without V(s')": ("no_next_value", (("objective.value_inputs", 1),)),
}
_STEPS: dict[str, tuple[str, Changes]] = {
    "1 virtual step": ("", ()),
    "3 virtual steps": ("3_virtual_steps", (("meta.virtual_steps", 3),)),
    "5 virtual steps": ("5_virtual_steps", (("meta.virtual_steps", 5),)),
}

METAGENRL = (
    _generalization(
        3, ("lunar", "hopper"), (("lunar", "cheetah_lunar"), ("lunar", "cheetah_lunar"))
    ),
    _progress(
        4,
        "cheetah_lunar",
        "hopper",
        "Early objectives hardly train agents; later ones train them faster and more reliably.",
    ),
    Declaration(
        "metagenrl.fig5",
        "Objectives with fewer inputs",
        "MetaGenRL, Figure 5",
        "Without the time step little changes; without V(s') nothing; without any value agents "
        "make no progress.",
        _variants(_INPUTS, ("cheetah",)),
        side_by_side(()),
        "Agents with the finished objective alone (the paper's panel b).",
    ),
    Declaration(
        "metagenrl.fig6",
        "One, three and five virtual steps",
        "MetaGenRL, Figure 6",
        "Three virtual steps give a better objective than one, five a worse one.",
        _variants(_STEPS, ("hopper", "cheetah")),
        side_by_side(()),
    ),
    _generalization(
        7, ("hopper", "hopper"), (("hopper", "cheetah_hopper"), ("lunar", "cheetah_lunar"))
    ),
    _generalization(
        8, ("cheetah", "cheetah"), (("cheetah_hopper", "cheetah_lunar"), ("hopper", "lunar"))
    ),
    _generalization(
        9, ("lunar", "lunar"), (("lunar", "cheetah_lunar"), ("hopper", "cheetah_hopper"))
    ),
    _progress(10, "lunar", "lunar", "As Figure 4, in the environment of meta-training."),
    Declaration(
        "metagenrl.fig11",
        "Stability over seeds",
        "MetaGenRL, Figure 11",
        "Two of six seeds get stuck; without them the variance is much smaller.",
        {
            "laptop": [_laptop("PointGoal", "PointGoal")],
            "paper": [_paper("lunar", "lunar", "lunar", ("all",))],
        },
        without_worst,
    ),
    Declaration(
        "metagenrl.table1",
        "Mean returns of fresh agents, two training sets",
        "MetaGenRL, Table 1",
        "MetaGenRL trains agents in seen and unseen environments, EPG and RL² in seen ones alone.",
        {"laptop": _point_goal_alone(), "paper": _returns("paper", 2)},
        returns_table,
        _ROWS,
    ),
    Declaration(
        "metagenrl.table2",
        "Mean returns of fresh agents, all training sets and methods",
        "MetaGenRL, Table 2",
        "Objectives generalize between environments, and end above PPO and REINFORCE in most.",
        {scale: _returns(scale) for scale in _SETS},
        returns_table,
        _ROWS,
    ),
)
