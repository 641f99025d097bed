"""The rules of ``check_env``: each plays short episodes and yields one message for each way in which it is broken.

A rule may raise; that is a finding too, so one broken part never hides the others. A problem that several rules could
find is reported by one of them only.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

import gymnasium
import numpy as np

from turngate.envs.base import TurnEnv
from turngate.envs.check.hints import hint_problems
from turngate.envs.check.texts import answers_garbage, survives_arguments, survives_growth
from turngate.rewards.rubric import Rubric
from turngate.types import ANSWER, FAULT, Ending, Evidence, Info, Observation, Score, Task

Level: TypeAlias = Literal["error", "warning"]
Problems: TypeAlias = Iterator[str]
Rule: TypeAlias = Callable[[TurnEnv, Sequence[int]], Problems]

INFO_KEYS = ("evidence", "ledger", "score", "task_id", "state_key", "ending")
TOLERANCE = 1e-5  # rewards are float32
SECRET_LENGTH = 4  # shorter private texts occur by chance


@dataclass(frozen=True, slots=True, kw_only=True)
class _Step:
    observation: Observation
    reward: float
    terminated: bool
    truncated: bool
    info: Info
    elapsed_s: float


@dataclass(slots=True, kw_only=True)
class _Played:
    """One episode as it went. ``steps`` is empty when no action was given."""

    observation: Observation
    info: Info
    actions: tuple[str, ...]
    steps: list[_Step] = field(default_factory=list)

    @property
    def over(self) -> bool:
        return bool(self.steps) and (self.steps[-1].terminated or self.steps[-1].truncated)


# --- playing ----------------------------------------------------------------------------------------------------------


def _play(env: TurnEnv, seed: int, actions: Iterable[str] | None = None) -> _Played:
    """Reset and act until the episode or the actions end. Without actions: the oracle's, or one call per tool."""
    observation, info = env.reset(seed=seed)
    chosen = tuple(_plan(env, info) if actions is None else actions)
    played = _Played(observation=observation, info=info, actions=chosen)
    for action in chosen:
        played.steps.append(_result(env, action))
        if played.over:
            break
    return played


def _result(env: TurnEnv, action: str) -> _Step:
    start_s = time.perf_counter()
    reply, reward, terminated, truncated, info = env.step(action)
    return _Step(
        observation=reply,
        reward=reward,
        terminated=terminated,
        truncated=truncated,
        info=info,
        elapsed_s=time.perf_counter() - start_s,
    )


def _plan(env: TurnEnv, info: Info) -> Sequence[str]:
    if env.turn_spec.has_oracle:
        return env.oracle(_task(env, info))
    return [tool.usage for tool in env.turn_spec.tools] or ["hello"]


def _to_the_end(env: TurnEnv, seed: int) -> _Played:
    """An episode that is sure to end: the plan, then unusable actions until the turn limit."""
    _, info = env.reset(seed=seed)
    plan = tuple(_plan(env, info))
    return _play(env, seed, plan + ("???",) * max(0, env.max_turns + 1 - len(plan)))


def _task(env: TurnEnv, info: Info) -> Task:
    return env.tasks.find(info["task_id"])


# --- rules ------------------------------------------------------------------------------------------------------------


def reset_rule(env: TurnEnv, seeds: Sequence[int]) -> Problems:
    """reset() returns an observation and info with all its keys; without that no other rule can be tried."""
    result: Any = env.reset(seed=seeds[0])
    if not (isinstance(result, tuple) and len(result) == 2):
        yield f"reset() returned {type(result).__name__}; it must return (Observation, info)"
        return
    observation, info = result
    if not isinstance(observation, Observation):
        yield f"reset() returned a {type(observation).__name__} as observation; it must be an Observation"
    if missing := [key for key in INFO_KEYS if key not in info]:
        yield f"info lacks {missing} after reset()"


def _handed_over(env: TurnEnv, seeds: Sequence[int]) -> Problems:
    """Texts and facts can be recorded without being converted. Values that cannot be recorded at all raise EnvError."""
    for seed in seeds:
        _to_the_end(env, seed)
    yield from env.conversions


def _tasks(env: TurnEnv, seeds: Sequence[int]) -> Problems:
    """Task number i is the same task every time, and its id leads back to it."""
    for split in env.tasks.splits:
        size = env.tasks.size(split)
        for index in range(min(len(seeds), len(seeds) if size is None else size)):
            task = env.tasks.task(split, index)
            if task != env.tasks.task(split, index):
                yield f"task {index} of split '{split}' differs between two calls"
            elif env.tasks.find(task.id) != task:
                yield f"find('{task.id}') gives another task than task({split!r}, {index}), whose id that is"
            if task.split != split:
                yield f"task '{task.id}' of split '{split}' says that its split is '{task.split}'"


