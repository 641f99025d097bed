"""A run's folder and the store that it is kept in, as far as the store is fsspec's dictionary of this process.

1. What was committed is what another machine fetches; what a process wrote after that is not.
2. A process that dies at any request leaves the state before or the state after, and the next one goes on from it.
3. Of two writers one is refused: the second while the first shows a heartbeat, else the first at its next commit.
4. A store that does not answer changes nothing for the run; what was not uploaded is named at the end.
5. An object that was changed or removed is refused by name.
"""

import sqlite3
import uuid
from collections.abc import Callable, Mapping
from itertools import count
from pathlib import Path

import pytest

from tests.helpers.s3_server import contents
from turngate.errors import ConfigError, RunError, StoreError
from turngate.store.folder import RunFolder
from turngate.store.remote import run_mirror, transfer
from turngate.store.remote.manifest import OBJECTS, Manifest, newest_manifest
from turngate.store.remote.object_store import ObjectStore
from turngate.store.remote.run_copy import open_copy
from turngate.store.remote.run_mirror import RunMirror

pytest.importorskip("fsspec")
FIRST = {"config.toml": b"seed = 0\n", "metrics.jsonl": b"1\n", "checkpoints/step=000001/state.pt": b"one"}
SECOND = {"config.toml": b"seed = 0\n", "metrics.jsonl": b"1\n2\n", "checkpoints/step=000002/state.pt": b"two"}
CALLS = ("list_names", "read", "write", "create", "delete")


@pytest.fixture
def address() -> str:
    return f"memory://{uuid.uuid4().hex}/runs/lock"


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("SILENCE_S", "FIRST_RETRY_S", "STOP_S", "END_S"):
        monkeypatch.setattr(run_mirror, name, 0.02)
    monkeypatch.setattr(run_mirror, "HEARTBEAT_S", 60.0)


def put(folder: Path, files: Mapping[str, bytes]) -> None:
    """Make the folder of a run have these files alone."""
    for path in RunFolder(folder).lasting_files():
        path.unlink()
    for name, data in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)


def files_in(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in RunFolder(folder).lasting_files()}


def mirror_in(folder: Path, address: str, lines: list[str] | None = None) -> RunMirror:
    return RunMirror(address, folder, ([] if lines is None else lines).append)


def commit(folder: Path, address: str, files: Mapping[str, bytes]) -> None:
    """A process that goes on with a run, makes these files, and ends."""
    mirror = mirror_in(folder, address)
    mirror.fetch()
    with mirror.claim():
        put(folder, files)


def fetched(address: str, folder: Path) -> dict[str, bytes]:
    mirror_in(folder, address).fetch()
    return files_in(folder)


def test_another_machine_has_what_was_committed(address: str, tmp_path: Path) -> None:
    """Without locks, files under temporary names, and what is written at this moment. A folder that comes from the
    newest state may be ahead of it and stays as it is; one that comes from an older state is kept beside it."""
    here, there, lines = tmp_path / "here" / "lock", tmp_path / "there" / "lock", list[str]()
    passing = {".in_use": b"", "model/.x.tmp": b"", "checkpoints/writing-2/state.pt": b"", "model.old/a": b""}
    commit(here, address, {**FIRST, **passing, "empty": b""})
    assert fetched(address, there) == {**FIRST, "empty": b""}
    put(here, SECOND)
    assert fetched(address, here) == SECOND
    commit(there, address, SECOND)
    put(here, {**FIRST, "never_uploaded": b""})
    mirror_in(here, address, lines).fetch()
    assert files_in(here) == SECOND
    assert files_in(here.with_name("lock.older-1")) == {**FIRST, "never_uploaded": b""}
    assert lines[-1] == f"{here} comes from an older state and was kept as lock.older-1"
    assert len(contents(ObjectStore(address), OBJECTS)) == len(set(SECOND.values()))


class Dies(BaseException):
    """What a kill is to a process."""


def dying_after(calls: int, monkeypatch: pytest.MonkeyPatch, error: type[BaseException] = Dies) -> list[str]:
    """From now on the store gets so many requests; of objects that are written together all but the last arrive. The
    list has the request that failed."""
    left, failed = [calls], list[str]()
    for name in CALLS:
        real = getattr(ObjectStore, name)

        def call(store: ObjectStore, *given: object, name: str = name, real: Callable[..., object] = real) -> object:
            left[0] -= 1
            if left[0] >= 0:
                return real(store, *given)
            if not failed and name == "write":
                real(store, dict(list(given[0].items())[:-1]))  # type: ignore[attr-defined]
            failed.append(name)
            raise error

        monkeypatch.setattr(ObjectStore, name, call)
    return failed


