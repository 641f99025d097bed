"""UR²: search is offered where the policy fails without it, in a run, by its own results, and after a kill."""

import json

import pytest

from tests.helpers.kills import Killed
from tests.run.test_curriculum_runs import BASE, EASY, numbers, played, run
from turngate.errors import ConfigError
from turngate.store.metrics import read_metrics
from turngate.trainer.curriculum.retrieval import Ur2Part

SEARCH = {
    "id": "turngate/Search-v1",
    "tasks": {"type": "generated_search", "max_hops": 1, "size": 12, "worlds": 1},
    "kwargs": {"k": 1, "passage_chars": 80, "max_turns": 3},
}
SMALL = {
    "env": SEARCH,
    "curriculum": {"type": "ur2", "pool": 4, "half_life": 1e9},
    "model": BASE["model"] | {"vocabulary": 400},
    "warm_start": BASE["warm_start"] | {"episodes": 8, "epochs": 1},
    "policy": {"turn_tokens": 16, "context": 512, "concurrency": 8},
}


@pytest.mark.timeout(300)
def test_documents_come_after_failures_without_them_and_a_killed_run_goes_on_alike(tmp_path):
    whole = run(tmp_path / "whole", **SMALL)
    with pytest.raises(Killed):
        run(tmp_path / "killed", **SMALL, sink=["tests.helpers.kills:KillSink"])
    again = run(tmp_path / "killed", **SMALL)
    assert played(again) == played(whole)
    assert numbers(again) == numbers(whole)
    lost, won, closed = {}, {}, []
    for task, episodes in played(whole):
        without = ["closed_book" in {fact.name for fact in one.evidence} for one in episodes]
        assert len(set(without)) == 1, "siblings of a task are in the same condition"
        expected = (1 + won.get(task, 0)) / (2 + won.get(task, 0) + lost.get(task, 0)) > 0.25
        assert without[0] is expected, task
        closed.append(without[0])
        if without[0]:
            assert not {"new_gold", "query_new"} & {fact.name for one in episodes for fact in one.evidence}
            right = sum(fact.value for one in episodes for fact in one.evidence if fact.name == "correct")
            won[task], lost[task] = won.get(task, 0) + right, lost.get(task, 0) + len(episodes) - right
    assert set(closed) == {True, False}
    shares = [row["curriculum/retrieval_share"] for row in read_metrics(whole.metrics)]
    assert shares == pytest.approx([1 - sum(closed[at : at + 3]) / 3 for at in range(0, 12, 3)])
    state = json.loads((whole.checkpoints / "step=000004" / "curriculum.pt").read_text())
    assert sum(state["lost"]) == pytest.approx(sum(lost.values()))


def test_the_threshold_lies_below_what_an_unknown_question_has():
    with pytest.raises(ValueError, match=r"less than 0\.5"):
        Ur2Part(at_most=0.5)


def test_tasks_without_documents_are_refused(tmp_path):
    with pytest.raises(ConfigError, match="curriculum 'ur2' withholds documents, and the tasks of 'turngate/Lock-v1'"):
        run(tmp_path, env=EASY, curriculum={"type": "ur2", "pool": 8})
