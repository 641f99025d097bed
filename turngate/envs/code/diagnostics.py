"""What a linter and a type checker say about texts: counts by severity and by rule, never a grade.

    with Diagnoser() as diagnoser:
        before = diagnoser.measure({"pkg/mod.py": "import os\\n"})
        after = diagnoser.measure({"pkg/mod.py": ""})
    before.weighted(), after.weighted()      # 0.5, 0.0: D of ``turngate.rewards.outcome.code.diagnostics_reward``

How a text is measured, so that equal texts have equal counts whatever else was measured, and wherever:

1. A text is alone in an empty folder, under a name that is ours. Counts of files therefore add up, an unchanged file is
   never asked about again, and a path cannot move a file out of sight (``build/``, ``venv/``). What it imports from
   other files is unknown to the type checker, and unknown is no diagnostic.
2. Settings come from here only: no file of the agent, of the folders above or of the user is read, no installed package
   is seen. Nothing of a text is written to a disk or executed.
3. Comments that would silence a tool (``# noqa``, ``# type: ignore``, settings of an inline script) are made void, or
   they would be the cheapest repair. ``Any``, ``cast`` and ``no_type_check`` still work, as does deleting code: gate
   what is earned here on tests.
"""

from __future__ import annotations

import hashlib
import math
import os
import re
import shutil
import sys
import threading
import time
from collections import Counter, OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self, TypeAlias

from turngate.envs.code.lsp import Client
from turngate.envs.scratch import Scratch
from turngate.errors import ConfigError, EnvError, MissingExtra, UnknownName
from turngate.types import JSON

SEVERITIES = ("error", "warning", "information", "hint")
"""In the order of the protocol, which counts them from 1."""

WEIGHTS: Mapping[str, float] = {"error": 1.0, "warning": 0.5, "information": 0.1, "hint": 0.0}
"""Weight of one diagnostic of each severity. The choice is ours."""

MAX_BYTES = 1_000_000
REMEMBERED = 512  # texts whose counts are kept
NO_CODE = "none"

Counts: TypeAlias = Mapping[str, Mapping[str, int]]

