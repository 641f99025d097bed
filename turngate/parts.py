"""Parts: what a run is made of, written in its config and looked up by name.

A part is a frozen pydantic model with a ``type``; its fields are its settings. Some parts do the work themselves (a
reward, a gate, a credit rule, an objective, a filter, an examiner …). Others have a method, mostly ``open``, that makes
the object which does the work (a policy, a learner, a sink, a judge …). Every kind of part is a family: a base class
that sets ``noun`` and ``types``. A field annotated with a base class takes a part of the family, a table
``{type = NAME, …}`` or the name alone, and is written back as a table:

>>> from typing import ClassVar, Literal
>>> class Greeting(Part):
...     types: ClassVar[dict[str, type[Part]]] = {}
...     noun: ClassVar[str] = "greeting"
>>> class Hello(Greeting):
...     type: Literal["hello"] = "hello"
...     times: int = 1
...     def __call__(self):
...         return " ".join(["hello"] * self.times)
>>> Greeting.model_validate({"type": "hello", "times": 2})()
'hello hello'

A part is known from the moment its class is defined. A family says where its shipped parts are (``shipped_in``), and
these modules are imported when a name is looked up. A name is looked up, in this order, among the parts that are
known, in the entry points of other packages (group ``turngate.greetings``: ``NAME = "package.module:Class"``), and as
``package.module:Name``, also of a module in the current folder. Where a family takes plain functions
(``from_function``), a function is a part too, and its keyword-only arguments are its settings.

Reading a config must not import torch, so a module whose parts use torch writes ``torch = when_used("torch")``.
"""

from __future__ import annotations

import builtins
import importlib
import inspect
import os
import pkgutil
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from types import ModuleType
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self, TypeVar, get_type_hints

from pydantic import BaseModel, ConfigDict, GetCoreSchemaHandler, create_model
from pydantic_core import CoreSchema, PydanticCustomError, core_schema

from turngate.errors import ConfigError, DuplicateName, MissingExtra, UnknownName, UserError
from turngate.foreign import guarded

if TYPE_CHECKING:
    from turngate.config import Config

Function = TypeVar("Function", bound=Callable[..., object])


def _dumped(part: Part, info: core_schema.SerializationInfo) -> dict[str, Any]:
    return part.model_dump(mode=info.mode, exclude_none=bool(info.exclude_none))


