"""Findings of ``ruff`` and ``ty`` about texts, run as commands: counts by rule, never a grade.

    diagnoser = Diagnoser()
    before = diagnoser.measure({"pkg/mod.py": "import os\\n"})
    after = diagnoser.measure({"pkg/mod.py": ""})
    before.weighted, after.weighted      # 0.5, 0.0: D of ``turngate.rewards.outcome.code.diagnostics_reward``

Equal texts have equal counts, whatever else was measured and wherever. A text is alone in an empty folder, under a name
that is ours, so imports from other files are unknown to the type checker, and unknown is no diagnostic. Settings come
from here only: no file of the agent, of the folders above or of the user is read, no installed package is seen, and
nothing is executed. Comments that would silence a tool (``# noqa``, ``# type: ignore``) are disabled, or they would be
the cheapest repair. ``Any`` and ``cast`` still work, as does deleting code: gate the reward for diagnostics on tests.
"""

from __future__ import annotations

import json
import logging
import math
import os
import re
import resource
import shutil
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from turngate.envs.cache import Cache
from turngate.errors import ConfigError, MissingExtra, UnknownName
from turngate.sandbox.scratch import Scratch
from turngate.types import JSON

MAX_BYTES = 1_000_000
MAX_MEMORY_BYTES = 4 << 30  # of address space, for one run of a tool
MAX_OUTPUT_BYTES = 128 << 20  # of each stream of one run of a tool, which is ended beyond it
REMEMBERED = 512  # texts whose counts are kept
VERSION = f"{sys.version_info.major}.{sys.version_info.minor}"
GRAVE, MINOR = 1.0, 0.5
"""Weights of diagnostics that stop or break a program, and of all others. The choice is ours."""

_RUFF = f"check --isolated --no-cache --select E9,F,B,PLE --target-version py{VERSION.replace('.', '')}"
_TY = (
    f"check --config-file ../ty.toml --python ../python --python-version {VERSION} --python-platform linux "
    "--no-progress --color never"
)
_ARGUMENTS: Mapping[str, Sequence[str]] = {"ruff": _RUFF.split(), "ty": _TY.split()}
_UNKNOWN = frozenset({"import-not-found", "unresolved-import"})  # the rule of ty now, and in earlier versions
_GRAVE = re.compile(r"invalid-syntax|E9|F82|PLE")  # of ruff's rules, which all count as errors there
_SILENCER = re.compile(r"(?i)noqa|:\s*[\w-]*(?:ignore|disable|skip-file)|///")
_COMMENT = re.compile(r"#[^\r\n]*")
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnostics:
    """The findings of the tools in some files."""

    weighted: float
    by_rule: Mapping[str, Mapping[str, int]]
    """Tool → rule → how many, in sorted order."""

    def to_json(self) -> dict[str, JSON]:
        """As the value of an ``Evidence``."""
        return {"weighted": self.weighted, "by_rule": {tool: dict(found) for tool, found in self.by_rule.items()}}


class Diagnoser:
    """Runs the tools, each text once. Many threads may share one; there is nothing to close."""

    def __init__(self, tools: Sequence[str] = ("ruff", "ty"), *, deadline_s: float = 10.0) -> None:
        """``deadline_s``: for one ``measure``.

        Raises UnknownName for a tool that is neither ``ruff`` nor ``ty``, MissingExtra if one is not installed,
        ConfigError for a deadline that is not above 0.
        """
        for name in tools:
            if name not in _ARGUMENTS:
                raise UnknownName("tool for diagnostics", name, _ARGUMENTS)
        if not deadline_s > 0:
            raise ConfigError(f"deadline_s is {deadline_s}; it must be above 0")
        self._programs = {name: executable(name) for name in sorted(set(tools))}
        self._deadline_s = deadline_s
        self._known = Cache[tuple[str, str, str], Sequence[tuple[str, float]]](room=REMEMBERED)

    def measure(self, files: Mapping[str, str | None]) -> Diagnostics | None:
        """The diagnostics of Python files, path → text; those of another kind, or that are not there, do not count.

        None if they are not known, because a text cannot be read or a tool does not finish with it. An agent can write
        such a text on purpose (a sum of 20,000 terms), so that is no fault of the environment.
        """
        end_s = time.monotonic() + self._deadline_s
        by_rule = {tool: Counter[str]() for tool in self._programs}
        weights: list[float] = []
        for path, text in sorted(files.items()):
            if text is None or not path.endswith((".py", ".pyi")):
                continue
            for tool in self._programs:
                found = self._found(tool, alias(path), text, end_s)
                if found is None:
                    return None
                by_rule[tool].update(rule for rule, _weight in found)
                weights += [weight for _rule, weight in found]
        ordered = {tool: dict(sorted(found.items())) for tool, found in by_rule.items()}
        return Diagnostics(weighted=math.fsum(weights), by_rule=ordered)

    def _found(self, tool: str, name: str, text: str, end_s: float) -> Sequence[tuple[str, float]] | None:
        key = (tool, name, text)
        with self._known.reserve(key):
            found = self._known.get(key)
            if found is None and (found := self._run(tool, name, text, end_s)) is not None:
                self._known.put(key, found)
            return found

    def _run(self, tool: str, name: str, text: str, end_s: float) -> Sequence[tuple[str, float]] | None:
        """Rule and weight of each diagnostic of one text."""
        if len(text) > MAX_BYTES or "\0" in text:
            return None
        with Scratch("diagnostics") as root:
            _furnish(root)
            try:
                (root / "work" / name).write_text(audible(text), encoding="utf-8", newline="")
            except UnicodeEncodeError:  # bytes of a file that is no UTF-8
                return None
            argv = [str(self._programs[tool]), *_ARGUMENTS[tool], "--exit-zero", "--output-format", "gitlab", name]
            output = _output(argv, root, max(0.1, end_s - time.monotonic()))
        try:
            items = json.loads(output) if output is not None else None
            return (
                None if items is None else [_read(tool, item) for item in items if item["check_name"] not in _UNKNOWN]
            )
        except (ValueError, KeyError, TypeError) as error:
            _log.warning("the output of '%s' cannot be read: %r", tool, error)
            return None


