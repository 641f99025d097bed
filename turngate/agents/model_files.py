"""Errors of transformers and safetensors about a model's files, as errors that tell what to do."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from logging import CRITICAL

from turngate.agents.refused_memory import is_out_of_memory
from turngate.errors import ConfigError, OutOfMemory


@contextmanager
def model_files(name: str, what: str = "model") -> Iterator[None]:
    """Raise ConfigError for what transformers raises about the files of a model, OutOfMemory where memory runs out;
    inside it prints nothing."""
    from transformers.utils import logging

    silence()
    before = logging.get_verbosity()
    logging.set_verbosity(CRITICAL)
    try:
        yield
    except Exception as error:  # OSError, ValueError, RuntimeError, KeyError, and what safetensors has of its own
        if is_out_of_memory(error):
            raise OutOfMemory(f"memory ran out while the {what} '{name}' was loaded; name a smaller one") from error
        raise ConfigError(f"the {what} '{name}' cannot be loaded: {_advised(error)}") from error
    finally:
        logging.set_verbosity(before)


def silence() -> None:
    """Switch off the progress bars of transformers: ours is enough."""
    from transformers.utils import logging

    logging.disable_progress_bar()


def _advised(error: Exception) -> str:
    """The message of transformers or safetensors, in one line that ends with advice."""
    said = " ".join(str(error).split())
    first = str(error).strip().partition("\n")[0].partition(". ")[0].rstrip(".")
    if isinstance(error, OSError):
        return (
            f"{first}. Name a folder that holds one, such as RUN/model, or a name of the hub; with HF_HUB_OFFLINE=1 "
            "only what was loaded before is there"
        )
    if "custom code" in said:
        return "it brings code of its own, which is not run; name a model whose architecture transformers has"
    if "GGUF model with architecture" in said:
        return f"{first}; name another file, or the model's folder of safetensors"
    if "not recognize this architecture" in said or "Unrecognized" in said:
        from transformers import __version__

        return f"{first}; name a causal language model that transformers {__version__} knows"
    if "ignore_mismatched_sizes" in said:
        return "weights have other shapes than config.json says; copy config.json and the weights from the same model"
    return f"{first} ({type(error).__name__}); its files are damaged or incomplete, copy them again"