_SILENCER = re.compile(r"(?i)noqa|:\s*[\w-]*(?:ignore|disable|skip-file)|///")
_COMMENT = re.compile(r"#[^\r\n]*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnostics:
    """What the servers found in some files, in sorted order."""

    by_severity: Counts
    """Server → each of ``SEVERITIES`` → how many."""
    by_code: Counts
    """Server → code of a rule → how many; ``NO_CODE`` for a diagnostic that has none."""
    skipped: Mapping[str, str]
    """Path of each file that was not measured → why."""

    def weighted(self, weights: Mapping[str, float] = WEIGHTS) -> float | None:
        """The weighted number of diagnostics of all servers; None if a file was skipped, for it may hide any number."""
        if self.skipped:
            return None
        counts = [(weights[name], n) for found in self.by_severity.values() for name, n in found.items()]
        return math.fsum(weight * n for weight, n in counts)

    def to_json(self, weights: Mapping[str, float] = WEIGHTS) -> dict[str, JSON]:
        """All of it, with ``weighted``, as the value of an ``Evidence``."""
        return {
            "weighted": self.weighted(weights),
            "by_severity": self.by_severity,
            "by_code": self.by_code,
            "skipped": self.skipped,
        }


_Found: TypeAlias = dict[str, Counter[tuple[str, str]]]
"""Server → how many of each (severity, code)."""


class Diagnoser:
    """Language servers, started when they are first needed. Many threads may share one."""

    def __init__(
        self,
        servers: Sequence[str] = ("ruff", "ty"),
        *,
        deadline_s: float = 10.0,
        python_version: str = f"{sys.version_info.major}.{sys.version_info.minor}",
    ) -> None:
        """``deadline_s``: for one ``measure``, once it is its turn. ``python_version``: that the code is written for.

        Raises UnknownName for a server that is neither ``ruff`` nor ``ty``, MissingExtra if one is not installed,
        ConfigError for another setting that makes no sense.
        """
        for name in servers:
            if name not in _SETTINGS:
                raise UnknownName("diagnostic server", name, _SETTINGS)
        if not servers or not deadline_s > 0 or not re.fullmatch(r"3\.\d+", python_version):
            raise ConfigError(
                f"servers={servers}, deadline_s={deadline_s}, python_version='{python_version}': name a server, "
                "a deadline above 0 and a version such as '3.11'"
            )
        self._programs = {name: executable(name) for name in sorted(set(servers))}
        self._deadline_s, self._version = deadline_s, python_version
        self._scratch = Scratch("diagnostics")
        self._root = self._scratch.path
        _furnish(self._root, python_version)
        self._clients: dict[str, Client] = {}
        self._known: OrderedDict[tuple[str, bytes], _Found] = OrderedDict()
        self._lock = threading.Lock()
        self._closed = False

    def measure(self, files: Mapping[str, str | bytes | None]) -> Diagnostics:
        """The diagnostics of Python files, given as path → content; None is a file that is not there.

        Files that are not named ``*.py`` or ``*.pyi`` do not count. Not UTF-8, with a NUL byte or above ``MAX_BYTES``
        is skipped, by name. Raises EnvError if a server dies or does not answer in time. The next call starts it anew.

        A text can bring that about (a sum of 20,000 terms does), so an agent can: record that it could not be measured,
        and do not end the episode for it.
        """
        skipped: dict[str, str] = {}
        total: _Found = {name: Counter() for name in self._programs}
        with self._lock:
            if self._closed:
                raise ConfigError("this Diagnoser is closed; open another one")
            deadline = time.monotonic() + self._deadline_s
            for path, content in sorted(files.items()):
                if content is None or not path.endswith((".py", ".pyi")):
                    continue
                text = read_text(content)
                if isinstance(text, Unreadable):
                    skipped[path] = text.why
                    continue
                for name, found in self._look_up(alias(path), text, deadline).items():
                    total[name] += found
        return _summary(total, skipped)

    def close(self) -> None:
        """End the servers and remove the folder. Safe to repeat."""
        with self._lock:
            self._closed = True
            while self._clients:
                self._clients.popitem()[1].close()
            self._scratch.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def _look_up(self, name: str, text: str, deadline: float) -> _Found:
        key = (name, hashlib.sha256(text.encode()).digest())
        if key not in self._known:
            heard = audible(text)
            self._known[key] = {server: self._ask(server, name, heard, deadline) for server in self._programs}
            if len(self._known) > REMEMBERED:
                self._known.popitem(last=False)
        self._known.move_to_end(key)
        return self._known[key]

    def _ask(self, server: str, name: str, text: str, deadline: float) -> Counter[tuple[str, str]]:
        if server not in self._clients:
            self._clients[server] = self._start(server, deadline)
        try:
            items = self._clients[server].diagnose(name, text, deadline=deadline)
        except EnvError:
            del self._clients[server]  # it is dead
            raise
        return Counter((SEVERITIES[item.get("severity", 1) - 1], str(item.get("code") or NO_CODE)) for item in items)

    def _start(self, server: str, deadline: float) -> Client:
        return Client(
            [str(self._programs[server]), "server"],
            folder=self._root / "work",
            settings=_SETTINGS[server](self._root, self._version),
            env=_environment(self._root),
            deadline=deadline,
        )


# --- texts -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A content that is no Python text, and why."""

    why: str


def read_text(content: str | bytes) -> str | Unreadable:
    """A content as text, without a byte order mark."""
    try:
        data = content.encode() if isinstance(content, str) else content
        text = data.decode("utf-8-sig")
    except UnicodeError:
        return Unreadable("not UTF-8")
    if "\0" in text:
        return Unreadable("binary")
    if len(data) > MAX_BYTES:
        return Unreadable(f"above {MAX_BYTES} bytes")
    return text


def alias(path: str) -> str:
    """The name under which the servers see a file; rules differ for stubs and for ``__init__.py`` only."""
    name = path.rpartition("/")[2]
    return name if name in ("__init__.py", "__init__.pyi") else "module" + name[name.rindex(".") :]


def audible(text: str) -> str:
    """A text of the same length and lines in which no comment silences a tool.

    Whatever follows a "#" in its line counts as a comment: a text that does not parse has no better definition. So a
    string may change as well, which no rule that we select minds.
    """
    return _COMMENT.sub(lambda comment: _SILENCER.sub(lambda word: "_" * len(word[0]), comment[0]), text)


def _summary(total: _Found, skipped: Mapping[str, str]) -> Diagnostics:
    by_severity, by_code = {}, {}
    for server, found in total.items():
        severities, codes = dict.fromkeys(SEVERITIES, 0), Counter[str]()
        for (severity, code), n in found.items():
            severities[severity] += n
            codes[code] += n
        by_severity[server], by_code[server] = severities, dict(sorted(codes.items()))
    return Diagnostics(by_severity=by_severity, by_code=by_code, skipped=skipped)


# --- servers ---------------------------------------------------------------------------------------------------------


def executable(package: str) -> Path:
    """The program of that name beside this interpreter, else on PATH. Raises MissingExtra if there is none."""
    beside = Path(sys.executable).with_name(package)
    if os.access(beside, os.X_OK):
        return beside
    found = shutil.which(package)
    if found is None:
        raise MissingExtra(package, "code")
    return Path(found).absolute()


def _furnish(root: Path, python_version: str) -> None:
    """An empty workspace, a home without settings, and a Python without packages for the type checker."""
    (root / "work").mkdir()
    (root / "home").mkdir()
    (root / "ty.toml").write_text("")
    (root / "python" / "lib" / f"python{python_version}" / "site-packages").mkdir(parents=True)
    (root / "python" / "pyvenv.cfg").write_text(f"home = {root}\nversion = {python_version}\n")


def _environment(root: Path) -> dict[str, str]:
    """All that a server sees of our environment. One text at a time is no work for many threads."""
    home = str(root / "home")
    threads = {"RAYON_NUM_THREADS": "1", "TY_MAX_PARALLELISM": "1"}
    return {"HOME": home, "XDG_CONFIG_HOME": home, "XDG_CACHE_HOME": home, "PATH": "", **threads}


def _ruff(root: Path, python_version: str) -> JSON:
    rules: JSON = {"select": ["E9", "F", "B", "PLE"]}
    configuration: JSON = {"target-version": f"py{python_version.replace('.', '')}", "lint": rules}
    return {"settings": {"configuration": configuration, "configurationPreference": "editorOnly"}}


def _ty(root: Path, python_version: str) -> JSON:
    environment = {"python": str(root / "python"), "python-platform": "linux", "python-version": python_version}
    return {
        "configuration": {"environment": environment, "rules": {"unresolved-import": "ignore"}},
        "configurationFile": str(root / "ty.toml"),  # or it would look for one in the folders above
        "diagnosticMode": "openFilesOnly",
        "disableLanguageServices": True,
    }


_SETTINGS = {"ruff": _ruff, "ty": _ty}
"""Server → its settings, of (our folder, version of Python)."""
