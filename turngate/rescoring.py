"""Score the recorded trajectories of a run by another rubric, and compare the new scores with the recorded ones.

A rubric reads recorded evidence only, so this needs no model, environment or network. The new scores are exactly those
that the rubric would have given when the trajectories were played. Gates that change during training get the number of
the step, as they did then; evaluations are scored as in step 0. The recorded scores stay as they are. The new ones are
written to ``RUN/rescored/NAME``, which ``turngate show`` and ``turngate credit`` read like a run.
"""

from __future__ import annotations

import difflib
import re
import shutil
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from turngate.errors import ConfigError
from turngate.rewards import Rubric
from turngate.store import Store, write_text_atomic
from turngate.store.folder import RunFolder
from turngate.types import Group, Score, ScoredGroup

TRAINING = "train"
TIE = 1e-9
"""Totals that differ by less have the same rank, because they may differ by rounding only."""
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


# --- scoring ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Rescored:
    """A recorded group, and the same trajectories with the scores of another rubric."""

    step: int
    old: ScoredGroup
    new: ScoredGroup


def rescore(store: Store, rubric: Rubric, *, phase: str = TRAINING) -> Iterator[Rescored]:
    """Score every group of a phase, in the order in which the groups were written.

    Raises ConfigError for a phase that was not recorded, and for evidence whose value a component cannot use.
    """
    steps = store.steps(phase)
    if not steps:
        raise ConfigError(
            f"'{store.path}' has no episodes of phase '{phase}'; recorded phases: {', '.join(store.phases()) or 'none'}"
        )
    for step in steps:
        for old in store.read(step, phase):
            group = Group(task=old.task, trajectories=old.trajectories)
            try:
                new = rubric.score_group(group, step if phase == TRAINING else 0)
            except ValueError as error:
                raise ConfigError(f"the rubric cannot score step {step}: {error}") from error
            yield Rescored(step=step, old=old, new=new)


def rescore_run(run: str | Path, rubric: Rubric, *, name: str, phase: str = TRAINING) -> Comparison:
    """Score a run's trajectories again, store the scores in ``RUN/rescored/NAME`` and compare them with the old ones.

    The folder gets its name when everything is done. Raises ConfigError as ``rescore`` does, for a name that is taken,
    and for a rubric that reads evidence which no trajectory has.
    """
    source = RunFolder.of(run)
    final = _target(source, name)
    writing = final.with_name(f".{name}")
    shutil.rmtree(writing, ignore_errors=True)  # left by a process that was killed
    writing.mkdir(parents=True)
    try:
        comparison = Comparison(rubric)
        _write(rescore(Store(source.path), rubric, phase=phase), Store(writing), comparison, phase)
        comparison.check_evidence()
        write_text_atomic(writing / "rubric.json", rubric.model_dump_json(indent=2) + "\n")
        if source.is_imported:
            shutil.copyfile(source.imported, RunFolder(writing).imported)
        else:
            shutil.copyfile(source.config, RunFolder(writing).config)
        if source.machine.exists():  # it names the modules that the config needs
            shutil.copyfile(source.machine, RunFolder(writing).machine)
        writing.rename(final)
    except BaseException:
        shutil.rmtree(writing, ignore_errors=True)
        raise
    return comparison


def _target(run: RunFolder, name: str) -> Path:
    if not _NAME.fullmatch(name):
        raise ConfigError(f"'{name}' cannot be the name of a folder; use letters, digits, '.', '_' and '-'")
    final = run.rescored(name).path
    if final.exists():
        raise ConfigError(f"'{final}' exists already; choose another name with --write, or remove it")
    return final


def _write(pairs: Iterator[Rescored], target: Store, comparison: Comparison, phase: str) -> None:
    """Store and compare the groups step by step, so that only one step has to fit into memory."""
    step, groups = -1, list[ScoredGroup]()
    for pair in pairs:
        if groups and pair.step != step:
            target.write(step, groups, phase=phase)
            groups = []
        step = pair.step
        groups.append(pair.new)
        comparison.add(pair)
    if groups:
        target.write(step, groups, phase=phase)


# --- differences -----------------------------------------------------------------------------------------------------


