"""Every rule of ``check_env`` has an environment that breaks it, and it alone."""

import itertools
import random
import re
import subprocess
import threading
from dataclasses import replace

import numpy as np
import pytest

from turngate.envs.base import Outcome, TurnEnv, TurnSpec
from turngate.envs.check.check_env import Finding, check_env, rules_tried
from turngate.envs.check.env_rules import RULES
from turngate.envs.tasks import TaskList
from turngate.errors import UnknownName
from turngate.rewards import FromEvidence, Rubric
from turngate.tools.tool import Parameter, Tool
from turngate.types import Evidence, Observation, Task

TASKS = [
    Task(
        id=f"sum/{index}",
        env_id="test/Sum-v0",
        prompt=f"What is 100{index} + {index}? The digits are shown one by one.",
        private={"answer": f"100{2 * index}", "steps": ["never shown", {"deep": "hidden text"}]},
    )
    for index in range(4)
]
SPEC = {
    "tools": (
        Tool(name="look", description="Look again."),
        Tool(name="answer", description="Answer.", parameters=(Parameter(name="number"),)),
    ),
    "rubric": Rubric(rewards=(FromEvidence(name="right", evidence="right", kind="outcome", weight=1.0),)),
    "max_turns": 3,
}


class Sum(TurnEnv):
    """A sound environment; each class below spoils one thing."""

    turn_spec = TurnSpec(**SPEC, has_oracle=True)

    def __init__(self):
        super().__init__(tasks=TaskList(TASKS))

    def start(self, task, rng):
        self.gold, self.said, self.turn = task.private["answer"], None, 0
        return Observation(text=f"{task.prompt} Lucky number: {rng.integers(10**6)}.", state_key="0")

    def act(self, action):
        self.turn += 1
        facts = (Evidence(name="parsed", value=action.parse_error is None),)
        if action.parse_error:
            return Outcome(observation=self.see(action.parse_error), evidence=facts)
        if action.calls[0].name == "answer":
            self.said = action.calls[0].arguments["number"]
        return Outcome(observation=self.see("noted"), evidence=facts, done=self.said is not None)

    def see(self, text):
        return Observation(text=text, state_key=f"{self.turn} {self.said}")

    def verify(self):
        yield Evidence(name="right", value=self.said == self.gold)

    def oracle(self, task):
        return ["look", f"answer {task.private['answer']}"]


class ResetsToText(Sum):
    def reset(self, **options):
        observation, info = super().reset(**options)
        return observation.text, info


class ResetsWithoutInfo(Sum):
    def reset(self, **options):
        return super().reset(**options)[0]


class CannotStart(Sum):
    def start(self, task, rng):
        raise OSError("no display")


class ShiftingTasks(Sum):
    def __init__(self):
        super().__init__()
        self.tasks = self.Shifting(TASKS)

    class Shifting(TaskList):
        count = itertools.count()

        def task(self, split, index):
            task = super().task(split, index)
            return replace(task, hints=(f"{next(self.count)}",))


class ForgetfulTasks(Sum):
    def __init__(self):
        super().__init__()
        self.tasks = self.Forgetful(TASKS)

    class Forgetful(TaskList):
        def find(self, task_id):
            return replace(super().find(task_id), prompt="?")


class SaysNothing(Sum):
    def see(self, text):
        return Observation(text=" ", state_key=f"{self.turn} {self.said}")


class NoKey(Sum):
    def see(self, text):
        return Observation(text=text)


class RestlessKey(Sum):
    count = itertools.count()

    def see(self, text):
        return Observation(text=text, state_key=f"{next(self.count)}")


class AlikeForTooMuch(Sum):
    def see(self, text):
        return Observation(text=f"{text} {self.turn}", state_key=f"{self.said}")


class OtherKeyInInfo(Sum):
    def step(self, action):
        *result, info = super().step(action)
        return (*result, {**info, "state_key": "other"})


class RestlessText(Sum):
    count = itertools.count()

    def see(self, text):
        return Observation(text=f"{text} {next(self.count)}", state_key=f"{self.turn} {self.said}")


