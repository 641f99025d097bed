"""``turngate data export``: recorded episodes as JSON lines in the formats of others."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from rich.console import Console

from turngate import __version__
from turngate.config.run_config import load_run
from turngate.errors import ConfigError, UserError
from turngate.run.environments import Environments
from turngate.store import Store
from turngate.store.codecs import Row
from turngate.store.conditions import EpisodeCondition, condition
from turngate.store.files import write_atomic
from turngate.store.folder import RunFolder
from turngate.store.formats import atif, openai_chat
from turngate.store.formats.training_rows import HowAsked, actions_of, imitated, labelled, preferred
from turngate.trainer.auxiliary.pairing import crossed
from turngate.types import Score, ScoredGroup, Trajectory

FORMATS = ("sft", "pairs", "kto", "atif", "chat")
HINTS = ("strip", "leave-out")


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """Which episodes are exported. ``most``: of one task, 0 = all; of ``pairs`` the pairs of one task. ``min_gap``: of
    pairs, how much more the chosen side was paid; None = a success and a failure. ``one_turn``: pairs of the turn in
    which they differ, not of the rest."""

    phase: str = "train"
    where: tuple[str, ...] = ()
    min_paid: float | None = None
    most: int = 0
    copies: bool = False
    hints: str = "strip"
    min_gap: float | None = None
    one_turn: bool = False


class Exportable(NamedTuple):
    """An episode, its score, and its place."""

    trajectory: Trajectory
    score: Score
    step: int
    group: str
    sibling: int


@dataclass(slots=True)
class _Counts:
    """Rows that were written, and why others were not."""

    rows: int = 0
    left_out: Counter[str] = field(default_factory=Counter)
    stripped: int = 0


def export_data(console: Console, path: Path, format: str, out: Path | None, chosen: Selection) -> None:
    """Write the episodes of a run. Raises ConfigError for settings without effect and where nothing is left."""
    _check(format, chosen)
    run = RunFolder.of(path)
    store = Store.found(path)
    if chosen.phase not in store.phases():
        raise ConfigError(f"'{path}' has no episodes of phase '{chosen.phase}'; recorded: {', '.join(store.phases())}")
    target = out or run.exported(f"{chosen.phase}-{format}")
    if target.exists():
        raise ConfigError(f"'{target}' exists already, and nothing is overwritten; name another file with --out")
    told, remark = _request_forms(run)
    conditions = [condition(text) for text in chosen.where]
    counts = _Counts()
    groups = _groups(store, chosen, conditions, counts, every=format in ("atif", "chat"))
    target.parent.mkdir(parents=True, exist_ok=True)
    rows = _rows(format, groups, told, chosen, counts)

    def write(file: BinaryIO) -> None:
        for row in rows:
            file.write(_line(row))
            counts.rows += 1
        for one in conditions:
            one.check()
        if not counts.rows:
            why = "; ".join(f"{count} {reason}" for reason, count in counts.left_out.items()) or "none was recorded"
            raise ConfigError(f"nothing is left to export: {why}")

    write_atomic(target, write)
    for line in _summary(format, counts, target, remark):
        console.print(line, markup=False, highlight=False, soft_wrap=True)


def _check(format: str, chosen: Selection) -> None:
    if format not in FORMATS:
        raise ConfigError(f"--to {format} is not one of {', '.join(FORMATS)}")
    if chosen.hints not in HINTS:
        raise ConfigError(f"--hints {chosen.hints} is not one of {', '.join(HINTS)}")
    for name, given in (("--min-gap", chosen.min_gap is not None), ("--one-turn", chosen.one_turn)):
        if given and format != "pairs":
            raise ConfigError(f"{name} has no effect with --to {format}; it is for pairs")
    if chosen.copies and format != "sft":
        raise ConfigError(f"--copies has no effect with --to {format}: copies are left out of sft alone")
    if chosen.hints != "strip" and format in ("atif", "chat", "pairs"):
        kept = "which never pairs a side with help and one without" if format == "pairs" else "which keeps hints"
        raise ConfigError(
            f"--hints has no effect with --to {format}, {kept}; --where 'guided == false' leaves them out"
        )


def _request_forms(run: RunFolder) -> tuple[dict[str, HowAsked], str]:
    """By environment, the form of its policy's requests; and why tools are missing, if they are."""
    if not run.exists:
        return {}, ""
    config = load_run(run)
    system = str(getattr(config.policy, "system", ""))
    try:
        with Environments(config.env, trained=False) as environments:
            tools = {label: [dict(tool.schema) for tool in env.turn_spec.tools] for label, env in environments}
    except (UserError, OSError) as error:
        return {section.label: HowAsked(system=system) for section in config.env}, str(error)
    return {label: HowAsked(system=system, tools=schemas or None) for label, schemas in tools.items()}, ""


# --- episodes --------------------------------------------------------------------------------------------------------


def _groups(
    store: Store, chosen: Selection, conditions: Sequence[EpisodeCondition], counts: _Counts, *, every: bool
) -> Iterator[list[Exportable]]:
    """The chosen episodes of each group. ``every``: also those without a usable score."""
    for step in store.steps(chosen.phase):
        for number, group in enumerate(store.read(step, chosen.phase)):
            kept = []
            for one in _recorded(group, step, f"{step:06d}/{chosen.phase}/{number}"):
                reason = _refused(one, chosen, conditions, every=every)
                if reason:
                    counts.left_out[reason] += 1
                else:
                    kept.append(one)
            yield kept


