"""Many random episodes, quickly: seeded numpy, every field filled, odd texts included."""

import numpy as np

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
    ScoredGroup,
    Task,
    ToolCall,
    Trajectory,
    Turn,
)

TEXTS = (
    "",
    "look at 4",
    'I look.\n<tool_call>\n{"name": "look", "arguments": {"n": 4}}\n</tool_call>',
    "<think>hm</think>\ntake 4",
    "line\u2028break \x00 nul",
    "half \ud83d",
    "\uffff",
    "日本語 😀",
)
VALUES = (None, True, 0, 0.1 + 0.2, float("inf"), "text", ["a", {"b": [1, None]}], {"turngate:flag": "nan"}, {})
NONE = (None, "", "unknown tool")


def random_groups(seed: int, *, groups: int, siblings: int, turns: int | None = None) -> list[ScoredGroup]:
    """So many groups of so many episodes; of 0 to 3 turns, or of ``turns``."""
    rng = np.random.default_rng(seed)
    return [_group(rng, seed, number, siblings, turns) for number in range(groups)]


def _pick(rng: np.random.Generator, values):
    return values[int(rng.integers(len(values)))]


def _group(rng, seed, number, siblings, turns) -> ScoredGroup:
    task = Task(id=f"t{number}", env_id="random", prompt=_pick(rng, TEXTS), split="train")
    played = [_episode(rng, f"{seed}/{number}/{sibling}", task, turns) for sibling in range(siblings)]
    return ScoredGroup(
        task=task, trajectories=tuple(one for one, _ in played), scores=tuple(score for _, score in played)
    )


def _episode(rng, name, task, turns) -> tuple[Trajectory, Score]:
    n_turns = int(rng.integers(4)) if turns is None else turns
    guidance = _guidance(rng) if rng.random() < 0.3 else None
    one = Trajectory(
        id=name,
        task=task,
        turns=tuple(_turn(rng) for _ in range(n_turns)),
        ending=_pick(rng, tuple(Ending)),
        seed=int(rng.integers(2**63)),
        evidence=tuple(
            Evidence(name="fact", value=_pick(rng, VALUES), turn=turn, by="verifier")
            for turn in (*range(n_turns), None)
        ),
        guidance=guidance,
        parent=("other", 1) if rng.random() < 0.2 else None,
        error=_pick(rng, TEXTS),
    )
    event = RewardEvent(name="won", kind="outcome", turn=None, value=float(rng.normal()), weight=2.0, gate="g")
    outcome = _pick(rng, (None, 0.5, float(rng.normal())))
    paid = rng.normal(size=n_turns).astype(np.float32)
    return one, Score(ledger=(event,), reward_T=paid, outcome=outcome, usable=outcome is not None, problem="p")


def _guidance(rng) -> Guidance:
    return Guidance(kind="hint", level=int(rng.integers(3)), text=_pick(rng, TEXTS), source="s", joins=True)


def _turn(rng) -> Turn:
    n_context, n_said = int(rng.integers(5)), int(rng.integers(5))
    text = _pick(rng, TEXTS)
    logprobs = rng.normal(size=n_said).astype(np.float32)
    if n_said and rng.random() < 0.1:
        logprobs[0] = _pick(rng, (np.nan, -np.inf, -0.0))
    return Turn(
        observation=Observation(
            text=_pick(rng, TEXTS),
            images=(b"\x89PNG\x00",) if rng.random() < 0.1 else (),
            state_key=_pick(rng, ("", "s")),
        ),
        context_ids=rng.integers(0, 2**31, n_context, np.int32),
        completion=Completion(
            ids_K=rng.integers(0, 2**31, n_said, np.int32),
            logprobs_K=logprobs,
            ended_by=_pick(rng, tuple(EndedBy)),
            policy_version=int(rng.integers(100)),
            text=_pick(rng, (text, text, "other", "")),
        ),
        source=rng.integers(0, 3, n_context + n_said, np.uint8),
        action=Action(
            text=text,
            thought=_pick(rng, ("", "hm")),
            calls=(ToolCall(name="look", arguments={"n": 4, "x": None}),) if rng.random() < 0.5 else (),
            parse_error=_pick(rng, NONE),
            flaw=_pick(rng, ("", "a comma")),
        ),
        guidance=_guidance(rng) if rng.random() < 0.1 else None,
    )
