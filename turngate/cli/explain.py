"""``turngate explain``: the keys of a config with types, defaults and help, read from the classes of the settings.

A key is written as the path to it from the root of the tree: through sections, and through parts by the name of their
type, as in ``loss.objective.gspo.clip_low``.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, TypeAlias, Union, get_args, get_origin

import typer
from annotated_types import Ge, Gt, Le, Lt, MaxLen, MinLen
from pydantic import BaseModel
from pydantic_core import PydanticUndefined
from rich.console import Console
from rich.table import Table
from rich.text import Text

from turngate.cli import consoles
from turngate.errors import ConfigError, UnknownName, UserError
from turngate.field_help import field_help
from turngate.parts import Part
from turngate.report.tables import print_table

Model: TypeAlias = type[BaseModel]
_WORDS = {bool: "true or false", int: "whole number", float: "number", str: "text", Path: "path", object: "value"}
_SIGNS = {Ge: ("ge", "≥"), Gt: ("gt", ">"), Le: ("le", "≤"), Lt: ("lt", "<")}
_LENGTHS = {MinLen: ("min_length", "at least"), MaxLen: ("max_length", "at most")}
app = typer.Typer(rich_markup_mode=None)


@app.command("explain")
def explain_command(
    key: Annotated[str, typer.Argument(metavar="[KEY]", help="A key, such as credit or train.group_size.")] = "",
) -> None:
    """Print the keys of a config with types, defaults and help. For a key that takes a part: every type of part."""
    from turngate.config.run_config import Config

    explain(consoles.output(), Config, key)


# --- the values of a key ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Holds:
    """The possible values of a key.

    ``words`` says it to people. ``sections`` are the models that may read a table at the key; ``family`` is the base
    class of the parts that fit there; ``variants`` are the models of a table whose ``type`` chooses among them.
    """

    words: str
    sections: tuple[Model, ...] = ()
    family: type[Part] | None = None
    variants: tuple[Model, ...] = ()


def holds(annotation: object, metadata: Sequence[object] = ()) -> Holds:
    """The values that a field with this annotation may hold, within the bounds that pydantic's ``metadata`` sets."""
    origin, inner = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return holds(inner[0], [*inner[1:], *metadata])
    if origin is Literal:
        return Holds(words=" or ".join(map(toml_value, inner)))
    if origin in (Union, UnionType):
        return _either([one for one in inner if one is not NoneType], metadata)
    if origin in (tuple, list, frozenset, set, Sequence):
        items = holds(inner[0] if inner else object)
        return Holds(
            words=_bounded(_plural(items.words), metadata),
            sections=items.sections,
            family=items.family,
            variants=items.variants,
        )
    if isinstance(annotation, type) and issubclass(annotation, Part) and "types" in annotation.__dict__:
        return Holds(words=annotation.noun, family=annotation)
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return Holds(words="table", sections=(annotation,))
    if origin in (dict, Mapping) or annotation is dict:
        return Holds(words="table")
    word = _WORDS.get(annotation, "value") if isinstance(annotation, type) else "value"
    return Holds(words=_bounded(word, metadata))


def _either(options: Sequence[object], metadata: Sequence[object]) -> Holds:
    found = [holds(option, metadata) for option in options]
    models = [model for one in found for model in one.sections]
    if len(models) > 1 and all(kind_of(model) for model in models):
        return Holds(words="table with a type", variants=tuple(models))
    return Holds(
        words=" or ".join(dict.fromkeys(one.words for one in found)),
        sections=tuple(models),
        family=next((one.family for one in found if one.family is not None), None),
        variants=tuple(model for one in found for model in one.variants),
    )


def _plural(words: str) -> str:
    if " or " in words:
        return f"list of: {words}"
    if words.startswith("list of "):
        return words.replace("list of ", "list of lists of ", 1)
    return f"list of {words[:-1]}ies" if words.endswith("y") else f"list of {words}s"


def _bounded(word: str, metadata: Sequence[object]) -> str:
    bounds = [f"{sign} {getattr(one, name):g}" for one in metadata for name, sign in _of(one, _SIGNS)]
    of = " of them" if word.startswith("list") else " characters"
    bounds += [f"{said} {getattr(one, name)}{of}" for one in metadata for name, said in _of(one, _LENGTHS)]
    return " ".join([word, ", ".join(bounds)]) if bounds else word


def _of(one: object, known: Mapping[Any, tuple[str, str]]) -> list[tuple[str, str]]:
    return [pair for kind, pair in known.items() if isinstance(one, kind)]


def kind_of(model: Model) -> str:
    """The ``type`` of a part, or of a table that is chosen by its ``type``; "" for other models."""
    field = model.model_fields.get("type")
    return field.default if field is not None and isinstance(field.default, str) else ""


