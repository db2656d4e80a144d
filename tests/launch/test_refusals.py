"""Commands refuse what cannot be in one line, before they do or write anything.

One row for each kind of error that a command finds itself, and one for the way of an error of the
package to the user; what the package refuses is tested beside it, and some of what is refused
before TensorFlow is imported in test_surroundings.py.
"""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

from epg_tf.artifacts.loss_files import PRETRAINED
from epg_tf.epg.settings import Experiment
from epg_tf.tasks.settings import TaskConfig
from tests.launch import commands
from tests.launch.systems import SYSTEMS

LOSS = commands.ROOT / "tests" / "golden" / "run" / "best"
NO_EFFECT = " has no effect here"
RENDER = "--loss=none --config=goal_ant --view=path"
STUDY = "--loss=point_goal --output_dir=OUT"
ENDING = """\
def get_config(name):
    import builtins

    raise getattr(builtins, name)
"""
# Words stand for others: the name of a system for the flags of a tiny run of it, OUT for a file
# that is not there, DIR for a folder, FILE for a file, LOSS and OBJECTIVE for a loss of EPG and an
# objective, FOREIGN for a run in a folder of a family that nobody registered.
REFUSED = {
    "meta_train": [
        ("", "--config"),
        ("--config=configs/nothing.py", "configs/nothing.py"),
        ("--config=point_goal", "--run_dir"),
        (
            "evolution --epochs=3",
            "--epochs is no flag of this command; did you mean --config.evolution.epochs or",
        ),
        ("evolution --run_dri=a", "did you mean --run_dir? --help lists all"),
        ("--config.task.range=nominal", "a setting of --config, which is not given; name one"),
        (
            "evolution --config.evolution.epoch=3",
            '--config.evolution.epoch names no setting: epoch; did you mean "epochs"? `',
        ),
        ("evolution --config.policy.log_deviation=-1", "it is called log_std now"),
        ("evolution --config.evolution.epochs=many", "'many' is no whole number"),
        ("evolution --config.inner.minibatch=5", "config.inner.minibatch=5"),
        ("evolution --seed=-1", "seed"),
        ("evolution --rank_timeout=nan", "--rank_timeout=nan must be a finite number"),
        ("evolution fast", "fast"),
        ("evolution --begin_with=nothing", "nothing"),
        ("evolution --begin_scale=0.5", "scales the policy of --begin_with, which is not given"),
        (
            "metagenrl --config.environments=('gymnasium:CartPole-v1',)",
            "config.environments: environment gymnasium:CartPole-v1: its actions are discrete",
        ),
        ("metagenrl --config.environments=point_goal,random_hopper", "several are written as"),
        ("maml --begin_with=point_goal", "--begin_with=point_goal is for runs"),
        ("--resume --run_dir=DIR", "--run_dir=DIR: there is no run to resume in it"),
        ("--resume --run_dir=FOREIGN", "'mine'"),
        ("--resume --run_dir=DAMAGED", "--run_dir='DAMAGED': config.json there is damaged"),
        ("rl2 --resume --run_dir=SEEDLESS", "SEEDLESS/config.json: its seed=-1 is no whole number"),
        ("--flagfile=PIPE", "--flagfile: PIPE: the file of flags is no regular file"),
        *(
            (f"--config=ENDING:{name}", f"ENDING:4 raised {name}, which would end this command")
            for name in ("SystemExit", "KeyboardInterrupt", "GeneratorExit")
        ),
        ("--config=ENDING", "--config='ENDING' gives no settings (TypeError: get_config() missing"),
        ("--config=point_goal:night", "this config has no variants; leave out the colon"),
    ],
    "meta_test": [
        ("--loss=DIR/none", "--loss=DIR/none"),
        ("--loss=point_goal,point_goal", "names a loss twice"),
        ("--loss=OBJECTIVE,point_goal", "--loss=OBJECTIVE,point_goal names objectives"),
        ("--loss=ODD", "--loss=ODD: the facts in loss.json have seed=[1], which is no"),
        ("--loss=LOSS --output_dir=DIR", "DIR"),
        ("--loss=LOSS --output_dir=RUN --overwrite", "belongs to a run or loss"),
        ("--loss=LOSS --output_dir=RUN --resume", "it holds checkpoints"),
        ("--loss=LOSS --config=random_hopper", "observation_size 11, the loss was made for 6"),
        ("--loss=LOSS --physics=coarse", "--physics=coarse: config.task.physics='coarse': point_"),
        (
            "--loss=LOSS --config=point_goal --config.task.physics=coarse",
            f"--config.task.physics=coarse{NO_EFFECT}: --physics says in which physics",
        ),
        ("--loss=point_goal --config=point_goal --config.inner.updates=3", NO_EFFECT),
        (
            "--loss=point_goal --episodes=2",
            "--episodes=2: --loss=point_goal is a loss of EPG, to which this does not apply",
        ),
        ("--loss=point_goal --compare=sacc", "--compare='sacc' is no method"),
        ("--loss=point_goal --alpha=1.5", "alpha"),
        ("--loss=point_goal --compare_updates=0", "compare_updates"),
        ("--loss=point_goal --save_policy=EXPORT --overwrite", "policy.json is not there"),
        ("--loss=OBJECTIVE --updates=3", "--updates=3: --loss="),
    ],
    "export": [
        ("--output_dir=OUT", "--loss"),
        ("--loss=../../etc --output_dir=OUT", "../../etc"),
        ("--loss=point_goal --output_dir=FILE", "FILE"),
        ("--loss=TORN --output_dir=OUT", "--loss=TORN: "),
        ("--loss=EXPORT --output_dir=EXPORT --overwrite", "where losses are kept"),
        ("--loss=EXPORT --output_dir=RUN/best --overwrite", "README.md is not there"),
        ("--loss=EXPORT --output_dir=PRETRAINED/new --overwrite", "losses are kept"),
        ("--loss=EXPORT --output_dir=RUN/.. --overwrite", "losses are kept"),
        ("--loss=EXPORT --output_dir=DIR/site --overwrite", "is not there"),
        (
            "--loss=point_goal --output_dir=OUT --config=point_goal --config.task.frame_skip=3",
            NO_EFFECT,
        ),
    ],
    "render": [
        (RENDER, "--output is missing"),
        (f"{RENDER} --output=life.gif", "--output=life.gif"),
        (f"{RENDER} --output=nowhere/life.png", "--output=nowhere/life.png"),
        (f"{RENDER} --output=OUT.png --frames=3", "--frames=3 has no effect with --view=path"),
        ("--loss=none --output=OUT.png --size=300", "--size=300 has no effect on a .png"),
        ("--loss=none --output=OUT.gif --size=8x9000", "--size=8x9000 must be WIDTHxHEIGHT"),
        ("--output=OUT.png --loss=none --config=random_hopper --view=path", "--view=path"),
        (
            "--output=OUT.png --loss=none --config=gymnasium_env:Pendulum-v1 --view=path",
            "--view=path: gymnasium:Pendulum-v1 has no way over the ground; use --view=film",
        ),
        ("--output=OUT.gif --loss=none --config=metagenrl_laptop", "=metagenrl_laptop holds"),
        (
            "--output=OUT.png --loss=point_goal --config=point_goal --config.compute.threads=2",
            f"threads=2{NO_EFFECT}",
        ),
    ],
    "tune": [
        ("--config=point_goal --config.sac.batch=64", f"--config.sac.batch=64{NO_EFFECT}"),
        ("--config=point_goal --config.task.physics=exact", NO_EFFECT),
        (
            "--config=metagenrl_laptop --method=ppo --config.baseline.ddpg_learning_rate=1e-2",
            f"--config.baseline.ddpg_learning_rate=1e-2{NO_EFFECT}",
        ),
        (
            "--config=metagenrl_laptop --method=ppo --config.baseline.ppo_learning_rate=1e-2",
            f"--config.baseline.ppo_learning_rate=1e-2{NO_EFFECT}",
        ),
        (
            "--config=random_reacher:night --config.inner.updates=64 --print_config",
            "config.evolution.longest_life=96",
        ),
        (
            "--config=point_goal --method=sac --budget=2 --json=SEARCH",
            "--json=SEARCH is there; pass --resume",
        ),
        (
            "--config=point_goal --method=sac --budget=2 --json=SEARCH --resume",
            "it is of another search, with baseline='td3'",
        ),
        (
            "--config=point_goal --method=sac --budget=2 --resume",
            "--resume=True goes on with a file; name it with --json",
        ),
    ],
    "benchmark": [
        ("--config=point_goal --cores=1 --cores=many", "--cores=many"),
        ("--config=point_goal --cores=0", "--cores=0"),
        ("--config=point_goal --cores=1 --shard_lives=", "--shard_lives="),
        ("--config=point_goal --config.task.physics=exact", NO_EFFECT),
        ("--config=rl2_half_cheetah", "--config=rl2_half_cheetah holds"),
    ],
    "list": [("--config=point_goal --config.task.frame_skip=3", NO_EFFECT)],
    "study": [
        ("--measure=adaptation --output_dir=OUT", "--loss is missing"),
        ("--measure=robustness --loss=point_goal", "--output_dir is missing"),
        (f"--measure=robustness {STUDY} --lives=1", "lives"),
        (f"--measure=adaptation {STUDY} --config=point_goal --config.inner.updates=3", NO_EFFECT),
        (f"--measure=robustness {STUDY} --config=point_goal --config.sac.batch=64", NO_EFFECT),
    ],
    "figure": [
        ("", "give either --name=epg.fig5 or --list"),
        ("--list --name=epg.fig5", "give either --name=epg.fig5 or --list"),
        ("--list --output_dir=a", "--output_dir=a goes with --name"),
        ("--list --runs=", "--runs= is no folder"),
        ("--name=all,epg.fig99 --output_dir=OUT", "--name='epg.fig99' is no figure"),
    ],
    "report": [
        ("", "--run_dir is missing"),
        ("--run_dir=RUN", "--output is missing"),
        ("--run_dir=RUN,RUN --output=OUT.html", "names a folder twice"),
        ("--run_dir=PIPED --output=OUT.html", "the metrics of a run is no regular file"),
        ("--run_dir=WIDE --output=OUT.html", "metrics.csv: line 2 has 0 cells"),
        ("--run_dir=DIR --output=OUT.html", "--run_dir=DIR: this is no run or test"),
        ("--run_dir=RUN --output=OUT/a.html", "is not a folder that can be written to"),
    ],
}


