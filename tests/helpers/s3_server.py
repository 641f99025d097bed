"""A server that speaks as S3 does, in the process of a test: moto's, reached over HTTP by s3fs."""

import logging
import uuid
from collections.abc import Iterator
from typing import Any

import pytest

from turngate.store.remote.object_store import ObjectStore

KEYS = {"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b", "AWS_DEFAULT_REGION": "us-east-1"}


class S3Server:
    """It keeps its objects while it is stopped."""

    def __init__(self) -> None:
        self._port = 0
        self.start()

    @property
    def variables(self) -> dict[str, str]:
        """With which s3fs finds it."""
        return {**KEYS, "AWS_ENDPOINT_URL": f"http://127.0.0.1:{self._port}"}

    def start(self) -> None:
        from moto.server import ThreadedMotoServer

        self._server: Any = ThreadedMotoServer(ip_address="127.0.0.1", port=self._port, verbose=False)
        self._server.start()
        _, self._port = self._server.get_host_and_port()

    def stop(self) -> None:
        self._server.stop()


@pytest.fixture(scope="session")
def s3_server() -> Iterator[S3Server]:
    pytest.importorskip("s3fs")
    pytest.importorskip("moto")
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = S3Server()
    yield server
    server.stop()


@pytest.fixture
def s3(s3_server: S3Server, monkeypatch: pytest.MonkeyPatch) -> S3Server:
    """The server, which the commands of this test find."""
    for name, value in s3_server.variables.items():
        monkeypatch.setenv(name, value)
    return s3_server


@pytest.fixture
def bucket(s3: S3Server) -> str:
    """The address of a new bucket."""
    import fsspec

    name = f"b{uuid.uuid4().hex}"
    fsspec.filesystem("s3", skip_instance_cache=True).mkdir(name)
    return f"s3://{name}"


def contents(store: ObjectStore, folder: str) -> dict[str, bytes]:
    """The objects in a folder of a store."""
    names = [f"{folder}/{name}" for name in store.list_names(folder)]
    return {name: data for name, data in zip(names, store.read(names), strict=True) if data is not None}
