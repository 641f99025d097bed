"""A trajectory in the terminal: every part of it, and nothing that the model wrote is obeyed."""

import io
import unicodedata
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from turngate.errors import ShapeError
from turngate.report.episode_words import literal
from turngate.report.show import show
from turngate.types import (
    Action,
    Completion,
    EndedBy,
    Ending,
    Evidence,
    Guidance,
    Observation,
    RewardEvent,
    Score,
    Task,
    ToolCall,
    Trajectory,
    Turn,
)


def turn(text="press a", observed="click red", **changes):
    values = {
        "observation": Observation(text=observed),
        "context_ids": np.array([1, 2], np.int32),
        "completion": Completion(
            ids_K=np.array([3], np.int32),
            logprobs_K=np.array([-0.5], np.float32),
            ended_by=EndedBy.STOP,
            policy_version=7,
            text=text,
        ),
        "source": np.array([0, 0, 1], np.uint8),
        "action": Action(text=text),
    }
    return Turn(**(values | changes))


TASK = Task(id="lock/train/0", env_id="turngate/Lock-v1", prompt="Open the lock.", private={"colours": "GOLD"})
TRAJECTORY = Trajectory(
    id="t/1",
    task=TASK,
    turns=(
        turn(
            action=Action(text="press a", calls=(ToolCall(name="press", arguments={"key": "a"}),)),
        ),
        turn(
            "jump",
            "clunk blue",
            action=Action(text="jump", parse_error="unknown tool 'jump'"),
            guidance=Guidance(kind="hint", level=2, text="keys, not jumps", source="task"),
        ),
    ),
    ending=Ending.MAX_TURNS,
    seed=5,
    evidence=(
        Evidence(name="right_key", value=True, turn=0),
        Evidence(name="opened", value=False, by="verifier"),
        Evidence(name="judged", value=None, turn=0, by="judge"),
    ),
    parent=("t/0", 1),
)
SCORE = Score(
    ledger=(
        RewardEvent(name="right_key", kind="process", turn=0, value=1.0, weight=0.1, factor=0.0, gate="needs_outcome"),
        RewardEvent(name="polite", kind="process", turn=1, value=0.5, weight=0.5),
        RewardEvent(name="opened", kind="outcome", turn=None, value=0.0, weight=1.0),
    ),
    reward_T=np.array([0.0, 0.25], np.float32),
    outcome=0.0,
    usable=True,
)


def shown(trajectory=TRAJECTORY, score=SCORE, advantage_T=None, width=100):
    out = io.StringIO()
    show(Console(file=out, width=width), trajectory, score, advantage_T)
    return out.getvalue()


def test_a_trajectory_word_for_word():
    lines = [line.rstrip() for line in shown(advantage_T=np.array([-0.5, 1.5], np.float32)).splitlines()]
    assert lines == [
        "trajectory t/1 " + "─" * 85,
        "  task        lock/train/0 of turngate/Lock-v1, split train, seed 5",
        "  prompt",
        "      Open the lock.",
        "  parent      branched from t/0 at turn 1",
        "turn 0 (shared: before the branch) " + "─" * 65,
        "  observed (2 tokens)",
        "      click red",
        "  wrote (1 tokens, ended by stop, policy version 7)",
        "      press a",
        '  call        press {"key": "a"}',
        "  evidence    right_key = true (by the environment)",
        "  evidence    judged = could not be measured (by the judge)",
        "  reward      process right_key: earned +0.1 → paid +0, gate needs_outcome pays × 0",
        "  turn        reward +0, credit -0.5",
        "turn 1 " + "─" * 93,
        "  observed (2 tokens)",
        "      clunk blue",
        "  guided (hint, level 2, from task)",
        "      keys, not jumps",
        "  wrote (1 tokens, ended by stop, policy version 7)",
        "      jump",
        "  parse error unknown tool 'jump'",
        "  reward      process polite: earned +0.25 → paid +0.25",
        "  turn        reward +0.25, credit +1.5",
        "episode " + "─" * 92,
        "  evidence    opened = false (by the verifier)",
        "  reward      outcome opened: earned +0 → paid +0",
        "  ending      max_turns",
        "  total       outcome 0, earned +0.35 → paid +0.25",
    ]


