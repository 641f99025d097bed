"""A small package with a test-suite: some of its tests fail here, some never end up in a task."""

MODULE = '''\
"""Small sums."""


def clamp(x, low, high):
    """The number nearest to x that lies in [low, high]."""
    if x < low:
        return low
    if x > high:
        return high
    return x  # inside


def mean(values):
    total = 0
    for value in values:
        total += value
    return total / len(values)
'''
TESTS = """\
import pytest
from sums.core import clamp, mean


@pytest.mark.parametrize(("x", "expected"), [(-5, 0), (0, 0), (2, 2), (3, 3), (9, 3), (-1, 0)])
def test_clamp(x, expected):
    assert clamp(x, 0, 3) == expected


def test_low_edge():
    assert clamp(1, 2, 3) == 2


# a word about the next one
@pytest.mark.parametrize("x", [7])
def test_high_edge(x):
    assert clamp(x, 2, 3) == 3


def test_inside():
    assert clamp(2, 1, 3) == 2


class TestMean:
    def test_one(self):
        assert mean([4]) == 4

    def test_two(self):
        assert mean([1, 2]) == 1.5

    def test_generator(self):
        assert [mean([x]) for x in (1, 2)] == [1, 2]


def test_that_fails():
    assert mean([1]) == 2
"""
UNUSABLE = "import no_such_module_at_all\n\n\ndef test_a():\n    pass\n"
NETWORK = """\
import urllib.request


def test_network():
    urllib.request.urlopen("http://192.0.2.1/", timeout=5)
"""
INFO = "Metadata-Version: 2.1\nName: sums\nVersion: 1.2\nClassifier: License :: OSI Approved :: MIT License\n"
FILES = {
    "PKG-INFO": INFO,
    "src/sums/__init__.py": "",
    "src/sums/core.py": MODULE,
    "src/sums/latin.py": "# \u00e9\ndef f(a):\n    return a + 1\n".encode("latin-1"),
    "src/sums/table.bin": b"\x00\xff\xfe",
    "tests/test_core.py": TESTS,
    "tests/test_network.py": NETWORK,
    "tests/test_unusable.py": UNUSABLE,
    "setup.py": "import setuptools\n",
    "docs/conf.py": "x = 1\n",
    ".git/HEAD": "ref\n",
    "src/sums/__pycache__/core.pyc": b"old",
}


def put(folder, files):
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return folder
