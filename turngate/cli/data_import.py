"""``turngate data import``: a log of another tool becomes a store that the other commands read."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path

import pyarrow as pa  # type: ignore[import-untyped]
from rich.console import Console

from turngate import __version__
from turngate.errors import ConfigError, DataError
from turngate.store import Store
from turngate.store.codecs import LAYOUTS, VERSION, Row
from turngate.store.folder import RunFolder
from turngate.store.formats.chat_messages import SYSTEM, TOOLS, fact_of
from turngate.store.formats.read_episode import KnownTokens, ReadEpisode, given_turn
from turngate.store.formats.sources import READERS, load
from turngate.store.imported import Imported, write_imported
from turngate.types import EndedBy, ScoredGroup, Trajectory

EPISODES_PER_STEP = 2_000
"""After so many episodes the next task begins another step, so that a reader need not hold a whole log."""
LISTED = 5
"""Most bad records that an error names."""


@dataclass(slots=True)
class _Found:
    """What was read so far."""

    episodes: list[ReadEpisode] = field(default_factory=list)
    bad: list[str] = field(default_factory=list)
    unread: Counter[str] = field(default_factory=Counter)
    notes: Counter[str] = field(default_factory=Counter)
    n_changed: int = 0


def import_log(
    console: Console,
    path: Path,
    format: str,
    out: Path,
    *,
    phase: str,
    skip_bad: bool,
    tokenizer: str,
    temperature: float | None,
) -> None:
    """Read a log into the new folder ``out``, all of it or, with ``skip_bad``, all but the records that it then names.

    Raises ConfigError, and DataError for a log that cannot be read.
    """
    if format not in READERS:
        raise ConfigError(f"--from {format} is not one of {', '.join(READERS)}")
    if out.exists():
        raise ConfigError(f"'{out}' exists already, and nothing is overwritten; name another folder")
    found = _read(path, format, skip_bad=skip_bad)
    if tokenizer:
        found.episodes = list(_with_ids(found.episodes, tokenizer))
    tokens = Counter(one.tokens.value for one in found.episodes)
    if temperature is not None and KnownTokens.SAMPLED.value not in tokens:
        raise ConfigError("--temperature has no effect: the log has no log-probabilities; leave it out")
    files = sorted(one.name for one in path.rglob("*") if one.is_file()) if path.is_dir() else [path.name]
    told = Imported(
        format=format,
        files=tuple(files),
        turngate=__version__,
        tokens=dict(tokens),
        temperature=temperature,
        tokenizer=tokenizer,
        left_out=tuple(found.bad),
        left_behind=dict(found.unread),
    )
    steps = _steps(found.episodes, phase)
    _write(out, steps, told)
    for line in _summary(found, steps, told, out):
        console.print(line, markup=False, highlight=False, soft_wrap=True)


def _read(path: Path, format: str, *, skip_bad: bool) -> _Found:
    found = _Found()
    for loaded in load(path, format):
        problem = loaded.problem or next(filter(None, map(_problem, loaded.episodes)), "")
        if problem:
            found.bad.append(f"{loaded.place}: {problem}")
            continue
        found.n_changed += loaded.n_changed
        for one in loaded.episodes:
            found.episodes.append(one)
            found.unread.update(one.unread)
            found.notes.update([one.note] if one.note else [])
    if found.bad and not skip_bad:
        more = f" (and {len(found.bad) - LISTED} more)" if len(found.bad) > LISTED else ""
        raise DataError(
            "; ".join(found.bad[:LISTED]) + more,
            f"nothing was imported; mend the file, or leave {len(found.bad)} of its records out with --skip-bad",
        )
    if not found.episodes:
        why = f": {found.bad[0]}" if found.bad else ""
        raise DataError(path, f"has no episode that can be read as '{format}'{why}")
    return found


def _problem(one: ReadEpisode) -> str:
    """Why an episode that calls itself turngate's cannot be stored; "" if it can, as every other can."""
    if one.place is None:
        return ""
    if one.place.step < 0 or len(one.score.reward_T) not in (0, len(one.trajectory.turns)):
        return f"its step is {one.place.step}, or it is paid for {len(one.score.reward_T)} turns"
    try:
        LAYOUTS[VERSION].columns([Row(one.place.group, one.place.sibling, one.place.phase, one.trajectory, one.score)])
    except (pa.ArrowException, AttributeError, OverflowError, TypeError, ValueError) as error:
        return f"a field is not what turngate writes: {error}"
    return ""


# --- steps and groups ------------------------------------------------------------------------------------------------


