"""How a package wants its tests to be run: which parts of its own pytest configuration are kept, and which are not.

pytest reads the configuration itself, wherever the tests are run. But ``addopts`` may name plugins that are not there,
and end a run that others have to read; so the runner drops it, and what decides which tests run, and how, is given back
as options of the command line. Options that only shape the output are dropped silently.
"""

from __future__ import annotations

import configparser
import re
import shlex
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path, PurePosixPath
from typing import Any

from turngate.errors import TaskRefused
from turngate.jsonl import toml_of

FILES = ("pytest.toml", ".pytest.toml", "pytest.ini", ".pytest.ini", "pyproject.toml", "tox.ini", "setup.cfg")
"""In pytest's order; the first with a section of pytest's counts, and a file of pytest's own in any case."""

_KEPT = ("-m", "-k", "--deselect", "-W", "--pythonwarnings", "--import-mode", "-o", "--override-ini", "--capture")
_KEPT_FLAGS = ("--runxfail", "-s")
_OURS = ("--ignore", "--ignore-glob")  # pytest does not ignore a file that it is called with, so we do not name it
_OUTPUT = (
    "-r --tb --color --code-highlight --durations --durations-min --junitxml --junit-xml --junit-prefix --verbosity "
    "--show-capture --log-level --log-cli-level --log-format --log-date-format --maxfail --rootdir --basetemp"
).split()
_OUTPUT_FLAGS = (
    "-q -qq --quiet -v -vv -vvv --verbose -l --showlocals --no-showlocals --full-trace --no-header --no-summary "
    "--strict-markers --strict-config --strict -x --exitfirst --ff --failed-first --lf --last-failed --nf --new-first "
    "--sw --stepwise --cache-clear --fixtures-per-test --setup-show --disable-warnings --disable-pytest-warnings"
).split()
_STRICT = ("strict_markers", "strict_config", "strict")
"""They fail for a marker or a setting of a plugin that is not there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PytestSettings:
    """The configuration of one package."""

    file: str = ""
    """Where it stands; "" if the package has none."""
    options: tuple[str, ...] = ()
    """For pytest's command line."""
    dropped: tuple[str, ...] = ()
    """The settings that are not honoured."""
    testpaths: tuple[str, ...] = ()
    python_files: tuple[str, ...] = ("test_*.py", "*_test.py")
    norecursedirs: tuple[str, ...] = ()
    ignored: tuple[str, ...] = ()
    """Patterns of paths."""

    def has_test(self, path: str) -> bool:
        """Whether pytest would look for tests in this file of the package."""
        pure = PurePosixPath(path)
        above = [str(folder) for folder in pure.parents]
        return (
            any(fnmatch(path if "/" in pattern else pure.name, pattern) for pattern in self.python_files)
            and (not self.testpaths or any(_lies_in(path, folder) for folder in self.testpaths))
            and not any(_lies_in(path, pattern) for pattern in self.ignored)
            and not any(
                fnmatch(folder if "/" in pattern else folder.rpartition("/")[2], pattern)
                for folder in above
                for pattern in self.norecursedirs
            )
        )


def settings_of(folder: Path) -> PytestSettings:
    """The configuration of pytest in an unpacked source. Raises TaskRefused if it cannot be read."""
    for name in FILES:
        file = folder / name
        if not file.is_file():
            continue
        try:
            found = _section(file)
            if found is not None:
                return _settings(name, found, folder)
        except (configparser.Error, tomllib.TOMLDecodeError, UnicodeDecodeError, ValueError) as error:
            raise TaskRefused(f"its configuration '{name}' cannot be read: {error}") from error
    return PytestSettings()


