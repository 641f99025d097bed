"""1. A field is explained by its description, else by the docstring below it.
2. A field that a subclass redefines without a word keeps the help of its base class.
3. Where no source can be read there is no help, and no error.
"""

from typing import ClassVar

from pydantic import BaseModel, Field, create_model

from turngate.field_help import field_help


class Reel(BaseModel):
    """A dance."""

    shared: ClassVar[int] = 3
    """Of the class, not of a dance."""
    bars: int = 4
    """How long
    it is."""
    "Not a docstring of bars: the one above is."
    steps: int = Field(2, description="How many steps.")
    """What a description is preferred to."""
    name: str = ""

    class Slow(BaseModel):
        """Inside."""

        pace: float = 0.5
        """Beats a second."""


class Jig(Reel):
    """Faster."""

    bars: int = 8
    name: str = "jig"
    """What it is called."""


def test_a_field_is_explained_by_what_stands_below_it():
    assert field_help(Reel, "bars") == "How long\nit is."
    assert field_help(Reel, "steps") == "How many steps."
    assert field_help(Reel, "name") == ""
    assert field_help(Reel.Slow, "pace") == "Beats a second."
    assert field_help(Reel, "shared") == field_help(Reel, "missing") == ""


def test_classes_inside_functions_are_found():
    class Here(BaseModel):
        one: int = 1
        """In a function."""

    assert field_help(Here, "one") == "In a function."


def test_a_redefined_field_keeps_the_help_of_its_base_class():
    assert field_help(Jig, "bars") == "How long\nit is."
    assert field_help(Jig, "name") == "What it is called."


def test_classes_without_a_source_have_the_help_of_their_bases():
    made = create_model("Made", __base__=Jig, __module__="nowhere.to.be.found", other=(int, 1))
    assert field_help(made, "other") == ""
    assert field_help(made, "bars") == "How long\nit is."
