"""A tool: a typed function that an agent may call, with its name, its description and the JSON schema of its arguments.

    @tool
    def book(self, seat: int, meal: Literal["fish", "beans"] = "beans") -> str:
        \"\"\"Book a seat.

        Args:
            seat: number of the seat, from 1
        \"\"\"

Name, description and schema come from the signature and the docstring (pydantic). A parameter after ``*`` is given in
tool calls only; a command line has no place for it. A parameter of a type that ``GIVEN`` annotates is no argument: the
environment, which carries out the call, passes it.
"""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar, overload

from docstring_parser import parse as parse_docstring
from pydantic import ConfigDict, Field, create_model
from pydantic.errors import PydanticInvalidForJsonSchema, PydanticSchemaGenerationError, PydanticUserError

from turngate.errors import ConfigError
from turngate.types import JSON

GIVEN = "given by the environment"
"""Mark of parameters that are no arguments of a call: ``Annotated[dict[str, object], GIVEN]``."""

_ATTRIBUTE = "__turngate_tool__"
_Function = TypeVar("_Function", bound=Callable[..., object])


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    """One argument of a tool. ``annotation``: its type, as in a signature."""

    name: str
    required: bool = True
    description: str = ""
    keyword_only: bool = False
    """Only in tool calls: a command line has no place for it."""
    annotation: object = str
    may_be_blank: bool = False
    """Whether an empty text is a value; else it stands for an argument that is missing."""


@dataclass(frozen=True, kw_only=True)
class Tool:
    """A tool that an environment offers. Raises ConfigError for arguments that no JSON schema fits."""

    name: str
    description: str
    parameters: tuple[Parameter, ...] = ()
    read_only: bool = False
    """Whether it only looks: a call changes nothing."""

    def __post_init__(self) -> None:
        _ = self.schema

    @cached_property
    def named(self) -> dict[str, Parameter]:
        """Its parameters by name."""
        return {parameter.name: parameter for parameter in self.parameters}

    @cached_property
    def positional(self) -> tuple[Parameter, ...]:
        """Those that a command line has a place for, in its order."""
        return tuple(parameter for parameter in self.parameters if not parameter.keyword_only)

    @property
    def usage(self) -> str:
        """The command form, for instance ``describe TABLE``; optional arguments in brackets."""
        words = [p.name.upper() if p.required else f"[{p.name.upper()}]" for p in self.positional]
        return " ".join([self.name, *words])

    @cached_property
    def schema(self) -> Mapping[str, JSON]:
        """The tool as an entry of ``tools`` for chat templates and servers: a function with a JSON schema."""
        fields: dict[str, Any] = {
            parameter.name: (
                parameter.annotation,
                Field(... if parameter.required else None, description=parameter.description or None),
            )
            for parameter in self.parameters
        }
        try:
            model = create_model(self.name, __config__=ConfigDict(arbitrary_types_allowed=False), **fields)
            schema = model.model_json_schema()
        except (PydanticInvalidForJsonSchema, PydanticSchemaGenerationError, PydanticUserError, NameError) as error:
            reason = str(error).splitlines()[0]
            raise ConfigError(f"the arguments of tool '{self.name}' have no JSON schema: {reason}") from error
        properties: Mapping[str, dict[str, JSON]] = schema.get("properties", {})
        for parameter in self.parameters:
            properties[parameter.name].pop("title", None)
            if not parameter.required:
                properties[parameter.name].pop("default", None)
        arguments = {key: value for key, value in schema.items() if key not in ("title", "description")}
        function: dict[str, JSON] = {"name": self.name, "description": self.description, "parameters": arguments}
        return {"type": "function", "function": function}


@overload
def tool(function: _Function, /) -> _Function: ...
@overload
def tool(*, name: str = "", description: str = "", read_only: bool = False) -> Callable[[_Function], _Function]: ...
def tool(
    function: _Function | None = None, /, *, name: str = "", description: str = "", read_only: bool = False
) -> _Function | Callable[[_Function], _Function]:
    """Make a function or a method a tool. ``name`` and ``description``: instead of its own name and its docstring.
    ``read_only``: it only looks, and changes nothing.

    The first parameter of a method is ``self`` and no argument. The function returns text.

    Raises ConfigError, with the place of the definition, for a signature that no schema fits (``*args``, ``**kwargs``,
    a parameter before ``/``, a type that JSON cannot hold), a missing annotation, and a return type that is not text.
    """

    def mark(wanted: _Function) -> _Function:
        setattr(wanted, _ATTRIBUTE, (name or wanted.__name__, description, read_only))
        _check_signature(wanted)
        return wanted

    return mark if function is None else mark(function)


