"""The reference questions: every answer recomputed in Python from the standard library's own tables, without SQL."""

import hashlib
import json
import mimetypes
import os
import sqlite3
import subprocess
import sys
import unicodedata
from collections import Counter
from collections.abc import Callable
from html.entities import name2codepoint
from http import HTTPStatus
from importlib.resources import files
from typing import Any

from tests.helpers.every import for_every
from turngate.envs.sql.loaders.reference import reference_tasks
from turngate.envs.tasks import TaskList

UNICODE = unicodedata.ucd_3_2_0
BLOCKS = {
    "Basic Latin": range(0x0, 0x80),
    "Latin-1 Supplement": range(0x80, 0x100),
    "Latin Extended-A": range(0x100, 0x180),
    "Latin Extended-B": range(0x180, 0x250),
    "Spacing Modifier Letters": range(0x2B0, 0x300),
    "Greek and Coptic": range(0x370, 0x400),
    "Cyrillic": range(0x400, 0x500),
    "General Punctuation": range(0x2000, 0x2070),
    "Currency Symbols": range(0x20A0, 0x20D0),
    "Letterlike Symbols": range(0x2100, 0x2150),
    "Arrows": range(0x2190, 0x2200),
    "Mathematical Operators": range(0x2200, 0x2300),
    "Miscellaneous Technical": range(0x2300, 0x2400),
    "Geometric Shapes": range(0x25A0, 0x2600),
    "Miscellaneous Symbols": range(0x2600, 0x2700),
}
FULL = [*range(0x100), *BLOCKS["Greek and Coptic"], *BLOCKS["Cyrillic"]]
CHARACTERS = sorted({c for c in FULL if UNICODE.category(chr(c)) != "Cn"} | set(name2codepoint.values()))
CATEGORY = {c: UNICODE.category(chr(c)) for c in CHARACTERS}
CATEGORY_CODES = "Lu Ll Lt Lm Lo Mn Mc Me Nd Nl No Pc Pd Ps Pe Pi Pf Po Sm Sc Sk So Zs Zl Zp Cc Cf Cs Co Cn"
GENERAL_CATEGORIES = CATEGORY_CODES.split()
AFTER_PYTHON_3_9_OR_REWORDED = {413, 414, 416, 422}
STATUSES = {int(s): s.phrase for s in HTTPStatus if s < 600 and s not in AFTER_PYTHON_3_9_OR_REWORDED}
CLASSES = {1: "Informational", 2: "Successful", 3: "Redirection", 4: "Client Error", 5: "Server Error"}


def block_of(codepoint: int) -> str:
    return next(name for name, span in BLOCKS.items() if codepoint in span)


def media() -> dict[str, tuple[str, str]]:
    """Extension to type and subtype; which extensions are in the database is no question, so they are read from it."""
    connection = sqlite3.connect(":memory:")
    connection.deserialize(reference_tasks()[0].private["database"])
    kinds = mimetypes.MimeTypes(()).types_map[True]
    extensions = [row[0] for row in connection.execute("SELECT extension FROM media_types")]
    return {extension: tuple(kinds["." + extension].split("/")) for extension in extensions}  # type: ignore[misc]


MEDIA = media()
TYPES = Counter(kind for kind, _ in MEDIA.values())
SUBTYPES = Counter(subtype for _, subtype in MEDIA.values())


def column(values: Any) -> list[tuple[Any, ...]]:
    return [(value,) for value in values]


def entities_in(block: str) -> list[str]:
    return [name for name, codepoint in name2codepoint.items() if block_of(codepoint) == block]


def average_block() -> float:
    return len(CHARACTERS) / len(BLOCKS)


def initials(kind: str) -> set[str]:
    return {extension[0] for extension, (name, _) in MEDIA.items() if name == kind}


