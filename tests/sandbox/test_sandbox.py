"""What every back end promises: results, files, snapshots, forks, and nothing left behind."""

import os
import signal
from hashlib import blake2b

import pytest

from turngate.errors import ConfigError, DataError, EnvError, UnknownName
from turngate.sandbox import Entry, ResourceLimits, SandboxFileError, open_backend

LONG_S = 60.0  # the machine may be busy


def shell(sandbox, text, **more):
    return sandbox.run(["bash", "-c", text], **({"deadline_s": LONG_S} | more))


def test_a_result_has_both_streams_and_the_exit_status(sandbox):
    result = shell(sandbox, "echo out; echo err >&2; exit 3")
    assert (result.exit, result.stdout, result.stderr) == (3, b"out\n", b"err\n")
    assert (result.truncated, result.killed_by, result.text()) == (False, None, "out\nerr\n")


def test_a_signal_becomes_an_exit_status(sandbox):
    result = shell(sandbox, "kill -SEGV $$")
    assert (result.exit, result.killed_by) == (128 + signal.SIGSEGV, None)


@pytest.mark.parametrize(
    ("program", "code"),
    [("no-such-program", 127), ("./missing", 127), ("./plain", 126), ("/work", 126), ("/usr/bin/env", 0)],
)
def test_a_program_that_cannot_be_started_is_a_result(any_backend, program, code):
    with any_backend.open() as sandbox:
        sandbox.write("plain", "#!/bin/sh\n")
        folder = sandbox.inside(program) if any_backend.name == "local" and program == "/work" else program
        result = sandbox.run([folder], deadline_s=LONG_S)
        assert result.exit == code
        assert code == 0 or folder.encode() in result.stdout + result.stderr


def test_input_environment_and_folder(sandbox):
    sandbox.write("sub/file", "")
    result = shell(
        sandbox, "cat; echo $COLOUR $HOME; pwd", stdin=b"x" * 200_000 + b"\n", cwd="sub", env={"COLOUR": "red"}
    )
    assert result.stdout.endswith(b"x\nred /home/agent\n/work/sub\n")
    assert result.truncated


def test_a_folder_that_is_not_there(sandbox):
    with pytest.raises(SandboxFileError, match="/work/missing"):
        shell(sandbox, "true", cwd="missing")


@pytest.mark.parametrize(
    ("argv", "deadline_s"),
    [("true", 1.0), ([], 1.0), (["a\0b"], 1.0), (["\ud800"], 1.0), (["true"], 0.0), (["true"], float("nan"))],
)
def test_a_command_that_cannot_be_meant(sandbox, argv, deadline_s):
    with pytest.raises(ConfigError):
        sandbox.run(argv, deadline_s=deadline_s)


@pytest.mark.parametrize("words", [["x" * 300_000], ["x"] * 100_000, ["é" * 70_000]])
def test_a_command_that_is_too_long_is_a_result_as_in_a_shell(any_backend, words):
    with any_backend.open() as sandbox:
        result = sandbox.run(["echo", *words], deadline_s=LONG_S)
        assert (result.exit, result.stdout) == (126, b"")
        assert result.stderr.startswith(b"echo: Argument list too long")


@pytest.mark.parametrize("word", ["x" * 119_000, "\x01" * 119_000, "é" * 59_000, "\U0001f600" * 29_000])
def test_a_command_of_nearly_that_length_runs(sandbox, word):
    result = sandbox.run(["printf", "%s", word], deadline_s=LONG_S)
    assert (result.exit, result.stdout[:1000]) == (0, word.encode()[:1000])


def test_paths_of_any_length_are_answered(sandbox):
    for use in (sandbox.read, sandbox.list, sandbox.tree, lambda path: sandbox.write(path, "")):
        for path in ("x" * 400_000, "x/" * 200_000 + "x"):
            with pytest.raises(SandboxFileError):
                use(path)
    assert shell(sandbox, "echo alive").stdout == b"alive\n"


