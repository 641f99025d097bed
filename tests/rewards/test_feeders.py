"""Every reward that ships is fed: some environment or examiner that ships records what it reads, and under one meaning.

1. Each shipped reward is paid in an episode that an environment's oracle plays; those that read what examiners
   measure have an examiner that records it.
2. What an environment records it declares; what it leaves out by its settings it does not declare.
3. A name has one meaning: environments and rewards take the same words from the glossary, and the values that
   environments record are of the form that the rewards read.
"""

import shutil
from collections.abc import Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

import pytest

import turngate
from turngate.envs.base import TurnEnv
from turngate.envs.glossary import GLOSSARY, meanings
from turngate.envs.registry import registered
from turngate.envs.web.env import WebEnv
from turngate.errors import UnknownName
from turngate.judges.examiners.base import Examiner
from turngate.rewards import FromEvidence, Reward, Rubric
from turngate.types import ANSWER, Ending, Evidence, Record

PLAYED_APART = {
    "candidate_clicks": "tests/envs/web/test_candidates.py",
    "confident_clicks": "tests/envs/web/test_confident_clicks.py",
}
"""Type of the reward → where it is paid in an episode, because no oracle does what it pays for."""
SQL, SEARCH, CODE, TOOLS = "turngate/Sql-v1", "turngate/Search-v1", "turngate/CodeRepair-v1", "turngate/ToolUse-v1"
ROUTER = "turngate/Router-v1"
RUFF = {"diagnostics": ["ruff"]}

FED: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    ("turngate/Lock-v1", {}, {"type": "from_evidence", "evidence": "right_key", "per_turn": True}),
    (SQL, {}, {"type": "event_cost", "evidence": "repeated", "weight": -0.1}),
    (SQL, {}, {"type": "repetition", "weight": -0.1}),
    (SQL, {}, {"type": "length_cost", "start": 1, "limit": 4}),
    (SQL, {}, {"type": "schema_linking"}),
    (SQL, {}, {"type": "ngram_similarity"}),
    (SQL, {}, {"type": "tag_format"}),
    (SQL, {}, {"type": "execution_match"}),
    (SQL, {}, {"type": "result_f1"}),
    (SEARCH, {}, {"type": "step_search"}),
    (SEARCH, {}, {"type": "step_search_answer"}),
    (SEARCH, {}, {"type": "cited_answer"}),
    (SEARCH, {}, {"type": "exact_match"}),
    (SEARCH, {}, {"type": "token_f1"}),
    (SEARCH, {}, {"type": "rlcr"}),
    (SEARCH, {}, {"type": "brier"}),
    (SEARCH, {}, {"type": "answer_or_abstain"}),
    (ROUTER, {}, {"type": "exact_match"}),
    (ROUTER, {}, {"type": "rlcr"}),
    (TOOLS, {}, {"type": "toolrl"}),
    (TOOLS, {}, {"type": "ftrl_calls"}),
    (TOOLS, {}, {"type": "ftrl_answer"}),
    (ROUTER, {}, {"type": "numeric_match"}),
    (TOOLS, {}, {"type": "list_overlap"}),
    (CODE, {}, {"type": "unit_tests"}),
    (CODE, {}, {"type": "patch_similarity"}),
    (CODE, {}, {"type": "localisation"}),
    (CODE, {}, {"type": "reproduced_first"}),
    (CODE, RUFF, {"type": "lanser"}),
]
"""(environment, its arguments, the reward that it feeds)."""

EXAMINED: dict[str, tuple[dict[str, Any], set[str]]] = {
    "information_gain": ({"type": "likelihood", "name": "gold_logprob", "answer": "{gold}", "per_turn": True}, set()),
    "step_verdicts": ({"type": "steps", "name": "step_verdict", "judge": {"type": "policy"}}, set()),
    "retrieval_relevance": (
        {"type": "steps", "name": "relevance", "mode": "average", "judge": {"type": "policy"}},
        {"n_documents"},
    ),
}
"""Type of the reward → the examiner that feeds it, and what an environment records besides."""


class Opened:
    """An environment, and what it recorded, which is played once for all tests."""

    def __init__(self, id: str, kwargs: Mapping[str, Any]) -> None:
        self.env = turngate.make(id, **kwargs)

    @cached_property
    def records(self) -> list[Record]:
        return list(records(self.env))


@pytest.fixture(scope="module")
def environments() -> Iterator[dict[str, Opened]]:
    made: dict[str, Opened] = {}
    yield made
    for one in made.values():
        one.env.close()


def opened(made: dict[str, Opened], id: str, kwargs: Mapping[str, Any]) -> Opened:
    if id == CODE and shutil.which("bwrap") is None:
        pytest.skip("bubblewrap is not installed")
    key = f"{id} {kwargs}"
    if key not in made:
        made[key] = Opened(id, kwargs)
    return made[key]


def records(env: TurnEnv) -> Iterator[Record]:
    """What is recorded where the oracle plays some tasks, and where an agent writes what cannot be read and stops."""
    split = env.tasks.splits[0]
    for index in range(3 if isinstance(env, WebEnv) else 6):  # a page takes long
        task = env.tasks.task(split, index)
        for actions in (env.oracle(task), ["???"]):
            _, info = env.reset(seed=1, options={"task": task})
            found, n_turns = list(info["evidence"]), 0
            for action in actions:
                *_, info = env.step(action)
                found += info["evidence"]
                n_turns += 1
            if info["ending"] is None:
                found += env.finish(Ending.MAX_TURNS)[1]["evidence"]
            yield Record(task_id=task.id, n_turns=n_turns, ending=Ending.FINISHED, evidence=tuple(found))


