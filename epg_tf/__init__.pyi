from .artifacts.artifact import (
    LearnedLoss,
    LearnedObjective,
    load_loss,
    load_objective,
    save_loss,
    save_objective,
)
from .artifacts.export import export_loss, export_objective
from .artifacts.learned_loss_agent import LearnedLossAgent
from .artifacts.saved_models import open_saved_model
from .core.errors import (
    CommunicationError,
    ConfigError,
    EpgError,
    Interrupted,
    RecordError,
    RenderError,
    RunFailed,
    Stopped,
    VersionError,
)
from .epg.outer_loop import evolve
from .epg.settings import Experiment
from .epg.shards import Shards
from .epg.state import EpochResult, EvolutionState
from .evaluation.evaluate import evaluate, evaluate_objective
from .evaluation.results import Results, read_results
from .evaluation.summary import Summary, summarize
from .evaluation.trained_agent import TrainedAgent, train_agent, train_objective_agent
from .metagenrl.population import meta_learn
from .metagenrl.settings import MetaGenRLExperiment
from .metagenrl.state import ObjectiveState, RoundResult
from .runs.config_files import load_experiment, package_configs
from .runs.evolution import evolve_in_folder
from .runs.learn_loss import learn_loss
from .runs.metagenrl import meta_learn_in_folder
from .runs.reader import RunRecord, read_run
from .tasks.gymnasium_environment import register_environments
from .tasks.tf_agents_environment import load_environment

__version__: str
__all__ = [
    "CommunicationError",
    "ConfigError",
    "EpgError",
    "EpochResult",
    "EvolutionState",
    "Experiment",
    "Interrupted",
    "LearnedLoss",
    "LearnedLossAgent",
    "LearnedObjective",
    "MetaGenRLExperiment",
    "ObjectiveState",
    "RecordError",
    "RenderError",
    "RunFailed",
    "Results",
    "RoundResult",
    "RunRecord",
    "Shards",
    "Stopped",
    "Summary",
    "TrainedAgent",
    "VersionError",
    "evaluate",
    "evaluate_objective",
    "evolve",
    "evolve_in_folder",
    "learn_loss",
    "export_loss",
    "export_objective",
    "load_environment",
    "load_experiment",
    "load_loss",
    "load_objective",
    "meta_learn",
    "meta_learn_in_folder",
    "open_saved_model",
    "read_results",
    "read_run",
    "register_environments",
    "save_loss",
    "save_objective",
    "package_configs",
    "summarize",
    "train_agent",
    "train_objective_agent",
]
