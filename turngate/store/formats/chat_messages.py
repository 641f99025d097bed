"""An episode as chat messages, as OpenAI's chat completions and chat templates write them.

A message of the environment is an observation: ``tool`` behind a turn that called tools, else ``user``. Calls stand
apart from what was said before them. The observation after the last turn is not recorded, so the messages end with the
assistant.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from typing import TypeAlias

from turngate.images import image_format
from turngate.store.formats.fields import BadRecord, Plain
from turngate.tools.formats import TOOL_FORMATS
from turngate.tools.formats.base import THOUGHT, Unreadable
from turngate.types import JSON, Action, Evidence, Observation, Trajectory, Turn

Row: TypeAlias = dict[str, Plain]

SYSTEM, TOOLS, AFTER = "system_message", "tools", "last_observation"
"""Evidence about a whole imported episode: its system message, its tools, and what came after its last turn."""
_ELSEWHERE = "see the answer to the last call of this turn"


def messages_of(
    trajectory: Trajectory, *, hints: bool, system: str = "", spelt: bool = False, turns: Sequence[Turn] | None = None
) -> list[Row]:
    """The messages of an episode, or of its first ``turns``.

    ``hints``: with the hints, as the policy was shown them. ``system``: a system message, unless the episode brings its
    own. ``spelt``: arguments of calls are JSON texts, as OpenAI has them, not objects, as templates do.
    """
    rows: list[Row] = []
    told = fact_of(trajectory, SYSTEM) or system
    if told:
        rows.append({"role": "system", "content": str(told)})
    asked: list[Row] = []
    for place, turn in enumerate(trajectory.turns if turns is None else turns):
        rows += _observed(turn, asked, hints=hints)
        asked = _asked(turn.action, place, spelt=spelt)
        said: Row = {"role": "assistant", "content": before_calls(turn.action)}
        rows.append(said | ({"tool_calls": asked} if asked else {}))
    return rows


def observation_text(turn: Turn, *, hints: bool) -> str:
    """The text of an observation, with the hint behind it that was shown there."""
    hint = turn.guidance.text if hints and turn.guidance is not None else ""
    return turn.observation.text + (f"\n{hint}" if hint else "")


def before_calls(action: Action) -> str:
    """The text of an action before its calls; all of it if it calls nothing, and none of it if it is a command line."""
    if not action.calls:
        return action.text
    first = []
    for tool_format in TOOL_FORMATS.values():
        try:
            _, body = tool_format.split(action.text)
        except Unreadable:
            continue
        place = tool_format.begins(body)
        if 0 <= place < len(body) and action.text.endswith(body):
            first.append(len(action.text) - len(body) + place)
    return action.text[: min(first)].rstrip("\n") if first else ""


def without_thought(text: str) -> str:
    """A text without the thought at its beginning."""
    begin, end = THOUGHT
    rest = text.lstrip()
    return rest.partition(end)[2].lstrip("\n") if rest.startswith(begin) and end in rest else text


def fact_of(trajectory: Trajectory, name: str) -> JSON:
    """The value of a fact about the whole episode; None if there is none."""
    found: Sequence[Evidence] = [fact for fact in trajectory.facts_of(None) if fact.name == name]
    return found[-1].value if found else None


def _observed(turn: Turn, asked: Sequence[Row], *, hints: bool) -> list[Row]:
    text, images = observation_text(turn, hints=hints), [_image(one) for one in turn.observation.images]
    if asked:
        texts = [*[_ELSEWHERE] * (len(asked) - 1), text]
        rows = [
            {"role": "tool", "tool_call_id": call["id"], "name": call["function"]["name"], "content": answer}
            for call, answer in zip(asked, texts, strict=True)
        ]
        return [*rows, {"role": "user", "content": images}] if images else rows
    return [{"role": "user", "content": [{"type": "text", "text": text}, *images] if images else text}]


def _asked(action: Action, place: int, *, spelt: bool) -> list[Row]:
    """The calls of a turn, each with an id of nine letters and digits, which Mistral's templates insist on."""
    return [
        {
            "id": f"call{place:03d}{number:02d}",
            "type": "function",
            "function": {
                "name": call.name,
                "arguments": json.dumps(dict(call.arguments), ensure_ascii=False) if spelt else dict(call.arguments),
            },
        }
        for number, call in enumerate(action.calls)
    ]


# --- images ----------------------------------------------------------------------------------------------------------


def _image(image: bytes) -> Row:
    known = image_format(image)
    media = f"image/{known}" if known else "application/octet-stream"
    url = f"data:{media};base64,{base64.b64encode(image).decode()}"
    return {"type": "image_url", "image_url": {"url": url}}


def parts_of(content: object) -> Observation:
    """The text and the images of a message's content: a text, nothing, or a list of parts. Raises BadRecord.

    An image has to be in the record (``data:``): addresses are never fetched.
    """
    if content is None or isinstance(content, str):
        return Observation(text=content or "")
    if not isinstance(content, list):
        raise BadRecord(f"the content of a message is {content!r:.40}, expected a text or a list of parts")
    texts: list[str] = []
    images: list[bytes] = []
    for part in content:
        part = {"type": "text", "text": part} if isinstance(part, str) else part
        kind = part.get("type") if isinstance(part, Mapping) else None
        if kind in ("text", "input_text", "output_text") and isinstance(part.get("text"), str):
            texts.append(part["text"])
        elif kind in ("image_url", "image"):
            images.append(_image_bytes(part))
        elif kind in ("reasoning", "refusal"):
            texts.append(str(part.get(kind) or ""))
        else:
            raise BadRecord(f"a message has a part {part!r:.60}, which is neither text nor an image")
    return Observation(text="\n".join(texts), images=tuple(images))


def _image_bytes(part: Mapping[str, Plain]) -> bytes:
    source = part.get("image_url", part.get("image"))
    url = source.get("url") if isinstance(source, Mapping) else source
    if not isinstance(url, str) or not url.startswith("data:") or ";base64," not in url[:100]:
        raise BadRecord(f"a message has an image at {url!r:.40}; images are taken from the record (data:), not fetched")
    try:
        return base64.b64decode(url.partition(";base64,")[2], validate=True)
    except ValueError as error:
        raise BadRecord(f"a message has an image that is no base64: {error}") from None
