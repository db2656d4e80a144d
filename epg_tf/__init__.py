"""Learns loss functions for reinforcement learning. Start reading in `epg_tf/epg/outer_loop.py`.

Names are imported when they are first used; `__init__.pyi` says where from. TensorFlow's and Gym's
notices are silenced unless TF_CPP_MIN_LOG_LEVEL is set.

Evolved Policy Gradients:
  Experiment: settings; `Experiment.from_mapping` takes plain values.
  evolve: evolves a loss; yields an `EpochResult`, which holds an `EvolutionState`, per epoch.
  evolve_in_folder: the same, recorded in a folder and resumable.
  learn_loss: chooses the settings for an environment, and evolves a loss within some minutes.
  Shards: the worker threads that train agents for `evolve`.
  evaluate: trains fresh agents with a loss and by other methods.
  train_agent: trains one of those agents; returns a `TrainedAgent`, which acts and can be saved.
  load_loss, save_loss: read and write a `LearnedLoss`.
  LearnedLossAgent: an agent of TF-Agents that learns with a loss.
  export_loss: writes a loss as a SavedModel with a card, for use without this package.
  open_saved_model: reads an exported loss or a saved policy.

MetaGenRL:
  MetaGenRLExperiment: settings; `MetaGenRLExperiment.from_mapping` takes plain values.
  meta_learn: meta-learns an objective; yields a `RoundResult`, with an `ObjectiveState`, per round.
  meta_learn_in_folder: the same, recorded in a folder and resumable.
  evaluate_objective: trains fresh agents with an objective and by other methods.
  train_objective_agent: trains one of those agents; returns a `TrainedAgent`.
  load_objective, save_objective: read and write a `LearnedObjective`.
  export_objective: writes an objective as a SavedModel with a card.

Settings, results and runs of both:
  load_experiment: settings of a config, by its name or the path of its file.
  package_configs: the names of the configs that come with the package.
  summarize: a `Summary` of each method in a table of `Results`.
  read_results: the table that a test wrote.
  read_run: a `RunRecord` of a run's folder.
  load_environment: tasks of a family as an environment of TF-Agents.
  register_environments: makes the tasks known to Gymnasium; importing this package calls it.

Errors, all with the base `EpgError`:
  ConfigError: a setting is unusable.
  RecordError: a file or folder is unusable; VersionError: another version wrote it.
  CommunicationError: ranks cannot work together.
  RenderError: nothing can be drawn on this machine.
  RunFailed: all lives, or all agents, of a run failed for too long.
  Interrupted, Stopped: work ended early because `stop` was called.
"""

import lazy_loader

from epg_tf.core import notices
from epg_tf.tasks.gymnasium_environment import register_environments

__version__ = "0.1.0"

notices.silence()
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)

register_environments()
