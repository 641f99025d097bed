"""TextModels that need no model: recorded replies, and a function. They can be used wherever a config names a model.

``judge = {type = "recorded", file = "replies.jsonl"}`` and ``judge = {type = "function", path = "module:name"}``.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import ClassVar, Literal

from turngate.agents.rollout import Player
from turngate.errors import ConfigError, DataError
from turngate.foreign import described, is_own
from turngate.jsonl import read_rows
from turngate.judges.asking.parts import JudgePart
from turngate.judges.asking.text_model import Prompt, Reply, TextModel
from turngate.judges.texts import Fault, FaultKind, JudgeId
from turngate.parts import import_object


class RecordedJudge(JudgePart):
    """Replies from a file, looked up by the prompt word for word; another prompt is declined."""

    type: Literal["recorded"] = "recorded"
    asks_model: ClassVar[bool] = False
    file: Path
    """JSON lines {"prompt": …, "reply": …}, optionally with "tokens", the number of tokens of the reply."""
    version: str = "0"
    """Version of the replies, by which verdicts are remembered; change it with the file."""

    def text_model(self, player: Player | None) -> RecordedTextModel:
        """The file as a text model. Raises DataError for a row of another form, and for two replies to one prompt."""
        return RecordedTextModel(recorded_replies(self.file), JudgeId(name=self.file.name, version=self.version))


class FunctionJudge(JudgePart):
    """A function of Python from a prompt to a reply."""

    type: Literal["function"] = "function"
    asks_model: ClassVar[bool] = False
    path: str
    """The function, as package.module:name: it takes the prompt and returns a text. It is called in a thread."""
    version: str = "0"
    """Version of the function, by which verdicts are remembered; change it with the function."""

    def text_model(self, player: Player | None) -> FunctionTextModel:
        """The function as a text model. Raises ConfigError for something that is no function."""
        found = import_object(self.path)
        if not callable(found):
            raise ConfigError(f"'{self.path}' is {found!r:.80}, not a function; name one that takes the prompt")
        return FunctionTextModel(found, JudgeId(name=self.path, version=self.version))


class RecordedTextModel(TextModel):
    """What ``RecordedJudge`` opens."""

    def __init__(self, replies: dict[str, Reply], judge: JudgeId) -> None:
        self._replies, self.judge = replies, judge

    async def complete(self, prompt: Prompt) -> Reply:
        """The recorded reply to the prompt."""
        none = Fault(kind=FaultKind.REFUSAL, detail="no reply to this is recorded")
        return self._replies.get(prompt.text.strip(), Reply(fault=none, again=False))


class FunctionTextModel(TextModel):
    """What ``FunctionJudge`` opens."""

    def __init__(self, function: Callable[[str], object], judge: JudgeId) -> None:
        self._function, self.judge = function, judge

    async def complete(self, prompt: Prompt) -> Reply:
        """The text that the function returns; an error, and anything but a text, is a fault."""
        try:
            said = await asyncio.to_thread(self._function, prompt.text)
        except asyncio.CancelledError:
            raise
        except BaseException as error:
            if not is_own(error):
                raise
            fault = Fault(kind=FaultKind.UNAVAILABLE, detail=f"it raised {described(error):.200}")
            return Reply(fault=fault, again=False)
        if not isinstance(said, str):
            detail = f"it returned {said!r:.80}, which is no text"
            return Reply(fault=Fault(kind=FaultKind.UNAVAILABLE, detail=detail), again=False)
        return Reply(text=said)


def recorded_replies(path: Path) -> dict[str, Reply]:
    """Prompt → reply, of a file. Raises DataError, with the line."""
    found: dict[str, Reply] = {}
    for line, row in read_rows(path):
        prompt, text = (row.get("prompt"), row.get("reply")) if isinstance(row, dict) else (None, None)
        if not isinstance(row, dict) or not isinstance(prompt, str) or not isinstance(text, str):
            raise DataError(path, 'is not {"prompt": text, "reply": text}', line=line)
        if prompt.strip() in found:
            raise DataError(path, f"the prompt {prompt[:60]!r} has a reply already", line=line, field="prompt")
        tokens = row.get("tokens")
        found[prompt.strip()] = Reply(text=text, tokens=tokens if isinstance(tokens, int) else None)
    return found
