"""Models of a run: loaded by name, or made with random weights, and written back."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from turngate.agents.policies.base import Weights
from turngate.agents.policies.parts import PolicyPart
from turngate.agents.protocols import LanguageModel, Tokenizer
from turngate.agents.refused_memory import is_out_of_memory
from turngate.config.sections import TinyModel
from turngate.errors import ConfigError, MissingExtra, OutOfMemory, WriteError
from turngate.run.assembly.stored_weights import stored_weights
from turngate.store.files import sync_files, sync_folder

ADAPTER_CONFIG = "adapter_config.json"


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
    """As ``load_model``, but without weights, which are not read. Raises ConfigError, MissingExtra."""
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


def check_new_model(settings: TinyModel) -> None:
    """Raise ConfigError for a new model whose weights, with what an optimizer keeps of them, have no room here."""
    needed = 16 * settings.least_weights  # float32 weights, gradients, and two averages
    there = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    if needed > there:
        raise ConfigError(
            f"model.layers {settings.layers} and model.width {settings.width} need more than {needed / 1e9:,.0f} GB to "
            f"be trained, and this machine has {there / 1e9:,.0f} GB; name a smaller model"
        )


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


def save_model(
    model: LanguageModel,
    tokenizer: Tokenizer,
    folder: Path,
    weights: Mapping[str, object] | None = None,
    *,
    card: str = "",
) -> None:
    """Write model and tokenizer in Hugging Face format, in the precision of the weights, with ``card`` as README.md.

    ``weights``, by name, are written instead of the model's own, as where adapters are added to these. The files are
    written beside ``folder`` and renamed, so a folder of that name is always complete. Raises WriteError.
    """
    from turngate.agents import tiny

    with _at_once(folder, card) as writing:
        tiny.save(model, tokenizer, writing, weights)


def save_adapter(
    adapter: Path, model: LanguageModel, tokenizer: Tokenizer, folder: Path, *, base: str, card: str
) -> None:
    """Write the trained ``adapter`` as ``peft`` reads it, with the tokenizer and the settings of generation of
    ``model``, and ``card`` as README.md.

    ``base``: folder or name of the model that it belongs to, which a loader needs. Raises WriteError, as ``save_model``
    does.
    """
    settings: Any = getattr(model, "generation_config", None)
    with _at_once(folder, card) as writing:
        shutil.copytree(adapter, writing)
        config = {**json.loads((writing / ADAPTER_CONFIG).read_text()), "base_model_name_or_path": base}
        (writing / ADAPTER_CONFIG).write_text(json.dumps(config, indent=2))
        tokenizer.save_pretrained(writing)
        if settings is not None:
            settings.save_pretrained(writing)


def copy_model(source: Path, folder: Path) -> None:
    """Copy a model that ``save_model`` wrote; ``folder`` is complete or not there. Raises WriteError."""
    with _at_once(folder, "") as writing:
        shutil.copytree(source, writing)


def same_weights(one: str, other: str) -> bool:
    """Whether two models, by name or folder, have the same weights, bit for bit in float32. Raises MissingExtra."""
    require_torch()
    import torch

    from turngate.agents import tiny

    a, b = (dict(tiny.load(name, dtype="float32", device="cpu")[0].named_parameters()) for name in (one, other))
    return a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in a)


@contextmanager
def _at_once(folder: Path, card: str) -> Iterator[Path]:
    """A path to write a folder to, which is then given ``card`` and renamed to ``folder``. Raises WriteError,
    OutOfMemory."""
    writing = folder.with_name(f"writing_{folder.name}")
    shutil.rmtree(writing, ignore_errors=True)
    try:
        yield writing
        if card:
            (writing / "README.md").write_text(card, encoding="utf-8")
        sync_files(writing)
        writing.rename(folder)
        sync_folder(folder.parent)
    except Exception as error:  # a full disk raises an exception of safetensors, not an OSError
        shutil.rmtree(writing, ignore_errors=True)
        if is_out_of_memory(error):
            raise OutOfMemory(f"memory ran out while '{folder}' was written") from error
        raise WriteError(folder, str(error).strip().partition("\n")[0]) from error


def memory_here() -> tuple[str, int]:
    """Where a model would be, and the bytes of memory there: of the first GPU, else of this machine."""
    import torch

    if torch.cuda.is_available():
        return torch.cuda.get_device_name(0), torch.cuda.mem_get_info(0)[1]
    total, limit = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"), Path("/sys/fs/cgroup/memory.max")
    text = limit.read_text(encoding="utf-8").strip() if limit.exists() else "max"
    return "this machine", min(total, int(text)) if text.isdigit() else total


def saved_weights(folder: Path) -> Weights:
    """The weights that ``save_model`` wrote, by name."""
    return dict(load_model(str(folder))[0].named_parameters())


def kept_weights(weights: Weights) -> Weights:
    """A copy in the memory of the machine, which later updates leave as it is."""
    read: Mapping[str, Any] = weights
    return {name: weight.detach().to("cpu", copy=True) for name, weight in read.items()}


def put_weights(model: LanguageModel, weights: Weights) -> None:
    """Copy ``weights`` into the model, so that everything that measures with the model uses them.

    One with adapters or in shards knows its weights by other names, or keeps them elsewhere, and stays as it is.
    """
    import torch

    own, new = dict(model.named_parameters()), dict[str, Any](weights)
    if own.keys() == new.keys():
        with torch.no_grad():
            for name, weight in own.items():
                weight.copy_(new[name])


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
    """Make torch refuse operations whose result depends on the timing of threads, on a machine without a GPU.

    With one, some results depend on it in any case (sums of gradients by atomic additions, the products of cuBLAS), and
    the slower algorithms that torch would take for the others copy the whole cache at each step.
    """
    import torch

    if not torch.cuda.is_available():
        torch.use_deterministic_algorithms(True)


def require_torch() -> None:
    """Raise MissingExtra where the packages that models need are not installed."""
    try:
        import tokenizers  # noqa: F401
        import torch  # noqa: F401
        import transformers  # noqa: F401
    except ImportError as error:
        raise MissingExtra(error.name or "torch", "train") from None