class Part(BaseModel):
    """Base of every part. A subclass that sets ``types`` and ``noun`` is a family, and its subclasses are its parts."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    types: ClassVar[dict[str, type[Part]]]
    """The parts of the family that are defined so far, by ``type``; ``catalogue`` has all of them."""
    shipped_in: ClassVar[tuple[str, ...]] = ()
    """Modules, and packages of modules, that define the shipped parts of the family."""
    noun: ClassVar[str] = "part"
    """Word for a part of the family in error messages; the group of entry points is its plural."""
    fallback: ClassVar[str] = ""
    """The ``type`` of a table that has none; "": such a table is an error."""
    from_function: ClassVar[bool] = False
    """Whether a plain function can be named where a part of the family is wanted."""
    function: ClassVar[Callable[..., Any] | None] = None
    """The function that the part was made from; None for a part that is a class."""
    type: str

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        """How pydantic validates a field of this class: a family looks the part up, a part is read as any model."""
        if "types" not in cls.__dict__:
            return handler(source)
        return core_schema.no_info_plain_validator_function(
            cls.load,
            serialization=core_schema.plain_serializer_function_ser_schema(_dumped, info_arg=True),
        )

    @classmethod
    def __pydantic_init_subclass__(cls, **kwargs: Any) -> None:
        """Enter a new part into ``types`` of its family. Raises DuplicateName if another class has its ``type``."""
        kind = cls.model_fields["type"].default
        if not isinstance(kind, str):  # a family, or a base class that several parts share
            return
        known = cls.types.get(kind, cls)
        if known is not cls and issubclass(cls, known):  # a subclass of a known part is found by its path instead
            return
        if (known.__module__, known.__qualname__) != (cls.__module__, cls.__qualname__):
            raise DuplicateName(
                f"{cls.noun} type '{kind}' is taken by {known.__module__}.{known.__qualname__}; choose another type"
            )
        cls.types[kind] = cls

    @classmethod
    def load(cls, data: object) -> Self:
        """The part that ``data`` describes: a part itself, the name of one, or a table with a ``type``.

        Raises exceptions that pydantic turns into a ValidationError, because that one knows the key.
        """
        if isinstance(data, cls):
            return data
        table = {"type": data} if isinstance(data, str) else data
        if not isinstance(table, Mapping):
            raise PydanticCustomError("part", "{noun} must be a table with a type, or a name", {"noun": cls.article()})
        name = table.get("type", cls.fallback or None)
        if not isinstance(name, str):
            known = ", ".join(sorted(cls.names()))
            raise PydanticCustomError(
                "part", "{noun} needs a type; known: {known}", {"noun": cls.article(), "known": known}
            )
        try:
            part: Self = cls._whole(name).model_validate({**table, "type": name})
        except UserError as error:  # a UserError would pass through pydantic, which knows the key
            raise PydanticCustomError("part", "{problem}", {"problem": str(error)}) from error
        return part

    @classmethod
    def find(cls, name: str) -> builtins.type[Self]:
        """The class of the part called ``name``.

        Raises UnknownName, and ConfigError for an object that cannot be a part of this family.
        """
        if name in cls.types or name in cls.catalogue():
            return cls.types[name]  # type: ignore[return-value]
        plugins = {entry.value: entry for entry in plugin_entries(cls.group()) if entry.name == name}
        if len(plugins) > 1:
            raise DuplicateName(
                f"several packages have {cls.article()} '{name}': {', '.join(sorted(plugins))}; write one of the paths"
            )
        for plugin in plugins.values():
            return cls._adopt(name, load_entry_point(plugin))
        if ":" in name:
            return cls._adopt(name, import_object(name))
        raise UnknownName(f"{cls.noun} type", name, cls.names(), hint="or write package.module:Name for your own")

    @classmethod
    def _whole(cls, name: str) -> builtins.type[Self]:
        """The class called ``name``, which pydantic would make an object of although a method is missing."""
        found = cls.find(name)
        if inspect.isabstract(found):
            missing = " and ".join(sorted(found.__abstractmethods__))
            raise ConfigError(
                f"{cls.noun} '{name}' is {found.__module__}.{found.__qualname__}, which lacks {missing}; "
                "write that in the class"
            )
        return found

    @classmethod
    def catalogue(cls) -> Mapping[str, builtins.type[Part]]:
        """The parts of the family by ``type``: those that ship, and those of modules that were imported."""
        for place in cls.shipped_in:
            _import_all(place)
        return cls.types

    @classmethod
    def names(cls) -> frozenset[str]:
        """Every name that can be written without a path: of parts and of entry points."""
        return frozenset(name for name in cls.catalogue() if ":" not in name) | frozenset(
            entry.name for entry in plugin_entries(cls.group())
        )

    @classmethod
    def article(cls) -> str:
        """The noun with its article: "a gate", "an examiner"."""
        return f"a{'n' * (cls.noun[0] in 'aeiou')} {cls.noun}"

    @classmethod
    def group(cls) -> str:
        """The group of entry points in which other packages name their parts, for instance ``turngate.rewards``."""
        noun = cls.noun.replace(" ", "_")
        if noun.endswith("y"):
            return f"turngate.{noun[:-1]}ies"
        return f"turngate.{noun}{'es' if noun.endswith('s') else 's'}"

    @classmethod
    def _adopt(cls, name: str, found: object) -> builtins.type[Self]:
        """A part with ``type`` ``name``, made of the class or function that was found under this name."""
        if isinstance(found, type) and issubclass(found, cls):
            if found.model_fields["type"].default == name:
                return found
            return create_model(
                found.__name__,
                __base__=found,
                __module__=found.__module__,
                **_typed(name),
            )
        if cls.from_function and callable(found) and not isinstance(found, type):
            return cls.of_function(name, found)
        wanted = f"a subclass of {cls.__module__}.{cls.__qualname__}" + (" or a function" if cls.from_function else "")
        raise ConfigError(f"'{name}' is {found!r:.80}, which is not {cls.article()}; it must be {wanted}")

    @classmethod
    def of_function(cls, name: str, function: Callable[..., object]) -> builtins.type[Self]:
        """A part whose settings are the keyword-only arguments of ``function``, under their names, types and defaults.

        Raises ConfigError for an argument without a type.
        """
        hints = get_type_hints(function, include_extras=True)
        fields: dict[str, Any] = _typed(name)
        for argument in inspect.signature(function).parameters.values():
            if argument.kind is not inspect.Parameter.KEYWORD_ONLY:
                continue
            if argument.name not in hints:
                raise ConfigError(f"argument '{argument.name}' of {cls.noun} '{name}' needs a type annotation")
            default = ... if argument.default is inspect.Parameter.empty else argument.default
            fields[argument.name] = (hints[argument.name], default)
        made = create_model(
            function.__name__,
            __base__=cls,
            __module__=function.__module__,
            __doc__=function.__doc__,
            **fields,
        )
        made.function = staticmethod(function)
        return made

    @classmethod
    def define(cls, function: Function) -> Function:
        """Make a function a part of the family under its own name (a decorator); the function itself is returned.

        Raises DuplicateName for the name of another part, and what ``of_function`` raises.
        """
        cls.of_function(function.__name__, function)
        return function

    def __reduce_ex__(self, protocol: Any) -> Any:
        """How pickle sends it: a class that was made from a function, or for a path, is looked up by its name there."""
        cls = type(self)
        if getattr(sys.modules.get(cls.__module__), cls.__qualname__, None) is cls:
            return super().__reduce_ex__(protocol)
        family = next(base for base in cls.__mro__ if "types" in base.__dict__)
        return _named, (family, self.type, self.settings())

    def check_config(self, config: Config) -> None:
        """Raise ConfigError where the part cannot be used in a run with this config, or would have no effect in it.

        Called once for each part of a config, when the settings of all of them are valid by themselves. The key of the
        part is put before a message that does not name the part. A part that overrides it calls ``super()`` too, as
        its family may check what all its parts have in common.
        """

    def settings(self) -> dict[str, Any]:
        """Every setting except ``type``, by name."""
        return {name: getattr(self, name) for name in type(self).model_fields if name != "type"}

    def model_copy(self, *, update: Mapping[str, object] | None = None, deep: bool = False) -> Self:
        """A copy with changed settings, validated like a new part."""
        return type(self)(**{"type": self.type, **self.settings(), **dict(update or {})})


@cache
def _import_all(place: str) -> None:
    """Import a module, and each one in it if it is a package; those of packages in it are not imported."""
    package = importlib.import_module(place)
    for found in pkgutil.iter_modules(getattr(package, "__path__", ()), f"{place}."):
        importlib.import_module(found.name)


def _named(family: type[Part], name: str, settings: Mapping[str, object]) -> Part:
    return family.find(name)(type=name, **settings)


def families() -> Iterator[type[Part]]:
    """Every family of parts whose module was imported."""
    waiting = list(Part.__subclasses__())
    while waiting:
        family = waiting.pop(0)
        if "types" in family.__dict__:
            yield family
        waiting += family.__subclasses__()


TRUST = "add --trust"
"""How a message ends that is about code which was not imported."""


class UntrustedCode(ConfigError):
    """A recorded run names code that is not imported unless the user says so."""


class _Imports:
    """Whether what a recorded run names may be imported. One for the process: environments are made in threads."""

    refused = False


@contextmanager
def importing_nothing() -> Iterator[None]:
    """Refuse meanwhile to import any module but turngate's own and those that are imported already."""
    before, _Imports.refused = _Imports.refused, True
    try:
        yield
    finally:
        _Imports.refused = before


