"""launch.report, as users start it; and its page in a browser."""

from __future__ import annotations

import html
import json
import re
import shutil
import subprocess

import numpy as np
import pytest

from epg_tf.baselines.method import LossName
from epg_tf.evaluation.results import Results
from epg_tf.reports.evaluation_report import write_report
from epg_tf.runs import pages
from tests.evaluation.tables import table
from tests.launch import commands

pytestmark = pytest.mark.slow
BROWSER = shutil.which("chromium")


@pytest.fixture(scope="module")
def tested(tmp_path_factory):
    """The folder of a test that nobody made, with a name that HTML has a meaning for."""
    path = tmp_path_factory.mktemp("tests") / "a<b>&test"
    path.mkdir()
    curve = np.arange(20.0).reshape(4, 5)
    kl = np.full((4, 5), 0.1)
    results = Results.join(
        [
            table("epg", [3.0, 5.0, 4.0, 6.0], curve, kl=kl, loss=LossName("</script>", 0)),
            table("ppo", [1.0, 0.0, 2.0, 1.5], curve - 1.0, kl=kl),
        ]
    )
    task = {"family": "point_goal", "episode_limit": 25}
    about = {"loss": "</script>", "phase": "test", "task": task, "seed": 0, "updates": 5}
    write_report(path, results, about, "title")
    return path


def test_the_page_is_written_and_replaced(tested, tmp_path):
    """A page is replaced without asking; another file stays."""
    output = tmp_path / "page.html"
    flags = [f"--run_dir={tested}", f"--output={output}", "--nofilm"]
    process = commands.run("report", *flags)
    assert (process.returncode, process.stderr) == (0, "")
    assert process.stdout == f"the page is in {output}\n"
    assert output.read_text() == pages.make_page([tested], film=False)
    assert commands.run("report", *flags).returncode == 0
    output.write_text("mine")
    process = commands.run("report", *flags)
    assert process.returncode == 2 and process.stderr.count("\n") == 1
    assert f"--output={output}: there is such a file" in process.stderr
    assert output.read_text() == "mine"
    assert commands.run("report", *flags, "--overwrite").returncode == 0
    assert output.read_text() != "mine" and list(tmp_path.iterdir()) == [output]


# Tells the frame around it, as JSON, which pictures are drawn, and whether the page is too wide.
PROBE = """
const main = () => parent.postMessage(JSON.stringify({
  evil: "evil" in window,
  widths: [...document.images].map(image => image.naturalWidth),
  width: document.documentElement.scrollWidth,
}), "*");
window.addEventListener("load", main);
"""
# A window of a browser has at least 500 pixels, a frame as many as a phone.
FRAME = """<!DOCTYPE html><title>nothing came</title>
<script>addEventListener("message", message => document.title = message.data)</script>
<iframe src="page.html" style="width: 380px; height: 800px; border: 0"></iframe>
"""


@pytest.mark.skipif(BROWSER is None, reason="there is no chromium to open the page with")
def test_a_browser_draws_every_picture_and_runs_nothing_else(tested, tmp_path):
    """At the width of a phone; the page's policy allows the probe alone."""
    text = pages.make_page([tested], film=False)
    pictures = text.count("<img")
    text = text.replace(
        "<h1>", "<script>window.evil = 1</script><img src='http://127.0.0.1:9/x'><h1>"
    )
    text = text.replace("default-src", "script-src 'nonce-probe'; default-src")
    text = text.replace("</body>", f"<script nonce=probe>{PROBE}</script></body>")
    (tmp_path / "page.html").write_text(text)
    (tmp_path / "frame.html").write_text(FRAME)
    flags = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking"]
    flags += [f"--user-data-dir={tmp_path / 'profile'}", "--enable-logging=stderr"]
    flags += ["--virtual-time-budget=30000", "--dump-dom", (tmp_path / "frame.html").as_uri()]
    process = subprocess.run(
        [str(BROWSER), *flags], capture_output=True, text=True, timeout=240, check=True
    )
    title = re.search(r"<title>(.*?)</title>", process.stdout)[1]
    seen = json.loads(html.unescape(title))
    refused, *drawn = seen["widths"]
    assert refused == 0 and len(drawn) == pictures and min(drawn) > 0
    assert not seen["evil"] and seen["width"] <= 380
    assert process.stderr.count("Content Security Policy") >= 2
