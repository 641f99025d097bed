"""What rounding is expected to do, against what it does, in float32 and in float16."""

from types import SimpleNamespace

import numpy as np
import pytest

from turngate.agents.rounding import FLOAT32, agreement, pass_rounding, rounding

SMALL = SimpleNamespace(hidden_size=32, intermediate_size=48, num_hidden_layers=2)


def apart(found, other):
    return float(np.linalg.norm(found.astype(np.float64) - other) / np.linalg.norm(other.astype(np.float64)))


def in_order(products, order):
    """Sums over the last axis, one addition after another."""
    return np.cumsum(products[..., order], -1, dtype=np.float32)[..., -1]


@pytest.mark.parametrize("terms", [16, 256, 4096])
def test_two_orders_of_a_sum_differ_about_as_expected(terms):
    rng = np.random.default_rng(0)
    products = rng.normal(size=(300, terms)).astype(np.float32)
    sums = [in_order(products, rng.permutation(terms)) for _ in range(2)]
    expected = rounding(FLOAT32, depth=1, terms=terms)
    assert 0.2 < apart(*sums) / expected < 2


@pytest.mark.parametrize("depth", [4, 30, 200])
def test_two_orders_of_many_steps_differ_about_as_expected(depth):
    """The same factors in another order, each product rounded to float16."""
    rng = np.random.default_rng(0)
    begin, factors = rng.uniform(1, 2, size=2000), rng.uniform(0.9, 1.1, size=depth)
    ways = []
    for order in (rng.permutation(depth), rng.permutation(depth)):
        value = begin.astype(np.float16)
        for factor in factors[order]:
            value = (value * factor).astype(np.float16)
        ways.append(value)
    assert 0.3 < apart(*ways) / rounding(2.0**-10, depth=depth, terms=0) < 1.5


def test_literal_values():
    assert rounding(2.0**-7, depth=6) == pytest.approx(2.0**-7)  # bfloat16: a sum in float32 adds nothing to it
    assert rounding(FLOAT32, depth=6, terms=3) == pytest.approx(2 * FLOAT32)
    assert rounding(2.0**-52, depth=6, terms=3) == pytest.approx(2 * 2.0**-52)  # a sum in float64
    assert agreement(1e-6) == pytest.approx(1e-3)


def test_a_model_is_as_deep_as_its_layers_and_adds_up_its_widths_or_its_tokens():
    deep = SimpleNamespace(hidden_size=32, intermediate_size=48, num_hidden_layers=8)
    unsaid = SimpleNamespace(hidden_size=32, num_hidden_layers=2)
    assert pass_rounding(SMALL, FLOAT32, tokens=9) == rounding(FLOAT32, depth=16, terms=48)
    assert pass_rounding(SMALL, FLOAT32, tokens=99, passes=2) == rounding(FLOAT32, depth=32, terms=99)
    assert pass_rounding(deep, FLOAT32, tokens=9) == pytest.approx(2 * pass_rounding(SMALL, FLOAT32, tokens=9))
    assert pass_rounding(unsaid, FLOAT32, tokens=9) == rounding(FLOAT32, depth=16, terms=128)
