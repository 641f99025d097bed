"""Search-Gen-V's nuggets: the question, the labels, the number, and a run from a config."""

import json
import re
import tomllib
from pathlib import Path

import pytest

import turngate
from tests.helpers import command_line, tiny_judge
from tests.helpers.scripted_judge import said, written
from tests.judges.examiners.episodes import episode, examined, group, task, values
from turngate.agents import tiny
from turngate.config.run_config import parse
from turngate.envs.check.check_env import check_env
from turngate.errors import UserError
from turngate.judges.asking import FunctionJudge
from turngate.judges.examiners.nuggets import Nuggets
from turngate.judges.texts import Fault, item_of_text, read_answer, support
from turngate.judges.texts.items import Criterion
from turngate.rewards.outcome.criteria import criteria_score
from turngate.rubrics import find_rubric
from turngate.run.environments import builder
from turngate.store import Store
from turngate.store.folder import RunFolder
from turngate.types import Group

FAST = {"attempts": 1, "backoff_s": 0.0, "backoff_max_s": 0.0}
NUGGETS = [
    {"text": "The ferry leaves at nine.", "importance": "vital"},
    {"text": "It is free for children.", "importance": "okay"},
    {"text": "Dogs are welcome.", "importance": "okay"},
]
ALL = "The ferry leaves at nine. It is free for children. Dogs are welcome."


def lexical(prompt):
    """support: the statement stands in the answer; partial: half of its words do, of those with four letters."""
    statement = re.search(r"Criterion 'statement \d+': (.*)", prompt)[1]
    (answer,) = said(prompt)[:1]
    words = re.findall(r"\w{4,}", statement.lower().replace("the answer is", ""))
    found = [word for word in words if word in answer.lower()]
    share = len(found) / len(words)
    label = "support" if share == 1 else "partial_support" if share >= 0.5 else "not_support"
    quotes = [] if label == "not_support" else [{"turn": 0, "quote": answer}]
    return written(prompt, {"label": label, "evidence": quotes})


def credulous(prompt):
    """Says support to everything."""
    (answer,) = said(prompt)[:1]
    return written(prompt, {"label": "support", "evidence": [{"turn": 0, "quote": answer}]})


def mute(prompt):
    """Answers nothing about real work, and rejects planted work."""
    return "Hm." if "ferry" in said(prompt)[0] else written(prompt, {"label": "not_support"})


def nuggets(function, **settings):
    return Nuggets(judge=FunctionJudge(path=f"tests.judges.examiners.test_nuggets:{function}", **FAST), **settings)


def scores(groups):
    return [value for row in values(groups, "nugget_score") for (value,) in row]


# --- the number and the question --------------------------------------------------------------------------------------


def test_the_worked_number():
    """Weights 2, 1, 1; support, partial support, none."""
    assert criteria_score([1.0, 0.5, 0.0], [2.0, 1.0, 1.0]) == 0.625


QUESTION = support(item_of_text("i", "When?", "The ferry leaves at nine."), Criterion(name="s", text="It leaves."))
QUOTE = [{"turn": 0, "quote": "The ferry leaves at nine."}]


@pytest.mark.parametrize(
    ("reply", "score"),
    [
        ({"label": "support", "evidence": QUOTE}, 1.0),
        ({"label": "partial_support", "evidence": QUOTE}, 0.5),
        ({"label": "not_support"}, 0.0),
        ({"label": "support"}, "unquoted"),
        ({"label": "support", "evidence": [{"turn": 0, "quote": "It flies at noon today."}]}, "unquoted"),
        ({"label": "yes", "evidence": QUOTE}, "malformed"),
        ({"label": ["support"], "evidence": QUOTE}, "malformed"),
        ({"verdict": "invalid"}, "invalid"),
    ],
)
def test_reading_a_label(reply, score):
    answer = read_answer(QUESTION, written(QUESTION.prompt, reply))
    assert (str(answer.kind) if isinstance(answer, Fault) else answer.score) == score


