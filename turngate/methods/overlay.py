"""Overlays: where a method is looked up, and the contents of its file.

A file holds a table ``[method]``, the head, and beside it the settings of a config that make the method. Names are
those of the files in this folder, of entry points of other packages (group ``turngate.methods``, whose object is the
path of a TOML file), of a TOML file (``mine.toml``), or ``package.module:NAME`` of such a path.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Literal, Self, get_args

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from turngate.errors import ConfigError, DataError, UnknownName, UserError
from turngate.jsonl import read_text, toml_of
from turngate.parts import import_object, load_entry_point, plugin_entries
from turngate.problems import one_line

FOLDER = Path(__file__).parent
GROUP = "turngate.methods"
ENDING = ".toml"
Kind = Literal[
    "credit", "objective", "filters", "guidance", "trees", "curriculum", "judging", "auxiliary", "offline", "stages"
]
KINDS: Mapping[str, str] = {
    "credit": "how payments become credit",
    "objective": "how credit and importance ratio become the loss",
    "filters": "which of the played episodes are learned from",
    "guidance": "who gets help in training, and which",
    "trees": "episodes that branch off others, and their credit",
    "curriculum": "which tasks are played",
    "judging": "facts that are found out after an episode, and paid",
    "auxiliary": "what is learned beside the episodes",
    "offline": "learning from recorded episodes",
    "stages": "several runs, each with the model of the one before",
}
"""Kinds in the order in which they are listed, with what methods of each kind change."""
assert tuple(KINDS) == get_args(Kind)
NOT_MEASURED = "not measured"
BEYOND = frozenset({"name", "folder", "seed", "model", "warm_start", "policy", "sink", "eval", "baselines", "rounds"})
"""Keys that no overlay may set: they are the user's, whatever the method."""
BEYOND_IN_TRAIN = frozenset({"steps", "tasks_per_step", "group_size", "validation", "checkpoint_every"})


class Head(BaseModel):
    """The description of a method: the table ``[method]`` of its file."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    called: str = Field(min_length=1)
    """The name that its paper gives it."""
    kind: Kind
    paper: str = Field(min_length=1)
    """Title of the paper."""
    year: int = Field(ge=1950, le=2100)
    source: str = Field(pattern=r"^https?://\S+$")
    """Where the paper, or the authors' code, can be read."""
    changes: str = Field(min_length=1)
    """One sentence: what it changes."""
    equation: str = ""
    """The paper's equation, in words or as text; "" where it has none."""
    left_out: str = ""
    """Parts of the paper that the overlay leaves out; "" where none is known, besides keys that no overlay sets."""
    needs: str = ""
    """Its requirements on the config or the environment; "": none that an ordinary run lacks."""
    measured: str = Field(pattern=rf"^(docs/[a-z_0-9]+\.md|{NOT_MEASURED})$")
    """The page of docs/ that measures it, or "not measured"."""

    @model_validator(mode="after")
    def _is_one_sentence(self) -> Self:
        if re.search(r"[.!?] ", self.changes) or not self.changes.endswith("."):
            raise ValueError("changes must be one sentence, with a full stop at its end")
        return self


@dataclass(frozen=True, slots=True, kw_only=True)
class Method:
    """A method: its name, its head, and the settings that are merged into a config."""

    name: str
    head: Head
    settings: Mapping[str, object]
    text: str
    """The overlay as it is written, without its head."""
    is_shipped: bool = False
    """Whether it comes with turngate."""

    @property
    def parts(self) -> tuple[str, ...]:
        """The parts that it joins, as KEY = NAME, in the order of its file."""
        return tuple(f"{key} = {name}" for key, name in parts_in(self.settings))


def parts_in(settings: object, key: str = "") -> Iterator[tuple[str, str]]:
    """Key and type of every part in a tree of settings; a name alone counts where a part can stand."""
    if isinstance(settings, Mapping):
        if isinstance(kind := settings.get("type"), str):
            yield key, kind
        for name, below in settings.items():
            yield from parts_in(below, f"{key}.{name}" if key else name)
    elif isinstance(settings, list | tuple):
        for below in settings:
            yield from parts_in(below, key)
    elif isinstance(settings, str) and key.removeprefix("stages.") in {*PART_KEYS, *PART_LISTS}:
        yield key, settings


