"""``turngate tasks``: make a set of code-repair tasks from Python packages, and check an existing set."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TypeAlias

from rich.console import Console

from turngate.envs.code.dataset_card import HarvestedPackage, source_of
from turngate.envs.code.generated.mutation.coverage import Say
from turngate.envs.code.generated.mutation.harvest import LIMIT_S, harvest
from turngate.envs.code.generated.mutation.packages import DOWNLOAD_S, fetch, open_package, unpack
from turngate.envs.code.grading.grading_sandbox import Bench
from turngate.envs.code.grading.junit import fallen
from turngate.envs.code.problem import Problem
from turngate.envs.code.taskset import check_target, problems_of, sources_of, with_source, write
from turngate.errors import ConfigError, DataError, TaskRefused
from turngate.progress_bar import Progress
from turngate.sandbox.scratch import Scratch

Advance: TypeAlias = Callable[[int, int, str], None]
"""Moves a progress bar: called with (number done, number in all, name of the current item)."""


def make_tasks(
    console: Console,
    packages: Sequence[str],
    folder: Path,
    *,
    n: int,
    seed: int = 0,
    repetitions: int = 3,
    workers: int = 1,
    limit_s: float = LIMIT_S,
) -> None:
    """Add tasks of these packages to a task set until it has ``n``, in equal shares, and print a line per package.

    A package is the name of a distribution, as in ``toolz`` or ``toolz==1.0``, an archive of its source, or a folder
    with the source. Each may take ``limit_s`` seconds, besides the time to fetch it; the tasks found by then are kept.
    Packages that the set has already are not harvested again, so a killed command goes on where it stopped. Raises
    ConfigError, DataError.
    """
    with Progress(console, "tasks", transient=True) as progress:
        _make(packages, folder, n, _Settings(seed, repetitions, workers, limit_s), progress.say, progress.update)


@dataclass(frozen=True, slots=True)
class _Settings:
    """The settings with which every package is harvested."""

    seed: int
    repetitions: int
    workers: int
    limit_s: float


def _make(packages: Sequence[str], folder: Path, n: int, settings: _Settings, say: Say, advance: Advance) -> None:
    names = [Path(name).name for name in packages]
    if repeated := next((name for name in names if names.count(name) > 1), None):
        raise ConfigError(f"the package '{repeated}' is named twice; name it once")
    check_target(folder)
    done = {source.asked: source for source in sources_of(folder)}
    for source in done.values():
        if (source.seed, source.repetitions) != (settings.seed, settings.repetitions):
            raise ConfigError(
                f"'{folder}' was made with seed {source.seed} and {source.repetitions} repetitions; use them again, or "
                "choose another --out"
            )
        say(f"{_describe(source)} (kept)")
    left = [name for name in packages if Path(name).name not in done]
    have = sum(source.n_tasks for source in done.values())
    with Bench() as bench:
        for place, name in enumerate(left):
            share = -(-max(0, n - have) // (len(left) - place))
            if share == 0:
                break
            found = _advance_of(have, n, Path(name).name, advance)
            source = _one(name, folder, bench, share, settings, found, _say_of(Path(name).name, say))
            have += source.n_tasks
            say(_describe(source))
    say(f"{folder}: {have} tasks")


def _advance_of(have: int, n: int, label: str, advance: Advance) -> Callable[[int], None]:
    """``advance`` for one package, when the set has ``have`` tasks of others; called with the number of its tasks."""
    return lambda found: advance(have + found, n, label)


def _say_of(label: str, say: Say) -> Say:
    """``say`` with the package's name before each line."""
    return lambda line: say(f"{label}: {line}")


def check_tasks(console: Console, folder: Path, *, workers: int = 1) -> bool:
    """Run the tests of every task of a set once: do all repairs pass, do all bugs fail, are altered tests noticed?

    Prints a line for each task that does not hold, and one at the end; returns whether all hold. Raises DataError.
    """
    problems = problems_of(folder)
    n_broken = 0
    with Progress(console, "tasks", transient=True) as progress, Bench() as bench, ThreadPoolExecutor(workers) as pool:
        found = pool.map(lambda problem: _flaw(problem, bench), problems)
        for number, (problem, flaw) in enumerate(zip(problems, found, strict=True), 1):
            if flaw:
                n_broken += 1
                progress.say(f"{problem.id}: {flaw}")
            progress.update(number, len(problems), problem.id)
        progress.say(f"{folder}: {len(problems) - n_broken} of {len(problems)} tasks hold")
    return not n_broken


def _flaw(problem: Problem, bench: Bench) -> str:
    """The problem of a task; "" if there is none."""
    repaired = bench.measure(problem, problem.solved)
    if repaired.problem:
        return f"the tests do not come to their end on the reference repair: {repaired.problem}"
    holds = repaired.verdicts(problem.fail_to_pass, problem.pass_to_pass)
    if not all(holds.values()):
        return f"the reference repair fails {sum(not held for held in holds.values())} of {len(holds)} tests"
    if any(bench.measure(problem, {}).verdicts(problem.fail_to_pass, ()).values()):
        return "the bug passes a test that it has to fail"
    inside = [name for name in problem.sensitive if name not in problem.asked]
    if inside and not fallen(bench.measure(problem, problem.solved, control="altered")).issuperset(inside):
        return "the reference repair passes an altered test"
    return ""


def _one(
    name: str, folder: Path, bench: Bench, share: int, settings: _Settings, found: Callable[[int], None], say: Say
) -> HarvestedPackage:
    """Harvest one package and write the task set with its tasks added."""
    asked = Path(name).name
    with Scratch("harvest") as scratch:
        problems: tuple[Problem, ...] = ()
        try:
            package = open_package(_unpacked(name, scratch, say), scratch / "tree")
            if package.label in {item.label for item in sources_of(folder)}:
                raise TaskRefused(f"the task set has {package.label} already")
            say(f"{len(package.modules)} modules, {len(package.tests)} test files")
            if package.settings.dropped:
                say(f"not honoured in its {package.settings.file}: {', '.join(package.settings.dropped)}")
            harvested = harvest(package, bench, n=share, **asdict(settings), found=found, say=say)
            problems, source = harvested.problems, source_of(asked, harvested, share)
        except TaskRefused as error:
            source = HarvestedPackage(
                asked=asked, n_wanted=share, seed=settings.seed, repetitions=settings.repetitions, refused=str(error)
            )
        write(folder, *with_source(folder, problems, source))
    return source


def _unpacked(name: str, scratch: Path, say: Say) -> Path:
    path = Path(name)
    if path.is_dir():
        return path
    if path.is_file():
        return unpack(path, scratch / "source")
    if "/" in name:
        raise DataError(name, "there is no such folder or archive")
    say(f"fetching its source, for at most {DOWNLOAD_S:g} s")
    return fetch(name, scratch)


def _describe(source: HarvestedPackage) -> str:
    if source.refused:
        return f"{source.asked}: not used: {source.refused}"
    reasons = "; ".join(f"{reason} {count}" for reason, count in list(source.reasons.items())[:3])
    tests = "; ".join(f"{count} {reason}" for reason, count in source.left_out.items())
    late = f", the limit of {source.limit_s:g} s" if source.stopped else ""
    return (
        f"{source.package} {source.version}: {source.n_tasks} tasks of {source.n_candidates} candidates "
        f"in {source.time_s:.0f} s{late} ({reasons or 'none refused'}); {source.n_tests} of {source.n_found} tests used"
        f"{f' ({tests})' if tests else ''}"
    )
