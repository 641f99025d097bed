"""The rules of ``check_env``: each plays short episodes and yields one message for each way in which it is broken.

A rule may raise; that is a finding too, so one broken part never hides the others. A problem that several rules could
find is reported by one of them only.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Literal, TypeAlias

import gymnasium
import numpy as np

from turngate.envs.check.hints import hint_problems
from turngate.envs.check.plays import Plays, TimedStep, TriedEpisode
from turngate.envs.check.texts import answers_garbage, survives_arguments, survives_growth
from turngate.rewards.rubric import Rubric
from turngate.types import ANSWER, FAULT, Ending, Evidence, Observation, Score

Level: TypeAlias = Literal["error", "warning"]
Problems: TypeAlias = Iterator[str]
Rule: TypeAlias = Callable[[Plays], Problems]

INFO_KEYS = ("evidence", "ledger", "score", "task_id", "state_key", "ending")
TOLERANCE = 1e-5  # rewards are float32
SECRET_LENGTH = 4  # shorter private texts occur by chance


# --- rules ------------------------------------------------------------------------------------------------------------


def reset_rule(plays: Plays) -> Problems:
    """reset() returns an observation and info with all its keys; without that no other rule can be tried."""
    result: Any = plays.env.reset(seed=plays.seeds[0])
    if not (isinstance(result, tuple) and len(result) == 2):
        yield f"reset() returned {type(result).__name__}; it must return (Observation, info)"
        return
    observation, info = result
    if not isinstance(observation, Observation):
        yield f"reset() returned a {type(observation).__name__} as observation; it must be an Observation"
    if missing := [key for key in INFO_KEYS if key not in info]:
        yield f"info lacks {missing} after reset()"


def _handed_over(plays: Plays) -> Problems:
    """Texts and facts can be recorded without being converted. Values that cannot be recorded at all raise EnvError."""
    for seed in plays.seeds:
        plays.whole(seed)
    yield from plays.env.conversions


def _tasks(plays: Plays) -> Problems:
    """Task number i is the same task every time, and its id leads back to it."""
    env = plays.env
    for split in env.tasks.splits:
        size = env.tasks.size(split)
        for index in range(min(len(plays.seeds), len(plays.seeds) if size is None else size)):
            task = env.tasks.task(split, index)
            if task != env.tasks.task(split, index):
                yield f"task {index} of split '{split}' differs between two calls"
            elif env.tasks.find(task.id) != task:
                yield f"find('{task.id}') gives another task than task({split!r}, {index}), whose id that is"
            if task.split != split:
                yield f"task '{task.id}' of split '{split}' says that its split is '{task.split}'"


def _observation(plays: Plays) -> Problems:
    """Texts are never empty: an agent that sees nothing cannot know that it acted."""
    for seed in plays.seeds:
        for turn, observation in enumerate(plays.first(seed).observations):
            if not isinstance(observation.text, str) or not observation.text.strip():
                yield f"the text of observation {turn} is {observation.text!r}; it must tell the agent something"


def _state_key(plays: Plays) -> Problems:
    """Equal histories carry equal, non-empty keys, and info repeats the key of its observation."""
    for seed in plays.seeds:
        first, second = plays.first(seed), plays.again(seed)
        pairs = [(first.observation, first.info), *((step.observation, step.info) for step in first.steps)]
        for turn, (observation, info) in enumerate(pairs):
            if not isinstance(observation.state_key, str) or not observation.state_key:
                yield f"the state_key of observation {turn} is {observation.state_key!r}; it must not be empty"
            elif info.get("state_key") != observation.state_key:
                yield f"info['state_key'] differs from the state_key of observation {turn}"
        if _keys(first) != _keys(second):
            yield "the same task and actions gave different state keys"


def _keys(played: TriedEpisode) -> list[str]:
    return [observation.state_key for observation in played.observations]


def _states(plays: Plays) -> Problems:
    """Situations of one task that have one key are one situation: the same action leads to the same text and key.

    Each episode is played twice, the second time with every action made again at once; rules that compare equal states
    (GiGPO and others) would compare what is not equal.
    """
    for seed in plays.seeds:
        first, again = plays.first(seed), plays.again(seed)
        if [_shown(step) for step in first.steps] != [_shown(step) for step in again.steps]:
            continue  # the rules 'state_key' and 'determinism' report it
        second = plays.new(seed, [action for action in first.actions for _ in range(2)])
        led: dict[tuple[str, str], TimedStep] = {}
        for played in (first, second):
            for turn, (key, action, step) in enumerate(zip(_keys(played), played.actions, played.steps, strict=False)):
                before = led.setdefault((key, action), step)
                if _shown(before) != _shown(step):
                    texts = " and ".join(f"{one.observation.text[:60]!r}" for one in (before, step))
                    yield (
                        f"turn {turn} begins with the state key '{key}' of another turn of this task, and "
                        f"{action[:60]!r} leads elsewhere there ({texts}); the key must tell apart what acts "
                        "differently: return more from state()"
                    )
                    break


def _shown(step: TimedStep) -> tuple[str, str]:
    return step.observation.text, step.observation.state_key


def _determinism(plays: Plays) -> Problems:
    """The same seed and actions give the same episode."""
    for seed in plays.seeds:
        first, second = plays.first(seed), plays.again(seed)
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


def _difference(one: TimedStep, other: TimedStep) -> str:
    if one.observation.text != other.observation.text or one.observation.images != other.observation.images:
        return "the observation"
    if (one.reward, one.terminated, one.truncated) != (other.reward, other.terminated, other.truncated):
        return "the reward or the end"
    return "the evidence" if one.info.get("evidence") != other.info.get("evidence") else ""


def _fork(plays: Plays) -> Problems:
    """An environment whose ``fork`` is "exact" continues from a snapshot just as it did the first time."""
    env = plays.env
    if env.turn_spec.fork != "exact":
        return
    _, info = env.reset(seed=plays.seeds[0])
    plan = tuple(plays.plan(plays.task(info)))
    half = len(plan) // 2
    for action in plan[:half]:
        env.step(action)
    snapshot = env.snapshot()
    first = [plays.step(action) for action in plan[half:]]
    env.restore(snapshot)
    second = [plays.step(action) for action in plan[half:]]
    for turn, (one, other) in enumerate(zip(first, second, strict=True), start=half):
        if difference := _difference(one, other):
            yield f"{difference} of turn {turn} differs when the episode continues from a snapshot"
            break


def _info(plays: Plays) -> Problems:
    """Every step reports the same things, and the action as it was written."""
    for seed in plays.seeds:
        played = plays.first(seed)
        for turn, (text, step) in enumerate(zip(played.actions, played.steps, strict=False)):
            if missing := [key for key in (*INFO_KEYS, "action") if key not in step.info]:
                yield f"info lacks {missing} after turn {turn}"
            elif step.info["action"].text != text:
                yield f"info['action'].text of turn {turn} is not what the agent wrote"


def _ending(plays: Plays) -> Problems:
    """Terminated, truncated and ``info["ending"]`` agree, and the last turn has the score."""
    for seed in plays.seeds:
        for turn, step in enumerate(plays.whole(seed).steps):
            ending, score = step.info.get("ending"), step.info.get("score")
            said = (ending.terminated, ending.truncated) if isinstance(ending, Ending) else (False, False)
            if said != (step.terminated, step.truncated):
                yield f"turn {turn}: terminated={step.terminated}, truncated={step.truncated}, but ending is {ending!r}"
            elif not isinstance(score, Score if step.terminated or step.truncated else type(None)):
                yield f"turn {turn}: info['score'] is {score!r}; it belongs to the last turn and only there"


def _reward_sum(plays: Plays) -> Problems:
    """The rewards of an episode's steps sum to the total of its score, and so does its ledger."""
    for seed in plays.seeds:
        played = plays.whole(seed)
        score = played.steps[-1].info.get("score")
        if not isinstance(score, Score):
            continue  # the rule 'ending' reports it
        paid = sum(step.reward for step in played.steps)
        if abs(paid - score.total) > TOLERANCE:
            yield f"the rewards of an episode sum to {paid:g}, but its score is {score.total:g}"
        if abs(float(score.reward_T.sum()) - score.total) > TOLERANCE:
            yield f"score.reward_T sums to {float(score.reward_T.sum()):g}, but the ledger pays {score.total:g}"