def is_tool(thing: object) -> bool:
    """Whether ``tool`` was applied to a function."""
    return hasattr(thing, _ATTRIBUTE)


def is_given(annotation: object) -> bool:
    """Whether a parameter of this type is handed over by the environment, and no argument of the call."""
    return any(isinstance(mark, str) and mark == GIVEN for mark in getattr(annotation, "__metadata__", ()))


def given_to(function: Callable[..., object], namespace: Mapping[str, object] | None = None) -> tuple[str, ...]:
    """The names of the parameters of a tool that are handed over by the environment. Raises ConfigError."""
    return tuple(name for name, annotation in _hints(function, namespace).items() if is_given(annotation))


def tool_of(function: Callable[..., object], namespace: Mapping[str, object] | None = None) -> Tool:
    """The tool of a function, marked with ``tool`` or not. ``namespace``: names that its annotations may use.

    Raises ConfigError as ``tool`` does.
    """
    name, description, read_only = getattr(function, _ATTRIBUTE, (function.__name__, "", False))
    signature = _check_signature(function)
    hints = _hints(function, namespace)
    said = parse_docstring(inspect.getdoc(function) or "")
    about = {parameter.arg_name: (parameter.description or "").strip() for parameter in said.params}
    parameters = []
    for parameter in signature:
        annotation = hints[parameter.name]
        if is_given(annotation):
            continue
        told = about.get(parameter.name, "")
        parameters.append(
            Parameter(
                name=parameter.name,
                required=parameter.default is inspect.Parameter.empty,
                description=" ".join(told.split()),
                keyword_only=parameter.kind is inspect.Parameter.KEYWORD_ONLY,
                annotation=annotation,
            )
        )
    text = description or " ".join((said.description or "").split())
    try:
        return Tool(name=name, description=text, parameters=tuple(parameters), read_only=read_only)
    except ConfigError as error:
        raise ConfigError(f"{_place(function)}: {error}") from error


def named_apart(tools: Iterable[Tool], owner: str) -> tuple[Tool, ...]:
    """The tools, each name once. Raises ConfigError for two of one name."""
    found: dict[str, Tool] = {}
    for one in tools:
        if one.name in found:
            raise ConfigError(f"{owner} has two tools named '{one.name}'; give one of them another name")
        found[one.name] = one
    return tuple(found.values())


def _check_signature(function: Callable[..., object]) -> list[inspect.Parameter]:
    """The parameters that are arguments of the tool."""
    found = list(inspect.signature(function).parameters.values())
    if found and found[0].name == "self":
        found = found[1:]
    for parameter in found:
        if parameter.kind in (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD):
            raise ConfigError(f"{_place(function)}: '{parameter}' takes any number of arguments; name each of them")
        if parameter.kind is inspect.Parameter.POSITIONAL_ONLY:
            raise ConfigError(f"{_place(function)}: '{parameter.name}' stands before '/', but tools are called by name")
        if parameter.annotation is inspect.Parameter.empty:
            raise ConfigError(
                f"{_place(function)}: '{parameter.name}' has no type; annotate it, such as {parameter.name}: int"
            )
    answer = function.__annotations__.get("return", inspect.Parameter.empty)
    if answer not in (str, "str"):
        shown = "nothing" if answer is inspect.Parameter.empty else getattr(answer, "__name__", answer)
        raise ConfigError(f"{_place(function)}: it is declared to return {shown}; a tool returns text: -> str")
    return found


def _hints(function: Callable[..., object], namespace: Mapping[str, object] | None) -> dict[str, Any]:
    try:
        return typing.get_type_hints(function, localns=dict(namespace or {}), include_extras=True)
    except (NameError, TypeError) as error:
        raise ConfigError(f"{_place(function)}: a type of its signature cannot be found: {error}") from error


def _place(function: Callable[..., object]) -> str:
    code = getattr(inspect.unwrap(function), "__code__", None)
    where = f" ({code.co_filename}, line {code.co_firstlineno})" if code else ""
    return f"tool '{function.__qualname__}'{where}"
