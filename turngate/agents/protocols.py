"""What turngate needs of a model and of its tokenizer: those of transformers, or others with these methods."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol, Self, TypeAlias

if TYPE_CHECKING:
    from torch import nn

Precision: TypeAlias = Literal["auto", "float32", "bfloat16"]
"""Of a forward pass; auto: bfloat16 on an accelerator that has it, else float32."""


class LanguageModel(Protocol):
    """A causal language model. Its settings and what lies inside differ by architecture, so they are not described."""

    @property
    def config(self) -> Any:
        """The settings of the architecture."""

    @property
    def base_model(self) -> Any:
        """The model without its head: from token ids to hidden states."""

    def get_output_embeddings(self) -> Any:
        """The head: from hidden states to logits."""

    def parameters(self) -> Iterator[nn.Parameter]:
        """Every weight once."""

    def named_parameters(self) -> Iterator[tuple[str, nn.Parameter]]:
        """Every weight once, with its name."""

    def eval(self) -> Self:
        """Switch dropout and the like off, for good: a learner trains without it."""

    def save_pretrained(self, save_directory: Path, *, state_dict: dict[str, object] | None = None) -> None:
        """Write it in Hugging Face format; ``state_dict`` instead of its own weights."""


class Tokenizer(Protocol):
    """Text to token ids and back, and the template of a chat."""

    @property
    def name_or_path(self) -> str:
        """Where it comes from."""

    @property
    def chat_template(self) -> object:
        """The template; None or empty if it has none."""

    @property
    def eos_token(self) -> str | None:
        """The text of the token that ends a turn."""

    @property
    def eos_token_id(self) -> int | None:
        """Its id."""

    @property
    def pad_token_id(self) -> int | None:
        """The id that fills rows of unequal length."""

    def __len__(self) -> int:
        """Number of tokens."""

    def get_added_vocab(self) -> Mapping[str, int]:
        """The tokens that are found whole before a text is tokenised, and their ids; control tokens are among them."""

    def __call__(
        self, text: str, *, add_special_tokens: bool, split_special_tokens: bool = False
    ) -> Mapping[str, Sequence[int]]:
        """``input_ids`` and more."""

    def decode(
        self, token_ids: list[int], *, skip_special_tokens: bool, clean_up_tokenization_spaces: bool
    ) -> str | list[str]:
        """The text of some ids."""

    def apply_chat_template(
        self, conversation: list[dict[str, Any]], *, tokenize: bool, add_generation_prompt: bool, **template: Any
    ) -> object:
        """A chat as text. ``template``: ``tools``, and whatever else the template knows."""

    def save_pretrained(self, save_directory: Path) -> object:
        """Write it in Hugging Face format."""