PART_KEYS = frozenset(
    {
        *("credit", "guide", "branching", "curriculum", "episodes", "episodes.replay", "learner", "policy"),
        *("loss.objective", "loss.guided", "loss.experts", "loss.replayed"),
    }
)
"""Keys that hold one part each."""
PART_LISTS = frozenset({"examine", "auxiliary", "train.filters", "loss.penalties", "loss.correction"})
"""Keys that hold lists of parts, of which a run may have several."""


def find(name: str) -> Method:
    """The method called ``name``. Raises UnknownName, ConfigError or DataError for a file that is no overlay."""
    path, plugin = FOLDER / f"{name}{ENDING}", _plugins().get(name)
    if name.endswith(ENDING):
        return read(Path(name).stem, Path(name))
    if path.exists() and re.fullmatch(r"\w+", name):
        return _shipped(name)
    if plugin is not None:
        return read(name, _as_path(plugin.value, load_entry_point(plugin)))
    if ":" in name:
        return read(name, _as_path(name, import_object(name)))
    raise UnknownName("method", name, names(), hint="turngate methods lists them; or write the path of a .toml file")


def names() -> tuple[str, ...]:
    """Every name that can be written without a path: the shipped ones and those of other packages."""
    return tuple(sorted({path.stem for path in FOLDER.glob(f"*{ENDING}")} | set(_plugins())))


def listed() -> tuple[dict[str, Method], dict[str, str]]:
    """Every method with a short name, and why those that cannot be read cannot."""
    found, broken = dict[str, Method](), dict[str, str]()
    for name in names():
        try:
            found[name] = find(name)
        except UserError as error:
            broken[name] = str(error)
    return found, broken


@cache
def _shipped(name: str) -> Method:
    return replace(read(name, FOLDER / f"{name}{ENDING}"), is_shipped=True)


def read(name: str, path: Path) -> Method:
    """The method in a file. Raises DataError, and ConfigError for a head or a setting that cannot be."""
    text = read_text(path)
    try:
        data = toml_of(text)
    except tomllib.TOMLDecodeError as error:
        raise DataError(path, f"is not TOML: {error}") from error
    settings = {key: value for key, value in data.items() if key != "method"}
    if not isinstance(data.get("method"), Mapping):
        raise ConfigError(f"'{path}' is no method: it has no table [method], which says what the method is")
    try:
        head = Head.model_validate(data["method"])
    except ValidationError as error:
        raise ConfigError(f"{path}: method.{one_line(error, Head, data['method'])}") from None
    train = settings.get("train")
    within = {f"train.{key}" for key in BEYOND_IN_TRAIN & train.keys()} if isinstance(train, Mapping) else set()
    if beyond := sorted(BEYOND & settings.keys() | within):
        raise ConfigError(f"{path}: a method cannot set '{beyond[0]}', which belongs to the user's run; leave it out")
    if not settings:
        raise ConfigError(f"{path}: the method sets nothing; write its settings below the table [method]")
    return Method(name=name, head=head, settings=settings, text=_without_head(text))


def _without_head(text: str) -> str:
    """A file without its table [method], which ends where the next table begins or at the first empty line."""
    lines, inside, kept = text.splitlines(), False, list[str]()
    for line in lines:
        inside = line.strip() == "[method]" or (inside and line.strip() != "" and not line.startswith("["))
        if not inside:
            kept.append(line)
    return "\n".join(kept).strip()


def _as_path(wanted: str, found: object) -> Path:
    if not isinstance(found, Path | str):
        raise ConfigError(f"'{wanted}' is {found!r:.80}; it must be the path of a TOML file with a table [method]")
    return Path(found)


def _plugins() -> dict[str, EntryPoint]:
    return {entry.name: entry for entry in plugin_entries(GROUP)}
