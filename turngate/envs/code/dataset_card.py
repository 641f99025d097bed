"""The card of a task set: its sources, settings, contents and refusals. Computed, never written by hand."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from turngate.envs.code.generated.mutation.harvest import Harvest
from turngate.envs.code.problem import Problem
from turngate.types import JSON

DIFFICULTY = ((1, "1 test"), (3, "2–3 tests"), (9, "4–9 tests"))
"""Up to so many failing tests → the name on the card."""
HARDER = "10 tests or more"


class HarvestedPackage(BaseModel):
    """One package of a task set, as it was harvested; a row of ``card.json``."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    asked: str
    """The package as the command named it: a name, or the last part of a folder."""
    package: str = ""
    version: str = ""
    licence: str = ""
    refused: str = ""
    """Why it gave no problem; "" if it gave some."""
    n_wanted: int = Field(ge=0)
    n_tasks: int = Field(default=0, ge=0)
    n_candidates: int = Field(default=0, ge=0)
    reasons: dict[str, int] = {}
    """Why candidates were refused → how many."""
    n_functions: int = Field(default=0, ge=0)
    n_tests: int = Field(default=0, ge=0)
    """Tests that pass every time and are fast enough."""
    n_found: int = Field(default=0, ge=0)
    """Tests that the package has; 0 in a card that was written before they were counted."""
    left_out: dict[str, int] = {}
    """Why tests are not used → how many."""
    dropped: tuple[str, ...] = ()
    """Settings of the package's own pytest configuration that could not be honoured."""
    stopped: bool = False
    """Whether its time was up before all of it was used."""
    limit_s: float = 0.0
    """0 in a card that was written before there was a limit."""
    seed: int
    repetitions: int
    time_s: float = 0.0

    @property
    def label(self) -> str:
        """``NAME-VERSION``, the name of its tree."""
        return f"{self.package}-{self.version}"


def source_of(asked: str, harvested: Harvest, n_wanted: int) -> HarvestedPackage:
    """The row of a package that gave problems."""
    package = harvested.package
    return HarvestedPackage(
        asked=asked,
        package=package.name,
        version=package.version,
        licence=package.licence,
        n_wanted=n_wanted,
        n_tasks=len(harvested.problems),
        n_candidates=harvested.n_candidates,
        reasons=dict(harvested.refused),
        n_functions=harvested.n_functions,
        n_tests=harvested.n_tests,
        n_found=harvested.n_found,
        left_out=dict(harvested.left_out),
        dropped=harvested.dropped,
        stopped=harvested.stopped,
        limit_s=harvested.limit_s,
        seed=harvested.seed,
        repetitions=harvested.repetitions,
        time_s=round(harvested.time_s, 1),
    )


def facts(
    problems: Sequence[Problem], splits: Mapping[str, int], sources: Sequence[HarvestedPackage]
) -> dict[str, JSON]:
    """``card.json``."""
    about: list[Mapping[str, Any]] = [problem.about for problem in problems]
    reasons = Counter[str]()
    for source in sources:
        reasons.update(source.reasons)
    return {
        "n_tasks": len(problems),
        "splits": dict(splits),
        "operators": _counted(name for item in about for name in item["operators"]),
        "n_functions": len({(item["package"], name) for item in about for name in item["functions"]}),
        "bugs": _counted(str(len(item["operators"])) for item in about),
        "lines_changed": _counted(str(item["lines_changed"]) for item in about),
        "difficulty": _counted(difficulty(int(item["n_failing"])) for item in about),
        "n_held_back": sum(item["n_held_back"] > 0 for item in about),
        "n_candidates": sum(source.n_candidates for source in sources),
        "reasons": dict(reasons.most_common()),
        "repetitions": sorted({source.repetitions for source in sources}),
        "n_unsteady": sum(int(item["n_unsteady"]) for item in about),
        "n_sensitive": sum(len(problem.sensitive) for problem in problems),
        "n_fail_to_pass": sum(len(problem.fail_to_pass) for problem in problems),
        "n_pass_to_pass": sum(len(problem.pass_to_pass) for problem in problems),
        "sources": [source.model_dump() for source in sources],
    }