class RestlessStart(Sum):
    count = itertools.count()

    def start(self, task, rng):
        super().start(task, rng)
        return Observation(text=f"{task.prompt} {next(self.count)}", state_key="0")


class RestlessEvidence(Sum):
    count = itertools.count()

    def act(self, action):
        outcome = super().act(action)
        fact = Evidence(name="count", value=next(self.count))
        return Outcome(observation=outcome.observation, evidence=(*outcome.evidence, fact), done=outcome.done)


class ForksLoosely(Sum):
    turn_spec = TurnSpec(**SPEC, has_oracle=True, fork="exact")

    def save(self):
        return self.turn

    def load(self, saved):
        self.turn, self.said, self.gold = saved, None, "forgotten"


class InfoLacksAKey(Sum):
    def step(self, action):
        *result, info = super().step(action)
        del info["ledger"]
        return (*result, info)


class RewritesTheAction(Sum):
    def step(self, action):
        return super().step(f"{action} " if isinstance(action, str) and action.startswith("answer") else action)


class EndsSilently(Sum):
    def step(self, action):
        *result, info = super().step(action)
        return (*result, {**info, "ending": None})


class ScoresInTheMiddle(Sum):
    def step(self, action):
        observation, reward, terminated, truncated, info = super().step(action)
        score = None if terminated or truncated else "so far so good"
        return observation, reward, terminated, truncated, {**info, "score": info["score"] or score}


class KeepsTheScore(Sum):
    def step(self, action):
        *result, info = super().step(action)
        return (*result, {**info, "score": None})


class PaysTwice(Sum):
    def step(self, action):
        observation, reward, *rest = super().step(action)
        return observation, 2 * reward, *rest


class EvidenceOfAnotherTurn(Sum):
    def step(self, action):
        *result, info = super().step(action)
        late = [replace(fact, turn=fact.turn + 1) if fact.turn is not None else fact for fact in info["evidence"]]
        return (*result, {**info, "evidence": tuple(late)})


class RecordsMoreThanItDeclares(Sum):
    turn_spec = TurnSpec(**SPEC, has_oracle=True, evidence={"right": "The sum is right."})


class EvidenceIsADict(Sum):
    def step(self, action):
        *result, info = super().step(action)
        return (*result, {**info, "evidence": (*info["evidence"], {"name": "loose"})})


class EvidenceCannotBeStored(Sum):
    def act(self, action):
        outcome = super().act(action)
        facts = () if action.parse_error else (Evidence(name="raw", value={1, 2}),)
        return Outcome(observation=outcome.observation, evidence=outcome.evidence + facts, done=outcome.done)


class HandsOverNumpy(Sum):
    def act(self, action):
        outcome = super().act(action)
        facts = (Evidence(name="speed", value=np.float32(0.5)), Evidence(name="all", value={"sum": np.int64(3)}))
        return Outcome(observation=outcome.observation, evidence=outcome.evidence + facts, done=outcome.done)


class WritesHalfACharacter(Sum):
    def see(self, text):
        return Observation(text=f"{text} \ud800", state_key=f"{self.turn} {self.said}")


class SaysTooMuch(Sum):
    def see(self, text):
        return Observation(text=text * 1_000_000, state_key=f"{self.turn} {self.said}")


class SaysANumber(Sum):
    def start(self, task, rng):
        return replace(super().start(task, rng), text=17)


class ExitsInTheStep(Sum):
    def act(self, action):
        if not action.parse_error:
            raise SystemExit(3)
        return super().act(action)


class ExitsWhenClosed(Sum):
    def close(self):
        raise SystemExit(3)


class ShowsTheAnswer(Sum):
    def start(self, task, rng):
        first = super().start(task, rng)
        return Observation(text=f"{first.text} (gold: {task.private['answer']})", state_key="0")


class ShowsADeepSecret(Sum):
    def start(self, task, rng):
        first = super().start(task, rng)
        return Observation(text=f"{first.text} hidden text", state_key="0")


class WrongOracle(Sum):
    def oracle(self, task):
        return ["answer 7"]


class MisspeltOracle(Sum):
    def oracle(self, task):
        return ["anwser 7", "answer 7"]


class OracleGivesUp(Sum):
    def oracle(self, task):
        return ["look"]


