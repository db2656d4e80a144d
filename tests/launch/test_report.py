"""launch.report, as users start it; and its page in a browser."""

from __future__ import annotations

import html
import json
import re
import shutil
import subprocess
import tarfile

import numpy as np
import pytest

from epg_tf.baselines.method import LossName
from epg_tf.core.config_files import load_experiment
from epg_tf.core.experiment import Experiment
from epg_tf.epg.epoch_metrics import COLUMNS
from epg_tf.evaluation.results import Results
from epg_tf.metagenrl.population import metric_columns
from epg_tf.reports.evaluation_report import write_report
from epg_tf.runs import pages
from epg_tf.runs.metrics import MetricsFile
from tests.evaluation.tables import table
from tests.launch import commands

pytestmark = pytest.mark.slow
BROWSER = shutil.which("chromium")
NO_BROWSER = "there is no chromium to open the page with"


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


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ([], "--run_dir is missing"),
        (["--run_dir=TESTED,TESTED", "--output=OUT/a.html"], "names a folder twice"),
        (["--run_dir=OUT", "--output=OUT/a.html"], "--run_dir=OUT: this is no run, test or study"),
        (["--run_dir=TESTED"], "--output is missing"),
        (["--run_dir=TESTED", "--output=OUT/a.txt"], "must be a file that ends in .html"),
        (["--run_dir=TESTED", "--output=OUT/b/a.html"], "is not a folder that can be written to"),
    ],
)
def test_what_cannot_be_is_one_line(tested, tmp_path, flags, message):
    def filled(text: str) -> str:
        return text.replace("TESTED", str(tested)).replace("OUT", str(tmp_path))

    process = commands.run("report", *map(filled, flags), "--nofilm")
    assert process.returncode == 2 and process.stderr.count("\n") == 1
    assert filled(message) in process.stderr and list(tmp_path.iterdir()) == []


# Shows every view of every chart, points at one value, and zooms; then tells the frame around it
# what came of that, as JSON.
PROBE = """
const drawn = chart => chart.querySelectorAll(".trace path[d], .boxlayer path[d]").length > 0;
const found = {evil: "evil" in window, views: 0, blank: [], hovered: 0, silent: [], zoomed: 0};
const main = async () => {
  for (const chart of document.querySelectorAll(".plotly-graph-div")) {
    const menu = (chart.layout.updatemenus || [])[0];
    const views = menu ? menu.buttons : [{label: "only", args: [{}, {}]}];
    for (const view of views) {
      await Plotly.update(chart, ...view.args);
      found.views += 1;
      if (!drawn(chart)) found.blank.push(view.label);
    }
    await Plotly.update(chart, ...views[0].args);
    let labelled = false;
    for (const [number, trace] of chart._fullData.entries()) {
      for (const point of [0, 1]) {
        if (labelled || trace.visible !== true) continue;
        Plotly.Fx.hover(chart, [{curveNumber: number, pointNumber: point}]);
        await new Promise(done => setTimeout(done, 80));
        labelled = chart.querySelectorAll(".hoverlayer .hovertext, .hoverlayer .legend").length > 0;
      }
    }
    found.hovered += labelled;
    if (!labelled) found.silent.push(chart._fullData.map(trace => trace.type).join());
    await Plotly.relayout(chart, {"xaxis.range": [1, 2], "xaxis.autorange": false});
    found.zoomed += String(chart._fullLayout.xaxis.range) === "1,2";
  }
  found.charts = document.querySelectorAll(".chart").length;
  found.width = document.documentElement.scrollWidth;
  found.window = window.innerWidth;
  parent.postMessage(JSON.stringify(found), "*");
};
window.addEventListener("load", main);
"""
# A window of a browser has at least 500 pixels, a frame as many as a phone.
FRAME = """<!DOCTYPE html><title>nothing came</title>
<script>addEventListener("message", message => document.title = message.data)</script>
<iframe src="page.html" style="width: {width}px; height: 800px; border: 0"></iframe>
"""


