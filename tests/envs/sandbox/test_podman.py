"""Podman in Docker's place: the central promises of every back end, how files are bounded, and nothing left behind."""

import glob
import os
import shutil
import subprocess
import tarfile
import tempfile
import time
from contextlib import suppress
from pathlib import Path

import pytest

from tests.envs.sandbox import test_docker, test_escapes, test_sandbox, test_session
from tests.envs.sandbox.conftest import SMALL
from turngate.envs.sandbox import open_backend
from turngate.envs.sandbox.docker import LABEL, _find_engine
from turngate.errors import ConfigError, EnvError

LONG_S = 60.0
SHOWN = {"/usr": "/usr", "/etc/alternatives": "/etc/alternatives"}

# Locks of its own, away from those of the machine's podman; and soon after a command nothing watches it any more.
SETTINGS = '[engine]\nlock_type = "file"\nevents_logger = "none"\ncgroup_manager = "cgroupfs"\nexit_command_delay = 2\n'


@pytest.fixture(scope="module")
def docker_url():
    """A service of our own with folders of its own, which ends with the tests of this file."""
    if shutil.which("podman") is None or os.geteuid() != 0:
        pytest.skip("podman is not installed, or cannot be started here")
    with tempfile.TemporaryDirectory(prefix="turngate-podman-") as folder:
        Path(folder, "settings").write_text(SETTINGS)
        places = [f"--{name}={folder}/{name}" for name in ("root", "runroot", "tmpdir")]
        url, environment = f"unix://{folder}/podman.sock", os.environ | {"CONTAINERS_CONF": f"{folder}/settings"}
        podman = ["podman", *places, "--storage-driver=vfs"]
        with open(f"{folder}/log", "w") as log:
            command = [*podman, "system", "service", "--time=0", url]
            service = subprocess.Popen(command, stdout=log, stderr=log, env=environment, cwd=folder)
        try:
            wait_until(lambda: os.path.exists(f"{folder}/podman.sock") or service.poll() is not None)
            assert service.poll() is None, Path(folder, "log").read_text()[-2000:]
            yield url
            wait_until(lambda: users(folder) == {service.pid})
        finally:
            service.terminate()
            service.wait(LONG_S)


@pytest.fixture(scope="module")
def backend(docker_url, root_file_system):
    with open_backend("docker", SMALL, image=root_file_system, shown=SHOWN, base_url=docker_url) as backend:
        yield backend


@pytest.fixture(scope="module")
def docker(backend):
    return backend


def wait_until(condition):
    end_s = time.monotonic() + LONG_S
    while not condition():
        assert time.monotonic() < end_s
        time.sleep(0.05)


def users(folder):
    """The processes that were started with a path below the folder."""
    found = set()
    for path in glob.glob("/proc/[0-9]*/cmdline"):
        with suppress(OSError):  # it has ended
            if f"{folder}/".encode() in Path(path).read_bytes():
                found.add(int(path.split("/")[2]))
    return found


def leftovers(backend, client):
    """How many containers and volumes there are of the back end, as another one's client sees it."""
    labels = {"label": f"{LABEL}={backend.run_id}"}
    return len(client.containers.list(all=True, filters=labels, ignore_removed=True)), len(
        client.volumes.list(filters=labels)
    )


# --- what every back end promises -------------------------------------------------------------------------------------

test_result = test_sandbox.test_a_result_has_both_streams_and_the_exit_status
test_input = test_sandbox.test_input_environment_and_folder
test_files = test_sandbox.test_files_come_and_go
test_full_disk = test_sandbox.test_files_that_cannot_be_had
test_fork = test_sandbox.test_a_fork_is_exact_and_independent
test_close = test_sandbox.test_closing_ends_everything_and_can_be_repeated
bash = test_session.bash
test_session_state = test_session.test_state_persists
test_session_deadline = test_session.test_a_deadline_costs_the_command_and_not_the_shell
test_attempt = test_escapes.test_attempt
test_links = test_escapes.test_links_do_not_lead_out
test_deadline = test_escapes.test_a_double_fork_does_not_outlive_the_command
test_network = test_escapes.test_a_server_of_the_host_cannot_be_reached
test_processes = test_escapes.test_the_number_of_processes_is_bounded
test_fork_bomb = test_escapes.test_a_fork_bomb_stays_small_and_ends
test_disk = test_escapes.test_the_disk_is_bounded_wherever_one_writes
test_file_number = test_escapes.test_the_number_of_files_is_bounded
test_output = test_escapes.test_an_output_flood_is_cut_and_does_not_fill_the_host
test_memory = test_docker.test_memory_of_all_processes_together
test_warm = test_docker.test_warm_containers_are_given_out_once


# --- what is podman's own ---------------------------------------------------------------------------------------------


def test_what_bounds_the_number_of_files_is_said(backend):
    assert backend.file_bound == "2000 files in all folders together, by the inodes of each memory volume"


def test_an_image_shows_nothing_of_its_own_in_the_folders(docker_url, tmp_path, root_file_system):
    shutil.copy(root_file_system, tmp_path / "root.tar")
    (tmp_path / "x").write_text("x")
    with tarfile.open(tmp_path / "root.tar", "a") as archive:
        archive.add(tmp_path / "x", "work/x")
    with (
        open_backend("docker", SMALL, image=tmp_path / "root.tar", shown=SHOWN, base_url=docker_url) as backend,
        backend.open() as sandbox,
    ):
        assert sandbox.list() == ()


def test_containers_volumes_and_files_are_gone_after_closing(docker_url, backend):
    other, client = (
        open_backend("docker", SMALL, image=backend._image, shown=SHOWN, base_url=docker_url),
        backend._client,
    )
    profile = Path(other._engine.filter)
    with other.open() as sandbox, sandbox.fork():
        assert leftovers(other, client) == (2, 8)
    assert leftovers(other, client) == (0, 0)
    other.open()
    assert profile.is_file()
    other.close()
    assert leftovers(other, client) == (0, 0)
    assert not profile.parent.exists()


def test_a_container_that_cannot_start_leaves_nothing(docker_url, backend):
    shown = {"/usr": "/no/such/folder"}
    with open_backend("docker", SMALL, image=backend._image, shown=shown, base_url=docker_url) as other:
        with pytest.raises(EnvError):
            other.open()
        assert leftovers(other, backend._client) == (0, 0)


def test_names_of_other_machines_are_not_shown(shared):
    assert shared.run(["cat", "/etc/hosts"], deadline_s=LONG_S).stdout == b"127.0.0.1 localhost\n::1 localhost\n"


@pytest.mark.parametrize("info", [{"Rootless": True}, {"SecurityOptions": ["name=seccomp", "name=rootless"]}])
def test_a_service_without_root_is_refused(info):
    class Client:
        def info(self):
            return info

    with pytest.raises(ConfigError, match="podman system service"):
        _find_engine(Client(), {})
