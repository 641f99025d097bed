"""Control runs: the hidden tests, changed so that honest code fails them. Whoever passes one does not pass by what the
code computes.

* ``spoilt`` (``spoil.py``) finds code that makes tests pass whatever they assert.
* ``altered`` (``alter.py``) finds code that looks up what they expect.

Code that asks its caller what it was called for is looked for by name too (``suspects.py``).
"""

from __future__ import annotations

from typing import Literal, TypeAlias

from turngate.envs.code.grading.alter import alter
from turngate.envs.code.grading.spoil import spoil
from turngate.envs.code.problem import Problem, Texts

Control: TypeAlias = Literal["spoilt", "altered"]


def control_tests(problem: Problem, control: Control) -> Texts:
    """The hidden tests, changed; what is no Python module in UTF-8 stays as it is."""
    texts = dict(problem.hidden)
    for path in problem.test_files:
        text = texts.get(path)
        if text is not None and path.endswith(".py"):
            try:
                texts[path] = spoil(text, path) if control == "spoilt" else alter(text, problem.original(path) or "")
            except (SyntaxError, ValueError):
                continue  # no module, or not in UTF-8
    return texts
