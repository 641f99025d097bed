"""The bench, which measures trees. Each run of tests has a sandbox of its own, in which no agent has ever acted.

It begins with the tree as the agent found it, made again from the problem; the agent's changes are put on top as texts,
then the hidden tests in their original form. The same tree of the same problem is measured once: tests that are not
deterministic were sorted out when the problem was made.
"""

from __future__ import annotations

import logging
import os
import secrets
import threading
import uuid
from collections.abc import Hashable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from random import Random
from typing import Any, Literal, Self

from turngate.envs.cache import Cache
from turngate.envs.code.grading.forms import (
    HiddenFiles,
    alterable_functions,
    altered_texts,
    asked_form,
    function_of,
    judged,
)
from turngate.envs.code.grading.image import INSIDE, INTERPRETER, PYTHON, SITE, Toolbox
from turngate.envs.code.grading.junit import Report, read_report
from turngate.envs.code.grading.pair import Control, Halves, RunPair, halves
from turngate.envs.code.grading.returned import read_answers
from turngate.envs.code.problem import Problem, Texts
from turngate.errors import ConfigError, EnvError
from turngate.sandbox import (
    Backend,
    FolderSnapshot,
    KilledBy,
    ResourceLimits,
    Sandbox,
    SandboxFileError,
    SandboxLost,
    open_backend,
)
from turngate.sandbox.base import ENVIRONMENT, TMP, WORK
from turngate.types import derive_seed

REPORT_BYTES = 16 << 20
KEPT_REPORTS = 100_000
ANSWER_BYTES = 16 << 20
KEPT_FOLDERS = 64
KEPT_FORMS = 256
KEPT_PAIRS = 1024
_log = logging.getLogger(__name__)


