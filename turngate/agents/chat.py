"""From messages to tokens and back, without ever tokenising sampled text again.

The chat template is rendered once, around marks; what comes before and after each mark is kept as text. An episode is
then: opening, what the model wrote, follow-up, what the model wrote, … Only the new observation is tokenised each turn
and the ids of earlier turns are never touched. So the history holds exactly what the model wrote, even where a
template would rewrite it when rendering anew (Qwen3 drops the thoughts of earlier turns).

Observations are tokenised with special tokens switched off: a document that contains ``<|im_end|>`` stays a document.
"""

from __future__ import annotations

import numpy as np

from turngate.agents.models import Tokenizer
from turngate.errors import ConfigError
from turngate.types import EndedBy, IntArray

_NO_TOKENS = "this needs the tokens of a policy behind a server, which gives text alone; use a local model"
_OPENING, _SAID, _NEXT = "\ue000opening\ue000", "\ue000said\ue000", "\ue000next\ue000"


class Chat:
    """Renders turns for one tokenizer. ``tokenizer`` is a transformers tokenizer with a chat template."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        if not tokenizer.chat_template:
            raise ConfigError(f"the tokenizer '{tokenizer.name_or_path}' has no chat template; give a chat model")
        if tokenizer.eos_token_id is None or tokenizer.eos_token is None:
            raise ConfigError(f"the tokenizer '{tokenizer.name_or_path}' has no eos_token, which ends a turn")
        self.tokenizer = tokenizer
        self.eos_id: int = tokenizer.eos_token_id
        before, after_opening = self._around([("user", _OPENING)])
        dialogue = [("user", _OPENING), ("assistant", _SAID), ("user", _NEXT)]
        _, _, between, after_next = self._around(dialogue)
        if not between.startswith(tokenizer.eos_token):
            raise ConfigError(
                f"the chat template of '{tokenizer.name_or_path}' does not end an assistant turn with "
                f"'{tokenizer.eos_token}'; set the tokenizer's eos_token to the template's end-of-turn token"
            )
        self._opening = self._special(before), self._special(after_opening)
        self._next = self._special(between.removeprefix(tokenizer.eos_token)), self._special(after_next)

    def opening(self, text: str) -> IntArray:
        """The first context: the template's frame around the first observation."""
        return self._join(self._opening[0], self._plain(text), self._opening[1])

    def follow_up(self, text: str, ended_by: EndedBy) -> IntArray:
        """What is added after a completion: its end-of-turn token if it was cut off, then the next observation."""
        closing = [self.eos_id] if ended_by is EndedBy.LENGTH else []
        return self._join(closing, self._next[0], self._plain(text), self._next[1])

    def encode_turn(self, text: str) -> IntArray:
        """An assistant's turn that was given as text, with its end-of-turn token."""
        return self._join(self._plain(text), [self.eos_id])

    def decode(self, ids: IntArray) -> str:
        """The text of a completion, without its end-of-turn token."""
        kept = ids[:-1] if len(ids) and ids[-1] == self.eos_id else ids
        return str(self.tokenizer.decode(kept.tolist(), skip_special_tokens=False, clean_up_tokenization_spaces=False))

    def _around(self, messages: list[tuple[str, str]]) -> list[str]:
        """What the template puts before, between and after the contents, with the prompt for the next turn."""
        chat = [{"role": role, "content": mark} for role, mark in messages]
        rest = str(self.tokenizer.apply_chat_template(chat, tokenize=False, add_generation_prompt=True))
        parts = []
        for role, mark in messages:
            if rest.count(mark) != 1:
                raise ConfigError(
                    f"the chat template of '{self.tokenizer.name_or_path}' does not render each message once and in "
                    f"order (a '{role}' message appears {rest.count(mark)} times); give a tokenizer whose template does"
                )
            part, rest = rest.split(mark)
            parts.append(part)
        return [*parts, rest]

    def _special(self, text: str) -> list[int]:
        return list(self.tokenizer(text, add_special_tokens=False)["input_ids"])

    def _plain(self, text: str) -> list[int]:
        return list(self.tokenizer(text, add_special_tokens=False, split_special_tokens=True)["input_ids"])

    @staticmethod
    def _join(*parts: list[int]) -> IntArray:
        return np.asarray([token for part in parts for token in part], np.int32)


class TextChat(Chat):
    """For a policy that takes messages as text: nobody knows the tokens of its contexts, so they have no ids."""

    def __init__(self) -> None:
        self.eos_id = -1  # no token has it

    def opening(self, text: str) -> IntArray:
        """No ids."""
        return self._join()

    def follow_up(self, text: str, ended_by: EndedBy) -> IntArray:
        """No ids."""
        return self._join()

    def encode_turn(self, text: str) -> IntArray:
        """Raises ConfigError: there is no tokenizer."""
        raise ConfigError(_NO_TOKENS)

    def decode(self, ids: IntArray) -> str:
        """Raises ConfigError: there is no tokenizer."""
        raise ConfigError(_NO_TOKENS)
