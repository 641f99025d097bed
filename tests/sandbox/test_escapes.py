"""Nothing leaves a sandbox: each attempt is a program that runs in one, some with a partner on the host."""

import json
import os
import resource
import signal
import socket
import subprocess
import textwrap
import time

import pytest

from tests.sandbox import escapes
from turngate.sandbox import KilledBy, SandboxFileError

DEADLINE_S = 60.0  # the machine may be busy; a test of deadlines names its own


def run(sandbox, program, *, deadline_s=DEADLINE_S):
    """A Python program in the sandbox; it must have come to its end."""
    result = sandbox.run(["python3", "-c", escapes.PREFIX + textwrap.dedent(program)], deadline_s=deadline_s)
    assert result.killed_by is not None or result.exit == 0, result.text()
    return result


@pytest.mark.parametrize("name", escapes.ATTEMPTS)
def test_attempt(shared, name):
    result = shared.run(["python3", "-c", escapes.program(name)], deadline_s=DEADLINE_S)
    assert "ESCAPED" not in result.text()
    assert result.stdout.rstrip().endswith(b"HELD"), result.text()


# --- with a partner on the host ---------------------------------------------------------------------------------------


def test_a_server_of_the_host_cannot_be_reached(sandbox):
    with socket.create_server(("0.0.0.0", 0)) as server:
        port = server.getsockname()[1]
        addresses = ["127.0.0.1", "localhost", socket.gethostname()]
        out = run(
            sandbox,
            f"""
            for host in {addresses}:
                if not refuses(socket.create_connection, (host, {port}), 1):
                    escaped(host)
            print("HELD")""",
        )
    assert out.stdout == b"HELD\n"


@pytest.mark.parametrize("abstract", [True, False])
def test_unix_sockets_of_the_host_cannot_be_reached(sandbox, tmp_path, abstract):
    address = "\0turngate-test" if abstract else str(tmp_path / "socket")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(address)
        server.listen()
        out = run(
            sandbox,
            f"""
            with socket.socket(socket.AF_UNIX) as out:
                if not refuses(out.connect, {address!r}):
                    escaped("connected")
            for path in ("/run/docker.sock", "/var/run/docker.sock", "/run/dbus/system_bus_socket", "/run/systemd"):
                if os.path.exists(path):
                    escaped(path)
            print("HELD")""",
        )
    assert out.stdout == b"HELD\n"


def test_signals_do_not_reach_the_host(sandbox):
    with subprocess.Popen(["sleep", "60"]) as victim:
        run(
            sandbox,
            f"""
            for pid in ({victim.pid}, {os.getpid()}):
                refuses(os.kill, pid, signal.SIGKILL)
                refuses(os.killpg, pid, signal.SIGKILL)
            print("HELD", flush=True)
            refuses(os.kill, -1, signal.SIGTERM)""",
        )
        assert victim.poll() is None
        victim.kill()


def test_the_first_process_cannot_be_ended_from_inside(sandbox):
    out = run(
        sandbox,
        """
        for number in (signal.SIGKILL, signal.SIGSTOP, signal.SIGTERM, signal.SIGSEGV):
            refuses(os.kill, 1, number)
        print("HELD")""",
    )
    assert out.stdout == b"HELD\n"
    assert out.killed_by is None


def test_processes_of_the_host_cannot_be_seen(sandbox):
    out = run(
        sandbox,
        """
        names = [name for name in os.listdir("/proc") if name.isdigit()]
        print(len(names))
        for name in names:
            if os.path.exists(f"/proc/{name}/cmdline"):
                print(open(f"/proc/{name}/cmdline").read())""",
    )
    assert int(out.stdout.splitlines()[0]) < 10
    assert b"pytest" not in out.stdout


def test_nothing_of_the_environment_gets_in(sandbox, monkeypatch):
    monkeypatch.setenv("TURNGATE_SECRET", "open-sesame")
    out = run(
        sandbox,
        """
        for name in os.listdir("/proc"):
            if name.isdigit():
                try:
                    print(open(f"/proc/{name}/environ").read())
                except OSError:
                    pass
        print(dict(os.environ))""",
    )
    assert b"open-sesame" not in out.stdout
    assert b"TURNGATE" not in out.stdout


def test_links_do_not_lead_out(sandbox, tmp_path):
    secret = tmp_path / "secret"
    secret.write_text("open-sesame")
    run(
        sandbox,
        f"""
        os.symlink({str(secret)!r}, "link")
        os.symlink({str(tmp_path)!r}, "folder")
        os.symlink("../../../../../../../.." + {str(secret)!r}, "up")
        os.symlink("/proc/self/root" + {str(secret)!r}, "magic")
        os.symlink("/etc/passwd", "passwd")""",
    )
    for path in ("link", "folder/secret", "up", "magic", "passwd", "../../etc/passwd", "/work/../etc/passwd"):
        with pytest.raises(SandboxFileError):
            sandbox.read(path)
    with pytest.raises(SandboxFileError):
        sandbox.list("folder")
    for path in ("link", "folder/new", "up"):
        try:
            sandbox.write(path, "changed")  # it may make a file of that name inside
        except SandboxFileError:
            continue
    assert secret.read_text() == "open-sesame"
    assert list(tmp_path.iterdir()) == [secret]


def test_hard_links_do_not_lead_out(sandbox):
    out = run(
        sandbox,
        """
        for source in ("/usr/bin/env", "/etc/passwd", "/proc/self/exe"):
            try:
                os.link(source, "hard", follow_symlinks=True)
                with open("hard", "a") as file:
                    escaped(source)
            except OSError:
                pass
        print("HELD")""",
    )
    assert out.stdout == b"HELD\n"


