"""What an environment hands over: kept as it is, converted, or refused for one episode."""

import json
import math
from collections import UserDict, deque

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.helpers.command_line import turngate
from tests.helpers.odd_envs import OddLock, Scratched
from turngate import register
from turngate.envs import output_checks as handed
from turngate.envs.lock import LockEnv
from turngate.envs.output_checks import Unfit
from turngate.envs.registry import registered
from turngate.errors import ConfigError, EnvError, VerifierError
from turngate.types import Action, Ending, Evidence, Observation, ToolCall, storable


def kept(value):
    """The value of a fact, and what was noted of it."""
    notes = []
    (fact,) = handed.evidence((Evidence(name="x", value=value),), notes.append)
    return fact.value, notes


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=12,
)


@given(JSON)
def test_plain_values_are_kept_as_they_are(value):
    facts = (Evidence(name="x", value=value), Evidence(name="y", value=1))
    notes = []
    assert handed.evidence(facts, notes.append) is facts
    assert notes == []


@pytest.mark.parametrize(
    ("value", "plain", "kind"),
    [
        (np.float32(0.5), 0.5, "float32"),
        (np.float64(0.25), 0.25, "float64"),
        (np.int64(7), 7, "int64"),
        (np.bool_(True), True, "bool"),
        (np.str_("a"), "a", "<U1"),
        (np.array([[1, 2], [3, 4]]), [[1, 2], [3, 4]], "int64"),
        ({"a": (1, [np.uint8(3)])}, {"a": [1, [3]]}, "uint8"),
    ],
)
def test_numpy_is_converted_to_plain_python_at_any_depth(value, plain, kind):
    found, notes = kept(value)
    assert found == plain
    assert json.loads(json.dumps(found)) == plain
    assert type(found) is type(plain)
    assert notes == [f"evidence 'x' holds a numpy {kind}, which is converted; hand over a plain Python value"]


def test_nan_of_numpy_stays_nan_and_other_containers_become_plain_ones():
    found, _ = kept(np.float32("nan"))
    assert math.isnan(found)
    assert kept(deque([1, 2])) == ([1, 2], [])
    assert kept(UserDict(a=1)) == ({"a": 1}, [])


class Circle(list):
    pass


CIRCLE = Circle()
CIRCLE.append(CIRCLE)


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        ({1, 2}, "holds {1, 2} (set); it must be a value that JSON has"),
        (b"raw", "holds b'raw' (bytes); it must be a value that JSON has"),
        (1j, "holds 1j (complex)"),
        ([object], "holds <class 'object'> (type)"),
        ({1: 2}, "has the key 1 (int); keys must be text"),
        (CIRCLE, "is nested more than 64 levels deep"),
        (10**4000, "holds a whole number of 13288 bits; at most 10000 can be kept"),
        (np.array([{1}], dtype=object), "holds {1} (set)"),
    ],
)
def test_what_no_file_can_hold_is_refused_by_name(value, problem):
    with pytest.raises(Unfit) as refused:
        kept(value)
    assert str(refused.value).startswith(f"evidence 'x' {problem}")


@pytest.mark.parametrize(
    ("facts", "problem"),
    [
        (None, "the evidence is None; it must be a tuple of Evidence"),
        ("fact", "the evidence is 'fact' (str)"),
        ([{"name": "x"}], "the evidence holds {'name': 'x'} (dict); it must hold Evidence only"),
        ((Evidence(name="", value=1),), "the name of a fact is '' (str); it must be text, and not empty"),
        (
            (Evidence(name="x", value=1, by="me"),),
            "evidence 'x' has by='me' (str); it must be 'env', 'verifier' or 'judge'",
        ),
        ((Evidence(name="x", value=1, turn="first"),), "evidence 'x' has turn='first' (str)"),
    ],
)
def test_facts_that_are_none_are_refused(facts, problem):
    with pytest.raises(Unfit) as refused:
        handed.evidence(facts, print)
    assert str(refused.value).startswith(problem)


def test_the_turn_of_a_fact_may_be_a_number_of_numpy():
    (fact,) = handed.evidence([Evidence(name="x", value=1, turn=np.int64(2))], print)
    assert (fact.turn, type(fact.turn)) == (2, int)


