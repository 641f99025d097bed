"""Bubblewrap's own: how it refuses, how it copies, what it leaves behind, and what happens when a helper dies."""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import suppress
from pathlib import Path

import pytest

from tests.helpers.waiting import wait_until
from turngate.errors import ConfigError, EnvError
from turngate.sandbox import CommandResult, KilledBy, ResourceLimits, SandboxLost, confinement, open_backend
from turngate.sandbox.bubblewrap import OUTSIDE_UID, SPARE
from turngate.sandbox.cgroups import open_groups

LONG_S = 60.0
SLEEP_S = 2 * (500_000 + os.getpid())  # so that the processes of this test run can be told from others
SMALL = ResourceLimits(memory_bytes=512 << 20, disk_bytes=32 << 20, files=2000, processes=64)


def remains():
    """Processes, folders, mounts and control groups of sandboxes on this machine that belong to this process."""
    folders = [folder for folder, _, _ in os.walk("/sys/fs/cgroup")]  # a glob trips over groups that vanish meanwhile
    groups = [folder for folder in folders if os.path.basename(folder).startswith(f"turngate-{os.getpid()}-")]
    mounts = [line for line in Path("/proc/self/mountinfo").read_text().splitlines() if "turngate-sandbox" in line]
    return len(groups), len(mounts), len(os.listdir("/proc/self/fd")), threading.active_count()


def test_a_missing_program_is_named_with_the_line_that_installs_it(monkeypatch):
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(ConfigError, match="apt-get install -y bubblewrap"):
        open_backend("bubblewrap")


@pytest.fixture
def install(monkeypatch):
    """Make a script the program that is found as bubblewrap, where the user that sandboxes run as can come to it."""
    with tempfile.TemporaryDirectory(prefix="bwrap-") as folder:

        def make(text):
            program = Path(folder, "bwrap")
            program.write_text("#!/bin/sh\n" + text)
            for path in (program, program.parent):
                path.chmod(0o755)
            monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")

        yield make


def test_a_machine_without_user_namespaces_says_what_to_do(install):
    install("echo 'bwrap: No permissions to create new namespace' >&2\nexit 1\n")
    with pytest.raises(ConfigError, match=r"No permissions to create new namespace.*user\.max_user_namespaces"):
        open_backend("bubblewrap")


def test_a_program_of_another_prefix_may_use_what_lies_beside_it(monkeypatch):
    with tempfile.TemporaryDirectory(prefix="prefix-") as prefix:
        program, library = Path(prefix, "bin", "bwrap"), Path(prefix, "lib", "real")
        for path in (program, library):
            path.parent.mkdir(mode=0o755)
        shutil.copy(shutil.which("bwrap"), library)
        program.write_text(f'#!/bin/sh\nexec {library} "$@"\n')
        for path in (program, library, Path(prefix)):
            path.chmod(0o755)
        monkeypatch.setenv("PATH", f"{prefix}/bin:{os.environ['PATH']}")
        with open_backend("bubblewrap") as backend, backend.open() as sandbox:
            assert sandbox.run(["echo", "here"], deadline_s=10).stdout == b"here\n"
            assert sandbox.run(["ls", prefix], deadline_s=10).exit == 2


def test_the_umask_of_the_library_changes_nothing():
    before = os.umask(0o077)
    try:
        with open_backend("bubblewrap") as backend, backend.open() as sandbox:
            modes = sandbox.run(["stat", "-c", "%a", "/work", "/tmp", "/etc", "/etc/ssl", "/etc/passwd"], deadline_s=10)
            assert modes.stdout == b"755\n755\n755\n755\n644\n"
    finally:
        os.umask(before)


def test_who_starts_commands_sees_no_file_of_the_host(bubblewrap):
    links = {name for name in ("bin", "lib", "lib32", "lib64", "libx32", "sbin") if os.path.lexists(f"/{name}")}
    with bubblewrap.open() as sandbox:
        sandbox.run(["true"], deadline_s=LONG_S)
        launcher, seen = bubblewrap._process.pid, 0
        for pid in (launcher, *children(launcher)):
            with suppress(OSError):  # the supervisor of a test before, which has just ended
                lines = Path(f"/proc/{pid}/mountinfo").read_text().splitlines()
                names = os.listdir(f"/proc/{pid}/root/")
                seen += 1
                assert set(names) == {"etc", "proc", "tmp", "usr"} | links
                mounts = {line.split()[4] for line in lines}
                assert all(place == "/" or place.startswith(("/proc", str(bubblewrap._store))) for place in mounts)
        assert seen >= 2


