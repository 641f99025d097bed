"""A session's promises: state persists, a deadline costs the command only, and a lost shell says so."""

import time

import pytest

from turngate.errors import ConfigError, EnvError
from turngate.sandbox import KilledBy

LONG_S = 60.0


@pytest.fixture
def bash(shared):
    with shared.session() as session:
        yield session


@pytest.fixture
def python(shared):
    with shared.session("python") as session:
        yield session


def say(session, command, deadline_s=LONG_S):
    result = session.run(command, deadline_s=deadline_s)
    assert result.note == ""
    return result.text()


def test_state_persists(bash):
    say(
        bash, "mkdir a; cd a; X='one two'; export Y=3; declare -A map=([k]=v); f() { echo $X $Y ${map[k]}; }; alias g=f"
    )
    assert say(bash, "pwd; f; g; bash -c 'echo $X-$Y'") == "/work/a\none two 3 v\none two 3 v\n-3\n"


def test_the_exit_status_is_reported_and_remembered(bash):
    assert bash.run("(exit 7)", deadline_s=LONG_S).exit == 7
    assert say(bash, "echo $?") == "7\n"
    assert say(bash, "echo $?") == "0\n"


@pytest.mark.parametrize(
    ("command", "shown"),
    [
        ("if true; then", "syntax error"),
        ("break", "break"),
        ("return 3", "return"),
        ("echo 'a\nb'; cat <<END\nit's \"$((1+1))\"\nEND", 'a\nb\nit\'s "2"\n'),
        ("cat", ""),
        ("", ""),
        ("# nothing", ""),
        ("echo one; # two", "one\n"),
        ("unset -f printf; printf() { echo mine; }; printf x; unset -f printf", "mine\n"),
        ("exec 2>&1; ls missing", "missing"),
        ("echo $'\\xff'", "\ufffd"),
    ],
)
def test_odd_commands_leave_the_shell_alone(bash, command, shown):
    assert shown in say(bash, command)
    assert say(bash, "echo alive") == "alive\n"


def test_output_cannot_be_mistaken_for_the_frame(bash):
    forged = r"for fd in 1 2 3 4 250; do printf '0\0state\0' >&$fd; done 2>/dev/null; sleep 0.2; echo end"
    assert say(bash, forged).endswith("end\n")


FORGE = "bash -c 'for file in /proc/$PPID/fd/1?; do printf \"%s\" > $file; done'; sleep 0.3"


@pytest.mark.parametrize("forged", ["0\\0exit\\0", "0\\0sleep 60\\0", "9" * 5000 + "\\0\\0"])
def test_a_report_that_a_program_forged_costs_the_shell_and_not_the_session(backend, forged):
    with backend.open() as sandbox, sandbox.session(state=b"X=5") as bash:
        bash.run(FORGE % forged, deadline_s=3.0)
        bash.run("exit", deadline_s=3.0)
        assert bash.run("echo $X", deadline_s=LONG_S).stdout == b"5\n"


def test_a_sandbox_in_which_no_shell_starts_any_more_says_so(backend):
    with backend.open() as sandbox, sandbox.session() as bash:
        bash.run("for n in $(seq 9000); do : > /tmp/$n || break; done; exit", deadline_s=LONG_S)
        result = bash.run("echo alive", deadline_s=LONG_S)
        assert result.exit in (0, 126)  # bubblewrap needs no file for a shell, and Docker one
        assert result.exit == 0 or b"could not be started" in result.stderr
        sandbox.run(["find", "/tmp", "-type", "f", "-delete"], deadline_s=LONG_S)
        assert bash.run("echo alive", deadline_s=LONG_S).stdout == b"alive\n"


def test_a_long_command_and_a_long_output(bash):
    text = "x" * 150_000
    result = bash.run(f"echo {text} | wc -c; yes | head -c 1000000", deadline_s=LONG_S)
    assert result.stdout.startswith(b"150001\n")
    assert result.truncated


def test_a_deadline_costs_the_command_and_not_the_shell(bash):
    say(bash, "X=5; cd /tmp; sleep 600 & ")
    time.sleep(0.05)  # what is as old as the command, to a hundredth of a second, counts as started by it
    result = bash.run("setsid sleep 601 & (sleep 602; echo no)", deadline_s=1.0)
    assert result.killed_by is KilledBy.DEADLINE
    assert result.note == ""
    say(bash, "true")  # bash tells of the killed job once
    assert say(bash, "echo $X; pwd; ps -C sleep -o args= | grep 60") == "5\n/tmp\nsleep 600\n"


def test_a_shell_that_does_not_stop_is_replaced_with_its_state(bash):
    say(bash, "X=5; cd /tmp; f() { echo f$X; }")
    result = bash.run("X=6; while :; do :; done", deadline_s=1.0)
    assert result.killed_by is KilledBy.DEADLINE
    assert "a new one has the working directory" in result.note
    assert say(bash, "f; pwd") == "f5\n/tmp\n"


@pytest.mark.parametrize("command", ["exit 3", "set -e; false", "exec true", "kill -9 $$"])
def test_a_command_that_ends_the_shell(bash, command):
    say(bash, "X=5")
    result = bash.run(f"echo before; {command}", deadline_s=LONG_S)
    assert result.stdout == b"before\n"
    assert result.killed_by is None
    assert "ended the shell" in result.note
    assert say(bash, "echo $X") == "5\n"


def test_python_keeps_its_names(python):
    assert say(python, "import math\ndef f(x):\n    return x + 1\nx = f(1)") == ""
    assert say(python, "x + math.floor(1.5)") == "3\n"
    assert say(python, "print('a'); x") == "a\n2\n"
    assert say(python, "None") == ""


def test_python_errors_are_shown(python):
    result = python.run("def f():\n    return 1 / 0\nf()", deadline_s=LONG_S)
    assert result.exit == 1
    assert "ZeroDivisionError" in result.text()
    assert "carry_out" not in result.text()
    assert "SyntaxError" in say(python, "if")
    assert python.run("import sys; sys.exit(4)", deadline_s=LONG_S).exit == 4
    assert say(python, "1 + 1") == "2\n"


def test_python_that_does_not_stop_loses_its_names(python):
    say(python, "x = 1")
    result = python.run("while True: pass", deadline_s=1.0)
    assert result.killed_by is KilledBy.DEADLINE
    assert "variables are lost" in result.note
    assert "NameError" in python.run("x", deadline_s=LONG_S).text()


def test_python_survives_a_child_that_does_not_stop(python):
    say(python, "import subprocess; x = 1")
    result = python.run("subprocess.run(['sleep', '600'])", deadline_s=1.0)
    assert result.killed_by is KilledBy.DEADLINE
    assert say(python, "x") == "1\n"


def test_a_nul_byte_is_refused(bash):
    with pytest.raises(ConfigError, match="NUL"):
        bash.run("a\0b", deadline_s=1)


@pytest.mark.parametrize("shell", ["bash", "python"])
def test_a_closed_sandbox_gives_no_session(backend, shell):
    sandbox = backend.open()
    sandbox.close()
    sandbox.close()
    with pytest.raises(EnvError, match="closed"):
        sandbox.session(shell)