def _observation(env: TurnEnv, seeds: Sequence[int]) -> Problems:
    """Texts are never empty: an agent that sees nothing cannot know that it acted."""
    for seed in seeds:
        played = _play(env, seed)
        for turn, observation in enumerate([played.observation, *(step.observation for step in played.steps)]):
            if not isinstance(observation.text, str) or not observation.text.strip():
                yield f"the text of observation {turn} is {observation.text!r}; it must tell the agent something"


def _state_key(env: TurnEnv, seeds: Sequence[int]) -> Problems:
    """Equal histories carry equal, non-empty keys, and info repeats the key of its observation."""
    for seed in seeds:
        first, second = _play(env, seed), _play(env, seed)
        pairs = [(first.observation, first.info), *((step.observation, step.info) for step in first.steps)]
        for turn, (observation, info) in enumerate(pairs):
            if not isinstance(observation.state_key, str) or not observation.state_key:
                yield f"the state_key of observation {turn} is {observation.state_key!r}; it must not be empty"
            elif info.get("state_key") != observation.state_key:
                yield f"info['state_key'] differs from the state_key of observation {turn}"
        if _keys(first) != _keys(second):
            yield "the same task and actions gave different state keys"


def _keys(played: _Played) -> list[str]:
    return [played.observation.state_key, *(step.observation.state_key for step in played.steps)]


def _determinism(env: TurnEnv, seeds: Sequence[int]) -> Problems:
    """The same seed and actions give the same episode."""
    for seed in seeds:
        first, second = _play(env, seed), _play(env, seed)
        if first.info.get("task_id") != second.info.get("task_id"):
            yield f"seed {seed} chose task '{first.info['task_id']}', then '{second.info['task_id']}'"
        elif first.observation.text != second.observation.text:
            yield "the first observation differs between two resets with the same seed"
        elif len(first.steps) != len(second.steps):
            yield f"the same actions took {len(first.steps)} turns, then {len(second.steps)}"
        for turn, (one, other) in enumerate(zip(first.steps, second.steps, strict=False)):
            if difference := _difference(one, other):
                yield f"{difference} of turn {turn} differs between two runs of the same seed and actions"
                break


def _difference(one: _Step, other: _Step) -> str:
    if one.observation.text != other.observation.text or one.observation.images != other.observation.images:
        return "the observation"
    if (one.reward, one.terminated, one.truncated) != (other.reward, other.terminated, other.truncated):
        return "the reward or the end"
    return "the evidence" if one.info.get("evidence") != other.info.get("evidence") else ""


def _fork(env: TurnEnv, seeds: Sequence[int]) -> Problems:
    """An environment whose ``fork`` is "exact" continues from a snapshot just as it did the first time."""
    if env.turn_spec.fork != "exact":
        return
    _, info = env.reset(seed=seeds[0])
    plan = tuple(_plan(env, info))
    half = len(plan) // 2
    for action in plan[:half]:
        env.step(action)
    snapshot = env.snapshot()
    first = [_result(env, action) for action in plan[half:]]
    env.restore(snapshot)
    second = [_result(env, action) for action in plan[half:]]
    for turn, (one, other) in enumerate(zip(first, second, strict=True), start=half):
        if difference := _difference(one, other):
            yield f"{difference} of turn {turn} differs when the episode continues from a snapshot"
            break


def _info(env: TurnEnv, seeds: Sequence[int]) -> Problems:
    """Every step reports the same things, and the action as it was written."""
    for seed in seeds:
        played = _play(env, seed)
        for turn, (text, step) in enumerate(zip(played.actions, played.steps, strict=False)):
            if missing := [key for key in (*INFO_KEYS, "action") if key not in step.info]:
                yield f"info lacks {missing} after turn {turn}"
            elif step.info["action"].text != text:
                yield f"info['action'].text of turn {turn} is not what the agent wrote"


def _ending(env: TurnEnv, seeds: Sequence[int]) -> Problems:
    """Terminated, truncated and ``info["ending"]`` agree, and the last turn has the score."""
    for seed in seeds:
        for turn, step in enumerate(_to_the_end(env, seed).steps):
            ending, score = step.info.get("ending"), step.info.get("score")
            said = (ending.terminated, ending.truncated) if isinstance(ending, Ending) else (False, False)
            if said != (step.terminated, step.truncated):
                yield f"turn {turn}: terminated={step.terminated}, truncated={step.truncated}, but ending is {ending!r}"
            elif not isinstance(score, Score if step.terminated or step.truncated else type(None)):
                yield f"turn {turn}: info['score'] is {score!r}; it belongs to the last turn and only there"