@pytest.mark.parametrize(
    ("shown", "problem"),
    [
        ({"/opt/x": "/missing"}, "does not exist"),
        ({"/work/x": "/usr"}, "sandbox's own"),
        ({"/home": "/usr"}, "sandbox's own"),
        ({"opt": "/usr"}, "no absolute path"),
        ({"/opt/../work": "/usr"}, "no absolute path"),
    ],
)
def test_what_cannot_be_shown(shown, problem):
    with pytest.raises(ConfigError, match=problem):
        open_backend("bubblewrap", shown=shown)


def test_more_of_the_host_can_be_shown_read_only():
    with open_backend("bubblewrap", SMALL, shown={"/opt/tools": "/usr/bin"}) as backend, backend.open() as sandbox:
        result = sandbox.run(["bash", "-c", "/opt/tools/env echo yes; touch /opt/tools/x"], deadline_s=LONG_S)
        assert result.stdout == b"yes\n"
        assert b"Read-only" in result.stderr


def test_full_copies_behave_like_overlays(tmp_path):
    (tmp_path / "a").write_text("1")
    with open_backend("bubblewrap", SMALL, storage="copy") as backend, backend.open(tmp_path) as sandbox:
        assert backend.storage == "full copies, as asked"
        sandbox.run(["bash", "-c", "mv a b; echo t > /tmp/t"], deadline_s=LONG_S)
        with sandbox.fork() as branch:
            sandbox.write("b", "2")
            assert branch.run(["bash", "-c", "ls; cat b /tmp/t"], deadline_s=LONG_S).stdout == b"b\n1t\n"


def test_many_layers(bubblewrap):
    sandbox = bubblewrap.open()
    for depth in range(30):
        sandbox.write(f"{depth}", str(depth))
        branch = sandbox.fork()
        sandbox.close()
        sandbox = branch
    assert len(sandbox.list()) == 30
    assert sandbox.read("7") == b"7"
    sandbox.close()


def test_a_snapshot_of_another_back_end_is_refused(bubblewrap):
    with open_backend("bubblewrap", SMALL) as other, other.open() as sandbox:
        snapshot = sandbox.snapshot()
        with pytest.raises(ConfigError, match="another back end"):
            bubblewrap.open(snapshot)


def test_layers_are_removed_when_nobody_needs_them(bubblewrap, tmp_path):
    layers = bubblewrap._store / "layers"
    before = set(os.listdir(layers))
    (tmp_path / "a").write_text("1")
    kept = bubblewrap.keep(tmp_path)
    sandbox = bubblewrap.open(kept)
    branch = sandbox.fork()
    sandbox.close()
    assert len(set(os.listdir(layers)) - before) == 2
    branch.close()
    del kept, sandbox, branch
    wait_until(lambda: set(os.listdir(layers)) <= before)


def test_episodes_leave_nothing_behind(bubblewrap):
    def episode():
        with bubblewrap.open() as sandbox:
            sandbox.run(["bash", "-c", "setsid sleep 600 & sleep 600 & echo x > file"], deadline_s=LONG_S)
            sandbox.fork().close()
            sandbox.session().run("sleep 600 &", deadline_s=LONG_S)
            assert sandbox.run(["cat"], cwd="/work", env={"X": "x" * 100_000}, deadline_s=LONG_S).exit == 0

    episode()
    before = remains()
    for _ in range(10):
        episode()
    assert remains() == before


def test_closing_the_back_end_ends_all():
    before = remains()
    backend = open_backend("bubblewrap", SMALL)
    store = backend._store
    sandboxes = [backend.open() for _ in range(3)]
    sandboxes[0].session().run("sleep 600 &", deadline_s=LONG_S)
    backend.close()
    backend.close()
    assert not store.exists()
    assert remains() == before
    with pytest.raises(EnvError, match="closed"):
        backend.open()


def test_a_process_that_is_killed_takes_its_sandboxes_along():
    program = f"""
        import sys, time
        from turngate.sandbox import SandboxLost, open_backend
        backend = open_backend("bubblewrap", groups="off")
        sandbox = backend.open()
        session = sandbox.session()
        session.run("sleep {SLEEP_S} & setsid sleep {SLEEP_S} &", deadline_s=60)
        print(backend._store, flush=True)
        time.sleep(600)
    """
    with subprocess.Popen([sys.executable, "-c", "if True:" + program], stdout=subprocess.PIPE, text=True) as process:
        store = Path(process.stdout.readline().strip())
        try:
            assert store.exists()
            wait_until(lambda: len(users(SLEEP_S)) == 2)
        finally:
            process.kill()
    wait_until(lambda: not store.exists() and not users(SLEEP_S))