def test_the_beginning_and_the_end_of_an_output_are_kept(sandbox):
    kept = sandbox.limits.output_bytes
    result = shell(sandbox, f"printf 'a%.0s' $(seq {kept}); printf 'b%.0s' $(seq {kept})")
    assert result.stdout == b"a" * (kept // 2) + b"\n[%d bytes left out]\n" % kept + b"b" * (kept // 2)


def test_bytes_that_are_no_text(sandbox):
    result = shell(sandbox, r"printf '\xff\x00'")
    assert result.stdout == b"\xff\x00"
    assert result.text() == "\ufffd\0"


def test_files_come_and_go(sandbox):
    sandbox.write("folder/deep/note.txt", "grüße")
    sandbox.write("/tmp/run.sh", b"#!/bin/bash\necho ran\n", executable=True)
    sandbox.write("/home/agent/.profile", "x")
    shell(sandbox, "ln -s note.txt folder/deep/link")
    assert sandbox.read("folder/deep/note.txt") == "grüße".encode()
    assert sandbox.read("folder/deep/link") == "grüße".encode()
    assert shell(sandbox, "/tmp/run.sh; cat folder/deep/note.txt").stdout == "ran\ngrüße".encode()
    assert sandbox.list() == (Entry(name="folder", kind="folder", size_bytes=sandbox.list()[0].size_bytes),)
    assert [(entry.name, entry.kind) for entry in sandbox.list("folder/deep")] == [
        ("link", "link"),
        ("note.txt", "file"),
    ]
    sandbox.write("folder/deep/note.txt", "")
    assert sandbox.read("/work/folder/deep/note.txt") == b""


def test_files_that_cannot_be_had(sandbox):
    sandbox.write("large", bytes(1000))
    for path, problem in (("missing", "missing"), ("/etc/passwd", "outside"), ("/workshop/x", "outside")):
        with pytest.raises(SandboxFileError, match=problem):
            sandbox.read(path)
    with pytest.raises(SandboxFileError, match="more than 999 bytes"):
        sandbox.read("large", max_bytes=999)
    with pytest.raises(SandboxFileError, match="large"):
        sandbox.write("large/below", "")
    with pytest.raises(SandboxFileError, match="cannot be written"):
        sandbox.write("too-much", bytes(sandbox.limits.disk_bytes + 1))


def test_work_begins_with_a_copy_of_the_folder(backend, tmp_path):
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "tool").write_text("#!/bin/bash\necho tool\n")
    (tmp_path / "sub" / "tool").chmod(0o755)
    os.link(tmp_path / "sub" / "tool", tmp_path / "twin")
    (tmp_path / "link").symlink_to("sub/tool")
    (tmp_path / "locked").write_text("x")
    (tmp_path / "locked").chmod(0o600)
    with backend.open(tmp_path) as sandbox:
        result = shell(sandbox, "./link && cat locked && stat -c %h twin && echo changed > sub/tool && cat sub/tool")
        assert result.text() == "tool\nx2\nchanged\n"
    assert (tmp_path / "sub" / "tool").read_text() == "#!/bin/bash\necho tool\n"


def test_a_folder_that_cannot_be_copied(backend, tmp_path):
    with pytest.raises(DataError, match="no folder"):
        backend.open(tmp_path / "missing")
    deep = tmp_path
    for _ in range(205):
        deep = deep / "d"
    deep.mkdir(parents=True)
    with pytest.raises(DataError, match="deeper"):
        backend.open(tmp_path)


def test_a_fork_is_exact_and_independent(sandbox):
    text = "mkdir old gone; echo 1 > old/a; echo 2 > gone/b; ln -s a old/link; chmod 640 old/a"
    assert shell(sandbox, text + "; echo t > /tmp/t; echo h > ~/h; chmod 1770 /work /tmp ~; chmod g+s old").exit == 0
    look = "cd /; find work tmp home/agent -printf '%p %y %m %l\\n' | sort; cat work/old/a"
    with sandbox.fork() as branch:
        assert shell(branch, look).text() == shell(sandbox, look).text()
        shell(branch, "rm -r old gone; mkdir gone; echo 3 > new")
        shell(sandbox, "echo 4 > old/a")
        assert shell(branch, "find . | sort").stdout == b".\n./gone\n./new\n"
        assert sandbox.read("old/a") == b"4\n"
        with branch.fork() as leaf:
            assert shell(leaf, "find . | sort; cat new /tmp/t ~/h").stdout == b".\n./gone\n./new\n3\nt\nh\n"


def test_a_snapshot_stays_as_it_was(backend, tmp_path):
    (tmp_path / "a").write_text("1")
    kept = backend.keep(tmp_path)
    (tmp_path / "a").write_text("changed on the host")
    with backend.open(kept) as sandbox:
        sandbox.write("a", "2")
        second = sandbox.snapshot()
        sandbox.write("a", "3")
        (tmp_path / "a").unlink()
    for snapshot, content in ((kept, b"1"), (second, b"2"), (second, b"2")):
        with backend.open(snapshot) as sandbox:
            assert sandbox.read("a") == content


def test_closing_ends_everything_and_can_be_repeated(backend):
    sandbox = backend.open()
    session = sandbox.session()
    session.run("sleep 600 & sleep 600 &", deadline_s=LONG_S)
    sandbox.close()
    sandbox.close()
    for use in (lambda: shell(sandbox, "true"), lambda: sandbox.read("x"), lambda: session.run("true", deadline_s=1)):
        with pytest.raises(EnvError, match="closed"):
            use()


def test_an_unknown_back_end_is_named():
    with pytest.raises(UnknownName, match="bubblewrap"):
        open_backend("bubblewarp")


