"""Learns loss functions for reinforcement learning. Start reading in `epg_tf/epg/outer_loop.py`.

Evolved Policy Gradients:
  from_mapping: settings from plain values, an `Experiment`.
  evolve: evolves a loss; yields an `EpochResult`, which holds an `EvolutionState`, per epoch.
  evolve_in_folder: the same, recorded in a folder and resumable.
  Shards: the worker threads that train agents for `evolve`.
  evaluate: trains fresh agents with a loss and by other methods.
  load_loss, save_loss: read and write a `LearnedLoss`.
  export_loss: writes a loss as a SavedModel, for use without this package.
  open_saved_model: reads an exported loss or a saved policy.

MetaGenRL:
  metagenrl_from_mapping: settings from plain values, a `MetaGenRLExperiment`.
  meta_learn: meta-learns an objective; yields a `RoundResult`, with an `ObjectiveState`, per round.
  meta_learn_in_folder: the same, recorded in a folder and resumable.
  evaluate_objective: trains fresh agents with an objective and by other methods.
  load_objective, save_objective: read and write a `LearnedObjective`.

Results and runs of both:
  summarize: a `Summary` of each method in a table of `Results`.
  read_results: the table that a test wrote.
  read_run: a `RunRecord` of a run's folder.
  register_environments: makes the tasks known to Gymnasium; importing this package calls it.

Errors, all with the base `EpgError`:
  ConfigError: a setting is unusable.
  RecordError: a file or folder is unusable; VersionError: another version wrote it.
  CommunicationError: ranks cannot work together.
  RenderError: nothing can be drawn on this machine.
  Interrupted, Stopped: work ended early because `stop` was called.
"""

from epg_tf.artifacts.export import export_loss
from epg_tf.artifacts.learned_loss import LearnedLoss, load_loss, save_loss
from epg_tf.artifacts.learned_objective import LearnedObjective, load_objective, save_objective
from epg_tf.artifacts.saved_models import open_saved_model
from epg_tf.core.errors import (
    CommunicationError,
    ConfigError,
    EpgError,
    Interrupted,
    RecordError,
    RenderError,
    Stopped,
    VersionError,
)
from epg_tf.core.experiment import Experiment, from_mapping
from epg_tf.core.metagenrl_experiment import MetaGenRLExperiment
from epg_tf.core.metagenrl_experiment import from_mapping as metagenrl_from_mapping
from epg_tf.epg.outer_loop import evolve
from epg_tf.epg.shards import Shards
from epg_tf.epg.state import EpochResult, EvolutionState
from epg_tf.evaluation.evaluate import evaluate, evaluate_objective
from epg_tf.evaluation.results import Results, read_results
from epg_tf.evaluation.summary import Summary, summarize
from epg_tf.metagenrl.population import meta_learn
from epg_tf.metagenrl.state import ObjectiveState, RoundResult
from epg_tf.runs.evolution_session import evolve_in_folder
from epg_tf.runs.metagenrl_session import meta_learn_in_folder
from epg_tf.runs.reader import RunRecord, read_run
from epg_tf.tasks.gymnasium_environment import register_environments

__version__ = "0.1.0"
__all__ = [
    "CommunicationError",
    "ConfigError",
    "EpgError",
    "EpochResult",
    "EvolutionState",
    "Experiment",
    "Interrupted",
    "LearnedLoss",
    "LearnedObjective",
    "MetaGenRLExperiment",
    "ObjectiveState",
    "RecordError",
    "RenderError",
    "Results",
    "RoundResult",
    "RunRecord",
    "Shards",
    "Stopped",
    "Summary",
    "VersionError",
    "evaluate",
    "evaluate_objective",
    "evolve",
    "evolve_in_folder",
    "export_loss",
    "from_mapping",
    "load_loss",
    "load_objective",
    "meta_learn",
    "meta_learn_in_folder",
    "metagenrl_from_mapping",
    "open_saved_model",
    "read_results",
    "read_run",
    "register_environments",
    "save_loss",
    "save_objective",
    "summarize",
]

register_environments()
