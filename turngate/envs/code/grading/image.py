"""The files that a sandbox needs to run tests: an interpreter, the runners, and the distributions they need.

An installation holds more than its own modules, for instance copies of well-known packages inside an installer. A
problem made from such a package could be solved by reading that copy. So site-packages of the interpreter are hidden,
and no file that is shown instead may hold the text of a reference repair (``Toolbox.check``).
"""

from __future__ import annotations

import importlib.util
import os
import py_compile
import shutil
import sys
import sysconfig
import threading
from collections.abc import Iterable, Mapping
from contextlib import suppress
from importlib import metadata
from pathlib import Path

from turngate.envs.cache import Cache
from turngate.envs.code.problem import Problem
from turngate.errors import MissingExtra, TaskRefused
from turngate.sandbox.scratch import Scratch

PYTHON, SITE, INSIDE = "/opt/python", "/opt/site", "/opt/turngate"
INTERPRETER = f"{PYTHON}/bin/python3"
RUNNER_NEEDS = ("pytest", "pluggy", "iniconfig", "packaging", "pygments")
_LEFT_OUT = ("site-packages", "dist-packages", "ensurepip", "test", "idlelib", "tkinter", "lib2to3", "config-*")
_BYTECODE = Cache[tuple[str, int], bytes](room=2000)
"""Bytecode of modules by their file and its time: pytest and what it needs take seconds, and a process may open many
benches."""


class Toolbox:
    """A temporary folder with the tools. Distributions are added when a problem needs them; ``close`` removes it."""

    def __init__(self) -> None:
        self._scratch = Scratch("tools")
        self._folder = self._scratch.path
        self._folder.chmod(0o755)
        self._site, self._lock = self._folder / "site", threading.Lock()
        self._added: set[str] = set()
        self._texts: frozenset[str] | None = None
        for name in ("site", "empty"):
            (self._folder / name).mkdir()
        _link_interpreter(self._folder / "python")
        source = Path(__file__).with_name("inside")
        shutil.copytree(source, self._folder / "inside", ignore=shutil.ignore_patterns("__pycache__", "__init__.py"))

    @property
    def shown(self) -> Mapping[str, str]:
        """Path inside → path on the host, for a back end."""
        empty = str(self._folder / "empty")
        own = {PYTHON: str(self._folder / "python"), SITE: str(self._site), INSIDE: str(self._folder / "inside")}
        return own | {str(folder): empty for folder in _system_packages()}

    def add(self, names: Iterable[str]) -> None:
        """Show these installed distributions. Raises TaskRefused for one that is not installed."""
        with self._lock:
            new = [name for name in names if name not in self._added]
            for name in new:
                self._copy(name)
                self._added.add(name)
            if new:
                self._texts = None

    def add_runner(self) -> None:
        """Show pytest. Raises MissingExtra."""
        try:
            self.add(RUNNER_NEEDS)
        except TaskRefused as error:
            raise MissingExtra("pytest", "code") from error

    def check(self, problem: Problem) -> None:
        """Raises TaskRefused if a file that is shown holds the text of a file of the reference repair."""
        with self._lock:
            if self._texts is None:
                self._texts = frozenset(path.read_text(errors="replace") for path in self._site.rglob("*.py"))
            for path, text in problem.solved.items():
                if text and text in self._texts:
                    raise TaskRefused(f"the tools of its tests hold '{path}' as the reference repair has it")

    def close(self) -> None:
        """Remove the folder. Safe to repeat."""
        self._scratch.close()

    def _copy(self, name: str) -> None:
        try:
            files = metadata.distribution(name).files or []
        except metadata.PackageNotFoundError:
            raise TaskRefused(f"its tests need the distribution '{name}', which is not installed here") from None
        for file in files:
            source, target = Path(str(file.locate())), self._site / file
            if ".." in file.parts or "__pycache__" in file.parts or not source.is_file():
                continue  # scripts lie beside site-packages, and bytecode names its source
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, target)
            if source.suffix == ".py":
                _compile(source, target, str(file))


def _compile(source: Path, target: Path, file: str) -> None:
    """Write the bytecode of a module beside it, with its name inside, and valid whatever the time of its file."""
    key = (str(source), source.stat().st_mtime_ns)
    kept = Path(importlib.util.cache_from_source(str(target)))
    bytecode = _BYTECODE.get(key)
    if bytecode is not None:
        kept.parent.mkdir(exist_ok=True)
        kept.write_bytes(bytecode)
        return
    mode = py_compile.PycInvalidationMode.UNCHECKED_HASH
    with suppress(py_compile.PyCompileError):  # a module for another version of Python; the others are compiled
        py_compile.compile(str(target), str(kept), f"{SITE}/{file}", doraise=True, invalidation_mode=mode)
        _BYTECODE.put(key, kept.read_bytes())


def _link_interpreter(target: Path) -> None:
    """The interpreter and its standard library, without installed packages. Files are linked where possible: the user
    of a sandbox may have no access to their folder."""
    library = Path(sysconfig.get_path("stdlib"))
    program = Path(os.path.realpath(getattr(sys, "_base_executable", sys.executable)))
    inside = target / library.relative_to(sys.base_prefix)
    shutil.copytree(library, inside, ignore=shutil.ignore_patterns(*_LEFT_OUT), copy_function=_link, symlinks=True)
    (target / "bin").mkdir()
    _link(str(program), str(target / "bin" / "python3"))
    for file in (Path(sys.base_prefix) / "lib").glob("libpython*.so*"):
        _link(str(file.resolve()), str(target / "lib" / file.name))


def _link(source: str, target: str) -> None:
    try:
        os.link(source, target)
    except OSError:  # another file system, or files of another user
        shutil.copy2(source, target)


def _system_packages() -> Iterable[Path]:
    """Folders of packages below /usr, all of which a sandbox sees."""
    for above in ("/usr/lib", "/usr/local/lib"):
        for path in sorted(Path(above).glob("python3*")) if os.path.isdir(above) else ():
            yield from (path / name for name in ("dist-packages", "site-packages") if (path / name).is_dir())