class Bench:
    """Many threads may share one. ``deadline_s`` bounds each run of tests. ``settings``: see the back end.

    Once a sandbox is open, every failure in it is a ``Report``: code under test may break anything. Which tests are
    altered in a pair of runs, and how, derives from a secret that is drawn when a bench is made, so that code inside
    cannot work it out; verdicts on honest code do not depend on it.

    Raises what ``open_backend`` raises. ``close`` ends every sandbox.
    """

    def __init__(
        self,
        backend: Literal["bubblewrap", "docker"] = "bubblewrap",
        *,
        deadline_s: float = 60.0,
        limits: ResourceLimits | None = None,
        **settings: object,
    ) -> None:
        if backend not in ("bubblewrap", "docker"):
            raise ConfigError(f"the back end is '{backend}'; code that an agent wrote needs 'bubblewrap' or 'docker'")
        if not deadline_s > 0:
            raise ConfigError(f"deadline_s is '{deadline_s}'; it must be above 0")
        self.deadline_s = deadline_s
        self._lock = threading.Lock()
        self._folders = Cache[str, FolderSnapshot](room=KEPT_FOLDERS)
        self._reports = Cache[Hashable, Report](room=KEPT_REPORTS)
        self._pairs = Cache[Hashable, RunPair](room=KEPT_PAIRS)
        self._forms = Cache[Hashable, tuple[HiddenFiles, frozenset[str]]](room=KEPT_FORMS)
        self._secret = secrets.token_hex(16)
        self.outputs = Cache[Hashable, str](room=KEPT_REPORTS)
        """Outputs of the runner, for callers that know that it would write the same again."""
        self.toolbox = Toolbox()
        try:
            more: Any = settings.pop("shown", {})
            shown = {**self.toolbox.shown, **more}
            self._backend: Backend = open_backend(backend, limits, shown=shown, **settings)
        except BaseException:
            self.toolbox.close()
            raise

    def open(self, problem: Problem) -> Sandbox:
        """A sandbox with the tree as the agent finds it. Raises TaskRefused, DataError for a folder without reading."""
        if problem.runner == "pytest":
            self.toolbox.add_runner()
        self.toolbox.add(problem.requires)
        self.toolbox.check(problem)
        sandbox = self._backend.open(self._folder(problem.folder) if problem.folder else None)
        try:
            write_texts(sandbox, problem.files)
        except BaseException:
            sandbox.close()
            raise
        return sandbox

    def reopen(self, snapshot: FolderSnapshot) -> Sandbox:
        """A sandbox of this bench as it was."""
        return self._backend.open(snapshot)

    def run(self, problem: Problem, changes: Texts) -> Report:
        """Run the hidden tests on the tree with ``changes`` on top of what the agent finds.

        Asked tests run without their expected values. A runner that breaks is run once more, because the machine may
        have broken it; an error of the code occurs again.
        """
        key = (_key(problem), tuple(sorted(changes.items())))
        with self._reports.reserve(key):  # siblings of a group often come to the same tree in the same moment
            report = self._reports.get(key)
            if report is None:
                report = self.measure(problem, changes)
                if report.problem and not report.killed:
                    _log.info("the tests of '%s' are run again, because %s", problem.id, report.problem)
                    report = self.measure(problem, changes)
                self._reports.put(key, report)
            return report

    def measure(
        self, problem: Problem, changes: Texts, *, control: Control | None = None, deadline_s: float | None = None
    ) -> Report:
        """``run``, but never from the cache, and with a deadline of its own if one is given.

        ``control``, for settling: ``asked`` runs every test so that can be asked, and reports the returned values under
        the ids inside; ``altered`` runs the tests with everything that is not asked altered.
        """
        form, functions = self._form(problem)
        limit_s = self.deadline_s if deadline_s is None else deadline_s
        match control:
            case "asked":
                return self._run_on(problem, changes, asked_form(problem).texts, limit_s)
            case "altered":
                rng = Random(derive_seed("settle", problem.id, *map(str, sorted(functions))))
                texts = altered_texts(problem, form.texts, functions, rng)
            case None:
                texts = form.texts
        return judged(problem, form, self._run_on(problem, changes, texts, limit_s))

    def pair(self, problem: Problem, changes: Texts, number: int) -> RunPair:
        """Two runs at once, in one of which each alterable test is altered, and in the other not (``pair.py``).

        ``number``: each number of one tree has a draw of its own.
        """
        key = (_key(problem), tuple(sorted(changes.items())), number)
        with self._pairs.reserve(key):
            pair = self._pairs.get(key)
            if pair is None:
                form, functions = self._form(problem)
                drawn = halves(problem, form.texts, functions, derive_seed("pair", self._secret, repr(key)))
                reports = self._run_pair(problem, changes, form, drawn)
                if any(report.problem and not report.killed for report in reports):
                    reports = self._run_pair(problem, changes, form, drawn)
                pair = RunPair(halves=drawn, reports=reports)
                self._pairs.put(key, pair)
            return pair

    def on_reference(self, problem: Problem, texts: Texts) -> Report:
        """The report of the reference repair on altered tests."""
        key = ("reference", _key(problem), tuple(sorted(texts.items())))
        with self._reports.reserve(key):
            report = self._reports.get(key)
            if report is None:
                form, _ = self._form(problem)
                report = judged(problem, form, self._run_on(problem, problem.solved, texts, self.deadline_s))
                self._reports.put(key, report)
            return report

    def alterable(self, problem: Problem) -> frozenset[str]:
        """The test functions of a problem that a pair alters."""
        return self._form(problem)[1]

    def _form(self, problem: Problem) -> tuple[HiddenFiles, frozenset[str]]:
        key = _key(problem)
        with self._forms.reserve(key):
            found = self._forms.get(key)
            if found is None:
                only = {function_of(name) for name in problem.asked}
                form = asked_form(problem, only) if only else HiddenFiles(texts=problem.hidden, sites={})
                found = form, alterable_functions(problem)
                self._forms.put(key, found)
            return found

    def _run_on(self, problem: Problem, changes: Texts, texts: Texts, deadline_s: float) -> Report:
        with self.open(problem) as sandbox:
            return self._place(sandbox, changes, texts) or self._tests(sandbox, problem, deadline_s)

    def _run_pair(self, problem: Problem, changes: Texts, form: HiddenFiles, drawn: Halves) -> tuple[Report, Report]:
        """Both sandboxes are made ready, then both commands are released together."""
        with ExitStack() as stack:
            sandboxes = [stack.enter_context(self.open(problem)) for _ in drawn.texts]
            for sandbox, texts in zip(sandboxes, drawn.texts, strict=True):
                if refused := self._place(sandbox, changes, texts):
                    return refused, refused
            barrier = threading.Barrier(len(sandboxes))

            def released(sandbox: Sandbox) -> Report:
                barrier.wait()
                return judged(problem, form, self._tests(sandbox, problem, self.deadline_s))

            with ThreadPoolExecutor(len(sandboxes)) as pool:
                first, second = pool.map(released, sandboxes)
            return first, second

    def _place(self, sandbox: Sandbox, changes: Texts, texts: Texts) -> Report | None:
        """Put the changes and the tests into a sandbox; a report if they do not fit."""
        try:
            write_texts(sandbox, changes)
            write_texts(sandbox, texts)
        except SandboxFileError as error:  # such as a file where the tree has a folder
            return Report(status={}, problem=f"the changes do not fit onto the tree: {error}")
        return None

    def _tests(self, sandbox: Sandbox, problem: Problem, deadline_s: float) -> Report:
        """Run the tests; any damage that the code under test does to the sandbox is a report."""
        try:
            return run_tests(sandbox, problem, problem.test_files, deadline_s=deadline_s, traces="no")
        except SandboxLost as error:
            return Report(status={}, problem=f"the sandbox of the tests broke: {error}")

    def close(self) -> None:
        """End every sandbox and remove all files. Safe to repeat."""
        self._folders = Cache(room=KEPT_FOLDERS)  # a snapshot lives as long as it is referenced
        self._backend.close()
        self.toolbox.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def _folder(self, folder: str) -> FolderSnapshot:
        with self._lock:  # so that a folder is read once, however many ask for it
            kept = self._folders.get(folder)
            if kept is None:
                kept = self._backend.keep(folder)
                self._folders.put(folder, kept)
            return kept