def _output(argv: Sequence[str], root: Path, deadline_s: float) -> bytes | None:
    """The output of a tool; None if it fails or does not end in time. It has no children, and bounds of its own."""
    home = str(root / "home")
    env = {"HOME": home, "XDG_CONFIG_HOME": home, "XDG_CACHE_HOME": home, "PATH": ""}
    env |= {"RAYON_NUM_THREADS": "1", "TY_MAX_PARALLELISM": "1"}  # one text is no work for many threads
    with (
        open(root / "output", "w+b") as output,  # files, because a file can be bounded
        open(root / "errors", "w+b") as errors,
        subprocess.Popen(
            argv, cwd=root / "work", env=env, stdin=subprocess.DEVNULL, stdout=output, stderr=errors
        ) as process,
    ):
        try:
            with suppress(ProcessLookupError):  # it has ended already
                cpu_s = math.ceil(deadline_s) + 1  # it ends even if this process is killed before
                resource.prlimit(process.pid, resource.RLIMIT_CPU, (cpu_s, cpu_s))
                resource.prlimit(process.pid, resource.RLIMIT_AS, (MAX_MEMORY_BYTES, MAX_MEMORY_BYTES))
                resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (MAX_OUTPUT_BYTES, MAX_OUTPUT_BYTES))
            process.wait(deadline_s)
        except subprocess.TimeoutExpired:
            _log.warning("'%s' did not end within %.1f s", Path(argv[0]).name, deadline_s)
            return None
        finally:
            process.kill()
    if process.returncode:
        said = (root / "errors").read_bytes()[-200:].decode(errors="replace")
        _log.warning("'%s' ended with %d: %s", Path(argv[0]).name, process.returncode, said)
        return None
    return (root / "output").read_bytes()


def _read(tool: str, item: Mapping[str, str]) -> tuple[str, float]:
    rule = item["check_name"]
    grave = _GRAVE.match(rule) is not None if tool == "ruff" else item["severity"] not in ("minor", "info")
    return rule, GRAVE if grave else MINOR


def alias(path: str) -> str:
    """The name under which the tools see a file; rules differ for stubs and for ``__init__.py`` only."""
    name = path.rpartition("/")[2]
    return name if name in ("__init__.py", "__init__.pyi") else "module" + name[name.rindex(".") :]


def audible(text: str) -> str:
    """A text of the same length and lines in which no comment silences a tool.

    All text after a "#" in its line counts as a comment: a text that does not parse has no better definition. So a
    string may change as well, which affects no rule that we select.
    """
    return _COMMENT.sub(lambda comment: _SILENCER.sub(lambda word: "_" * len(word[0]), comment[0]), text)


def executable(package: str) -> Path:
    """The program of that name beside this interpreter, else on PATH. Raises MissingExtra if there is none."""
    beside = Path(sys.executable).with_name(package)
    if os.access(beside, os.X_OK):
        return beside
    found = shutil.which(package)
    if found is None:
        raise MissingExtra(package, "code")
    return Path(found).absolute()


def _furnish(root: Path) -> None:
    """An empty workspace, a home without settings, and a Python without packages for the type checker."""
    (root / "work").mkdir()
    (root / "home").mkdir()
    (root / "ty.toml").write_text("")
    (root / "python" / "lib" / f"python{VERSION}" / "site-packages").mkdir(parents=True)
    (root / "python" / "pyvenv.cfg").write_text(f"home = {root}\nversion = {VERSION}\n")
