"""A task set on disk, which the environment is trained on.

    FOLDER/problems.jsonl        one problem per line
    FOLDER/trees/NAME-VERSION/   the source of each package once, without by-products
    FOLDER/card.md, card.json    its sources and settings (``dataset_card.py``)

A text of a problem that its tree has too is stored as the name of the file, so a row is about as long as the broken
modules. Every file is whole or absent, whenever a writer is killed; the card names the complete parts.
"""

from __future__ import annotations

import json
import os
import shutil
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from turngate.envs.code.dataset_card import HarvestedPackage, facts, page
from turngate.envs.code.problem import Problem, check_path
from turngate.envs.tasks import TaskList, split_of
from turngate.errors import ConfigError, DataError
from turngate.jsonl import read_text
from turngate.problems import of_row

ROWS, TREES, CARD, PAGE = "problems.jsonl", "trees", "card.json", "card.md"
HELD_OUT = 5
"""Every n-th task is held out."""

_SOURCES = TypeAdapter(list[HarvestedPackage])


def read(folder: str | Path) -> TaskList:
    """The tasks of a folder. Raises DataError, with file and line, for a bad row or a missing tree, and for no row."""
    problems = problems_of(folder)
    if not problems:
        raise DataError(Path(folder) / ROWS, "holds no problems; make some with: turngate tasks code")
    return TaskList([problem.task(split_of(problem.id, HELD_OUT)) for problem in problems])


def problems_of(folder: str | Path) -> tuple[Problem, ...]:
    """The problems of a folder, in their order. Raises DataError."""
    root = Path(folder)
    path = root / ROWS
    if not path.is_file():
        raise DataError(path, f"cannot be read: there is no such file; is '{root}' a task set?")
    problems: list[Problem] = []
    seen: dict[str, int] = {}
    for number, line in enumerate(read_text(path).split("\n"), start=1):
        if not line.strip():
            continue
        problem = _of_row(root, line, number)
        if (first := seen.setdefault(problem.id, number)) != number:
            raise DataError(
                path, f"the id '{problem.id}' is used twice, first in line {first}", line=number, field="id"
            )
        problems.append(problem)
    return tuple(problems)


def sources_of(folder: str | Path) -> tuple[HarvestedPackage, ...]:
    """The sources of a folder so far; empty if there is no card. Raises DataError for a damaged card."""
    path = Path(folder) / CARD
    if not path.exists():
        return ()
    try:
        return tuple(_SOURCES.validate_python(json.loads(path.read_text(encoding="utf-8"))["sources"]))
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise DataError(path, f"is not the card of a task set: {error}") from error


def check_target(folder: str | Path) -> None:
    """Raises ConfigError for a folder that holds anything but a task set."""
    root = Path(folder)
    if root.exists() and not root.is_dir():
        raise ConfigError(f"'{root}' is no folder; name another one")
    others = sorted(path.name for path in root.iterdir() if not _is_own(path.name)) if root.is_dir() else []
    if others:
        raise ConfigError(f"'{root}' holds '{others[0]}', which is no part of a task set; name an empty folder")


def _is_own(name: str) -> bool:
    return name.removesuffix(".new").lstrip(".") in (ROWS, TREES, CARD, PAGE)


def write(folder: str | Path, problems: Sequence[Problem], sources: Sequence[HarvestedPackage]) -> None:
    """Make a folder hold exactly these problems; their trees are copied into it once.

    Raises ConfigError for a folder that holds something else, or a problem without a package in its ``about``.
    """
    check_target(folder)
    root = Path(folder)
    (root / TREES).mkdir(parents=True, exist_ok=True)
    rows = [_row_of(root, problem) for problem in problems]
    card = facts(problems, Counter(split_of(problem.id, HELD_OUT) for problem in problems), sources)
    _write(root / ROWS, "".join(rows))
    _write(root / PAGE, page(card))
    _write(root / CARD, json.dumps(card, indent=2, ensure_ascii=False) + "\n")


# --- rows -------------------------------------------------------------------------------------------------------------


class _AsInTree(BaseModel):
    """Files whose text is that of the tree."""

    model_config = ConfigDict(strict=True, extra="forbid")

    solved: tuple[str, ...] = ()
    hidden: tuple[str, ...] = ()


