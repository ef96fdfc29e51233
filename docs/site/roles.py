"""Sphinx's roles and literal blocks in docstrings, as Markdown."""

import re
import textwrap
from typing import Any

import griffe

_ROLE = re.compile(r":(?:attr|class|data|exc|func|meth|mod):`([^`]+)`")
_LITERAL = re.compile(
    r"^(?P<lead>[^\n]*)::\n\n(?P<block>(?:(?: {4}[^\n]*)?\n)*(?: {4}[^\n]*))", re.M
)


class Roles(griffe.Extension):
    """Rewrites the docstring of every object that is loaded."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Take it as it was collected, before it is parsed."""
        if obj.docstring is not None:
            obj.docstring.value = as_markdown(obj.docstring.value)


def as_markdown(docstring: str) -> str:
    """Return ``docstring`` without what Markdown does not know."""
    return _LITERAL.sub(_fenced, _ROLE.sub(_code, docstring))


def _code(role: re.Match[str]) -> str:
    name = role[1]
    return f"`{name.rpartition('.')[2] if name.startswith('~') else name}`"


def _fenced(literal: re.Match[str]) -> str:
    lead = f"{literal['lead']}:\n\n" if literal["lead"].strip() else ""
    return f"{lead}```python\n{textwrap.dedent(literal['block'])}\n```"
