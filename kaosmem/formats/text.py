"""The text format, and the pieces of the system message and the block, which every format shares.

A section begins `## name`, and each item with a label (`labels.py`). Every piece ends in a newline and begins with a
visible mark, so that counts of pieces add up, and stored text can't forge a delimiter. The application's own texts in a
verbatim section have no label. They come first, so that none follows a stored text, whose end no label would show.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from kaosmem.errors import InvalidArgumentError
from kaosmem.formats.delimiters import escaped_in_piece, is_changed_in_piece, mark_text
from kaosmem.formats.labels import LabelStyle, role_label
from kaosmem.formats.layout import Mark, Rendered
from kaosmem.formats.spelling import without_hidden

if TYPE_CHECKING:
    from collections.abc import Container, Iterator, Mapping, Sequence

    from kaosmem.formats.layout import BlockPlace, HistoryEntry, Layout
    from kaosmem.tokens import TokenCounter
    from kaosmem.types import ChatMessage, Item, JSONValue

PLAIN = LabelStyle()

_NOT_IN_TITLE = re.compile(r"[\s\]]+")

# Where counts add up inside a text, and how far from its ends such a place is looked for.
_GAP = re.compile(r"(?<=[!-~]) ")
_END_CHARS = 120


def header_piece(title: str) -> str:
    """Return the line that begins a section."""
    return f"## {_NOT_IN_TITLE.sub(' ', without_hidden(title))}\n"


def adds_up(pieces: Sequence[str]) -> bool:
    """Return whether the tokens of pieces in a row add up: none but the first begins with `/`, as verbatim ones may."""
    return not any(piece.startswith("/") for piece in pieces[1:])


def item_pieces(items: Sequence[Item], style: LabelStyle, newer: Container[str] = ()) -> Iterator[str]:
    """Return items of one section as they are shown one after another. newer: ids of those marked as newer."""
    for before, item in zip((None, *items), items, strict=False):
        yield item_piece(item, style, continued=style.continues(item, before), newer=item.id in newer)


def item_piece(item: Item, style: LabelStyle = PLAIN, *, continued: bool = False, newer: bool = False) -> str:
    """Return an item as it is shown in text, in the system message and in the block.

    continued: the item before it is of the same group, so that its label is short. newer: it is marked as newer.
    """
    if text := style.bare_text(item):
        return f"{text}\n"
    return _piece(style.label(item, continued=continued, newer=newer), item, spoken=style.has_speaker(item))


def item_tokens(
    item: Item, counter: TokenCounter, style: LabelStyle = PLAIN, *, continued: bool = False, newer: bool = False
) -> int:
    """Return the tokens of an item's piece."""
    if text := style.bare_text(item):
        return counter(f"{text}\n")
    label, spoken = style.label(item, continued=continued, newer=newer), style.has_speaker(item)
    if _is_changed(item, spoken=spoken) or not isinstance(item.content, str):
        return counter(_piece(label, item, spoken=spoken))
    return _known_piece_tokens(label, item.content, counter, item.tokens)


def entry_piece(entry: HistoryEntry) -> str:
    """Return an entry of a history as it is shown in text."""
    if isinstance(entry, Mark):
        return f"{mark_text(entry)}\n"
    return f"{role_label(entry.role)}{escaped_in_piece(entry.text)}\n"


def recalled_header(title: str, *, recalled: int, left_out: int | None = None) -> str:
    """Return the line over items that were evicted, or that are before the place where a history is cut.

    left_out: of a history, how many messages are before that place: it is said how many of them are not recalled.
    """
    between = "" if left_out is None else f", {max(0, left_out - recalled)} left out between"
    return header_piece(f"{title}: {recalled} earlier ones{between}")


def _piece(label: str, item: Item, *, spoken: bool) -> str:
    text = escaped_in_piece(item.text, spoken=spoken) if _is_changed(item, spoken=spoken) else item.text
    return f"{label}{text}\n"


def _known_piece_tokens(label: str, text: str, counter: TokenCounter, known: int) -> int:
    """Return the tokens of a piece of a text that is shown as it is, of which `known` are the text's alone.

    If counts add up, only the changed ends of the text are counted.
    """
    if counter.additive:
        first = _GAP.search(text, 0, _END_CHARS)
        *_, last = (None, *_GAP.finditer(text, max(0, len(text) - _END_CHARS)))
        if first and last and first.start() < last.start():
            head, end = text[: first.start()], text[last.start() :]
            changed = counter(label + head) - counter(head) + counter(end + "\n") - counter(end)
            return known + changed
    return counter(f"{label}{text}\n")


def _is_changed(item: Item, *, spoken: bool) -> bool:
    """Return whether an item's text is shown otherwise than it is stored; looked for once in its life."""
    form = "changed of a speaker" if spoken else "changed"
    return item.size(form, lambda item: int(is_changed_in_piece(item.text, spoken=spoken))) > 0


class TextFormat:
    """One text, for completion models, logs and people."""

    name = "text"

    def entry_tokens(self, entry: HistoryEntry, counter: TokenCounter, *, known: int | None = None) -> int:
        if isinstance(entry, Mark):
            return counter(entry_piece(entry))
        text = entry.text
        if known is None or escaped_in_piece(text) is not text:
            return counter(entry_piece(entry))
        return _known_piece_tokens(role_label(entry.role), text, counter, known)

    def history_header_tokens(self, title: str, counter: TokenCounter) -> int:
        return counter(header_piece(title))

    def frame_tokens(
        self, *, static: bool, first: HistoryEntry | None, block: BlockPlace | None, counter: TokenCounter
    ) -> int:
        return 0

    def takes_block(self, entry: HistoryEntry) -> bool:
        return False

    def render(self, layout: Layout, *, after: Sequence[Mapping[str, JSONValue]] = ()) -> Rendered:
        history = (
            piece for part in layout.history for piece in (header_piece(part.title), *map(entry_piece, part.entries))
        )
        return Rendered(text="".join((*layout.static, *history, *layout.block)))

    def count(self, rendered: Rendered, counter: TokenCounter) -> int:
        return counter(rendered.text or "")

    def parse(self, message: object) -> ChatMessage:
        raise InvalidArgumentError("the format 'text' has no messages; use 'openai' or 'anthropic'")
