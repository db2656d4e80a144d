"""Keeps pytest's own answers to signals, which an imported launcher takes over; an objective."""

import signal
from pathlib import Path

import pytest

from epg_tf.artifacts.artifact import save
from epg_tf.core.random_streams import loss_generator
from epg_tf.losses.lstm_objective import initial_parameters
from epg_tf.metagenrl.settings import MetaGenRLExperiment

_BEFORE = {name: signal.getsignal(name) for name in (signal.SIGINT, signal.SIGTERM)}

from launch import command_line  # noqa: E402, F401

for _name, _handler in _BEFORE.items():
    signal.signal(_name, _handler)


@pytest.fixture(scope="session")
def untrained_objective(tmp_path_factory) -> Path:
    """The folder of an objective of MetaGenRL that was never trained."""
    folder = tmp_path_factory.mktemp("untrained_objective")
    settings = {"environments": ("gymnasium:Pendulum-v1@10",), "steps_per_agent": 60}
    agent = {"hidden": (4,), "batch": 2, "chunk": 3, "random_steps": 20, "updates_after": 20}
    small = {"round_steps": 20, "objective": {"lstm_units": 4}, "agent": agent}
    experiment = MetaGenRLExperiment.from_mapping({**settings, **small})
    parameters = initial_parameters(loss_generator(0), experiment.objective)
    save(folder, parameters, experiment, {})
    return folder
