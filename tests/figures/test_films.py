"""Tests epg_tf.figures.films with a camera that draws nothing: which frames, rows and numbers."""

from __future__ import annotations

import numpy as np
import pytest

from epg_tf.artifacts.artifact import save
from epg_tf.core.errors import RenderError
from epg_tf.epg.meta_parameters import initial_phi
from epg_tf.figures import films
from epg_tf.figures.declaration import Match, Run
from epg_tf.reports import life_pictures


@pytest.fixture(autouse=True)
def _threads(monkeypatch):
    """A process has one number of threads, which other tests may have set."""
    monkeypatch.setattr(life_pictures, "configure_tensorflow", lambda threads: None)


class NoCamera:
    """Stands for a camera where there may be no OpenGL; a frame is as bright as its number."""

    def __init__(self):
        self.poses, self.closed = [], False

    def frames(self, poses, steps):
        return [self._frame(poses[step]) for step in steps]

    def _frame(self, pose):
        self.poses.append(pose)
        return np.full((12, 16, 3), len(self.poses), np.uint8)

    def close(self):
        self.closed = True


@pytest.fixture
def found(make_tiny, tmp_path):
    """A function: the name of a family -> a fresh loss for it, as figures find one."""

    def make(family: str) -> tuple[Match, object]:
        tiny = make_tiny(
            task={"family": family, "frame_skip": 4, "episode_limit": 6}, loss={"reward": True}
        )
        save(tmp_path, initial_phi(tiny, 0), tiny, {"seed": 0})
        return Match("laptop", [(Run("loss", "goal_ant:laptop"), tmp_path)]), tiny

    return make


def test_a_film_has_frames_of_the_first_a_middle_and_the_last_episode(found, monkeypatch):
    camera = NoCamera()
    monkeypatch.setattr(life_pictures, "make_camera", lambda *_: camera)
    there, tiny = found("half_cheetah")
    findings = films.film(there)
    recorder, final = life_pictures.recorded_life(tiny, initial_phi(tiny, 0), films._KEY)
    lengths = [len(episode.poses) for episode in recorder.episodes()]
    assert [row["env_steps"] for row in findings.table] == lengths and len(lengths) > 3
    assert [row["start"] for row in findings.table] == [0, *np.cumsum(lengths)[:-1]]
    assert f"{len(lengths)} episodes, {tiny.life_steps} env steps" in findings.numbers[0]
    assert findings.numbers[0].endswith(f"return of the final policy {final:.2f}")
    chosen = [recorder.episodes()[number] for number in (0, (len(lengths) - 1) // 2, -1)]
    assert len(camera.poses) == sum(min(6, len(episode.poses)) for episode in chosen)
    np.testing.assert_array_equal(camera.poses[-1].qpos, chosen[-1].poses[-1].qpos)
    assert camera.closed
    figure = findings.draw("a title")
    shown = [image.get_array() for axes in figure.axes for image in axes.images]
    assert any(np.asarray(image).max() == len(camera.poses) for image in shown)


def test_paths_are_where_the_body_was(found):
    there, tiny = found("goal_ant")
    findings = films.paths(there)
    recorder, _ = life_pictures.recorded_life(tiny, initial_phi(tiny, 0), films._KEY)
    places = np.concatenate([np.stack(episode.places) for episode in recorder.episodes()])
    drawn = np.array([[row["x"], row["y"]] for row in findings.table])
    np.testing.assert_array_equal(drawn, places[:, :2])
    assert findings.table[-1]["episode"] == len(recorder.episodes()) - 1
    assert np.ptp(drawn, axis=0).max() > 0 and findings.draw("a title").axes


def test_a_body_without_a_way_over_the_ground_has_no_paths(found):
    there, _ = found("reacher")
    with pytest.raises(RenderError, match="no way over the ground"):
        films.paths(there)