# --- the examiner -----------------------------------------------------------------------------------------------------


def test_each_nugget_is_judged_and_weighed():
    said_ = [
        ALL,
        "The ferry leaves at nine, and children ride.",
        "It sinks.",
        "Dogs are welcome, it is free for children.",
    ]
    (after,), metrics = examined([nuggets("lexical")], [group(*said_, private={"nuggets": NUGGETS})])
    assert scores([after]) == [1.0, pytest.approx((1 + 0.5 * 0.5) / 2), 0.0, 0.5]
    assert metrics["examine/nugget_score/judge_calls"] == 4 * 3 + 5
    (record,) = [fact.value for fact in after.trajectories[1].evidence if fact.name == "nugget_score_judge"]
    assert [(one["weight"], one["verdict"]["score"]) for one in record] == [(1.0, 1.0), (0.5, 0.5), (0.5, 0.0)]
    assert [one.outcome for one in find_rubric("search_nuggets").score_group(after).scores] == scores([after])
    assert find_rubric("search_nuggets").check().safe


def test_weights_can_be_set():
    (after,), _ = examined([nuggets("lexical", vital=3.0, okay=0.0)], [group(ALL[:25], private={"nuggets": NUGGETS})])
    assert scores([after]) == [1.0]


def test_a_short_answer_is_one_nugget():
    (after,), _ = examined([nuggets("lexical")], [group("Lisbon it is", "Madrid", private={"gold": ["Lisbon"]})])
    record = next(fact.value for fact in after.trajectories[0].evidence if fact.name == "nugget_score_judge")
    assert [one["nugget"] for one in record] == ["The answer is: Lisbon."]
    assert scores([after]) == [1.0, 0.0]


def test_no_answer_is_zero_and_nobody_is_asked():
    of = task(nuggets=NUGGETS)
    silent = Group(
        task=of,
        trajectories=tuple(episode("x", of=of, answer=said_, name=said_ or "-") for said_ in (None, " ", "Solution")),
    )
    (after,), metrics = examined([nuggets("lexical")], [silent])
    assert scores([after]) == [0.0, 0.0, 0.0]
    assert metrics["examine/nugget_score/judge_calls"] == 0


def test_a_verdict_that_is_missing_is_not_zero():
    (after,), _ = examined([nuggets("mute")], [group(ALL, private={"nuggets": NUGGETS})])
    assert scores([after]) == [None]
    (score,) = find_rubric("search_nuggets").score_group(after).scores
    assert not score.usable


def test_a_judge_that_supports_anything_is_found_out():
    (after,), metrics = examined([nuggets("credulous")], [group(ALL, private={"nuggets": NUGGETS})])
    assert scores([after]) == [None]
    assert metrics["examine/nugget_score/judge_void"] == 1


def test_a_task_without_nuggets_and_answer_has_no_score():
    after, _ = examined(
        [nuggets("lexical")], [group("a", name="t"), group(ALL, name="u", private={"nuggets": NUGGETS})]
    )
    assert scores(after) == [None, 1.0]


def test_a_real_model_is_asked(tmp_path):
    """It learned another form of reply, so nothing it says can be read; that is missing, not zero."""
    tiny.save(*tiny_judge.learn_to_say_no(steps=2), tmp_path / "judge")
    judge = tiny_judge.TinyJudge(model=str(tmp_path / "judge"), max_tokens=8, **FAST)
    (after,), metrics = examined([Nuggets(judge=judge)], [group(ALL, private={"nuggets": NUGGETS})])
    assert scores([after]) == [None]
    assert metrics["examine/nugget_score/judge_calls"] == 3 + 5


# --- from a file to a run ---------------------------------------------------------------------------------------------

ROW = {"id": "ferry", "question": "What should one know of the ferry?", "nuggets": NUGGETS, "documents": ["ferry"]}
DOCUMENT = {"id": "ferry", "title": "Ferry", "text": ALL}


@pytest.fixture
def island(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "documents.jsonl").write_text(json.dumps(DOCUMENT) + "\n")
    return tmp_path


