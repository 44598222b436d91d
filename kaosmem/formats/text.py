"""The text format, and the pieces of the system message and the block, which every format shares.

A section begins `## name`, an item `[role] ` or `[its source] `. A run of items of one source, within a section, names
it once: those after the first are labelled `[:] `, or `[:lines] ` where their lines are known. No other label begins
with a colon. Every piece ends in a newline and begins with a visible mark, so that counts of pieces add up, and stored
text can't forge a delimiter.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING

from kaosmem.formats.delimiters import PROVIDERS_ROLES, escaped_in_piece, false_delimiters, mark_text
from kaosmem.formats.layout import Mark, Rendered
from kaosmem.memos import register_memo

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kaosmem.formats.layout import BlockPlace, HistoryEntry, Layout
    from kaosmem.tokens import TokenCounter
    from kaosmem.types import Item

_NOT_IN_LABEL = re.compile(r"[\s\]\x00-\x1f\x7f-\x9f\u2028\u2029]+")
_MAX_LABEL_CHARS = 200

# Where counts add up inside a text, and how far from its ends such a place is looked for.
_GAP = re.compile(r"(?<=[!-~]) ")
_END_CHARS = 120


def header_piece(title: str) -> str:
    """Return the line that begins a section."""
    return f"## {_NOT_IN_LABEL.sub(' ', title)}\n"


def item_pieces(items: Sequence[Item], *, provenance: bool = False) -> Iterator[str]:
    """Return items of one section as they are shown one after another."""
    for before, item in zip((None, *items), items, strict=False):
        yield item_piece(item, continued=continues(item, before), provenance=provenance)


def continues(item: Item, before: Item | None) -> bool:
    """Return whether an item has the source of the one that is shown before it in its section."""
    if before is None:
        return False
    source = item.metadata.get("source")
    return isinstance(source, str) and source != "" and source == before.metadata.get("source")


def item_piece(item: Item, *, continued: bool = False, provenance: bool = False) -> str:
    """Return an item as it is shown in text, in the system message and in the block.

    continued: it has the source of the item before it, which is not named again: `[:3-9] `.
    provenance: say after its source or role how far it is trusted, such as `[a.md:3-9, trust external] `. No source
    or role can say it for itself, as their blanks are replaced.
    """
    label = _item_label(item, continued, provenance)
    return _piece(label, item.text) if _false_delimiters(item) else f"{label}{item.text}\n"


def item_tokens(item: Item, counter: TokenCounter, *, continued: bool = False, provenance: bool = False) -> int:
    """Return the tokens of an item's piece."""
    label = _item_label(item, continued, provenance)
    if _false_delimiters(item) or not isinstance(item.content, str):
        return counter(_piece(label, item.text))
    return _known_piece_tokens(label, item.content, counter, item.tokens)


def entry_piece(entry: HistoryEntry) -> str:
    """Return an entry of a history as it is shown in text."""
    return f"{mark_text(entry)}\n" if isinstance(entry, Mark) else _piece(_label(entry.role), entry.text)


def recalled_header(title: str, *, recalled: int, left_out: int | None = None) -> str:
    """Return the line over items that were evicted, or that are before the place where a history is cut.

    left_out: of a history, how many messages are before that place: it is said how many of them are not recalled.
    """
    between = "" if left_out is None else f", {max(0, left_out - recalled)} left out between"
    return header_piece(f"{title}: {recalled} earlier ones{between}")


def _item_label(item: Item, continued: bool, provenance: bool) -> str:
    trust = f", trust {item.trust.name.lower()}" if provenance else ""
    if continued:
        return _label(_lines_label(item) or ":", trust, continued=True)
    return _label(_source_label(item) or item.shown_role, trust)


@lru_cache(maxsize=4_096)
def _label(label: str, trust: str = "", *, continued: bool = False) -> str:
    shown = _NOT_IN_LABEL.sub("_", label)[:_MAX_LABEL_CHARS]
    # Of all that is stored nothing may pass for a label that continues a source.
    anonymous = "*" if not continued and shown[:1] in ("", ":") else ""
    return f"[{anonymous}{shown}{trust}] "


register_memo(_label.cache_clear)


def _piece(label: str, text: str) -> str:
    return f"{label}{escaped_in_piece(text)}\n"


def _known_piece_tokens(label: str, text: str, counter: TokenCounter, known: int) -> int:
    """Return the tokens of a piece of a text without false delimiters, of which `known` are the text's alone.

    Where counts add up, only what changes at the text's ends is counted.
    """
    if counter.additive:
        first = _GAP.search(text, 0, _END_CHARS)
        *_, last = (None, *_GAP.finditer(text, max(0, len(text) - _END_CHARS)))
        if first and last and first.start() < last.start():
            head, end = text[: first.start()], text[last.start() :]
            changed = counter(label + head) - counter(head) + counter(end + "\n") - counter(end)
            return known + changed
    return counter(f"{label}{text}\n")


def _false_delimiters(item: Item) -> int:
    """Return how many lines of an item's text begin like a delimiter; looked for once in its life."""
    return item.size("false delimiters", lambda item: false_delimiters(item.text))


def _source_label(item: Item) -> str:
    source = item.metadata.get("source")
    if not isinstance(source, str) or not source:
        return ""
    if lines := _lines_label(item):
        return f"{source}{lines}"
    return f"./{source}" if source.lower() in PROVIDERS_ROLES else source  # a file called `system` is none


def _lines_label(item: Item) -> str:
    lines = item.metadata.get("lines")
    return f":{lines[0]}-{lines[1]}" if isinstance(lines, list) and len(lines) == 2 else ""


class TextFormat:
    """One text, for completion models, logs and people."""

    name = "text"

    def entry_tokens(self, entry: HistoryEntry, counter: TokenCounter, *, known: int | None = None) -> int:
        if isinstance(entry, Mark):
            return counter(entry_piece(entry))
        label, text = _label(entry.role), entry.text
        if known is None or escaped_in_piece(text) is not text:
            return counter(_piece(label, text))
        return _known_piece_tokens(label, text, counter, known)

    def history_header_tokens(self, title: str, counter: TokenCounter) -> int:
        return counter(header_piece(title))

    def frame_tokens(
        self, *, static: bool, first: HistoryEntry | None, block: BlockPlace | None, counter: TokenCounter
    ) -> int:
        return 0

    def takes_block(self, entry: HistoryEntry) -> bool:
        return False

    def render(self, layout: Layout) -> Rendered:
        history = (
            piece for part in layout.history for piece in (header_piece(part.title), *map(entry_piece, part.entries))
        )
        return Rendered(text="".join((*layout.static, *history, *layout.block)))

    def count(self, rendered: Rendered, counter: TokenCounter) -> int:
        return counter(rendered.text or "")
