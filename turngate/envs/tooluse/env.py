"""``turngate/ToolUse-v1``: tasks that are solved with tools, in a world of tools that one brings along.

    turngate.make("turngate/ToolUse-v1", tools="my_tools", tasks={"type": "tool_tasks", "file": "tasks.jsonl"})

The agent calls the tools of the world and ends with ``answer``. The episode is won if the goals of the task hold then
and nothing else was touched: all values that no goal decides are as the gold calls leave them, and always were.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from pydantic import BaseModel, ValidationError

from turngate.envs.base import Outcome, TurnSpec
from turngate.envs.tasks import TasksLike, TaskSource, TaskSourcePart, part_of
from turngate.envs.tool_env import ToolEnv, fact
from turngate.envs.tooluse.engine.goals import right_answers
from turngate.envs.tooluse.engine.gold import GoldRun, play_gold
from turngate.envs.tooluse.engine.states import StateTooLarge, as_json, changes, spelled
from turngate.envs.tooluse.engine.watch import CallWatch, likeness
from turngate.envs.tooluse.engine.world import DeclaresEvidence, HoldsTalk, LeadsTurns, OpenWorld, ToolWorld
from turngate.envs.tooluse.facts import EVIDENCE
from turngate.envs.tooluse.loaders.task_rows import gold_answer
from turngate.envs.tooluse.rubric import RUBRIC
from turngate.envs.tooluse.sources import Lending, ToolTaskSource, named_world
from turngate.envs.tooluse.task import ToolTask
from turngate.errors import AgentFault, ConfigError, EnvError, UserError
from turngate.problems import one_line
from turngate.rewards.outcome.calls import call_quality
from turngate.tools.formats import TOOL_FORMATS
from turngate.tools.read import parse, speech_action, usages
from turngate.tools.tool import Tool, named_apart, tool
from turngate.types import JSON, Action, Evidence, Observation, Task, ToolCall, storable

ToolsLike: TypeAlias = ToolWorld | Mapping[str, object] | str | None
"""Values of the argument ``tools``: a part, its table, or a name (see ``sources.named_world``)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolUseState:
    """The state of an episode at one moment; for forks."""

    task: Task
    turn: int
    shown: str
    world: object
    watch: CallWatch
    answer: str | None
    malformed: int
    done: frozenset[str]


class _ToolsArgument(BaseModel):
    tools: ToolWorld


