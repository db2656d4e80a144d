"""The one table of results: every summary, picture and page of a test is computed from it.

One row per method, loss, task, agent and point in its learning, and one more per agent for its
final policy. Agents that failed keep their rows, with NaN as numbers.
"""

from __future__ import annotations

import csv
import dataclasses
import io
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from epg_tf.baselines.method import LearningCurves, Method, Request
from epg_tf.core import files
from epg_tf.core.errors import RecordError
from epg_tf.core.types import Array
from epg_tf.tasks.settings import TaskConfig

LEARNING = "learning"
EVALUATION = "evaluation"
FINAL = "final"
RESULTS_FILE = "curves.csv"  # in the folder of a test
EPISODES = (LEARNING, EVALUATION, FINAL)
MethodKey = tuple[str, str]  # key of a method and name of its loss, empty where there is none

_NO_SEED = -1
_FILE_LIMIT = 2**30  # bytes


@dataclasses.dataclass(frozen=True, eq=False)
class Results:
    """Holds a table of N rows as read-only columns, each [N].

    Attributes:
      method: Key of the method, e.g. "ppo".
      loss: Name of the learned loss; empty where the method has none.
      loss_seed: Seed of its meta-training; -1 where there is none.
      task: Family and episode limit, see `task_name`; agent i of every method meets the same sample
        of it.
      agent: Number of the agent, from 0.
      env_steps: Env steps of learning before the row's episodes ended.
      episodes: What the row's return is of: "learning", the newest episode of learning;
        "evaluation", episodes apart from learning; "final", episodes of the final policy.
      returns: Return ("return" in files); NaN before the first episode and where the agent failed.
      kl: KL divergence (nats) of the update that ends at the row; NaN where not measured.
      success: Of final rows: share of their episodes that ended at the goal; else NaN.
      policy_sha256: Of final rows: hash of the policy's and memory's parameters; else empty.
    """

    method: Array
    loss: Array
    loss_seed: Array
    task: Array
    agent: Array
    env_steps: Array
    episodes: Array
    returns: Array
    kl: Array
    success: Array
    policy_sha256: Array

    def __post_init__(self) -> None:
        """Raises ValueError where columns differ in length."""
        shapes = {name: np.shape(getattr(self, name)) for name in COLUMNS}
        if len(set(shapes.values())) > 1 or len(shapes["method"]) != 1:
            raise ValueError(f"columns of results must all be [N]; got {shapes}")
        for name in COLUMNS:
            column = np.asarray(getattr(self, name)).view()
            column.flags.writeable = False
            object.__setattr__(self, name, column)

    def __len__(self) -> int:
        return len(self.method)

    @staticmethod
    def join(tables: Sequence[Results]) -> Results:
        """Returns the rows of all tables, in order."""
        if not tables:
            return _table(lambda name: _parsed(name, ()))
        return _table(lambda name: np.concatenate([getattr(table, name) for table in tables]))

    def rows(self, chosen: Array) -> Results:
        """Returns the rows where `chosen`, [N] bool, is true."""
        return _table(lambda name: getattr(self, name)[chosen])

    def select(
        self, method: str | None = None, loss: str | None = None, episodes: str | None = None
    ) -> Results:
        """Returns the rows with these values; None means any."""
        wanted = {"method": method, "loss": loss, "episodes": episodes}
        chosen = np.ones(len(self), bool)
        for name, value in wanted.items():
            if value is not None:
                chosen &= getattr(self, name) == value
        return self.rows(chosen)

    def by_method(self) -> dict[MethodKey, Results]:
        """Returns the rows of each method and loss, in the order of the table."""
        pairs = dict.fromkeys(zip(self.method, self.loss, strict=True))
        return {(method, loss): self.select(method, loss) for method, loss in pairs}

    def groups(self) -> dict[str, Results]:
        """Returns the rows of each method, in the order of the table.

        Keys are names of methods; where a method used several losses, `METHOD LOSS`.
        """
        found = self.by_method()
        methods = [method for method, _ in found]
        return {
            method if methods.count(method) == 1 else f"{method} {loss}": table
            for (method, loss), table in found.items()
        }

    def agents(self) -> list[tuple[str, str, str, int]]:
        """Returns the (method, loss, task, number) of every agent, in the order of the table."""
        return list(dict.fromkeys(self._owners()))

    def _owners(self) -> list[tuple[str, str, str, int]]:
        """Returns the agent of each row."""
        columns = (self.method, self.loss, self.task, self.agent)
        return list(zip(*(column.tolist() for column in columns), strict=True))

    def pivot(self, column: str = "returns") -> tuple[Array, Array]:
        """Returns learning curves: rows of all kinds of episodes but the final ones.

        Returns:
          (env steps [T], values [L, T], NaN where there is no row); agents as in `agents`.
        """
        curve = self.rows(self.episodes != FINAL)
        steps = np.unique(curve.env_steps.astype(np.int64))
        places = {owner: row for row, owner in enumerate(self.agents())}
        found = np.full((len(places), len(steps)), np.nan)
        owners = [places[owner] for owner in curve._owners()]
        if owners:
            found[owners, np.searchsorted(steps, curve.env_steps)] = getattr(curve, column)
        return steps, found

    def final(self, column: str = "returns") -> Array:
        """Returns a column of the final rows, [L], agents as in `agents`."""
        last = self.select(episodes=FINAL)
        by_owner = dict(zip(last._owners(), getattr(last, column).tolist(), strict=True))
        return np.array([by_owner[owner] for owner in self.agents()])

    def write(self, path: files.PathLike) -> None:
        """Writes the table as CSV: NaN as `nan`, no seed as an empty cell.

        Raises:
          OSError: The file cannot be written.
        """
        columns = [getattr(self, name).tolist() for name in COLUMNS]
        seed = COLUMNS.index("loss_seed")
        columns[seed] = ["" if value == _NO_SEED else value for value in columns[seed]]
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(HEADER)
        writer.writerows(zip(*columns, strict=True))
        files.write_atomically(path, lambda stream: stream.write(text.getvalue().encode()))


