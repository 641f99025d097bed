"""A run as plain JSON: its settings, its course, its alarms, its cost, and a row for each episode.

Whatever cannot be read is named in ``problems``, and the rest is shown: a run may be at work, broken or older.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import NamedTuple, TypeVar

from turngate.config.run_config import Config, load_run
from turngate.config.sections import WarmStart
from turngate.errors import TurngateError
from turngate.jsonl import read_text
from turngate.report.curves import PANELS
from turngate.report.episode_words import literal
from turngate.report.learned import TRAIN, UNUSED, EpisodeLearning, RunRule, drop_reasons, learned_from
from turngate.report.monitors import missing_line, no_alarms, usable_line
from turngate.report.summary import evaluated_runs, overlaps_of, phases_of, unsafe_rubrics
from turngate.report.tables import comparison_cells, note
from turngate.report.viewer.episode_record import Record, episode_rows, group_key, group_record, number
from turngate.report.viewer.token_pieces import TokenPieces
from turngate.rewards.rubric import Rubric
from turngate.store.folder import RunFolder, step_of
from turngate.store.metrics import read_metrics
from turngate.store.step_credit import read_credit
from turngate.store.trajectories import groups_in
from turngate.trainer.checks.alarm_log import read_alarms
from turngate.types import JSON, Metrics, ScoredGroup

Found = TypeVar("Found")


@dataclass(frozen=True, slots=True, kw_only=True)
class RunParts:
    """Functions that tell how a run turned payments into credit, and by which rubrics it paid."""

    rule_of: Callable[[RunFolder], RunRule]
    rubrics_of: Callable[[Config], Mapping[str, Rubric | str]]


class RecordedFile(NamedTuple):
    """The episodes of one step and phase."""

    step: int
    phase: str
    path: Path


class ReadFile(NamedTuple):
    """The readable part of a file: its groups, the credit of each, and why episodes were dropped."""

    groups: list[ScoredGroup]
    learned: list[list[EpisodeLearning]]
    dropped: Mapping[str, str]


class RunReading:
    """Reads one run for the page. ``problems`` grows by a line for each thing that could not be read."""

    def __init__(self, run: RunFolder, parts: RunParts) -> None:
        self.run = run
        self.problems: list[str] = []
        self._parts = parts

    def _read(self, what: str, read: Callable[[], Found], instead: Found) -> Found:
        """The result of ``read``; where it fails, ``instead``, with a line among the problems."""
        try:
            return read()
        except (TurngateError, OSError) as error:
            self._tell(literal(f"{what}: {error}"))
            return instead

    def _tell(self, problem: str) -> None:
        if problem not in self.problems:
            self.problems.append(problem)

    @cached_property
    def config(self) -> Config | None:
        """None for an imported log, and where it cannot be read."""
        if self.run.is_imported:
            return None
        return self._read("settings (config.toml)", lambda: load_run(self.run), None)

    @cached_property
    def rule(self) -> RunRule | None:
        """None where the settings cannot be read: then no credit is shown."""
        return self._read("credit", lambda: self._parts.rule_of(self.run), None)

    @cached_property
    def pieces(self) -> TokenPieces:
        """The texts of tokens."""
        return TokenPieces.of(self.run)

    # --- episodes -----------------------------------------------------------------------------------------------------

    def files(self) -> list[RecordedFile]:
        """The files of episodes, by step and phase."""
        found = []
        for path in self.run.trajectories.glob("step=*/[!.]*.parquet"):
            step = self._read("episodes", lambda path=path: step_of(path.parent), None)  # type: ignore[misc]
            if step is not None:
                found.append(RecordedFile(step, path.stem, path))
        return sorted(found, key=lambda file: (file.step, _order(file.phase), file.phase))

    def read(self, file: RecordedFile) -> ReadFile:
        """The groups of a file with their credit, up to the first that cannot be read."""
        groups = list[ScoredGroup]()
        try:
            groups.extend(groups_in(file.path))
        except (TurngateError, OSError) as error:
            self._tell(literal(f"episodes of step {file.step}, {file.phase}: {error}"))
        rule = self.rule
        if rule is None:
            nothing = EpisodeLearning(advantage_T=None, notes=("credit is not shown: the settings cannot be read",))
            return ReadFile(groups, [[nothing] * len(group.trajectories) for group in groups], {})
        try:
            learned = learned_from(groups, rule, read_credit(file.path.parent), unused=file.phase == UNUSED)
            dropped = drop_reasons(groups, rule) if file.phase == TRAIN else {}
        except TurngateError as error:
            nothing = EpisodeLearning(advantage_T=None, notes=(f"credit cannot be computed again: {error}",))
            self._tell(literal(f"credit of step {file.step}, {file.phase}: {error}"))
            return ReadFile(groups, [[nothing] * len(group.trajectories) for group in groups], {})
        return ReadFile(groups, learned, dropped)

    def rows(self, file: RecordedFile, found: ReadFile) -> list[Record]:
        """A row for each episode of a file."""
        return [
            row
            | {"step": file.step, "phase": literal(file.phase), "group": group_key(file.step, file.phase, place)}
            | {"sibling": sibling}
            for place, (group, learned) in enumerate(zip(found.groups, found.learned, strict=True))
            for sibling, row in enumerate(episode_rows(group, learned, found.dropped))
        ]

    def group(self, found: ReadFile, place: int) -> Record:
        """All of one group."""
        return group_record(found.groups[place], found.learned[place], found.dropped, self.pieces)

    # --- the run ------------------------------------------------------------------------------------------------------

    def record(self) -> Record:
        """Everything about the run but for its episodes and its problems."""
        metrics = self._read("metrics.jsonl", self._metrics, list[Metrics]())
        return {
            "name": literal(self.run.label),
            "folder": literal(str(self.run.path)),
            "state": self.state(),
            "asked": self._asked(),
            "success": self._read("evaluations", self._success, list[JSON]()),
            "overlap": [
                literal(line) for line in self._read("overlap.json", lambda: overlaps_of(self.run), list[str]())
            ],
            "alarms": self._read("alarms.jsonl", self._alarms, list[JSON]()),
            "silence": no_alarms(metrics) if metrics else "no alarms are known: no step was recorded",
            "usable": [line for line in (usable_line(metrics), missing_line(metrics)) if line],
            "panels": [[panel.metric, panel.title, panel.ylabel, panel.top] for panel in PANELS],
            "metrics": _columns(metrics),
            "rubrics": self._read("rubric", self._rubrics, list[JSON]()),
            "credit": ""
            if self.rule is None
            else f"{self.rule.name}; filters: {', '.join(self.rule.filters) or 'none'}",
        }

    def _credit(self) -> str:
        rule = self.rule
        return "" if rule is None else literal(f"{rule.name}; filters: {', '.join(rule.filters) or 'none'}")

    def _metrics(self) -> list[Metrics]:
        return read_metrics(self.run.metrics) if self.run.metrics.exists() else []

    def state(self) -> str:
        """Whether the run is complete, and how far it is."""
        if self.run.is_imported:
            return "episodes of an imported log"
        if self.run.result.exists():
            return "an evaluation"
        metrics = self._read("metrics.jsonl", self._metrics, list[Metrics]())
        steps = None if self.config is None else self.config.train.steps
        done = f"{len(metrics)} of {steps} steps" if steps is not None else f"{len(metrics)} steps"
        return f"complete, {done}" if self.run.is_complete else f"not complete: {done} so far"

    def _asked(self) -> Record:
        config = self.config
        if config is None:
            text = self._read("config.toml", lambda: read_text(self.run.config), "") if self.run.exists else ""
            return {"changed": [], "text": literal(text)}
        return {"changed": changed_settings(config), "text": ""}

    def _success(self) -> list[JSON]:
        tables: list[JSON] = []
        for title, one in evaluated_runs(self.run):
            phases = phases_of(one)
            if phases:
                told = note(success for results in phases.values() for success in results)
                cells = [[literal(cell) for cell in row] for row in comparison_cells(phases)]
                tables.append({"title": literal(title), "cells": cells, "note": told})
        return tables

    def _alarms(self) -> list[JSON]:
        return [
            {
                "step": raised.step,
                "name": literal(raised.alarm.name),
                "severity": raised.alarm.severity,
                "sentence": literal(raised.alarm.sentence),
                "evidence": [[literal(name), literal(_short(value))] for name, value in raised.alarm.evidence.items()],
                "trajectories": [literal(name) for name in raised.alarm.trajectories],
            }
            for raised in read_alarms(self.run.path)
        ]

    def _rubrics(self) -> list[JSON]:
        if self.config is None:
            return []
        unsafe = unsafe_rubrics(self.config)
        return [
            _rubric(label, rubric) | {"unsafe": [literal(line) for line in unsafe if f"'{label}'" in line]}
            for label, rubric in self._parts.rubrics_of(self.config).items()
        ]


def _rubric(label: str, rubric: Rubric | str) -> Record:
    """``rewards``: name, kind, pay, type and what it reads; ``gates``: name and settings; ``safe``: None if unknown."""
    told: Record = {"label": literal(label), "problem": "", "rewards": [], "gates": [], "safety": [], "safe": None}
    if isinstance(rubric, str):
        return told | {"problem": literal(rubric)}
    safety = rubric.check()
    rewards: list[JSON] = []
    for one in rubric.rewards:
        paid = f"{one.weight:g} {'in its turns' if one.per_turn else 'once'}"
        rewards.append([one.name, one.kind, paid, one.type, ", ".join(one.reads)])
    gates: list[JSON] = [[gate.name, _settings(gate.model_dump(mode="json"))] for gate in rubric.gates]
    lines: list[JSON] = [literal(line) for line in str(safety).splitlines()]
    return told | {"rewards": rewards, "gates": gates, "safe": safety.safe, "safety": lines}


def _settings(values: Mapping[str, object]) -> str:
    return literal(", ".join(f"{key} = {value}" for key, value in values.items() if key != "name"))


def _order(phase: str) -> int:
    """The phases of a step in the order in which they are played."""
    known = ("before", TRAIN, UNUSED)
    return next((place for place, name in enumerate(known) if phase.split("-")[0] == name), len(known))


def changed_settings(config: Config) -> list[JSON]:
    """[key, value, default] of each setting that is not the default; a table of another type is told by its type."""
    full, changed = config.model_dump(mode="json"), config.model_dump(mode="json", exclude_defaults=True)
    usual = dict(_flat(Config(warm_start=WarmStart(episodes=1)).model_dump(mode="json")))
    kept = dict(_flat(changed)).keys()
    return [
        [literal(key.replace(".0.", ".")), literal(_short(value)), literal(_short(usual.get(key, "")))]
        for key, value in _flat(full)
        if key in kept or (key.endswith(".type") and value != usual.get(key))
    ]


def _flat(value: object, above: str = "") -> Iterator[tuple[str, object]]:
    """(dotted key, value) of a tree of settings; empty tables and lists are values."""
    if isinstance(value, Mapping) and value:
        for key, part in value.items():
            yield from _flat(part, f"{above}.{key}" if above else str(key))
    elif isinstance(value, list) and value and all(isinstance(part, Mapping) for part in value):
        for place, part in enumerate(value):
            yield from _flat(part, f"{above}.{place}")
    else:
        yield above, value


def _short(value: object) -> str:
    text = value if isinstance(value, str) else str(value)
    return text if len(text) <= 2000 else f"{text[:2000]} …"


def _columns(metrics: Sequence[Metrics]) -> Record:
    """Step and every metric as columns; None where a step has no value."""
    names = dict.fromkeys(name for row in metrics for name in row if name != "step")
    return {
        "step": [int(row["step"]) for row in metrics],
        "values": {literal(name): [number(row.get(name)) for row in metrics] for name in names},
    }


def columns_of(rows: Sequence[Record]) -> Record:
    """Rows with the same keys as columns, which are half as large."""
    return {name: [row[name] for row in rows] for name in (rows[0] if rows else {})}
