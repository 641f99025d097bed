"""``turngate/CodeRepair-v1``: find and repair a bug in real code, in a sandbox, with a shell, a viewer and an editor.

The agent works in a private copy of the tree. When the episode ends, what it changed is taken out as texts and measured
in fresh sandboxes: tests that the agent never saw, as they ought to be, on a tree made anew (``grade.py``).
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal

import numpy as np

from turngate.envs.base import Outcome, TurnEnv, TurnSpec
from turngate.envs.code.bench import Bench, run_tests
from turngate.envs.code.edits import BadEdit, apply_edit, read_edit
from turngate.envs.code.grade import Step, grade, parses
from turngate.envs.code.lease import lease
from turngate.envs.code.observe import numbered, result_text, shorten, without_times
from turngate.envs.code.oracle import oracle_actions
from turngate.envs.code.problem import Problem
from turngate.envs.code.rubric import RUBRIC
from turngate.envs.code.tools import INSTRUCTION, TOOLS
from turngate.envs.code.workspace import Saved, Workspace, inside
from turngate.envs.sandbox import SandboxFileError
from turngate.envs.tasks import TaskSource
from turngate.errors import ConfigError, EnvError, UnknownName
from turngate.types import Action, Evidence, Observation, Task

GENERATOR_DEFAULTS: Mapping[str, object] = {"families": None, "held_out_families": None, "max_level": 3}


class CodeRepairEnv(TurnEnv):
    """Repair problems in a sandbox.

    ``tasks`` is "generated" (``families``, ``held_out_families`` and ``max_level`` shape them) or a source: a folder
    that ``turngate tasks code`` made, as a path, or what ``loaders`` and ``taskset`` return. ``backend``: where the
    agent's commands run, ``bubblewrap`` or ``docker``; ``sandbox``: its settings (``image`` of Docker) and limits
    (``memory_bytes``). ``deadline_s`` bounds each command, ``test_deadline_s`` each run
    of tests, ``max_chars`` each observation, ``view_lines`` what ``view`` shows at once. ``measure``: run the hidden
    tests after every turn that changed the tree (``turns``), or only at the end. ``diagnostics``: language servers
    whose findings are counted after every such turn, of ``ruff`` and ``ty``.

    Raises ConfigError for a setting that is out of range or has no effect, UnknownName for an unknown split or kind of
    tasks, and what ``open_backend`` raises.
    """

    turn_spec = TurnSpec(
        tools=TOOLS, rubric=RUBRIC, max_turns=40, deadline_s=120.0, fork="exact", side_effects="none", extra="code",
        has_oracle=True,
    )  # fmt: skip

    def __init__(
        self,
        *,
        tasks: TaskSource | str = "generated",
        split: str | None = None,
        families: Sequence[str] | None = None,
        held_out_families: Sequence[str] | None = None,
        max_level: int = 3,
        backend: Literal["bubblewrap", "docker"] = "bubblewrap",
        sandbox: Mapping[str, Any] | None = None,
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
        settings = {"families": families, "held_out_families": held_out_families, "max_level": max_level}
        source = _source(tasks, settings)
        if not source.splits:
            raise ConfigError("the task source holds no tasks; a loader lists in .dropped why it could keep none")
        super().__init__(tasks=source, split=source.splits[0] if split is None else split, max_turns=max_turns)
        self._max_chars, self._view_lines, self._deadline_s = max_chars, view_lines, deadline_s
        self._each = measure == "turns"
        self._lease = lease(backend, test_deadline_s, tuple(diagnostics), sandbox or {})
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
        if action.parse_error is not None:
            return self._misread(action.parse_error)
        if len(action.calls) != 1:
            return self._misread(f"{len(action.calls)} tool calls in one turn, none was carried out; write exactly one")
        call = action.calls[0]
        handler = self._handlers.get(call.name)
        if handler is None:
            return self._misread(f"unknown tool '{call.name[:40]}'")
        key = f"{self._here.state_key}\x1f{call.name}\x1f{sorted(call.arguments.items())}"
        repeated = key in self._done
        self._done.add(key)
        outcome = handler(call.arguments)
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

    def oracle(self, task: Task) -> Sequence[str]:
        """Look at the files of the reference repair, make its changes, run the tests, submit."""
        return oracle_actions(Problem.of(task))

    def save(self) -> Any:
        """See ``TurnEnv.save``."""
        return (
            self._problem, self._here.save(), self._turn, self._submitted, tuple(self._steps), self._tested,
            self._excess, frozenset(self._done),
        )  # fmt: skip

    def load(self, saved: Any) -> None:
        """See ``TurnEnv.load``."""
        self._leave()
        place: Saved
        self._problem, place, self._turn, self._submitted, steps, self._tested, self._excess, done = saved
        self._steps, self._done = list(steps), set(done)
        self._place = Workspace(self._bench, self._problem, place)
        self._key = self._place.state_key

    def close(self) -> None:
        """End the sandbox, and the back end with the last environment that uses it."""
        self._leave()
        self._lease.close()
        super().close()

    # --- tools --------------------------------------------------------------------------------------------------------

    def _bash(self, arguments: Mapping[str, Any]) -> Outcome:
        command = str(arguments["command"])
        if "\0" in command:
            return self._failed("the command contains a NUL byte; remove it")
        result = self._here.bash(command, deadline_s=self._deadline_s)
        facts = [self._fact("call_ok", result.killed_by is None), self._fact("exit", result.exit)]
        return Outcome(observation=self._observe(result_text(result, self._max_chars)), evidence=tuple(facts))

    def _view(self, arguments: Mapping[str, Any]) -> Outcome:
        path = inside(str(arguments["path"]))
        first, last = 1, self._view_lines
        if lines := str(arguments.get("lines") or "").strip():
            bounds = lines.split("-")
            if len(bounds) > 2 or not all(bound.strip().isdigit() for bound in bounds) or int(bounds[0]) < 1:
                return self._failed(f"lines is '{lines[:20]}'; write for instance 10-40, counted from 1")
            first = int(bounds[0])
            last = int(bounds[1]) if len(bounds) == 2 else first + self._view_lines - 1
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
        path = inside(str(arguments["path"]))
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
        path = inside(str(arguments.get("path") or "."))
        argv = ["grep", "-rnHIE", "--exclude-dir=.git", "--exclude-dir=__pycache__", "-e", str(arguments["pattern"])]
        if "\0" in "".join([*argv, path]):
            return self._failed("the pattern contains a NUL byte; remove it")
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
        tests = tuple(map(inside, wanted)) or self._visible_tests()
        if not tests:
            return self._failed("there are no tests in the work folder")
        self._tested = self._here.state_key
        output = self._test_output(tests)
        return self._ok(shorten(output.strip() or "[no output]", self._max_chars), self._fact("ran_tests", True))

    def _visible_tests(self) -> tuple[str, ...]:
        return tuple(path for path in self._problem.test_files if path in self._here.tree())

    def _test_output(self, tests: tuple[str, ...]) -> str:
        """What the runner writes. As long as no program of the agent has run, it follows from the tree alone."""
        place = self._here
        key = (self._problem.id, place.state_key, tests) if place.quiet else None
        known = self._bench.outputs.get(key) if key is not None else None
        if known is None:
            report = run_tests(place.sandbox, self._problem, tests, deadline_s=self._bench.deadline_s)
            known = without_times(report.output) + (f"\n[{report.problem}]" if report.problem else "")
            was_quiet = place.quiet
            place.touched()
            if key is not None and was_quiet and place.state_key == key[1]:
                place.quiet = True  # the tests changed nothing
                self._bench.outputs.put(key, known)
        return known

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
        if self._lease.diagnoser is not None:
            facts += self._diagnose(modules)
        return facts

    def _diagnose(self, modules: Mapping[str, str]) -> list[Evidence]:
        """What the language servers find in the changed files, and how much more than a turn ago; None = unknown.

        A file can be such that a server does not come to an end with it, so that is no fault of the environment.
        """
        assert self._lease.diagnoser is not None
        try:
            before = self._lease.diagnoser.measure({path: self._problem.original(path) for path in modules}).weighted()
            found = self._lease.diagnoser.measure(modules)
        except EnvError:
            self._excess = None
            return [self._fact("diagnostics", None), self._fact("diagnostics_delta", None)]
        now, previous = found.weighted(), self._excess
        self._excess = None if now is None or before is None else now - before
        delta = None if self._excess is None or previous is None else self._excess - previous
        return [self._fact("diagnostics", found.to_json()), self._fact("diagnostics_delta", delta)]

    def _fact(self, name: str, value: Any) -> Evidence:
        return Evidence(name=name, value=value, turn=self._turn)

    def _observe(self, text: str) -> Observation:
        return Observation(text=text, state_key=self._state())

    def _state(self) -> str:
        """The tree, and whether the episode is over: equal keys, equal worlds."""
        key = self._here.state_key
        return hashlib.blake2b(f"{self._problem.id}\x1f{key}".encode(), digest_size=8).hexdigest()

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


def _source(tasks: TaskSource | str, settings: Mapping[str, object]) -> TaskSource:
    changed = sorted(name for name, value in settings.items() if value != GENERATOR_DEFAULTS[name])
    if tasks != "generated" and changed:
        raise ConfigError(f"settings {changed} shape generated tasks and have no effect on other ones; leave them out")
    if not isinstance(tasks, str):
        return tasks
    if tasks == "generated":
        from turngate.envs.code.generate import GeneratedCode

        return GeneratedCode(**settings)  # type: ignore[arg-type]
    from turngate.envs.code.taskset import read

    return read(tasks)
