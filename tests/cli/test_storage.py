"""Runs that are kept in a store that speaks as S3 does, by ``turngate train CONFIG --folder s3://BUCKET/runs``.

1. A run that was killed with SIGKILL at any moment goes on by the same command in an empty folder, with the metrics,
   episodes and weights of a run that nobody killed and that was kept in a folder.
2. A server that goes away and comes back changes nothing; one that stays away is an error that says where the run lies.
3. Commands that look into a run read it by its address. A run that another process works on, and what cannot be used,
   is one line before any work.
"""

import os
import random
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from rich.console import Console

from tests.cli.small_run import write_config
from tests.helpers.command_line import turngate_at
from tests.helpers.forked_commands import Forks
from tests.helpers.s3_server import S3Server
from tests.run.test_cluster import same
from turngate.config.run_config import load
from turngate.errors import ConfigError
from turngate.run.job import Job
from turngate.sinks import SinkPart
from turngate.store.folder import RunFolder
from turngate.store.remote import run_mirror
from turngate.store.remote.manifest import NOTHING, Manifest, newest_manifest
from turngate.store.remote.object_store import ObjectStore

pytestmark = pytest.mark.component


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    """The run in a folder of its own."""
    folder = tmp_path_factory.mktemp("alone")
    job = Job(load(write_config(folder, steps=3), [f"--folder={folder}"]), Console(quiet=True))
    job.run()
    return job.folder


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TURNGATE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(run_mirror, "SILENCE_S", 1.0)
    return write_config(tmp_path, steps=3)


def run_in(folder: Path, address: str) -> RunFolder:
    """Where ``folder``, as the current one, has the run that is kept at an address."""
    return RunFolder(folder / "runs" / "s3" / address.removeprefix("s3://") / "lock")


def machine(folder: Path) -> Path:
    folder.mkdir()
    return folder


def manifest_of(address: str) -> Manifest:
    return newest_manifest(ObjectStore(f"{address}/lock"))


def test_a_run_that_was_killed_goes_on_elsewhere(
    alone: RunFolder, bucket: str, config: Path, tmp_path: Path, forked: Forks, capsys: pytest.CaptureFixture[str]
) -> None:
    """On a machine that has nothing; from there commands that read a run print the same by its address and its path."""
    chance, words = random.Random(), ["train", str(config), f"--folder={bucket}"]
    generation = chance.randint(1, 7)
    command = forked.start(*words, cwd=machine(tmp_path / "first"), env=dict(os.environ))
    while manifest_of(bucket).generation < generation and command.poll() is None:
        time.sleep(0.02)
    time.sleep(chance.uniform(0.0, 0.4))
    command.kill()
    assert command.wait(60.0) == -signal.SIGKILL, command.communicate()
    assert turngate_at(machine(tmp_path / "last"), *words) == 0
    assert f"did not close {bucket}/lock; listening for 1 s" in capsys.readouterr().out
    run, copy = run_in(tmp_path / "last", bucket), tmp_path / "cache" / "runs" / "s3" / bucket.removeprefix("s3://")
    same(alone, run)
    assert manifest_of(bucket).writer == ""
    for read in (("show",), ("credit", "--method=gigpo")):
        printed = []
        for place, name in ((f"{bucket}/lock", copy / "lock"), (run.path, run.path)):
            assert turngate_at(tmp_path, *read, place) == 0
            printed.append(capsys.readouterr().out.replace(str(name), "RUN"))
        assert printed[0] == printed[1]
    assert not [path for path in (copy / "lock").rglob("*") if path.suffix in (".pt", ".safetensors")]


class AwaySink(SinkPart):
    """Takes the server away in the first step, brings it back in the second, and takes it away in the third."""

    def open(self, opening: object) -> "AwaySink":
        return self

    def write(self, step: int, metrics: object) -> None:
        SERVERS[0].start() if step == 2 else SERVERS[0].stop()

    def close(self) -> None:
        """Nothing is open."""


SERVERS: list[S3Server] = []


