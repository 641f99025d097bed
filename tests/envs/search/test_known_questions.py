"""Questions from files, in the layouts of the data sets that people have."""

import json

import pytest

import turngate
from turngate.envs.search.known_questions import known_questions
from turngate.envs.search.sources import KnownSearch
from turngate.errors import ConfigError, DataError

HOTPOT = {
    "_id": "h1",
    "question": "Which river flows through the birthplace of Ann?",
    "answer": "the Aker",
    "supporting_facts": [["Ann", 0], ["Oslo", 1]],
    "context": [
        ["Ann", ["Ann was born in Oslo.", " She walks."]],
        ["Bob", ["Bob."]],
        ["Oslo", ["A town.", " On the Aker."]],
    ],
}
HUGGING_FACE = HOTPOT | {
    "supporting_facts": {"title": ["Ann", "Oslo"], "sent_id": [0, 1]},
    "context": {"title": ["Ann", "Oslo"], "sentences": [["Ann was born in Oslo."], ["On the Aker."]]},
}
MUSIQUE = {
    "id": "m1",
    "question": "Which river?",
    "answer": "Aker",
    "answer_aliases": ["Akerselva"],
    "answerable": True,
    "paragraphs": [
        {"idx": 0, "title": "Ann", "paragraph_text": "Born in Oslo.", "is_supporting": True},
        {"idx": 1, "title": "Bob", "paragraph_text": "Bob.", "is_supporting": False},
        {"idx": 2, "title": "Oslo", "paragraph_text": "On the Aker.", "is_supporting": True},
    ],
}


def written(folder, *rows, name="q.jsonl"):
    file = folder / name
    file.write_text(json.dumps(rows) if name.endswith(".json") else "\n".join(map(json.dumps, rows)))
    return file


@pytest.mark.parametrize("row", [HOTPOT, HUGGING_FACE, MUSIQUE])
@pytest.mark.parametrize("name", ["q.json", "q.jsonl"])
def test_the_oracle_solves_a_question_with_its_paragraphs(tmp_path, row, name):
    file = written(tmp_path, row, name=name)
    tasks = {"type": "search_file", "questions": str(file), "corpus": {"type": "contexts", "path": str(file)}}
    env = turngate.make("turngate/Search-v1", tasks=tasks | {"held_out": 0}, k=1)
    task = env.tasks.task("train", 0)
    env.reset(options={"task": task})
    for action in env.oracle(task):
        *_, info = env.step(action)
    found = {fact.name: fact.value for fact in info["evidence"]}
    assert (found["correct"], found["citation_f1"]) == (True, 1.0)
    assert env.hint(task, 3).startswith("The question needs 2 documents. Search for Ann first.")


def test_short_questions_with_aliases(tmp_path):
    rows = [
        {"id": "n1", "question": "Which river?", "golden_answers": ["Aker", "Akerselva"]},
        {"query": "Which town?", "answers": ["Oslo"], "documents": ["my town"]},
        {"question": "What else?", "answerable": False, "documents": ["my town"]},
    ]
    first, second, third = known_questions(written(tmp_path, *rows))
    assert (first.id, first.answers, first.documents) == ("n1", ("Aker", "Akerselva"), ())
    assert (second.id, second.documents) == ("2", ("my_town",))
    assert third.answers == ()


@pytest.mark.parametrize(
    ("row", "problem"),
    [
        ([], "line 2: is \\[\\], not an object"),
        ({"answer": "x"}, "line 2, field 'question': has no question"),
        ({"question": "x"}, "line 2, field 'answer': has no answer"),
        ({"question": "x", "answer": "Rhine"}, "line 2: the corpus does not hold the answer 'Rhine'"),
        ({"question": "x", "answer": "Aker", "documents": ["zz"]}, "line 2: the corpus has no document 'zz'"),
        ({"question": "x", "answer": "Aker", "documents": ["b"]}, "line 2: the corpus does not hold the answer 'Aker'"),
        ({"question": "x", "answer": "Aker", "id": "1"}, "line 2: the id '1' is that of line 1"),
        ({"question": "x", "answerable": False}, "line 2: it has no answer, and no documents"),
        (HOTPOT | {"supporting_facts": [["Zoe", 0]]}, "line 2, field 'supporting_facts': names 'Zoe'"),
    ],
)
def test_wrong_rows_are_named(tmp_path, row, problem):
    corpus = written(tmp_path, {"id": "a", "text": "On the Aker."}, {"id": "b", "text": "Bees."}, name="c.jsonl")
    file = written(tmp_path, {"id": "1", "question": "Which?", "answer": "Aker"}, row)
    tasks = {"type": "search_file", "questions": file, "corpus": {"type": "jsonl", "path": str(corpus)}, "held_out": 0}
    with pytest.raises(DataError, match=problem):
        KnownSearch.model_validate(tasks).open()


def test_wrong_rows_can_be_left_out_and_yes_needs_no_passage(tmp_path):
    corpus = written(tmp_path, {"id": "a", "text": "On the Aker."}, name="c.jsonl")
    rows = [
        {"question": "Q1?", "answer": "Rhine"},
        {"question": "Q2?", "answer": "yes"},
        {"question": "Q3?", "answer": "aker"},
    ]
    tasks = {"questions": written(tmp_path, *rows), "corpus": {"type": "jsonl", "path": str(corpus)}, "held_out": 0}
    source = KnownSearch.model_validate(tasks | {"type": "search_file", "skip_bad": True}).open()
    assert source.size("train") == 2
    assert [(one.line, one.reason) for one in source.dropped] == [(1, "the corpus does not hold the answer 'Rhine'")]


def test_no_documents_need_a_server(tmp_path):
    tasks = {"type": "search_file", "questions": str(written(tmp_path, {"question": "Q?", "answer": "x"}))}
    with pytest.raises(ConfigError, match="tasks: retriever 'bm25' searches the documents of a task"):
        turngate.make("turngate/Search-v1", tasks=tasks)
    env = turngate.make("turngate/Search-v1", tasks=tasks, retriever={"type": "server", "url": "http://localhost:1/x"})
    assert "Question: Q?" in env.reset(seed=0)[0].text
