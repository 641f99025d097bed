"""``turngate/CodeRepair-v1``: find and repair a bug in real code, in a sandbox, with a shell, a viewer and an editor.

The agent works in a private copy of the tree. When the episode ends, what it changed is taken out as texts and measured
in fresh sandboxes: tests that the agent never saw, as they ought to be, on a tree made anew (``grading/grade.py``).
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from turngate.envs.base import Outcome, TurnEnv, TurnSpec
from turngate.envs.code.diagnostics import Diagnoser
from turngate.envs.code.edits import BadEdit, apply_edit, read_edit
from turngate.envs.code.grading.bench import Bench, run_tests
from turngate.envs.code.grading.grade import Step, grade
from turngate.envs.code.grading.protect import sort_changes
from turngate.envs.code.lease import lease
from turngate.envs.code.observe import numbered, result_text, shorten, without_times
from turngate.envs.code.oracle import oracle_actions
from turngate.envs.code.problem import Problem, unified
from turngate.envs.code.rubric import RUBRIC
from turngate.envs.code.source import parses
from turngate.envs.code.sources import GeneratedCode, MeasuredSource
from turngate.envs.code.tools import INSTRUCTION, TOOLS
from turngate.envs.code.workspace import Saved, Workspace
from turngate.envs.sandbox import SandboxFileError
from turngate.envs.sandbox.base import normal
from turngate.envs.tasks import TasksLike, TaskSource, TaskSourcePart
from turngate.envs.tools import one_call
from turngate.errors import ConfigError, UnknownName
from turngate.types import Action, Evidence, Observation, Task, ToolCall

_LINES = re.compile(r"(?P<first>[1-9][0-9]{0,8})(?:\s*-\s*(?P<last>[0-9]{1,9}))?")


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """What an episode knows at one moment; for forks."""

    problem: Problem
    place: Saved
    turn: int
    submitted: bool
    steps: tuple[Step, ...]
    tested: str
    excess: float | None
    done: frozenset[str]


class CodeRepairEnv(TurnEnv):
    """Repair problems in a sandbox.

    ``tasks``: see ``sources.py``; generated problems unless others are named. ``backend``: where the agent's commands
    run, ``bubblewrap`` or ``docker``; ``sandbox``: its settings (``image`` of Docker) and limits (``memory_bytes``).
    ``deadline_s`` bounds each command, ``test_deadline_s`` each run of tests, ``max_chars`` each observation,
    ``view_lines`` what ``view`` shows at once. ``measure``: what the hidden tests are run on, the tree after every turn
    that changed it (``turns``), or the last one only (``end``). ``diagnostics``: tools whose findings are counted after
    every such turn, of ``ruff`` and ``ty``.

    Raises ConfigError for a setting that is out of range, and what ``TurnEnv`` and ``open_backend`` raise.
    """

    turn_spec = TurnSpec(
        tools=TOOLS,
        rubric=RUBRIC,
        max_turns=40,
        tasks=GeneratedCode(),
        deadline_s=120.0,
        fork="exact",
        extra="code",
        has_oracle=True,
    )

    def __init__(
        self,
        *,
        tasks: TasksLike = None,
        split: str | None = None,
        backend: Literal["bubblewrap", "docker"] = "bubblewrap",
        sandbox: Mapping[str, object] | None = None,
        max_turns: int | None = None,
        deadline_s: float = 30.0,
        test_deadline_s: float = 60.0,
        max_chars: int = 10_000,
        view_lines: int = 200,
        measure: Literal["turns", "end"] = "turns",
        diagnostics: Sequence[str] = (),
    ) -> None:
        for name, value, least in (
            ("deadline_s", deadline_s, 0.1),
            ("test_deadline_s", test_deadline_s, 0.1),
            ("max_chars", max_chars, 200),
            ("view_lines", view_lines, 1),
        ):
            if value < least:
                raise ConfigError(f"{name} is {value}; it must be at least {least}")
        if measure not in ("turns", "end"):
            raise UnknownName("value of measure", measure, ["turns", "end"])
        self._diagnoser = Diagnoser(tuple(diagnostics)) if diagnostics else None
        self._lease = lease(backend, test_deadline_s, sandbox or {})
        try:
            super().__init__(tasks=tasks, split=split, max_turns=max_turns)
        except BaseException:
            self._lease.close()
            raise
        self._max_chars, self._view_lines, self._deadline_s = max_chars, view_lines, deadline_s
        self._each = measure == "turns"
        self._handlers: Mapping[str, Callable[[Mapping[str, Any]], Outcome]] = {
            "bash": self._bash,
            "view": self._view,
            "edit": self._edit,
            "search": self._search,
            "run_tests": self._run_tests,
            "submit": self._submit,
        }
        self._place: Workspace | None = None
        self._steps: list[Step] = []
        self._done: set[str] = set()
        self._excess: float | None = 0.0
        self._clear()

    def open_tasks(self, part: TaskSourcePart) -> TaskSource:
        """Problems are measured where they will be graded."""
        return part.open(self._bench) if isinstance(part, MeasuredSource) else part.open()

    def start(self, task: Task, rng: np.random.Generator) -> Observation:
        """Put the tree in place and say what is wrong with it."""
        self._leave()
        self._clear()
        self._problem = Problem.of(task)
        self._place = Workspace(self._bench, self._problem)
        self._key = self._place.state_key
        return self._observe(f"{INSTRUCTION}\n{task.prompt}")

    def act(self, action: Action) -> Outcome:
        """Carry out one tool call."""
        self._turn += 1
        with self._here.blame():
            call = one_call(action, TOOLS)
            return self._misread(call) if isinstance(call, str) else self._carry_out(call)

    def _carry_out(self, call: ToolCall) -> Outcome:
        key = f"{self._here.state_key}\x1f{call.name}\x1f{sorted(call.arguments.items())}"
        repeated = key in self._done
        self._done.add(key)
        try:
            outcome = self._handlers[call.name](call.arguments)
        except SandboxFileError as error:  # such as a work folder that the agent has closed to itself
            outcome = self._failed(str(error))
        facts = [self._fact("parsed", True), self._fact("tool", call.name), self._fact("repeated", repeated)]
        return Outcome(
            observation=outcome.observation, evidence=(*facts, *outcome.evidence, *self._changed()), done=outcome.done
        )

    def verify(self) -> Iterable[Evidence]:
        """Run the hidden tests on what the agent changed, and on the way there."""
        yield from grade(
            self._bench,
            self._problem,
            self._steps,
            submitted=self._submitted,
            existed=frozenset(self._here.found),
            each=self._each,
        )

    def answer(self) -> str | None:
        """The diff of what the agent changed, without what is never measured (see ``sort_changes``)."""
        with self._here.blame():
            changed = self._here.changes().texts
        repair = sort_changes(changed, self._problem, frozenset(self._here.found)).repair
        diff = (unified(path, self._problem.original(path), text) for path, text in sorted(repair.items()))
        return "".join(diff) or None

    def oracle(self, task: Task) -> Sequence[str]:
        """Look at the files of the reference repair, make its changes, run the tests, submit."""
        return oracle_actions(Problem.of(task))

    def save(self) -> World:
        """See ``TurnEnv.save``."""
        return World(
            problem=self._problem,
            place=self._here.save(),
            turn=self._turn,
            submitted=self._submitted,
            steps=tuple(self._steps),
            tested=self._tested,
            excess=self._excess,
            done=frozenset(self._done),
        )

    def load(self, saved: object) -> None:
        """See ``TurnEnv.load``."""
        assert isinstance(saved, World)
        self._leave()
        self._problem, self._turn, self._submitted = saved.problem, saved.turn, saved.submitted
        self._steps, self._tested = list(saved.steps), saved.tested
        self._excess, self._done = saved.excess, set(saved.done)
        self._place = Workspace(self._bench, self._problem, saved.place)
        self._key = self._place.state_key

    def close(self) -> None:
        """End the sandbox, and the back end with the last environment that uses it."""
        self._leave()
        self._lease.close()
        super().close()

    # --- tools --------------------------------------------------------------------------------------------------------

    def _bash(self, arguments: Mapping[str, Any]) -> Outcome:
        result = self._here.bash(str(arguments["command"]), deadline_s=self._deadline_s)
        facts = [self._fact("call_ok", result.killed_by is None), self._fact("exit", result.exit)]
        return Outcome(observation=self._observe(result_text(result, self._max_chars)), evidence=tuple(facts))

    def _view(self, arguments: Mapping[str, Any]) -> Outcome:
        path = normal(str(arguments["path"]).strip())
        first, last = 1, self._view_lines
        if lines := str(arguments.get("lines") or "").strip():
            bounds = _LINES.fullmatch(lines)
            if bounds is None or int(bounds["last"] or bounds["first"]) < int(bounds["first"]):
                return self._failed(f"lines is '{lines[:20]}'; write for instance 10-40, counted from 1")
            first = int(bounds["first"])
            last = int(bounds["last"] or first + self._view_lines - 1)
        try:
            text = self._folder(path) or self._text(path, first, min(last, first + self._view_lines - 1))
        except SandboxFileError as error:
            return self._failed(str(error))
        return self._ok(text)

    def _folder(self, path: str) -> str:
        """The listing of a folder; "" if it is none."""
        try:
            entries = self._here.sandbox.list(path)
        except SandboxFileError:
            return ""
        names = [entry.name + ("/" if entry.kind == "folder" else "") for entry in entries]
        return shorten("\n".join(names), self._max_chars) or "[empty]"

    def _text(self, path: str, first: int, last: int) -> str:
        content = self._here.read(path)
        if b"\0" in content:
            return f"[binary file of {len(content)} bytes]"
        return numbered(content.decode(errors="replace"), first, last, self._max_chars)

    def _edit(self, arguments: Mapping[str, Any]) -> Outcome:
        path = normal(str(arguments["path"]).strip())
        try:
            edit = read_edit(arguments)
            before = self._current(path)
            after, line = apply_edit(edit, before, path)
            self._here.write(path, after)
        except (BadEdit, SandboxFileError) as error:
            return self._failed(str(error), self._fact("edit_applied", False))
        shown = after.splitlines()[line - 1 : line - 1 + max(1, edit.new.count("\n"))][:10]
        said = "\n".join(f"{number} {text}" for number, text in enumerate(shown, line))
        return self._ok(shorten(f"edited {path}\n{said}", self._max_chars), self._fact("edit_applied", True))

    def _current(self, path: str) -> str | None:
        if path not in self._here.tree():
            return None
        try:
            return self._here.read(path).decode()
        except UnicodeDecodeError:
            raise BadEdit(f"'{path}' is not UTF-8 text; change it with a command") from None

    def _search(self, arguments: Mapping[str, Any]) -> Outcome:
        path = normal(str(arguments.get("path") or ".").strip())
        argv = ["grep", "-rnHIE", "--exclude-dir=.git", "--exclude-dir=__pycache__", "-e", str(arguments["pattern"])]
        result = self._here.sandbox.run([*argv, "--", path], deadline_s=self._deadline_s)
        if result.exit == 1 and not result.stdout:
            return self._ok("no matches")
        if result.exit > 1:
            return self._failed(result_text(result, self._max_chars))
        lines = sorted(result.stdout.decode(errors="replace").splitlines(), key=_place_of_match)
        return self._ok(shorten("\n".join(lines), self._max_chars))

    def _run_tests(self, arguments: Mapping[str, Any]) -> Outcome:
        wanted = str(arguments.get("tests") or "").split()
        if any(word.startswith("-") for word in wanted):
            return self._failed("options cannot be given; name test files or ids, or nothing for all")
        tests = tuple(map(normal, wanted)) or self._visible_tests()
        if not tests:
            return self._failed("there are no tests in the work folder")
        self._tested = self._here.state_key
        output = self._test_output(tests)
        return self._ok(shorten(output.strip() or "[no output]", self._max_chars), self._fact("ran_tests", True))

    def _visible_tests(self) -> tuple[str, ...]:
        return tuple(path for path in self._problem.test_files if path in self._here.tree())

    def _test_output(self, tests: tuple[str, ...]) -> str:
        """What the runner writes. As long as no program of the agent has run, it follows from the tree alone."""
        place, outputs = self._here, self._bench.outputs
        if not place.quiet:
            return self._run_tests_here(tests)
        key = (self._problem.id, place.state_key, tests)
        with outputs.alone(key):
            output = outputs.get(key)
            if output is None:
                output = self._run_tests_here(tests)
                place.quiet = place.state_key == key[1]  # the tests changed nothing
                if place.quiet:
                    outputs.put(key, output)
            return output

    def _run_tests_here(self, tests: tuple[str, ...]) -> str:
        self._here.touched()
        report = run_tests(self._here.sandbox, self._problem, tests, deadline_s=self._bench.deadline_s)
        self._here.touched()
        return without_times(report.output) + (f"\n[{report.problem}]" if report.problem else "")

    def _submit(self, arguments: Mapping[str, Any]) -> Outcome:
        self._submitted = True
        tested = self._tested == self._here.state_key
        return Outcome(
            observation=self._observe("submitted"),
            evidence=(self._fact("call_ok", True), self._fact("submitted_untested", not tested)),
            done=True,
        )

    # --- facts --------------------------------------------------------------------------------------------------------

    def _ok(self, text: str, *facts: Evidence) -> Outcome:
        return Outcome(observation=self._observe(text), evidence=(self._fact("call_ok", True), *facts))

    def _failed(self, problem: str, *facts: Evidence) -> Outcome:
        text = shorten(f"error: {problem}", self._max_chars)
        return Outcome(observation=self._observe(text), evidence=(self._fact("call_ok", False), *facts))

    def _misread(self, problem: str) -> Outcome:
        return Outcome(observation=self._observe(f"error: {problem}"), evidence=(self._fact("parsed", False),))

    def _changed(self) -> list[Evidence]:
        """Facts about the tree, if it is another one than before this turn."""
        if self._here.state_key == self._key:
            return []
        self._key = self._here.state_key
        changes = self._here.changes()
        self._steps.append(Step(turn=self._turn, changes=changes))
        modules = {path: text for path, text in changes.texts.items() if text is not None and path.endswith(".py")}
        facts = [self._fact("syntax_ok", all(map(parses, modules.values())))]
        if self._diagnoser is not None:
            facts += self._diagnose(self._diagnoser, modules)
        return facts

    def _diagnose(self, diagnoser: Diagnoser, modules: Mapping[str, str]) -> list[Evidence]:
        """What the tools find in the changed files, and how much more than a turn ago; None = unknown."""
        before = diagnoser.measure({path: self._problem.original(path) for path in modules})
        found, previous = diagnoser.measure(modules), self._excess
        self._excess = None if found is None or before is None else found.weighted - before.weighted
        delta = None if self._excess is None or previous is None else self._excess - previous
        counts = None if found is None else found.to_json()
        return [self._fact("diagnostics", counts), self._fact("diagnostics_delta", delta)]

    def _fact(self, name: str, value: Any) -> Evidence:
        return Evidence(name=name, value=value, turn=self._turn)

    def _observe(self, text: str) -> Observation:
        """Names of files need not be UTF-8, observations have to be. The key: the problem and its tree."""
        key = f"{self._problem.id}\x1f{self._here.state_key}"
        state_key = hashlib.blake2b(key.encode(), digest_size=8).hexdigest()
        return Observation(text=text.encode(errors="replace").decode(), state_key=state_key)

    # --- bookkeeping --------------------------------------------------------------------------------------------------

    @property
    def _bench(self) -> Bench:
        return self._lease.bench

    @property
    def _here(self) -> Workspace:
        assert self._place is not None
        return self._place

    def _clear(self) -> None:
        self._turn, self._submitted, self._excess = -1, False, 0.0
        self._steps, self._done = [], set()
        self._tested = self._key = ""

    def _leave(self) -> None:
        if self._place is not None:
            self._place.close()
            self._place = None


def _place_of_match(line: str) -> tuple[str, int]:
    path, _, rest = line.partition(":")
    number = rest.partition(":")[0]
    return path, int(number) if number.isdigit() else 0