class Comparison:
    """Old scores beside new ones, filled group by group.

    Only trajectories that are usable under both rubrics are compared; ``n_common`` counts them. A component that paid
    an episode nothing counts as 0 in its mean. ``n_moved`` counts trajectories whose rank among these siblings, by
    total payment, has changed, and ``n_groups_moved`` the groups with such a trajectory. ``lost`` counts the reasons
    why trajectories became unusable, ``n_regained`` those that became usable.
    """

    def __init__(self, rubric: Rubric) -> None:
        self.rubric = rubric
        self.n_trajectories = self.n_common = self.n_groups = self.n_moved = self.n_groups_moved = self.n_regained = 0
        self.lost: Counter[str] = Counter()
        self.evidence: set[str] = set()
        self._paid: defaultdict[str, list[float]] = defaultdict(lambda: [0.0, 0.0])
        self._total = [0.0, 0.0]

    def add(self, pair: Rescored) -> None:
        """Count one group."""
        self.n_groups += 1
        both: list[tuple[Score, Score]] = []
        for trajectory, old, new in zip(pair.old.trajectories, pair.old.scores, pair.new.scores, strict=True):
            self.evidence.update(fact.name for fact in trajectory.record().evidence)
            self.n_trajectories += 1
            self.n_regained += new.usable and not old.usable
            if old.usable and new.usable:
                both.append((old, new))
            elif old.usable:
                self.lost[new.problem] += 1
        self.n_common += len(both)
        for scores in both:
            for side, score in enumerate(scores):
                self._total[side] += score.total
                for event in score.ledger:
                    self._paid[event.name][side] += event.paid
        moved = _moved([old.compared.total for old, _ in both], [new.compared.total for _, new in both])
        self.n_moved += moved
        self.n_groups_moved += moved > 0

    @property
    def names(self) -> tuple[str, ...]:
        """The components and gates of the new rubric, in its order."""
        return (*(reward.name for reward in self.rubric.rewards), *(gate.name for gate in self.rubric.gates))

    def means(self) -> dict[str, tuple[float, float]]:
        """Name of a component or veto → (old, new) mean payment per trajectory.

        The new rubric's names come first, in its order, and "total" comes last.
        """
        parts = self.names
        ordered = [name for name in parts if name in self._paid] + [name for name in self._paid if name not in parts]
        n = max(self.n_common, 1)
        found = {name: (self._paid[name][0] / n, self._paid[name][1] / n) for name in ordered}
        return found | {"total": (self._total[0] / n, self._total[1] / n)}

    def silent(self) -> dict[str, tuple[str, ...]]:
        """Evidence that the rubric reads and no trajectory has → the components and gates that read it."""
        return {name: readers for name, readers in self.rubric.readers.items() if name not in self.evidence}

    @property
    def _of_calls(self) -> frozenset[str]:
        """The components of the rubric that are paid per turn, beside the outcome."""
        return frozenset(one.name for one in self.rubric.rewards if one.per_turn and one.kind != "outcome")

    def check_evidence(self) -> None:
        """Raise ConfigError for evidence that no trajectory has, unless it is recorded only on certain events.

        A component that is paid per turn may be about calls, and a whole run may be without any: only a name that
        resembles a recorded one is taken for a mistake.
        """
        for name, readers in self.silent().items():
            if name in self.rubric.occasional:
                continue
            close = difflib.get_close_matches(name, sorted(self.evidence), n=1)
            if not close and set(readers) <= self._of_calls:
                continue
            advice = f"did you mean '{close[0]}'? " if close else ""
            raise ConfigError(
                f"no trajectory has evidence '{name}', which {' and '.join(map(repr, readers))} reads; {advice}"
                f"recorded: {', '.join(sorted(self.evidence)) or 'nothing'}"
            )


def _moved(old: Sequence[float], new: Sequence[float]) -> int:
    """Number of siblings whose rank by total has changed; equal totals have the same rank."""

    def ranks(totals: Sequence[float]) -> list[int]:
        return [sum(other > total + TIE for other in totals) for total in totals]

    return sum(before != now for before, now in zip(ranks(old), ranks(new), strict=True))
