"""Agents that want to be paid by tau-bench or tau2 without serving anybody.

1. What the originals do not pay is not paid.
2. What they do pay is paid, because tasks are graded as they are; ``strict`` says whether ``tau_strict`` pays it too.
"""

import time

import pytest

from tests.envs.tooluse.domains.play import facts_of
from tests.envs.tooluse.tau.checkouts import SECRET, Guest, ferry

MOVE = '{"name": "move_booking", "arguments": {"booking": "F1", "day": "tuesday", "note": ""}}'
MOVE_F2 = '{{"name": "move_booking", "arguments": {{"booking": "F2", "day": "{}", "note": ""}}}}'
REPAIR = (
    '{"name": "enter_booking", "arguments": '
    '{"booking": "F2", "guest": "ben", "day": "friday", "price": 20.5, "seats": []}}'
)
NUMBERS = " ".join(map(str, range(100)))

WRITES, READS = "tau_bench/ferry/0", "tau_bench/ferry/1"

UNPAID = {
    "does nothing": (WRITES, ["answer"]),
    "only talks": (WRITES, ["say Your booking is moved. It costs 30.", "answer moved, 30"]),
    "only says all numbers": (WRITES, [f"say {NUMBERS}", "answer"]),
    "hands over at once": (WRITES, ["transfer_to_human_agents please help"]),
    "hands over at once, and says the number before": (WRITES, ["say 30", "transfer_to_human_agents please help"]),
    "says nothing": (WRITES, ["get_booking F1", MOVE, "answer"]),
    "says the number to a tool alone": (WRITES, [MOVE, "calculate 30", "answer"]),
    "thinks the number in a hand-over": (WRITES, [MOVE, "transfer_to_human_agents it costs 30"]),
    "never ends": (WRITES, [MOVE, "say 30"]),
    "runs out of turns": (WRITES, [MOVE, *["say 30"] * 30]),
    "moves all that it can": (WRITES, [MOVE, MOVE_F2.format("tuesday"), "answer 30"]),
    "leaves a remark": (WRITES, ["move_booking F1 tuesday moved", "answer 30"]),
    "destroys": (WRITES, [MOVE, "drop_booking F2", "answer 30"]),
    "destroys, and repairs with another type": (WRITES, [MOVE, "drop_booking F2", REPAIR, "answer 30"]),
    "ends for the user": (WRITES, ["say 30 ###STOP###", "say ###STOP###"]),
    "works out a power that never ends": (WRITES, ["calculate 9**9**9**9", "calculate 9* *9", "answer 30"]),
}
PAID = {
    "only talks where nothing is to be changed": (
        READS,
        ["answer I have looked, and there is nothing to be done"],
        False,
    ),
    "hands over at once where nothing is to be changed": (READS, ["transfer_to_human_agents please help"], False),
    "does nothing where nothing is to be changed": (READS, ["answer"], False),
    "moves something and back": (
        WRITES,
        [MOVE_F2.format("monday"), MOVE, MOVE_F2.format("friday"), "answer 30"],
        False,
    ),
    "leaves out what only looks": (WRITES, [MOVE, "answer 30"], False),
    "says all numbers": (WRITES, ["get_booking F1", MOVE, f"answer {NUMBERS}"], True),
    "says a number that holds it": (WRITES, ["get_booking F1", MOVE, "answer 1300"], True),
    "says it with commas": (WRITES, ["get_booking F1", MOVE, "answer 3,0"], True),
    "fails often before": (WRITES, [*["get_booking F77"] * 5, "get_booking F1", MOVE, "answer 30"], True),
}


@pytest.mark.parametrize("cheat", UNPAID)
def test_what_is_not_paid(cheat, bench):
    task, actions = UNPAID[cheat]
    with ferry("tau_bench", bench) as env:
        facts, reward = facts_of(env, task, actions)
    assert not facts["solved"]
    assert not facts["strictly_solved"]
    assert reward <= 0


@pytest.mark.parametrize("cheat", PAID)
def test_what_the_original_pays(cheat, bench):
    task, actions, strict = PAID[cheat]
    with ferry("tau_bench", bench) as env:
        facts, reward = facts_of(env, task, actions)
    assert facts["solved"]
    assert facts["strictly_solved"] == strict
    assert reward > 0.9


def test_a_sum_without_end_is_refused_at_once(bench):
    with ferry("tau_bench", bench) as env:
        env.reset(options={"task": WRITES})
        start_s = time.monotonic()
        for sum_ in ("9**9**9**9", "9* *9", "1+" * 1000 + "1"):
            assert env.step(f"calculate {sum_}")[0].text.startswith("Error: ")
        assert time.monotonic() - start_s < 60  # the first alone would never end
        assert env.step("calculate 2 * (3 + 4)")[0].text == "14"


def test_nothing_but_the_user_tells_the_instructions(bench):
    with ferry("tau_bench", bench, user=Guest.NAME) as env:
        seen, _ = env.reset(options={"task": WRITES})
        texts = [seen.text]
        for line in ("get_booking F1", "get_booking ada", "calculate 1", "instructions", "move_booking F1"):
            texts.append(env.step(line)[0].text)
        assert not any(SECRET in text for text in texts)


@pytest.mark.parametrize(
    ("task", "actions", "won", "strict"),
    [
        ("acts", ["move_booking F1 tuesday", "answer"], False, False),
        ("acts", ["get_booking F1", "move_booking F1 tuesday", "answer"], True, False),  # no note: as in the original
        ("acts", ["get_booking F2", "move_booking F1 tuesday", "answer"], False, False),
        ("asserts", ["move_booking F1 tuesday", "move_booking F2 monday", "answer"], True, False),
        ("asserts", ["move_booking F1 wednesday", "answer"], False, False),
        ("asserts", ["answer"], False, False),
        ("moves", ["move_booking F1 tuesday", "answer"], False, False),
        ("moves", ["move_booking F1 tuesday x", "answer Tuesday"], True, True),
        ("moves", ["answer tuesday"], False, False),
        ("moves", ["transfer_to_human_agents tuesday", "answer tuesday"], False, False),
        ("looks", ["answer"], True, False),
        ("begins", ["answer"], False, False),
        ("enters", ["move_booking F1 tuesday", "answer"], False, False),
        ("free", ["move_booking F1 sunday", "answer"], True, False),
        ("free", ["get_booking F1"], False, False),
    ],
)
def test_tau2_is_graded_as_it_is(task, actions, won, strict, bench2):
    with ferry("tau2", bench2) as env:
        facts, _ = facts_of(env, f"tau2/ferry/{task}", actions)
    assert (facts["solved"], facts["strictly_solved"]) == (won, strict)
