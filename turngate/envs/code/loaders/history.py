"""Commits of a git repository as trees and texts, without any other part of the repository.

git reads through a *window*: an empty repository of its own that borrows the objects. So the configuration of the
repository runs nothing, its attributes leave no file out of a tree and rewrite none, nothing is fetched, and the
results of a patch are written to the window alone. Paths that lead outside are refused by git itself.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tarfile
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from turngate.errors import ConfigError, TaskRefused

MAX_BYTES = 16 << 20
"""A larger file is no source text that anyone repairs."""

_COMMIT = re.compile(r"[0-9a-f]{40}")
_AS_COMMITTED = "* -text -eol -crlf -ident -filter -working-tree-encoding -export-ignore -export-subst\n"
_REGULAR = frozenset({"000000", "100644", "100755"})  # modes of files; the first: there is none
_DEADLINE_S = 600.0


class Change(NamedTuple):
    """One file before and after a patch; None: there is no such file."""

    before: str | None
    after: str | None


class History:
    """The commits of one repository, bare or with a work tree. ``scratch``: an empty folder for the window.

    Every method raises TaskRefused with a reason. Raises ConfigError if git is not installed.
    """

    def __init__(self, repository: Path, scratch: Path) -> None:
        if shutil.which("git") is None:
            raise ConfigError("'git' is not installed, and repositories are read with it; install git")
        places = (repository / ".git" / "objects", repository / "objects")
        objects = next((place for place in places if place.is_dir()), None)
        if objects is None:
            raise TaskRefused(f"there is no git repository '{repository}'")
        self._home, self._window = scratch, scratch / "window"
        self._environment = _environment(self._window, scratch)
        self._git("init", "--bare", "--quiet", "--template=", str(self._window))
        for name, text in (("objects/info/alternates", f"{objects.resolve()}\n"), ("info/attributes", _AS_COMMITTED)):
            path = self._window / name
            path.parent.mkdir(exist_ok=True)
            path.write_text(text)

    def check(self, commit: str) -> None:
        """Refuses anything but the full name of a commit of this repository."""
        if not _COMMIT.fullmatch(commit):
            raise TaskRefused(f"base_commit '{commit}' is not the name of a commit, 40 hexadecimal digits")
        try:
            self._git("cat-file", "-e", f"{commit}^{{commit}}")
        except TaskRefused as error:
            raise TaskRefused(f"the repository has no commit '{commit}'") from error

    def export(self, commit: str, folder: Path) -> None:
        """Write the tree of a commit into a folder, without any history."""
        archive = self._window / "tree.tar"
        self._git("archive", "--format=tar", f"--output={archive}", commit)
        try:
            with tarfile.open(archive) as tar:
                tar.extractall(folder, filter="data")
        except tarfile.FilterError as error:
            raise TaskRefused(f"the tree of '{commit}' leads outside: {error}") from error
        finally:
            archive.unlink()

    def changes(self, commit: str, patch: str, name: str) -> dict[str, Change]:
        """The changes of a patch in the tree of a commit, by path. ``name``: the name of the patch in a refusal.

        A change of permissions alone does not count.
        """
        (self._window / "index").unlink(missing_ok=True)
        self._git("read-tree", commit)
        text = patch if patch.endswith("\n") else f"{patch}\n"
        try:
            self._git("apply", "--cached", "--whitespace=nowarn", "-", stdin=text.encode())
        except TaskRefused as error:
            raise TaskRefused(f"{name} does not apply: {error}") from error
        listed = self._git("diff-index", "--cached", "--raw", "-z", "--no-abbrev", "--no-renames", commit)
        fields = listed.split(b"\0")[:-1]
        found = {}
        for head, raw_path in zip(fields[::2], fields[1::2], strict=True):
            path = utf8(raw_path, f"{name}: the name of a file")
            old_mode, new_mode, old, new, _status = head.decode().removeprefix(":").split(" ")
            if not {old_mode, new_mode} <= _REGULAR:
                raise TaskRefused(f"{name} changes '{path}', which is a link or a submodule, not a text")
            change = Change(self._text(old_mode, old, path, name), self._text(new_mode, new, path, name))
            if change.before != change.after:
                found[path] = change
        return found

    def _text(self, mode: str, blob: str, path: str, name: str) -> str | None:
        if mode == "000000":
            return None
        if (size := int(self._git("cat-file", "-s", blob))) > MAX_BYTES:
            raise TaskRefused(f"{name} changes '{path}', which has {size} bytes; at most {MAX_BYTES} are read")
        return utf8(self._git("cat-file", "blob", blob), f"{name}: '{path}'")

    def _git(self, *words: str, stdin: bytes = b"") -> bytes:
        try:
            done = subprocess.run(
                ["git", *words],
                input=stdin,
                capture_output=True,
                cwd=self._home,
                env=self._environment,
                timeout=_DEADLINE_S,
            )
        except subprocess.TimeoutExpired as error:
            raise TaskRefused(f"git {words[0]} took longer than {_DEADLINE_S:.0f} s") from error
        if done.returncode:
            lines = done.stderr.decode(errors="replace").strip().splitlines() or [f"exit status {done.returncode}"]
            raise TaskRefused(f"git {words[0]}: {lines[0].removeprefix('error: ').removeprefix('fatal: ')}")
        return done.stdout


def _environment(window: Path, home: Path) -> Mapping[str, str]:
    """Nothing of the user's settings, so that every machine reads the same."""
    return {
        "PATH": os.environ.get("PATH", os.defpath),
        "HOME": str(home),
        "LC_ALL": "C",
        "GIT_DIR": str(window),
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_ATTR_NOSYSTEM": "1",
        "GIT_TERMINAL_PROMPT": "0",
    }


def utf8(content: bytes, what: str) -> str:
    """Content as text. Raises TaskRefused for bytes that are not UTF-8; ``what``: the content, in a refusal."""
    if b"\0" in content:
        raise TaskRefused(f"{what} is binary, not text")
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise TaskRefused(f"{what} is not UTF-8 text (byte {error.start})") from error
