"""A real database that ships with Python, and hand-checked questions about it.

Seven tables: Unicode blocks, general categories and characters, the character entities of HTML 4, HTTP status codes
with their classes, and media types by file extension. Every source is restricted to parts that no Python version
changes: the frozen Unicode 3.2 tables, and those status codes and media types that read the same from Python 3.9 to
3.15.
"""

from __future__ import annotations

import json
import mimetypes
import unicodedata
from collections.abc import Iterator
from functools import cache
from html.entities import name2codepoint
from http import HTTPStatus
from importlib.resources import files
from typing import Any

from turngate.envs.sql.generated.content import Row, connect, freeze
from turngate.envs.sql.task import SqlTask
from turngate.errors import DataError
from turngate.types import Task

_SCHEMA = """
CREATE TABLE blocks (id INTEGER PRIMARY KEY, name TEXT NOT NULL, first INTEGER NOT NULL, last INTEGER NOT NULL);
CREATE TABLE categories (code TEXT PRIMARY KEY, name TEXT NOT NULL, major TEXT NOT NULL);
CREATE TABLE characters (codepoint INTEGER PRIMARY KEY, name TEXT, glyph TEXT,
  category_code TEXT NOT NULL REFERENCES categories(code), block_id INTEGER NOT NULL REFERENCES blocks(id),
  direction TEXT NOT NULL, digit INTEGER);
CREATE TABLE entities (name TEXT PRIMARY KEY, codepoint INTEGER NOT NULL REFERENCES characters(codepoint));
CREATE TABLE status_classes (id INTEGER PRIMARY KEY, name TEXT NOT NULL);
CREATE TABLE statuses (code INTEGER PRIMARY KEY, phrase TEXT NOT NULL,
  class_id INTEGER NOT NULL REFERENCES status_classes(id));
CREATE TABLE media_types (extension TEXT PRIMARY KEY, type TEXT NOT NULL, subtype TEXT NOT NULL);
"""

_BLOCKS = (
    ("Basic Latin", 0x0000, 0x007F),
    ("Latin-1 Supplement", 0x0080, 0x00FF),
    ("Latin Extended-A", 0x0100, 0x017F),
    ("Latin Extended-B", 0x0180, 0x024F),
    ("Spacing Modifier Letters", 0x02B0, 0x02FF),
    ("Greek and Coptic", 0x0370, 0x03FF),
    ("Cyrillic", 0x0400, 0x04FF),
    ("General Punctuation", 0x2000, 0x206F),
    ("Currency Symbols", 0x20A0, 0x20CF),
    ("Letterlike Symbols", 0x2100, 0x214F),
    ("Arrows", 0x2190, 0x21FF),
    ("Mathematical Operators", 0x2200, 0x22FF),
    ("Miscellaneous Technical", 0x2300, 0x23FF),
    ("Geometric Shapes", 0x25A0, 0x25FF),
    ("Miscellaneous Symbols", 0x2600, 0x26FF),
)
_WHOLE_BLOCKS = ("Basic Latin", "Latin-1 Supplement", "Greek and Coptic", "Cyrillic")  # others: entities only

_MAJORS = {"L": "Letter", "M": "Mark", "N": "Number", "P": "Punctuation", "S": "Symbol", "Z": "Separator", "C": "Other"}
_CATEGORIES = {
    **{"Lu": "Uppercase Letter", "Ll": "Lowercase Letter", "Lt": "Titlecase Letter", "Lm": "Modifier Letter"},
    **{"Lo": "Other Letter", "Mn": "Nonspacing Mark", "Mc": "Spacing Mark", "Me": "Enclosing Mark"},
    **{"Nd": "Decimal Number", "Nl": "Letter Number", "No": "Other Number", "Pc": "Connector Punctuation"},
    **{"Pd": "Dash Punctuation", "Ps": "Open Punctuation", "Pe": "Close Punctuation", "Pi": "Initial Punctuation"},
    **{"Pf": "Final Punctuation", "Po": "Other Punctuation", "Sm": "Math Symbol", "Sc": "Currency Symbol"},
    **{"Sk": "Modifier Symbol", "So": "Other Symbol", "Zs": "Space Separator", "Zl": "Line Separator"},
    **{"Zp": "Paragraph Separator", "Cc": "Control", "Cf": "Format", "Cs": "Surrogate", "Co": "Private Use"},
    "Cn": "Unassigned",
}

