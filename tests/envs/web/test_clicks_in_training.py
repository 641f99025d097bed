"""Runs from a config in which a policy names candidates and states a confidence, and is judged by its screenshots."""

import json
import re

import pytest

from tests.envs.web.test_confident_clicks import PAGE, VERIFIER
from tests.envs.web.test_judged_steps import parts
from tests.helpers.chat_server import serving
from tests.helpers.command_line import turngate_at
from tests.helpers.scripted_judge import written
from turngate.store import Store
from turngate.store.metrics import read_metrics

GOLD = ["click_candidates e1, e2", "click_at 60 40 0.9", "answer done"]
"""What the warm start teaches, until the policy does it by itself."""
WEB = """
name = "clicks"
seed = 1
[env]
id = "turngate/Web-v1"
[env.rubric]
extends = "web_judged"
[[env.rubric.rewards]]
type = "candidate_clicks"
name = "explored"
weight = 0.2
[[env.rubric.rewards]]
type = "confident_clicks"
name = "sure"
weight = 0.2
[env.kwargs]
max_turns = 3
pointing = "both"
candidates = 2
confidence = true
[env.tasks]
type = "web_site"
file = "tasks.jsonl"
folder = "site"
verifier = "lamp_trained_checks:lamp_is_lit"
"""
TRAINED = (
    WEB.replace("web_judged", "web")
    + """
[model]
layers = 1
width = 32
heads = 2
vocabulary = 500
[warm_start]
episodes = 2
epochs = 60
lr = 1e-2
[policy]
turn_tokens = 16
context = 1200
concurrency = 4
[train]
steps = 1
tasks_per_step = 1
group_size = 4
[eval]
tasks = 1
"""
)
JUDGED = (
    WEB.replace("confidence = true", 'confidence = true\nscreenshot = "plain"')
    + """
[policy]
type = "openai"
url = "URL"
model = "player"
[[examine]]
type = "steps"
name = "step_verdict"
votes = 1
screenshots = true
judge = {type = "server", url = "URL", model = "seer", attempts = 1}
[eval]
tasks = 1
splits = ["train"]
temperature = 1.0
"""
)


@pytest.fixture
def site(tmp_path, monkeypatch):
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "index.html").write_text(PAGE)
    (tmp_path / "lamp_trained_checks.py").write_text(VERIFIER)
    rows = [
        {"id": split, "prompt": "Light.", "target": "#on", "gold": GOLD, "split": split}
        for split in ("train", "heldout")
    ]
    (tmp_path / "tasks.jsonl").write_text("\n".join(map(json.dumps, rows)))
    monkeypatch.syspath_prepend(str(tmp_path))
    return tmp_path


def earned(groups):
    """What the episodes of a run earned, by component."""
    events = [event for group in groups for score in group.scores for event in score.ledger]
    return {name: [event.value for event in events if event.name == name] for name in ("explored", "sure", "steps")}


@pytest.mark.component
def test_a_policy_that_names_candidates_and_a_confidence_is_paid_for_them_in_training(site):
    (site / "web.toml").write_text(TRAINED)
    assert turngate_at(site, "train", "web.toml") == 0
    (row,) = read_metrics(site / "runs" / "clicks" / "metrics.jsonl")
    assert row["train/unusable_share"] == 0
    paid = earned(Store(site / "runs" / "clicks").read(1, "train"))
    assert any(value == pytest.approx(0.5**0.5) for value in paid["explored"])
    assert any(value == pytest.approx(0.99) for value in paid["sure"])


@pytest.mark.component
def test_a_judge_is_sent_the_screenshots_of_the_pages_that_the_policy_saw(site):
    heard = []

    def script(body, n):
        if body["model"] == "player":
            return GOLD[sum(message["role"] == "assistant" for message in body["messages"])]
        text, images = parts(body)
        turns = sorted({int(number) for number in re.findall(r"turn (\d+), agent", text)})
        if len(turns) < len(GOLD):  # a canary: null work
            return written(text, {"steps": [{"turn": 0, "verdict": "wrong", "quote": ""}]})
        heard.append(images)
        quote = {"turn": 1, "verdict": "wrong", "quote": GOLD[1]}
        return written(text, {"steps": [{"turn": 0, "verdict": "ok"}, quote, {"turn": 2, "verdict": "ok"}]})

    with serving(script) as server:
        (site / "web.toml").write_text(JUDGED.replace("URL", server.url))
        assert turngate_at(site, "eval", "--config", "web.toml", "--out", "kept") == 0
    groups = list(Store(site / "kept").read())
    for group in groups:
        (one,) = group.trajectories
        assert [turn.observation.images[0] for turn in one.turns] in heard
        verdicts = {fact.turn: fact.value for fact in one.evidence if fact.name == "step_verdict"}
        assert verdicts == {0: 1.0, 1: 0.0, 2: 1.0}
    paid = earned(groups)
    assert paid["steps"][:3] == [1.0, 0.0, 1.0]
    assert (paid["explored"][0], paid["sure"][0]) == (pytest.approx(0.5**0.5), pytest.approx(0.99))
