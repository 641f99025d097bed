"""Models of a run: loaded by name, or made with random weights, and written back."""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from turngate.agents.protocols import LanguageModel, Tokenizer
from turngate.errors import MissingExtra, WriteError
from turngate.sections import TinyModel
from turngate.store.files import sync_files, sync_folder


def load_model(name: str) -> tuple[LanguageModel, Tokenizer]:
    """Model and tokenizer of a hub name or a folder, on the GPU if there is one. Raises MissingExtra.

    Weights are loaded as float32 in whatever precision they are stored, because small updates of bfloat16 weights would
    be rounded away.
    """
    require_torch()
    import torch

    from turngate.agents import tiny

    return tiny.load(name, dtype="float32", device="cuda" if torch.cuda.is_available() else "cpu")


def check_model(name: str) -> None:
    """Check that ``load_model`` would find a model of that name. Raises ConfigError, MissingExtra."""
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


def save_model(model: LanguageModel, tokenizer: Tokenizer, folder: Path, *, card: str = "") -> None:
    """Write model and tokenizer in Hugging Face format, in the precision of the weights, with ``card`` as README.md.

    They are written beside ``folder`` and renamed, so a folder of that name is always complete. Raises WriteError.
    """
    from turngate.agents import tiny

    writing = folder.with_name(f"writing_{folder.name}")
    shutil.rmtree(writing, ignore_errors=True)
    try:
        tiny.save(model, tokenizer, writing)
        if card:
            (writing / "README.md").write_text(card, encoding="utf-8")
        sync_files(writing)
        writing.rename(folder)
        sync_folder(folder.parent)
    except Exception as error:  # a full disk raises an exception of safetensors, not an OSError
        shutil.rmtree(writing, ignore_errors=True)
        raise WriteError(folder, str(error).strip().partition("\n")[0]) from error


def put_weights(model: LanguageModel, folder: Path) -> None:
    """Copy the weights in ``folder``, which ``save_model`` wrote of this model, into it."""
    import torch

    saved, own = load_model(str(folder))[0], dict(model.named_parameters())
    with torch.no_grad():
        for name, weight in saved.named_parameters():
            own[name].copy_(weight)


def stop_at(model: LanguageModel, tokenizer: Tokenizer, ends: Iterable[int]) -> None:
    """Have ``generate`` of transformers stop at the tokens that end a turn, as training does."""
    settings: Any = getattr(model, "generation_config", None)
    if settings is None:
        return
    ids = sorted(ends)
    settings.eos_token_id = ids if len(ids) > 1 else ids[0]
    if settings.pad_token_id is None:
        settings.pad_token_id = ids[0] if tokenizer.pad_token_id is None else tokenizer.pad_token_id


def be_deterministic() -> None:
    """Make torch refuse operations whose result depends on the timing of threads; on a GPU it only warns of them."""
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
