"""States as plain values: what differs between two of them, and what lies below a path."""

import copy
import dataclasses
import datetime
import decimal
import enum
import fractions
import pathlib
import uuid

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from turngate.envs.tooluse.engine.states import StateTooLarge, as_json, changes, found_at, outside, path_of, spelled
from turngate.errors import EnvError

STATES = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.text("ab", max_size=2),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("xyz"), inner, max_size=3),
    max_leaves=8,
)


def leaves(value, path=()):
    """Path → value of every leaf."""
    if not isinstance(value, dict | list) or not value:
        return {path: value}
    items = value.items() if isinstance(value, dict) else enumerate(value)
    return {step: leaf for key, item in items for step, leaf in leaves(item, (*path, str(key))).items()}


def by_hand(before, after, path=()):
    """The paths that differ, by walking both states at once."""
    if type(before) is type(after) and isinstance(before, dict) and before and after:
        keys = before.keys() | after.keys()
        pairs = [(key, before.get(key, leaves), after.get(key, leaves)) for key in keys]
    elif type(before) is type(after) and isinstance(before, list) and before and after:
        most = max(len(before), len(after))
        padded = [[*state, *[leaves] * (most - len(state))] for state in (before, after)]
        pairs = [(str(place), *items) for place, items in enumerate(zip(*padded, strict=True))]
    else:
        same = type(before) is type(after) and before == after
        both = [] if same else [below(state, path) for state in (before, after) if state is not leaves]
        return frozenset().union(*both)
    return frozenset().union(*(by_hand(one, other, (*path, key)) for key, one, other in pairs))


def below(state, path):
    return {(*path, *step) for step in leaves(state)}


@given(STATES, STATES)
def test_changes_are_those_that_walking_both_states_finds(one, other):
    assert changes(one, other) == by_hand(one, other)
    assert changes(one, other) == changes(other, one)
    assert not changes(one, one)
    assert not changes(one, copy.deepcopy(one))


@given(STATES)
def test_every_leaf_is_found_at_its_path(state):
    for path, value in leaves(state).items():
        assert found_at(state, path) == (True, value)
    assert as_json(state) == state
    assert spelled(state) == spelled(as_json(state))


def test_true_is_not_1_and_an_emptied_table_is_seen():
    assert changes({"a": 1}, {"a": True}) == {("a",)}
    assert changes({"a": 1}, {"a": 1.0}) == frozenset()
    assert changes({"a": {"b": 1}}, {"a": {}}) == {("a",), ("a", "b")}
    assert changes({"a": None}, {}) == {("a",), ()}
    assert changes({"a": [1, 2]}, {"a": [1]}) == {("a", "1")}
    assert changes({"a": {"0": 1, "1": 2}}, {"a": [1, 3, 4]}) == {("a", "1"), ("a", "2")}


def test_what_lies_below_a_pattern():
    paths = [("orders", "A1", "status"), ("orders", "A1", "log", "0"), ("users", "A1", "status")]
    assert outside(paths, [path_of("orders.*.status")]) == set(paths[1:])
    assert outside(paths, [path_of("orders")]) == {paths[2]}
    assert outside(paths, [path_of("orders.A1.status.old")]) == set(paths)


def test_objects_become_tables():
    class Colour(enum.StrEnum):
        RED = "red"

    @dataclasses.dataclass
    class Lamp:
        colour: Colour
        places: set[str]

    assert as_json({1: (Lamp(Colour.RED, {"b", "a"}),)}) == {"1": [{"colour": "red", "places": ["a", "b"]}]}


def test_what_has_no_plain_form_is_refused():
    circle = []
    circle.append(circle)
    deep = []
    for _ in range(70):
        deep = [deep]
    kinds = [
        (object(), EnvError, "which cannot be compared"),
        (circle, EnvError, "holds itself"),
        (deep, StateTooLarge, "64 deep"),
        (len, EnvError, "cannot be compared"),
    ]
    for value, kind, said in kinds:
        with pytest.raises(EnvError, match=said) as caught:
            as_json([value])
        assert caught.type is kind


@pytest.mark.parametrize(
    ("value", "plain"),
    [
        (datetime.date(2024, 1, 2), "2024-01-02"),
        (datetime.datetime(2024, 1, 2, 3, 4), "2024-01-02 03:04:00"),
        (datetime.timedelta(minutes=5), "0:05:00"),
        (decimal.Decimal("1.50"), "1.50"),
        (fractions.Fraction(1, 3), "1/3"),
        (uuid.UUID(int=7), "00000000-0000-0000-0000-000000000007"),
        (pathlib.PurePosixPath("a/b"), "a/b"),
        (b"\x01\xff", "01ff"),
        (np.int64(3), 3),
        (np.bool_(True), True),
        (np.array([[1, 2], [3, 4]]), [[1, 2], [3, 4]]),
    ],
)
def test_values_that_json_does_not_have_are_compared_as_their_text(value, plain):
    assert as_json({"x": value}) == {"x": plain}
