"""What the reference shows of fields that have a comment in place of a docstring, and of tables in docstrings."""

from __future__ import annotations

import re

from griffe import Attribute, Docstring, Extension, Object

COMMENT = re.compile(r"  # (?!type:|noqa|fmt:)(.+)$")
RULE = re.compile(r"^=+(?: +=+)+$")


class Comments(Extension):
    """A comment behind a field is its help; a table between lines of ``=`` keeps its columns."""

    def on_attribute_instance(self, *, attr: Attribute, **kwargs: object) -> None:
        """Take the comment at the end of the line that defines a field."""
        if attr.docstring is None and attr.endlineno and (parent := attr.parent) and parent.is_class:
            found = COMMENT.search(parent.module.lines_collection[parent.filepath][attr.endlineno - 1])
            if found:
                attr.docstring = Docstring(f"{found[1][0].upper()}{found[1][1:]}.", parent=attr)

    def on_instance(self, *, obj: Object, **kwargs: object) -> None:
        """Put fences around tables."""
        if obj.docstring is not None and "\n===" in obj.docstring.value:
            obj.docstring.value = fenced_tables(obj.docstring.value)


def fenced_tables(text: str) -> str:
    """The text with each table, from its first line of ``=`` to the next blank line, as code."""
    made, inside = [], False
    for line in [*text.splitlines(), ""]:
        if not inside and RULE.match(line.strip()):
            made.append("```text")
            inside = True
        elif inside and not line.strip():
            made.append("```")
            inside = False
        made.append(line)
    return "\n".join(made)
