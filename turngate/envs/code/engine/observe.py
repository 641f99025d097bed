"""Files and outputs as an agent is shown them, within a budget of characters: the beginning, the end, and how much is
left out in between."""

from __future__ import annotations

import re

from turngate.sandbox import CommandResult, KilledBy

_TIME = re.compile(rb"(?m) in \d+\.\d+s(?: \(\d+:\d+:\d+\))?(?==|\s|$)")


def shorten(text: str, max_chars: int) -> str:
    """At most ``max_chars`` of a text, half from its beginning and half from its end, and how much lies between."""
    if len(text) <= max_chars:
        return text
    head, tail = (max_chars + 1) // 2, max_chars // 2
    return f"{text[:head]}\n[… {len(text) - head - tail} characters are not shown …]\n{text[len(text) - tail :]}"


def number_lines(text: str, first: int, last: int, max_chars: int) -> str:
    """Lines ``first`` to ``last``, counted from 1, each after its number; a note says how many lines lie around
    them."""
    lines = text.splitlines()
    shown = [f"{number} {line}" for number, line in enumerate(lines[first - 1 : last], first)]
    note = "" if first == 1 and last >= len(lines) else f"\n[lines {first} to {min(last, len(lines))} of {len(lines)}]"
    return shorten("\n".join(shown) or "[empty]", max_chars) + note


def result_text(result: CommandResult, max_chars: int) -> str:
    """The output of a command, then how it ended where that is not plain success."""
    parts = [shorten(result.text().rstrip("\n"), max_chars)]
    if result.truncated:
        parts.append("[more output was written than is kept]")
    if result.killed_by is KilledBy.DEADLINE:
        parts.append(f"[killed: it ran longer than {result.time_s:.0f} s]")
    elif result.killed_by is not None:
        parts.append(f"[killed: {result.killed_by.value}]")
    elif result.exit:
        parts.append(f"[exit {result.exit}]")
    parts.append(result.note)
    return "\n".join(part for part in parts if part) or "[no output]"


def without_times(output: str) -> str:
    """The output of a test run without its duration, which differs from run to run."""
    return _TIME.sub(b"", output.encode("utf-8", "surrogateescape")).decode("utf-8", "surrogateescape")
