"""Questions about a folder of Markdown pages: search, look at a page's sections, read one, answer.

A small wiki of our own about an invented island lies in ``island_wiki/``. For yours, name both in the config:
``kwargs = {pages = "my_pages"}`` and ``tasks = {type = "examples.environments.wiki_search:questions", file = "…"}``.
"""

import re
import sqlite3
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow.json

from turngate import ConfigError, Evidence, FromEvidence, Rubric, Task, ToolEnv, ToolError, TurnSpec, register, tool

ID = "examples/WikiSearch-v0"
RIGHT = FromEvidence(name="right", evidence="right", kind="outcome", levels=(0, 1))
OURS = Path(__file__).parent / "island_wiki"


def questions(*, file: Path = OURS / "questions.jsonl") -> list[Task]:
    """Rows of ``question``, ``answers`` (all that are right), ``page`` and ``section`` (where it stands), ``split``."""
    return [
        Task(id=f"wiki/{n}", env_id=ID, prompt=row["question"], private=row, split=row["split"])
        for n, row in enumerate(pyarrow.json.read_json(file).to_pylist())
    ]


class Wiki:
    """The pages of a folder, each by the name of its file, and an index of all their words."""

    def __init__(self, folder: Path) -> None:
        self.pages = {file.stem: sections(file.read_text()) for file in sorted(folder.glob("*.md"))}
        if not self.pages:
            raise ConfigError(f"pages: no file in '{folder}' ends in .md")
        self.index = sqlite3.connect(":memory:", check_same_thread=False)  # shared by all environments, only read
        self.index.execute("CREATE VIRTUAL TABLE pages USING fts5(name, text, tokenize = 'porter')")
        texts = [(name, "\n".join(map("\n".join, page))) for name, page in self.pages.items()]
        self.index.executemany("INSERT INTO pages VALUES (?, ?)", texts)

    def search(self, query: str) -> list[str]:
        """Names of the ten best pages that have any of the words, the best first."""
        words = " OR ".join(f'"{word}"' for word in re.findall(r"\w+", query))
        best = "SELECT name FROM pages WHERE pages MATCH ? ORDER BY rank LIMIT 10"
        return [name for (name,) in self.index.execute(best, [words])] if words else []


open_wiki = cache(Wiki)


def sections(text: str) -> list[tuple[str, str]]:
    """Heading and text of each; what stands before the first heading is a section too."""
    before, *rest = re.split(r"^#+ +(.*)$", text, flags=re.MULTILINE)
    return [("Beginning", before)] * bool(before.strip()) + list(zip(rest[::2], rest[1::2], strict=True))


class WikiSearch(ToolEnv):
    """The answer is right if it is one of those that are, whatever its case, article and punctuation."""

    turn_spec = TurnSpec(rubric=Rubric(rewards=(RIGHT,)), max_turns=10, tasks=questions, has_oracle=True)

    def __init__(self, *, pages: Path | str = OURS, **options: Any) -> None:
        super().__init__(**options)
        self.wiki = open_wiki(Path(pages))

    def begin(self, task: Task) -> str:
        self.given = None
        return f"{task.prompt} Search the wiki, read, and give a short answer."

    @tool
    def search_pages(self, query: str) -> str:
        """Find the ten pages that fit some words best."""
        found = self.wiki.search(query)
        return "\n".join(f"{name}: {self.page(name)[0][0]}" for name in found) or "no page has any of these words"

    @tool
    def view_sections(self, page: str) -> str:
        """List the sections of a page with their numbers."""
        return "\n".join(f"{number} {heading}" for number, (heading, _) in enumerate(self.page(page)))

    @tool
    def read_section(self, page: str, number: int) -> str:
        """Read a section."""
        found = self.page(page)
        if not 0 <= number < len(found):
            raise ToolError(f"page '{page}' has the sections 0 to {len(found) - 1}, not {number}")
        return "\n".join(found[number]).strip()

    def page(self, name: str) -> list[tuple[str, str]]:
        if name not in self.wiki.pages:
            raise ToolError(f"there is no page '{name}'; find its name with search_pages")
        return self.wiki.pages[name]

    @tool(name="answer")
    def give_answer(self, text: str) -> str:
        """Answer the question."""
        self.given = text
        self.end()
        return "answered"

    def state(self) -> str:
        return f"{self.task.id} {self.shown}"

    def answer(self) -> str | None:
        return self.given

    def verify(self) -> list[Evidence]:
        right = {plain(one) for one in self.task.private["answers"]}
        return [Evidence(name="right", value=self.given is not None and plain(self.given) in right)]

    def oracle(self, task: Task) -> list[str]:
        page, wanted = task.private["page"], task.private["section"]
        number = [heading for heading, _ in self.page(page)].index(wanted)
        steps = [f"search_pages {task.prompt}", f"view_sections {page}", f"read_section {page} {number}"]
        return [*steps, f"answer {task.private['answers'][0]}"]


def plain(text: str) -> str:
    """Words only, in small letters, without articles."""
    return " ".join(word for word in re.findall(r"\w+", text.lower()) if word not in ("a", "an", "the"))


register(ID, "examples.environments.wiki_search:WikiSearch", description="Questions about a small wiki.")