def refuse_untrusted(name: str) -> None:
    """Raise UntrustedCode for a module that may not be imported now."""
    if _Imports.refused and name not in sys.modules and name.partition(".")[0] != "turngate":
        raise UntrustedCode(
            f"the run names code of '{name}', and importing it runs it; if you trust who made the run, {TRUST}"
        )


def import_object(path: str) -> Any:
    """The object that ``package.module:Name`` names, also in a module of the current folder.

    Raises ConfigError, MissingExtra.
    """
    module_name, _, name = path.partition(":")
    found: Any = import_module(module_name, wanted=path)
    for step in name.split("."):
        if not hasattr(found, step):
            known = [one for one in vars(found) if not one.startswith("_")] if hasattr(found, "__dict__") else []
            raise ConfigError(str(UnknownName(f"name in {module_name}", name, known)))
        found = getattr(found, step)
    return found


def import_module(name: str, *, wanted: str = "") -> ModuleType:
    """Import the module ``name``, also one of the current folder.

    Raises ConfigError, which names ``wanted`` if that is given, MissingExtra, and UntrustedCode inside of
    ``importing_nothing``.
    """
    refuse_untrusted(name)
    here = os.getcwd()
    if here not in sys.path:  # it is not there when turngate was started as an installed command
        sys.path.append(here)
    with guarded(lambda why: ConfigError(f"'{wanted or name}' cannot be imported: {why}"), through=UserError):
        return importlib.import_module(name)


class _WhenUsed(ModuleType):
    """A placeholder for a module, which is imported when one of its names is used."""

    def __init__(self, name: str, extra: str) -> None:
        super().__init__(name)
        self.__dict__["_extra"] = extra

    def __getattr__(self, attribute: str) -> Any:
        if attribute.startswith("__"):  # inspect and doctest ask every object for such names
            raise AttributeError(attribute)
        try:
            value = getattr(importlib.import_module(self.__name__), attribute)
        except ModuleNotFoundError as error:
            raise MissingExtra(error.name or self.__name__, self.__dict__["_extra"]) from error
        self.__dict__[attribute] = value
        return value


def when_used(name: str, extra: str = "train") -> Any:
    """A placeholder for the module ``name``, which is imported at its first use.

    A use raises MissingExtra, with the pip command for ``extra``, if the module is not installed.
    """
    return _WhenUsed(name, extra)


def _typed(name: str) -> dict[str, Any]:
    return {"type": (Literal[name], name)}


@cache
def plugin_entries(group: str) -> tuple[EntryPoint, ...]:
    """What installed packages offer in a group; looked up once a process, because every package's files are read."""
    return tuple(entry_points(group=group))


def load_entry_point(entry: EntryPoint) -> Any:
    """The object of an entry point. Raises ConfigError, which names the entry point, if it cannot be loaded."""
    name = f"'{entry.name}' ({entry.value})"
    with guarded(lambda why: ConfigError(f"entry point {name} cannot be loaded: {why}"), through=UserError):
        return entry.load()
