"""The figures and tables of MetaGenRL, and what they need.

The paper's environments are HalfCheetah, Hopper and LunarLander. At the scale laptop objectives are
meta-trained in PointGoal, and the environment that they have not seen is Pendulum; those of Table 2
are meta-trained in several environments.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

from epg_tf.figures.agent_analyses import side_by_side
from epg_tf.figures.declaration import Changes, Declaration, Need, ProgressNeed, RunNeed, TestNeed
from epg_tf.figures.run_analyses import objective_stages, without_worst
from epg_tf.figures.tables import returns_table

ENVIRONMENTS = {
    "cheetah": "gymnasium:HalfCheetah-v5",
    "hopper": "gymnasium:Hopper-v5",
    "lunar": "gymnasium:LunarLanderContinuous-v3",
}
_LAPTOP = "metagenrl_laptop"
_SEEN, _UNSEEN = "point_goal", "gymnasium:Pendulum-v1"
_UNSEEN_STEPS = 8000
_SEEDS = {"laptop": 3, "paper": 6}
_AGENTS = {"laptop": 8, "paper": 2}  # a test has at least two for each objective
_RIVALS = ("off_policy_reinforce", "ppo", "reinforce", "ddpg")
_FEW = ("off_policy_reinforce", "ppo")
_BODIES = {"Hopper": "hopper", "HalfCheetah": "half_cheetah", "Walker2d": "walker2d"}
_SMALL = {
    "PointGoal": "point_goal",
    "Pendulum": "gymnasium:Pendulum-v1",
    "InvertedPendulum": "gymnasium:InvertedPendulum-v5@200",
    "Reacher": "gymnasium:Reacher-v5",
    "InvertedDoublePendulum": "gymnasium:InvertedDoublePendulum-v5@200",
}
_SMALL_LAPTOP = {**_SMALL, "TurnedMotors": "turned_motors"}
_SMALL_NIGHT = {
    **_SMALL_LAPTOP,
    "MountainCarContinuous": "gymnasium:MountainCarContinuous-v0",
}


@dataclasses.dataclass(frozen=True)
class _TrainingSet:
    """Environments that objectives are meta-trained in, and those of their tests."""

    config: str
    name: str
    places: Mapping[str, str]
    seeds: int
    env_steps: int  # of each agent in a test: as many at all scales, so that tables can be compared


_SETS = {  # needed ones first
    "laptop": (
        _TrainingSet("metagenrl_small", "small", _SMALL_LAPTOP, 3, 8000),
        _TrainingSet("metagenrl_bodies:hopper_cheetah", "hopper & cheetah", _BODIES, 1, 16_000),
    ),
    "night": (
        _TrainingSet("metagenrl_night:hopper_cheetah", "hopper & cheetah", _BODIES, 1, 16_000),
        _TrainingSet("metagenrl_night:small", "small", _SMALL_NIGHT, 3, 8000),
        _TrainingSet("metagenrl_night:hopper_walker", "hopper & walker", _BODIES, 1, 16_000),
        _TrainingSet("metagenrl_night:cheetah_walker", "cheetah & walker", _BODIES, 1, 16_000),
    ),
}
_FEW_RIVALS_IN = {  # scale -> environments
    "laptop": ("gymnasium:InvertedDoublePendulum-v5@200", "turned_motors", "walker2d"),
    "night": ("turned_motors",),
}
_NEEDED_SETS = {"laptop": 1, "night": 2}
_NIGHT = "of MetaGenRL, only Tables 1 and 2 are declared at the scale night"
_ROWS = (
    "EPG and RL² are not meta-trained in these environments here; the paper's own numbers for "
    "them are of at most 50 M env steps. Rivals have the learning rates that their test states."
)


def _set(names: str) -> str:
    """Returns what a training set is called, e.g. "cheetah & lunar"."""
    return names.replace("_", " & ")


def _laptop(
    environment: str, label: str, methods: tuple[str, ...] = _FEW, changes: Changes = ()
) -> list[TestNeed]:
    steps = None if environment == _SEEN else _UNSEEN_STEPS
    return [
        TestNeed(
            RunNeed(_LAPTOP, seed, changes),
            methods if seed == 0 else (),
            ("ppo",) if methods and seed == 0 else ("none",),
            environment=environment,
            env_steps=steps,
            lives=_AGENTS["laptop"],
            label=label,
            optional=seed > 0,
        )
        for seed in range(_SEEDS["laptop"])
    ]


def _paper(
    sets: Sequence[str],
    environment: str,
    panel: str,
    methods: tuple[str, ...] = _RIVALS,
    changes: Changes = (),
) -> list[TestNeed]:
    return [
        TestNeed(
            RunNeed(f"metagenrl_paper:{names}", seed, changes),
            methods if names == sets[0] else (),
            ("all",) if methods and names == sets[0] else ("none",),
            environment=ENVIRONMENTS[environment],
            lives=_AGENTS["paper"],
            label=f"{panel}: MetaGenRL, {_set(names)}",
        )
        for names in sets
        for seed in range(_SEEDS["paper"])
    ]


def _generalization(
    name: str, environments: tuple[str, str], sets: tuple[Sequence[str], ...]
) -> Declaration:
    """Returns a figure with a panel of a seen and one of an unseen environment."""
    panels = [
        *_paper(sets[0], environments[0], f"seen, {environments[0]}"),
        *_paper(sets[1], environments[1], f"unseen, {environments[1]}"),
    ]
    laptop = [
        *_laptop(_SEEN, "seen, PointGoal: MetaGenRL, PointGoal"),
        *_laptop(_UNSEEN, "unseen, Pendulum: MetaGenRL, PointGoal"),
    ]
    words = " and ".join(environments) if environments[0] != environments[1] else environments[0]
    return Declaration(
        f"metagenrl.fig{name}",
        f"Fresh agents with a learned objective: {words}",
        f"MetaGenRL, Figure {name}",
        "A learned objective trains fresh agents better than PPO and REINFORCE, in environments "
        "seen in meta-training and in others; DDPG with TD3's parts is about as good.",
        {"laptop": laptop, "paper": panels},
        side_by_side(_RIVALS),
        _NIGHT,
        "Bands are the middle half of agents of all seeds. At the scale laptop all four figures of "
        "this kind (3, 7, 8, 9) are the same picture.",
    )


def _ablations(scale: str) -> Sequence[Need]:
    kinds: dict[str, Changes] = {
        "whole objective": (),
        "without t": (("objective.time", False),),
        "without V": (("objective.value_inputs", 0),),
        "without V(s')": (("objective.value_inputs", 1),),
    }
    return _variants(scale, kinds, "cheetah")


def _virtual_steps(scale: str) -> Sequence[Need]:
    kinds: dict[str, Changes] = {
        f"{steps} virtual step{'s' * (steps > 1)}": (("meta.virtual_steps", steps),)
        for steps in (1, 3, 5)
    }
    return _variants(scale, kinds, "lunar")


def _variants(scale: str, kinds: Mapping[str, Changes], place: str) -> Sequence[Need]:
    if scale == "laptop":
        return [
            need
            for kind, changes in kinds.items()
            for need in _laptop(_SEEN, f"PointGoal: {kind}", (), changes)
        ]
    return [
        TestNeed(
            RunNeed("metagenrl_paper:cheetah_lunar", seed, changes),
            (),
            ("none",),
            environment=ENVIRONMENTS[place],
            lives=_AGENTS["paper"],
            label=f"{place}: {kind}",
        )
        for kind, changes in kinds.items()
        for seed in range(_SEEDS["paper"])
    ]


def _progress(name: str, training_set: str, environment: str, claim: str) -> Declaration:
    paper = ProgressNeed(
        RunNeed(f"metagenrl_paper:{training_set}"), ENVIRONMENTS[environment], label=environment
    )
    laptop = ProgressNeed(RunNeed(_LAPTOP), _SEEN, label="PointGoal")
    return Declaration(
        f"metagenrl.fig{name}",
        f"Objectives along meta-training, tested in {environment}",
        f"MetaGenRL, Figure {name}",
        claim,
        {"laptop": [laptop], "paper": [paper]},
        objective_stages,
        _NIGHT,
        "At the scale laptop the environment is PointGoal.",
    )


def _one_environment() -> list[Need]:
    """Returns the needs of a table of objectives that were meta-trained in PointGoal alone."""
    needs = (*_laptop(_SEEN, "PointGoal: PointGoal"), *_laptop(_UNSEEN, "PointGoal: Pendulum"))
    return [dataclasses.replace(need, curves=False) for need in needs]


def _several_environments(scale: str) -> list[Need]:
    """Returns the needs of a table of objectives of several environments each: rivals are tested
    with the first training set that is tested in an environment, and its first seed.
    """
    met: set[str] = set()
    needs: list[Need] = []
    for number, trained in enumerate(_SETS[scale]):
        for place, environment in trained.places.items():
            for seed in range(trained.seeds):
                alone = environment in met
                met.add(environment)
                methods, compare = _rivals_in(scale, environment)
                need = TestNeed(
                    RunNeed(trained.config, seed),
                    () if alone else methods,
                    ("none",) if alone else compare,
                    environment=environment,
                    env_steps=trained.env_steps,
                    curves=False,
                    lives=_AGENTS["laptop"],
                    label=f"{trained.name}: {place}",
                    optional=number >= _NEEDED_SETS[scale] or seed > 0,
                )
                needs.append(need)
    return needs


def _rivals_in(scale: str, environment: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Returns the rivals that are asked for in an environment, as keys of a test's rows and as
    words for its command; at the scale laptop on-policy REINFORCE is none of them.
    """
    rivals = _RIVALS if scale == "night" else (*_FEW, "ddpg")
    found = _FEW if environment in _FEW_RIVALS_IN[scale] else rivals
    return found, found


