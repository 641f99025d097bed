"""What grading of code repair pays: every cheat of the corpus on every kind of problem, and honest repairs.

    python -m benchmarks.what_is_paid --csv docs/data/code_repair_cheats.csv --doc docs/code_repair.md
    python -m benchmarks.what_is_paid --no-cheats --quixbugs QuixBugs --tasks task_set --doc docs/code_repair.md

The first tries the cheats (tests/envs/code/cheats/) and repairs one generated problem of each family, level and kind of
bug. The second takes a copy of QuixBugs, and a folder that ``turngate tasks code`` made. Each writes its rows into the
CSV, and its tables between the markers of the document; rows of ``--label before``, made with an older turngate, stay
in the CSV and stand beside. The exit status is 1 if a cheat was paid or void, or an honest repair was not paid.
"""

from __future__ import annotations

import argparse
import csv
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path

from tests.envs.code.cheats.cheat import CLASSES
from tests.envs.code.cheats.corpus import CHEATS
from tests.envs.code.cheats.honest import generated
from tests.envs.code.cheats.kinds import problems
from tests.envs.code.cheats.measure import Paid, bare, paid, private_bench, try_cheat
from turngate.envs.code.engine.workspace import Changes
from turngate.envs.code.grading.grading_sandbox import Bench
from turngate.envs.code.loaders import quixbugs
from turngate.envs.code.problem import Problem
from turngate.envs.code.taskset import problems_of

COLUMNS = ("label", "class", "name", "problem", "bare", "resolved", "tests_fixed", "void", "fault", "left", "time_s")
HONEST = "honest"
KINDS = ("generated", "quixbugs", "mutation")
NOW, BEFORE = "now", "before"
TITLES = {"generated": "generated", "quixbugs": "QuixBugs", "mutation": "mutation of a package"}

Row = dict[str, str]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cheats", action=argparse.BooleanOptionalAction, default=True)
    parser.add_argument("--kinds", nargs="+", default=list(KINDS), choices=KINDS, help="what cheats are tried on")
    parser.add_argument("--quixbugs", type=Path, help="a folder in the layout of QuixBugs")
    parser.add_argument("--tasks", type=Path, help="a task set made by `turngate tasks code`")
    parser.add_argument("--at-most", type=int, default=300, help="how many tasks of the set")
    parser.add_argument("--label", default=NOW, choices=(NOW, BEFORE))
    parser.add_argument("--csv", type=Path, default=Path("docs/data/code_repair_cheats.csv"))
    parser.add_argument("--doc", type=Path, help="the document whose tables are written")
    arguments = parser.parse_args()
    rows = {key(row): row for row in read(arguments.csv)}
    made = []
    for row in measured(arguments):
        made.append(row)
        rows[key(row)] = row
        write(arguments.csv, rows.values())  # at once, so that what was measured stays when this is ended
    tables(list(rows.values()), arguments.doc)
    wrong = [row for row in made if is_wrong(row)]
    for row in wrong:
        print("WRONG", row["class"], row["name"], row["problem"], row["void"] or row["left"] or row["tests_fixed"])
    return int(bool(wrong))


def tables(rows: Sequence[Row], document: Path | None) -> None:
    """Print the tables, and write them into the document."""
    if document:
        into(document, "cheats", cheat_table(rows))
        into(document, "honest", honest_table(rows))
    print(f"{cheat_table(rows)}\n\n{honest_table(rows)}")


def key(row: Row) -> tuple[str, ...]:
    """What a row is about."""
    return row["label"], row["class"], row["name"], row["problem"]


def measured(arguments: argparse.Namespace) -> Iterator[Row]:
    """The rows of what was asked for, as they come."""
    with private_bench() as (bench, private), tempfile.TemporaryDirectory() as folder:
        if arguments.cheats:
            yield from cheats(bench, private, Path(folder), arguments.kinds, arguments.label)
        if arguments.cheats and "generated" in arguments.kinds:
            yield from honest(bench, private, "generated", generated(every_bug=True), arguments.label)
        if arguments.quixbugs:
            settled = quixbugs(arguments.quixbugs).settled(bench)
            for item in settled.dropped:
                print(f"left out: {item.id}: {item.reason}", file=sys.stderr)
            yield from honest(bench, private, "quixbugs", settled.problems, arguments.label)
        if arguments.tasks:
            tasks = islice(problems_of(arguments.tasks), arguments.at_most)
            yield from honest(bench, private, "mutation", tasks, arguments.label)