def test_reading_a_fifo_or_a_folder_does_not_hang(sandbox):
    run(sandbox, 'os.mkfifo("pipe"); os.mkdir("folder"); os.symlink("pipe", "link")')
    for path in ("pipe", "folder", "link", "/dev/zero", "missing", "pipe/below", "a\0b", "\ud800"):
        with pytest.raises(SandboxFileError):
            sandbox.read(path)
    with pytest.raises(SandboxFileError):
        sandbox.write("pipe", "nobody reads this")


# --- resources --------------------------------------------------------------------------------------------------------


def test_a_fork_bomb_stays_small_and_ends(sandbox):
    result = sandbox.run(["bash", "-c", "bomb() { bomb | bomb & }; bomb; sleep 30"], deadline_s=1.0)
    assert result.killed_by is KilledBy.DEADLINE
    assert sandbox.run(["echo", "alive"], deadline_s=DEADLINE_S).stdout == b"alive\n"


def test_the_number_of_processes_is_bounded(sandbox):
    out = run(
        sandbox,
        """
        made = 0
        try:
            while made < 1000:
                if os.fork() == 0:
                    time.sleep(60)
                made += 1
        except OSError:
            pass
        print(made)""",
    )
    assert 8 < int(out.stdout) < 64


def test_the_memory_of_a_process_is_bounded(sandbox):
    result = sandbox.run(["python3", "-c", "x = bytearray(2 << 30); print('ESCAPED')"], deadline_s=DEADLINE_S)
    assert b"ESCAPED" not in result.stdout
    assert result.exit != 0


def test_the_disk_is_bounded_wherever_one_writes(sandbox):
    out = run(
        sandbox,
        """
        import json
        written = {}
        for folder in ("/work", "/tmp", "/home/agent", "/dev/shm", "/dev", "/", "/run", "/var/tmp", "/dev/mqueue"):
            total = 0
            try:
                for number in range(1000):
                    with open(f"{folder}/fill{number}", "wb") as file:
                        for _ in range(16):
                            total += file.write(bytes(1 << 16))
                            file.flush()
            except OSError:
                pass
            written[folder] = total
        print(json.dumps(written))""",
    )
    written = json.loads(out.stdout)
    assert 0 < sum(written.values()) <= sandbox.limits.disk_bytes + (8 << 20)
    assert written["/work"] > 8 << 20


def test_the_number_of_files_is_bounded(sandbox):
    out = run(
        sandbox,
        """
        made = 0
        try:
            for made in range(200_000):
                open(f"/work/{made}", "w").close()
        except OSError:
            pass
        print(made)""",
    )
    assert int(out.stdout) <= sandbox.limits.files + 16


def test_an_output_flood_is_cut_and_does_not_fill_the_host(sandbox):
    before_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    result = sandbox.run(["bash", "-c", "echo first; head -c 300000000 /dev/zero; echo last"], deadline_s=DEADLINE_S)
    after_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert result.truncated
    assert result.stdout.startswith(b"first\n")
    assert result.stdout.endswith(b"last\n")
    assert len(result.stdout) < sandbox.limits.output_bytes + 100
    assert after_kib - before_kib < 64 << 10


def test_an_endless_flood_ends_at_the_deadline(sandbox):
    result = sandbox.run(["bash", "-c", "yes & yes >&2"], deadline_s=0.5)
    assert result.killed_by is KilledBy.DEADLINE
    assert result.truncated


# --- processes that want to stay --------------------------------------------------------------------------------------

HEARTBEAT = """
import os, signal, time
for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
    signal.signal(number, signal.SIG_IGN)
for _ in range(2):
    if os.fork():
        if _ == 0 and WAITS:
            time.sleep(60)
        os._exit(0)
    os.setsid()
os.chdir("/")
for fd in range(3):
    os.close(fd)
while True:
    with open("/work/beats", "a") as file:
        file.write("x")
    time.sleep(0.01)
"""


def beats(sandbox):
    try:
        return len(sandbox.read("beats"))
    except SandboxFileError:
        return 0


@pytest.mark.parametrize("waits", [True, False])
def test_a_double_fork_does_not_outlive_the_command(sandbox, waits):
    sandbox.write("beat.py", HEARTBEAT.replace("WAITS", str(waits)))
    result = sandbox.run(["bash", "-c", "python3 beat.py; sleep 0.5"], deadline_s=3.0)
    assert result.killed_by is (KilledBy.DEADLINE if waits else None)
    first = beats(sandbox)
    time.sleep(0.3)
    assert beats(sandbox) == first
    assert first > 0


def test_zombies_are_reaped(sandbox):
    out = run(
        sandbox,
        """
        for _ in range(30):
            if os.fork() == 0:
                if os.fork() == 0:
                    os._exit(0)  # its parent ends without waiting
                time.sleep(0.05)
                os._exit(0)
        time.sleep(0.5)
        names = [name for name in os.listdir("/proc") if os.path.exists(f"/proc/{name}/stat") and name.isdigit()]
        states = [open(f"/proc/{name}/stat").read().rpartition(")")[2].split()[:2] for name in names]
        print(sum(state == "Z" and parent == "1" for state, parent in states))""",
    )
    assert out.stdout == b"0\n"


def test_stopped_processes_die_too(sandbox):
    result = sandbox.run(["bash", "-c", "sleep 60 & kill -STOP $!; kill -STOP $$"], deadline_s=0.5)
    assert result.killed_by is KilledBy.DEADLINE
    assert result.exit == 128 + signal.SIGKILL
