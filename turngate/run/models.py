"""Models of a run: loaded by name, or made from nothing, and written back."""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from pathlib import Path

from turngate.agents.protocols import LanguageModel, Tokenizer
from turngate.config import TinyModel
from turngate.errors import MissingExtra, WriteError


def load_model(name: str) -> tuple[LanguageModel, Tokenizer]:
    """Model and tokenizer of a hub name or a folder, on the accelerator if there is one. Raises MissingExtra.

    Weights are float32 in whatever precision they are stored: updates would vanish in the rounding of bfloat16.
    """
    require_torch()
    import torch

    from turngate.agents import tiny

    return tiny.load(name, dtype="float32", device="cuda" if torch.cuda.is_available() else "cpu")


def check_model(name: str) -> None:
    """Raise ConfigError unless ``load_model`` would find a model of that name, MissingExtra."""
    require_torch()
    from turngate.agents import tiny

    tiny.check(name)


def new_model(settings: TinyModel, texts: Iterable[str], *, context: int, seed: int) -> tuple[LanguageModel, Tokenizer]:
    """A model from random weights for episodes of ``context`` tokens, with a tokenizer trained on ``texts``."""
    require_torch()
    from turngate.agents import tiny

    tokenizer = tiny.train_tokenizer(texts, vocabulary=settings.vocabulary)
    model = tiny.random_model(
        tokenizer,
        layers=settings.layers,
        width=settings.width,
        heads=settings.heads,
        context=context,
        seed=seed,
    )
    return model, tokenizer


def save_model(model: LanguageModel, tokenizer: Tokenizer, folder: Path) -> None:
    """Write both in Hugging Face format, in the precision of the weights; it appears whole. Raises WriteError."""
    from turngate.agents import tiny

    writing = folder.with_name(f"writing_{folder.name}")
    shutil.rmtree(writing, ignore_errors=True)
    try:
        tiny.save(model, tokenizer, writing)
        writing.rename(folder)
    except Exception as error:  # safetensors has an exception of its own for a full disk
        shutil.rmtree(writing, ignore_errors=True)
        raise WriteError(folder, str(error).strip().partition("\n")[0]) from error


def be_deterministic() -> None:
    """Refuse operations whose result depends on the timing of threads; on an accelerator warn of them."""
    import torch

    torch.use_deterministic_algorithms(True, warn_only=torch.cuda.is_available())


def require_torch() -> None:
    """Raise MissingExtra where the packages that models need are not installed."""
    try:
        import tokenizers  # noqa: F401
        import torch  # noqa: F401
        import transformers  # noqa: F401
    except ImportError as error:
        raise MissingExtra(error.name or "torch", "train") from None