class UnmeasuredOutcome(Sum):
    def verify(self):
        yield Evidence(name="right", value=None)


class AnswersANumber(Sum):
    def answer(self):
        return 42


class AnswersForTheAgent(Sum):
    def answer(self):
        return self.said or self.gold


class CannotAnswer(Sum):
    def answer(self):
        raise KeyError("said")


class RaisesOnGarbage(Sum):
    def act(self, action):
        if "\x1b" in action.text:
            raise ValueError("control character")
        return super().act(action)


class BreaksOnQuotes(Sum):
    def act(self, action):
        if any("'" in text for call in action.calls for text in call.arguments.values()):
            raise ValueError("unterminated string")
        return super().act(action)


class GrowsWithoutEnd(Sum):
    MULTIPLY = Tool(name="multiply", description="Multiply.", parameters=(Parameter(name="by", annotation=int),))
    turn_spec = TurnSpec(**{**SPEC, "tools": (*SPEC["tools"], MULTIPLY), "max_turns": 70}, has_oracle=True)

    def start(self, task, rng):
        self.number = 1
        return super().start(task, rng)

    def act(self, action):
        outcome = super().act(action)
        self.number *= action.calls[0].arguments["by"] if action.calls and action.calls[0].name == "multiply" else 1
        return replace(outcome, evidence=(*outcome.evidence, Evidence(name="number", value=self.number)))


class SilentAboutGarbage(Sum):
    def act(self, action):
        outcome = super().act(action)
        return Outcome(observation=outcome.observation, done=outcome.done)


class GoesOnAfterTheEnd(Sum):
    def step(self, action):
        if self._episode.ending is not None:
            return Observation(text="still here", state_key="x"), 0.0, True, False, {}
        return super().step(action)


class NeverCutOff(Sum):
    def step(self, action):
        if self._episode.n_turns == self.max_turns - 1 and action == "???":
            self._episode.n_turns -= 1
        return super().step(action)


class PythonsRandom(Sum):
    def act(self, action):
        random.random()
        return super().act(action)


class NumpysRandom(Sum):
    def act(self, action):
        np.random.rand()
        return super().act(action)


class Late(Sum):
    turn_spec = TurnSpec(**SPEC, has_oracle=True, deadline_s=0.0)


class WithoutOracle(Sum):
    turn_spec = TurnSpec(**SPEC)


class ClosesOnce(Sum):
    open = True

    def close(self):
        if not self.open:
            raise RuntimeError("closed already")
        self.open = False


class LeavesAThread(Sum):
    stop = threading.Event()

    def start(self, task, rng):
        threading.Thread(target=self.stop.wait, name="forgotten", daemon=True).start()
        return super().start(task, rng)


class LeavesAProcess(Sum):
    started: list = []  # noqa: RUF012

    def start(self, task, rng):
        if not self.started:
            self.started.append(subprocess.Popen(["sleep", "60"]))
        return super().start(task, rng)


class Hinted(Sum):
    turn_spec = TurnSpec(**SPEC, has_oracle=True, hint_levels=2)
    levels = ("The answer has four digits.", "Its first digit is 1.")

    def hint(self, task, level):
        return self.levels[level - 1] if 1 <= level <= len(self.levels) else None


class GivesAnswer(Hinted):
    def hint(self, task, level):
        return f"The answer is {task.private['answer']}." if level == 2 else super().hint(task, level)


class UndeclaredHint(Hinted):
    levels = (*Hinted.levels, "It is even.")


class HintsFromZero(Hinted):
    def hint(self, task, level):
        return super().hint(task, level + 1)


class UnequalHints(Hinted):
    count = itertools.count()

    def hint(self, task, level):
        text = super().hint(task, level)
        return text and f"{text} {next(self.count)}"


class HintWithGap(Hinted):
    levels = (None, "Its first digit is 1.")


class SameHints(Hinted):
    levels = ("Its first digit is 1.",) * 2


class BlankHint(Hinted):
    levels = ("", "Its first digit is 1.")


class LongHint(Hinted):
    turn_spec = replace(Hinted.turn_spec, observation_chars=200)
    levels = ("x " * 101,)


class NoHints(Hinted):
    levels = ()


