"""Learns loss functions for reinforcement learning. Start reading in `epg_tf/algorithms/`."""

from epg_tf.artifacts.export import export_loss
from epg_tf.artifacts.learned_loss import LearnedLoss, load_loss, save_loss
from epg_tf.artifacts.saved_models import open_saved_model
from epg_tf.core.errors import ConfigError
from epg_tf.core.experiment import Experiment, from_mapping
from epg_tf.epg.outer_loop import evolve
from epg_tf.epg.shards import Shards
from epg_tf.epg.state import EpochResult, EvolutionState
from epg_tf.evaluation.evaluate import evaluate
from epg_tf.evaluation.results import Results, read_results
from epg_tf.evaluation.summary import Summary, summarize
from epg_tf.tasks.gymnasium_environment import register_environments

__version__ = "0.1.0"
__all__ = [
    "ConfigError",
    "EpochResult",
    "EvolutionState",
    "Experiment",
    "LearnedLoss",
    "Results",
    "Shards",
    "Summary",
    "evaluate",
    "evolve",
    "export_loss",
    "from_mapping",
    "load_loss",
    "open_saved_model",
    "read_results",
    "register_environments",
    "save_loss",
    "summarize",
]

register_environments()
