"""Which part of a text each token wrote, by the tokenizer that a run keeps beside its model."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Protocol

from turngate.report.episode_words import literal
from turngate.store.folder import RunFolder

UNFINISHED = "\ufffd"
"""A decoder's text for the first bytes of a character whose other bytes are in the next token."""


class Decoder(Protocol):
    """A tokenizer, as far as it is needed here."""

    def decode(self, ids: Sequence[int], skip_special_tokens: bool = True) -> str:
        """The text of some tokens."""


class TokenPieces:
    """Cuts the text of a turn into those of its tokens. ``decoder``: None where a run keeps no tokenizer."""

    def __init__(self, decoder: Decoder | None) -> None:
        self._decoder = decoder
        self._known: dict[int, str] = {}

    @classmethod
    def of(cls, run: RunFolder) -> TokenPieces:
        """By the tokenizer beside the trained or the first model of a run; one that knows none where there is none."""
        folders = [run.model, *filter(None, [run.first_model])]
        file = next((one / "tokenizer.json" for one in folders if (one / "tokenizer.json").exists()), None)
        return cls(None if file is None else _loaded(file))

    def lengths(self, ids: Sequence[int], text: str) -> list[int] | None:
        """The length of the part of ``literal(text)`` that each token wrote, in units of UTF-16, as browsers count.

        None unless the tokens give exactly ``text``, but for one at its end that ends the turn and is no text.
        """
        if self._decoder is None:
            return None
        pieces, pending = list[str](), list[int]()
        for one in ids:
            pending.append(one)
            piece = self._piece(pending)
            if piece.endswith(UNFINISHED) and len(pending) < 4:
                pieces.append("")
                continue
            pieces.append(piece)
            pending = []
        whole = "".join(pieces)
        if whole != text and pieces and whole.startswith(text):
            pieces[-1] = pieces[-1][: max(0, len(pieces[-1]) - len(whole) + len(text))]
        if "".join(pieces) != text:
            return None
        return [len(literal(piece).encode("utf-16-le", "surrogatepass")) // 2 for piece in pieces]

    def _piece(self, ids: list[int]) -> str:
        assert self._decoder is not None
        if len(ids) > 1:
            return str(self._decoder.decode(ids, skip_special_tokens=False))
        if ids[0] not in self._known:
            self._known[ids[0]] = str(self._decoder.decode(ids, skip_special_tokens=False))
        return self._known[ids[0]]


@cache
def _loaded(file: Path) -> Decoder | None:
    """None without the package ``tokenizers``, and for a file that it cannot read: the page then shows no pieces."""
    try:
        from tokenizers import Tokenizer
    except ImportError:
        return None
    try:
        decoder: Decoder = Tokenizer.from_file(str(file))
    except Exception:  # the package raises bare Exception
        return None
    return decoder
