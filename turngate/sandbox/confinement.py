"""The part of the host that a command sees: files of ``/etc``, further folders, and the options of bubblewrap."""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Mapping
from pathlib import Path

from turngate.errors import ConfigError
from turngate.sandbox.base import HOME, TMP, WORK

UID = 1000  # the agent's user inside; outside it is an ordinary user, never root

_OWN = (WORK, TMP, HOME, "/proc", "/dev")
SYSTEM = ("/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
_SETTINGS = (
    "alternatives",
    "gitconfig",
    "ld.so.cache",
    "localtime",
    "mime.types",
    "nsswitch.conf",
    "os-release",
    "pki/tls/certs",
    "protocols",
    "services",
    "ssl/certs",
    "ssl/openssl.cnf",
    "timezone",
)  # of the host's /etc; no more than programs need, and nothing that only some users may read
_MADE = {
    "passwd": f"root:x:0:0::/root:/bin/false\nagent:x:{UID}:{UID}::{HOME}:/bin/bash\n",
    "group": f"root:x:0:\nagent:x:{UID}:\n",
    "hosts": "127.0.0.1 localhost sandbox\n",
}


def write_settings(folder: Path) -> None:
    """Write the ``/etc`` that all sandboxes share: copies of some of the host's files.

    They are copied, not mounted, because every mount makes every command slower.
    """
    folder.mkdir()
    for name in _SETTINGS:
        for above, below, files in [*os.walk(f"/etc/{name}")] or [("/etc", [], [name])]:
            for file in (*below, *files):  # links to folders are among the folders
                if above == "/etc/alternatives" and file.endswith(".gz"):  # manual pages, most of the links there
                    continue
                _copy_public(f"{above}/{file}", folder / os.path.relpath(f"{above}/{file}", "/etc"))
    for name, content in _MADE.items():
        (folder / name).write_text(content)
        (folder / name).chmod(0o644)
    for path, _folders, _files in os.walk(folder):
        os.chmod(path, 0o755)  # whatever the umask is


def _copy_public(source: str, target: Path) -> None:
    """Copy a file that everybody may read; links stay links."""
    if not os.path.lexists(source):
        return
    mode = os.lstat(source).st_mode
    target.parent.mkdir(parents=True, exist_ok=True)
    if stat.S_ISLNK(mode):
        target.symlink_to(os.readlink(source))
    elif stat.S_ISREG(mode) and mode & stat.S_IROTH:
        shutil.copyfile(source, target)
        target.chmod(0o644)


def arguments(root: str, cwd: str, env: Mapping[str, str]) -> list[str]:
    """The options of bubblewrap for one command. ``root``: where the mounts lie that it sees as ``/`` (``mounts.py``).

    ``/proc/1`` is bubblewrap's own first process, which the system-call filter does not bind; an empty folder hides it.
    """
    # A session of its own: what a command sends to its process group must not reach bubblewrap's monitor.
    lines = ["--unshare-user", "--unshare-pid", "--new-session", "--die-with-parent", "--cap-drop", "ALL"]
    lines += ["--uid", str(UID), "--gid", str(UID), "--dev-bind", root, "/", "--proc", "/proc"]
    lines += ["--bind", f"{root}/run", "/proc/1", "--chdir", cwd, "--clearenv"]
    for name, value in env.items():
        lines += ["--setenv", name, value]
    return lines


def links_to(shown: Mapping[str, str]) -> dict[str, str]:
    """Path on the host → path inside, for each shown path whose place on the host is free inside."""
    taken = (*_OWN, "/usr", "/etc", "/run", "/var", *SYSTEM, *shown)
    return {
        host: inside
        for inside, host in shown.items()
        if not any(host == other or _is_below(host, other) or _is_below(other, host) for other in taken)
        and not any(_is_below(host, other) for other in shown.values())
    }


def _is_below(path: str, folder: str) -> bool:
    return path.startswith(folder.rstrip("/") + "/")


def real_places(shown: Mapping[str, str]) -> dict[str, str]:
    """``shown`` with outer folders before inner ones and host paths without links. Raises ConfigError for a bad
    path."""
    for inside, host in shown.items():
        if not os.path.isabs(host) or not os.path.exists(host):
            raise ConfigError(f"the host path '{host}' does not exist or is relative; name an existing absolute one")
        if inside != os.path.normpath(inside) or not os.path.isabs(inside):
            raise ConfigError(f"'{inside}' is no absolute path without '..'; name where '{host}' shall appear")
        for taken in _OWN:
            if inside == taken or _is_below(inside, taken) or _is_below(taken, inside):
                raise ConfigError(f"'{host}' cannot appear at '{inside}', because '{taken}' is the sandbox's own")
    return {inside: os.path.realpath(shown[inside]) for inside in sorted(shown)}
