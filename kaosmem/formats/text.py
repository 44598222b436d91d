"""The text format, and the pieces of the system message and the block, which every format shares.

A section begins `## name`. Each item has a label (`labels.py`).

Every piece ends in a newline and begins with a visible mark, so that counts of pieces add up, and
stored text can't forge a delimiter: a backslash is put before a line that begins with a label. In
the text of a speaker, a line that begins like the line of another speaker gets one too. The
application's own texts in a verbatim section have no label. They come first, so that none follows a
stored text, whose end no label would show.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from kaosmem.errors import InvalidArgumentError
from kaosmem.formats.delimiters import escaped_in_piece, mark_text, without_hidden
from kaosmem.formats.labels import Group, LabelStyle, role_label
from kaosmem.formats.layout import BlockPlace, HistoryEntry, Layout, Mark, Rendered
from kaosmem.tokens.counters import TokenCounter
from kaosmem.types import JSONObject
from kaosmem.types.items import ChatMessage, Item

_NOT_IN_TITLE = re.compile(r"[\s\]]+")

# Where counts add up inside a text, and how far from its ends such a place is looked for.
_GAP = re.compile(r"(?<=[!-~]) ")
_END_CHARS = 120


def header_piece(title: str) -> str:
    """Return the line that begins a section."""
    return f"## {_NOT_IN_TITLE.sub(' ', without_hidden(title))}\n"


def adds_up(pieces: Sequence[str]) -> bool:
    """Return whether the tokens of pieces in a row add up.

    They do if none but the first begins with `/`, as verbatim pieces may.
    """
    return not any(piece.startswith("/") for piece in pieces[1:])


class Line(NamedTuple):
    """An item in the system message or the block, and its tokens.

    Attributes:
        group: The items of one group stand together under one label. () stands alone.
        tokens: Tokens of the item below the label of its group, or of an item alone.
        label: The tokens that the first item of a group adds.
        text: The text of the item as it is shown.
        labels: Its label as the first of its group, and below that one; () for none.
    """

    group: Group
    tokens: int
    label: int = 0
    text: str = ""
    labels: Sequence[str] = ()

    def piece(self, *, continued: bool) -> str:
        """Return the item as it is shown; if it is continued, below the first one of its group."""
        label = ""
        if self.labels:
            label = self.labels[-1 if continued else 0]
        return f"{label}{self.text}\n"


def line_of(
    item: Item,
    style: LabelStyle,
    counter: TokenCounter,
    note: str | None = None,
) -> Line:
    """Return an item as a line, with one of `NOTES` or without."""
    text = style.bare_text(item)
    if text:
        return Line((), counter(f"{text}\n"), text=text)
    group = style.group(item)
    labels: Sequence[str] = style.labels(item, group, note or "")
    text = escaped_in_piece(item.text, spoken=bool(group and item.shown_role))
    if not group or note is not None or item.interval or not style.is_grouped:
        # Alone, in order.
        group = ()
        labels = labels[:1]
    known = item.tokens if text is item.content else None
    tokens = _tokens_behind(labels, text, counter, known)
    below = tokens[-1]
    return Line(group, below, tokens[0] - below, text, labels)


def entry_piece(entry: HistoryEntry) -> str:
    """Return an entry of a history as it is shown in text."""
    if isinstance(entry, Mark):
        return f"{mark_text(entry)}\n"
    return f"{role_label(entry.role)}{escaped_in_piece(entry.text)}\n"


def _tokens_behind(
    labels: Sequence[str],
    text: str,
    counter: TokenCounter,
    known: int | None,
) -> list[int]:
    """Return the tokens of a shown text behind each of some labels.

    If counts add up, only the changed ends of a text of known size are counted.

    Args:
        known: The tokens of the text alone, None if they are not known.
    """
    if counter.additive and known is not None:
        first = _GAP.search(text, 0, _END_CHARS)
        last = _last_gap(text)
        if first and first.start() < last:
            head = text[: first.start()]
            end = text[last:]
            newline = counter(end + "\n") - counter(end)
            rest = known - counter(head) + newline
            return [rest + counter(label + head) for label in labels]
    return [counter(f"{label}{text}\n") for label in labels]


def _last_gap(text: str) -> int:
    """Return the place of the last gap near the end of a text, -1 if there is none."""
    start = max(0, len(text) - _END_CHARS)
    place = text.rfind(" ", start)
    while place > 0 and not "!" <= text[place - 1] <= "~":
        place = text.rfind(" ", start, place)
    return place


class TextFormat:
    """One text, for completion models, logs and people."""

    name = "text"

    def entry_tokens(
        self,
        entry: HistoryEntry,
        counter: TokenCounter,
        *,
        known: int | None = None,
    ) -> int:
        if isinstance(entry, Mark):
            return counter(entry_piece(entry))
        text = escaped_in_piece(entry.text)
        if text is not entry.text:
            known = None
        (tokens,) = _tokens_behind([role_label(entry.role)], text, counter, known)
        return tokens

    def history_header_tokens(self, title: str, counter: TokenCounter) -> int:
        return counter(header_piece(title))

    def frame_tokens(
        self,
        *,
        static: bool,
        first: HistoryEntry | None,
        block: BlockPlace | None,
        counter: TokenCounter,
    ) -> int:
        return 0

    def takes_block(self, entry: HistoryEntry) -> bool:
        return False

    def render(self, layout: Layout, *, after: Sequence[JSONObject] = ()) -> Rendered:
        pieces = list(layout.static)
        for part in layout.history:
            pieces.append(header_piece(part.title))
            pieces += map(entry_piece, part.entries)
        pieces += layout.block
        return Rendered(text="".join(pieces))

    def count(self, rendered: Rendered, counter: TokenCounter) -> int:
        return counter(rendered.text or "")

    def parse(self, message: object) -> ChatMessage:
        raise InvalidArgumentError("the format 'text' has no messages; use 'openai' or 'anthropic'")
