"""Two credit rules side by side."""

import io
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from turngate.errors import ShapeError
from turngate.report.credits import compare, show_moves
from turngate.types import Action, Completion, EndedBy, Ending, Observation, Task, Trajectory, Turn

NUMBERS = st.lists(st.floats(-10, 10, width=32), min_size=1, max_size=8)


def array(*values: float) -> np.ndarray:
    return np.array(values, np.float32)


def trajectory(name: str, *actions: str) -> Trajectory:
    spoken = Completion(ids_K=np.zeros(0, np.int32), logprobs_K=array(), ended_by=EndedBy.SCRIPT, policy_version=0)
    turns = tuple(
        Turn(
            observation=Observation(text=""),
            context_ids=np.zeros(0, np.int32),
            completion=spoken,
            source=np.zeros(0, np.uint8),
            action=Action(text=text),
        )
        for text in actions
    )
    task = Task(id="t", env_id="e", prompt="p")
    return Trajectory(id=name, task=task, turns=turns, ending=Ending.FINISHED, seed=0)


def test_scale_does_not_count_but_direction_does():
    same = compare(array(1, -1, 2, 0), array(10, -10, 20, 0))
    assert same.cosine == pytest.approx(1)
    assert same.flipped == 0
    np.testing.assert_allclose(same.move_N, 0, atol=1e-6)
    mixed = compare(array(1, 1, 1, 1), array(1, 1, 1, -1))
    assert (mixed.cosine, mixed.flipped) == (0.5, 0.25)
    assert mixed.move_N.tolist() == [0, 0, 0, -2]


def test_a_rule_that_gives_nothing_has_no_direction():
    silent = compare(array(1, -1), array(0, 0))
    assert math.isnan(silent.cosine)
    assert math.isnan(silent.flipped)
    np.testing.assert_allclose(silent.move_N, [-1, 1])


def test_other_lengths_are_an_error():
    with pytest.raises(ShapeError, match=r"after_N has shape \(1,\), expected \(2,\)"):
        compare(array(1, 2), array(1))


@given(NUMBERS, st.floats(0.1, 10))
def test_the_cosine_is_that_of_the_vectors(values, factor):
    first, second = np.array(values, np.float32), np.array(values[::-1], np.float32)
    norm = float(np.linalg.norm(first.astype(np.float64)) ** 2)
    found = compare(first, second * np.float32(factor))
    if norm < 1e-12:
        return
    assert found.cosine == pytest.approx(float(first.astype(np.float64) @ second) / norm, abs=1e-4)


def test_the_turns_that_move_most_come_first_and_escape_codes_are_shown():
    out = io.StringIO()
    played = [trajectory("a", "look", "open\x1b[31m\nnow"), trajectory("b", "wait")]
    console = Console(file=out, width=140)
    show_moves(console, played, array(0, 1, 0), ("rloo", array(1, 1, 1)), ("gigpo", array(1, -1, 1)), top=2)
    lines = out.getvalue().splitlines()
    assert "3 turns of 2 trajectories" in lines[0]
    assert "cosine of rloo and gigpo 0.333" in lines[0]
    assert "opposite sign on 33.3% of the turns" in lines[0]
    assert lines[1].split()[:4] == ["move", "reward", "own", "new"]
    assert lines[2].split() == ["-2.000", "+1.000", "+1.000", "-1.000", "turn", "1", "of", "a"]
    assert lines[3].strip() == "open\\x1b[31m now"
    assert len(lines) == 2 + 2 * 2 + 1
    assert lines[-1].startswith("own: credit by rloo, the run's own rule; new: by gigpo; move: ")


def test_the_table_fits_into_80_columns_and_marks_an_action_that_is_shortened():
    out = io.StringIO()
    name = "shop/train/123456#17@7c1098c8594fccc"
    console = Console(file=out, width=80, force_terminal=True, color_system=None)
    rules = (("reinforce_pp_base", array(1)), ("package.module:of_my_own", array(-1)))
    show_moves(console, [trajectory(name, "write " * 30)], array(0), *rules, top=2)
    lines = out.getvalue().splitlines()
    assert max(map(len, lines)) <= 80
    assert f"turn 0 of {name}" in out.getvalue()
    assert [line.strip() for line in lines if "…" in line] == ["write " * 6 + "writ…"]