def _papers_table(sets: Sequence[str]) -> list[Need]:
    return [
        TestNeed(
            RunNeed(f"metagenrl_paper:{names}", seed),
            _RIVALS if names == sets[0] else (),
            ("all",) if names == sets[0] else ("none",),
            environment=environment,
            curves=False,
            lives=_AGENTS["paper"],
            label=f"{_set(names)}: {place}",
        )
        for names in sets
        for place, environment in ENVIRONMENTS.items()
        for seed in range(_SEEDS["paper"])
    ]


METAGENRL = (
    _generalization(
        "3", ("lunar", "hopper"), (("lunar", "cheetah_lunar"), ("lunar", "cheetah_lunar"))
    ),
    _progress(
        "4",
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
        {"laptop": _ablations("laptop"), "paper": _ablations("paper")},
        side_by_side(()),
        _NIGHT,
        "Test-time training alone (the paper's panel b).",
    ),
    Declaration(
        "metagenrl.fig6",
        "One, three and five virtual steps",
        "MetaGenRL, Figure 6",
        "Three virtual steps give a better objective than one, five a worse one.",
        {"laptop": _virtual_steps("laptop"), "paper": _virtual_steps("paper")},
        side_by_side(()),
        _NIGHT,
    ),
    _generalization(
        "7", ("hopper", "hopper"), (("hopper", "cheetah_hopper"), ("lunar", "cheetah_lunar"))
    ),
    _generalization(
        "8", ("cheetah", "cheetah"), (("cheetah_hopper", "cheetah_lunar"), ("hopper", "lunar"))
    ),
    _generalization(
        "9", ("lunar", "lunar"), (("lunar", "cheetah_lunar"), ("hopper", "cheetah_hopper"))
    ),
    _progress(
        "10",
        "lunar",
        "lunar",
        "As Figure 4, in the environment of meta-training.",
    ),
    Declaration(
        "metagenrl.fig11",
        "Stability over seeds",
        "MetaGenRL, Figure 11",
        "Two of six seeds get stuck; without them the variance is much smaller.",
        {
            "laptop": _laptop(_SEEN, "PointGoal", ()),
            "paper": _paper(("lunar",), "lunar", "lunar", ()),
        },
        without_worst,
        _NIGHT,
    ),
    Declaration(
        "metagenrl.table1",
        "Mean returns of fresh agents, two training sets",
        "MetaGenRL, Table 1",
        "MetaGenRL trains agents in seen and unseen environments, EPG and RL² in seen ones alone.",
        {
            "laptop": _one_environment(),
            "night": _several_environments("night"),
            "paper": _papers_table(("cheetah_hopper", "cheetah_lunar")),
        },
        returns_table,
        _NIGHT,
        _ROWS,
    ),
    Declaration(
        "metagenrl.table2",
        "Mean returns of fresh agents, all training sets and methods",
        "MetaGenRL, Table 2",
        "Objectives generalize between environments, and end above PPO and REINFORCE in most.",
        {
            "laptop": _several_environments("laptop"),
            "night": _several_environments("night"),
            "paper": _papers_table(
                ("cheetah_hopper", "cheetah_lunar", "hopper_lunar", "hopper", "lunar")
            ),
        },
        returns_table,
        _NIGHT,
        _ROWS,
    ),
)
