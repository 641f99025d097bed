"""A policy that writes given texts: for oracles, demonstrations and tests."""

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from turngate.agents.chat import Chat, TextChat, join
from turngate.agents.policies.base import Policy
from turngate.errors import PolicyError
from turngate.types import Completion, EndedBy, Request

Script = Callable[[Request], str]


class ScriptedPolicy(Policy):
    """Writes ``script(request)`` each turn. Its tokens are certain, so logprobs are 0; a ``TextChat`` has no tokens."""

    name = "scripted"

    def __init__(self, script: Script, chat: Chat, *, concurrency: int = 64) -> None:
        self._script, self._chat, self.concurrency = script, chat, concurrency

    async def complete(self, request: Request) -> Completion:
        """The scripted text as tokens, ended like a sampled turn."""
        text = self._script(request)
        ids = join() if isinstance(self._chat, TextChat) else self._chat.encode_turn(text)
        return Completion(
            ids_K=ids, logprobs_K=np.zeros(len(ids), np.float32), ended_by=EndedBy.SCRIPT, policy_version=0, text=text
        )


def by_task(lines: Mapping[str, Sequence[str]]) -> Script:
    """A script that reads line ``turn`` of the task's own list. Raises PolicyError where there is none."""

    def script(request: Request) -> str:
        texts = lines.get(request.task_id)
        if texts is None or request.turn >= len(texts):
            raise PolicyError(f"the script of task '{request.task_id}' has no line for turn {request.turn}")
        return texts[request.turn]

    return script
