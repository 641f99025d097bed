"""``turngate/CodeRepair-v1``: find and repair a bug in real code, in a sandbox, with a shell, a viewer and an editor.

The agent works in a private copy of the tree. When the episode ends, its changes are taken out as texts and measured in
fresh sandboxes: tests that the agent never saw, in their original form, on a tree made from scratch
(``grading/grade.py``).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from turngate.envs.base import Outcome, TurnSpec
from turngate.envs.code.engine.diagnostics import Diagnoser
from turngate.envs.code.engine.edits import BadEdit, apply_edit, read_edit
from turngate.envs.code.engine.observe import number_lines, result_text, shorten, without_times
from turngate.envs.code.engine.shared_sandbox import lease
from turngate.envs.code.engine.workspace import Saved, Workspace
from turngate.envs.code.facts import EVIDENCE, compared, declared, diffs
from turngate.envs.code.grading.grade import TreeChange, grade
from turngate.envs.code.grading.grading_sandbox import Bench, run_tests
from turngate.envs.code.grading.protect import sort_changes
from turngate.envs.code.hints import added_text
from turngate.envs.code.oracle import oracle_actions
from turngate.envs.code.problem import Problem, Texts
from turngate.envs.code.rubric import RUBRIC
from turngate.envs.code.source import parses
from turngate.envs.code.sources import GeneratedCode, MeasuredSource
from turngate.envs.tasks import TasksLike, TaskSource, TaskSourcePart
from turngate.envs.tool_env import ToolEnv, ToolError
from turngate.errors import ConfigError, UnknownName
from turngate.sandbox import SandboxFileError
from turngate.sandbox.base import normal
from turngate.tools.tool import tool
from turngate.types import Action, Evidence, Task

GOAL = "Repair the code, not its tests. One tool per turn"
COMMANDS = ": bash COMMAND | view PATH [LINES] | edit PATH OLD => NEW | search PATTERN | run_tests [TESTS] | submit"
_LINES = re.compile(r"(?P<first>[1-9][0-9]{0,8})(?:\s*-\s*(?P<last>[0-9]{1,9}))?")


@dataclass(frozen=True, slots=True, kw_only=True)
class RepairState:
    """The state of an episode at one moment; for forks."""

    problem: Problem
    place: Saved
    turn: int
    submitted: bool
    opened: frozenset[str]
    steps: tuple[TreeChange, ...]
    tested: str
    excess: float | None
    done: frozenset[str]


class CodeRepairEnv(ToolEnv):
    """Repair problems in a sandbox.

    ``tasks``: see ``sources.py``; generated problems unless others are named. ``backend``: where the agent's commands
    run, ``bubblewrap`` or ``docker``; ``sandbox``: its settings (``image`` of Docker) and limits (``memory_bytes``).
    ``deadline_s`` bounds each command, ``test_deadline_s`` each run of tests, ``max_chars`` each observation,
    ``view_lines`` what ``view`` shows at once. ``measure``: the trees that the hidden tests are run on, that after
    every turn that changed it (``turns``), or the last one only (``end``). ``diagnostics``: tools whose findings are
    counted after every such turn, of ``ruff`` and ``ty``.

    Raises ConfigError for a setting that is out of range, and what ``TurnEnv`` and ``open_backend`` raise.
    """

    turn_spec = TurnSpec(
        rubric=RUBRIC,
        max_turns=40,
        tasks=GeneratedCode(),
        deadline_s=120.0,
        fork="exact",
        extra="code",
        has_oracle=True,
        hint_levels=4,
        evidence=EVIDENCE,
    )
    refusals = (ToolError, SandboxFileError, BadEdit)

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
        evidence = declared(self.turn_spec.evidence, each=self._each, diagnosed=self._diagnoser is not None)
        self.turn_spec = replace(self.turn_spec, evidence=evidence)
        self._place: Workspace | None = None
        self._steps: list[TreeChange] = []
        self._excess: float | None = 0.0
        self._clear()

    def open_tasks(self, part: TaskSourcePart) -> TaskSource:
        """Problems are measured where they will be graded."""
        return part.open(self._bench) if isinstance(part, MeasuredSource) else part.open()

    def begin(self, task: Task) -> str:
        """Put the tree in place and state the problem."""
        self._leave()
        self._clear()
        self._problem = Problem.of(task)
        self._place = Workspace(self._bench, self._problem)
        self._key = self._place.state_key
        return f"{GOAL}{'' if self.tool_format else COMMANDS}.\n{task.prompt}"

    def state(self) -> str:
        """The problem and its tree."""
        return f"{self._problem.id}\x1f{self._here.state_key}"

    def present(self, text: str) -> str:
        """Names of files need not be UTF-8, observations have to be."""
        return text.encode(errors="replace").decode()

    def refusal(self, problem: str) -> str:
        """Within ``max_chars``."""
        return shorten(f"error: {problem}", self._max_chars)

    def act(self, action: Action) -> Outcome:
        """Carry out one tool call."""
        with self._here.blame():
            return super().act(action)

    def verify(self) -> Iterable[Evidence]:
        """Run the hidden tests on the agent's changes, and on the trees of its turns."""
        yield from grade(
            self._bench,
            self._problem,
            self._steps,
            submitted=self._submitted,
            existed=frozenset(self._here.found),
            each=self._each,
        )
        yield from compared(self._problem, self._repair(), self._files_opened, submitted=self._submitted)

    def answer(self) -> str | None:
        """The diff of the agent's changes, without the files that are never measured (see ``sort_changes``)."""
        return "".join(diffs(self._problem, self._repair()).values()) or None

    def _repair(self) -> Texts:
        with self._here.blame():
            changed = self._here.changes().texts
        return sort_changes(changed, self._problem, frozenset(self._here.found)).repair

    def oracle(self, task: Task) -> Sequence[str]:
        """Look at the files of the reference repair, make its changes, run the tests, submit."""
        return oracle_actions(Problem.of(task))

    def secrets(self, task: Task) -> Sequence[str]:
        """The text of the reference repair, where it changes one place only."""
        return added_text(Problem.of(task).patch)

    def save(self) -> RepairState:
        return RepairState(
            problem=self._problem,
            place=self._here.save(),
            turn=self.turn,
            submitted=self._submitted,
            opened=frozenset(self._files_opened),
            steps=tuple(self._steps),
            tested=self._tested,
            excess=self._excess,
            done=frozenset(self._done),
        )

    def load(self, saved: object) -> None:
        assert isinstance(saved, RepairState)
        self._leave()
        self._problem, self.turn, self._submitted = saved.problem, saved.turn, saved.submitted
        self._steps, self._tested = list(saved.steps), saved.tested
        self._files_opened = set(saved.opened)
        self._excess, self._done = saved.excess, set(saved.done)
        self._place = Workspace(self._bench, self._problem, saved.place)
        self._key = self._place.state_key

    def close(self) -> None:
        """End the sandbox, and the back end with the last environment that uses it."""
        self._leave()
        self._lease.close()
        super().close()

    # --- tools --------------------------------------------------------------------------------------------------------

    @tool
    def bash(self, command: str) -> str:
        """Run a command in a shell that stays: working directory, variables and functions persist."""
        result = self._here.bash(command, deadline_s=self._deadline_s)
        if result.killed_by is not None:
            self.fail()
        self.record("exit", result.exit)
        return result_text(result, self._max_chars)

    @tool
    def view(self, path: str, lines: str = "") -> str:
        """Show a file with line numbers, or what lies in a folder.

        Args:
            lines: for instance 10-40
        """
        path = normal(path.strip())
        first, last = 1, self._view_lines
        if lines := lines.strip():
            bounds = _LINES.fullmatch(lines)
            if bounds is None or int(bounds["last"] or bounds["first"]) < int(bounds["first"]):
                raise ToolError(f"lines is '{lines[:20]}'; write for instance 10-40, counted from 1")
            first = int(bounds["first"])
            last = int(bounds["last"] or first + self._view_lines - 1)
        return self._folder(path) or self._text(path, first, min(last, first + self._view_lines - 1))

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
        self._files_opened.add(path)
        if b"\0" in content:
            return f"[binary file of {len(content)} bytes]"
        return number_lines(content.decode(errors="replace"), first, last, self._max_chars)

    @tool
    def edit(
        self,
        path: str,
        change: str = "",
        *,
        old: str | None = None,
        new: str | None = None,
        line: str | int | None = None,
    ) -> str:
        """Change a file: replace a piece that occurs once (old, new), insert after a line (line, new), or make a file
        (new). As a command: OLD => NEW, or +LINE TEXT, or a block <<<<<<< OLD ======= NEW >>>>>>>.

        Args:
            change: the change in the form of a command
        """
        path = normal(path.strip())
        try:
            wanted = read_edit(change=change, old=old, new=new, line=line)
            before = self._current(path)
            after, number = apply_edit(wanted, before, path)
            self._here.write(path, after)
        except (BadEdit, SandboxFileError):
            self.record("edit_applied", False)
            raise
        self.record("edit_applied", True)
        shown = after.splitlines()[number - 1 : number - 1 + max(1, wanted.new.count("\n"))][:10]
        said = "\n".join(f"{place} {text}" for place, text in enumerate(shown, number))
        return shorten(f"edited {path}\n{said}", self._max_chars)

    def _current(self, path: str) -> str | None:
        if path not in self._here.tree():
            return None
        try:
            return self._here.read(path).decode()
        except UnicodeDecodeError:
            raise BadEdit(f"'{path}' is not UTF-8 text; change it with a command") from None

    @tool
    def search(self, pattern: str, *, path: str = ".") -> str:
        """Search all files for an extended regular expression.

        Args:
            path: a file or folder, default: all
        """
        argv = [
            "grep",
            "-rnHIE",
            "--exclude-dir=.git",
            "--exclude-dir=__pycache__",
            "-e",
            pattern,
            "--",
            normal(path.strip() or "."),
        ]
        result = self._here.sandbox.run(argv, deadline_s=self._deadline_s)
        if result.exit == 1 and not result.stdout:
            return "no matches"
        if result.exit > 1:
            raise ToolError(result_text(result, self._max_chars))
        found = sorted(result.stdout.decode(errors="replace").splitlines(), key=_place_of_match)
        return shorten("\n".join(found), self._max_chars)

    @tool
    def run_tests(self, tests: str = "") -> str:
        """Run tests, all or those named.

        Args:
            tests: test files or ids
        """
        wanted = tests.split()
        if any(word.startswith("-") for word in wanted):
            raise ToolError("options cannot be given; name test files or ids, or nothing for all")
        chosen = tuple(map(normal, wanted)) or self._visible_tests()
        if not chosen:
            raise ToolError("there are no tests in the work folder")
        self._tested = self._here.state_key
        output = self._test_output(chosen)
        self.record("ran_tests", True)
        return shorten(output.strip() or "[no output]", self._max_chars)

    @tool
    def submit(self) -> str:
        """Hand in the work folder as it is. Ends the episode."""
        self._submitted = True
        self.record("submitted_untested", self._tested != self._here.state_key)
        self.end()
        return "submitted"

    def _visible_tests(self) -> tuple[str, ...]:
        return tuple(path for path in self._problem.test_files if path in self._here.tree())

    def _test_output(self, tests: tuple[str, ...]) -> str:
        """The output of the runner. As long as no program of the agent has run, it follows from the tree alone."""
        place, outputs = self._here, self._bench.outputs
        if not place.quiet:
            return self._run_tests_here(tests)
        key = (self._problem.id, place.state_key, tests)
        with outputs.reserve(key):
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

    # --- facts --------------------------------------------------------------------------------------------------------

    def changed(self) -> Iterator[Evidence]:
        """Facts about the tree, if this turn changed it."""
        if self._here.state_key == self._key:
            return
        self._key = self._here.state_key
        changes = self._here.changes()
        self._steps.append(TreeChange(turn=self.turn, changes=changes))
        modules = {path: text for path, text in changes.texts.items() if text is not None and path.endswith(".py")}
        yield self._fact("syntax_ok", all(map(parses, modules.values())))
        if self._diagnoser is not None:
            yield from self._diagnose(self._diagnoser, modules)

    def _diagnose(self, diagnoser: Diagnoser, modules: Mapping[str, str]) -> list[Evidence]:
        """The tools' findings in the changed files, and how many more than a turn ago; None = unknown."""
        before = diagnoser.measure({path: self._problem.original(path) for path in modules})
        found, previous = diagnoser.measure(modules), self._excess
        self._excess = None if found is None or before is None else found.weighted - before.weighted
        delta = None if self._excess is None or previous is None else self._excess - previous
        counts = None if found is None else found.to_json()
        return [self._fact("diagnostics", counts), self._fact("diagnostics_delta", delta)]

    def _fact(self, name: str, value: Any) -> Evidence:
        return Evidence(name=name, value=value, turn=self.turn)

    # --- bookkeeping --------------------------------------------------------------------------------------------------

    @property
    def _bench(self) -> Bench:
        return self._lease.bench

    @property
    def _here(self) -> Workspace:
        assert self._place is not None
        return self._place

    def _clear(self) -> None:
        self._submitted, self._excess = False, 0.0
        self._files_opened = set[str]()
        self._steps = []
        self._tested = self._key = ""

    def _leave(self) -> None:
        if self._place is not None:
            self._place.close()
            self._place = None


def _place_of_match(line: str) -> tuple[str, int]:
    path, _, rest = line.partition(":")
    number = rest.partition(":")[0]
    return path, int(number) if number.isdigit() else 0
