"""Experience memory: short general rules that a model wrote by comparing episodes, with a record of what each is worth.

Training-Free GRPO (https://arxiv.org/abs/2510.08191) changes such a memory instead of weights: a model looks at groups
whose siblings did differently well and replies with operations, ADD, UPDATE, DELETE or NONE. Here the memory also
forbids what would make it a list of answers, counts successes with and without each rule, and retires a rule that
does harm. The limits and the statistics are ours. Neither the model that writes nor a file of rules is trusted.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, Literal, TypeAlias, TypeGuard, get_args

from turngate.envs.leak import leaked_secret
from turngate.errors import StoreError
from turngate.judges.texts import Fault, FaultKind, read_object
from turngate.trainer.guidance.voices import other_voice
from turngate.types import JSON, Guidance, Task, storable

MOST_WORDS = 40
"""Most words of a rule."""
MOST_OPERATIONS, MOST_CHARS = 20, 400
"""Most operations that are done of one reply, and most characters of a rule."""
MOST_RULES = 1000
"""Most rules of a memory; a thousand of the longest ones are 400,000 characters."""
OpKind: TypeAlias = Literal["ADD", "UPDATE", "DELETE"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Experience:
    """One rule of the memory. ``domain``: the environment that it is about.

    ``n_with`` episodes were shown it, of which ``wins_with`` succeeded; ``n_without`` and ``wins_without`` count their
    siblings that were shown nothing.
    """

    id: str
    domain: str
    text: str
    n_with: int = 0
    wins_with: int = 0
    n_without: int = 0
    wins_without: int = 0

    @property
    def lift(self) -> float:
        """Success with the rule minus success without it; 0 as long as one of the two was never measured."""
        if not self.n_with or not self.n_without:
            return 0.0
        return self.wins_with / self.n_with - self.wins_without / self.n_without


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """One change that a model asks for: ADD a ``text``, UPDATE the rule ``id`` to a ``text``, or DELETE ``id``."""

    kind: OpKind
    id: str = ""
    text: str = ""


def read_operations(reply: str) -> tuple[Operation, ...] | Fault:
    """The operations in a reply such as ``{"operations": [{"op": "UPDATE", "id": "G1", "text": "When …"}]}``.

    NONE asks for nothing. A reply with anything that is not an operation is a fault as a whole: nothing is guessed.
    """
    data = read_object(reply)
    if isinstance(data, Fault):
        return data
    rows = data.get("operations")
    if not isinstance(rows, list):
        return _malformed("'operations' must be a list")
    found: list[Operation] = []
    for row in rows:
        one = _operation(row)
        if isinstance(one, Fault):
            return one
        found += [one] if one else []
    return tuple(found)


def _operation(row: object) -> Operation | Fault | None:
    said = row.get("op") if isinstance(row, Mapping) else None
    if said == "NONE":
        return None
    kind: OpKind | None = next((known for known in get_args(OpKind) if known == said), None)
    if kind is None or not isinstance(row, Mapping):
        return _malformed("'op' must be ADD, UPDATE, DELETE or NONE")
    id_, text = row.get("id", ""), row.get("text", "")
    if kind != "ADD" and not (isinstance(id_, str) and id_):
        return _malformed(f"{kind} needs the 'id' of a rule")
    if kind != "DELETE" and not (isinstance(text, str) and text.strip()):
        return _malformed(f"{kind} needs a 'text'")
    return Operation(
        kind=kind, id="" if kind == "ADD" else str(id_), text="" if kind == "DELETE" else " ".join(str(text).split())
    )


def _malformed(detail: str) -> Fault:
    return Fault(kind=FaultKind.MALFORMED, detail=detail)


class Memory:
    """The rules of a run. An id, ``G1``, ``G2`` …, is never used again, also when its rule is gone."""

    def __init__(self) -> None:
        self._entries: dict[str, Experience] = {}
        self._n_made = 0

    @property
    def entries(self) -> tuple[Experience, ...]:
        """Every rule, in the order in which they were added."""
        return tuple(self._entries.values())

    def of(self, domain: str) -> tuple[Experience, ...]:
        """The rules about one environment."""
        return tuple(entry for entry in self.entries if entry.domain == domain)

    def apply(
        self,
        operations: Iterable[Operation],
        *,
        domain: str,
        tasks: Sequence[Task],
        secrets: Callable[[Task], Sequence[str]] = lambda task: (),
    ) -> Counter[str]:
        """Carry out the operations in order. Returns how many of each kind were done, and how many were refused by
        reason.

        ``tasks``: those whose episodes the writer was shown; ``secrets``: what gives one of them away, see
        ``TurnEnv.secrets``.

        Refused: ``refused_many`` (after the first 20 operations), ``refused_unknown`` (no rule of this domain has the
        id), ``refused_full`` (there are 1,000 rules), ``refused_long`` (more than 40 words or 400 characters),
        ``refused_voice`` (it speaks in another voice, see ``other_voice``), ``refused_answer`` (it holds a
        secret of one of ``tasks``), ``refused_leak`` (numbers or names that stand in one of ``tasks``, see ``copied``),
        ``refused_twice`` (the same text is there already).
        """
        counts: Counter[str] = Counter()
        known = [(task, secrets(task)) for task in tasks]
        for number, operation in enumerate(operations):
            problem = "refused_many" if number >= MOST_OPERATIONS else self._problem(operation, domain, known)
            counts[problem or operation.kind.lower()] += 1
            if problem:
                continue
            if operation.kind == "DELETE":
                del self._entries[operation.id]
                continue
            id_ = operation.id
            if operation.kind == "ADD":
                self._n_made += 1
                id_ = f"G{self._n_made}"
            # The counts of an updated rule start at 0 again, because they were about its old text.
            self._entries[id_] = Experience(id=id_, domain=domain, text=operation.text)
        return counts

    def count(self, shown: Iterable[str], *, wins_with: int, n_with: int, wins_without: int, n_without: int) -> None:
        """Add the results of one group to the rules ``shown`` to its guided episodes; those that are gone are left
        out."""
        for id_ in shown:
            if (entry := self._entries.get(id_)) is not None:
                self._entries[id_] = replace(
                    entry,
                    n_with=entry.n_with + n_with,
                    wins_with=entry.wins_with + wins_with,
                    n_without=entry.n_without + n_without,
                    wins_without=entry.wins_without + wins_without,
                )

    def retire(self) -> list[str]:
        """Drop every rule whose lift is below 0 with its whole interval, and return their ids."""
        gone = [entry.id for entry in self.entries if lift_interval(entry)[1] < 0]
        for id_ in gone:
            del self._entries[id_]
        return gone

    def retrieve(self, domain: str, most: int) -> tuple[Experience, ...]:
        """The ``most`` rules of a domain with the largest ``lift + √(2·ln(N + 1)/(n + 1))``, best first.

        n: how often the rule was shown, N: the sum of n over the domain (the bound of DUMP,
        https://arxiv.org/abs/2504.09710). So a rule that was not tried yet comes before one that was.
        """
        entries = self.of(domain)
        whole = sum(entry.n_with for entry in entries)

        def rank(entry: Experience) -> tuple[float, int]:
            return -(entry.lift + math.sqrt(2 * math.log(whole + 1) / (entry.n_with + 1))), int(entry.id[1:])

        return tuple(sorted(entries, key=rank)[:most])

    def state(self) -> dict[str, JSON]:
        """The whole memory as JSON."""
        return {"made": self._n_made, "entries": [asdict(entry) for entry in self.entries]}

    def load(self, state: Mapping[str, JSON]) -> None:
        """Restore what ``state`` returned. Raises StoreError for anything else, such as more rules than a memory keeps,
        and leaves the memory as it was."""
        rows, made = state.get("entries"), state.get("made")
        if set(state) != {"entries", "made"} or not isinstance(rows, list) or not _is_count(made):
            raise StoreError("this is not a memory, which has a number 'made' and a list 'entries', and nothing else")
        if len(rows) > MOST_RULES:
            raise StoreError(f"this is not a memory: it has {len(rows)} rules, and a memory has at most {MOST_RULES}")
        found: dict[str, Experience] = {}
        for number, row in enumerate(rows, start=1):
            problem = _flaw_of(row, made)
            if not problem and row["id"] in found:
                problem = f"another one has the id '{row['id']}' too"
            if problem:
                raise StoreError(f"this is not a memory: rule {number} of {len(rows)}: {problem}")
            found[row["id"]] = Experience(**row | {"text": storable(row["text"])})
        self._entries, self._n_made = found, made

    def _problem(self, operation: Operation, domain: str, known: Sequence[tuple[Task, Sequence[str]]]) -> str:
        entry, text = self._entries.get(operation.id), operation.text
        if operation.kind != "ADD" and (entry is None or entry.domain != domain):
            return "refused_unknown"
        if operation.kind == "DELETE":
            return ""
        if operation.kind == "ADD" and len(self._entries) >= MOST_RULES:
            return "refused_full"
        if _is_long(text):
            return "refused_long"
        if other_voice(text):
            return "refused_voice"
        if any(leaked_secret(text, secrets, task.prompt) for task, secrets in known):
            return "refused_answer"
        if any(copied(text, task) for task, _ in known):
            return "refused_leak"
        return "refused_twice" if any(text == one.text for one in self.of(domain)) else ""


def _is_long(text: str) -> bool:
    return len(text) > MOST_CHARS or len(text.split()) > MOST_WORDS


# --- a memory that comes from a file ---------------------------------------------------------------------------------

_ID = re.compile(r"G[1-9][0-9]{0,8}")
_MOST_COUNTED = 2**53
_MOST_DOMAIN = 200
"""Most characters of the name of an environment."""
_COUNTS = (("n_with", "wins_with"), ("n_without", "wins_without"))


def _flaw_of(row: Any, made: int) -> str:
    """Why a row is no valid rule, in words; "" = it is valid."""
    names = [field.name for field in fields(Experience)]
    if not isinstance(row, dict) or sorted(row) != sorted(names):
        return f"it must be a table with {', '.join(names)}, and nothing else"
    id_, domain, text = row["id"], row["domain"], row["text"]
    if not isinstance(id_, str) or not _ID.fullmatch(id_) or int(id_[1:]) > made:
        return f"the id is {id_!r:.40}; ids go from 'G1' to 'G{made}', the number that is 'made'"
    if not isinstance(domain, str) or not 0 < len(domain) <= _MOST_DOMAIN:
        return f"the domain is {domain!r:.40}; it must be the name of an environment"
    if not isinstance(text, str) or not text or _is_long(text) or text != " ".join(text.split()):
        return (
            f"the text is {text!r:.40}; it must be one line of 1 to {MOST_WORDS} words, {MOST_CHARS} characters at most"
        )
    for shown, won in _COUNTS:
        if not (_is_count(row[shown]) and _is_count(row[won]) and row[won] <= row[shown]):
            return f"{won} is {row[won]!r:.40} and {shown} {row[shown]!r:.40}; they count successes and episodes"
    return ""


def _is_count(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _MOST_COUNTED


def lift_interval(entry: Experience, z: float = 1.96) -> tuple[float, float]:
    """The interval of a rule's lift: the difference of two independent rates (Newcombe 1998, method 10).

    (-1, 1) as long as one of the rates was never measured.
    """
    if not entry.n_with or not entry.n_without:
        return -1.0, 1.0
    p, q = entry.wins_with / entry.n_with, entry.wins_without / entry.n_without
    p_low, p_high = _wilson(p, entry.n_with, z)
    q_low, q_high = _wilson(q, entry.n_without, z)
    return p - q - math.hypot(p - p_low, q_high - q), p - q + math.hypot(p_high - p, q - q_low)


def _wilson(share: float, n: int, z: float) -> tuple[float, float]:
    """The interval of a rate (Wilson 1927)."""
    spread = z * z / n
    centre, half = share + spread / 2, math.sqrt(share * (1 - share) * spread + spread * spread / 4)
    return (centre - half) / (1 + spread), (centre + half) / (1 + spread)


# --- what may not be remembered --------------------------------------------------------------------------------------

_NUMBER = re.compile(r"(?<![\w.])\d+(?:[.,]\d+)*")
_QUOTED = re.compile(r"'([^']{2,})'|\"([^\"]{2,})\"|`([^`]+)`")
_IDENTIFIER = re.compile(r"\b\w+(?:[._/]\w+)+\b")
_NAME = re.compile(r"(?<![.!?:]\s)(?<!^)\b[A-Z][a-z]+\b")


def copied(text: str, task: Task) -> tuple[str, ...]:
    """The numbers and names in ``text`` that the task holds, in its prompt or among what it keeps private.

    Names are quoted parts, identifiers (``order_items``, ``lib/a.py``) and capitalised words that do not begin a
    sentence; the latter are looked for in the prompt alone, where no code stands.
    """
    known = " \n ".join(_texts(task.private))
    exact = {*_NUMBER.findall(text), *_IDENTIFIER.findall(text)}
    exact |= {part for groups in _QUOTED.findall(text) for part in groups if part}
    found = {one for one in exact if _stands(one, task.prompt) or _stands(one, known)}
    found |= {one for one in _NAME.findall(text) if _stands(one, task.prompt)}
    return tuple(sorted(found))


def _stands(wanted: str, text: str) -> bool:
    return re.search(rf"(?<!\w){re.escape(wanted)}(?!\w)", text, re.IGNORECASE) is not None


def _texts(value: object) -> list[str]:
    """The texts and numbers in a nest of tables and lists."""
    if isinstance(value, Mapping):
        return [text for one in value.values() for text in _texts(one)]
    if isinstance(value, (list, tuple)):
        return [text for one in value for text in _texts(one)]
    return [str(value)] if isinstance(value, (str, int, float)) and not isinstance(value, bool) else []


# --- what an episode is shown ----------------------------------------------------------------------------------------

KIND = "experience"
"""``Guidance.kind`` of an episode that was shown rules of the memory."""
_SHOWN = re.compile(r"^\[(G\d+)\] ", re.MULTILINE)


def guidance_of(entries: Sequence[Experience]) -> Guidance | None:
    """The rules as help for an episode, at its beginning; None for no rules."""
    if not entries:
        return None
    lines = [f"[{entry.id}] {entry.text}" for entry in entries]
    text = "\n".join(["Experience from earlier tasks; use what fits:", *lines])
    return Guidance(kind=KIND, level=1, text=text, source="memory")


def shown_ids(guidance: Guidance | None) -> tuple[str, ...]:
    """The ids of the rules that an episode was shown."""
    return tuple(_SHOWN.findall(guidance.text)) if guidance is not None and guidance.kind == KIND else ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Recalled:
    """What an episode of one task is shown of the memory. ``withheld``: ids of the rules that it would be shown too,
    were they not about its answer or in another voice."""

    guidance: Guidance | None
    withheld: tuple[str, ...] = ()


def recalled(entries: Sequence[Experience], task: Task, secrets: Sequence[str]) -> Recalled:
    """``entries`` as help for ``task``, without each rule that holds one of the ``secrets`` of the task, or speaks in
    another voice (``other_voice``); none if all of them together hold one."""

    def gives_away(text: str) -> bool:
        return bool(leaked_secret(text, secrets, task.prompt))

    kept = [entry for entry in entries if not (other_voice(entry.text) or gives_away(entry.text))]
    guidance = guidance_of(kept)
    if guidance is not None and gives_away(guidance.text):
        kept, guidance = [], None
    ids = {entry.id for entry in kept}
    return Recalled(guidance=guidance, withheld=tuple(entry.id for entry in entries if entry.id not in ids))
