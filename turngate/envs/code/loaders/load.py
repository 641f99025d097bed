"""Published repair problems: rows in the format of SWE-bench, and folders in the layout of QuixBugs.

    with swe_bench("rows.jsonl", "repositories") as loaded, Bench() as bench:
        settled = loaded.settled(bench)
        source = settled.tasks()                      # for the environment, while ``loaded`` is open

A file that is no such data is a DataError and nothing is loaded. A row or a program that is well formed but cannot be
used is never a crash: it is listed in ``dropped``, with its line and the reason.
"""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError
from pydantic_core import from_json

from turngate.envs.code.engine.calibrate import check_paid, settle
from turngate.envs.code.grading.grading_sandbox import Bench
from turngate.envs.code.loaders.history import Change, History
from turngate.envs.code.loaders.pairs import find_pairs, pair_problem
from turngate.envs.code.problem import Problem
from turngate.envs.tasks import Dropped, TaskList, split_of, warn_of
from turngate.errors import ConfigError, DataError, TaskRefused, UnknownName
from turngate.problems import of_row
from turngate.sandbox.scratch import Scratch
from turngate.types import Task

_SOURCE_FOLDERS = ("src", "lib")
_TEST_NAME = re.compile(r"test_.*\.py|.*_test\.py", re.DOTALL)
_REPOSITORY = re.compile(r"[\w.-]+/[\w.-]+", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LoadedProblems:
    """The problems that can be used, and those that cannot."""

    problems: tuple[Problem, ...]
    dropped: tuple[Dropped, ...] = ()
    scratch: Scratch | None = None
    """Where the trees lie if they belong to this; None if they stay."""

    @property
    def folder(self) -> Path | None:
        """Where the trees lie if ``close`` removes them; None if they stay."""
        return None if self.scratch is None else self.scratch.path

    def settled(self, bench: Bench, *, repetitions: int = 3) -> LoadedProblems:
        """The same with every problem measured (see ``settle``); those that are refused move to ``dropped``.

        The trees stay those of ``self``: close one of the two when both are done with. Raises what ``settle`` raises
        besides TaskRefused.
        """
        problems: list[Problem] = []
        dropped: list[Dropped] = []
        for problem in self.problems:
            try:
                settled = settle(problem, bench, repetitions=repetitions)
                check_paid(settled, bench)
                problems.append(settled)
            except TaskRefused as error:
                line = problem.about.get("line")
                dropped.append(Dropped(id=problem.id, line=line if isinstance(line, int) else None, reason=str(error)))
        warn_of(dropped, len(self.problems), "problems that cannot be used")
        return replace(self, problems=tuple(problems), dropped=(*self.dropped, *dropped))

    def tasks(self, *, held_out: int = 0) -> TaskList:
        """The problems as tasks. Their split is what their row says, else one in ``held_out`` is held out by its id.

        Closing the tasks removes the trees, too.
        """
        tasks = []
        for problem in self.problems:
            named = problem.about.get("split")
            tasks.append(problem.task(named if isinstance(named, str) else split_of(problem.id, held_out)))
        return _ProblemTasks(tasks, self)

    def close(self) -> None:
        """Remove the trees that were made for this. Safe to repeat."""
        if self.scratch is not None:
            self.scratch.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


class _ProblemTasks(TaskList):
    """The tasks of loaded problems."""

    def __init__(self, tasks: Sequence[Task], loaded: LoadedProblems) -> None:
        super().__init__(tasks, loaded.dropped)
        self._loaded = loaded

    def close(self) -> None:
        self._loaded.close()


def quixbugs(folder: str | Path) -> LoadedProblems:
    """The programs of a folder in the layout of QuixBugs, or in the plain one: see ``pairs.py``, which says both.

    Which tests decide is unknown until the problems are ``settled``. Raises DataError for a folder without programs.
    """
    problems: list[Problem] = []
    dropped: list[Dropped] = []
    pairs = find_pairs(Path(folder))
    for pair in pairs:
        try:
            problems.append(pair_problem(Path(folder), pair))
        except TaskRefused as error:
            dropped.append(Dropped(id=pair.id, line=None, reason=str(error)))
    warn_of(dropped, len(pairs), "problems that cannot be used")
    return LoadedProblems(problems=tuple(problems), dropped=tuple(dropped))


# --- SWE-bench -------------------------------------------------------------------------------------------------------


def _names(value: object) -> object:
    """A list of test ids, which the public data writes as a list or as the JSON text of one."""
    if not isinstance(value, str):
        return value
    try:
        return from_json(value)
    except ValueError as error:
        raise ValueError(f"is neither a list nor the JSON text of one: {error}") from error


def _ids(names: list[str]) -> list[str]:
    """Each once, without the marks of progress, "[100%]", that some public lists have among them."""
    return list(dict.fromkeys(name for name in names if not name.startswith("[")))


_Names = Annotated[list[str], BeforeValidator(_names), AfterValidator(_ids)]


class _SweBenchRow(BaseModel):
    """A row of SWE-bench; columns that are not named here are ignored."""

    model_config = ConfigDict(strict=True, frozen=True)

    instance_id: str = Field(min_length=1)
    repo: str
    base_commit: str
    patch: str
    test_patch: str
    problem_statement: str
    fail_to_pass: _Names = Field(alias="FAIL_TO_PASS")
    pass_to_pass: _Names = Field(alias="PASS_TO_PASS")
    split: str | None = None
    version: Any = None
    hints_text: Any = None
    created_at: Any = None
    environment_setup_commit: Any = None


def swe_bench(
    path: str | Path,
    repositories: str | Path,
    *,
    split: str | None = None,
    limit: int | None = None,
    extract: str | Path | None = None,
) -> LoadedProblems:
    """Problems of a JSONL file in the format of SWE-bench, whose test ids are pytest's.

    ``repositories`` holds a git repository, bare or with a work tree, for each "owner/name" that a row names: in the
    folder ``owner__name`` or ``owner/name``. The agent starts in the tree of ``base_commit`` without ``.git``, so no
    later commit can be read. Each tree is exported once, into ``extract``; None: a temporary folder, which belongs to
    the result. ``split``: only rows whose column of that name says so. ``limit``: no more problems than that.

    Raises DataError, UnknownName for a split that no row has, ConfigError without git.
    """
    if limit is not None and limit < 1:
        raise ConfigError(f"limit is {limit}; it must be at least 1, or None for all")
    rows = _of_split(_read_rows(Path(path)), split)
    if not Path(repositories).is_dir():
        raise DataError(repositories, "there is no such folder of repositories")
    own = None
    if extract is None:
        own = Scratch("trees")
        extract = own.path
    store = Path(extract).resolve()
    try:
        store.mkdir(parents=True, exist_ok=True)
        with Scratch("git") as scratch:
            problems, dropped = _load(rows, _Repositories(Path(repositories), store, scratch), limit)
    except BaseException:
        if own is not None:
            own.close()
        raise
    return LoadedProblems(problems=problems, dropped=dropped, scratch=own)


def _load(
    rows: Sequence[tuple[int, _SweBenchRow]], repositories: _Repositories, limit: int | None
) -> tuple[tuple[Problem, ...], tuple[Dropped, ...]]:
    problems: list[Problem] = []
    dropped: list[Dropped] = []
    for line, row in rows:
        if len(problems) == limit:
            break
        try:
            problems.append(_problem(line, row, repositories))
        except TaskRefused as error:
            dropped.append(Dropped(id=row.instance_id, line=line, reason=str(error)))
    warn_of(dropped, len(problems) + len(dropped), "problems that cannot be used")
    return tuple(problems), tuple(dropped)


# --- rows ------------------------------------------------------------------------------------------------------------


def _read_rows(path: Path) -> list[tuple[int, _SweBenchRow]]:
    """Rows with their lines. A text of JSON may hold line separators of Unicode, so only newlines end a line."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise DataError(path, f"cannot be read: {error.strerror}") from error
    rows: list[tuple[int, _SweBenchRow]] = []
    seen: dict[str, int] = {}
    for line, text in enumerate(content.split(b"\n"), start=1):
        if not text.strip():
            continue
        row = _row(text, path, line)
        if row.instance_id in seen:
            twice = f"the id '{row.instance_id}' is used twice, first in line {seen[row.instance_id]}"
            raise DataError(path, twice, line=line, field="instance_id")
        seen[row.instance_id] = line
        rows.append((line, row))
    if not rows:
        raise DataError(path, "holds no rows; write one JSON object a line")
    return rows


def _row(text: bytes, path: Path, line: int) -> _SweBenchRow:
    try:
        return _SweBenchRow.model_validate_json(text)
    except ValidationError as error:
        problem, field = of_row(error)
        raise DataError(path, problem, line=line, field=field) from error


def _of_split(rows: list[tuple[int, _SweBenchRow]], split: str | None) -> list[tuple[int, _SweBenchRow]]:
    if split is None:
        return rows
    chosen = [item for item in rows if item[1].split == split]
    if not chosen:
        raise UnknownName("split", split, {row.split for _, row in rows if row.split})
    return chosen


# --- rows to problems ------------------------------------------------------------------------------------------------


class _Repositories:
    """Histories of the repositories of a folder, and ``store``, the folder for exported trees."""

    def __init__(self, root: Path, store: Path, scratch: Path) -> None:
        self._root, self._store, self._scratch = root, store, scratch
        self._histories: dict[str, History] = {}

    def history(self, name: str) -> History:
        """The history of "owner/name"."""
        if name not in self._histories:
            scratch = self._scratch / str(len(self._histories))
            scratch.mkdir(exist_ok=True)
            self._histories[name] = History(self._folder(name), scratch)
        return self._histories[name]

    def tree(self, name: str, commit: str) -> Path:
        """The exported tree of a commit. It appears whole: an interrupted export leaves no folder of that name."""
        target = self._store / f"{name.replace('/', '__')}@{commit}"
        if target.is_dir():
            return target
        part = Path(tempfile.mkdtemp(prefix=".part-", dir=self._store))
        try:
            self.history(name).export(commit, part)
            part.chmod(0o755)
            os.rename(part, target)
        except OSError:
            if not target.is_dir():  # else another process was faster
                raise
        finally:
            shutil.rmtree(part, ignore_errors=True)
        return target

    def _folder(self, name: str) -> Path:
        if not _REPOSITORY.fullmatch(name) or {".", ".."} & set(name.split("/")):
            raise TaskRefused(f"repo '{name}' is not of the form owner/name")
        folders = [self._root / name.replace("/", "__"), self._root / name]
        found = next((folder for folder in folders if folder.is_dir()), None)
        if found is None:
            raise TaskRefused(f"there is no repository of '{name}': neither '{folders[0]}' nor '{folders[1]}'")
        return found


def _problem(line: int, row: _SweBenchRow, repositories: _Repositories) -> Problem:
    if not row.problem_statement.strip():
        raise TaskRefused("problem_statement is empty")
    if not row.fail_to_pass:
        raise TaskRefused("FAIL_TO_PASS is empty, so nothing could tell whether it is solved")
    history = repositories.history(row.repo)
    history.check(row.base_commit)
    repair = history.changes(row.base_commit, row.patch, "patch")
    tests = history.changes(row.base_commit, row.test_patch, "test_patch")
    if both := sorted(repair.keys() & tests.keys()):
        raise TaskRefused(f"patch and test_patch both change '{both[0]}', so the tests would undo the repair")
    if not repair:
        raise TaskRefused("patch changes no text")
    test_files = _test_files(row, tests)
    tree = repositories.tree(row.repo, row.base_commit)
    columns = ("repo", "base_commit", "split", "version", "created_at", "hints_text", "environment_setup_commit")
    about = {name: value for name in columns if (value := getattr(row, name)) is not None}
    return Problem(
        id=row.instance_id,
        statement=row.problem_statement,
        folder=str(tree),
        files={path: change.before for path, change in repair.items()},
        solved={path: change.after for path, change in repair.items()},
        hidden={path: change.after for path, change in tests.items()},
        test_files=test_files,
        fail_to_pass=tuple(row.fail_to_pass),
        pass_to_pass=tuple(row.pass_to_pass),
        import_paths=(*_source_folders(tree), "."),
        about={"source": "swe_bench", "line": line, **about},
    )


def _test_files(row: _SweBenchRow, tests: dict[str, Change]) -> tuple[str, ...]:
    """The modules of ``test_patch`` that hold tests by their names or by the ids of the row.

    Others, data or a conftest.py, are no arguments of a runner; an id of a file that is not run is never reported.
    """
    named = {name.split("::")[0] for name in (*row.fail_to_pass, *row.pass_to_pass) if "::" in name}
    modules = {path for path, change in tests.items() if path.endswith(".py") and change.after is not None}
    files = {path for path in modules if path in named or _TEST_NAME.fullmatch(Path(path).name)}
    if not files:
        raise TaskRefused("test_patch has no tests: it leaves no changed test module behind")
    for name in (*row.fail_to_pass, *row.pass_to_pass):
        if "::" not in name:
            raise TaskRefused(f"the test '{name}' is not an id of pytest, which is FILE::NAME")
        if name.split("::")[0] not in files:
            raise TaskRefused(f"the test '{name}' lies in a file that test_patch does not change")
    return tuple(sorted(files))


def _source_folders(tree: Path) -> Iterator[str]:
    """Folders that hold the packages of a tree, where an installation would have put them on the import path."""
    for name in _SOURCE_FOLDERS:
        if not (tree / name / "__init__.py").exists() and any((tree / name).glob("*/__init__.py")):
            yield name
