"""A real repository with one repair in its history, and the rows of SWE-bench that tell of it."""

import json
import subprocess
from pathlib import Path
from typing import Any, NamedTuple

import pytest

BUGGY = "def area(width, height):\n    return width + height\n"
FIXED = "def area(width, height):\n    return width * height\n"
OLD_TEST = "from shapes import area\n\n\ndef test_square():\n    assert area(2, 2) == 4\n"
NEW_TEST = OLD_TEST + "\n\ndef test_oblong():\n    assert area(2, 3) == 6\n"
FUTURE = "area-is-a-product"


class Repo(NamedTuple):
    """``base``: the commit with the bug; ``head``: the one after it, with the repair."""

    folder: Path
    base: str
    head: str
    patch: str
    test_patch: str


def git(folder: Path, *words: str, stdin: bytes = b"") -> str:
    settings = [
        "-c",
        "user.name=A",
        "-c",
        "user.email=a@b.c",
        "-c",
        "core.autocrlf=false",
        "-c",
        "commit.gpgsign=false",
    ]
    done = subprocess.run(["git", *settings, *words], cwd=folder, input=stdin, capture_output=True, check=True)
    return done.stdout.decode()


def commit(folder: Path, files: dict[str, str | bytes], message: str = "more") -> str:
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--message", message)
    return git(folder, "rev-parse", "HEAD").strip()


def commit_more(tmp_path: Path, repo: Repo, files: dict[str, str | bytes]) -> tuple[Repo, str]:
    """A copy of the repository, and a commit in it that follows the one with the bug."""
    folder = tmp_path / "r" / repo.folder.name
    git(tmp_path, "clone", "--quiet", str(repo.folder), str(folder))
    git(folder, "checkout", "--quiet", repo.base)
    return repo._replace(folder=folder), commit(folder, files)


def diff(repo: Path, before: str, after: str, *paths: str) -> str:
    return git(repo, "diff", "--binary", before, after, "--", *paths)


@pytest.fixture(scope="module")
def repo(tmp_path_factory: pytest.TempPathFactory) -> Repo:
    folder = tmp_path_factory.mktemp("repositories") / "ada__shapes"
    folder.mkdir()
    git(folder, "init", "--quiet", "--initial-branch=main")
    base = commit(folder, {"shapes.py": BUGGY, "tests/test_shapes.py": OLD_TEST, "README": "Shapes.\n"})
    head = commit(folder, {"shapes.py": FIXED, "tests/test_shapes.py": NEW_TEST, "NEWS": FUTURE}, FUTURE)
    return Repo(
        folder, base, head, diff(folder, base, head, "shapes.py"), diff(folder, base, head, "tests/test_shapes.py")
    )


def row(origin: Repo, /, **changes: Any) -> dict[str, Any]:
    return {
        "instance_id": "ada__shapes-1",
        "repo": "ada/shapes",
        "base_commit": origin.base,
        "patch": origin.patch,
        "test_patch": origin.test_patch,
        "problem_statement": "The area of an oblong is wrong.",
        "hints_text": "Is it a sum?",
        "created_at": "2020-01-01",
        "version": "1.0",
        "FAIL_TO_PASS": '["tests/test_shapes.py::test_oblong"]',
        "PASS_TO_PASS": ["tests/test_shapes.py::test_square"],
        "environment_setup_commit": origin.base,
        "difficulty": "15 min",
        **changes,
    }


def write_rows(folder: Path, *rows: object) -> Path:
    path = folder / "rows.jsonl"
    path.write_text("\n".join(item if isinstance(item, str) else json.dumps(item) for item in rows), encoding="utf-8")
    return path
