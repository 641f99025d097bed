"""Logs of inspect_ai, version 2: a ``.json`` file, or an ``.eval`` file, which is a zip of the same objects.

A sample is an episode, its id the task, its epochs siblings. The values of scorers become evidence by their names: "C"
is 1, "P" 0.5, "I" and "N" 0. One scorer is the reward; of several a rubric has to say how they add up. ``target``,
``metadata``, ``store`` and ``events`` are left behind: the first three are private to the task, the last repeat the
messages. ``.eval`` files are read without inspect_ai: their members are packed with zstd, which pyarrow unpacks.
"""

from __future__ import annotations

import re
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import pyarrow as pa  # type: ignore[import-untyped]

from turngate.store.formats.fields import BadRecord, Fields, Plain
from turngate.store.formats.read_episode import ReadEpisode, episode_of
from turngate.types import Ending, Evidence

VERSION = 2
MAX_MEMBER = 256 * 2**20
"""Most bytes of one unpacked sample."""
_VALUES: Mapping[object, float] = {"C": 1.0, "P": 0.5, "I": 0.0, "N": 0.0}
_ZSTD = 93
_APART = re.compile("attachment://([0-9a-f]{32})")
_PRIVATE = (
    "target metadata store events timelines input choices output uuid model_usage role_usage started_at completed_at "
    "total_time working_time attachments events_data turn_count error_retries files setup sandbox description"
).split()


def samples(log: Plain) -> Iterator[Plain]:
    """The samples of a whole log, each with the name of its task. Raises BadRecord."""
    fields = Fields(log)
    check_version(fields)
    task = fields.table("eval").text("task", "inspect")
    if not fields.has("samples"):
        raise BadRecord("it has no samples; it was written without them (log_samples = false), or is the header alone")
    for sample in fields.list("samples"):
        yield {"task": task, "sample": sample}


def check_version(fields: Fields) -> None:
    """Raise BadRecord for a log of another version."""
    version = fields.whole("version", 0)
    if version != VERSION:
        then = "a newer turngate may read it" if version > VERSION else "let inspect_ai convert it: inspect log convert"
        raise BadRecord(
            f"version is {version or 'missing'}, this turngate reads inspect_ai's version {VERSION}; {then}"
        )


def episodes(record: Plain) -> list[ReadEpisode]:
    """The episode of one sample. Raises BadRecord."""
    fields = Fields(Fields(record).any("sample"))
    fields.ignore(*_PRIVATE)
    scores = {name: _value(score) for name, score in fields.table("scores").plain.items()}
    facts = [Evidence(name=name, value=value, by="verifier") for name, value in scores.items() if value is not None]
    limit, error = fields.any("limit"), fields.any("error")
    ending = Ending.FINISHED
    if limit is not None:
        ending = (
            Ending.TOKEN_BUDGET if Fields(limit, "limit").text("type", "") in ("token", "context") else Ending.MAX_TURNS
        )
    if error is not None:
        ending = Ending.ENV_ERROR
    attachments = Fields(fields.peek("attachments") or {}, "attachments").plain
    found = episode_of(
        [_message(_resolved(one, attachments)) for one in fields.list("messages")],
        task_id=fields.text("id"),
        env_id=f"inspect/{Fields(record).text('task')}",
        reward=next(iter(scores.values())) if len(scores) == 1 else None,
        facts=facts,
        ending=ending,
        error="" if error is None else Fields(error, "error").text("message", "")[:2000],
    )
    fields.ignore("epoch")
    return [replace(found, unread=fields.unread)]


def _value(score: Plain) -> float | None:
    """A score as a number; None for one that is none (a text, a table, NaN)."""
    value = score.get("value") if isinstance(score, Mapping) else None
    if isinstance(value, str):
        return _VALUES.get(value)
    usable = isinstance(value, bool | int | float) and value == value and abs(value) < 1e300
    return float(value) if usable else None  # type: ignore[arg-type]


