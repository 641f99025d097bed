"""ProRAG against its worked number, and what a token without a score does."""

from typing import Any

import numpy as np
import pytest

from turngate.errors import ConfigError, ShapeError
from turngate.trainer.credit.prorag import prorag

nan = np.nan
ONE_OF_FOUR = [[1], [0], [0], [0]]
UNIT_SCORES = [[-0.5], [0.948403], [0.948403], [-1.396805]]  # mean 0, population variance 1


def test_the_worked_example(table_of: Any):
    """1.5 + 0.3 · (−0.5)."""
    table = table_of(ONE_OF_FOUR, process=UNIT_SCORES, tokens_N=[7] * 4)
    assert prorag(table, eps=0.0)[0] == pytest.approx(1.35, abs=1e-5)


def test_a_turn_counts_as_often_as_it_has_tokens(table_of: Any):
    """Scores 1 (three tokens) and 0 (one token): mean 0.75, std sqrt(3)/4."""
    table = table_of([[0, 1], [0, 1]], process=[[1, 0], [nan, nan]], tokens_N=[3, 1, 5, 5])
    expected = 0.3 * np.array([0.25, -0.75, 0, 0]) / (np.sqrt(3) / 4)
    np.testing.assert_allclose(prorag(table), expected, atol=1e-5)


def test_counting_unscored_tokens_as_zero_shifts_everyone(table_of: Any):
    """As published: four tokens scored 1 against four taken for 0. Left out, the equal scores say nothing."""
    table = table_of([[0, 1], [0, 1]], process=[[1, nan], [1, nan]], tokens_N=[2, 2, 2, 2])
    np.testing.assert_allclose(prorag(table, unscored="zero"), [0.3, -0.3, 0.3, -0.3], atol=1e-5)
    assert not prorag(table).any()


def test_scores_within_rounding_are_equal(table_of: Any):
    assert not prorag(table_of([[0], [0]], process=[[0.5], [0.5000005]], tokens_N=[1, 1])).any()


def test_closed_scores_and_turns_without_tokens_are_left_out(table_of: Any):
    table = table_of(
        [[0, 0, 1], [0, 0, 1]],
        process=[[1, 0, 9], [nan, 5, nan]],
        is_open=[[True, True, False], [True, True, True]],
        tokens_N=[1, 1, 1, 1, 0, 1],
    )
    np.testing.assert_allclose(prorag(table), [0.3, -0.3, 0, 0, 0, 0], atol=1e-5)


@pytest.mark.parametrize("settings", [{"beta": -1.0}, {"eps": -1.0}, {"unscored": "mean"}, {"outcome": "x"}])
def test_settings_out_of_range_are_refused(table_of: Any, settings: dict[str, Any]):
    with pytest.raises(ConfigError, match=next(iter(settings))):
        prorag(table_of(ONE_OF_FOUR, tokens_N=[1] * 4), **settings)


def test_negative_token_counts_are_refused(table_of: Any):
    with pytest.raises(ShapeError, match="tokens_N"):
        prorag(table_of(ONE_OF_FOUR, tokens_N=[1, 1, -1, 1]))
