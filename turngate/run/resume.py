"""A run that is begun again with a config: whether it goes on, and with how many steps."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping, Sequence
from typing import TypeAlias

from turngate.errors import ConfigError, DataError, RunError, StoreError
from turngate.jsonl import read_text, toml_of
from turngate.store import Store
from turngate.store.folder import RunFolder
from turngate.store.metrics import read_metrics
from turngate.trainer.evaluation.evaluations_file import WITH_MEMORY, forget_evaluations

STEPS, ROUNDS = "train.steps", "rounds"
FREE = frozenset({"sink", "folder", "name", "cluster"})
"""Keys that change only where the metrics of a run are sent, where its folder is and on which machines it is played."""
MOST_NAMED = 5


def added_steps(folder: RunFolder, text: str, *, ahead: bool) -> int | None:
    """How many steps a run had, if the config ``text`` changes nothing but to ask for more of them; None if it changes
    nothing, or if no run has begun in the folder.

    Raises ConfigError for a run with other settings, which names them with both values; with ``ahead`` (train.ahead)
    for more steps too, because the last step of such a run begins no other.
    """
    if not folder.has_begun or not folder.config.exists():
        return None
    old, new, changed = _changed(folder, text)
    if not changed:
        return None
    before, now = old.get(STEPS), new.get(STEPS)
    if changed == [STEPS] and isinstance(before, int) and isinstance(now, int) and before < now and not ahead:
        return before
    raised = "with train.ahead = 1 no steps can be added" if ahead else f"only {STEPS} can be raised later"
    raise _other_settings(folder, old, new, changed, raised)


def check_rounds(folder: RunFolder, text: str) -> None:
    """Raise ConfigError if the config ``text`` of a run of stages that has begun changes anything but to add rounds."""
    if not folder.has_begun or not folder.config.exists():
        return
    old, new, changed = _changed(folder, text)
    before, now = old.get(ROUNDS, 1), new.get(ROUNDS, 1)
    if not changed or (changed == [ROUNDS] and isinstance(before, int) and isinstance(now, int) and before < now):
        return
    raise _other_settings(folder, old, new, changed, f"only {ROUNDS} can be raised later")


Leaves: TypeAlias = Mapping[str, object]


def _changed(folder: RunFolder, text: str) -> tuple[Leaves, Leaves, list[str]]:
    """The settings of the run that has begun, those of ``text``, and the keys that differ. Raises DataError."""
    try:
        old, new = (dict(_leaves(toml_of(one))) for one in (read_text(folder.config), text))
    except ValueError as error:
        raise DataError(folder.config, f"is not the config of a run: {error}; choose another --name") from error
    return old, new, sorted(key for key in old.keys() | new.keys() if old.get(key) != new.get(key))


def _other_settings(folder: RunFolder, old: Leaves, new: Leaves, changed: Sequence[str], raised: str) -> ConfigError:
    named = [f"{key} was {_shown(old, key)} and is {_shown(new, key)}" for key in changed[:MOST_NAMED]]
    more = f" and {len(changed) - MOST_NAMED} more" if changed[MOST_NAMED:] else ""
    return ConfigError(
        f"'{folder.path}' holds a run with other settings: {', '.join(named)}{more}; choose another --name, or set "
        f"them back ({raised})"
    )


def refuse_gaps(folder: RunFolder, last: int, *, plays: bool) -> None:
    """Raise StoreError if metrics or episodes of the finished steps up to ``last`` are missing.

    ``plays``: whether steps play episodes, which are then recorded. Of the metrics the last line alone may be lost,
    because a crash of the machine can tear it.
    """
    measured = {row["step"] for row in read_metrics(folder.metrics)} if folder.metrics.exists() else set()
    if len(measured) == last - 1 > 0:
        measured.add(last)
    played = {folder.trajectories: set(Store(folder.path).steps())} if plays else {}
    for file, there in ({folder.metrics: measured} | played).items():
        if gone := sorted(set(range(1, last + 1)) - there):
            steps = ", ".join(map(str, gone[:MOST_NAMED])) + (", …" if gone[MOST_NAMED:] else "")
            raise StoreError(
                f"'{file}' lacks steps {steps} of {last} that are done; put it back, or begin another run with another "
                "--name"
            )


def refuse_unscored(folder: RunFolder) -> None:
    """Raise RunError if no episode of any step could be scored, so that nothing was learned from rewards."""
    rows = read_metrics(folder.metrics)
    if rows and all(row.get("train/unusable_share") == 1.0 for row in rows):
        raise RunError(
            f"no episode of {len(rows)} steps could be scored, so nothing was learned from rewards; the warnings above "
            "say why, and turngate show lists the episodes"
        )


def reopen(folder: RunFolder, last: int) -> None:
    """Take back what a run did after its last step, ``last``, so that it goes on from there: model and evaluations."""
    remove_model(folder)
    store = Store(folder.path)
    for phase in ("after", WITH_MEMORY):
        forget_evaluations(folder.path, phase)
        name = phase.replace(" ", "-")
        for stored in [one for one in store.phases() if one.startswith(f"{name}-")]:
            store.discard(last, stored)


def remove_model(folder: RunFolder) -> None:
    """Remove the trained model, in one rename, so that the run is not complete any more."""
    if folder.model.exists():
        leaving = folder.model.with_name(f"{folder.model.name}.old")
        shutil.rmtree(leaving, ignore_errors=True)
        folder.model.rename(leaving)
        shutil.rmtree(leaving)


def _leaves(table: Mapping[str, object], before: str = "") -> Iterator[tuple[str, object]]:
    for key, value in table.items():
        name = f"{before}{key}"
        if name in FREE:
            continue
        if isinstance(value, Mapping):
            yield from _leaves(value, f"{name}.")
        elif isinstance(value, list) and value and all(isinstance(item, Mapping) for item in value):
            for place, item in enumerate(value):
                yield from _leaves(item, f"{name}[{place}].")
        else:
            yield name, value


def _shown(table: Mapping[str, object], key: str) -> str:
    return f"{table[key]!r:.60}" if key in table else "not set"