def users(seconds):
    """To whom the processes belong that sleep so long."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if (folder / "cmdline").read_bytes() == b"sleep\0%d\0" % seconds:
                found.append(folder.stat().st_uid)
    return found


def test_a_supervisor_that_dies_is_the_doing_of_what_ran_in_its_sandbox(bubblewrap):
    sandbox, untouched = bubblewrap.open(), bubblewrap.open()
    timer = threading.Timer(0.3, kill_all, (children(bubblewrap._process.pid),))
    timer.start()
    for argv in (["sleep", "60"], ["true"]):
        with pytest.raises(SandboxLost, match="has ended"):
            sandbox.run(argv, deadline_s=LONG_S)
    timer.join()
    for use in (lambda: sandbox.read("x"), sandbox.tree, sandbox.snapshot):
        with pytest.raises(SandboxLost, match="has ended"):
            use()
    with pytest.raises(EnvError, match="has ended") as caught:  # nothing has run in it that could be the cause
        untouched.read("x")
    assert not isinstance(caught.value, SandboxLost)
    untouched.close()
    sandbox.close()
    with bubblewrap.open() as another:
        assert another.run(["true"], deadline_s=LONG_S).exit == 0


def test_a_back_end_that_is_gone_is_nobodys_doing():
    backend = open_backend("bubblewrap", SMALL)
    sandbox = backend.open()
    sandbox.run(["true"], deadline_s=LONG_S)
    kill_all([backend._process.pid])
    for use in (lambda: sandbox.run(["true"], deadline_s=LONG_S), sandbox.tree):
        with pytest.raises(EnvError) as caught:
            use()
        assert not isinstance(caught.value, SandboxLost)
    backend.close()


def test_a_signal_to_the_group_of_a_command_ends_that_command_only(bubblewrap):
    with bubblewrap.open() as sandbox:
        result = sandbox.run(["python3", "-c", "import os; os.kill(0, 9)"], deadline_s=LONG_S)
        assert (result.exit, result.killed_by) == (137, None)
        assert sandbox.run(["echo", "alive"], deadline_s=LONG_S).stdout == b"alive\n"


def test_a_command_does_not_outlive_a_supervisor_that_dies_as_it_starts(install):
    install(f'sleep 0.5\nexec {shutil.which("bwrap")} "$@"\n')
    with open_backend("bubblewrap") as backend, backend.open() as sandbox:
        timer = threading.Timer(0.2, kill_all, (children(backend._process.pid),))
        timer.start()
        with pytest.raises(EnvError, match="has ended"):
            sandbox.run(["sleep", str(SLEEP_S + 1)], deadline_s=LONG_S)
        timer.join()
        time.sleep(2.0)  # the command would have begun
        assert not users(SLEEP_S + 1)


def kill_all(pids):
    for pid in pids:
        with suppress(ProcessLookupError):  # a sandbox of the test before, which has just ended
            os.kill(pid, signal.SIGKILL)


def children(pid):
    return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def test_closing_from_another_thread_ends_a_command(bubblewrap):
    sandbox = bubblewrap.open()
    timer = threading.Timer(0.3, sandbox.close)
    timer.start()
    assert sandbox.run(["sleep", "60"], deadline_s=LONG_S).killed_by is KilledBy.CLOSED
    timer.join()


def test_a_group_that_is_closed_judges_nothing():
    groups = open_groups(ResourceLimits(), "auto")
    if groups is None:
        return
    group, result = groups.make(), CommandResult(exit=137, stdout=b"", stderr=b"", killed_by=KilledBy.CLOSED)
    group.close()
    assert group.judge(result) is result
    groups.close()


def test_many_threads_at_once(bubblewrap):
    seen = []

    def work(number):
        with bubblewrap.open() as sandbox:
            sandbox.write("n", str(number))
            seen.append(sandbox.run(["cat", "n"], deadline_s=LONG_S).stdout)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(seen) == [b"%d" % number for number in range(8)]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root becomes somebody else")
def test_root_is_nobody_outside(bubblewrap, tmp_path):
    with bubblewrap.open() as sandbox, sandbox.session() as session:
        session.run(f"sleep {SLEEP_S + 1} &", deadline_s=LONG_S)
        wait_until(lambda: users(SLEEP_S + 1))
        assert users(SLEEP_S + 1) == [OUTSIDE_UID]


def test_memory_of_all_processes_together():
    limits = ResourceLimits(memory_bytes=256 << 20, disk_bytes=16 << 20)
    groups = open_groups(limits, "auto")
    if groups is None:
        with pytest.raises(ConfigError, match="no control group"):
            open_backend("bubblewrap", limits, groups="require")
        return
    groups.close()
    program = """