@pytest.mark.parametrize("name", ["memory_bytes", "files", "output_bytes"])
def test_limits_are_at_least_one(name):
    with pytest.raises(ConfigError, match=name):
        ResourceLimits(**{name: 0})


# --- digests ----------------------------------------------------------------------------------------------------------


@pytest.fixture(params=["bubblewrap", "docker", "local"])
def any_backend(request):
    if request.param != "local":
        yield request.getfixturevalue(request.param)
        return
    with open_backend("local", trusted=True) as backend:
        yield backend


@pytest.fixture
def any_sandbox(any_backend):
    with any_backend.open() as sandbox:
        yield sandbox


def digest(content):
    return blake2b(content, digest_size=16).hexdigest()


def test_a_tree_has_a_digest_for_each_file(any_sandbox):
    any_sandbox.write("package/deep/a.py", "x = 1\n")
    any_sandbox.write("run.sh", "#!/bin/sh\n", executable=True)
    any_sandbox.write(".hidden", b"\xff\0")
    shell(
        any_sandbox,
        "mkdir empty package/__pycache__ .git; echo x > package/__pycache__/a.pyc; echo x > .git/HEAD; "
        "mkfifo pipe; ln -s /etc loop; ln -s missing nowhere; echo y > package/.git; ln run.sh twin; "
        r"touch $'odd\xff\nname'; chmod 640 .hidden",
    )
    assert any_sandbox.tree() == {
        ".hidden": "f:" + digest(b"\xff\0"),
        "loop": "l:" + digest(b"/etc"),
        "nowhere": "l:" + digest(b"missing"),
        "odd\udcff\nname": "f:" + digest(b""),
        "package/.git": "f:" + digest(b"y\n"),
        "package/deep/a.py": "f:" + digest(b"x = 1\n"),
        "pipe": "o:",
        "run.sh": "x:" + digest(b"#!/bin/sh\n"),
        "twin": "x:" + digest(b"#!/bin/sh\n"),
    }
    assert any_sandbox.tree("package") == {".git": "f:" + digest(b"y\n"), "deep/a.py": "f:" + digest(b"x = 1\n")}
    assert any_sandbox.tree("empty") == {}


def test_a_tree_changes_with_its_files(any_sandbox):
    any_sandbox.write("a", "1")
    any_sandbox.write("b", "1")
    before = any_sandbox.tree()
    assert any_sandbox.tree() == before
    shell(any_sandbox, "touch a; echo z > /tmp/z")
    assert any_sandbox.tree() == before
    any_sandbox.write("a", "2")
    assert any_sandbox.tree() == before | {"a": "f:" + digest(b"2")}
    shell(any_sandbox, "chmod +x b; rm a")
    assert any_sandbox.tree() == {"b": "x:" + digest(b"1")}
    with any_sandbox.fork() as branch:
        assert branch.tree() == any_sandbox.tree()


def test_a_tree_that_cannot_be_had(any_sandbox):
    any_sandbox.write("file", "")
    shell(any_sandbox, "ln -s /etc out")
    for path in ("missing", "file", "out", "/etc", "../../etc"):
        with pytest.raises(SandboxFileError):
            any_sandbox.tree(path)


def test_a_tree_larger_than_one_message(any_sandbox):
    shell(any_sandbox, f"mkdir {'d' * 200}; cd {'d' * 200}; touch $(seq -f {'n' * 190}%g 1 900)")
    tree = any_sandbox.tree()
    assert len(tree) == 900
    assert set(tree.values()) == {"f:" + digest(b"")}


# --- the state of a shell ---------------------------------------------------------------------------------------------


def test_the_state_of_a_shell_goes_along_with_a_fork(any_sandbox):
    with any_sandbox.session() as session:
        assert session.state == b""
        session.run("mkdir 'a b'; cd 'a b'; X='one two'; export Y=3; f() { echo $X-$Y; }; alias g=f", deadline_s=LONG_S)
        state = session.state
        session.run("cd ..; X=changed; unset -f f", deadline_s=LONG_S)
    with any_sandbox.fork() as branch, branch.session("bash", state=state) as session:
        result = session.run("f; g; bash -c 'echo $Y'; pwd -P > here; export -n Y; X=4", deadline_s=LONG_S)
        assert (result.stdout, result.note) == (b"one two-3\none two-3\n3\n", "")
        assert branch.read("a b/here").endswith(b"/work/a b\n")
        assert session.state != state
    with pytest.raises(SandboxFileError):
        any_sandbox.read("a b/here")


def test_a_python_has_no_state(any_sandbox):
    with pytest.raises(ConfigError, match="bash"):
        any_sandbox.session("python", state=b"x = 1")
    with any_sandbox.session("python") as session:
        session.run("x = 1", deadline_s=LONG_S)
        assert session.state == b""