def _answer(plays: Plays) -> Problems:
    """The answer is text or None, and where nothing was done it holds nothing private."""
    for seed in plays.seeds:
        _, info = plays.env.reset(seed=seed)
        task = plays.task(info)
        _, info = plays.env.finish(Ending.TIME_BUDGET)
        answers = [fact.value for fact in info["evidence"] if fact.name == ANSWER and fact.turn is None]
        if len(answers) != 1:
            yield f"finish() records {len(answers)} facts named '{ANSWER}' about the episode; there must be one"
        shown = "\n".join(answer for answer in answers if isinstance(answer, str))
        for name, text in _texts(task.private):
            if len(text) >= SECRET_LENGTH and text not in task.prompt and text in shown:
                yield f"the answer to task '{task.id}' shows private['{name}'] although nothing was done"


def _evidence(plays: Plays) -> Problems:
    """Facts are Evidence, and each is about a turn that was played or about the whole episode."""
    for seed in plays.seeds:
        for turn, step in enumerate(plays.first(seed).steps):
            for fact in step.info.get("evidence", ()):
                if not isinstance(fact, Evidence):
                    yield f"turn {turn}: evidence holds a {type(fact).__name__}; it must hold Evidence only"
                elif fact.turn not in (None, *range(turn + 1)) or (
                    fact.by == "env" and fact.turn is None and fact.name != ANSWER
                ):
                    yield f"evidence '{fact.name}' of turn {turn} says that it is about turn {fact.turn}"