def test_turns_of_somebody_else_are_marked():
    """Two turns by the oracle, then one by the policy."""
    forced = [turn(source=np.array([0, 0, 2], np.uint8)), turn("press b", source=np.array([0, 0, 2], np.uint8))]
    guidance = Guidance(kind="prefix", level=2, text="", source="oracle", joins=True)
    hinted = turn("press c", source=np.array([0, 2, 1], np.uint8))  # a hint in the context is no forced turn
    mixed = replace(TRAJECTORY, turns=(*forced, hinted), guidance=guidance)
    lines = [line.strip() for line in shown(mixed, replace(SCORE, reward_T=np.zeros(3, np.float32))).splitlines()]
    assert "guided      prefix, level 2, from oracle, seen in training, compared with unguided siblings" in lines
    assert "forced      2 of 3 turns, by oracle" in lines
    wrote = [line for line in lines if line.startswith(("forced by", "wrote"))]
    assert wrote == ["forced by oracle (1 tokens, no credit)"] * 2 + [
        "wrote (1 tokens, ended by stop, policy version 7)"
    ]
    assert not any(line.startswith("hint") for line in lines)


def test_without_credit_none_is_claimed_and_private_is_never_shown():
    text = shown()
    assert "credit" not in text
    assert "GOLD" not in text


def test_a_broken_episode_says_why():
    broken = Trajectory(
        id="t",
        task=TASK,
        turns=(),
        ending=Ending.ENV_ERROR,
        seed=0,
        error="the sandbox is gone",
        guidance=Guidance(kind="plan", level=1, text="first a", source="oracle", strip_for_train=True),
    )
    score = Score(ledger=(), reward_T=np.zeros(0, np.float32), outcome=None, usable=False, problem="env_error")
    text = shown(broken, score)
    lines = [line.strip() for line in text.splitlines()]
    assert "guided      plan, level 1, from oracle, not seen in training" in lines
    assert lines[lines.index("hint for turn 0, which was not played") + 1] == "first a"
    assert "ending      env_error: the sandbox is gone" in text
    assert "outcome could not be measured, earned +0 → paid +0" in text
    assert "unusable    env_error" in text


def test_markup_and_escapes_are_printed_and_not_obeyed():
    nasty = "[red]x[/red] :smile: [link=http://x]y[/link] \x1b[31m \x07 \x9b2J \r\x00 \u202e \ud800 a\nb\tc"
    fact = Evidence(name="[bold]", value=nasty, turn=0)
    text = shown(
        Trajectory(
            id="[red]id",
            task=Task(id="[t]", env_id="e", prompt=nasty),
            turns=(turn(nasty, nasty),),
            evidence=(fact,),
            ending=Ending.FINISHED,
            seed=0,
            error=nasty,
        ),
        Score(
            ledger=(RewardEvent(name="[b]", kind="penalty", turn=0, value=1.0, weight=-1.0, gate="[i]"),),
            reward_T=np.array([-1.0], np.float32),
            outcome=None,
            usable=False,
            problem=nasty,
        ),
        width=200,
    )
    for char in "\x1b\x07\x9b\r\x00\u202e\ud800":
        assert char not in text
    said = "[red]x[/red] :smile: [link=http://x]y[/link] \\x1b[31m \\x07 \\x9b2J \\x0d\\x00 \\u202e \\ud800 a"
    assert text.count(said) == 5  # prompt, observation, action, error, problem; JSON escapes the evidence its own way
    for name in ("[red]id", "[t]", "[bold]", "penalty [b]", "gate [i]"):
        assert name in text


@given(text=st.text())
def test_literal_leaves_nothing_hidden_and_everything_visible(text):
    out = literal(text)
    assert not [c for c in out if unicodedata.category(c) in ("Cc", "Cf", "Cs", "Zl", "Zp") and c not in "\n\t"]
    if text.isprintable():
        assert out == text


def test_literal_names_each_code():
    assert literal("\x1b\x7f\x9b\u200b\U000e0041") == "\\x1b\\x7f\\x9b\\u200b\\U000e0041"


@pytest.mark.parametrize(
    ("score", "advantage_T", "message"),
    [
        (SCORE, np.zeros(3, np.float32), "advantage_T has 3 entries, but trajectory 't/1' has 2 turns"),
        (Score(ledger=(), reward_T=np.zeros(1, np.float32), outcome=1.0, usable=True), None, "reward_T has 1 entries"),
    ],
)
def test_arrays_that_do_not_fit_are_refused(score, advantage_T, message):
    with pytest.raises(ShapeError, match=message):
        shown(score=score, advantage_T=advantage_T)
