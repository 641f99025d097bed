"""What is Docker's own: images that cannot change, containers kept warm, and what it says when something is missing."""

import builtins
import threading
import time

import pytest

from turngate.errors import ConfigError, DataError, EnvError, MissingExtra
from turngate.sandbox import KilledBy, ResourceLimits, SandboxLost, open_backend
from turngate.sandbox.docker import LABEL, _check_engine

LONG_S = 60.0


def containers(backend):
    labels = {"label": f"{LABEL}={backend.run_id}"}
    return len(backend._client.containers.list(all=True, filters=labels, ignore_removed=True))


def test_a_missing_package_is_named(monkeypatch):
    real = builtins.__import__

    def fail(name, *rest):
        if name == "docker":
            raise ImportError(name)
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", fail)
    with pytest.raises(MissingExtra, match=r"turngate\[docker\]"):
        open_backend("docker", image="sha256:" + "0" * 64)


def test_a_missing_daemon_is_named(tmp_path):
    with pytest.raises(ConfigError, match=r"apt-get install -y docker\.io"):
        open_backend("docker", image="sha256:" + "0" * 64, base_url=f"unix://{tmp_path}/none.sock")


@pytest.mark.parametrize(
    ("image", "problem"), [("debian:bookworm", "by its digest"), ("sha256:" + "0" * 64, "is not here")]
)
def test_an_image_must_be_here_and_unchangeable(docker_url, image, problem):
    with pytest.raises(ConfigError, match=problem):
        open_backend("docker", image=image, base_url=docker_url)


def test_an_archive_that_is_none(docker_url, tmp_path):
    (tmp_path / "root.tar").write_text("no archive")
    for name, problem in (("root.tar", "imported"), ("missing.tar", "no file"), (".", "is a folder; pack it")):
        for image in (tmp_path / name, str(tmp_path / name)):
            with pytest.raises(DataError, match=problem):
                open_backend("docker", image=image, base_url=docker_url)


def test_an_archive_may_be_named_by_a_plain_path(docker_url, root_file_system, monkeypatch):
    monkeypatch.chdir(root_file_system.parent)
    for image in (str(root_file_system), root_file_system.name, f"./{root_file_system.name}"):
        with open_backend("docker", image=image, shown={"/usr": "/usr"}, base_url=docker_url) as backend:
            assert backend._image.startswith("sha256:")


def test_warm_containers_are_given_out_once(docker_url, docker, root_file_system):
    shown = {"/usr": "/usr"}
    with open_backend(
        "docker", ResourceLimits(), image=docker._image, shown=shown, base_url=docker_url, warm=2
    ) as backend:
        ids = []
        for _ in range(4):
            with backend.open() as sandbox:
                ids.append(sandbox.container.id)
                assert sandbox.list() == ()
                sandbox.write("trace", "x")
        end_s = time.monotonic() + LONG_S
        while containers(backend) != 2 and time.monotonic() < end_s:
            time.sleep(0.05)
        assert len(set(ids)) == 4
        assert containers(backend) == 2
    with open_backend("docker", image=docker._image, base_url=docker_url) as backend:
        assert containers(backend) == 0


def test_containers_and_threads_are_gone_after_closing(docker):
    with docker.open() as sandbox:
        sandbox.session().run("sleep 600 &", deadline_s=LONG_S)
        assert containers(docker) >= 1
        before = containers(docker)
    assert containers(docker) == before - 1
    assert not [thread for thread in threading.enumerate() if "_pump" in thread.name and thread.is_alive()]


def test_memory_of_all_processes_together(docker_url, docker):
    limits = ResourceLimits(memory_bytes=64 << 20, disk_bytes=8 << 20)
    shown = {"/usr": "/usr"}
    with (
        open_backend("docker", limits, image=docker._image, shown=shown, base_url=docker_url) as backend,
        backend.open() as sandbox,
    ):
        result = sandbox.run(["python3", "-c", "x = bytearray(300 << 20)"], deadline_s=LONG_S)
        assert (result.exit, result.killed_by) == (137, KilledBy.MEMORY)
        assert sandbox.run(["echo", "alive"], deadline_s=LONG_S).stdout == b"alive\n"


@pytest.mark.parametrize("acted", [True, False])
def test_a_container_that_is_gone_is_the_doing_of_what_ran_in_it(docker, acted):
    sandbox = docker.open()
    if acted:
        sandbox.run(["true"], deadline_s=LONG_S)
    sandbox.container.container.remove(force=True)
    with pytest.raises(EnvError) as caught:
        sandbox.run(["true"], deadline_s=LONG_S)
    assert isinstance(caught.value, SandboxLost) is acted
    sandbox.close()


@pytest.mark.parametrize(
    "answer",
    [
        {"Rootless": True},
        {"SecurityOptions": ["name=seccomp", "name=rootless"]},
        {"Components": [{"Name": "Podman Engine"}]},
    ],
)
def test_a_daemon_whose_containers_would_be_weaker_is_refused(answer):
    class Client:
        def info(self):
            return answer

        version = info

    with pytest.raises(ConfigError, match="DOCKER_HOST"):
        _check_engine(Client())