class _ProblemRow(BaseModel):
    """A problem as it is stored (see ``Problem``)."""

    model_config = ConfigDict(strict=True, extra="forbid")

    id: str = Field(min_length=1)
    statement: str = Field(min_length=1)
    folder: str = Field(min_length=1)
    files: dict[str, str | None]
    solved: dict[str, str | None]
    hidden: dict[str, str | None]
    as_in_tree: _AsInTree
    runner: Literal["pytest", "plain"]
    test_files: tuple[str, ...] = Field(min_length=1)
    fail_to_pass: tuple[str, ...] = Field(min_length=1)
    pass_to_pass: tuple[str, ...]
    sensitive: tuple[str, ...]
    asked: dict[str, str] = {}
    import_paths: tuple[str, ...]
    requires: tuple[str, ...]
    options: tuple[str, ...] = ()
    about: dict[str, Any]


def _row_of(root: Path, problem: Problem) -> str:
    if "package" not in problem.about or not problem.folder:
        raise ConfigError(f"problem '{problem.id}' is not made of a package; only such problems have a tree to store")
    label = f"{problem.about['package']}-{problem.about['version']}"
    tree = _keep_tree(Path(problem.folder), root / TREES / label)
    row: dict[str, Any] = {item.name: getattr(problem, item.name) for item in fields(problem)}
    row["as_in_tree"] = {}
    for name in ("solved", "hidden"):
        same = tuple(path for path, text in row[name].items() if text is not None and _text(tree / path) == text)
        row["as_in_tree"][name] = same
        row[name] = {path: text for path, text in row[name].items() if path not in same}
    return _ProblemRow(**row | {"folder": f"{TREES}/{label}"}).model_dump_json() + "\n"


def _of_row(root: Path, line: str, number: int) -> Problem:
    path = root / ROWS
    try:
        row = _ProblemRow.model_validate_json(line)
    except ValidationError as error:
        problem, field = of_row(error)
        raise DataError(path, problem, line=number, field=field) from error
    tree = root / row.folder
    try:
        for name in (row.folder, *row.as_in_tree.solved, *row.as_in_tree.hidden):
            check_path(name, row.id)
        if not tree.is_dir():
            raise DataError(path, f"there is no tree '{tree}'", line=number, field="folder")
        solved = {name: _stored(tree, name) for name in row.as_in_tree.solved}
        hidden = {name: _stored(tree, name) for name in row.as_in_tree.hidden}
        plain = row.model_dump(exclude={"as_in_tree", "folder", "solved", "hidden"})
        return Problem(folder=str(tree), solved=solved | row.solved, hidden=hidden | row.hidden, **plain)
    except (OSError, UnicodeDecodeError, ConfigError) as error:
        raise DataError(path, f"is not the row of a task: {error}", line=number) from error


def _stored(tree: Path, name: str) -> str:
    return (tree / name).read_bytes().decode()


def _text(path: Path) -> str | None:
    return path.read_bytes().decode(errors="surrogateescape") if path.is_file() else None


# --- files ------------------------------------------------------------------------------------------------------------


def _keep_tree(source: Path, target: Path) -> Path:
    """Copy a tree, unless it is there; it appears when it is whole."""
    if not target.exists():
        new = target.parent.parent / f".{target.parent.name}.new"
        shutil.rmtree(new, ignore_errors=True)  # of a writer that was killed
        shutil.copytree(source, new, symlinks=True)
        os.replace(new, target)
    return target


def _write(path: Path, text: str) -> None:
    new = path.with_name(f".{path.name}.new")
    with open(new, "w", encoding="utf-8", newline="") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    os.replace(new, path)


def with_source(
    folder: str | Path, problems: Sequence[Problem], source: HarvestedPackage
) -> tuple[tuple[Problem, ...], tuple[HarvestedPackage, ...]]:
    """The contents of a folder, and a package on top; rows of it that an interrupted writer left are replaced."""
    sources = sources_of(folder)
    known: Mapping[str, HarvestedPackage] = {item.label: item for item in sources}
    before = problems_of(folder) if (Path(folder) / ROWS).exists() else ()
    kept = [item for item in before if f"{item.about['package']}-{item.about['version']}" in known]
    return (*kept, *problems), (*sources, source)
