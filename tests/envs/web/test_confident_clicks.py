"""Clicks with a stated confidence (HyperClick), from the tool to what the rubric of a config pays for them."""

import itertools
import json
import math
from dataclasses import replace

import pytest

import turngate
from turngate.errors import ConfigError, ShapeError
from turngate.rewards.outcome.gui import ConfidentClicks, click_closeness, confident_click
from turngate.rewards.rubric import Rubric

PAGE = """<!doctype html><title>Lamp</title><style>
button {position: absolute; width: 80px; height: 40px; top: 20px}</style>
<button style="left: 20px" onclick="document.body.dataset.lamp = 'on'" id=on>Switch on</button>
<button style="left: 220px" onclick="document.body.dataset.lamp = 'off'">Switch off</button>"""
VERIFIER = "def lamp_is_lit(end):\n    return end.evaluate(\"document.body.dataset.lamp || ''\") == 'on'\n"
RUBRIC = Rubric.model_validate(
    {
        "rewards": [
            {"type": "from_evidence", "name": "solved", "evidence": "solved", "kind": "outcome", "levels": [0, 1]},
            {"type": "confident_clicks", "name": "sure", "weight": 0.3},
        ]
    }
)


@pytest.fixture(scope="module")
def web(tmp_path_factory):
    folder = tmp_path_factory.mktemp("lamp")
    (folder / "site").mkdir()
    (folder / "site" / "index.html").write_text(PAGE)
    (folder / "lamp_lit_checks.py").write_text(VERIFIER)
    rows = [{"id": "lamp", "prompt": "Light.", "target": "#on"}, {"id": "dark", "prompt": "Light."}]
    (folder / "tasks.jsonl").write_text("\n".join(map(json.dumps, rows)))
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(folder))
        tasks = {"type": "web_site", "file": str(folder / "tasks.jsonl"), "folder": str(folder / "site"), "held_out": 0}
        tasks["verifier"] = "lamp_lit_checks:lamp_is_lit"
        with turngate.make("turngate/Web-v1", tasks=tasks, confidence=True, pointing="both") as env:
            env.turn_spec = replace(env.turn_spec, rubric=RUBRIC)  # as a run with this rubric does
            yield env


def clicked(web, action, task="lamp"):
    """The facts of the click, and the verdicts that the episode earns by it."""
    web.reset(options={"task": web.tasks.find(f"site/{task}")})
    seen, *_, info = web.step(action)
    score = web.step("answer done")[-1]["score"]
    facts = {fact.name: fact.value for fact in info["evidence"]}
    return seen.text, facts, [event.value for event in score.ledger if event.name == "sure"]


@pytest.mark.component
@pytest.mark.parametrize(
    ("action", "stated", "hit", "offset", "earned"),
    [
        ("click_at 65 36 0.7", 0.7, True, [0.0625, -0.1], 0.962086),  # five to the right of the middle, four above it
        ("click e1 1", 1.0, True, [0.0, 0.0], 1.0),
        ("click e1", False, True, [0.0, 0.0], 0.0),  # as the worst that it could have said
        ("click_at 260 40 0", 0.0, False, [2.5, 0.0], 0.0),
        ("click e2 0.9", 0.9, False, [2.5, 0.0], -0.81),
    ],
)
def test_a_click_earns_by_its_hit_and_by_how_well_its_confidence_fits(web, action, stated, hit, offset, earned):
    _, facts, verdicts = clicked(web, action)
    assert (facts["click_confidence"], facts["click_hit"], facts["click_offset"]) == (stated, hit, offset)
    assert verdicts == [pytest.approx(earned, abs=1e-6)]
    assert facts["call_ok"]


@pytest.mark.component
def test_a_click_whose_target_is_not_known_has_no_distance_and_earns_nothing(web):
    _, facts, verdicts = clicked(web, "click_at 65 36 0.7", task="dark")
    assert facts["click_confidence"] == 0.7
    assert "click_hit" not in facts
    assert "click_offset" not in facts
    assert verdicts == []


