"""Screenshots of recorded episodes as files: from pages in a real Chromium to the ring in the picture."""

import io
import json

import numpy as np
import pytest

from tests.helpers import chat_server
from tests.helpers.command_line import turngate
from turngate.report.screenshots import pointed_at
from turngate.store import Store

pytest.importorskip("matplotlib")
from matplotlib.image import imread

SITE = """<!doctype html><title>Lamp</title><body style="margin:0">
<button style="position:absolute;left:100px;top:40px;width:80px;height:40px;background:white;border:0"
 onclick="document.body.dataset.lamp = 'on'; document.body.style.background = 'lime'">Switch on</button>"""
CHECKS = """
def lamp_is_on(end):
    return end.evaluate("document.body.dataset.lamp || ''") == "on"
"""
CONFIG = """
name = "lamp"
[env]
id = "turngate/Web-v1"
[env.kwargs]
width = 300
height = 200
{kwargs}
[env.tasks]
type = "web_site"
file = "tasks.jsonl"
folder = "site"
verifier = "lamp_screens:lamp_is_on"
held_out = 0
[policy]
type = "openai"
url = "{url}"
model = "big"
[eval]
tasks = 1
splits = ["train"]
temperature = 1.0
"""


def recorded(folder, script, kwargs):
    """An episode of a server's model that plays by ``script``; its run is in the folder ``kept``."""
    (folder / "site").mkdir()
    (folder / "site" / "index.html").write_text(SITE)
    (folder / "lamp_screens.py").write_text(CHECKS)
    (folder / "tasks.jsonl").write_text(json.dumps({"id": "lamp", "prompt": "Switch the lamp on."}))

    def reply(body, number):
        return script[sum(message["role"] == "assistant" for message in body["messages"])]

    with chat_server.serving(reply) as server:
        (folder / "lamp.toml").write_text(CONFIG.format(url=server.url, kwargs=kwargs))
        assert turngate("eval", "--config", "lamp.toml", "--out", "kept") == 0
    (sampled,), (_greedy,) = [group.trajectories for group in Store("kept").read()]
    return sampled


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    return tmp_path


def ring_at(file):
    """The middle of the ring's colour in a picture, and the picture's width and height."""
    seen = imread(io.BytesIO(file.read_bytes()), format="png")[..., :3]
    rows, columns = np.nonzero((np.abs(seen - np.array([0xD5, 0x5E, 0x00]) / 255) < 0.06).all(axis=2))
    middle = None if not len(rows) else ((columns.min() + columns.max()) / 2, (rows.min() + rows.max()) / 2)
    return middle, seen.shape[1::-1]


@pytest.mark.component
@pytest.mark.parametrize(
    ("pointing", "action"), [("references", "click e1"), ("places", "click_at 140 60")], ids=["reference", "place"]
)
def test_a_recorded_episode_is_shown_with_a_ring_where_it_clicked(here, capsys, pointing, action):
    played = recorded(here, [action, "answer done"], f'screenshot = "plain"\npointing = "{pointing}"')
    assert played.ending == "finished"
    assert [pointed_at(played, turn) for turn in (0, 1)] == [(140, 60), None]
    capsys.readouterr()
    assert turngate("show", "kept", "--trajectory", played.id, "--screenshots", "shots") == 0
    assert "2 images, shots/turn_000.png to turn_001.png, and all of them in shots/strip.png" in capsys.readouterr().out
    middle, size = ring_at(here / "shots" / "turn_000.png")
    assert size == (300, 200)
    assert middle == pytest.approx((140, 60), abs=1)
    assert (here / "shots" / "turn_001.png").read_bytes() == played.turns[1].observation.images[0]  # pointed nowhere
    middle, size = ring_at(here / "shots" / "strip.png")
    assert size[0] > 2 * 300  # side by side
    assert middle[0] < size[0] / 2  # in the first one
    assert turngate("report", "kept") == 0
    assert "screenshots_0.png" in capsys.readouterr().out
    assert (here / "kept" / "report" / "screenshots_0.png").read_bytes() == (here / "shots" / "strip.png").read_bytes()


@pytest.mark.component
def test_without_recorded_images_it_is_said_what_to_set(here, capsys):
    played = recorded(here, ["answer done"], "")
    assert turngate("show", "kept", "--trajectory", played.id, "--screenshots", "shots") == 2
    said = capsys.readouterr().err
    assert f"no images were recorded of trajectory '{played.id}'" in said
    assert 'env.kwargs.screenshot = "plain"' in said
    assert not (here / "shots").exists()
    assert turngate("report", "kept") == 0
    assert not list((here / "kept" / "report").glob("screenshots*"))
    assert turngate("show", "kept", "--screenshots", "shots") == 2
    assert "--screenshots needs --trajectory ID" in capsys.readouterr().err