BROKEN = [
    (GivesAnswer, "hints", "holds the answer, '100"),
    (UndeclaredHint, "hints", "answers to level 3, but turn_spec.hint_levels is 2"),
    (HintsFromZero, "hints", "answers to level 0"),
    (UnequalHints, "hints", "gave different texts for the same level"),
    (HintWithGap, "hints", "has no level 1, but a higher one"),
    (SameHints, "hints", "levels 1 and 2 of task"),
    (BlankHint, "hints", "gave ''; it must give text"),
    (LongHint, "hints", "has 202 characters; an observation has at most 200"),
    (NoHints, "hints", "hint_levels is 2, but none of 3 tasks has a hint"),
    (ResetsToText, "reset", "returned a str as observation"),
    (ResetsWithoutInfo, "reset", r"returned Observation; it must return \(Observation, info\)"),
    (CannotStart, "reset", r"raised EnvError\(.*no display"),
    (AnswersANumber, "answer", r"answer\(\) of AnswersANumber returned 42; it must return text or None"),
    (AnswersForTheAgent, "answer", r"the answer to task 'sum/\d' shows private\['answer'\] although nothing was done"),
    (CannotAnswer, "answer", r"answer\(\) of CannotAnswer raised KeyError: 'said'"),
    (EvidenceCannotBeStored, "handed_over", r"broke in turn 0: evidence 'raw' holds \{1, 2\} \(set\); it must be a"),
    (HandsOverNumpy, "handed_over", "evidence 'all' holds a numpy int64, which is converted; hand over a plain Python"),
    (
        WritesHalfACharacter,
        "handed_over",
        r"the text of an observation holds a lone surrogate, which is replaced by '\?'",
    ),
    (SaysTooMuch, "handed_over", "an observation of more than 100,000 characters was cut; shorten it"),
    (SaysANumber, "reset", r"SaysANumber could not start task 'sum/\d': the text of an observation is 17 \(int\)"),
    (ExitsInTheStep, "handed_over", "broke in turn 0: SystemExit: 3"),
    (ShiftingTasks, "tasks", "task 0 of split 'train' differs between two calls"),
    (ForgetfulTasks, "tasks", r"find\('sum/0'\) gives another task than task"),
    (SaysNothing, "observation", "the text of observation 1 is ' '"),
    (NoKey, "state_key", "the state_key of observation 1 is ''"),
    (RestlessKey, "state_key", "the same task and actions gave different state keys"),
    (AlikeForTooMuch, "states", "turn 2 begins with the state key 'None' of another turn of this task"),
    (OtherKeyInInfo, "state_key", r"info\['state_key'\] differs from the state_key of observation 1"),
    (RestlessText, "determinism", "the observation of turn 0 differs"),
    (RestlessStart, "determinism", "the first observation differs"),
    (RestlessEvidence, "determinism", "the evidence of turn 0 differs"),
    (ForksLoosely, "fork", "the reward or the end of turn 1 differs when the episode continues from a snapshot"),
    (InfoLacksAKey, "info", r"info lacks \['ledger'\] after turn 0"),
    (RewritesTheAction, "info", r"info\['action'\]\.text of turn 1 is not what the agent wrote"),
    (EndsSilently, "ending", "terminated=True, truncated=False, but ending is None"),
    (ScoresInTheMiddle, "ending", r"turn 0: info\['score'\] is 'so far so good'"),
    (PaysTwice, "reward_sum", "the rewards of an episode sum to 2, but its score is 1"),
    (EvidenceOfAnotherTurn, "evidence", "evidence 'parsed' of turn 0 says that it is about turn 1"),
    (EvidenceIsADict, "evidence", "evidence holds a dict"),
    (RecordsMoreThanItDeclares, "declared", "evidence 'parsed' is recorded but not declared"),
    (ShowsTheAnswer, "private", r"shows private\['answer'\]"),
    (ShowsADeepSecret, "private", r"shows private\['steps'\]"),
    (WrongOracle, "oracle", r"the oracle failed on task 'sum/\d': outcome 0\.0"),
    (MisspeltOracle, "oracle", r"outcome 0\.0; its action 'anwser 7' was answered: (error: )?unknown tool 'anwser'"),
    (OracleGivesUp, "oracle", "did not end the episode in 1 turns"),
    (UnmeasuredOutcome, "oracle", "the oracle failed on task"),
    (RaisesOnGarbage, "garbage", r"raised EnvError\(.*control character"),
    (SilentAboutGarbage, "garbage", r"the action '\?\?\?' needs Evidence\(name='parsed', value=False\), got \[\]"),
    (BreaksOnQuotes, "arguments", r'the call \{"name": "answer", .* raised EnvError\(.*unterminated .*raise ToolError'),
    (GrowsWithoutEnd, "growth", "made again and again, ends the episode as the agent's fault"),
    (GoesOnAfterTheEnd, "reset_needed", "must raise gymnasium.error.ResetNeeded"),
    (NeverCutOff, "max_turns", "the episode went on after 3 turns|did not end within 3 turns"),
    (PythonsRandom, "global_rng", "Python's global random"),
    (NumpysRandom, "global_rng", "numpy's global random"),
    (Late, "deadline", r"deadline_s is 0"),
    (WithoutOracle, "solvable", "no oracle is declared"),
    (ExitsWhenClosed, "close", r"raised SystemExit\(3\)"),
    (ClosesOnce, "close", r"raised RuntimeError\('closed already'\)"),
]
CONVERTED = (HandsOverNumpy, WritesHalfACharacter, SaysTooMuch)


