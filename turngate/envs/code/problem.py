"""A repair problem: the broken code, its repair, and the tests that decide, which the agent may not see."""

from __future__ import annotations

import difflib
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Literal, TypeAlias

from turngate.envs.code.hints import hints
from turngate.errors import ConfigError
from turngate.sandbox.base import is_below_work
from turngate.types import JSON, Task

ENV_ID = "turngate/CodeRepair-v1"

Texts: TypeAlias = Mapping[str, str | None]
"""Path in the work folder, with "/" → content of the file; None: there is no such file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """One problem. Its trees are layers of texts: ``folder`` ← ``files`` (the agent starts here) ← ``solved``.

    Test ids are pytest's, ``tests/test_a.py::TestB::test_c[1]``, relative to the work folder.
    """

    id: str
    statement: str
    """The statement that the agent reads."""
    folder: str = ""
    """A folder of the host that the tree begins with; "" = an empty one. It is only read."""
    files: Texts = field(default_factory=dict)
    """On top of it, the files that the agent finds: the bug; None for a file that it may not see."""
    solved: Texts
    """On top of those files: the reference repair."""
    hidden: Texts = field(default_factory=dict)
    """On top of any tree, when tests are run to measure it: test files in their original form."""
    runner: Literal["pytest", "plain"] = "pytest"
    """``plain``: functions ``test_*`` of a module, run by the standard library alone."""
    test_files: tuple[str, ...]
    """The arguments of the runner."""
    fail_to_pass: tuple[str, ...] = ()
    pass_to_pass: tuple[str, ...] = ()
    sensitive: tuple[str, ...] = ()
    """Deciding tests that can tell a cheat: those that are asked, and those that the reference repair fails once their
    expected values are altered (see ``grading/pair.py``)."""
    asked: Mapping[str, str] = field(default_factory=dict)
    """Tests that run without their expected values (see ``grading/extracted_asserts.py``): test id → its id where it
    runs. They are all the tests of a test function, or none."""
    import_paths: tuple[str, ...] = (".",)
    """Folders that modules are imported from."""
    requires: tuple[str, ...] = ()
    """Installed distributions that the tests need besides the runner."""
    options: tuple[str, ...] = ()
    """Options of pytest with which its tests are run: those of the package itself, and tests that are left out."""
    about: Mapping[str, JSON] = field(default_factory=dict)
    """Where it comes from: package, version, operators, …"""

    def __post_init__(self) -> None:
        for name in ("files", "solved", "hidden"):
            for path in getattr(self, name):
                check_path(path, self.id)
        if not self.solved:
            raise ConfigError(f"problem '{self.id}' has no reference repair; name the files that it changes")
        if not self.test_files:
            raise ConfigError(f"problem '{self.id}' has no test files; nothing could tell whether it is solved")

    @property
    def patch(self) -> str:
        """The reference repair as a unified diff."""
        return "".join(unified(path, self.found(path), text) for path, text in sorted(self.solved.items()))

    def found(self, path: str) -> str | None:
        """A text as the agent finds it, of those that lie in ``files``; raises ConfigError for another one."""
        if path not in self.files and self.folder and self.solved.get(path, "") is not None:
            raise ConfigError(f"problem '{self.id}' changes '{path}', which is not among its files; put it there")
        return self.files.get(path)

    def original(self, path: str) -> str | None:
        """Any text as the agent finds it; a byte that is not UTF-8 is a lone surrogate. None: there is no such file."""
        if path in self.files or not self.folder:
            return self.files.get(path)
        file = Path(self.folder, path)
        return file.read_text("utf-8", "surrogateescape") if file.is_file() and not file.is_symlink() else None

    def task(self, split: str = "train") -> Task:
        """The task of this problem."""
        private = {item.name: getattr(self, item.name) for item in fields(self) if item.name != "statement"}
        found = {path: self.found(path) for path in self.solved}
        return Task(
            id=self.id,
            env_id=ENV_ID,
            prompt=self.statement,
            private=private,
            hints=hints(self.fail_to_pass, found, self.solved, self.patch),
            split=split,
            question=self._question(found),
        )

    def _question(self, found: Texts) -> str:
        """The statement and a digest of what is broken and how it is repaired: statements alone are often equal."""
        texts = json.dumps([sorted(found.items()), sorted(self.solved.items())])
        return f"{self.statement} [{hashlib.blake2b(texts.encode(), digest_size=8).hexdigest()}]"

    @staticmethod
    def of(task: Task) -> Problem:
        """The problem of a task. Raises ConfigError if the task is not of this kind."""
        private: Mapping[str, Any] = task.private
        if "solved" not in private:
            raise ConfigError(f"task '{task.id}' has no repair problem; it was stored, and private parts never are")
        return Problem(statement=task.prompt, **private)


def check_path(path: str, owner: str) -> None:
    """Raises ConfigError for a path that could lead out of the work folder, or that two spellings would share."""
    if not is_below_work(path):
        raise ConfigError(f"'{owner}' names the file '{path}'; write a path below the work folder without '.' or '..'")


def unified(path: str, before: str | None, after: str | None) -> str:
    """A unified diff of one file, as git writes it; "" if nothing differs."""
    if before == after:
        return ""
    old = [] if before is None else before.splitlines(keepends=True)
    new = [] if after is None else after.splitlines(keepends=True)
    names = ("/dev/null" if before is None else f"a/{path}", "/dev/null" if after is None else f"b/{path}")
    lines = []
    for line in difflib.unified_diff(old, new, *names):
        lines.append(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n")
    return "".join(lines)
