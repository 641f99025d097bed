"""The back ends that the tests share."""

import shutil

import pytest

from turngate.sandbox import ResourceLimits, open_backend

SMALL = ResourceLimits(memory_bytes=512 << 20, disk_bytes=32 << 20, files=2000, processes=64, output_bytes=16 << 10)


@pytest.fixture(scope="session")
def bubblewrap():
    if shutil.which("bwrap") is None:
        pytest.skip("bubblewrap is not installed")
    with open_backend("bubblewrap", SMALL) as backend:
        yield backend


@pytest.fixture(scope="session")
def docker(docker_url, root_file_system):
    shown = {"/usr": "/usr", "/etc/alternatives": "/etc/alternatives"}
    with open_backend("docker", SMALL, image=root_file_system, shown=shown, base_url=docker_url) as backend:
        yield backend


@pytest.fixture(scope="session", params=["bubblewrap", "docker"])
def backend(request):
    return request.getfixturevalue(request.param)


@pytest.fixture(scope="module")
def shared(backend):
    """One sandbox for tests that leave nothing in each other's way: a container takes its time to start."""
    with backend.open() as sandbox:
        yield sandbox


@pytest.fixture
def sandbox(backend):
    with backend.open() as sandbox:
        yield sandbox