COLUMNS = tuple(field.name for field in dataclasses.fields(Results))
HEADER = tuple("return" if name == "returns" else name for name in COLUMNS)
_INTEGERS = ("loss_seed", "agent", "env_steps")
_NUMBERS = ("returns", "kl", "success")


def read_results(path: files.PathLike) -> Results:
    """Reads a table that `Results.write` wrote.

    Args:
      path: The file, or the folder of a test, which holds it as `curves.csv`.

    Raises:
      RecordError: It is missing, unreadable, above 1 GB, or not such a table; one line that begins
        with the path.
    """
    path = Path(path)
    if path.is_dir():
        path /= RESULTS_FILE
    try:
        if not path.is_file():
            raise RecordError("no such file")
        if path.stat().st_size > _FILE_LIMIT:
            raise RecordError(f"it is {path.stat().st_size} bytes, above {_FILE_LIMIT}")
        with open(path, encoding="utf-8-sig", newline="") as stream:
            header, *lines = list(csv.reader(stream)) or [[]]
        if tuple(header) != HEADER:
            raise RecordError(f"its columns are not {', '.join(HEADER)}")
        cells = dict(zip(COLUMNS, zip(*lines, strict=True), strict=True)) if lines else {}
        table = _table(lambda name: _parsed(name, cells.get(name, ())))
        if unknown := set(table.episodes) - set(EPISODES):
            raise RecordError(f"episodes={min(unknown)[:50]!r} is none of {', '.join(EPISODES)}")
    except RecordError as error:
        raise RecordError(
            f"{path}: {error}; name the folder of a test of epg-tf meta-test, or its {RESULTS_FILE}"
        ) from error
    except (OSError, ValueError, OverflowError, csv.Error) as error:
        raise RecordError(
            f"{path}: the results cannot be read ({files.one_line(error)[:200]}); restore the file "
            "or run the test again"
        ) from error
    return table


def _parsed(name: str, cells: Sequence[str]) -> Array:
    if name in _INTEGERS:
        return np.array([int(cell) if cell else _NO_SEED for cell in cells], np.int64)
    return np.array(cells, np.float64 if name in _NUMBERS else object)


def _table(column: Callable[[str], Array]) -> Results:
    """Returns the table of the columns that a function of their names returns."""
    return Results(*(column(name) for name in COLUMNS))


def tabulate(method: Method, request: Request, curves: LearningCurves) -> Results:
    """Returns what a method found: L T rows of the curves, then L of the final policies."""
    agents, points = curves.returns.shape
    curve = {
        "agent": np.repeat(np.arange(agents), points),
        "env_steps": np.tile(np.asarray(curves.env_steps, np.int64), agents),
        "episodes": _constant(LEARNING if method.explores else EVALUATION, agents * points),
        "returns": np.ravel(curves.returns),
        "kl": np.ravel(curves.kl),
        "success": np.full(agents * points, np.nan),
        "policy_sha256": _constant("", agents * points),
    }
    last = {
        "agent": np.arange(agents),
        "env_steps": np.full(agents, request.env_steps),
        "episodes": _constant(FINAL, agents),
        "returns": curves.final_return,
        "kl": np.full(agents, np.nan),
        "success": curves.success,
        "policy_sha256": np.asarray(curves.policy_sha256, object),
    }
    loss, rows = method.loss, agents * (points + 1)
    seed = _NO_SEED if loss is None or loss.seed is None else loss.seed
    same = {
        "method": _constant(method.name, rows),
        "loss": _constant("" if loss is None else loss.name, rows),
        "loss_seed": np.full(rows, seed),
        "task": _constant(task_name(request.task), rows),
    }
    return _table(
        lambda name: same[name] if name in same else np.concatenate([curve[name], last[name]])
    )


def _constant(value: str, rows: int) -> Array:
    return np.full(rows, value, object)


def task_name(task: TaskConfig) -> str:
    """Returns how the table names a task: FAMILY@EPISODE_LIMIT, and the range unless usual."""
    name = f"{task.family}@{task.episode_limit}"
    return name if task.range == TaskConfig.range else f"{name} {task.range}"
