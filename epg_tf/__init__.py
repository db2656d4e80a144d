"""Learns loss functions for reinforcement learning. Start reading in `epg_tf/epg/outer_loop.py`."""

from epg_tf.artifacts.export import export_loss
from epg_tf.artifacts.learned_loss import LearnedLoss, load_loss, save_loss
from epg_tf.artifacts.saved_models import open_saved_model
from epg_tf.core.errors import ConfigError, EpgError, RecordError
from epg_tf.core.experiment import Experiment, from_mapping
from epg_tf.epg.outer_loop import evolve
from epg_tf.epg.shards import Shards
from epg_tf.epg.state import EpochResult, EvolutionState
from epg_tf.evaluation.evaluate import evaluate
from epg_tf.evaluation.results import Results, read_results
from epg_tf.evaluation.summary import Summary, summarize
from epg_tf.runs.evolution_session import evolve_in_folder
from epg_tf.runs.metagenrl_session import meta_learn_in_folder
from epg_tf.runs.reader import RunRecord, read_run
from epg_tf.tasks.gymnasium_environment import register_environments

__version__ = "0.1.0"
__all__ = [
    "ConfigError",
    "EpgError",
    "EpochResult",
    "EvolutionState",
    "Experiment",
    "LearnedLoss",
    "RecordError",
    "Results",
    "RunRecord",
    "Shards",
    "Summary",
    "evaluate",
    "evolve",
    "evolve_in_folder",
    "export_loss",
    "from_mapping",
    "load_loss",
    "meta_learn_in_folder",
    "open_saved_model",
    "read_results",
    "read_run",
    "register_environments",
    "save_loss",
    "summarize",
]

register_environments()
