"""Which of an agent's changes are the repair, and which never reach the sandbox that measures it.

Tests, files that configure or start them, and modules that would replace the runner's own are left out: the original
files are used there. So an agent may change them freely; only its own view changes.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import PurePosixPath

from turngate.envs.code.problem import Problem, Texts

CONFIGURATION = (
    "conftest.py",
    "pytest.ini",
    ".pytest.ini",
    "pytest.toml",
    ".pytest.toml",
    "tox.ini",
    "setup.cfg",
    "pyproject.toml",
    "sitecustomize.py",
    "usercustomize.py",
    "*.pth",
    "*.pyc",
    "*.so",
)
RUNNER = frozenset({"pytest", "_pytest", "pluggy", "iniconfig", "packaging", "pygments", "py"})
TEST_FOLDERS = frozenset({"test", "tests"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Sorted:
    """Changes by kind. Only ``repair`` is measured."""

    repair: Texts
    tests_changed: tuple[str, ...] = ()
    """Test files of the work folder that have another text now."""
    tests_deleted: tuple[str, ...] = ()
    tests_added: tuple[str, ...] = ()
    protected: tuple[str, ...] = ()
    """Files that configure the runner, would be imported in place of its modules, or are no text."""
    deleted: tuple[str, ...] = ()
    """Files that are gone although the reference repair keeps them."""


def sort_changes(changes: Texts, problem: Problem, existed: frozenset[str]) -> Sorted:
    """``existed``: the files that the agent found. Files that the reference repair changes are never protected."""
    groups: dict[str, list[str]] = {name: [] for name in ("changed", "deleted", "added", "protected", "gone")}
    repair: dict[str, str | None] = {}
    for path, text in sorted(changes.items()):
        if path in problem.solved:
            repair[path] = text
        elif is_test(path) or path in problem.hidden:
            kind = "deleted" if text is None else "changed" if path in existed else "added"
            groups[kind].append(path)
        elif is_protected(path, problem, existed) or "\0" in (
            text or ""
        ):  # no patch holds it; an archive is importable
            groups["protected"].append(path)
        else:
            repair[path] = text
            if text is None:
                groups["gone"].append(path)
    return Sorted(
        repair=repair,
        tests_changed=tuple(groups["changed"]),
        tests_deleted=tuple(groups["deleted"]),
        tests_added=tuple(groups["added"]),
        protected=tuple(groups["protected"]),
        deleted=tuple(groups["gone"]),
    )


def is_test(path: str) -> bool:
    """Whether a file is a test, or lies in a folder of tests."""
    pure = PurePosixPath(path)
    named = fnmatch(pure.name, "test_*.py") or fnmatch(pure.name, "*_test.py")
    return named or not TEST_FOLDERS.isdisjoint(pure.parts[:-1])


def is_protected(path: str, problem: Problem, existed: frozenset[str]) -> bool:
    """Whether a file configures the runner or, being new, is imported instead of a module of the runner."""
    pure = PurePosixPath(path)
    if any(fnmatch(pure.name, pattern) for pattern in CONFIGURATION) or pure.parts[0] == ".git":
        return True
    if path in existed:
        return False
    for root in problem.import_paths:
        parts = pure.parts if root == "." else pure.relative_to(root).parts if pure.is_relative_to(root) else ()
        if parts and parts[0].removesuffix(".py") in RUNNER | sys.stdlib_module_names:
            return True
    return False
