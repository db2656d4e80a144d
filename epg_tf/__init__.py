"""Learns loss functions for reinforcement learning. Start reading in `epg_tf/algorithms/`."""

from epg_tf.algorithms.evolution import EpochResult, EvolutionState, evolve
from epg_tf.algorithms.meta_test import meta_test, score
from epg_tf.algorithms.shards import Shards
from epg_tf.config import ConfigError, Experiment, from_mapping
from epg_tf.export import export_loss
from epg_tf.learned_loss import LearnedLoss, load_loss, save_loss
from epg_tf.records.saved_models import open_saved_model
from epg_tf.tasks.gymnasium_environment import register_environments

__version__ = "0.1.0"
__all__ = ["ConfigError", "EpochResult", "EvolutionState", "Experiment", "LearnedLoss", "Shards", "evolve",
           "export_loss", "from_mapping", "load_loss", "meta_test", "open_saved_model", "register_environments",
           "save_loss", "score"]

register_environments()