def _declared(plays: Plays) -> Problems:
    """An environment that declares its evidence records nothing else, and its own rubric reads nothing else."""
    declared = plays.env.turn_spec.evidence
    if declared is None:
        return
    played = [*map(plays.whole, plays.seeds), plays.new(plays.seeds[0], ["???"])]
    facts = [fact.name for one in played for step in one.steps for fact in step.info["evidence"]]
    for name in dict.fromkeys(facts):
        if name not in declared and name not in (ANSWER, FAULT):
            yield f"evidence '{name}' is recorded but not declared; add it to the evidence of turn_spec"
    rubric = plays.env.turn_spec.rubric
    if isinstance(rubric, Rubric):
        for reader, names in rubric.unfed({*declared, ANSWER, FAULT}).items():
            yield f"'{reader}' of its rubric reads {list(names)}, which the evidence of turn_spec does not have"


def _private(plays: Plays) -> Problems:
    """No private text, such as a gold answer, stands in the prompt or in the first observation."""
    for seed in plays.seeds:
        played = plays.new(seed, ())
        task = plays.task(played.info)
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


def _hints(plays: Plays) -> Problems:
    """Hints are leveled, always the same and without the answer, and some task has one if levels are declared."""
    env = plays.env
    tasks = [plays.task(env.reset(seed=seed)[1]) for seed in plays.seeds]
    for task in tasks:
        yield from hint_problems(env, task)
    if env.turn_spec.hint_levels and all(env.hint(task, 1) is None for task in tasks):
        yield f"turn_spec.hint_levels is {env.turn_spec.hint_levels}, but none of {len(tasks)} tasks has a hint"


def _oracle(plays: Plays) -> Problems:
    """The declared oracle solves its tasks, which shows that they can be solved and that the verifier notices."""
    for seed in plays.seeds if plays.env.turn_spec.has_oracle else ():
        played = plays.first(seed)
        score = played.steps[-1].info.get("score") if played.is_over else None
        if not isinstance(score, Score):
            yield f"the oracle of task '{played.info['task_id']}' did not end the episode in {len(played.steps)} turns"
        elif not score.usable or not score.success:
            why = score.problem or f"outcome {score.outcome}"
            yield f"the oracle failed on task '{played.info['task_id']}': {why}{_refused(played)}"


def _refused(played: TriedEpisode) -> str:
    """The first action that was not carried out, which is the likely reason; "" if all were."""
    for action, step in zip(played.actions, played.steps, strict=False):
        facts = {fact.name: fact.value for fact in step.info["evidence"] if isinstance(fact, Evidence)}
        if facts.get("parsed") is False or facts.get("call_ok") is False:
            return f"; its action {action[:60]!r} was answered: {step.observation.text[:200]}"
    return ""


def _solvable(plays: Plays) -> Problems:
    if not plays.env.turn_spec.has_oracle:
        yield "no oracle is declared, so nothing shows that the tasks can be solved"


def _reset_needed(plays: Plays) -> Problems:
    """step() after the end of an episode raises gymnasium's ResetNeeded."""
    seed = plays.seeds[0]
    if not plays.new(seed, plays.whole(seed).actions).is_over:
        return  # the rule 'max_turns' reports it
    try:
        plays.env.step("???")
    except gymnasium.error.ResetNeeded:
        return
    yield "step() after the end must raise gymnasium.error.ResetNeeded"


def _max_turns(plays: Plays) -> Problems:
    """An episode ends at the turn limit at the latest."""
    env = plays.env
    played = plays.new(plays.seeds[0], ["???"] * (plays.env.max_turns + 1))
    if len(played.steps) > env.max_turns:
        yield f"the episode went on after {env.max_turns} turns, its limit"
    elif not played.is_over:
        yield f"the episode did not end within {env.max_turns} turns, its limit"


def _global_rng(plays: Plays) -> Problems:
    """Randomness comes from ``self.np_random``, so that episodes do not disturb each other or the trainer."""
    seed = plays.seeds[0]
    whole = plays.whole(seed)
    before = random.getstate(), repr(np.random.get_state())
    if not plays.new(seed).is_over:
        plays.new(seed, whole.actions)
    if random.getstate() != before[0]:
        yield "an episode used Python's global random; use self.np_random"
    if repr(np.random.get_state()) != before[1]:
        yield "an episode used numpy's global random; use self.np_random"


def _deadline(plays: Plays) -> Problems:
    """Steps keep the deadline that the environment declares."""
    for seed in plays.seeds:
        for turn, step in enumerate(plays.first(seed).steps):
            if step.elapsed_s > plays.env.turn_spec.deadline_s:
                yield f"turn {turn} took {step.elapsed_s:.2f} s; deadline_s is {plays.env.turn_spec.deadline_s:g}"


RULES: dict[str, tuple[Level, Rule]] = {
    "answer": ("error", _answer),  # first: an answer that is no text breaks every episode, and is reported once
    "handed_over": ("warning", _handed_over),  # before all others that play, which would raise the same
    "tasks": ("error", _tasks),
    "observation": ("error", _observation),
    "state_key": ("error", _state_key),
    "states": ("warning", _states),
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