import os, sys, time
for _ in range(4):
    if os.fork() == 0:
        block = bytearray(150 << 20)
        time.sleep(20)
        os._exit(0)
sys.exit(any(os.wait()[1] for _ in range(4)))
"""
    with open_backend("bubblewrap", limits, groups="require") as backend, backend.open() as sandbox:
        assert "control groups" in backend.memory_bound
        result = sandbox.run(["python3", "-c", program], deadline_s=LONG_S)
        alive = sandbox.run(["echo", "alive"], deadline_s=LONG_S)
    assert (result.exit, result.killed_by) in ((1, KilledBy.MEMORY), (137, KilledBy.MEMORY))
    assert alive.stdout == b"alive\n"


# --- the store and the settings ---------------------------------------------------------------------------------------


def test_temporary_folder_of_choice(tmp_path):
    place = tempfile.mkdtemp(prefix="turngate-test-", dir="/tmp")
    os.chmod(place, 0o755)
    with open_backend("bubblewrap", SMALL, store=place) as backend, backend.open() as sandbox:
        assert os.listdir(place)
        assert sandbox.run(["true"], deadline_s=LONG_S).exit == 0
    assert os.listdir(place) == []
    os.rmdir(place)


def test_a_store_behind_a_link(tmp_path):
    place = tempfile.mkdtemp(prefix="turngate-test-", dir="/tmp")
    os.chmod(place, 0o755)
    (tmp_path / "link").symlink_to(place)
    with open_backend("bubblewrap", SMALL, store=tmp_path / "link") as backend, backend.open() as sandbox:
        result = sandbox.run(["bash", "-c", "touch /etc/x /usr/x /x /work/x; ls /work"], deadline_s=LONG_S)
        assert (result.stdout, result.stderr.count(b"Read-only file system")) == (b"x\n", 3)
    assert os.listdir(place) == []
    os.rmdir(place)


def test_settings_that_not_everybody_may_read_stay_outside(tmp_path):
    (tmp_path / "public").write_text("x")
    (tmp_path / "secret").write_text("x")
    (tmp_path / "secret").chmod(0o640)
    (tmp_path / "link").symlink_to("secret")
    for name in ("public", "secret", "link", "missing"):
        confinement._copy_public(str(tmp_path / name), tmp_path / "copy" / name)
    assert sorted(path.name for path in (tmp_path / "copy").iterdir()) == ["link", "public"]
    assert (tmp_path / "copy" / "link").is_symlink()


def test_names_are_resolved_and_certificates_are_there(bubblewrap):
    with bubblewrap.open() as sandbox:
        result = sandbox.run(["bash", "-c", "id -un; getent hosts localhost; ls /etc"], deadline_s=LONG_S)
    assert result.stdout.startswith(b"agent\n127.0.0.1")
    assert not {b"shadow", b"ssh", b"machine-id", b"hostname"} & set(result.stdout.split())


# --- what the library's own programs look like ------------------------------------------------------------------------


@pytest.mark.parametrize("inside", ["/opt/python", sys.base_prefix])
def test_the_python_of_the_library_can_be_shown(inside):
    with open_backend("bubblewrap", SMALL, shown={inside: sys.base_prefix}) as backend, backend.open() as sandbox:
        program = "import json, ssl, sys; print(sys.version_info[:3], sys.prefix)"
        result = sandbox.run([f"{inside}/bin/python3", "-c", program], deadline_s=LONG_S)
    assert result.text() == f"{sys.version_info[:3]} {inside}\n"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can close a folder to the sandbox's user")
def test_what_lies_in_a_closed_folder_can_be_shown(tmp_path):
    (tmp_path / "closed" / "deep").mkdir(parents=True)
    (tmp_path / "closed" / "secret").write_text("x")
    (tmp_path / "closed" / "deep" / "tool").write_text("#!/bin/sh\necho ran\n")
    (tmp_path / "closed" / "deep" / "tool").chmod(0o755)
    (tmp_path / "closed" / "note").write_text("note\n")
    (tmp_path / "closed").chmod(0o700)
    shown = {"/opt/tools": f"{tmp_path}/closed/deep", "/opt/note": f"{tmp_path}/closed/note"}
    with open_backend("bubblewrap", SMALL, shown=shown) as backend, backend.open() as sandbox:
        result = sandbox.run(["sh", "-c", "/opt/tools/tool; cat /opt/note; ls /opt"], deadline_s=LONG_S)
    assert result.text() == "ran\nnote\nnote\ntools\n"
    assert sorted(path.name for path in (tmp_path / "closed").iterdir()) == ["deep", "note", "secret"]


def test_a_file_is_read_again_only_if_it_changed(bubblewrap):
    with bubblewrap.open() as sandbox:
        sandbox.write("large", "")
        sandbox.run(["truncate", "-s", "20M", "large"], deadline_s=LONG_S)
        first = sandbox.tree()
        assert sandbox.tree() == first
        sandbox.run(["truncate", "-s", "10M", "large"], deadline_s=LONG_S)
        assert sandbox.tree() != first


def test_what_is_shown_is_read_only_and_outlives_the_back_end(tmp_path):
    folder = tmp_path / "my tools"
    (folder / "open").mkdir(parents=True)
    (folder / "open" / "file").write_text("x")
    for path in (folder, folder / "open", folder / "open" / "file"):
        path.chmod(0o777)
    with open_backend("bubblewrap", SMALL, shown={"/opt/my tools": str(folder)}) as backend, backend.open() as sandbox:
        result = sandbox.run(["bash", "-c", "cd '/opt/my tools/open'; cat file; rm file; touch new"], deadline_s=LONG_S)
        assert result.text().count("Read-only file system") == 2
        assert result.stdout == b"x"
    assert [path.name for path in sorted(folder.rglob("*"))] == ["open", "file"]


# --- what sandboxes and commands share --------------------------------------------------------------------------------


def test_commands_of_one_sandbox_share_a_network_and_others_do_not_reach_it(bubblewrap):
    serve = """
