"""From raw rewards to ours."""

import pytest

from turngate.envs.web.loaders.miniwob.reward import is_right, reward_of


def test_a_worked_number():
    """An answer of raw .6 after three actions of at most ten: .6 · (1 − 3/10) = .42."""
    assert reward_of(0.6, steps=3, limit=10, mode="raw") == pytest.approx(0.42)
    assert reward_of(0.6, steps=3, limit=10, mode="partial") == pytest.approx(0.42)
    assert reward_of(0.6, steps=3, limit=10, mode="binary") == 0
    assert reward_of(0.6, full=0.5, steps=3, limit=10, mode="binary") == pytest.approx(0.7)


@pytest.mark.parametrize(
    ("raw", "full", "expected"),
    [
        (1.0, 1.0, {"raw": 1.0, "partial": 1.0, "binary": 1.0}),
        (0.1, 1.0, {"raw": 0.1, "partial": 0.1, "binary": 0.0}),
        (0.45, 0.9, {"raw": 0.45, "partial": 0.5, "binary": 0.0}),
        (0.95, 0.9, {"raw": 0.95, "partial": 1.0, "binary": 1.0}),
        (-0.5, 1.0, {"raw": -0.5, "partial": 0.0, "binary": 0.0}),
        (None, 1.0, {"raw": -1.0, "partial": 0.0, "binary": 0.0}),
    ],
)
def test_modes(raw, full, expected):
    assert {mode: reward_of(raw, full=full, mode=mode) for mode in ("raw", "partial", "binary")} == pytest.approx(
        expected
    )


@pytest.mark.parametrize("steps", [0, 1, 9, 10, 11, 1000])
def test_only_what_is_positive_decays_and_never_below_nothing(steps):
    assert reward_of(1.0, steps=steps, limit=10) == pytest.approx(max(0, 10 - steps) / 10)
    assert reward_of(-0.5, steps=steps, limit=10, mode="raw") == -0.5


def test_thirds_add_up_to_a_right_answer():
    assert is_right(1 / 3 + 1 / 3 + 1 / 3 - 2e-16, 1.0)
    assert not is_right(0.99, 1.0)
    assert not is_right(None, 0.0)
