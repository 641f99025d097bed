"""Questions about Python's own documentation."""

import turngate
from turngate.envs.search.engine.passages import Document
from turngate.envs.search.generated.described import described_tasks, first_sentence


def document(name, text):
    return Document(id=name, title=name, text=f"{name}(x)\n\n{text}")


def test_what_is_asked():
    long = "Return the thing that was asked for"
    documents = [
        document("m.alone", f"{long} first. And more.\n\nBelow."),
        document("m.twice", f"{long} twice."),  # says its name
        document("m.one", f"{long} alike."),
        document("n.other", f"{long}, alike!"),  # begins alike
        document("n.short", "Do it."),
        Document(id="m", title="module m", text=f"m\n\n{long} here."),
    ]
    tasks = described_tasks(documents, {"type": "pydoc", "modules": ["m"]}, held_out=0)
    assert [tasks.task("train", i).id for i in range(tasks.size("train"))] == ["pydoc/m.alone"]
    task = tasks.task("train", 0)
    assert task.prompt.endswith(f"described so: {long} first.")
    assert task.private["gold"] == ["m.alone", "alone"]


def test_the_first_sentence_stands_below_the_signature():
    assert first_sentence("f(x)\n\nReturn x\nas it is.  Never None.\n\nMore.") == "Return x as it is."
    assert first_sentence("f(x)") == ""


def test_the_oracle_solves_them_and_no_hint_holds_the_answer():
    modules = ["statistics", "shutil", "textwrap", "random"]
    tasks = {"type": "pydoc_search", "corpus": {"type": "pydoc", "modules": modules}, "held_out": 3}
    env = turngate.make("turngate/Search-v1", tasks=tasks)
    n_tasks = 0
    for split in env.tasks.splits:
        for index in range(env.tasks.size(split)):
            task = env.tasks.task(split, index)
            hints = [env.hint(task, level) for level in (1, 2, 3)]
            assert not any(task.private["gold"][0] in hint for hint in hints)
            env.reset(options={"task": task})
            for action in env.oracle(task):
                *_, info = env.step(action)
            assert info["score"].outcome == 1.0, task
            n_tasks += 1
    assert n_tasks > 20
