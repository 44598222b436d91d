"""Texts around a conversation's events, which a user may replace."""

from __future__ import annotations

from dataclasses import dataclass, fields
from string import Template
from typing import ClassVar

from kaosmem.arguments import check_text
from kaosmem.errors import InvalidArgumentError
from kaosmem.formats.delimiters import UNSEEN, name_without, plain_spelling


@dataclass(frozen=True, slots=True)
class PromptTemplates:
    """The texts around events. All but `system` are templates in which `$name` stands for a value.

    system: system prompt of a conversation without one. summary: a summary beside a user's words.
    knowledge: recalled knowledge.
    left_out: stands in the middle of a long result that was cut.
    Raises InvalidArgumentError if a template names an unknown value or lacks its main one;
    InvalidArgumentError for no text.
    """

    system: str = "You are a helpful agent. You work with the tools that you are given until the user's task is done."
    summary: str = "[summary of what came before]\n$summary"
    knowledge: str = "[$name]\n$text"
    left_out: str = "[$chars characters left out]"

    SHOWN: ClassVar[dict[str, str]] = {
        "summary": "summary",
        "knowledge": "text",
    }
    VALUES: ClassVar[dict[str, set[str]]] = {
        "summary": {"summary"},
        "knowledge": {"name", "text"},
        "left_out": {"chars"},
    }

    def __post_init__(self) -> None:
        for each in fields(self):
            template = Template(check_text(getattr(self, each.name), f"template {each.name!r}"))
            values = self.VALUES.get(each.name)
            if values is not None and not (
                template.is_valid() and values.issuperset(template.get_identifiers())
            ):
                names = ", ".join(f"${name}" for name in sorted(values))
                raise InvalidArgumentError(
                    f"template {each.name!r} names a value that there is not; use {names}, and $$ "
                    "for a dollar"
                )
            shown = self.SHOWN.get(each.name)
            if shown is not None and shown not in template.get_identifiers():
                raise InvalidArgumentError(
                    f"template {each.name!r} leaves out its content; add ${shown}"
                )

    def fill(self, template: str, **values: object) -> str:
        """Return a template of that name with its values in place.

        A backslash goes before each line of a value that begins as one of the templates does.
        """
        told = {
            name: _name(value) if name == "name" else self._told(str(value))
            for name, value in values.items()
        }
        return Template(getattr(self, template)).substitute(told)

    def _told(self, text: str) -> str:
        fixed = (getattr(self, name).partition("$")[0].strip() for name in self.VALUES)
        beginnings = tuple(plain_spelling(begin) for begin in fixed if len(begin) > 1)
        if not any(begin in plain_spelling(text) for begin in beginnings):
            return text
        lines = text.splitlines(keepends=True)
        return "".join(f"\\{line}" if _begins(line, beginnings) else line for line in lines)


def _name(value: object) -> str:
    return name_without(str(value), "[]")


def _begins(line: str, beginnings: tuple[str, ...]) -> bool:
    return plain_spelling(line).lstrip(f" \t>{UNSEEN}").startswith(beginnings)