def part(table: Mapping[str, Any]) -> Reward:
    return Reward.catalogue()[table["type"]].model_validate({"name": "part", **table})  # type: ignore[return-value]


def shipped() -> set[str]:
    return {name for name, one in Reward.catalogue().items() if one.__module__.startswith("turngate.")}


def test_every_shipped_reward_is_in_the_lists() -> None:
    assert {table["type"] for *_, table in FED} | set(EXAMINED) | set(PLAYED_APART) == shipped()
    assert all(type_ in Path(file).read_text() for type_, file in PLAYED_APART.items())


@pytest.mark.parametrize(("id", "kwargs", "table"), FED, ids=[f"{id} {table['type']}" for id, _, table in FED])
def test_a_reward_is_paid_in_an_episode_of_an_environment(environments, id, kwargs, table) -> None:
    one, reward = opened(environments, id, kwargs), part(table)
    env = one.env
    assert env.turn_spec.evidence is not None
    always = FromEvidence(name="outcome", evidence="parsed", kind="outcome", agg="mean")
    rubric = Rubric(rewards=(always, reward) if reward.kind != "outcome" else (reward,))
    assert rubric.unfed({*env.turn_spec.evidence, ANSWER}) == {}
    scores = [rubric.score(record) for record in one.records]
    assert any(event.name == "part" for score in scores for event in score.ledger), [one.problem for one in scores]


@pytest.mark.parametrize("type_", EXAMINED)
def test_a_reward_is_fed_by_an_examiner(type_: str) -> None:
    table, besides = EXAMINED[type_]
    examiner = Examiner.catalogue()[table["type"]].model_validate(table)
    rubric = Rubric(
        rewards=(FromEvidence(name="outcome", evidence="answered", kind="outcome"), part({"type": type_})),
    )
    assert rubric.unfed({"answered", *besides, *examiner.writes}) == {}  # type: ignore[attr-defined]


def test_what_nothing_records_is_named() -> None:
    linking = part({"type": "schema_linking"})
    rubric = Rubric(rewards=(FromEvidence(name="outcome", evidence="correct", kind="outcome"), linking))
    assert rubric.unfed({"correct", "answer"}) == {"part": ("gold_query",)} or rubric.unfed({"correct", "answer"}) == {
        "part": ("schema_linking",)
    }
    assert rubric.unfed({"correct", "answer", "gold_query"}) == {}
    assert rubric.unfed({"correct", "schema_linking"}) == {}


ENVS = sorted(id for id in registered() if id.startswith("turngate/"))


@pytest.mark.parametrize("id", ENVS)
def test_an_environment_declares_all_that_it_records(environments, id: str) -> None:
    one = opened(environments, id, {})
    assert one.env.turn_spec.evidence is not None
    recorded = {fact.name for record in one.records for fact in record.evidence}
    assert recorded - {ANSWER} <= set(one.env.turn_spec.evidence)


def test_what_settings_leave_out_is_not_declared(environments) -> None:
    plain, diagnosed = opened(environments, CODE, {}).env, opened(environments, CODE, RUFF).env
    at_end = opened(environments, CODE, {"measure": "end"}).env
    assert set(diagnosed.turn_spec.evidence or ()) - set(plain.turn_spec.evidence or ()) == {
        "diagnostics",
        "diagnostics_delta",
    }
    assert "tests_fixed" not in (at_end.turn_spec.evidence or ())


def declared() -> dict[str, dict[str, str]]:
    """Environment → what it declares, those of worlds with users among them."""
    from turngate.envs.code.facts import EVIDENCE as OF_CODE
    from turngate.envs.lock import LockEnv
    from turngate.envs.planned import OF_PLANS
    from turngate.envs.router.env import RouterEnv
    from turngate.envs.search.env import SearchEnv
    from turngate.envs.sql.env import SqlEnv
    from turngate.envs.tooluse.env import ToolUseEnv
    from turngate.envs.tooluse.facts import OF_TALKS, OF_USER_TURNS

    classes = (LockEnv, RouterEnv, SearchEnv, SqlEnv, ToolUseEnv)
    own = {one.__name__: dict(one.turn_spec.evidence or {}) for one in classes}
    return own | {"code": OF_CODE, "plans": OF_PLANS, "talks": OF_TALKS, "user turns": OF_USER_TURNS}


def test_a_name_has_one_meaning() -> None:
    said: dict[str, set[str]] = {name: {meaning} for name, meaning in GLOSSARY.items()}
    for table in declared().values():
        for name, meaning in table.items():
            said.setdefault(name, set()).add(meaning)
    assert {name: meanings for name, meanings in said.items() if len(meanings) > 1} == {}


def test_all_that_shipped_rewards_read_is_in_the_glossary() -> None:
    read = {
        name
        for type_ in shipped() - {"from_evidence", "event_cost"}  # which read what the user names
        for name in part({**next((t for *_, t in FED if t["type"] == type_), {}), "type": type_}).reads
        if name not in Reward.catalogue()  # a verdict that is recorded under the name of its type
    }
    assert read <= set(GLOSSARY)
    with pytest.raises(UnknownName, match="did you mean 'gold_query'"):
        meanings("gold_qery")


def test_two_meanings_of_one_name_would_be_found() -> None:
    assert GLOSSARY["correct"] != GLOSSARY["answered"]
    fact = Evidence(name="stated_confidence", value="high")
    record = Record(
        task_id="t", n_turns=1, ending=Ending.FINISHED, evidence=(Evidence(name="correct", value=True), fact)
    )
    with pytest.raises(ValueError, match="cannot read evidence 'stated_confidence'"):
        Rubric(rewards=(part({"type": "rlcr"}),)).score(record)