def test_a_process_that_dies_at_any_request_leaves_a_whole_state(
    address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Here requests end with the process, also those of the heartbeat and the last commit."""
    where = set[str]()
    for calls in range(100):
        at = f"{address}{calls}"
        here = tmp_path / str(calls) / "lock"
        commit(here, at, FIRST)
        with monkeypatch.context() as dying:
            failed = dying_after(calls, dying)
            try:
                commit(here, at, SECOND)
            except Dies:
                where |= {failed[0]}
            else:
                break
        elsewhere = here.with_name("elsewhere")
        assert fetched(at, elsewhere) in (FIRST, SECOND), f"after {calls} requests"
        with open_copy(at, tmp_path / "copies", weights=True) as copy:
            assert files_in(copy) == files_in(elsewhere)
        assert fetched(at, here) in (FIRST, SECOND)  # as far as it came by itself
        commit(elsewhere, at, SECOND)
        assert len(contents(ObjectStore(at), OBJECTS)) == len(set(SECOND.values()))
        assert fetched(at, tmp_path / "last" / str(calls)) == SECOND
    assert where == {*CALLS}


def test_a_store_that_fails_at_any_request_loses_nothing(
    address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It answers again when the same command is given."""
    refused = set[type[Exception]]()
    for calls in range(100):
        at, here = f"{address}{calls}", tmp_path / str(calls) / "lock"
        commit(here, at, FIRST)
        with monkeypatch.context() as failing:
            failed = dying_after(calls, failing, ConnectionError)
            try:
                commit(here, at, SECOND)
            except (ConfigError, RunError) as error:
                refused |= {type(error)}
        if not failed:
            break
        assert files_in(here) in (FIRST, SECOND)
        commit(here, at, SECOND)
        assert fetched(at, here.with_name("elsewhere")) == SECOND
    assert {one.__name__ for one in refused} == {"ConfigError", "RunError"}


def test_a_run_goes_on_while_the_store_does_not_answer(
    address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here, lines = tmp_path / "lock", list[str]()
    mirror = mirror_in(here, address, lines)
    mirror.fetch()
    with mirror.claim():
        put(here, FIRST)
        with monkeypatch.context() as failing:
            dying_after(0, failing, ConnectionError)
            for _ in range(3):
                mirror.commit()
        monkeypatch.setattr(mirror, "_retry_at_s", 0.0)
        mirror.commit()
    lost = f"{address} does not answer, the run goes on in {here}: ConnectionError"
    assert lines[0] == lost
    assert lines[-1] == f"{address} answers again: everything is uploaded"
    assert fetched(address, tmp_path / "there") == FIRST

    def last_commit() -> None:
        with mirror.claim():
            put(here, SECOND)
            dying_after(0, monkeypatch, ConnectionError)

    with pytest.raises(RunError, match=f"it lies in '{here}', and the same command uploads it"):
        last_commit()
    monkeypatch.undo()
    assert files_in(here) == SECOND


def test_of_two_writers_one_is_refused(address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one, other, third = (mirror_in(tmp_path / name / "lock", address) for name in ("one", "other", "third"))
    one.fetch()
    third.fetch()

    def first_writer() -> None:
        with one.claim():
            with pytest.raises(ConfigError, match=f"^'{address}' was changed by another process just now; wait until"):
                third.claim().__enter__()
            put(one.run.path, FIRST)
            one.commit()
            with monkeypatch.context() as beating:
                beating.setattr(run_mirror, "SILENCE_S", 5.0)
                real, beats = ObjectStore.read, count(1)
                beating.setattr(ObjectStore, "read", lambda store, names: one._beat(next(beats)) or real(store, names))
                with pytest.raises(ConfigError, match=rf"^process \d+ on .* is working on '{address}'; wait until it"):
                    other.fetch()
            other.fetch()  # the first has become silent
            with other.claim():
                put(other.run.path, SECOND)
            put(one.run.path, {**FIRST, "more": b""})
            one.commit()

    with pytest.raises(RunError) as lost:
        first_writer()
    assert str(lost.value) == (
        f"'{address}' was changed by another process while this process worked on it; what was made here lies in "
        f"'{one.run.path}'; the same command goes on from what stands there now"
    )
    assert fetched(address, tmp_path / "there") == SECOND
    assert files_in(one.run.path) == {**FIRST, "more": b""}


def test_a_commit_between_another_ones_look_and_its_manifest_is_noticed(
    address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where the other has gone on for so long that the name of the manifest is free again."""
    commit(tmp_path / "first" / "lock", address, FIRST)
    one, other = (mirror_in(tmp_path / name / "lock", address) for name in ("one", "other"))
    one.fetch()
    real = ObjectStore.create

    def late(store: ObjectStore, name: str, data: bytes) -> bool:
        monkeypatch.setattr(ObjectStore, "create", real)
        other.fetch()
        with other.claim():
            for number in range(3):
                put(other.run.path, {**SECOND, "n": bytes([number])})
                other.commit()
        return real(store, name, data)

    def slow_writer() -> None:
        with one.claim():
            put(one.run.path, {"metrics.jsonl": b"lost"})
            monkeypatch.setattr(ObjectStore, "create", late)
            one.commit()

    with pytest.raises(RunError, match="was changed by"):
        slow_writer()
    assert fetched(address, tmp_path / "there") == {**SECOND, "n": b"\x02"}


@pytest.mark.parametrize("damage", ["changed", "removed"])
def test_a_damaged_object_is_refused_by_name(address: str, tmp_path: Path, damage: str) -> None:
    commit(tmp_path / "lock", address, FIRST)
    store = ObjectStore(address)
    (part,) = newest_manifest(store).files["metrics.jsonl"].parts
    if damage == "changed":
        store.write({f"{OBJECTS}/{part}": b"3\n"})
    else:
        store.delete([f"{OBJECTS}/{part}"])
    with pytest.raises(StoreError, match=f"^'{address}/objects/{part}', which is part of 'metrics.jsonl', is"):
        fetched(address, tmp_path / "there")
    with (
        pytest.raises(StoreError, match=r"which is part of 'metrics\.jsonl', is"),
        open_copy(address, tmp_path / "copies", weights=False),
    ):
        pass
    assert files_in(tmp_path / "there") == {}


def test_a_manifest_that_says_anything_else_is_refused_by_name(address: str, tmp_path: Path) -> None:
    store = ObjectStore(address)
    good = Manifest(generation=1, commit="a", writer="", files={}).to_bytes()
    outside = good.replace(b'"files": {}', b'"files": {"../x": {"size": 0, "parts": ["0"]}}')
    for data in (b"", b"[]", b"{", good[:-9], outside, good.replace(b"{}", b"[1]")):
        store.write({"manifests/00000001.json": data})
        with pytest.raises(StoreError, match=f"^'{address}/manifests/00000001.json' is damaged"):
            fetched(address, tmp_path / "there")


def test_a_file_that_grows_is_uploaded_from_its_last_part_on(
    address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transfer, "PART_BYTES", 4)
    real, sent = ObjectStore.write, list[bytes]()

    def write(store: ObjectStore, objects: Mapping[str, bytes]) -> None:
        sent.extend(data for name, data in objects.items() if name.startswith(OBJECTS))
        real(store, objects)

    monkeypatch.setattr(ObjectStore, "write", write)
    mirror = mirror_in(tmp_path / "lock", address)
    mirror.fetch()
    with mirror.claim():
        for data in (b"aaaabbbb", b"aaaabbbbcc", b"aaaabbbbccdde", b"aaaabbbbccdde"):
            put(tmp_path / "lock", {"metrics.jsonl": data})
            mirror.commit()
    assert sent == [b"aaaa", b"bbbb", b"cc", b"ccdd", b"e"]
    assert fetched(address, tmp_path / "there") == {"metrics.jsonl": b"aaaabbbbccdde"}


def test_a_database_is_uploaded_without_the_transaction_that_is_open(address: str, tmp_path: Path) -> None:
    here, mirror = tmp_path / "lock", mirror_in(tmp_path / "lock", address)
    mirror.fetch()
    with mirror.claim():
        here.mkdir(exist_ok=True)
        with sqlite3.connect(here / "verdicts.sqlite") as connection:
            connection.execute("CREATE TABLE verdicts (key INTEGER)")
        connection.execute("INSERT INTO verdicts VALUES (1)")
        mirror.commit()
        connection.close()
    fetched(address, tmp_path / "there")
    with sqlite3.connect(tmp_path / "there" / "verdicts.sqlite") as copy:
        assert copy.execute("SELECT * FROM verdicts").fetchall() == []


def test_a_copy_has_what_a_command_reads(address: str, tmp_path: Path) -> None:
    """Weights where they are asked for, files that others removed no more, what was written into the copy still; also
    under the address of a folder in the run."""
    copies, here = tmp_path / "copies", tmp_path / "lock"
    commit(here, address, FIRST)
    read = list[dict[str, bytes]]()
    for weights, files in ((False, FIRST), (True, FIRST), (False, FIRST), (False, SECOND)):
        commit(here, address, files)
        with open_copy(address, copies, weights=weights) as copy:
            read.append(files_in(copy))
            (copy / "report").mkdir(exist_ok=True)
            (copy / "report" / "curves.png").write_bytes(b"")
    curves = {"report/curves.png": b""}
    light = {name: data for name, data in FIRST.items() if not name.endswith(".pt")}
    second = {name: data for name, data in SECOND.items() if not name.endswith(".pt")}
    assert read == [light, FIRST | curves, FIRST | curves, second | curves]
    with open_copy(f"{address}/checkpoints/step=000002", copies, weights=True) as folder:
        assert files_in(folder) == {"state.pt": b"two"}
    with (
        pytest.raises(ConfigError, match=f"^no run is stored at '{address}2'"),
        open_copy(f"{address}2", copies, weights=False),
    ):
        pass