def _reward_sum(env: TurnEnv, seeds: Sequence[int]) -> Problems:
    """The rewards of an episode's steps sum to the total of its score, and so does its ledger."""
    for seed in seeds:
        played = _to_the_end(env, seed)
        score = played.steps[-1].info.get("score")
        if not isinstance(score, Score):
            continue  # the rule 'ending' reports it
        paid = sum(step.reward for step in played.steps)
        if abs(paid - score.total) > TOLERANCE:
            yield f"the rewards of an episode sum to {paid:g}, but its score is {score.total:g}"
        if abs(float(score.reward_T.sum()) - score.total) > TOLERANCE:
            yield f"score.reward_T sums to {float(score.reward_T.sum()):g}, but the ledger pays {score.total:g}"


def _answer(env: TurnEnv, seeds: Sequence[int]) -> Problems:
    """The answer is text or None, and where nothing was done it holds nothing private."""
    for seed in seeds:
        _, info = env.reset(seed=seed)
        task = _task(env, info)
        _, info = env.finish(Ending.TIME_BUDGET)
        answers = [fact.value for fact in info["evidence"] if fact.name == ANSWER and fact.turn is None]
        if len(answers) != 1:
            yield f"finish() records {len(answers)} facts named '{ANSWER}' about the episode; there must be one"
        shown = "\n".join(answer for answer in answers if isinstance(answer, str))
        for name, text in _texts(task.private):
            if len(text) >= SECRET_LENGTH and text not in task.prompt and text in shown:
                yield f"the answer to task '{task.id}' shows private['{name}'] although nothing was done"


def _evidence(env: TurnEnv, seeds: Sequence[int]) -> Problems:
    """Facts are Evidence, and each is about a turn that was played or about the whole episode."""
    for seed in seeds:
        for turn, step in enumerate(_play(env, seed).steps):
            for fact in step.info.get("evidence", ()):
                if not isinstance(fact, Evidence):
                    yield f"turn {turn}: evidence holds a {type(fact).__name__}; it must hold Evidence only"
                elif fact.turn not in (None, *range(turn + 1)) or (
                    fact.by == "env" and fact.turn is None and fact.name != ANSWER
                ):
                    yield f"evidence '{fact.name}' of turn {turn} says that it is about turn {fact.turn}"


def _declared(env: TurnEnv, seeds: Sequence[int]) -> Problems:
    """An environment that declares its evidence records nothing else, and its own rubric reads nothing else."""
    declared = env.turn_spec.evidence
    if declared is None:
        return
    played = [_to_the_end(env, seed) for seed in seeds] + [_play(env, seeds[0], ["???"])]
    facts = [fact.name for one in played for step in one.steps for fact in step.info["evidence"]]
    for name in dict.fromkeys(facts):
        if name not in declared and name not in (ANSWER, FAULT):
            yield f"evidence '{name}' is recorded but not declared; add it to the evidence of turn_spec"
    rubric = env.turn_spec.rubric
    if isinstance(rubric, Rubric):
        for reader, names in rubric.unfed({*declared, ANSWER, FAULT}).items():
            yield f"'{reader}' of its rubric reads {list(names)}, which the evidence of turn_spec does not have"


def _private(env: TurnEnv, seeds: Sequence[int]) -> Problems:
    """No private text, such as a gold answer, stands in the prompt or in the first observation."""
    for seed in seeds:
        played = _play(env, seed, ())
        task = _task(env, played.info)
        for name, text in _texts(task.private):
            if len(text) >= SECRET_LENGTH and text not in task.prompt and text in played.observation.text:
                yield f"the first observation of task '{task.id}' shows private['{name}']"