# --- keys ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    """A key of the tree. ``default`` is written as in TOML; "" where there is none or the key heads a table of keys.

    ``required``: the key must be given; ``optional``: it may be left out, and then the run has no such thing.
    """

    path: str
    holds: Holds
    default: str
    required: bool
    optional: bool
    help: str


def keys(model: Model, prefix: str = "", inside: tuple[Model, ...] = ()) -> Iterator[Key]:
    """The keys of a model and of the sections in it, but not those of parts, which depend on the type that is chosen.

    ``inside`` are the models that lead here: a section that can hold tables like itself is listed once.
    """
    for name in model.model_fields:
        if name == "type" and kind_of(model):
            continue
        key = key_of(model, name, prefix)
        yield key
        for section in key.holds.sections:
            if section not in (*inside, model):
                yield from keys(section, f"{key.path}.", (*inside, model))


def key_of(model: Model, name: str, prefix: str = "") -> Key:
    """One key. A field without help is explained by the docstring of the section or part that it holds."""
    field = model.model_fields[name]
    found = holds(field.annotation, field.metadata)
    classes = [*found.sections, *([found.family] if found.family else [])]
    default = field.get_default(call_default_factory=True)
    said = field_help(model, name) or " ".join(filter(None, (first_sentence(one) for one in classes)))
    return Key(
        path=f"{prefix}{name}",
        holds=found,
        default="" if default in (None, PydanticUndefined) or found.sections else toml_value(default),
        required=field.is_required(),
        optional=default is None,
        help=_plain(" ".join(said.split())),
    )


def first_sentence(model: Model) -> str:
    """The first sentence of a class's docstring."""
    paragraph = " ".join(_doc(model).strip().split("\n\n")[0].split())
    return re.split(r"(?<=[.!?])\s+(?=[A-Z`\"(])", paragraph, maxsplit=1)[0]


def _doc(model: Model) -> str:
    """The docstring of a class. A copy of it that was made only to carry another ``type`` has the original's."""
    base = model.__base__
    renamed = base is not None and base.__qualname__ == model.__name__ and model.__doc__ is None
    return (base if renamed else model).__doc__ or ""


def toml_value(value: object) -> str:
    """A value as it would be written in TOML; a part with default settings by its name alone."""
    if isinstance(value, Part):
        changed = {
            name: getattr(value, name)
            for name, field in type(value).model_fields.items()
            if name != "type" and getattr(value, name) != field.get_default(call_default_factory=True)
        }
        return toml_value({"type": value.type, **changed} if changed else value.type)
    if isinstance(value, BaseModel):
        return toml_value(kind_of(type(value)) or value.model_dump(mode="json", exclude_none=True))
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{name} = {toml_value(one)}" for name, one in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(toml_value, value)) + "]"
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)  # as TOML writes it: inf, nan
    return json.dumps(str(value) if isinstance(value, Path) else value, ensure_ascii=False)


# --- from a path to where it leads -----------------------------------------------------------------------------------


def find(root: Model, path: str) -> Key | Model:
    """The key at ``path``, or the class of the part that its last step names. Raises UnknownName, ConfigError."""
    models: tuple[Model, ...] = (root,)
    found: Key | Model = root
    for place, step, whole in _steps(path):
        if isinstance(found, Key):
            if found.holds.family is not None and (part := _part(found.holds.family, step, whole)):
                found, models = part, (part,)
                continue
            variants = {kind_of(model): model for model in found.holds.variants}
            if step in variants:
                found, models = variants[step], (variants[step],)
                continue
            models = (*found.holds.sections, *([found.holds.family] if found.holds.family else []))
        owners = {name: model for model in models for name in model.model_fields}
        if step not in owners and (part := _only_part_with(found, step)) is not None:
            place, owners = f"{place}{kind_of(part)}.", {step: part}
        if step not in owners:
            if not place and (elsewhere := _elsewhere(root, path)):
                raise ConfigError(f"unknown key '{path}'; did you mean {' or '.join(map(repr, elsewhere))}?")
            raise _unknown(found, path, place, owners)
        found = key_of(owners[step], step, place)
    return found


def _steps(path: str) -> Iterator[tuple[str, str, bool]]:
    """Each step of a path as (what comes before it, the step, whether it is the import path of an object).

    An import path, as in ``credit.package.module:rule``, contains dots itself: it ends with the name after its colon.
    """
    place, rest = "", path
    while rest:
        before, colon, behind = rest.partition(":")
        if colon and place:
            step = f"{before}:{behind.partition('.')[0]}"
            yield place, step, True
        else:
            step = rest.partition(".")[0]
            yield place, step, False
        place, rest = f"{place}{step}.", rest[len(step) + 1 :]


def _part(family: type[Part], step: str, whole: bool) -> Model | None:
    return family.find(step) if whole or step in family.names() else None


def _only_part_with(found: Key | Model, step: str) -> Model | None:
    """The part that fits at a key and has a key ``step`` of its own, where there is one alone: its name may be left
    out of the path."""
    family = found.holds.family if isinstance(found, Key) else None
    parts = [] if family is None else [part for part in family.catalogue().values() if step in part.model_fields]
    return parts[0] if len(parts) == 1 else None


