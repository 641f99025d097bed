"""Questions from files, in the layouts of the data sets that people have."""

import json

import pytest

import turngate
from turngate.envs.search.loaders.known_questions import known_questions
from turngate.envs.search.rubric import PATH_RUBRIC
from turngate.envs.search.sources import KnownSearch
from turngate.errors import ConfigError, DataError
from turngate.types import Ending, Record

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

STEPS = [
    {"id": 1, "question": "Where was Ann born?", "answer": "Oslo", "paragraph_support_idx": 0},
    {"id": 2, "question": "Which river does #1 lie on?", "answer": "Aker", "paragraph_support_idx": 2},
]
DECOMPOSED = MUSIQUE | {"question_decomposition": STEPS}
TRIPLES = [["Ann", "place of birth", "Oslo"], ["Oslo", "river", "Aker"]]
CHAINED = HOTPOT | {"type": "compositional", "answer": "Aker", "evidences": TRIPLES}
HUGGING_FACE_CHAINED = CHAINED | {
    "evidences": dict(zip(("fact", "relation", "entity"), map(list, zip(*TRIPLES, strict=True)), strict=True))
}
BRIDGED = HOTPOT | {"type": "bridge", "supporting_facts": [["Oslo", 1], ["Ann", 0]]}


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


def test_the_way_to_the_answer_is_that_of_the_data_set(tmp_path):
    for row, links in (
        (DECOMPOSED, ("Where was Ann born?", "Which river does #1 lie on?")),
        (CHAINED, ("place of birth", "river")),
        (HUGGING_FACE_CHAINED, ("place of birth", "river")),
        (BRIDGED, ()),
    ):
        (one,) = known_questions(written(tmp_path, row))
        at = dict(zip(one.documents, one.titles, strict=True))
        assert [at[name] for name in one.path.documents] == ["Ann", "Oslo"], row
        assert (one.path.between, one.path.links) == (("Oslo",), links)


@pytest.mark.parametrize(
    "row",
    [
        HOTPOT,
        BRIDGED | {"type": "comparison"},
        BRIDGED | {"answer": "Ann"},  # the title of one of the two: nothing says which comes first
        BRIDGED | {"answer": "town"} | {"context": [["Ann", ["Ann."]], ["Oslo", ["A town."]]]},
        CHAINED | {"evidences": [TRIPLES[0], ["Bob", "river", "Aker"]]},  # side by side
        CHAINED | {"evidences": TRIPLES[:1]},  # ends elsewhere
        CHAINED | {"evidences": [["Zoe", "place of birth", "Oslo"], TRIPLES[1]]},  # begins elsewhere
        CHAINED | {"evidences": [[1], 2]},
        CHAINED | {"evidences": "[]"},
        MUSIQUE | {"question_decomposition": [STEPS[0], STEPS[1] | {"paragraph_support_idx": None}]},
        MUSIQUE | {"question_decomposition": [STEPS[0], STEPS[1] | {"paragraph_support_idx": 9}]},
        MUSIQUE | {"question_decomposition": [STEPS[0], STEPS[1] | {"paragraph_support_idx": 1}]},  # not supporting
        MUSIQUE | {"question_decomposition": 3},
    ],
)
def test_where_the_data_set_says_no_way_there_is_none(tmp_path, row):
    (one,) = known_questions(written(tmp_path, row))
    assert one.path.documents == one.path.between == ()
    assert len(one.documents) == 2


def test_the_way_is_paid_in_part(tmp_path):
    file = written(tmp_path, DECOMPOSED)
    tasks = {"type": "search_file", "questions": str(file), "corpus": {"type": "contexts", "path": str(file)}}
    env = turngate.make("turngate/Search-v1", tasks=tasks | {"held_out": 0}, k=1)
    task = env.tasks.task("train", 0)
    assert env.hint(task, 2).endswith("Look up in turn: Where was Ann born?, Which river does #1 lie on?.")

    def paid(*actions):
        env.reset(options={"task": task})
        facts = [fact for action in actions for fact in env.step(action)[-1]["evidence"]]
        record = Record(task_id=task.id, n_turns=len(actions), ending=Ending.FINISHED, evidence=tuple(facts))
        return PATH_RUBRIC.score(record).total

    first, last = task.private["path"]
    assert paid(f"open {last}", "answer Bob") == 0.0
    assert paid(f"open {first}", "answer Bob") == pytest.approx(0.1)
    assert paid(f"open {first}", f"open {last}", "answer Bob") == pytest.approx(0.2)
    assert paid(f"open {first}", f"open {last}", "answer Oslo") == pytest.approx(0.2 + 0.2 * 0.4)
    assert paid(f"open {first}", f"open {last}", "answer Aker") == pytest.approx(1.2)


def test_a_question_asked_with_and_without_its_paragraphs(tmp_path):
    """As in MuSiQue-Full: the same id, once without an answer."""
    gone = [one for one in MUSIQUE["paragraphs"] if one["title"] != "Oslo"]
    without = MUSIQUE | {"answerable": False, "paragraphs": gone}
    file = written(tmp_path, DECOMPOSED, without)
    corpus = {"type": "contexts", "path": str(file)}
    tasks = {"type": "search_file", "questions": str(file), "corpus": corpus, "held_out": 0}
    with pytest.raises(DataError, match="line 2: has no answer, but line 1 asks the same"):
        KnownSearch.model_validate(tasks).open()
    env = turngate.make("turngate/Search-v1", tasks=tasks | {"own_paragraphs": True})
    asked = [env.tasks.task("train", number) for number in range(2)]
    assert [task.id for task in asked] == ["q/m1", "q/m1/unanswerable"]
    for task, river, answer in ((asked[0], "[", "Aker"), (asked[1], "no passage fits", "unknown")):
        env.reset(options={"task": task})
        assert env.step("search Aker river")[0].text.startswith(river)
        env.step("search Ann born")
        *_, info = env.step(f"answer {answer}")
        found = {fact.name: fact.value for fact in info["evidence"]}
        assert (found["correct"], found["answerable"]) == (True, answer == "Aker")


def test_own_paragraphs_are_those_of_the_questions(tmp_path):
    file = written(tmp_path, MUSIQUE)
    other = written(tmp_path, MUSIQUE, name="other.jsonl")
    for corpus in ({"type": "contexts", "path": str(other)}, {"type": "jsonl", "path": str(file)}, None):
        tasks = {"type": "search_file", "questions": str(file), "corpus": corpus, "own_paragraphs": True}
        with pytest.raises(ConfigError, match="own_paragraphs needs the paragraphs of the questions"):
            KnownSearch.model_validate(tasks).open()


def test_a_passage_that_is_named_counts_as_its_document(tmp_path):
    corpus = written(tmp_path, {"id": "a", "text": "On the Aker."}, name="c.jsonl")
    rows = [
        {"id": "1", "question": "Which river?", "answer": "Aker", "documents": ["a#0"]},
        {"id": "2", "question": "Which town?", "answerable": False, "documents": ["a#0"]},
    ]
    tasks = {"questions": str(written(tmp_path, *rows)), "corpus": {"type": "jsonl", "path": str(corpus)}}
    env = turngate.make("turngate/Search-v1", tasks=tasks | {"type": "search_file", "held_out": 0})
    for number, answer in enumerate(("Aker", "unknown")):
        task = env.tasks.task("train", number)
        env.reset(options={"task": task})
        found = {fact.name: fact.value for fact in env.step("search Aker")[-1]["evidence"]}
        assert found["path_progress"] == 1.0
        env.step("open a#0")
        assert env.step(f"answer {answer}")[-1]["score"].outcome == 1.0