def _texts(private: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Every text in ``private``, at any depth, with the top-level name that it lies under."""
    for name, value in private.items():
        stack = [value]
        while stack:
            match stack.pop():
                case str() as text:
                    yield name, text
                case Mapping() as inner:
                    stack.extend(inner.values())
                case list() | tuple() | set() | frozenset() as inner:
                    stack.extend(inner)


def _hints(env: TurnEnv, seeds: Sequence[int]) -> Problems:
    """Hints are leveled, always the same and without the answer, and some task has one if levels are declared."""
    tasks = [_task(env, env.reset(seed=seed)[1]) for seed in seeds]
    for task in tasks:
        yield from hint_problems(env, task)
    if env.turn_spec.hint_levels and all(env.hint(task, 1) is None for task in tasks):
        yield f"turn_spec.hint_levels is {env.turn_spec.hint_levels}, but none of {len(tasks)} tasks has a hint"


def _oracle(env: TurnEnv, seeds: Sequence[int]) -> Problems:
    """The declared oracle solves its tasks, which shows that they can be solved and that the verifier notices."""
    for seed in seeds if env.turn_spec.has_oracle else ():
        played = _play(env, seed)
        score = played.steps[-1].info.get("score") if played.over else None
        if not isinstance(score, Score):
            yield f"the oracle of task '{played.info['task_id']}' did not end the episode in {len(played.steps)} turns"
        elif not score.usable or not score.success:
            why = score.problem or f"outcome {score.outcome}"
            yield f"the oracle failed on task '{played.info['task_id']}': {why}{_refused(played)}"


def _refused(played: _Played) -> str:
    """The first action that was not carried out, which is the likely reason; "" if all were."""
    for action, step in zip(played.actions, played.steps, strict=False):
        facts = {fact.name: fact.value for fact in step.info["evidence"] if isinstance(fact, Evidence)}
        if facts.get("parsed") is False or facts.get("call_ok") is False:
            return f"; its action {action[:60]!r} was answered: {step.observation.text[:200]}"
    return ""


def _solvable(env: TurnEnv, seeds: Sequence[int]) -> Problems:
    if not env.turn_spec.has_oracle:
        yield "no oracle is declared, so nothing shows that the tasks can be solved"


def _reset_needed(env: TurnEnv, seeds: Sequence[int]) -> Problems:
    """step() after the end of an episode raises gymnasium's ResetNeeded."""
    if not _to_the_end(env, seeds[0]).over:
        return  # the rule 'max_turns' reports it
    try:
        env.step("???")
    except gymnasium.error.ResetNeeded:
        return
    yield "step() after the end must raise gymnasium.error.ResetNeeded"


def _max_turns(env: TurnEnv, seeds: Sequence[int]) -> Problems:
    """An episode ends at the turn limit at the latest."""
    played = _play(env, seeds[0], ["???"] * (env.max_turns + 1))
    if len(played.steps) > env.max_turns:
        yield f"the episode went on after {env.max_turns} turns, its limit"
    elif not played.over:
        yield f"the episode did not end within {env.max_turns} turns, its limit"


def _global_rng(env: TurnEnv, seeds: Sequence[int]) -> Problems:
    """Randomness comes from ``self.np_random``, so that episodes do not disturb each other or the trainer."""
    before = random.getstate(), repr(np.random.get_state())
    _to_the_end(env, seeds[0])
    if random.getstate() != before[0]:
        yield "an episode used Python's global random; use self.np_random"
    if repr(np.random.get_state()) != before[1]:
        yield "an episode used numpy's global random; use self.np_random"


def _deadline(env: TurnEnv, seeds: Sequence[int]) -> Problems:
    """Steps keep the deadline that the environment declares."""
    for seed in seeds:
        for turn, step in enumerate(_play(env, seed).steps):
            if step.elapsed_s > env.turn_spec.deadline_s:
                yield f"turn {turn} took {step.elapsed_s:.2f} s; deadline_s is {env.turn_spec.deadline_s:g}"


RULES: dict[str, tuple[Level, Rule]] = {
    "answer": ("error", _answer),  # first: an answer that is no text breaks every episode, and is reported once
    "handed_over": ("warning", _handed_over),  # before all others that play, which would raise the same
    "tasks": ("error", _tasks),
    "observation": ("error", _observation),
    "state_key": ("error", _state_key),
    "determinism": ("error", _determinism),
    "fork": ("error", _fork),
    "info": ("error", _info),
    "ending": ("error", _ending),
    "reward_sum": ("error", _reward_sum),
    "evidence": ("error", _evidence),
    "declared": ("error", _declared),
    "private": ("error", _private),
    "hints": ("error", _hints),
    "oracle": ("error", _oracle),
    "garbage": ("error", answers_garbage),
    "arguments": ("error", survives_arguments),
    "growth": ("error", survives_growth),
    "reset_needed": ("error", _reset_needed),
    "max_turns": ("error", _max_turns),
    "global_rng": ("error", _global_rng),
    "deadline": ("warning", _deadline),
    "solvable": ("warning", _solvable),
}
