"""Models of a run: loaded by name, or made with random weights, and written back."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable
from pathlib import Path

from turngate.agents.policies.parts import PolicyPart
from turngate.agents.protocols import LanguageModel, Tokenizer
from turngate.errors import MissingExtra, WriteError
from turngate.run.stored_weights import stored_weights
from turngate.sections import TinyModel


def load_model(name: str) -> tuple[LanguageModel, Tokenizer]:
    """Model and tokenizer of a hub name or a folder, on the GPU if there is one. Raises MissingExtra.

    Weights are loaded as float32 in whatever precision they are stored, because small updates of bfloat16 weights would
    be rounded away.
    """
    require_torch()
    import torch

    from turngate.agents import tiny

    return tiny.load(name, dtype="float32", device="cuda" if torch.cuda.is_available() else "cpu")


def outlined(name: str) -> tuple[LanguageModel, Tokenizer]:
    """What ``load_model`` would return but for the weights, which are not read. Raises ConfigError, MissingExtra."""
    require_torch()
    from turngate.agents import tiny

    return tiny.outline(name)


def check_model(name: str, policy: PolicyPart | None = None) -> None:
    """Check that ``load_model`` would find a model of that name which ``policy`` can play. Raises ConfigError,
    MissingExtra."""
    model, tokenizer = outlined(name)
    if policy is not None:
        policy.check(model)
    stored_weights(name, model)
    if policy is not None:
        policy.chat(model, tokenizer)


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
    """Write model and tokenizer in Hugging Face format, in the precision of the weights. Raises WriteError.

    They are written beside ``folder`` and renamed, so a folder of that name is always complete.
    """
    from turngate.agents import tiny

    writing = folder.with_name(f"writing_{folder.name}")
    shutil.rmtree(writing, ignore_errors=True)
    try:
        tiny.save(model, tokenizer, writing)
        writing.rename(folder)
    except Exception as error:  # a full disk raises an exception of safetensors, not an OSError
        shutil.rmtree(writing, ignore_errors=True)
        raise WriteError(folder, str(error).strip().partition("\n")[0]) from error


def memory_here() -> tuple[str, int]:
    """Where a model would be, and the bytes of memory there: of the first GPU, else of this machine."""
    import torch

    if torch.cuda.is_available():
        return torch.cuda.get_device_name(0), torch.cuda.mem_get_info(0)[1]
    total, limit = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"), Path("/sys/fs/cgroup/memory.max")
    text = limit.read_text().strip() if limit.exists() else "max"
    return "this machine", min(total, int(text)) if text.isdigit() else total


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
