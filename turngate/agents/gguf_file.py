"""GGUF files, in which llama.cpp keeps a model: unpacked once into a folder that transformers reads like any other.

To read such a file takes most of a minute of processor time, and transformers reads it anew for settings, tokenizer
and weights. So it is read once for each content; the folder lies below ``cache_folder`` and holds the weights in
float32, which is exact: training changes them by less than the file's few bits could hold.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from contextlib import redirect_stderr
from io import StringIO
from pathlib import Path
from typing import Any

from turngate.agents.model_files import model_files
from turngate.errors import ConfigError, MissingExtra

SUFFIX = ".gguf"


def cache_folder() -> Path:
    """Where models are kept that were fetched or unpacked: TURNGATE_CACHE, else XDG_CACHE_HOME/turngate, else
    ~/.cache/turngate."""
    own, shared = os.environ.get("TURNGATE_CACHE"), os.environ.get("XDG_CACHE_HOME")
    return Path(own) if own else (Path(shared) if shared else Path.home() / ".cache") / "turngate"


def is_gguf(name: str) -> bool:
    """Whether a model is named by a GGUF file."""
    return name.lower().endswith(SUFFIX)


def unpacked(name: str) -> str:
    """The folder with the model of a GGUF file; any other name as it is.

    Raises ConfigError for a file that is not there, damaged, or of an architecture that transformers does not read;
    MissingExtra without the package ``gguf``.
    """
    if not is_gguf(name):
        return name
    path = Path(name)
    if not path.is_file():
        raise ConfigError(f"there is no file '{name}'; name a GGUF file, a model folder or a name of the hub")
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    folder = cache_folder() / "models" / f"{path.stem}-{digest[:16]}"
    if not folder.is_dir():
        unpack(path, folder)
    return str(folder)


def unpack(path: Path, folder: Path) -> None:
    """Write the model of a GGUF file into a new ``folder``, which is complete or not there. Raises as ``unpacked``."""
    try:
        import gguf  # noqa: F401  # transformers imports it, and tells its own name for what is missing
    except ImportError:
        raise MissingExtra("gguf", "gguf") from None
    folder.parent.mkdir(parents=True, exist_ok=True)
    writing = Path(tempfile.mkdtemp(prefix=f"{folder.name}.", dir=folder.parent))
    try:
        with model_files(str(path)), redirect_stderr(StringIO()):  # a bar of its own that nothing else stops
            _convert(path, writing)
        writing.chmod(0o755)
        try:
            writing.rename(folder)
        except OSError:
            if not folder.is_dir():  # else another process was quicker, with the same content
                raise
    finally:
        shutil.rmtree(writing, ignore_errors=True)


def _convert(path: Path, folder: Path) -> None:
    from transformers import AutoModelForCausalLM, AutoTokenizer

    where, file = str(path.parent), path.name
    model: Any = AutoModelForCausalLM.from_pretrained(where, gguf_file=file, dtype="float32")
    plain = type(model)(_unquantized(model.config))
    plain.load_state_dict(model.state_dict())
    plain.generation_config = model.generation_config
    plain.save_pretrained(folder)
    AutoTokenizer.from_pretrained(where, gguf_file=file).save_pretrained(folder)


def _unquantized(config: Any) -> Any:
    """The settings of a model whose weights were rounded once and are plain numbers now."""
    if hasattr(config, "quantization_config"):
        del config.quantization_config
    return config
