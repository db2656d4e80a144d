"""launch.meta_train on two hosts: loopback addresses with an sshd each, of this user and for the
test alone.

Skipped where Horovod or sshd is missing.
"""

import contextlib
import getpass
import importlib.util
import os
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.launch import commands

_PATH = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"
SSHD = shutil.which("sshd", path=_PATH)
_NEEDED = {
    "Horovod (`make horovod` builds it)": importlib.util.find_spec("horovod"),
    "sshd (package openssh-server)": SSHD,
    "ssh": shutil.which("ssh"),
    "ssh-keygen": shutil.which("ssh-keygen"),
}
_MISSING = [what for what, there in _NEEDED.items() if not there]
pytestmark = pytest.mark.skipif(bool(_MISSING), reason=f"not installed: {', '.join(_MISSING)}")

SSHD_OPTIONS = ("StrictModes=no", "UsePAM=no", "PidFile=none", "LogLevel=VERBOSE")
HOSTS = ("127.0.0.2", "127.0.0.3")
CONFIG = "--config=configs/point_goal.py"
HOROVODRUN = str(Path(sys.executable).parent / "horovodrun")
SMALL = commands.settings(evolution__epochs=3, compute__shard_lives=2, compute__threads=1)


@pytest.fixture
def ssh(tmp_path, monkeypatch):
    """Serves ssh on both hosts; yields horovodrun's flags that reach them, and the sshds' log."""
    home, port = tmp_path / "ssh", _free_port()
    home.mkdir(mode=0o700)
    for key in ("host", "user"):
        subprocess.run(
            ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", home / key], check=True
        )
    # Horovod's ssh must not write to the user's own list of known hosts.
    (home / "ssh").write_text(
        f"#!/bin/sh\nexec {shutil.which('ssh')} -F none -o UserKnownHostsFile=/dev/null "
        f'-o IdentitiesOnly=yes -o LogLevel=ERROR "$@"\n'
    )
    (home / "ssh").chmod(0o700)
    monkeypatch.setenv("PATH", f"{home}:{os.environ['PATH']}")
    with contextlib.ExitStack() as stack:
        if (
            os.geteuid() == 0 and not (empty := Path("/run/sshd")).exists()
        ):  # where sshd confines itself
            empty.mkdir()
            stack.callback(empty.rmdir)
        for host in HOSTS:
            keys = f"AuthorizedKeysFile={home / 'user.pub'}"
            addresses = (f"ListenAddress={host}", f"Port={port}", keys)
            server = subprocess.Popen(
                [SSHD, "-D", "-f", "/dev/null", "-h", home / "host", "-E", home / "log"]
                + [f"-o{option}" for option in (*SSHD_OPTIONS, *addresses)]
            )
            stack.callback(server.wait)
            stack.callback(server.terminate)
            _wait_for(host, port, server)
        yield ["-p", str(port), "-i", str(home / "user")], home / "log"


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind((HOSTS[0], 0))
        return probe.getsockname()[1]


def _wait_for(host: str, port: int, server: subprocess.Popen) -> None:
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline and server.poll() is None:
        with contextlib.suppress(OSError), socket.create_connection((host, port), timeout=1):
            return
        time.sleep(0.05)
    pytest.skip(f"sshd does not serve {host}:{port} here")


def test_two_hosts_give_the_bits_of_one_process(ssh, tmp_path):
    """Two ranks on each host; a hosts file as in docs/many_machines.md."""
    flags, log = ssh
    (tmp_path / "hosts").write_text("".join(f"{host} slots=2\n" for host in HOSTS))
    under = [HOROVODRUN, "--gloo", "-np", "4", "-hostfile", str(tmp_path / "hosts")]
    under += ["--network-interfaces", "lo", *flags]
    alone = commands.run("meta_train", CONFIG, f"--run_dir={tmp_path / 'alone'}", *SMALL)
    assert alone.returncode == 0, alone.stderr
    spread = commands.run(
        "meta_train", CONFIG, f"--run_dir={tmp_path / 'spread'}", *SMALL, under=under
    )
    assert spread.returncode == 0, spread.stdout + spread.stderr
    assert "on 4 ranks" in spread.stdout
    logins = [
        line
        for line in log.read_text().splitlines()
        if f"Accepted publickey for {getpass.getuser()}" in line
    ]
    assert len(logins) >= 4  # each rank was started over ssh
    for name in ("best", "final"):
        phis = [(tmp_path / run / name / "loss.npz").read_bytes() for run in ("alone", "spread")]
        assert phis[0] == phis[1]


def test_a_host_that_cannot_be_reached_is_named(ssh, tmp_path):
    flags, _ = ssh
    under = [HOROVODRUN, "--gloo", "-np", "2", "-H", f"{HOSTS[0]}:1,127.0.0.4:1"]
    under += ["--network-interfaces", "lo", *flags]
    process = commands.run(
        "meta_train", CONFIG, f"--run_dir={tmp_path / 'run'}", *SMALL, under=under, timeout=120
    )
    assert process.returncode != 0 and "127.0.0.4" in process.stdout + process.stderr
    assert not (tmp_path / "run").exists()