@pytest.fixture(scope="module")
def stands_for(tmp_path_factory, untrained_objective):
    """What the words of the table stand for; none of it may be changed."""
    folder = tmp_path_factory.mktemp("given")
    golden = LOSS.parents[1]
    words = {name: folder / name.lower() for name in ("RUN", "EXPORT", "TORN", "FOREIGN", "DIR")}
    for name, source in (("RUN", golden / "run"), ("EXPORT", golden / "exported"), ("TORN", LOSS)):
        shutil.copytree(source, words[name])
    (words["TORN"] / "loss.npz").write_bytes((LOSS / "loss.npz").read_bytes()[:500])
    (words["RUN"] / ".summary.json.1.tmp").write_text("{}")  # it may still be at work
    words |= _damaged(folder, golden / "run")
    words["FOREIGN"].mkdir()
    settings = Experiment(task=TaskConfig(family="mine")).to_mapping()
    facts = json.dumps({"config": settings, "seed": 0})
    (words["FOREIGN"] / "config.json").write_text(facts)
    (words["DIR"] / "site" / "assets").mkdir(parents=True)
    (words["DIR"] / "site" / "assets" / "logo.svg").write_text("mine")
    words |= {"FILE": folder / "file", "SEARCH": folder / "td3.json"}
    words["FILE"].write_text("mine")
    words["SEARCH"].write_text('{"format_version": 1, "baseline": "td3"}')
    return folder, words | {
        "OBJECTIVE": untrained_objective,
        "LOSS": LOSS,
        "PRETRAINED": PRETRAINED,
    }


