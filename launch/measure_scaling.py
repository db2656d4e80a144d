"""Evolves the same loss on several numbers of ranks, and compares times and results.

    epg-tf measure-scaling --config=random_hopper:laptop \\
        --layouts=0x2,1x1,2x1,4x1

A layout is RANKSxTHREADS; 0 ranks mean one process without Horovod. docs/scaling.md shows results.
"""

from __future__ import annotations

import dataclasses
import hashlib
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from . import command_line, config_flag  # first: it silences the frameworks

from absl import flags

from epg_tf.core import files, formatting
from epg_tf.epg.baseline_settings import RIVALS
from epg_tf.runs.reader import read_run

flags.adopt_module_key_flags(config_flag)
_LAYOUTS = flags.DEFINE_list(
    "layouts", ["0x2", "1x1", "2x1", "4x1"], "RANKSxTHREADS of each run; 0x2: no Horovod."
)
_EPOCHS = flags.DEFINE_integer(
    "epochs",
    3,
    "Epochs of each run; the first, which compiles, is not timed.",
    lower_bound=2,
    upper_bound=10**4,
)
_JSON = flags.DEFINE_string("json", None, "File for the numbers.")
_SEED = flags.DEFINE_integer("seed", 0, "Seed of all randomness.", lower_bound=0)

_ROOT = Path(__file__).resolve().parents[1]


@dataclasses.dataclass(frozen=True)
class Layout:
    """How many ranks (0: no Horovod) with how many threads each."""

    ranks: int
    threads: int

    @property
    def cores(self) -> int:
        """Threads over all ranks."""
        return max(self.ranks, 1) * self.threads

    def launcher(self) -> list[str]:
        """Returns the words before `python`."""
        if not self.ranks:
            return []
        horovodrun = str(Path(sys.executable).parent / "horovodrun")
        return [horovodrun, "--gloo", "-np", str(self.ranks), "-H", f"localhost:{self.ranks}"]


def main(argv: list[str]) -> int:
    """Runs all layouts; returns 0 if their bits are the same, else 1."""
    del argv
    config_flag.refuse("evolution.epochs", reason="--epochs takes its place")
    config_flag.refuse(*RIVALS, reason="no rival learns in this command; leave it out")
    config_flag.refuse("compute.threads", reason="--layouts takes its place")
    experiment = config_flag.experiment()
    command_line.check_json(_JSON)
    layouts = [_layout(word) for word in _LAYOUTS.value or [""]]
    for number in (signal.SIGINT, signal.SIGTERM):
        # SystemExit passes through `measure`, which ends its process.
        signal.signal(number, lambda received, frame: sys.exit(128 + received))
    evolution = dataclasses.replace(experiment.evolution, epochs=_EPOCHS.value)
    print(
        f"{experiment.task.family}: {_EPOCHS.value} epochs of {evolution.lives} lives in shards of "
        f"{experiment.compute.shard_lives}\n\n| ranks x threads | seconds an epoch | env steps/s "
        "| efficiency | in collectives, waiting included | bytes an epoch | SHA-256 of phi "
        "|\n|---|---|---|---|---|---|---|"
    )
    rows: list[dict[str, Any]] = []
    for layout in layouts:
        compute = dataclasses.replace(experiment.compute, threads=layout.threads)
        row = measure(
            layout,
            dataclasses.replace(experiment, evolution=evolution, compute=compute).to_mapping(),
            str(config_flag.file_of_families()),
        )
        row["efficiency"] = (
            row["core_seconds"] and rows[0]["core_seconds"] / row["core_seconds"] if rows else 1.0
        )
        rows.append(row)
        _print(row)
    same = len({row["phi"] for row in rows}) == 1
    print("\nphi is the same to the bit in all of them" if same else "\nphi DIFFERS between them")
    if _JSON.value:
        files.write_json(Path(_JSON.value), {"same": same, "rows": rows})
    return 0 if same else 1


def _layout(word: str) -> Layout:
    if not re.fullmatch(r"\d{1,4}x[1-9]\d{0,3}", word):
        raise command_line.UsageError(
            f"--layouts={word}: a layout is RANKSxTHREADS, e.g. 2x1; 0x2 is without Horovod"
        )
    layout = Layout(*map(int, word.split("x")))
    if layout.ranks and not Path(layout.launcher()[0]).exists():
        raise command_line.UsageError(
            f"--layouts={word} needs Horovod, which is not installed: run `make horovod`"
        )
    return layout


def measure(layout: Layout, settings: Mapping[str, Any], families: str) -> dict[str, Any]:
    """Runs meta_train in a process of its own; returns means over epochs after the first.

    Args:
      layout: Ranks and threads.
      settings: Of the experiment, nested mappings.
      families: Name of the config whose file registers the family, if it is a user's own.

    Raises:
      UsageError: It failed; the message is its error, or else its last line.
    """
    with tempfile.TemporaryDirectory() as home:
        config, folder = Path(home, "config.py"), Path(home, "run")
        config.write_text(
            "from ml_collections import ConfigDict\n\n"
            "from epg_tf.runs.config_files import load_experiment\n\n"
            f"load_experiment({families!r})  # may register a family\n\n\n"
            f"def get_config():\n    return ConfigDict({settings!r})\n"
        )
        command = [
            *layout.launcher(),
            sys.executable,
            "-m",
            f"{__package__}.meta_train",
            f"--config={config}",
            f"--run_dir={folder}",
            f"--seed={_SEED.value}",
        ]
        with subprocess.Popen(
            command, cwd=_ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        ) as process:
            try:
                output, _ = process.communicate()
            except BaseException:  # a signal, which horovodrun sends to the ranks
                process.terminate()
                raise
        if process.returncode:
            raise command_line.UsageError(
                f"--layouts={layout.ranks}x{layout.threads}: {_reason(output)}"
            )
        epochs = read_run(folder).metrics[1:]
        phi = hashlib.sha256((folder / "final" / "loss.npz").read_bytes()).hexdigest()
    means = {
        name: sum(epoch[name] for epoch in epochs) / len(epochs)
        for name in (
            "seconds",
            "env_steps_per_second",
            "communication_seconds",
            "communication_bytes",
        )
    }
    return {
        **dataclasses.asdict(layout),
        **means,
        "core_seconds": means["seconds"] * layout.cores,
        "phi": phi,
    }


def _reason(output: str) -> str:
    """Finds the error in the output of a launcher and its ranks."""
    error = re.search(r"^(?:\[\d+\]<stderr>:)?(error.*)$", output, re.MULTILINE)
    return error[1] if error else (output.strip().splitlines() or ["it failed without output"])[-1]


def _print(row: Mapping[str, Any]) -> None:
    print(
        f"| {row['ranks'] or 'no Horovod'} x {row['threads']} | {row['seconds']:.2f} | "
        f"{formatting.count(row['env_steps_per_second'])} | {row['efficiency']:.0%} | "
        f"{row['communication_seconds']:.3f} s | {row['communication_bytes']:.0f} | "
        f"{row['phi'][:12]} |",
        flush=True,
    )


if __name__ == "__main__":
    command_line.run(main)