def _message(one: Plain) -> Plain:
    """A message as OpenAI writes it: thoughts apart, and no text of a tool that failed is lost."""
    if not isinstance(one, Mapping):
        return one
    content, thought = one.get("content"), ""
    if isinstance(content, list):
        thoughts = [part for part in content if isinstance(part, Mapping) and part.get("type") == "reasoning"]
        content = [part for part in content if part not in thoughts]
        thought = "\n".join(str(part.get("reasoning") or "") for part in thoughts)
    error = one.get("error")
    if one.get("role") == "tool" and isinstance(error, Mapping):
        content = f"{content or ''}\nerror: {error.get('message', '')}".strip()
    return {
        **one,
        "content": content,
        "reasoning_content": thought,
        "tool_calls": [*map(_call, one.get("tool_calls") or [])],
    }


def _call(one: Plain) -> Plain:
    if not isinstance(one, Mapping) or not isinstance(one.get("function"), str):
        return one
    return {"name": one["function"], "arguments": one.get("arguments")}


def _resolved(value: Plain, attachments: Mapping[str, Plain]) -> Plain:
    """Long texts lie apart, under their digest (``attachment://…``)."""
    if isinstance(value, str):
        return _APART.sub(lambda found: str(attachments.get(found[1], found[0])), value) if attachments else value
    if isinstance(value, Mapping):
        return {key: _resolved(item, attachments) for key, item in value.items()}
    return [_resolved(item, attachments) for item in value] if isinstance(value, list) else value


# --- .eval -----------------------------------------------------------------------------------------------------------


def members(path: Path) -> Iterator[tuple[str, bytes | BadRecord]]:
    """(name, bytes) of the header and each sample of an ``.eval`` file. Raises BadRecord for what is no such file."""
    try:
        with zipfile.ZipFile(path) as archive, path.open("rb") as raw:
            infos = {info.filename: info for info in archive.infolist()}
            if "header.json" not in infos:
                raise BadRecord(
                    "it has no header.json: the evaluation was not finished, or it is no log of inspect_ai; finish it "
                    "with inspect_ai (inspect eval-retry), or convert it (inspect log convert)"
                )
            names = [name for name in infos if name.startswith("samples/") and name.endswith(".json")]
            for name in ("header.json", *sorted(names)):
                yield name, _unpacked(raw, infos[name])
    except (zipfile.BadZipFile, EOFError) as error:
        raise BadRecord(f"it is no complete zip file ({error}): it is damaged or half-written") from None


def _unpacked(raw: Plain, info: zipfile.ZipInfo) -> bytes | BadRecord:
    if info.file_size > MAX_MEMBER:
        return BadRecord(f"it unpacks to {info.file_size:,} bytes; at most {MAX_MEMBER:,} are taken")
    raw.seek(info.header_offset)
    head = raw.read(30)
    raw.seek(int.from_bytes(head[26:28], "little") + int.from_bytes(head[28:30], "little"), 1)
    packed = raw.read(info.compress_size)
    try:
        text: bytes
        if info.compress_type == zipfile.ZIP_STORED:
            text = packed
        elif info.compress_type == _ZSTD:
            with pa.CompressedInputStream(pa.BufferReader(packed), "zstd") as stream:
                text = stream.read(info.file_size + 1)
        elif info.compress_type == zipfile.ZIP_DEFLATED:
            text = zlib.decompressobj(-15).decompress(packed, info.file_size + 1)
        else:
            return BadRecord(
                f"it is packed by method {info.compress_type}, which is not read; let inspect_ai convert it"
            )
    except (OSError, zlib.error, ValueError) as error:
        return BadRecord(f"it cannot be unpacked ({error}): the file is damaged")
    if len(text) != info.file_size or zlib.crc32(text) != info.CRC:
        return BadRecord("its checksum is wrong: the file is damaged")
    return text