def _recorded(group: ScoredGroup, step: int, name: str) -> Iterator[Exportable]:
    for sibling, (trajectory, score) in enumerate(zip(group.trajectories, group.scores, strict=True)):
        yield Exportable(trajectory, score, step, name, sibling)


def _refused(one: Exportable, chosen: Selection, conditions: Sequence[EpisodeCondition], *, every: bool) -> str:
    if not every and not one.score.usable:
        return "unusable"
    if not one.trajectory.turns and not every:
        return "without a turn"
    if chosen.hints == "leave-out" and one.trajectory.guidance is not None:
        return "had help"
    if chosen.min_paid is not None and not one.score.total >= chosen.min_paid:
        return f"paid less than {chosen.min_paid:g}"
    met = [check(one.trajectory, one.score) for check in conditions]
    return "" if all(met) else "do not meet --where"


# --- rows ------------------------------------------------------------------------------------------------------------


def _rows(
    format: str,
    groups: Iterable[list[Exportable]],
    told: Mapping[str, HowAsked],
    chosen: Selection,
    counts: _Counts,
) -> Iterator[Any]:
    if format == "pairs":
        yield from _pairs(groups, told, chosen, counts)
        return
    make: Mapping[str, Callable[[Exportable, HowAsked], Any]] = {
        "sft": lambda one, how: imitated(one.trajectory, one.score, how),
        "kto": lambda one, how: labelled(one.trajectory, one.score, how),
        "chat": lambda one, how: openai_chat.row(one.trajectory, one.score, system=how.system, tools=how.tools),
        "atif": _document,
    }
    for one in _few(format, groups, chosen, counts):
        if format in ("sft", "kto") and one.trajectory.guidance is not None and one.trajectory.guidance.text:
            counts.stripped += 1
        yield make[format](one, told.get(one.trajectory.task.env_id, HowAsked()))


def _document(one: Exportable, how: HowAsked) -> Any:
    row = Row(one.group, one.sibling, one.group.split("/")[1], one.trajectory, one.score)
    agent = one.trajectory.task.env_id
    return atif.document(row, one.step, agent=agent, version=__version__, system=how.system, tools=how.tools)


def _few(format: str, groups: Iterable[list[Exportable]], chosen: Selection, counts: _Counts) -> Iterator[Exportable]:
    """Of each task at most so many; to imitate: successes, unless the caller chose, and each way of acting once."""
    taken: Counter[tuple[str, str]] = Counter()
    known: set[bytes] = set()
    successes = format == "sft" and not chosen.where and chosen.min_paid is None
    for group in groups:
        for one in group:
            task = (one.trajectory.task.env_id, one.trajectory.task.id)
            if successes and not one.score.success:
                counts.left_out["no success"] += 1
            elif chosen.most and taken[task] >= chosen.most:
                counts.left_out[f"beyond {chosen.most} of their task"] += 1
            elif format == "sft" and not chosen.copies and _way(one) in known:
                counts.left_out["copies of another"] += 1
            else:
                known.add(_way(one))
                taken[task] += 1
                yield one


def _way(one: Exportable) -> bytes:
    """A digest of a task and the actions."""
    told = json.dumps([one.trajectory.task.env_id, one.trajectory.task.id, *actions_of(one.trajectory)])
    return hashlib.blake2b(told.encode(), digest_size=16).digest()


def _pairs(
    groups: Iterable[list[Exportable]], told: Mapping[str, HowAsked], chosen: Selection, counts: _Counts
) -> Iterator[Any]:
    taken: Counter[tuple[str, str]] = Counter()
    for group in groups:
        if not group:
            continue
        task = group[0].trajectory.task
        key, how = (task.env_id, task.id), told.get(task.env_id, HowAsked())
        made = 0
        for win, lose in _candidates(group, chosen):
            if chosen.most and taken[key] >= chosen.most:
                counts.left_out[f"pairs beyond {chosen.most} of their task"] += 1
                continue
            row = preferred(win[:2], lose[:2], how, one_turn=chosen.one_turn)
            if isinstance(row, str):
                counts.left_out[f"pairs: {row}"] += 1
                continue
            taken[key] += 1
            made += 1
            yield row
        if not made:
            counts.left_out["groups without a pair"] += 1


def _candidates(group: Sequence[Exportable], chosen: Selection) -> Iterator[tuple[Exportable, Exportable]]:
    if chosen.min_gap is None:
        wins = [one for one in group if one.score.success]
        yield from crossed(wins, [one for one in group if not one.score.success])
        return
    for win in group:
        for lose in group:
            if win.score.total > lose.score.total and win.score.total - lose.score.total >= chosen.min_gap:
                yield win, lose


def _line(row: Any) -> bytes:
    """JSON in UTF-8; a text with half a character, which UTF-8 cannot hold, is written with escapes."""
    try:
        return (json.dumps(row, ensure_ascii=False) + "\n").encode()
    except UnicodeEncodeError:
        return (json.dumps(row) + "\n").encode()


def _summary(format: str, counts: _Counts, target: Path, remark: str) -> Iterator[str]:
    yield f"{counts.rows} rows of {format} → {target}"
    for reason, count in islice(counts.left_out.most_common(), 12):
        yield f"left out: {count} {reason}"
    if counts.stripped:
        yield f"{counts.stripped} episodes had a hint, which is not in the rows"
    if remark:
        yield f"the rows name no tools, because the environment cannot be made here: {remark}"
