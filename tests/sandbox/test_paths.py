"""The one rule for paths: what a caller names, what an agent writes, and what a problem may hold."""

import itertools

import pytest

from turngate.sandbox import SandboxFileError
from turngate.sandbox.base import in_folders, is_below_work, normal

WORDS = ["", ".", "..", "a", "work", "b.py", "\0", " ", "tmp"]


@pytest.mark.parametrize(
    ("path", "place"),
    [
        ("", ("work", ".")),
        ("a//b/./c", ("work", "a/b/c")),
        ("/work", ("work", ".")),
        ("/work/a", ("work", "a")),
        ("/tmp/../etc", ("tmp", "../etc")),  # who opens it keeps it inside
        ("/home/agent/x", ("home", "x")),
    ],
)
def test_a_place_in_the_folders(path, place):
    assert in_folders(path) == place


@pytest.mark.parametrize("path", ["/", "/workshop", "/home", "/etc/passwd", "//work/a", "a\0b", "\ud800"])
def test_what_lies_in_none_of_them(path):
    with pytest.raises(SandboxFileError):
        in_folders(path)


def test_one_spelling_for_each_file_of_a_problem():
    for words in itertools.product(WORDS, repeat=3):
        path = "/".join(words)
        plain = all(word not in ("", ".", "..") and "\0" not in word for word in words)
        assert is_below_work(path) is plain
        assert not is_below_work("/" + path)
        assert not plain or normal(path) == path == normal(f"/work/{path}")