_STATUS_CLASSES = ("Informational", "Successful", "Redirection", "Client Error", "Server Error")
# Without 413, 414, 416 and 422, whose phrases Python 3.13 changed.
_STATUS_CODES = (
    *(*range(100, 104), *range(200, 209), 226, *range(300, 306), 307, 308, *range(400, 413), 415, 417, 418, 421),
    *(*range(423, 427), 428, 429, 431, 451, *range(500, 509), 510, 511),
)
_EXTENSIONS = (
    "ai au bat bcpio bin c cpio csh css csv dll doc dot dvi eml eps etx exe gif gtar h htm html ief jpe jpeg jpg json "
    "ksh latex m1v man me mht mhtml mif mov movie mp4 mpa mpe mpeg mpg ms nws o obj oda p12 p7c pbm pdf pfx pgm png "
    "pnm pot ppa ppm pps ppt ps pwz qt ras rgb rtx sgm sgml sh shar snd so src svg swf tar tcl tex tif tiff tsv txt "
    "ustar webm wiz xbm xls xpm xwd zip"
)


@cache
def reference_tasks() -> tuple[Task, ...]:
    """The hand-checked questions, split "reference". Raises DataError for a malformed line."""
    source = files("turngate.envs.sql.loaders").joinpath("reference_questions.jsonl")
    lines = source.read_text(encoding="utf-8").splitlines()
    return tuple(_task(line, number) for number, line in enumerate(lines, start=1))


@cache
def _frozen() -> tuple[bytes, str]:
    connection = connect()
    try:
        connection.executescript(_SCHEMA)
        for table, rows in _content().items():
            marks = ", ".join("?" * len(rows[0]))
            connection.executemany(f"INSERT INTO {table} VALUES ({marks})", rows)
        connection.commit()
        return freeze(connection)
    finally:
        connection.close()


def _content() -> dict[str, list[Row]]:
    kinds = mimetypes.MimeTypes(()).types_map[True]  # of no files: the host's own tables stay out
    media = [(extension, *kinds[f".{extension}"].split("/")) for extension in _EXTENSIONS.split()]
    return {
        "blocks": [(number, *block) for number, block in enumerate(_BLOCKS, start=1)],
        "categories": [(code, name, _MAJORS[code[0]]) for code, name in _CATEGORIES.items()],
        "characters": list(_characters()),
        "entities": list(name2codepoint.items()),
        "status_classes": list(enumerate(_STATUS_CLASSES, start=1)),
        "statuses": [(code, HTTPStatus(code).phrase, code // 100) for code in _STATUS_CODES],
        "media_types": list(media),
    }


def _characters() -> Iterator[Row]:
    unicode = unicodedata.ucd_3_2_0
    used = set(name2codepoint.values())
    for number, (block, first, last) in enumerate(_BLOCKS, start=1):
        for codepoint in range(first, last + 1):
            character = chr(codepoint)
            category = unicode.category(character)
            if category == "Cn" or not (block in _WHOLE_BLOCKS or codepoint in used):
                continue
            glyph = None if category == "Cc" else character
            digit = unicode.decimal(character, None)
            direction = unicode.bidirectional(character)
            yield codepoint, unicode.name(character, None), glyph, category, number, direction, digit


def _task(line: str, number: int) -> Task:
    where = "reference_questions.jsonl"
    try:
        row: dict[str, Any] = json.loads(line)
        image, key = _frozen()
        asked = SqlTask(
            database=image,
            key=key,
            gold=row["sql"],
            ordered=row["ordered"],
            tables=tuple(row["tables"]),
            shape="reference",
            family="reference",
            level=row["level"],
        )
        return Task(
            id=f"sql/reference/{row['id']}",
            env_id="turngate/Sql-v1",
            prompt=row["question"],
            private=asked.private(),
            split="reference",
        )
    except json.JSONDecodeError as error:
        raise DataError(where, f"not JSON: {error.msg}", line=number) from error
    except KeyError as error:
        raise DataError(where, "missing", line=number, field=str(error.args[0])) from error
