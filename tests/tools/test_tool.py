"""A tool made of a function: its name, its description, its schema, and what is refused at its definition."""

import enum
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, Field

from turngate.errors import ConfigError
from turngate.tools.arguments import BadArguments, convert_arguments
from turngate.tools.tool import Parameter, Tool, is_tool, named_apart, tool, tool_of


class Colour(enum.StrEnum):
    RED = "red"
    BLUE = "blue"


class Point(BaseModel):
    x: int
    y: int = 0


class Painter:
    @tool
    def paint(
        self,
        where: Point,
        colours: list[Colour],
        coats: Annotated[int, Field(ge=1)] = 1,
        *,
        mode: Literal["wet", "dry"] = "dry",
        share: float | None = None,
    ) -> str:
        """Paint something,
        and wait.

        More about it.

        Args:
            where: the place
            colours: what to use,
                in this order
        """
        return f"{where.x} {[colour.name for colour in colours]} {coats} {mode} {share}"

    @tool(name="say", description="Say it.")
    def speak(self, text: str) -> str:
        return text


PAINT = tool_of(Painter.paint)


def test_name_description_and_usage():
    assert (PAINT.name, PAINT.usage) == ("paint", "paint WHERE COLOURS [COATS]")
    assert PAINT.description == "Paint something, and wait. More about it."
    say = tool_of(Painter.speak)
    assert (say.name, say.description, say.usage) == ("say", "Say it.", "say TEXT")
    assert is_tool(Painter.paint)
    assert not is_tool(Painter.__init__)


def test_the_schema_is_what_servers_and_templates_take():
    function = PAINT.schema["function"]
    assert PAINT.schema["type"] == "function"
    assert (function["name"], function["description"]) == ("paint", "Paint something, and wait. More about it.")
    parameters = function["parameters"]
    assert (parameters["type"], parameters["required"]) == ("object", ["where", "colours"])
    properties = parameters["properties"]
    assert list(properties) == ["where", "colours", "coats", "mode", "share"]
    assert properties["where"]["description"] == "the place"
    assert properties["colours"]["description"] == "what to use, in this order"
    assert properties["coats"] == {"type": "integer", "minimum": 1}
    assert properties["mode"] == {"type": "string", "enum": ["wet", "dry"]}
    assert properties["share"] == {"anyOf": [{"type": "number"}, {"type": "null"}]}
    assert parameters["$defs"]["Point"]["properties"]["x"]["type"] == "integer"


def test_arguments_arrive_typed():
    given = {"where": {"x": 3}, "colours": ["red", "blue"], "coats": 2, "share": None}
    arguments, remark = convert_arguments(PAINT, given)
    assert remark == ""
    assert Painter().paint(**arguments) == "3 ['RED', 'BLUE'] 2 dry None"


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"where": {}}, "argument 'where.x' of paint field required, not {}"),
        ({"where": {"x": "a"}}, "argument 'where.x' of paint should be a valid integer"),
        (
            {"where": {"x": 1}, "colours": ["green"]},
            "argument 'colours.0' of paint should be 'red' or 'blue'",
        ),
        ({"where": {"x": 1}, "colours": []}, None),
        (
            {"where": {"x": 1}, "colours": [], "coats": 0},
            "argument 'coats' of paint should be greater than",
        ),
        ({"where": {"x": "a"}}, "argument 'where.x' of paint should be a valid integer, not 'a'; write: "),
        (
            {"where": {"x": 1}, "colours": [], "share": "x"},
            "argument 'share' of paint should be a valid number, not 'x'; ",
        ),
        ({"where": {"x": 1}, "colours": [], "mode": "damp"}, "argument 'mode' of paint should be 'wet' or 'dry'"),
        ({"where": {"x": 1}, "colours": [], "size": 1}, "paint has no argument 'size'"),
        ({"where": {"x": 1}}, "paint needs COLOURS"),
    ],
)
def test_a_wrong_argument_is_told_with_its_name_and_the_usage(given, told):
    if told is None:
        convert_arguments(PAINT, given)
        return
    with pytest.raises(BadArguments) as error:
        convert_arguments(PAINT, given)
    assert str(error.value).startswith(told)
    assert str(error.value).endswith("; write: paint WHERE COLOURS [COATS]")