def _elsewhere(root: Model, path: str) -> list[str]:
    """Keys and parts deeper in the tree that end like ``path``, three at most, those nearest to the root first."""
    first, dot, rest = path.partition(".")
    found = []
    for key in keys(root):
        if key.path.endswith(f".{first}"):
            found.append(f"{key.path}{dot}{rest}")
        elif key.holds.family is not None:
            found.append(f"{key.path}.{path}")
    there = [one for one in dict.fromkeys(found) if _is_there(root, one)]
    return sorted(there, key=lambda one: one.count("."))[:3]


def _is_there(root: Model, path: str) -> bool:
    try:
        find(root, path)
    except UserError:
        return False
    return True


def _unknown(found: Key | Model, path: str, place: str, fields: Mapping[str, Model]) -> UserError:
    names = list(fields)
    if isinstance(found, Key):
        names += [kind_of(model) for model in found.holds.variants]
        names += sorted(found.holds.family.names()) if found.holds.family else []
    if not names:
        return ConfigError(f"unknown key '{path}': '{place[:-1]}' has no keys below it")
    step = path.removeprefix(place).partition(".")[0]
    return UnknownName(f"key below '{place[:-1]}':" if place else "key", step, names)


# --- for people ------------------------------------------------------------------------------------------------------


def explain(console: Console, root: Model, path: str = "") -> None:
    """Print the whole tree, or one key and the keys below it. Raises UnknownName, ConfigError."""
    found = find(root, path)
    if not isinstance(found, Key):
        _show_model(console, found, path)
        if not path:
            _print(
                console,
                "\nturngate explain KEY tells more about one key; where it takes a part, it lists the types of part.",
            )
        return
    _show(console, found)
    for section in found.holds.sections:
        _show_keys(console, keys(section, f"{found.path}."))
    family = found.holds.family
    parts = dict(_parts(family)) if family else {kind_of(model): _line(model) for model in found.holds.variants}
    if parts:
        _print(console, f"\ntypes (turngate explain {found.path}.NAME prints the keys of one):")
        _list(console, parts)
    if family:
        shared = [key for key in keys(family, f"{found.path}.") if key.path != f"{found.path}.type"]
        if shared:
            _print(console, "\nkeys that every type has:")
            _show_keys(console, shared)


def _list(console: Console, parts: Mapping[str, str]) -> None:
    """Print names beside their lines of help, which are folded on a terminal and whole in a pipe."""
    width = max(map(len, parts))
    table = Table.grid(padding=(0, 2))
    for name, said in parts.items():
        if console.soft_wrap:
            _print(console, f"  {name:<{width}}  {said}".rstrip())
        table.add_row("", Text(name), Text(said))
    if not console.soft_wrap:
        print_table(console, table)


def _parts(family: type[Part]) -> Iterator[tuple[str, str]]:
    """Name and one line of help of every part that has a short name; one that cannot be loaded shows the reason."""
    for name in sorted(family.names()):
        try:
            yield name, _line(family.find(name))
        except UserError as error:
            yield name, f"({error})"


def _line(model: Model) -> str:
    package = model.__module__.partition(".")[0]
    return _plain(first_sentence(model)) + ("" if package == "turngate" else f" (from {package})")


def _show_model(console: Console, model: Model, path: str) -> None:
    """Print the whole docstring of a part, and its keys."""
    prefix = [place for place, _, _ in _steps(path)][-1] if path else ""
    if path:
        text = f"{kind_of(model)}: {_plain(_dedented(_doc(model)))}"
        console.print(text, markup=False, highlight=False, soft_wrap=True)  # equations keep their lines
        if read := getattr(getattr(model, "function", None), "reads", ()):
            _print(console, f"\nReads beside payments: {', '.join(read)}.")
    _show_keys(console, keys(model, prefix))


def _show_keys(console: Console, found: Iterator[Key] | Sequence[Key]) -> None:
    depth = 0
    for key in found:
        if key.path.count(".") < depth and not _heads_section(key):
            _print(console, "")  # back from a section to the keys around it
        depth = key.path.count(".")
        _show(console, key)


def _heads_section(key: Key) -> bool:
    return bool(key.holds.sections) and key.holds.words.startswith(("table", "list of tables"))


def _show(console: Console, key: Key) -> None:
    given = ", must be given" if key.required else ", may be left out" if key.optional else ""
    value = f" = {key.default}" if key.default else ""
    line = f"{key.path}{value}  ({key.holds.words}{given})"
    if _heads_section(key):
        name = f"[[{key.path}]]" if key.holds.words.startswith("list") else f"[{key.path}]"
        line = f"\n{name}{given.replace(',', ' ')}"
    _print(console, line)
    if key.help:
        from turngate.report.show import indented

        indented(console, Text(key.help), 4)


def _print(console: Console, line: str) -> None:
    console.print(line, markup=False, highlight=False)


def _plain(text: str) -> str:
    return text.replace("``", "")


def _dedented(text: str) -> str:
    first, _, rest = text.strip().partition("\n")
    return first + "\n" + "\n".join(line.removeprefix("    ") for line in rest.split("\n")) if rest else first
