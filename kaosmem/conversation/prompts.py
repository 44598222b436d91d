"""Texts around a conversation's events, which a user may replace, and notes beyond it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, fields
from string import Template
from typing import ClassVar

from kaosmem.arguments import check_text
from kaosmem.errors import InvalidArgumentError
from kaosmem.formats.delimiters import UNSEEN, name_without, plain_spelling


@dataclass(frozen=True, slots=True)
class PromptTemplates:
    """The texts around events. All but `system` are templates in which `$name` stands for a value.

    system: system prompt of a conversation without one. summary: a summary beside a user's words.
    knowledge: recalled knowledge. call, result, error: a tool call for a model without function
        calling.
    left_out: stands in the middle of a long result that was cut.
    Raises InvalidArgumentError if a template names an unknown value or lacks its main one;
    InvalidArgumentError for no text.
    """

    system: str = "You are a helpful agent. You work with the tools that you are given until the user's task is done."
    summary: str = "[summary of what came before]\n$summary"
    knowledge: str = "[$name]\n$text"
    call: str = "[call of $name]\n$arguments"
    result: str = "[result of $name]\n$result"
    error: str = "[error of $name]\n$result"
    left_out: str = "[$chars characters left out]"

    SHOWN: ClassVar[dict[str, str]] = {
        "summary": "summary",
        "knowledge": "text",
        "result": "result",
        "error": "result",
    }
    VALUES: ClassVar[dict[str, set[str]]] = {
        "summary": {"summary"},
        "knowledge": {"name", "text"},
        "call": {"name", "arguments"},
        "result": {"name", "result"},
        "error": {"name", "result"},
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


@dataclass(frozen=True, slots=True)
class MemoryTier:
    """Notes under a header, the oldest first."""

    header: str
    text: str = field(repr=False)

    @property
    def lines(self) -> list[str]:
        """Return the notes, a line each."""
        return self.text.strip("\n").split("\n") if self.text.strip() else []

    def cut(self, max_chars: int | None = None) -> str:
        """Return the tier with its newest lines; of older ones that are beyond `max_chars`, a notice.

        max_chars: of the lines, their ends and the notice, the header apart.
        """
        lines = self.lines
        if max_chars is None or _length(lines) <= max_chars:
            return "\n".join([self.header, *lines])
        room = max_chars - len(self.notice) - 1
        start = len(lines)
        while start and len(lines[start - 1]) < room:
            start -= 1
            room -= len(lines[start]) + 1
        return "\n".join([self.header, _notice(start), *lines[start:]])

    @property
    def notice(self) -> str:
        """Return the notice of all lines left out: no other is longer."""
        return _notice(len(self.lines))


def fitted_tiers(tiers: Iterable[MemoryTier], max_chars: int = 6_000) -> str:
    """Return tiers with a blank line between them, in at most `max_chars` characters.

    A tier above its share loses whole lines from its top, and says so. Room that a short tier
    leaves goes to the others. Headers stay.
    Raises InvalidArgumentError if headers and notices alone are longer.

    >>> print(fitted_tiers([MemoryTier("# User", "prefers calls"), MemoryTier("# Project", "uses Python")]))
    # User
    prefers calls
    <BLANKLINE>
    # Project
    uses Python
    """
    tiers = list(tiers)
    needs = [_length(tier.lines) for tier in tiers]
    least = [min(need, len(tier.notice) + 1) for tier, need in zip(tiers, needs, strict=True)]
    fixed = sum(len(tier.header) for tier in tiers) + 2 * max(0, len(tiers) - 1) + sum(least)
    if fixed > max_chars:
        raise InvalidArgumentError(
            f"{max_chars} characters do not hold headers and notices; give {fixed} or more"
        )
    more = _shares([need - low for need, low in zip(needs, least, strict=True)], max_chars - fixed)
    shares = [low + share for low, share in zip(least, more, strict=True)]
    return "\n\n".join(tier.cut(share) for tier, share in zip(tiers, shares, strict=True))


def _length(lines: Sequence[str]) -> int:
    return sum(len(line) + 1 for line in lines)


def _notice(lines: int) -> str:
    return f"[{lines} older lines left out]"


def _shares(needs: Sequence[int], room: int) -> list[int]:
    """Return each tier's share of the room: equal shares, but no more than it needs."""
    shares = [0] * len(needs)
    left = room
    for rank, index in enumerate(sorted(range(len(needs)), key=needs.__getitem__)):
        shares[index] = min(needs[index], left // (len(needs) - rank))
        left -= shares[index]
    return shares