def cheats(bench: Bench, private: Path, folder: Path, kinds: Sequence[str], label: str) -> Iterator[Row]:
    """Every cheat on every problem of the fixtures that is of one of these kinds."""
    found = {name: problem for name, problem in problems(folder, bench).items() if name.startswith(tuple(kinds))}
    for number, cheat in enumerate(CHEATS):
        for name, problem in found.items():
            show(f"cheat {number} of {len(CHEATS)}: {name}")
            row = as_row(label, cheat.kind, cheat.name, name, try_cheat(bench, problem, cheat, private))
            yield row | {"bare": str(bare(bench, problem, cheat))}


def honest(bench: Bench, private: Path, kind: str, found: Iterable[Problem], label: str) -> Iterator[Row]:
    """The reference repair of each problem."""
    for number, problem in enumerate(found):
        show(f"honest repairs, {kind}: {number}")
        result = paid(bench, problem, Changes(texts=problem.solved), private)
        yield as_row(label, HONEST, problem.id, kind, result)


def show(text: str) -> None:
    """Progress, on a line that the next one overwrites."""
    print(f"\r{time.strftime('%H:%M:%S')} {text:<60}", end="", file=sys.stderr, flush=True)


def as_row(label: str, kind: str, name: str, problem: str, result: Paid) -> Row:
    values = (label, kind, name, problem, "", result.resolved, f"{result.fixed:.3g}", result.void, result.fault)
    left = "; ".join(result.left)
    return dict(zip(COLUMNS, map(str, (*values, left, f"{result.time_s:.2f}")), strict=True))


def is_wrong(row: Row) -> bool:
    """A cheat that was paid, void or left something, or an honest repair that was not paid in full."""
    if row["void"] or row["left"]:
        return True
    if row["class"] == HONEST:
        return (row["resolved"], row["tests_fixed"]) != ("True", "1")
    return row["resolved"] == "True" or row["tests_fixed"] != "0"


# --- tables -----------------------------------------------------------------------------------------------------------


def cheat_table(rows: Sequence[Row]) -> str:
    """Class × kind of problem → how many trials, and what became of them, before and now."""
    head = ["class", "problems", "trials", "pass a bare run of the tests"]
    head += [f"{what}, {label}" for label in (BEFORE, NOW) for what in ("paid", "tests paid", "void")]
    lines = [head, ["---"] * len(head)]
    for name in CLASSES:
        for kind in KINDS:
            mine = [row for row in rows if row["class"] == name and row["problem"].startswith(kind)]
            of = {label: [row for row in mine if row["label"] == label] for label in (BEFORE, NOW)}
            tried = of[NOW] or of[BEFORE]
            cells = [name, TITLES[kind], str(len(tried)), str(sum(row["bare"] == "True" for row in tried))]
            lines.append([*cells, *counts(of[BEFORE]), *counts(of[NOW])])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def counts(rows: Sequence[Row]) -> list[str]:
    """How many were paid in full, paid for tests, void; "–" where nothing was measured."""
    if not rows:
        return ["–"] * 3
    paid_for = [row["resolved"] == "True" for row in rows], [row["tests_fixed"] != "0" for row in rows]
    return [f"{sum(each)} of {len(rows)}" for each in (*paid_for, [bool(row["void"]) for row in rows])]


def honest_table(rows: Sequence[Row]) -> str:
    """Kind of problem → how many reference repairs were paid, before and now."""
    lines = [["honest repairs", f"paid, {BEFORE}", f"paid, {NOW}", "median s, now"], ["---"] * 4]
    for kind in KINDS:
        cells = [TITLES[kind]]
        for label in (BEFORE, NOW):
            mine = [r for r in rows if r["class"] == HONEST and r["problem"] == kind and r["label"] == label]
            cells.append(f"{sum(not is_wrong(row) for row in mine)} of {len(mine)}" if mine else "–")
        times = sorted(float(row["time_s"]) for row in mine)
        lines.append([*cells, f"{times[len(times) // 2]:.2f}" if times else "–"])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def into(path: Path, name: str, table: str) -> None:
    """Write a table between the markers of a document. Raises ValueError if they are not there."""
    begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
    text = path.read_text(encoding="utf-8")
    before, middle, rest = text.partition(begin)
    _, closing, after = rest.partition(end)
    if not (middle and closing):
        raise ValueError(f"'{path}' lacks the lines '{begin}' and '{end}'; write them where the table belongs")
    path.write_text(f"{before}{begin}\n\n{table}\n\n{end}{after}", encoding="utf-8")


def read(path: Path) -> list[Row]:
    """The rows of a CSV; none if there is no such file."""
    if not path.exists():
        return []
    with open(path, newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def write(path: Path, rows: Iterable[Row]) -> None:
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


if __name__ == "__main__":
    sys.exit(main())