class ToolUseEnv(ToolEnv):
    """Tasks in a world of tools. ``tools`` names the world, unless the tasks bring their own (see ``sources.py``).

    ``max_chars``: most characters of a call's result; ``doc_chars``: most of a tool's description; more is cut, with a
    mark. Raises ConfigError for settings that are out of range or do not go together, and what ``TurnEnv``, the world
    and the tasks raise.
    """

    turn_spec = TurnSpec(
        rubric=RUBRIC,
        max_turns=20,
        tasks=Lending(),
        fork="exact",
        side_effects="local",
        has_oracle=True,
        hint_levels=2,
        evidence=EVIDENCE,
    )
    calls_per_turn = 8
    answers = ("gold calls",)

    def __init__(
        self,
        *,
        tools: ToolsLike = None,
        tasks: TasksLike = None,
        split: str | None = None,
        max_turns: int | None = None,
        max_chars: int = 2000,
        doc_chars: int = 400,
    ) -> None:
        for name, value in (("max_chars", max_chars), ("doc_chars", doc_chars)):
            if value < 40:
                raise ConfigError(f"{name} is {value}; it must be at least 40")
        self._max_chars, self._doc_chars = max_chars, doc_chars
        self._own_spec, self._worlds = self.turn_spec, dict[str, OpenWorld]()
        self._cut = dict[int, tuple[Tool, Tool]]()
        self._offering: tuple[Tool, ...] | None = None
        self._world: OpenWorld | None = None
        self._user: LeadsTurns | None = None
        self._names: frozenset[str] = frozenset()
        self._talk: HoldsTalk | None = None
        self._named = _named(tools, tasks, self.turn_spec.tasks)
        self._task_answer: str | None = None
        self._malformed = 0
        self._watch = self._before_turn = CallWatch.begin(
            GoldRun(calls=(), before=None, after=None, touched=frozenset()), ()
        )
        try:
            if self._named is not None:
                self._enter(self._open(self._named))
            source = part_of(tasks, self.turn_spec.tasks, type(self).__name__)
            longest = source.max_turns if isinstance(source, ToolTaskSource) else None
            super().__init__(tasks=tasks, split=split, max_turns=longest if max_turns is None else max_turns)
        except BaseException:
            self._leave()
            raise

    def open_tasks(self, part: TaskSourcePart) -> TaskSource:
        """The gold calls of tasks for the environment's own tools are tried out in them."""
        if isinstance(part, ToolTaskSource) and part.world() is None:
            return part.open(self._world)
        return part.open()

    def begin(self, task: Task) -> str:
        """Put the world into the task's first state and state the task.

        The tools come first, as in a chat template that lists them: all tasks of a world begin with the same tokens.
        """
        world, asked = self._world_of(task), ToolTask.of(task)
        calls = tuple(asked.calls)
        if world.knows_state:
            gold = play_gold(world if self._talk is None else self._talk.rehearsal(), asked.state, calls)
        else:
            gold = GoldRun(calls=calls, before=None, after=None, touched=frozenset())
        world.start(asked.state)
        if self._user is not None:
            self._offer(world)
        self._watch, self._task_answer, self._malformed = CallWatch.begin(gold, asked.goals), None, 0
        return task.prompt if self.tool_format else f"{usages(self.turn_spec.tools)}\n{task.prompt}"

    def state(self) -> str | None:
        """The task, the state of the world, where that is known, and what was said."""
        if self._user is not None:
            return f"{self.task.id}\x1f{self._user.key()}"
        if self._world is None or not self._world.knows_state:
            return None
        talked = "" if self._talk is None else self._talk.talked()
        return f"{self.task.id}\x1f{self._watch.spelled}\x1f{talked}"

    def carry_out(self, tool: Tool, arguments: Mapping[str, object], call: ToolCall) -> str:
        """Call the world, and record the result."""
        if tool.name in self._method_of:
            return super().carry_out(tool, arguments, call)
        world, before = self._present_world(), self._watch
        reply = world.call(tool, arguments, call)
        try:
            after = self._watch = before.saw(call, world.state(), violates=bool(reply.violations))
        except StateTooLarge as problem:  # caused by the agent's calls
            raise AgentFault(f"after {call.name}: {problem}") from problem
        except EnvError as problem:  # no call of the agent can cause such a value
            raise EnvError(f"after {call.name}: {problem}") from problem
        if not reply.ok:
            self.fail()
        writes = not tool.read_only if reply.wrote is None else reply.wrote
        self._note_call(call, before, after, writes=writes)
        for _ in reply.violations:
            self.record("policy_violation", True)
        for name, value in reply.facts.items():
            self.record(name, value)
        if reply.ends:
            self._task_answer = ""
            self.end()
        return storable(reply.text, self._max_chars)

    def act(self, action: Action) -> Outcome:
        """Carry out the calls of a turn; where a user leads, a turn without any is speech to the user."""
        self._malformed += bool(action.parse_error)
        self._before_turn = self._watch
        if self._user is None:
            return super().act(action)
        if not action.calls and not action.parse_error:
            return self._end_turn(self._user, action)
        outcome = super().act(action)
        return outcome if self._user.may_go_on() else replace(outcome, done=True)

    def changed(self) -> Iterable[Evidence]:
        """The results of the turn's calls, and how far the state is from the right one, where states are known."""
        before, after = self._before_turn, self._watch
        if len(after.made) > len(before.made):
            yield fact("n_calls", len(after.made) - len(before.made), self.turn)
            yield fact("n_solved", len(before.open) - len(after.open), self.turn)
        if self._present_world().knows_state:
            yield fact("distance", after.distance(), self.turn)

    def verify(self) -> Iterable[Evidence]:
        """Whether the goals hold, whether the frame was kept, and how the calls compare with the gold calls."""
        watch, gold = self._watch, self._watch.gold.calls
        for name, value in self._decisive().items():
            yield Evidence(name=name, value=value, by="verifier")
        yield Evidence(name="answered", value=self._task_answer is not None, by="verifier")
        if self._present_world().knows_state:
            yield Evidence(name="frame_kept", value=watch.frame_kept(), by="verifier")
        matched, made = len(gold) - len(watch.open), len(watch.made)
        yield Evidence(name="call_precision", value=matched / made if made else 0.0, by="verifier")
        yield Evidence(name="call_completeness", value=matched / len(gold) if gold else 1.0, by="verifier")
        quality = call_quality(watch.made, gold, malformed=self._malformed)
        yield Evidence(name="call_quality", value=quality, by="verifier")
        yield Evidence(name="calls", value=_listed(watch.made), by="verifier")
        yield Evidence(name="gold_calls", value=_listed(gold), by="verifier")
        yield Evidence(name="malformed", value=self._malformed, by="verifier")
        yield Evidence(name="unsolved", value=len(watch.open), by="verifier")
        for name, value in right_answers(watch.goals, self._task_answer).items():
            yield Evidence(name=name, value=value, by="verifier")

    def _decisive(self) -> Mapping[str, JSON]:
        """The facts that decide the episode; None where every condition that needs no judge holds."""
        if self._user is not None:
            return self._user.measured()
        watch, said = self._watch, self._task_answer
        solved = watch.solved(said)
        found: dict[str, JSON] = {"solved": None if solved and watch.undecided(said) else solved}
        return found | {"strictly_solved": watch.strictly_solved(said)} if watch.lenient else found

    def answer(self) -> str | None:
        """The agent's answer."""
        return self._task_answer

    def oracle(self, task: Task) -> Sequence[str]:
        """The gold calls, one in a turn, and the right answer."""
        world, asked = self._opened_for(task), ToolTask.of(task)
        if isinstance(world, LeadsTurns):
            return [line for calls in world.lines(asked.state or {}) for line in _served(calls, world.every)]
        tools = self._offered(world)
        said = ToolCall(name="answer", arguments={"text": text} if (text := gold_answer(asked.goals)) else {})
        return [_line(call, tools) for call in (*asked.calls, said)]

    def hint(self, task: Task, level: int) -> str | None:
        """1: which tools to use; 2: in which order, and with which arguments, but not their values."""
        calls = ToolTask.of(task).calls
        if level == 1:
            names = dict.fromkeys(call.name for call in calls)
            return f"Use {', '.join(names)}." if names else "No tool is needed."
        if level == 2 and calls:
            steps = (f"{call.name}({', '.join(call.arguments)})" for call in calls)
            return f"Call {', then '.join(steps)}."
        return None

    def outside(self, task: Task) -> str:
        """The outside source that answers in place of the task's world."""
        wanted = ToolTask.of(task).world
        part = self._named if wanted is None else _part(wanted)
        return "" if part is None else part.outside

    def marks(self, task: Task) -> Mapping[str, str]:
        """The gold calls with the state that they begin in, and the names of the tools that they use."""
        asked = ToolTask.of(task)
        whole: JSON = {"state": as_json(asked.state), "calls": _listed(asked.calls)}
        return {"gold calls": spelled(whole), "tools": " ".join(call.name for call in asked.calls)}

    def save(self) -> ToolUseState:
        return ToolUseState(
            task=self.task,
            turn=self.turn,
            shown=self.shown,
            world=self._present_world().save(),
            watch=self._watch,
            answer=self._task_answer,
            malformed=self._malformed,
            done=frozenset(self._done),
        )

    def load(self, saved: object) -> None:
        assert isinstance(saved, ToolUseState)
        world = self._world_of(saved.task)
        world.load(saved.world)
        if self._user is not None:
            self._offer(world)
        self.turn, self.shown, self._watch = saved.turn, saved.shown, saved.watch
        self._task_answer, self._malformed, self._done = saved.answer, saved.malformed, set(saved.done)

    def close(self) -> None:
        """Close the worlds."""
        self._leave()
        super().close()

    # --- its own tool -------------------------------------------------------------------------------------------------

    @tool(name="answer")
    def give_answer(self, text: str = "") -> str:
        """End the task, with the answer if one was asked for.

        Args:
            text: the answer alone, without a sentence around it
        """
        self._task_answer = text.strip()
        self.end()
        return "done"

    # --- worlds -------------------------------------------------------------------------------------------------------

    def _present_world(self) -> OpenWorld:
        if self._world is None:
            raise ConfigError('no tools are named, and the task brings none; write tools = "package.module"')
        return self._world

    def _world_of(self, task: Task) -> OpenWorld:
        """The world of a task, entered: its tools are offered."""
        return self._enter(self._opened_for(task))

    def _opened_for(self, task: Task) -> OpenWorld:
        """The world of a task: the one that it brings, else the environment's."""
        wanted = ToolTask.of(task).world
        part = self._named if wanted is None else _part(wanted)
        return self._present_world() if part is None else self._open(part)

    def _open(self, part: ToolWorld) -> OpenWorld:
        """Open a world, unless it is open."""
        key = json.dumps(part.model_dump(mode="json"), sort_keys=True)
        if key not in self._worlds:
            self._worlds[key] = part.open()
        return self._worlds[key]

    def _enter(self, world: OpenWorld) -> OpenWorld:
        """Offer the tools of a world."""
        if world is not self._world:
            self._world, self._user = world, world if isinstance(world, LeadsTurns) else None
            self._talk = world if isinstance(world, HoldsTalk) else None
            self._names = frozenset(one.name for one in self._user.every) if self._user else frozenset()
            self._offer(world)
        return world

    def _offer(self, world: OpenWorld) -> None:
        if world.tools is not self._offering:
            self._offering = world.tools
            facts = world.evidence if isinstance(world, DeclaresEvidence) else {}
            declared = {**(self._own_spec.evidence or {}), **facts}
            self.turn_spec = replace(self._own_spec, tools=self._offered(world), fork=world.fork, evidence=declared)

    def _offered(self, world: OpenWorld) -> tuple[Tool, ...]:
        """The tools of a world, their descriptions cut to ``doc_chars``, and ``answer`` unless the agent speaks to a
        user."""
        cut = [self._shortened(one) for one in world.tools]
        own = () if isinstance(world, LeadsTurns) else self._own_spec.tools
        return named_apart((*cut, *own), "the environment")

    def _shortened(self, one: Tool) -> Tool:
        """A tool with its description cut; made once, because its schema takes longer than a call."""
        if len(one.description) <= self._doc_chars:
            return one
        if id(one) not in self._cut:
            self._cut[id(one)] = one, replace(one, description=storable(one.description, self._doc_chars))
        return self._cut[id(one)][1]

    def _leave(self) -> None:
        worlds, self._world, self._user, self._talk = list(self._worlds.values()), None, None, None
        self._worlds.clear()
        for world in worlds:
            world.close()

    def _read(self, action: Action | str) -> Action:
        """Where a user leads, a text without a call is speech to the user, and not a failed call."""
        if self._user is not None and isinstance(action, str):
            return speech_action(action, self._names) or super()._read(action)
        return super()._read(action)

    def _end_turn(self, user: LeadsTurns, action: Action) -> Outcome:
        self.turn += 1
        self._forget()
        self.record("parsed", True)
        heard = user.end_turn()
        for name, value in heard.facts.items():
            self.record(name, value)
        self._task_answer, self.shown = action.text, heard.text
        self._offer(self._present_world())
        observation = Observation(text=heard.text, state_key=self._state_key())
        return Outcome(observation=observation, evidence=tuple(self._facts), done=heard.over)

    def _note_call(self, call: ToolCall, before: CallWatch, after: CallWatch, *, writes: bool) -> None:
        """Facts about one call of the world."""
        matched = len(after.open) < len(before.open)
        name, arguments, values = likeness(call, before.open)
        self.record("matched", matched)
        self.record("right_name", name)
        self.record("right_arguments", arguments)
        self.record("right_values", values)
        knows = self._present_world().knows_state
        wrote = bool(changes(before.state, after.state)) if knows else writes
        self.record("wrote", wrote)
        nearer = wrote and knows and after.distance() < before.distance()
        self.record("needless_write", wrote and not matched and not nearer)
        if wrote and not knows:
            self._done.clear()  # values read before may have changed


