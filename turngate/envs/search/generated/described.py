"""Questions about Python's own documentation: which function or class is it that a sentence describes?

The sentence is the first one of the documentation of a function or class, where no other begins alike and where it does
not say the name. A task on real text that needs no file and no network; it differs with the version of Python.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping

from turngate.envs.search.engine.passages import Document
from turngate.envs.search.loaders.known_questions import ENV_ID
from turngate.envs.search.retrieval_facts import bears_answer
from turngate.envs.search.task import SearchTask
from turngate.envs.tasks import TaskList, split_of
from turngate.rewards.outcome.normal_form import normalize
from turngate.types import JSON, Task

SHORTEST, LONGEST = 30, 300
"""Characters of a sentence that is asked about."""

_END = re.compile(r"(?<=[.!?])\s")


def described_tasks(documents: Iterable[Document], table: Mapping[str, JSON], held_out: int) -> TaskList:
    """A task for each of ``documents`` (of ``PydocDocuments``, which ``table`` names) whose first sentence names it."""
    found = {one.id: first_sentence(one.text) for one in documents if not one.title.startswith("module ")}
    alike = Counter(normalize(sentence) for sentence in found.values())
    members = Counter(name.rpartition(".")[2].lower() for name in found)
    tasks = []
    for name, sentence in found.items():
        member = name.rpartition(".")[2]
        telling = SHORTEST <= len(sentence) <= LONGEST and alike[normalize(sentence)] == 1
        if not telling or bears_answer([sentence], [name, member]):
            continue
        gold = [name, member] if members[member.lower()] == 1 else [name]
        private = SearchTask(corpus=dict(table), gold=gold, documents=[name], titles=[name]).private()
        prompt = f"Which function or class of Python's standard library is described so: {sentence}"
        split = split_of(name, held_out)
        tasks.append(Task(id=f"pydoc/{name}", env_id=ENV_ID, prompt=prompt, private=private, split=split))
    return TaskList(tasks)


def first_sentence(text: str) -> str:
    """The first sentence of a documentation below its first line, which is the signature."""
    paragraph = text.partition("\n\n")[2].partition("\n\n")[0]
    return _END.split(" ".join(paragraph.split()), maxsplit=1)[0]