@pytest.mark.component
def test_a_confidence_that_is_none_is_refused_and_nothing_is_clicked(web):
    for wrong in ("1.2", "-0.1", "very"):
        text, facts, verdicts = clicked(web, f"click_at 65 36 {wrong}")
        assert text.startswith("error: ")
        assert "confidence" in text
        assert "click_confidence" not in facts
        assert verdicts == []


@pytest.mark.component
def test_what_the_oracle_of_a_page_would_click_is_the_target():
    tasks = {"type": "miniwob", "pages": ["click-test-2"], "seeds": 1, "held_out": 0}
    with turngate.make("turngate/Web-v1", tasks=tasks, confidence=True) as env:
        text = env.reset(options={"task": env.tasks.task("train", 0)})[0].text
        ref = next(line.split()[0] for line in text.splitlines() if '"ONE"' in line)
        facts = {fact.name: fact.value for fact in env.step(f"click {ref} 0.8")[-1]["evidence"]}
        assert facts["click_hit"] is True
        assert max(map(abs, facts["click_offset"])) < 0.05


def test_the_argument_and_its_facts_are_there_only_where_they_are_asked_for():
    with turngate.make("turngate/Web-v1") as env:
        assert all("confidence" not in one.named for one in env.turn_spec.tools)
        assert "click_confidence" not in env.turn_spec.evidence
    with turngate.make("turngate/Web-v1", confidence=True, pointing="places") as env:
        assert [one.name for one in env.turn_spec.tools if "confidence" in one.named] == ["click_at"]
    with pytest.raises(ConfigError, match="no effect"):
        turngate.make("turngate/Web-v1", tasks={"type": "slides"}, confidence=True)


def test_the_published_number_by_hand():
    closeness = click_closeness((5 / 80, -4 / 40), hit=True, spread=0.25)  # σ is 20 and 10 pixels
    assert closeness == pytest.approx(0.894715, abs=1e-6)
    assert confident_click(True, 0.7, closeness) == pytest.approx(-0.037914 + 1, abs=1e-6)
    assert confident_click(True, 0.7, closeness, faithful=True) == pytest.approx(1 + 0.962086, abs=1e-6)
    assert click_closeness((0.1, 0.1), hit=False) == 0.0
    for wrong in (lambda: click_closeness((0, 0), hit=True, spread=0), lambda: confident_click(True, 1.5, 0.5)):
        with pytest.raises(ShapeError):
            wrong()


def test_the_formula_against_one_that_counts_pixels():
    width, height, spread = 30, 20, 0.3

    def by_pixels(x, y, confidence):
        """With the box from (0, 0) and the Gaussian as a product of one for each axis, in pixels."""
        hit = 0 <= x < width and 0 <= y < height
        across = math.exp(-((x - width / 2) ** 2) / (2 * (spread * width) ** 2))
        down = math.exp(-((y - height / 2) ** 2) / (2 * (spread * height) ** 2))
        return hit + 1 - (confidence - across * down * hit) ** 2

    part = ConfidentClicks(name="sure", faithful=True, low=0, high=2, spread=spread)
    for x, y, confidence in itertools.product(range(-3, 34, 4), range(-2, 24, 3), (0.0, 0.35, 1.0)):
        offset = (x / width - 0.5, y / height - 0.5)
        hit = 0 <= x < width and 0 <= y < height
        assert part.grade(confidence, hit, offset) == pytest.approx(by_pixels(x, y, confidence))


def test_saying_how_near_one_is_pays_most_and_a_miss_never_more_than_a_hit():
    for closeness in (0.0, 0.3, 0.9):
        stated = [number / 20 for number in range(21)]
        paid = [confident_click(closeness > 0, one, closeness) for one in stated]
        assert stated[paid.index(max(paid))] == pytest.approx(closeness, abs=0.026)
    assert max(confident_click(False, one / 10, 0.0) for one in range(11)) == 0.0
    assert min(confident_click(True, one / 10, 0.5) for one in range(11)) >= 0.0
    with pytest.raises(ConfigError, match="between 0 and 2"):
        ConfidentClicks(name="sure", faithful=True)