def difficulty(n_failing: int) -> str:
    """The class of a problem by the number of its failing tests."""
    return next((name for limit, name in DIFFICULTY if n_failing <= limit), HARDER)


def _counted(values: Iterable[str]) -> dict[str, int]:
    return dict(sorted(Counter(values).items(), key=lambda item: (-item[1], item[0])))


def page(card: Mapping[str, JSON]) -> str:
    """``card.md`` of ``card.json``."""
    known: Mapping[str, Any] = card
    n, repetitions = known["n_tasks"], ", ".join(map(str, known["repetitions"]))
    used = [source for source in known["sources"] if not source["refused"]]
    left = [source for source in known["sources"] if source["refused"]]
    parts = [
        "# Repair tasks made of Python packages",
        f"{n} tasks of {sum(source['n_tasks'] > 0 for source in used)} packages: "
        + ", ".join(f"{count} in {name}" for name, count in known["splits"].items())
        + ". Each is a package in which one to three functions were broken; its own tests decide whether it is "
        f"repaired. In {known['n_held_back']} tasks some of the deciding tests are held back from the agent.",
        "## Packages",
        _table(
            ("package", "version", "licence", "tasks", "candidates", "functions", "tests", "seed", "time_s"),
            (
                [source["package"], source["version"], source["licence"] or "not said", source["n_tasks"]]
                + [source[name] for name in ("n_candidates", "n_functions", "n_tests", "seed", "time_s")]
                for source in used
            ),
        ),
    ]
    if left:
        parts += ["Not used:", _table(("package", "why"), ([item["asked"], item["refused"]] for item in left))]
    parts += _tests(used)
    for title, name, column in (
        ("Operators", "operators", "operator"),
        ("Bugs in a task", "bugs", "bugs"),
        ("Lines changed", "lines_changed", "lines"),
        ("Difficulty: failing tests", "difficulty", "tests that fail"),
        ("Refused candidates", "reasons", "why"),
    ):
        parts += [f"## {title}", _table((column, "count"), known[name].items())]
    return "\n\n".join([*parts, "## Checks", _checks(known, repetitions), "## Command", _command(known)]) + "\n"


def _tests(sources: Sequence[Mapping[str, Any]]) -> list[str]:
    """Which tests of the packages are not used, and which requests were not fulfilled."""
    rows = [[item["package"], reason, count] for item in sources for reason, count in item["left_out"].items()]
    parts = ["## Tests that are not used", _table(("package", "why", "tests"), rows)] if rows else []
    dropped = [[item["package"], ", ".join(item["dropped"])] for item in sources if item["dropped"]]
    if dropped:
        parts += ["Of the packages' own configuration of pytest, not honoured:", _table(("package", "what"), dropped)]
    stopped = [[item["package"], f"{item['limit_s']:g}", item["n_wanted"]] for item in sources if item["stopped"]]
    if stopped:
        parts += ["Stopped because their time was up:", _table(("package", "limit_s", "tasks wanted"), stopped)]
    return parts


def _checks(card: Mapping[str, Any], repetitions: str) -> str:
    n = card["n_tasks"]
    return "\n".join(
        (
            f"- The reference repair passes every deciding test, in each of {repetitions} repetitions: {n}/{n}.",
            f"- The bug fails every one that it has to, in each of {repetitions} repetitions: {n}/{n}.",
            f"- Deciding tests: {card['n_fail_to_pass']} that have to pass, of which {card['n_sensitive']} fail when "
            f"what they expect is altered, or run without it; {card['n_pass_to_pass']} that must not break.",
            f"- Tests that differed between repetitions, and so do not count: {card['n_unsteady']}.",
        )
    )


def _command(card: Mapping[str, Any]) -> str:
    """The commands that make the same set again, package by package."""
    lines = [
        f"turngate tasks code --package {source['asked']} --n {source['n_wanted']} --seed {source['seed']} "
        f"--repetitions {source['repetitions']}"
        + (f" --limit-s {source['limit_s']:g}" if source["limit_s"] else "")
        + " --out FOLDER"
        for source in card["sources"]
    ]
    return "```\n" + "\n".join(lines) + "\n```"


def _table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    lines = [list(head), ["---"] * len(head), *([str(cell).replace("|", "/") for cell in row] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
