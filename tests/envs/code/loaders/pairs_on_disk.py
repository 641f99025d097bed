"""Folders in the form of QuixBugs, and plain pairs of a module and its repair."""

from pathlib import Path

TAIL_BUG = "def tail_of(node):\n    while node.successor:\n        node = node.successor\n    return node.successor\n"
TAIL = TAIL_BUG.replace("return node.successor", "return node")
COUNT_BUG = """def digits(number):
    count = 0
    while number > 0:
        count += 1
        number //= 1
    return count
"""
COUNT = COUNT_BUG.replace("//= 1\n", "//= 10\n")
NODE = """class Node:
    def __init__(self, value=None, successor=None):
        self.value, self.successor = value, successor
"""
CHOICE = """import pytest
{more}
if pytest.use_correct:
    from correct_python_programs.{name} import {name}
else:
    from python_programs.{name} import {name}
"""


PUBLISHED = {
    "conftest.py": "def pytest_configure(config):\n    raise SystemExit('of the published folder')\n",
    "python_programs/digits.py": COUNT_BUG,
    "python_programs/tail_of.py": TAIL_BUG,
    "python_programs/tail_of_test.py": "from .tail_of import tail_of\nprint(tail_of)\n",
    "python_programs/node.py": NODE,
    "correct_python_programs/digits.py": COUNT,
    "correct_python_programs/tail_of.py": TAIL,
    "correct_python_programs/tail_of_test.py": "print(1)\n",
    "correct_python_programs/node.py": NODE,
    "python_testcases/node.py": NODE,
    "python_testcases/load_testdata.py": """import json
import pathlib


def load(name):
    path = pathlib.Path(__file__).parent.parent / "json_testcases" / f"{name}.json"
    return [json.loads(line) for line in path.read_text().splitlines()]
""",
    "python_testcases/test_digits.py": CHOICE.format(name="digits", more="from load_testdata import load")
    + """

@pytest.mark.parametrize(("given", "expected"), load("digits"))
def test_digits(given, expected):
    if not pytest.run_slow and given == [10**9]:
        pytest.skip("slow")
    assert digits(*given) == expected
""",
    "python_testcases/test_tail_of.py": CHOICE.format(name="tail_of", more="from node import Node")
    + """

def test_one():
    node = Node(1)
    assert tail_of(node) is node


def test_two():
    last = Node(2)
    first = Node(1, last)
    assert tail_of(first) is last
""",
    "json_testcases/digits.json": "[[0], 0]\n[[7], 1]\n[[1000000000], 10]\n",
    "json_testcases/elsewhere.json": "[]\n",
}


def write(folder: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


BUGGY = "def area(width, height):\n    return width + height\n"
FIXED = "def area(width, height):\n    return width * height\n"


PLAIN = {
    "area.py": BUGGY,
    "area_fixed.py": FIXED,
    "test_area.py": "from area import area\n\n\ndef test_it():\n    assert area(2, 3) == 6\n",
    "far.py": "import shared\n\n\ndef far():\n    return shared.ONE\n",
    "fixed/far.py": "import shared\n\n\ndef far():\n    return shared.ONE + 1\n",
    "test_far.py": "from far import far\n\n\ndef test_far():\n    assert far() == 2\n",
    "shared.py": "ONE = 1\n",
    "conftest.py": "import pytest\n",
}