@pytest.fixture
def leaving(s3: S3Server, monkeypatch: pytest.MonkeyPatch) -> Iterator[S3Server]:
    """The server, for ``AwaySink``. Requests to it fail as fast as they can."""
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    monkeypatch.setattr(run_mirror, "FIRST_RETRY_S", 0.1)
    monkeypatch.setattr(run_mirror, "END_S", 0.5)
    SERVERS.append(s3)
    yield s3
    SERVERS.clear()
    s3.stop()
    s3.start()


def test_a_server_that_goes_away(
    alone: RunFolder,
    bucket: str,
    leaving: S3Server,
    config: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The same command uploads what could not be uploaded at the end."""
    words = ["train", str(config), f"--folder={bucket}"]
    run = run_in(tmp_path, bucket)
    assert turngate_at(tmp_path, *words, f'--sink=[{{type = "{__name__}:AwaySink"}}]') == 1
    told = capsys.readouterr()
    away, back = f"{bucket}/lock does not answer, the run goes on in {run.path}: ", f"{bucket}/lock answers again: "
    assert away in told.out.partition(back)[0]
    assert away in told.out.partition(back)[2]
    assert told.err.startswith(f"RunError: not everything could be uploaded to '{bucket}/lock' (")
    assert told.err.endswith(f"; it lies in '{run.path}', and the same command uploads it\n")
    leaving.start()

    def made() -> set[str]:
        return {path.relative_to(run.path).as_posix() for path in run.lasting_files()}

    there = manifest_of(bucket).files.keys()
    assert "trajectories/step=000002/train.parquet" in there
    assert "trajectories/step=000003/train.parquet" in made() - there
    assert turngate_at(tmp_path, *words) == 0
    same(alone, run)
    assert manifest_of(bucket).files.keys() == made()


def test_what_cannot_be_used_is_one_line_before_any_work(
    bucket: str, config: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refused(*words: object) -> str:
        assert turngate_at(tmp_path, *words) == 2
        told = capsys.readouterr()
        assert told.out == "" or "listening" in told.out
        assert told.err.count("\n") == 1
        return told.err.removeprefix("error: ").strip()

    train = ("train", config)
    assert refused(*train, "--folder=s3://nowhere/runs") == (
        "'s3://nowhere/runs/lock' cannot be used: The specified bucket does not exist; make the bucket first"
    )
    assert refused(*train, "--folder=nothing://a").startswith("'nothing://a/lock' cannot be opened: Protocol not known")
    assert refused(*train, f"--folder={bucket}", "--jobs=2").startswith(
        f"--jobs 2 cannot be used with --folder {bucket}"
    )
    cluster = ("--on=127.0.0.1:1", '--learner.type="fsdp"')
    assert refused(*train, f"--folder={bucket}", *cluster).endswith("name a folder that all nodes see")
    assert refused("show", f"{bucket}/lock").startswith(f"no run is stored at '{bucket}/lock'")
    assert refused("view", bucket) == (
        f"turngate view takes no address: name a file or folder of this machine, not '{bucket}'"
    )
    assert refused("data", "export", f"{bucket}/lock", "--to=sft", f"--out={bucket}/x").startswith(
        "turngate data export takes no address"
    )
    with pytest.raises(ConfigError, match=f"^folder = '{bucket}': only turngate train takes an address"):
        Job(load(config, [f"--folder={bucket}"]), Console(quiet=True))
    with monkeypatch.context() as other:
        other.delenv("AWS_ACCESS_KEY_ID")
        other.setenv("AWS_EC2_METADATA_DISABLED", "true")
        told = refused(*train, f"--folder={bucket}")
        assert (
            told == f"'{bucket}/lock' cannot be used: ConnectionError: NoCredentialsError: Unable to locate credentials"
        )
    mirror = run_mirror.RunMirror(f"{bucket}/lock", tmp_path / "other", lambda line: None)
    monkeypatch.setattr(run_mirror, "HEARTBEAT_S", 0.1)
    with mirror.claim():
        assert refused(*train, f"--folder={bucket}").endswith(
            f" is working on '{bucket}/lock'; wait until it has ended, or choose another --name"
        )
    assert manifest_of(bucket) != NOTHING
    assert not (tmp_path / "runs").exists()