def test_a_sound_environment_has_no_findings():
    assert check_env(Sum()) == []


@pytest.mark.parametrize(("kind", "rule", "message"), BROKEN, ids=lambda value: getattr(value, "__name__", ""))
def test_each_breach_is_found_by_its_own_rule_only(kind, rule, message):
    findings = check_env(kind())
    assert {finding.rule for finding in findings} == {rule}, findings
    assert any(re.search(message, finding.message) for finding in findings), findings
    level = "warning" if rule in ("states", "deadline", "solvable") or kind in CONVERTED else "error"
    assert {finding.level for finding in findings} == {level}


def test_every_rule_has_an_environment_that_breaks_it():
    assert {rule for _, rule, _ in BROKEN} == {"reset", *RULES, "close"}


def test_a_score_that_never_comes_is_found_though_other_rules_need_it():
    """Without a score the oracle cannot be judged either, so this breach shows twice."""
    assert {finding.rule for finding in check_env(KeepsTheScore())} == {"ending", "oracle"}


def test_what_breaks_under_every_rule_is_said_once():
    class Breaks(Sum):
        def act(self, action):
            raise OSError("gone")

    messages = [finding.message for finding in check_env(Breaks()) if "gone" in finding.message]
    assert messages
    assert len(messages) == len(set(messages))


def test_a_thread_that_stays_is_found(monkeypatch):
    monkeypatch.setattr("turngate.envs.check.check_env.LEFTOVER_S", 0.05)
    findings = check_env(LeavesAThread(), episodes=1)
    LeavesAThread.stop.set()
    assert {finding.rule for finding in findings} == {"leftovers"}
    assert findings[0].message == "thread 'forgotten' is still running after close()"


def test_a_process_that_stays_is_found(monkeypatch):
    monkeypatch.setattr("turngate.envs.check.check_env.LEFTOVER_S", 0.05)
    findings = check_env(LeavesAProcess(), episodes=1)
    child = LeavesAProcess.started[0]
    child.kill()
    child.wait()
    assert [finding.message for finding in findings] == [f"process {child.pid} is still there after close()"]


def test_an_unknown_id_is_the_callers_mistake():
    with pytest.raises(UnknownName, match="did you mean 'turngate/Lock-v1'"):
        check_env("turngate/Loch-v1")


def test_a_finding_reads_as_a_sentence():
    finding = Finding(level="error", rule="oracle", message="the oracle failed")
    assert str(finding) == "[oracle] the oracle failed"


def test_where_reset_is_broken_no_rule_is_said_to_be_tried_that_plays():
    assert rules_tried(()) == ("reset", *RULES, "own_code", "close", "leftovers")
    assert rules_tried(check_env(CannotStart())) == ("reset", "own_code", "close", "leftovers")