import socket
tcp, unix = socket.create_server(("127.0.0.1", 8000)), socket.socket(socket.AF_UNIX)
unix.bind("\\0name")
unix.listen()
print("ready", flush=True)
import time
time.sleep(600)
"""
    ask = """
import socket
for family, address in ((socket.AF_INET, ("127.0.0.1", 8000)), (socket.AF_UNIX, "\\0name")):
    print(socket.socket(family).connect_ex(address) == 0)
"""
    with bubblewrap.open() as sandbox, bubblewrap.open() as other, sandbox.session() as session:
        sandbox.write("serve.py", serve)
        session.run("python3 serve.py > out & until grep -q ready out; do sleep 0.01; done", deadline_s=LONG_S)
        assert sandbox.run(["python3", "-c", ask], deadline_s=LONG_S).stdout == b"True\nTrue\n"
        assert other.run(["python3", "-c", ask], deadline_s=LONG_S).stdout == b"False\nFalse\n"


def test_terminals_belong_to_one_sandbox(bubblewrap):
    with bubblewrap.open() as sandbox, bubblewrap.open() as other, sandbox.session("python") as session:
        session.run("import os, pty; pair = pty.openpty(); name = os.ttyname(pair[1])", deadline_s=LONG_S)
        assert session.run("print(name)", deadline_s=LONG_S).stdout == b"/dev/pts/0\n"
        assert other.run(["ls", "/dev/pts"], deadline_s=LONG_S).stdout == b"ptmx\n"


def test_a_command_begins_with_default_signals(bubblewrap):
    with bubblewrap.open() as sandbox:
        ignored = sandbox.run(["grep", "SigIgn", "/proc/self/status"], deadline_s=LONG_S).stdout.split()[1]
    assert int(ignored, 16) & sum(1 << number - 1 for number in (signal.SIGINT, signal.SIGPIPE, signal.SIGXFSZ)) == 0


def test_supervisors_wait_ahead_and_are_used_once():
    with open_backend("bubblewrap", SMALL) as backend, contextlib.ExitStack() as stack:
        wait_until(lambda: len(children(backend._process.pid)) == SPARE)
        sandboxes = [stack.enter_context(backend.open()) for _ in range(2 * SPARE)]
        networks = {sandbox.run(["readlink", "/proc/self/ns/net"], deadline_s=LONG_S).stdout for sandbox in sandboxes}
        assert len(networks) == 2 * SPARE
        wait_until(lambda: len(children(backend._process.pid)) == 3 * SPARE)


def test_a_fork_keeps_the_mode_of_an_empty_folder_and_that_it_is_empty(bubblewrap):
    def shell(sandbox, text):
        return sandbox.run(["bash", "-c", text], deadline_s=LONG_S).text()

    with bubblewrap.open() as sandbox:
        shell(sandbox, "chmod 700 /tmp; touch ~/file")
        with sandbox.fork() as branch:
            assert shell(branch, "stat -c %a /tmp; ls -A ~") == "700\nfile\n"
            shell(branch, "chmod 755 /tmp; rm ~/file")
            with branch.fork() as twig:
                assert shell(twig, "stat -c %a /tmp; ls -A /tmp ~") == "755\n/home/agent:\n\n/tmp:\n"
