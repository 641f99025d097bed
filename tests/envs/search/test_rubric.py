"""The rubrics of the search environment on recorded evidence."""

import json

import pytest

from turngate.envs.search.rubric import CITED_RUBRIC, PATH_RUBRIC, RUBRIC, TRUTHFUL_RUBRIC
from turngate.rewards import Rubric
from turngate.rubrics import find_rubric
from turngate.types import Ending, Evidence, Record


def episode(*turns, **end):
    facts = [
        Evidence(name=name, value=value, turn=turn)
        for turn, given in enumerate(turns)
        for name, value in {"parsed": True, **given}.items()
    ]
    facts += [Evidence(name=name, value=value, by="verifier") for name, value in end.items()]
    return Record(task_id="search/1", n_turns=len(turns), ending=Ending.FINISHED, evidence=tuple(facts))


FOUND = {"new_gold": 0.5, "repeated": False, "path_progress": 0.5}
AGAIN = {"new_gold": 0.0, "repeated": True, "path_progress": 0.0}


@pytest.mark.parametrize(
    ("name", "rubric"),
    [
        ("search", RUBRIC),
        ("search_cited", CITED_RUBRIC),
        ("search_path", PATH_RUBRIC),
        ("search_truthful", TRUTHFUL_RUBRIC),
    ],
)
def test_nothing_can_overtake_a_right_answer(name, rubric):
    assert find_rubric(name) == rubric
    assert rubric.check().safe, str(rubric.check())
    assert Rubric.model_validate(json.loads(rubric.model_dump_json())) == rubric


@pytest.mark.parametrize(
    ("rubric", "turns", "end", "total"),
    [
        (RUBRIC, [FOUND, FOUND], {"correct": True}, 1.1),
        (RUBRIC, [FOUND, FOUND], {"correct": False}, 0.0),
        (RUBRIC, [FOUND, AGAIN], {"correct": True}, 1.05 - 0.025),
        (CITED_RUBRIC, [FOUND], {"correct": True, "citation_f1": 1.0}, 1.95),
        (CITED_RUBRIC, [FOUND], {"correct": True, "citation_f1": 0.5}, 1.5),
        (CITED_RUBRIC, [FOUND], {"correct": False, "citation_f1": 1.0}, 0.0),
        (PATH_RUBRIC, [FOUND], {"correct": False, "near_answer": 0.4}, 0.18),
        (PATH_RUBRIC, [FOUND, FOUND], {"correct": True, "near_answer": 0.0}, 1.2),
        (TRUTHFUL_RUBRIC, [FOUND], {"truthful": 1.0}, 1.05),
        (TRUTHFUL_RUBRIC, [FOUND], {"truthful": 0.0}, 0.0),
        (TRUTHFUL_RUBRIC, [FOUND], {"truthful": -1.0}, -1.0),
    ],
)
def test_what_an_episode_is_paid(rubric, turns, end, total):
    assert rubric.score(episode(*turns, **end)).total == pytest.approx(total)