def _key(problem: Problem) -> Hashable:
    """Everything that the tests of a problem, and its trees, depend on."""
    hidden = tuple(sorted(problem.hidden.items()))
    return problem.id, problem.patch, hidden, tuple(sorted(problem.asked.items()))


def python_env(problem: Problem) -> dict[str, str]:
    """Environment variables for the agent's commands and the runner, besides the sandbox's own."""
    paths = [SITE, *(os.path.normpath(f"{WORK}/{path}") for path in problem.import_paths)]
    return {
        "LD_LIBRARY_PATH": f"{PYTHON}/lib",
        "PYTHONPATH": ":".join(paths),
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONHASHSEED": "0",
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
        "PATH": f"{PYTHON}/bin:{ENVIRONMENT['PATH']}",
    }


def write_texts(sandbox: Sandbox, texts: Texts) -> None:
    """Write texts into /work, and remove the files whose text is None."""
    gone = [path for path, text in texts.items() if text is None]
    if gone:  # as input, because they may be more than fit into a command line
        names = b"".join(os.fsencode(path) + b"\0" for path in gone)
        sandbox.run(["xargs", "-0", "rm", "-rf", "--"], deadline_s=60, stdin=names)
    for path, text in texts.items():
        if text is not None:
            sandbox.write(path, text.encode("utf-8", "surrogateescape"))


def run_tests(
    sandbox: Sandbox,
    problem: Problem,
    tests: tuple[str, ...],
    *,
    deadline_s: float,
    plugin: str = "",
    traces: Literal["short", "no"] = "short",
    env: Mapping[str, str] | None = None,
) -> Report:
    """Run test files, or single tests, of a sandbox's work folder. ``plugin``: one of ``inside`` for pytest.

    ``traces``: pytest's tracebacks, for a reader of the output. They parse the source, which Python 3.11.7 cannot do
    reliably beside other threads ("AST constructor recursion depth mismatch"); then the runner breaks.
    """
    name = f"{TMP}/{uuid.uuid4().hex}.xml"
    if problem.runner == "plain":
        argv = [INTERPRETER, "-I", "-S", f"{INSIDE}/run_plain.py", name, *tests]
    else:
        paths = ":".join(problem.import_paths)
        argv = [INTERPRETER, "-P", f"{INSIDE}/run_pytest.py", name, paths, plugin, traces, *problem.options, *tests]
    own = python_env(problem) | {"PYTHONPATH": f"{SITE}:{INSIDE}" if plugin else SITE}
    result = sandbox.run(argv, deadline_s=deadline_s, env=own | dict(env or {}))
    if result.killed_by is KilledBy.CLOSED:
        raise EnvError("the sandbox was closed while its tests ran")
    xml, answers = (
        _read(sandbox, path, size) for path, size in ((name, REPORT_BYTES), (f"{name}.answers", ANSWER_BYTES))
    )
    killed = result.killed_by.value if result.killed_by else ""
    return read_report(xml, result.exit, killed, result.text(), result.time_s, read_answers(answers))


def _read(sandbox: Sandbox, path: str, max_bytes: int) -> bytes | None:
    """A file that the runner wrote; None if there is none, or something else in its place."""
    try:
        return sandbox.read(path, max_bytes=max_bytes)
    except SandboxFileError:
        return None