def browse(text: str, folder, width: int) -> tuple[dict, str]:
    """Opens a page in a browser; returns what the probe found and the lines of the console."""
    nonce = re.search(r'<script nonce="(\w+)">', text)[1]
    (folder / "frame.html").write_text(FRAME.format(width=width))
    page = text.replace("</body>", f'<script nonce="{nonce}">{PROBE}</script></body>')
    (folder / "page.html").write_text(page)
    process = subprocess.run(
        [
            str(BROWSER),
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            f"--user-data-dir={folder / 'profile'}",
            "--enable-logging=stderr",
            "--virtual-time-budget=30000",
            "--window-size=1300,900",
            "--dump-dom",
            (folder / "frame.html").as_uri(),
        ],
        capture_output=True,
        text=True,
        timeout=240,
        check=True,
    )
    title = re.search(r"<title>(.*?)</title>", process.stdout)[1]
    console = [line for line in process.stderr.splitlines() if "CONSOLE" in line]
    return json.loads(html.unescape(title)), "\n".join(console)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """The folder of a run with made-up numbers."""
    path = tmp_path_factory.mktemp("runs") / "run"
    path.mkdir()
    description = {"kind": "evolution", "seed": 0, "config": Experiment().to_mapping()}
    (path / "config.json").write_text(json.dumps(description))
    metrics = MetricsFile(path / "metrics.csv")
    for epoch in range(1, 6):
        metrics.append({**dict.fromkeys(COLUMNS, float(epoch)), "epoch": epoch})
    return path


@pytest.fixture(scope="module")
def metagenrl(tmp_path_factory):
    """The folder of a run of MetaGenRL with made-up numbers."""
    path = tmp_path_factory.mktemp("metagenrl") / "run"
    path.mkdir()
    experiment = load_experiment("metagenrl_laptop")
    description = {"kind": "metagenrl", "seed": 0, "config": experiment.to_mapping()}
    (path / "config.json").write_text(json.dumps(description))
    metrics = MetricsFile(path / "metrics.csv")
    for epoch in range(1, 6):
        metrics.append({**dict.fromkeys(metric_columns(experiment), float(epoch)), "epoch": epoch})
    return path


STUDY = commands.ROOT / "results" / "study_point_goal"


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    """The study of PointGoal that is kept, with its archive unpacked."""
    path = tmp_path_factory.mktemp("study") / "study"
    shutil.copytree(STUDY, path)
    with tarfile.open(STUDY / "raw.tar.xz") as archive:
        archive.extractall(path, filter="data")
    return path


@pytest.mark.skipif(BROWSER is None, reason=NO_BROWSER)
@pytest.mark.parametrize("width", [380, 1200])
@pytest.mark.parametrize("kinds", [["run", "tested"], ["metagenrl"], ["study"]])
def test_a_browser_draws_every_view_of_every_chart(request, tmp_path, width, kinds):
    """At the width of a phone, too, without an error in the console; charts answer to a mouse."""
    text = pages.make_page([request.getfixturevalue(kind) for kind in kinds], film=False)
    found, console = browse(text, tmp_path, width)
    assert console == ""
    assert found["charts"] == text.count('<div class="chart">') > 0
    assert found["views"] >= found["charts"] and found["blank"] == []
    assert found["hovered"] == found["zoomed"] == found["charts"], found
    if len(kinds) == 2:
        assert found["charts"] == 6 and found["views"] > 20
    assert found["width"] <= found["window"] == width
    assert not found["evil"]


@pytest.mark.skipif(BROWSER is None, reason=NO_BROWSER)
def test_the_policy_stops_a_script_that_got_in(tested, tmp_path):
    text = pages.make_page([tested], film=False)
    got_in = "<script>window.evil = 1</script><img src='http://127.0.0.1:9/x.png'>"
    found, console = browse(text.replace("<h1>", f"{got_in}<h1>"), tmp_path, 800)
    assert not found["evil"] and console.count("Content Security Policy") >= 2
