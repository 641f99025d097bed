"""A Docker daemon and an image for it. The daemon is started here, with a folder of its own, if none answers."""

import io
import os
import shutil
import signal
import subprocess
import tarfile
import tempfile
import time
from pathlib import Path

import pytest

START_S = 60.0


@pytest.fixture(scope="session")
def docker_url():
    """The address of a daemon: the one that is named, or one of our own, which ends with the tests."""
    if url := os.environ.get("DOCKER_HOST"):
        yield url
        return
    if os.path.exists("/var/run/docker.sock"):
        yield "unix:///var/run/docker.sock"
        return
    if shutil.which("dockerd") is None or os.geteuid() != 0:
        pytest.skip("no Docker daemon answers, and none can be started here")
    with tempfile.TemporaryDirectory(prefix="turngate-docker-") as folder:
        url = f"unix://{folder}/docker.sock"
        places = ["--data-root", f"{folder}/data", "--exec-root", f"{folder}/run", "--pidfile", f"{folder}/pid"]
        with open(f"{folder}/log", "w") as log:
            command = ["dockerd", "--iptables=false", "--bridge=none", *places, "-H", url]
            daemon = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)
        try:
            end_s = time.monotonic() + START_S
            while not os.path.exists(f"{folder}/docker.sock"):
                if daemon.poll() is not None or time.monotonic() > end_s:
                    pytest.fail(f"dockerd did not start: {Path(f'{folder}/log').read_text()[-2000:]}")
                time.sleep(0.05)
            yield url
        finally:
            daemon.send_signal(signal.SIGTERM)
            daemon.wait(START_S)


@pytest.fixture(scope="session")
def root_file_system(tmp_path_factory):
    """The smallest image: links into /usr, which is shown from the host. No registry is asked for anything."""
    path = tmp_path_factory.mktemp("image") / "root.tar"
    with tarfile.open(path, "w") as archive:
        for name in ("bin", "sbin", "lib", "lib64"):
            link = tarfile.TarInfo(name)
            link.type, link.linkname = tarfile.SYMTYPE, f"usr/{name}"
            archive.addfile(link)
        content = b"agent:x:1000:1000::/home/agent:/bin/bash\n"
        passwd = tarfile.TarInfo("etc/passwd")
        passwd.size = len(content)
        archive.addfile(passwd, io.BytesIO(content))
    return path