def tasks(*rows):
    with open("questions.jsonl", "w") as file:
        file.writelines(json.dumps(row) + "\n" for row in rows)
    corpus = {"type": "jsonl", "path": "documents.jsonl"}
    return {"type": "search_file", "questions": "questions.jsonl", "corpus": corpus, "held_out": 0}


def test_the_environment_measures_what_words_can(island):
    with turngate.make("turngate/Search-v1", tasks=tasks(ROW)) as env:
        found = [str(finding) for finding in check_env(env)]
        assert [line for line in found if "hint" not in line] == []  # rows that name documents by id have none
        found = []
        for answer in (f"answer {ALL}", "answer It leaves at nine.", "answer unknown"):
            observation, _ = env.reset()
            assert "Answer in whole sentences" in observation.text
            info = env.step(answer)[4]
            facts = {fact.name: fact.value for fact in info["evidence"]}
            found.append((facts["correct"], facts["token_f1"], facts["truthful"]))
        assert found == [(True, 1.0, 1.0), (None, None, None), (None, None, None)]


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        ("one", "must be a list of statements"),
        ([""], "which is no statement"),
        (["a b", "a b"], "holds 'a b' twice"),
        ([{"text": "a", "importance": "much"}], "it must be vital or okay"),
        ([{"text": "a", "importance": "okay"}], "no vital statement"),
    ],
)
def test_nuggets_that_cannot_be_read(island, value, problem):
    with pytest.raises(UserError, match=f"line 1, field 'nuggets': .*{problem}"):
        turngate.make("turngate/Search-v1", tasks=tasks(ROW | {"nuggets": value}))


def test_what_the_page_says(island):
    page = (Path(__file__).parents[3] / "docs" / "search_env.md").read_text().partition("### Long answers")[2]
    (text,) = re.findall(r"```toml\n(.*?)```", page.partition("\n## ")[0], re.DOTALL)
    (row,) = re.findall(r"```json\n(.*?)```", page.partition("\n## ")[0], re.DOTALL)
    config = parse({"model": "any", **tomllib.loads(text)})
    assert [part.type for part in config.examine] == ["nuggets"]
    (island / "docs").mkdir()
    (island / "docs" / "ferry.md").write_text("It leaves at nine.")
    (island / "questions.jsonl").write_text(row + json.dumps(json.loads(row) | {"question": "And else?"}))
    with builder(config.env[0])() as env:
        assert env.tasks.splits


CONFIG = """
name = "island"
model = {layers = 1, width = 32, heads = 2, vocabulary = 500}
warm_start = {episodes = 8, epochs = 30, lr = 1e-2, episodes_per_batch = 4}
policy = {turn_tokens = 32, context = 768, concurrency = 4}
train = {steps = 2, tasks_per_step = 1, group_size = 4}
eval = {tasks = 1, splits = ["train"]}
examine = [{type = "nuggets", judge = {type = "function", path = "tests.judges.examiners.test_nuggets:lexical"}}]

[env]
id = "turngate/Search-v1"
kwargs = {max_turns = 4}
rubric = "search_nuggets"

[env.tasks]
type = "search_file"
questions = "questions.jsonl"
corpus = {type = "jsonl", path = "documents.jsonl"}
held_out = 0
"""


@pytest.mark.timeout(600)
def test_train_then_rescore(island):
    tasks(ROW)
    (island / "island.toml").write_text(CONFIG)
    assert command_line.turngate("train", "island.toml") == 0
    run = RunFolder(island / "runs" / "island")
    played = [
        pair for one in Store(run.path).read(None, "train") for pair in zip(one.trajectories, one.scores, strict=True)
    ]
    assert len(played) == 8
    found = [next(fact.value for fact in one.evidence if fact.name == "nugget_score") for one, _ in played]
    assert [score.outcome for _, score in played] == found
    assert max(found) > 0
    assert command_line.turngate("rescore", "runs/island", "--rubric", "search_nuggets") == 0