ANSWERS: dict[str, Callable[[], list[tuple[Any, ...]]]] = {
    "teapot": lambda: column([HTTPStatus(418).phrase]),
    "not-found": lambda: column([int(HTTPStatus.NOT_FOUND)]),
    "status-count": lambda: column([len(STATUSES)]),
    "not-phrases": lambda: [(code, phrase) for code, phrase in STATUSES.items() if phrase.startswith("Not ")],
    "required": lambda: column(sorted(code for code, phrase in STATUSES.items() if phrase.endswith("Required"))),
    "pdf": lambda: [MEDIA["pdf"]],
    "jpeg": lambda: column(extension for extension, kind in MEDIA.items() if kind == ("image", "jpeg")),
    "euro": lambda: column([ord("€")]),
    "entity-count": lambda: column([len(name2codepoint)]),
    "al-entities": lambda: column(name for name in name2codepoint if name.lower().startswith("al")),
    "nameless": lambda: column([sum(UNICODE.name(chr(c), "") == "" for c in CHARACTERS)]),
    "digit-seven": lambda: column([ord("7")]),
    "greek-range": lambda: [(BLOCKS["Greek and Coptic"][0], BLOCKS["Greek and Coptic"][-1])],
    "majors": lambda: column(["Letter", "Mark", "Number", "Punctuation", "Symbol", "Separator", "Other"]),
    "media-groups": lambda: list(TYPES.items()),
    "media-common": lambda: column([TYPES.most_common(1)[0][0]]),
    "subtype-shared": lambda: column(sorted(subtype for subtype, count in SUBTYPES.items() if count > 3)),
    "last-status": lambda: column([STATUSES[max(STATUSES)]]),
    "shortest-phrase": lambda: column([min(STATUSES, key=lambda code: len(STATUSES[code]))]),
    "smallest-block": lambda: column([min(BLOCKS, key=lambda name: len(BLOCKS[name]))]),
    "first-blocks": lambda: column(sorted(BLOCKS, key=lambda name: -BLOCKS[name][0])[:3]),
    "major-count": lambda: column([sum(code.startswith("P") for code in GENERAL_CATEGORIES)]),
    "digit-sum": lambda: column([sum(UNICODE.decimal(chr(c), 0) for c in CHARACTERS)]),
    "directions": lambda: column([len({UNICODE.bidirectional(chr(c)) for c in CHARACTERS})]),
    "status-classes": lambda: list(Counter(CLASSES[code // 100] for code in STATUSES).items()),
    "redirections": lambda: column(STATUSES[code] for code in sorted(STATUSES) if 300 <= code < 400),
    "early-class": lambda: column([CLASSES[HTTPStatus.TOO_EARLY // 100]]),
    "hearts": lambda: column([UNICODE.name("♥")]),
    "arrow-entities": lambda: column(entities_in("Arrows")),
    "currency": lambda: column(c for c in CHARACTERS if CATEGORY[c] == "Sc"),
    "greek-upper": lambda: column([sum(CATEGORY.get(c) == "Lu" for c in BLOCKS["Greek and Coptic"])]),
    "entity-blocks": lambda: list(Counter(map(block_of, name2codepoint.values())).items()),
    "unused-categories": lambda: column(set(GENERAL_CATEGORIES) - set(CATEGORY.values())),
    "cyrillic-marks": lambda: column([sum(CATEGORY.get(c, "")[:1] == "M" for c in BLOCKS["Cyrillic"])]),
    "ascii-entities": lambda: column(name for name, codepoint in name2codepoint.items() if codepoint < 128),
    "latin-no-entity": lambda: column(
        [sum(CATEGORY[c] == "Ll" and c < 1024 for c in set(CHARACTERS) - set(name2codepoint.values()))]
    ),
    "two-cases": lambda: column([len({name.lower() for name in name2codepoint})]),
    "big-classes": lambda: column(
        name for number, name in CLASSES.items() if sum(code // 100 == number for code in STATUSES) > 10
    ),
    "image-and-text": lambda: column(initials("image") & initials("text")),
    "block-above-average": lambda: column(
        name for name, count in Counter(map(block_of, CHARACTERS)).items() if count > average_block()
    ),
}

LINES = (
    files("turngate.envs.sql.loaders").joinpath("reference_questions.jsonl").read_text(encoding="utf-8").splitlines()
)
QUESTIONS = {row["id"]: row for row in map(json.loads, LINES)}


def run(sql: str, *, backwards: bool = False) -> list[tuple[Any, ...]]:
    connection = sqlite3.connect(":memory:")
    connection.deserialize(reference_tasks()[0].private["database"])
    connection.execute(f"PRAGMA reverse_unordered_selects = {int(backwards)}")
    return connection.execute(sql).fetchall()


def test_every_question_has_an_answer_of_its_own():
    assert len(LINES) == len(QUESTIONS) >= 30
    assert set(QUESTIONS) == set(ANSWERS)


@for_every("name", QUESTIONS)
def test_the_written_answer_is_what_python_finds_without_sql(name: str):
    row = QUESTIONS[name]
    written = [tuple(values) for values in row["answer"]]
    computed = ANSWERS[name]()
    assert (written == computed) if row["ordered"] else (Counter(written) == Counter(computed))


@for_every("name", QUESTIONS)
def test_the_gold_query_gives_the_written_answer_in_any_scan_order(name: str):
    row = QUESTIONS[name]
    written = [tuple(values) for values in row["answer"]]
    for backwards in (False, True):
        found = run(row["sql"], backwards=backwards)
        assert (written == found) if row["ordered"] else (Counter(written) == Counter(found))
    assert 1 <= len(written) <= 50
    assert row["ordered"] == ("ORDER BY" in row["sql"] and not row["sql"].endswith("LIMIT 1"))
    assert all(f" {table}" in row["sql"] for table in row["tables"])


def test_the_database_is_sound_and_has_several_hundred_rows():
    assert run("PRAGMA foreign_key_check") == []
    assert run("PRAGMA integrity_check") == [("ok",)]
    assert run("SELECT count(*) FROM characters") == [(len(CHARACTERS),)] == [(717,)]
    assert run("SELECT count(*) FROM media_types") == [(91,)]
    assert run("SELECT codepoint FROM characters ORDER BY codepoint") == column(CHARACTERS)
    assert run("SELECT code, phrase FROM statuses ORDER BY code") == sorted(STATUSES.items())
    assert run("SELECT name FROM characters WHERE glyph = 'Ω'") == [("GREEK CAPITAL LETTER OMEGA",)]


def test_the_same_bytes_come_from_another_process():
    code = (
        "import hashlib\n"
        "from turngate.envs.sql.loaders.reference import reference_tasks\n"
        'print(hashlib.sha256(reference_tasks()[0].private["database"]).hexdigest())'
    )
    environment = {**os.environ, "PYTHONHASHSEED": "99", "PYTHONPATH": os.pathsep.join(sys.path)}
    printed = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True, timeout=60
    )
    assert printed.stdout.strip() == hashlib.sha256(reference_tasks()[0].private["database"]).hexdigest()


def test_the_tasks_keep_the_contract():
    tasks = TaskList(reference_tasks())
    assert tasks.splits == ("reference",)
    assert tasks.size("reference") == len(QUESTIONS)
    teapot = tasks.find("sql/reference/teapot")
    assert teapot.env_id == "turngate/Sql-v1"
    assert teapot.prompt == "what is the phrase of status code 418"
    assert teapot.private["database"] == reference_tasks()[0].private["database"]
    assert teapot.private["gold"] == "SELECT phrase FROM statuses WHERE code = 418"
    assert teapot.private["tables"] == ("statuses",)
    assert (teapot.private["ordered"], teapot.private["level"]) == (False, 1)
    assert {task.private["level"] for task in reference_tasks()} == {1, 2, 3, 4}
