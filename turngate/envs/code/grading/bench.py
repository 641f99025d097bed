"""The bench: where trees are measured. Each run of tests has a sandbox of its own, in which no agent has ever acted.

It begins with the tree as the agent found it, made anew from the problem; what the agent changed is put on top as
texts, then the hidden tests as they ought to be. The same tree of the same problem is measured once: tests that are not
deterministic were sorted out when the problem was made.
"""

from __future__ import annotations

import logging
import os
import threading
import uuid
from collections.abc import Hashable, Mapping
from typing import Any, Literal, Self

from turngate.envs.cache import Cache
from turngate.envs.code.grading.control import Control, control_tests
from turngate.envs.code.grading.report import Report, read_report
from turngate.envs.code.grading.toolbox import INSIDE, INTERPRETER, PYTHON, SITE, Toolbox
from turngate.envs.code.problem import Problem, Texts
from turngate.envs.sandbox import Backend, KilledBy, Limits, Sandbox, SandboxFileError, Snapshot, open_backend
from turngate.envs.sandbox.base import ENVIRONMENT, TMP, WORK
from turngate.errors import ConfigError, EnvError

REPORT_BYTES = 16 << 20
KEPT_REPORTS = 100_000
KEPT_FOLDERS = 64
_log = logging.getLogger(__name__)


class Bench:
    """Many threads may share one. ``deadline_s`` bounds each run of tests. ``settings``: see the back end.

    Raises what ``open_backend`` raises. ``close`` ends every sandbox.
    """

    def __init__(
        self,
        backend: Literal["bubblewrap", "docker"] = "bubblewrap",
        *,
        deadline_s: float = 60.0,
        limits: Limits | None = None,
        **settings: object,
    ) -> None:
        if backend not in ("bubblewrap", "docker"):
            raise ConfigError(f"the back end is '{backend}'; code that an agent wrote needs 'bubblewrap' or 'docker'")
        if not deadline_s > 0:
            raise ConfigError(f"deadline_s is '{deadline_s}'; it must be above 0")
        self.deadline_s = deadline_s
        self._lock = threading.Lock()
        self._folders = Cache[str, Snapshot](room=KEPT_FOLDERS)
        self._reports = Cache[Hashable, Report](room=KEPT_REPORTS)
        self.outputs = Cache[Hashable, str](room=KEPT_REPORTS)
        """What the runner wrote, for whoever knows that it would write the same again."""
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
            put(sandbox, problem.files)
        except BaseException:
            sandbox.close()
            raise
        return sandbox

    def reopen(self, snapshot: Snapshot) -> Sandbox:
        """A sandbox of this bench as it was."""
        return self._backend.open(snapshot)

    def run(self, problem: Problem, changes: Texts, *, control: Control | None = None) -> Report:
        """Run the hidden tests on the tree with ``changes`` on top of what the agent finds.

        ``control``: run tests that honest code fails instead (see ``control.py``). A runner that breaks is run once
        more, because the machine may have broken it: what code does, it does again.
        """
        key = (problem.id, problem.patch, tuple(sorted(changes.items())), control)
        with self._reports.alone(key):  # siblings of a group often come to the same tree in the same moment
            report = self._reports.get(key)
            if report is None:
                report = self.measure(problem, changes, control=control)
                if report.problem and not report.killed:
                    _log.info("the tests of '%s' are run again, because %s", problem.id, report.problem)
                    report = self.measure(problem, changes, control=control)
                self._reports.put(key, report)
            return report

    def measure(
        self, problem: Problem, changes: Texts, *, control: Control | None = None, deadline_s: float | None = None
    ) -> Report:
        """``run``, but in any case anew, and with a deadline of its own if one is given."""
        with self.open(problem) as sandbox:
            try:
                put(sandbox, changes)
                put(sandbox, control_tests(problem, control) if control else problem.hidden)
            except SandboxFileError as error:  # such as a file where the tree has a folder
                return Report(status={}, problem=f"the changes do not fit onto the tree: {error}")
            limit_s = self.deadline_s if deadline_s is None else deadline_s
            return run_tests(sandbox, problem, problem.test_files, deadline_s=limit_s, traces="no")

    def close(self) -> None:
        """End every sandbox and remove what was made. Safe to repeat."""
        self._folders = Cache(room=KEPT_FOLDERS)  # a snapshot lives as long as somebody holds it
        self._backend.close()
        self.toolbox.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def _folder(self, folder: str) -> Snapshot:
        with self._lock:  # so that a folder is read once, however many ask for it
            kept = self._folders.get(folder)
            if kept is None:
                kept = self._backend.keep(folder)
                self._folders.put(folder, kept)
            return kept


def python_env(problem: Problem) -> dict[str, str]:
    """What a command of the agent, and the runner, sees besides the sandbox's own environment."""
    paths = [SITE, *(os.path.normpath(f"{WORK}/{path}") for path in problem.import_paths)]
    return {
        "LD_LIBRARY_PATH": f"{PYTHON}/lib",
        "PYTHONPATH": ":".join(paths),
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONHASHSEED": "0",
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
        "PATH": f"{PYTHON}/bin:{ENVIRONMENT['PATH']}",
    }


def put(sandbox: Sandbox, texts: Texts) -> None:
    """Write texts into /work, and remove the files whose text is None."""
    gone = [path for path, text in texts.items() if text is None]
    if gone:
        sandbox.run(["rm", "-rf", "--", *gone], deadline_s=60)
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

    ``traces``: pytest's tracebacks, for whoever reads the output. They parse the source, which Python 3.11.7 cannot
    do reliably beside other threads ("AST constructor recursion depth mismatch"); then the runner breaks.
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
    try:
        xml = sandbox.read(name, max_bytes=REPORT_BYTES)
    except SandboxFileError:
        xml = None
    killed = result.killed_by.value if result.killed_by else ""
    return read_report(xml, result.exit, killed, result.text(), result.time_s)