def _named(tools: ToolsLike, tasks: TasksLike, default: TasksLike) -> ToolWorld | None:
    """The world that an environment begins with: its tools, or those of its tasks; None: each task brings its own."""
    source = part_of(tasks, default, ToolUseEnv.__name__)
    own = source.world() if isinstance(source, ToolTaskSource) else None
    if tools is None:
        if own is None and isinstance(source, ToolTaskSource):
            raise ConfigError(f"'{source.type}' needs tools; write tools = \"package.module\", or a file")
        return own
    if own is not None:
        named = "its own tasks, which bring" if tasks is None else f"'{getattr(source, 'type', '')}', which brings"
        raise ConfigError(
            f"tools has no effect with {named} tools of their own; name tasks for your tools, or leave it out"
        )
    return _part(tools)


def _part(tools: ToolWorld | Mapping[str, object] | str) -> ToolWorld:
    """Raises ConfigError for a table that is no world of tools."""
    if isinstance(tools, str):
        return named_world(tools)
    data = {"tools": tools}
    try:
        return _ToolsArgument.model_validate(data).tools
    except ValidationError as error:
        raise ConfigError(one_line(error, _ToolsArgument, data)) from None


def _served(calls: Sequence[ToolCall], tools: Sequence[Tool]) -> list[str]:
    """The actions that serve one turn of a user: one call in each, or several where that would be too many turns."""
    if not calls:
        return ["I lack what that needs."]
    most = 1 if len(calls) <= 16 else ToolUseEnv.calls_per_turn
    parts = [calls[first : first + most] for first in range(0, len(calls), most)]
    lines = [_line(part[0], tools) if len(part) == 1 else TOOL_FORMATS["hermes"].write(part) for part in parts]
    return [*lines, "That is done."]


def _listed(calls: Sequence[ToolCall]) -> JSON:
    return [{"name": call.name, "arguments": dict(call.arguments)} for call in calls]


def _line(call: ToolCall, tools: Sequence[Tool]) -> str:
    """A call as a command line if it can be read as one, else as JSON."""
    line = TOOL_FORMATS["command_line"].write([call])
    try:
        same = parse(line, tools).calls == (call,)
    except UserError:
        same = False
    return line if same else TOOL_FORMATS["hermes"].write([call])