def find_rows(value: str | int, limit: int | None = None) -> str:
    return f"{value} {limit}"


def test_the_branches_of_a_union_are_one_field_of_that_name():
    with pytest.raises(BadArguments) as error:
        convert_arguments(tool_of(find_rows), {"value": 2.5})
    told = "argument 'value' of find_rows should be a valid string or a valid integer, not 2.5; "
    assert str(error.value) == f"{told}write: find_rows VALUE [LIMIT]"


class Place(BaseModel):
    x: int


def find_in(place: Place | str, pair: tuple[int, int] = (0, 0)) -> str:
    return f"{place} {pair}"


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"place": {}}, "argument 'place.x' of find_in field required, not {}; "),
        ({"place": {"x": "a"}}, "argument 'place.x' of find_in should be a valid integer, not 'a'; "),
        (
            {"place": 3},
            "argument 'place' of find_in should be a valid dictionary or instance of Place or a valid string",
        ),
        ({"place": "", "pair": [1]}, "argument 'pair.1' of find_in field required, not [1]; "),
        ({"place": "", "pair": [1, "b"]}, "argument 'pair.1' of find_in should be a valid integer, not 'b'; "),
    ],
)
def test_the_field_is_where_the_agent_wrote_it_whatever_the_branch(given, told):
    with pytest.raises(BadArguments) as error:
        convert_arguments(tool_of(find_in), given)
    assert str(error.value).startswith(told)


def test_a_name_written_before_a_value_is_told_and_how_to_leave_one_out():
    with pytest.raises(BadArguments) as error:
        convert_arguments(tool_of(find_rows), {"value": "x", "limit": "limit=3"})
    assert str(error.value).endswith("find_rows VALUE [LIMIT] (values without names, null for what is left out)")
    assert convert_arguments(tool_of(find_rows), {"value": "x", "limit": None}) == ({"value": "x"}, "")


def anything(*values: int) -> str:
    return ""


def named(**values: int) -> str:
    return ""


def by_place(value: int, /) -> str:
    return ""


def untyped(value) -> str:
    return ""


def silent(value: int):
    return ""


def number(value: int) -> int:
    return value


def odd(value: object) -> str:
    return ""


class Opaque:
    pass


def opaque(value: Opaque) -> str:
    return ""


def lost(value: "Nowhere") -> str:  # noqa: F821
    return ""


@pytest.mark.parametrize(
    ("function", "said"),
    [
        (anything, "'*values: int' takes any number of arguments; name each of them"),
        (named, "'**values: int' takes any number of arguments; name each of them"),
        (by_place, "'value' stands before '/', but tools are called by name"),
        (untyped, "'value' has no type; annotate it, such as value: int"),
        (silent, "it is declared to return nothing; a tool returns text: -> str"),
        (number, "it is declared to return int; a tool returns text: -> str"),
        (opaque, "the arguments of tool 'opaque' have no JSON schema"),
        (lost, "a type of its signature cannot be found"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_a_signature_that_no_schema_fits_is_refused_with_its_place(function, said):
    with pytest.raises(ConfigError) as error:
        tool_of(tool(function))
    text = str(error.value)
    assert said in text
    assert f"tool '{function.__qualname__}' ({__file__}, line {function.__code__.co_firstlineno})" in text
    assert "\n" not in text


def test_two_tools_of_one_name_are_refused():
    with pytest.raises(ConfigError, match="Painter has two tools named 'paint'; give one of them another name"):
        named_apart([PAINT, PAINT], "Painter")
    assert named_apart([PAINT], "Painter") == (PAINT,)


def test_a_tool_by_hand_has_text_arguments():
    look = Tool(name="look", description="Look.", parameters=(Parameter(name="place", description="where"),))
    assert look.schema["function"]["parameters"] == {
        "properties": {"place": {"description": "where", "type": "string"}},
        "required": ["place"],
        "type": "object",
    }
    with pytest.raises(ConfigError, match="the arguments of tool 'bad' have no JSON schema"):
        Tool(name="bad", description="", parameters=(Parameter(name="what", annotation=Opaque),))
    free: Any = object
    assert Tool(name="free", description="", parameters=(Parameter(name="what", annotation=free),)).usage == "free WHAT"
