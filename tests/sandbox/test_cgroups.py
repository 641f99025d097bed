"""Where groups of version 2 are made. The rules of the kernel stand in for a kernel that may have version 1 only; the
tests of ``test_bubblewrap.py`` use what the machine has."""

import errno
import os
from pathlib import Path

import pytest

from turngate.sandbox import cgroups
from turngate.sandbox.cgroups import places_v2

HANDED_DOWN = "cgroup.subtree_control"


class Kernel:
    """Groups as folders: a group other than the root hands nothing down while it holds a process."""

    def __init__(self, root, write):
        self.root, self._write = root, write
        (root / "cgroup.controllers").write_text("memory pids")
        self.group("")

    def group(self, name, *, hands_down="", others=0):
        folder = self.root / name
        if folder != self.root and not folder.parent.exists():
            self.group(os.path.dirname(name))
        folder.mkdir(exist_ok=True)
        self._write(folder / HANDED_DOWN, hands_down)
        self._write(folder / "cgroup.procs", "1\n" * others)
        return folder

    def write(self, path, text):
        if path.name == "cgroup.procs":
            assert text == "0"
            for procs in self.root.rglob("cgroup.procs"):
                self._write(procs, procs.read_text().replace("0\n", ""))
            text = (path.read_text() if path.exists() else "") + "0\n"
        elif path.name == HANDED_DOWN:
            if path.parent != self.root and (path.parent / "cgroup.procs").read_text():
                raise OSError(errno.EBUSY, "busy", str(path))
            text = text.replace("+", "")
        self._write(path, text)

    def remove(self, folder):
        for file in folder.iterdir():
            file.unlink()
        folder.rmdir()


@pytest.fixture
def kernel(tmp_path, monkeypatch):
    kernel = Kernel(tmp_path, Path.write_text)
    monkeypatch.setattr(Path, "write_text", lambda path, text: kernel.write(path, text))
    monkeypatch.setattr(cgroups, "_remove", kernel.remove)
    monkeypatch.setattr(cgroups, "_SYSTEMD", str(tmp_path / "no systemd"))
    return kernel


def chosen(kernel, own):
    """The first place that can be had, as ``open_groups`` looks for it."""
    for place in places_v2(kernel.root, own):
        try:
            return place()
        except OSError:
            continue
    return []


def start_in(kernel, group):
    (group / "cgroup.procs").write_text("0")


def test_the_root_hands_down_although_processes_are_in_it(kernel):
    start_in(kernel, kernel.root)
    assert chosen(kernel, "/") == [kernel.root]
    assert (kernel.root / HANDED_DOWN).read_text() == "memory pids"


def test_a_process_alone_in_its_group_moves_below_it(kernel):
    scope = kernel.group("a/scope")
    start_in(kernel, scope)
    assert chosen(kernel, "/a/scope") == [scope]
    assert (scope / "cgroup.procs").read_text() == ""
    shelter = scope / f"turngate-{os.getpid()}-0"
    assert (shelter / "cgroup.procs").read_text() == "0\n"
    assert chosen(kernel, f"/a/scope/{shelter.name}") == [scope]  # a second back end, or a child of this process
    assert [path.name for path in scope.iterdir() if path.is_dir()] == [shelter.name]


def test_a_login_keeps_its_processes_and_groups_are_made_beside_it(kernel):
    above = kernel.group("user", hands_down="cpu memory pids")
    login = kernel.group("user/login", others=2)
    start_in(kernel, login)
    assert chosen(kernel, "/user/login") == [above]
    assert (login / "cgroup.procs").read_text() == "1\n1\n0\n"
    assert not [path for path in login.iterdir() if path.is_dir()]


def test_nothing_above_hands_down_enough(kernel):
    kernel.group("user", hands_down="pids")
    start_in(kernel, kernel.group("user/login", others=1))
    assert chosen(kernel, "/user/login") == []


def test_systemd_keeps_what_it_did_not_delegate(kernel, monkeypatch):
    monkeypatch.setattr(cgroups, "_SYSTEMD", str(kernel.root))
    above = kernel.group("system", hands_down="memory pids")
    start_in(kernel, kernel.group("system/scope"))
    assert chosen(kernel, "/system/scope") == [above]
    monkeypatch.setattr(cgroups, "_is_delegated", lambda group: True)
    assert chosen(kernel, "/system/scope") == [kernel.root / "system/scope"]


def test_without_version_2_there_is_no_place(tmp_path):
    assert list(places_v2(tmp_path, "/")) == []


def test_a_group_outside_of_what_is_mounted_offers_no_place(kernel):
    assert chosen(kernel, "/../../elsewhere") == []
