"""A click that names several candidates, from the tool to what the rubric of a config pays for it."""

import json
from dataclasses import replace

import pytest

import turngate
from turngate.envs.tool_env import ToolError
from turngate.envs.web.candidates import candidates_of, rank_of_hit
from turngate.envs.web.engine.view import Box
from turngate.errors import ConfigError, ShapeError
from turngate.rewards.outcome.gui import CandidateClicks, exploration_reward, in_a_line
from turngate.rewards.rubric import Rubric

PAGE = """<!doctype html><title>Lamp</title><style>
button {position: absolute; width: 80px; height: 40px; top: 20px}</style>
<button style="left: 20px" onclick="document.body.dataset.lamp = 'on'" id=on>Switch on</button>
<button style="left: 220px" onclick="document.body.dataset.lamp = 'off'">Switch off</button>"""
VERIFIER = "def lamp_is_on(end):\n    return end.evaluate(\"document.body.dataset.lamp || ''\") == 'on'\n"
RUBRIC = Rubric.model_validate(
    {
        "rewards": [
            {"type": "from_evidence", "name": "solved", "evidence": "solved", "kind": "outcome", "levels": [0, 1]},
            {"type": "candidate_clicks", "name": "explored", "weight": 0.3},
        ]
    }
)
ON, OFF, BESIDE, BELOW = "60 40", "260 40", "400 300", "100 500"


@pytest.fixture(scope="module")
def web(tmp_path_factory):
    folder = tmp_path_factory.mktemp("lamp")
    (folder / "site").mkdir()
    (folder / "site" / "index.html").write_text(PAGE)
    (folder / "lamp_on_checks.py").write_text(VERIFIER)
    rows = [{"id": "lamp", "prompt": "Light.", "target": "#on"}, {"id": "dark", "prompt": "Light."}]
    (folder / "tasks.jsonl").write_text("\n".join(map(json.dumps, rows)))
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(folder))
        tasks = {"type": "web_site", "file": str(folder / "tasks.jsonl"), "folder": str(folder / "site"), "held_out": 0}
        tasks["verifier"] = "lamp_on_checks:lamp_is_on"
        with turngate.make("turngate/Web-v1", tasks=tasks, candidates=4, pointing="both") as env:
            env.turn_spec = replace(env.turn_spec, rubric=RUBRIC)  # as a run with this rubric does
            yield env


@pytest.mark.component
@pytest.mark.parametrize(
    ("named", "rank", "earned", "solved"),
    [
        (f"{OFF}, {ON}, {BESIDE}, {BELOW}", 2, 0.353553, False),
        (f"{OFF}, {BESIDE}, {BELOW}, 10 700", 0, -0.25, False),
        (ON, 1, 1.0, True),
        ("e1, e2", 1, 0.707107, True),
        (f"{ON}, {OFF}, 460 40", 1, -1.0, True),
    ],
)
def test_a_click_with_candidates_clicks_the_first_and_is_paid_by_the_first_that_hits(web, named, rank, earned, solved):
    web.reset(options={"task": web.tasks.find("site/lamp")})
    info = web.step(f"click_candidates {named}")[-1]
    facts = {fact.name: fact.value for fact in info["evidence"]}
    assert (facts["candidate_hit"], len(facts["candidates"])) == (rank, named.count(",") + 1)
    assert facts["pointed_at"] == facts["candidates"][0]
    score = web.step("answer done")[-1]["score"]
    assert score.outcome == float(solved)
    assert [event.value for event in score.ledger if event.name == "explored"] == [pytest.approx(earned, abs=1e-5)]


@pytest.mark.component
def test_a_click_whose_target_is_not_known_earns_nothing(web):
    web.reset(options={"task": web.tasks.find("site/dark")})
    info = web.step(f"click_candidates {ON}, {OFF}")[-1]
    assert "candidate_hit" not in {fact.name for fact in info["evidence"]}
    score = web.step("answer done")[-1]["score"]
    assert (score.outcome, [event for event in score.ledger if event.name == "explored"]) == (1.0, [])


@pytest.mark.component
def test_what_the_oracle_of_a_page_would_click_is_the_target():
    tasks = {"type": "miniwob", "pages": ["click-test-2"], "seeds": 1, "held_out": 0}
    with turngate.make("turngate/Web-v1", tasks=tasks, candidates=2) as env:
        lines = env.reset(options={"task": env.tasks.task("train", 0)})[0].text.splitlines()
        one, two = (next(line.split()[0] for line in lines if f'"{name}"' in line) for name in ("ONE", "TWO"))
        info = env.step(f"click_candidates {two}, {one}")[-1]
        assert {fact.name: fact.value for fact in info["evidence"]}["candidate_hit"] == 2
        assert info["score"].outcome == 0.0  # the first was clicked


@pytest.mark.component
@pytest.mark.parametrize(
    ("named", "said"),
    [
        ("e1, e2, e1, e2, e1", "name 4 at most"),
        ("e99", "no element"),
        ("1 2 3", "is no candidate"),
        (",", "is no candi"),
    ],
)
def test_candidates_that_are_none_are_refused(web, named, said):
    web.reset(options={"task": web.tasks.find("site/lamp")})
    assert said in web.step(f"click_candidates {named}")[0].text


@pytest.mark.parametrize("wrong", [0, 17, True, "4"])
def test_a_number_of_candidates_out_of_range_is_refused(wrong):
    with pytest.raises(ConfigError, match="candidates"):
        turngate.make("turngate/Web-v1", candidates=wrong)


def test_the_tool_and_its_facts_are_there_only_where_they_are_asked_for():
    with turngate.make("turngate/Web-v1") as env:
        assert "click_candidates" not in {one.name for one in env.turn_spec.tools}
        assert "candidates" not in env.turn_spec.evidence


def test_only_one_way_of_pointing_is_taken_where_the_other_is_left_out():
    with pytest.raises(ToolError, match="references"):
        candidates_of("3 4", 2, None, "places")
    with pytest.raises(ToolError, match="places"):
        candidates_of("e3", 2, None, "references")


def test_the_edges_of_a_target_and_the_formula_by_hand():
    box = Box(10, 20, 30, 40)
    assert [rank_of_hit([point], box) for point in ((10, 20), (39, 59), (40, 30), (9, 30), (10, 60))] == [1, 1, 0, 0, 0]
    assert [exploration_reward(4, 2), exploration_reward(4, 0), exploration_reward(1, 1)] == [
        pytest.approx(0.353553, abs=1e-6),
        -0.25,
        1.0,
    ]
    for n, rank in ((0, 0), (2, 3), (2, -1)):
        with pytest.raises(ShapeError):
            exploration_reward(n, rank)
    assert not in_a_line([(0, 0), (1, 1)])
    assert in_a_line([(0, 0), (0, 0), (5, 3)])
    assert in_a_line([(1, 1), (1, 1), (1, 1)])
    assert not in_a_line([(0, 0), (4, 4), (4, 5)])
    assert in_a_line([(0, 0), (4, 5), (2, 2), (4, 4)]), "any three, not all"


def test_three_in_a_line_cost_one_unless_elements_stand_in_lines():
    column, told = [(10, 10), (10, 30), (10, 50)], {"name": "explored", "weight": 0.3}
    assert CandidateClicks(**told).grade(column, 1) == -1.0
    assert CandidateClicks(**told, lines_cost=False).grade(column, 1) == pytest.approx(3**-0.5)