@pytest.mark.parametrize(
    ("seen", "problem"),
    [
        ("text", "the observation is 'text' (str); it must be an Observation"),
        (Observation(text=17), "the text of an observation is 17 (int); it must be text"),
        (Observation(text="", state_key=None), "the state_key of an observation is None; it must be text"),
        (Observation(text="", images=("a.png",)), "the images of an observation are ('a.png',) (tuple)"),
    ],
)
def test_observations_that_are_none_are_refused(seen, problem):
    with pytest.raises(Unfit) as refused:
        handed.observation(seen, print, most=10)
    assert str(refused.value).startswith(problem)


def test_an_observation_is_cut_at_the_limit_with_a_mark():
    notes = []
    whole = Observation(text="a" * 10, state_key="k")
    assert handed.observation(whole, notes.append, most=10) is whole
    cut = handed.observation(Observation(text="é" * 25, state_key="k"), notes.append, most=10)
    assert cut == Observation(text="é" * 10 + "\n[… 15 more characters …]", state_key="k")
    assert notes == ["an observation of more than 10 characters was cut; shorten it, or raise observation_chars"]


@given(st.text(st.characters()), st.integers(0, 30))
def test_storable_texts_are_utf8_and_sound_ones_are_untouched(text, most):
    found = storable(text)
    found.encode()
    assert len(found) == len(text)
    assert all(one == other or 0xD800 <= ord(other) < 0xE000 for one, other in zip(found, text, strict=True))
    assert storable(text, most).startswith(found[:most])
    assert (storable(text, most) == found) == (len(text) <= most)


# --- through an environment -------------------------------------------------------------------------------------------


def test_the_limit_is_the_environments_own():
    env = Scratched(most=50)
    env.reset(options={"task": "lock/train/0"})
    seen, *_ = env.step("press a")
    assert seen.text == "x" * 50 + "\n[… 950 more characters …]"
    assert env.conversions == (
        "an observation of more than 50 characters was cut; shorten it, or raise observation_chars",
    )


def test_an_error_names_class_and_turn_and_the_next_episode_is_played():
    env = OddLock(ways=("number", "sound"))
    env.reset(options={"task": "lock/train/0"})
    env.step("press a")
    with pytest.raises(EnvError, match=r"^OddLock broke in turn 1: the text of an observation is 17 \(int\); it must"):
        env.step("press a")
    env.reset(options={"task": "lock/train/1"})
    assert [env.step("press a")[2] for _ in range(3)] == [False, False, True]


class Verifies(LockEnv):
    def verify(self):
        return [Evidence(name="opened", value={1})]


def test_what_a_verifier_hands_over_is_looked_at_too():
    env = Verifies()
    env.reset(seed=0)
    with pytest.raises(VerifierError, match=r"^the verifier of Verifies broke: evidence 'opened' holds \{1\} \(set\)"):
        env.finish(Ending.TIME_BUDGET)


@pytest.mark.parametrize(
    ("action", "problem"),
    [
        (17, r"the action is 17 \(int\); it must be text or an Action"),
        (Action(text=17), r"the text of the action is 17 \(int\); it must be text"),
        (Action(text="", parse_error=3), r"the parse_error of the action is 3 \(int\)"),
        (
            Action(text="", calls=({"name": "press"},)),
            r"the calls of the action are \(\{'name': 'press'\},\) \(tuple\)",
        ),
    ],
)
def test_an_action_that_is_none_is_the_callers_mistake(action, problem):
    env = LockEnv()
    env.reset(seed=0)
    with pytest.raises(ConfigError, match=rf"^step\(\) of LockEnv: {problem}"):
        env.step(action)
    env.step(Action(text="press a", calls=(ToolCall(name="press", arguments={"key": "a"}),)))


def test_check_tells_what_was_converted_and_what_costs_an_episode(capsys):
    if "test/OddLock-v0" not in registered():
        register("test/OddLock-v0", "tests.helpers.odd_envs:OddLock")
    if "test/Numpy-v0" not in registered():
        register("test/Numpy-v0", "tests.helpers.odd_envs:OddLock", kwargs={"ways": ("numpy",)})
    assert turngate("check", "test/Numpy-v0", "--episodes", 1) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert "warning: [handed_over] evidence 'speed' holds a numpy float32, which is converted; hand over a plain" in out
    assert turngate("check", "test/OddLock-v0", "--episodes", 8) == 1
    found = capsys.readouterr()
    assert "Traceback" not in found.out + found.err
    assert "error: [handed_over] raised EnvError(" in found.out