def _damaged(folder: Path, run: Path) -> dict[str, Path]:
    """Returns files and folders that a user may have damaged, or that are no regular files."""
    names = ("SEEDLESS", "PIPED", "WIDE", "DAMAGED", "ODD", "PIPE")
    words = {name: folder / name.lower() for name in names} | {"ENDING": folder / "ending.py"}
    for name in names[:4]:
        shutil.copytree(run, words[name])
    shutil.copytree(run / "best", words["ODD"])
    os.mkfifo(words["PIPE"])
    metrics = words["PIPED"] / "metrics.csv"
    metrics.unlink()
    os.mkfifo(metrics)
    metrics = words["WIDE"] / "metrics.csv"
    metrics.write_text(metrics.read_text().replace("\n", f"\n{'1' * 200_000}", 1))
    for path, changed in (
        (words["SEEDLESS"] / "config.json", {"seed": -1}),
        (words["DAMAGED"] / "config.json", {"config": {"inner": {"updates": "four"}}}),
        (words["ODD"] / "loss.json", {"facts": {"seed": [1]}}),
    ):
        path.write_text(json.dumps({**json.loads(path.read_text()), **changed}))
    words["ENDING"].write_text(ENDING)
    return words


def contents(folder: Path) -> dict[Path, bytes]:
    files = (path for path in folder.rglob("*") if path.is_file() and path.suffix != ".pyc")
    return {path: path.read_bytes() for path in files}


@pytest.mark.parametrize(
    ("command", "flags", "message"),
    [(command, *row) for command, rows in REFUSED.items() for row in rows],
)
def test_is_refused_in_one_line(stands_for, tmp_path, command, flags, message):
    folder, words = stands_for

    def filled(text: str) -> str:
        for word, path in {**words, "OUT": tmp_path / "out"}.items():
            text = text.replace(word, str(path))
        return text

    given = []
    for word in flags.split():
        given += SYSTEMS[word].flags() if word in SYSTEMS else [filled(word)]
    output = {"meta_train": "run_dir", "meta_test": "output_dir"}.get(command)
    if output and message != f"--{output}" and f"--{output}=" not in flags:
        given.append(f"--{output}={tmp_path / 'out'}")
    before = contents(folder)
    process = commands.run(command, *given)
    assert (process.returncode, process.stdout) == (2, "")
    assert process.stderr.startswith("error: ") and process.stderr.count("\n") == 1
    assert filled(message) in process.stderr
    assert contents(folder) == before and not list(tmp_path.iterdir())
