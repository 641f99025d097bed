"""``turngate init NAME``: a package with an environment, its tasks, a rubric, tests and a config that trains."""

from __future__ import annotations

import importlib.util
import keyword
import re
import shutil
import tempfile
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import Annotated

import typer

from turngate.cli import consoles
from turngate.errors import ConfigError

_FILES = {
    "pyproject.toml.template": "pyproject.toml",
    "README.md.template": "README.md",
    "train.toml.template": "train.toml",
    "init.py.template": "{name}/__init__.py",
    "env.py.template": "{name}/env.py",
    "test_env.py.template": "tests/test_env.py",
}

app = typer.Typer(rich_markup_mode=None)


@app.command()
def init(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Of the package: small letters, digits and _.")],
) -> None:
    """Write a new package into the folder NAME: an environment, its tasks, a rubric, tests, a config that trains."""
    parent = Path.cwd()
    _check(name, parent)
    title = "".join(word.capitalize() for word in name.split("_"))
    values = {"name": name, "Class": title, "id": f"{name}/{title}-v0"}
    templates = files("turngate.cli") / "new_package"
    with tempfile.TemporaryDirectory(dir=parent) as there:
        for source, target in _FILES.items():
            path = Path(there) / name / target.format(name=name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(Template((templates / source).read_text()).substitute(values))
        shutil.move(Path(there) / name, parent / name)
    console = consoles.output()
    for line in (
        f"{name}/ has an environment of the id {values['id']}; next:",
        f"  cd {name}",
        f"  turngate check {name}:{values['id']}",
        "  turngate train train.toml",
    ):
        console.print(line, markup=False, highlight=False, soft_wrap=True)


def _check(name: str, parent: Path) -> None:
    if not re.fullmatch(r"[a-z][a-z0-9_]*", name) or keyword.iskeyword(name):
        raise ConfigError(f"'{name}' is no name for a package: small letters, digits and _, such as my_shop")
    if (parent / name).exists():
        raise ConfigError(f"'{parent / name}' exists already; give another name, or remove it")
    if importlib.util.find_spec(name) is not None:
        raise ConfigError(f"a module named '{name}' can be imported already, and would be instead; give another name")
