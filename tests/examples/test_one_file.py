"""examples/one_file.py: short, of nothing but torch, its credit as its equation says, and it learns."""

import ast
from pathlib import Path

import pytest
import torch

from examples import one_file


def test_it_is_one_short_file_without_a_framework():
    text = Path(one_file.__file__).read_text()
    assert len(text.splitlines()) <= 150
    imports = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Import | ast.ImportFrom)]
    names = {alias.name for node in imports if isinstance(node, ast.Import) for alias in node.names}
    modules = names | {node.module for node in imports if isinstance(node, ast.ImportFrom)}
    assert modules == {"argparse", "math", "torch"}


def test_credit_of_a_turn_is_its_return_less_that_of_siblings_in_that_turn():
    generator = torch.Generator().manual_seed(0)
    paid = torch.rand((2, 4, 3), generator=generator)
    ends = torch.tensor([[1, 2, 3, 2], [3, 1, 1, 1]])
    played = torch.arange(3) < ends[..., None]
    found = one_file.credit_of_turns(paid * played, played)
    for g in range(2):
        for s in range(4):
            for t in range(3):
                others = [o for o in range(4) if o != s and played[g, o, t]]
                if not played[g, s, t] or not others:
                    assert found[g, s, t] == 0
                    continue
                returns = [float((paid[g, o] * played[g, o])[t:].sum()) for o in (s, *others)]
                assert float(found[g, s, t]) == pytest.approx(returns[0] - sum(returns[1:]) / len(others), abs=1e-6)


@pytest.mark.parametrize("rule", one_file.RULES)
def test_it_learns(rule, capsys):
    before, after = one_file.main(["--updates", "100", "--rule", rule])
    assert before < 0.3
    assert after > 0.5
    assert capsys.readouterr().out.count("greedy") == 2