def _steps(episodes: Sequence[ReadEpisode], phase: str) -> dict[tuple[int, str], list[ScoredGroup]]:
    """(step, phase) → its groups: turngate's own episodes in their steps, all others by task from step 1 on."""
    groups: dict[tuple[object, ...], list[ReadEpisode]] = {}
    for one in episodes:
        task, place = one.trajectory.task, one.place
        key = (task.env_id, task.id) if place is None else (place.step, place.phase, place.group)
        groups.setdefault(key, []).append(one)
    found: dict[tuple[int, str], list[ScoredGroup]] = {}
    used: set[str] = set()
    step, n_episodes = 1, 0
    for siblings in groups.values():
        place = siblings[0].place
        if place is None:
            if n_episodes >= EPISODES_PER_STEP:
                step, n_episodes = step + 1, 0
            n_episodes += len(siblings)
        siblings = sorted(siblings, key=lambda one: one.place.sibling if one.place else 0)
        trajectories = tuple(_named(one, number, used) for number, one in enumerate(siblings))
        group = ScoredGroup(
            task=trajectories[0].task, trajectories=trajectories, scores=tuple(one.score for one in siblings)
        )
        found.setdefault((step, phase) if place is None else (place.step, place.phase), []).append(group)
    return found


def _named(one: ReadEpisode, number: int, used: set[str]) -> Trajectory:
    """The trajectory with an id that no other has."""
    trajectory = one.trajectory
    name = trajectory.id if one.place is not None else f"{trajectory.task.id}#{number}"
    if name in used and one.place is not None:
        raise ConfigError(f"two episodes have the id '{name}'; the same run was exported twice into one file")
    name = name if name not in used else f"{trajectory.task.env_id}/{name}"
    used.add(name)
    return replace(trajectory, id=name)


def _write(out: Path, steps: dict[tuple[int, str], list[ScoredGroup]], told: Imported) -> None:
    """The folder gets its name when everything is in it."""
    writing = out.with_name(f".{out.name}.importing")
    shutil.rmtree(writing, ignore_errors=True)  # left by a process that was killed
    writing.mkdir(parents=True)
    try:
        for (step, phase), groups in steps.items():
            Store(writing).write(step, groups, phase=phase)
        write_imported(RunFolder(writing), told)
        writing.rename(out)
    except BaseException:
        shutil.rmtree(writing, ignore_errors=True)
        raise


# --- ids of texts ----------------------------------------------------------------------------------------------------


def _with_ids(episodes: Sequence[ReadEpisode], name: str) -> Iterator[ReadEpisode]:
    """Episodes without ids get those that the chat template of a model makes of their texts."""
    from turngate.agents.chat import Chat, Frames, ends_of
    from turngate.run.assembly.models import outlined

    model, tokenizer = outlined(name)

    @cache
    def chat_of(system: str) -> Chat:
        return Chat(tokenizer, system=system, ends=ends_of(model))

    @cache
    def frames_of(system: str, tools: str) -> Frames:
        chat = chat_of(system)
        return chat.frames(json.loads(tools) if chat.tool_format else ())

    for one in episodes:
        if one.tokens is not KnownTokens.NONE:
            yield one
            continue
        system, tools = (fact_of(one.trajectory, fact) for fact in (SYSTEM, TOOLS))
        chat, frames = chat_of(str(system or "")), frames_of(str(system or ""), json.dumps(tools or []))
        turns, answered = [], ""
        for number, turn in enumerate(one.trajectory.turns):
            text = turn.observation.text
            context = frames.follow_up(text, EndedBy.SCRIPT, answered=answered) if number else frames.opening(text)
            turns.append(given_turn(turn, context, chat.encode_turn(turn.action.text)))
            answered = turn.action.calls[-1].name if turn.action.calls else ""
        yield replace(one, trajectory=replace(one.trajectory, turns=tuple(turns)), tokens=KnownTokens.TEMPLATE, note="")


# --- what to tell ----------------------------------------------------------------------------------------------------


def _summary(
    found: _Found, steps: dict[tuple[int, str], list[ScoredGroup]], told: Imported, out: Path
) -> Iterator[str]:
    tasks = {(one.trajectory.task.env_id, one.trajectory.task.id): set[str]() for one in found.episodes}
    for one in found.episodes:
        tasks[one.trajectory.task.env_id, one.trajectory.task.id].add(one.trajectory.task.prompt)
    turns = sum(len(one.trajectory.turns) for one in found.episodes)
    yield f"{len(found.episodes)} episodes of {len(tasks)} tasks, {turns} turns, read as {told.format} → {out}"
    yield f"tokens: {told.about_tokens}"
    for note, count in found.notes.items():
        yield f"tokens of {count} episodes were left out: {note}"
    unpaid = sum(not one.score.usable for one in found.episodes)
    if unpaid:
        yield (
            f"{unpaid} episodes have no reward that counts, so nothing is compared by it: score them with turngate "
            f"rescore {out} --rubric …"
        )
    several = sum(len(prompts) > 1 for prompts in tasks.values())
    if several:
        yield f"{several} tasks begin with different messages under one id: credit compares their episodes all the same"
    if found.n_changed:
        yield f"{found.n_changed} texts held half characters or NUL, which stand as '?' and U+FFFD now"
    if told.left_behind:
        named = ", ".join(f"{name} ({count})" for name, count in sorted(told.left_behind.items()))
        yield f"fields that the store has no place for were left behind: {named}"
    for line in told.left_out:
        yield f"left out: {line}"
    yield f"phases: {', '.join(sorted({phase for _, phase in steps}))}; steps: {len({step for step, _ in steps})}"