def _section(file: Path) -> Mapping[str, Any] | None:
    text = file.read_text(encoding="utf-8")
    own = file.name.removeprefix(".").startswith("pytest.")
    if file.suffix == ".toml":
        content = toml_of(text)
        tool = content if own else content.get("tool", {})
        found: Mapping[str, Any] | None = tool.get("pytest")
        return (found or {}).get("ini_options", found) if found is not None or not own else {}
    parser = configparser.RawConfigParser(strict=False, allow_no_value=True)
    parser.read_string(text)
    name = "tool:pytest" if file.name == "setup.cfg" else "pytest"
    return dict(parser[name]) if parser.has_section(name) else {} if own else None


def _settings(file: str, found: Mapping[str, Any], folder: Path) -> PytestSettings:
    options, dropped, ignored = _sorted(_words(found.get("addopts")), folder)
    for name in _STRICT:
        if name in found:
            options += ["-o", f"{name}=false"]
    if found.get("required_plugins"):
        options += ["-o", "required_plugins="]
        dropped.append(f"required_plugins = {' '.join(_words(found['required_plugins']))}")
    if found.get("filterwarnings") or "-W" in options:  # they may turn into errors what a missing plugin leaves unknown
        for kind in ("PytestConfigWarning", "PytestUnknownMarkWarning"):
            options += ["-W", f"ignore::pytest.{kind}"]
    testpaths = [path.rstrip("/") for path in _words(found.get("testpaths"))]
    return PytestSettings(
        file=file,
        options=tuple(options),
        dropped=tuple(dropped),
        testpaths=tuple(path for path in testpaths if any(folder.glob(path))),  # as pytest does without any
        python_files=tuple(_words(found.get("python_files"))) or PytestSettings().python_files,
        norecursedirs=tuple(_words(found.get("norecursedirs"))),
        ignored=tuple(ignored),
    )


def _words(value: object) -> list[str]:
    """A setting that is a text or a list of texts."""
    if isinstance(value, str):
        return shlex.split(value, comments=False)
    return [str(item) for item in value] if isinstance(value, Sequence) else []


def _sorted(words: Sequence[str], folder: Path) -> tuple[list[str], list[str], list[str]]:
    """``addopts`` as options that are kept, options that are not, and patterns of paths that are ignored."""
    own = "\n".join(path.read_text(encoding="utf-8", errors="replace") for path in sorted(folder.rglob("conftest.py")))
    options, dropped, ignored = list[str](), list[str](), list[str]()
    for name, value, given in _options(words, folder):
        if name in _OURS and value is not None:
            ignored.append(value.removeprefix("./").rstrip("/"))
        elif name in (*_KEPT, *_KEPT_FLAGS) or f'"{name}"' in own or f"'{name}'" in own or _is_off(name, value):
            options += given
        elif name not in _OUTPUT and name not in _OUTPUT_FLAGS and not re.fullmatch(r"-[qvrsl]\w*", name):
            dropped.append(" ".join(given))
    return options, dropped, ignored


def _is_off(name: str, value: str | None) -> bool:
    """Whether a plugin is switched off."""
    return name == "-p" and (value or "").startswith("no:")


def _options(words: Sequence[str], folder: Path) -> Iterator[tuple[str, str | None, list[str]]]:
    """Name, value and words of each option. A word that is no path belongs to an unknown option before it."""
    queue = list(words)
    while queue:
        word = queue.pop(0)
        name, equals, value = word.partition("=")
        if re.match(r"-[mkWpor][^=]", word):  # "-mslow", and "-W=error" is none
            yield word[:2], word[2:], [word]
        elif equals:
            yield name, value, [word]
        elif name in (*_KEPT_FLAGS, *_OUTPUT_FLAGS):
            yield name, None, [word]
        elif queue and (
            name in (*_KEPT, *_OURS, *_OUTPUT, "-p")
            or (not queue[0].startswith("-") and not (folder / queue[0]).exists())
        ):
            value = queue.pop(0)
            yield name, value, [word, value]
        else:
            yield name, None, [word]


def _lies_in(path: str, pattern: str) -> bool:
    """Whether a path is what a pattern names, or lies below it."""
    return pattern in ("", ".") or any(
        fnmatch(part, pattern) for part in (path, *map(str, PurePosixPath(path).parents))
    )
