"""Addresses, and what is refused before anything is sent."""

import sys
from pathlib import Path

import pytest

from turngate.errors import ConfigError, MissingExtra
from turngate.store.remote.object_store import ObjectStore, address_of, local_path_of


def test_an_address_is_known_also_where_a_path_took_a_slash() -> None:
    for text in ("s3://bucket/runs", "gs://b", "memory://a/b"):
        assert address_of(text) == address_of(Path(text)) == text
    for text in ("runs", "/runs/s3", "C:/runs", "a/s3://b", "s3:", "runs/a:b"):
        assert address_of(text) is None
    assert local_path_of("s3://bucket/runs/lock") == Path("s3/bucket/runs/lock")


def test_what_cannot_be_opened_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("fsspec")
    for address, message in (
        ("nothing://bucket", "'nothing://bucket' cannot be opened: Protocol not known: nothing; known are s3://"),
        ("file://runs", "'file://runs' is a folder of this machine; write its path, without 'file:'"),
        ("s3://bucket/../runs", "'s3://bucket/../runs' has '..' in it"),
    ):
        with pytest.raises(ConfigError, match=message):
            ObjectStore(address)
    from fsspec.registry import _registry

    monkeypatch.delitem(_registry, "s3", raising=False)  # classes that another test has loaded
    for package, address in (("s3fs", "s3://bucket"), ("fsspec", "memory://a")):
        monkeypatch.setitem(sys.modules, package, None)
        with pytest.raises(
            MissingExtra, match=rf"^'{package}' is not installed; run: pip install \"turngate\[storage\]"
        ):
            ObjectStore(address)
