"""``turngate tasks``: make a set of code-repair tasks from Python packages, and check an existing set."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer

from turngate.cli import consoles
from turngate.errors import ConfigError, DataError, TaskRefused

if TYPE_CHECKING:
    from turngate.envs.code.dataset_card import HarvestedPackage
    from turngate.envs.code.generated.mutation.coverage import Say
    from turngate.envs.code.grading.grading_sandbox import Bench
    from turngate.envs.code.problem import Problem

app = typer.Typer(name="tasks", help="Make tasks for an environment.", no_args_is_help=True, rich_markup_mode=None)
Advance: TypeAlias = Callable[[int, int, str], None]
"""Moves a progress bar: called with (number done, number in all, name of the current item)."""


@app.command("code")
def code_tasks(
    package: Annotated[
        list[str], typer.Option(help="A source distribution, such as toolz==1.0, or its folder; repeat for more.")
    ],
    out: Annotated[Path, typer.Option(metavar="FOLDER", help="Folder of the task set: a new one, or one to add to.")],
    n: Annotated[int, typer.Option(min=1, help="Number of tasks, in equal shares of the packages.")] = 200,
    seed: Annotated[int, typer.Option(min=0, help="Another seed makes other tasks.")] = 0,
    repetitions: Annotated[
        int, typer.Option(min=1, help="How often each test is run; one whose result changes is left out.")
    ] = 3,
    workers: Annotated[int, typer.Option(min=1, help="Sandboxes that run at once.")] = 1,
    limit_s: Annotated[
        float, typer.Option(min=1, help="Most seconds for each package, which keeps the tasks found by then.")
    ] = 600.0,
) -> None:
    """Make code-repair tasks by breaking functions of packages.

    The tasks are for turngate/CodeRepair-v1. Started again, the command goes on where it stopped.
    """
    from turngate.progress_bar import Progress

    settings = _Settings(seed, repetitions, workers, limit_s)
    with Progress(consoles.output(), "tasks", transient=True) as progress:
        _make(package, out, n, settings, progress.say, progress.update)


@dataclass(frozen=True, slots=True)
class _Settings:
    """The settings with which every package is harvested."""

    seed: int
    repetitions: int
    workers: int
    limit_s: float


def _make(packages: Sequence[str], folder: Path, n: int, settings: _Settings, say: Say, advance: Advance) -> None:
    from turngate.envs.code.grading.grading_sandbox import Bench
    from turngate.envs.code.taskset import check_target, sources_of

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


@app.command("check")
def check_tasks(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="Folder of a task set.")],
    workers: Annotated[int, typer.Option(min=1, help="Sandboxes that run at once.")] = 1,
) -> None:
    """Check that repairs pass their tests and bugs fail them. Exit code 1 if a task of the set does not hold."""
    from turngate.envs.code.grading.grading_sandbox import Bench
    from turngate.envs.code.taskset import problems_of
    from turngate.progress_bar import Progress

    console, problems = consoles.output(), problems_of(folder)
    n_broken = 0
    with Progress(console, "tasks", transient=True) as progress, Bench() as bench, ThreadPoolExecutor(workers) as pool:
        found = pool.map(lambda problem: _flaw(problem, bench), problems)
        for number, (problem, flaw) in enumerate(zip(problems, found, strict=True), 1):
            if flaw:
                n_broken += 1
                progress.say(f"{problem.id}: {flaw}")
            progress.update(number, len(problems), problem.id)
        progress.say(f"{folder}: {len(problems) - n_broken} of {len(problems)} tasks hold")
    raise typer.Exit(1 if n_broken else 0)


def _flaw(problem: Problem, bench: Bench) -> str:
    """The problem of a task; "" if there is none."""
    from turngate.envs.code.grading.junit import fallen

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
    from turngate.envs.code.dataset_card import HarvestedPackage, source_of
    from turngate.envs.code.generated.mutation.harvest import harvest
    from turngate.envs.code.generated.mutation.packages import open_package
    from turngate.envs.code.taskset import sources_of, with_source, write
    from turngate.sandbox.scratch import Scratch

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
    from turngate.envs.code.generated.mutation.packages import DOWNLOAD_S, fetch, unpack

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
