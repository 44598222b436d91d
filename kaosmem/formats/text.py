"""The text format, and the pieces of the system message and the block, which every format shares.

A section begins `## name`. Each item has a label: its source and place, the day of its timestamp,
its speaker, and, on request, its trust:

    [minutes.md:3-9, 7 May 2024] The fee is due in May.
    [:12-20] It is paid by transfer.
    [msa.pdf p. 12] The term is two years.
    [session_5, 8 May 2024]
    Emi: I moved to Oslo.
    Kate: When?
    [user] What is the fee?
    [until 1 June 2024] The rent is 900 euros.
    [since 1 June 2024] The rent is 950 euros.
    Emi (newer): My office is room 12.
    Emi (possibly replaced): My office is room 9.

- A passage has no speaker. Passages of one source and day stand together, under short labels.
- A header stands over the lines of the speakers of one source and day.
- The label `[user]` stands where neither the source nor the day is known.
- Intervals are those of a replaced version, where a question asks about the past, and of the
  version that replaced it.
- `newer` says that an item corrects one above, of the same speaker or source. `possibly replaced`
  says that a later item, which did not fit, may correct it.

Every piece ends in a newline and begins with a visible mark, so that counts of pieces add up, and
stored text can't forge a delimiter: a backslash is put before a line that begins with a label. In
the text of a speaker, a line that begins like the line of another speaker gets one too. The
application's own texts in a verbatim section have no label. They come first, so that none follows a
stored text, whose end no label would show.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias, get_args

from kaosmem.errors import InvalidArgumentError
from kaosmem.formats.delimiters import (
    PROVIDERS_ROLES,
    escaped_in_history,
    escaped_in_piece,
    mark_text,
    name_without,
    plain_spelling,
    shown_role,
    speaker_name,
    without_hidden,
)
from kaosmem.formats.layout import Mark, Rendered
from kaosmem.memos import register_memo
from kaosmem.types.content import Trust
from kaosmem.types.outcomes import Outcomes
from kaosmem.types.versions import day_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from kaosmem.formats.layout import BlockPlace, HistoryEntry, Layout
    from kaosmem.tokens.counters import TokenCounter
    from kaosmem.types import JSONObject
    from kaosmem.types.items import ChatMessage, Item
    from kaosmem.types.versions import Interval

Dates: TypeAlias = Literal["timestamp", "created_at", "none"]
"""The day that a label shows.

It is that of the item's `timestamp`, else of its `created_at` if that is chosen, or none.
"""
DATES: tuple[Dates, ...] = get_args(Dates)

Group: TypeAlias = tuple[str | None, ...]
"""The source, the day and, of items with a speaker, the place.

Items of one group stand together under one label. Items of the group () stand alone.
"""

NEWER = "newer"
"""The note of an item that corrects one that is shown."""
DISPUTED = "disputed"
"""The note of a formed item whose metadata names another item that it contradicts."""
POSSIBLY_REPLACED = "possibly replaced"
"""The note of an item that a later one may correct which did not fit."""
NOTES = ("", NEWER, POSSIBLY_REPLACED)
_NO_NOTES: Mapping[str, str] = MappingProxyType({})

_NOTES = frozenset({"newer", "current", "replaced", "disputed"})
"""The notes of a label that a name without blanks could be."""
_MAX_LABEL_CHARS = 200

# The first of these in an item's metadata is its place in the source; its lines follow.
_PLACES = (
    ("page", " p. {}"),
    ("slide", " slide {}"),
    ("sheet", " {}"),
    ("cell", " cell {}"),
    ("heading", " § {}"),
)
_MAX_PLACE_CHARS = 60


@dataclass(frozen=True, slots=True)
class LabelStyle:
    """The parts that the labels of a section show.

    Attributes:
        dates: The day that they show.
        provenance: Whether they show the trust of the item.
        verbatim: Whether the application's own texts have no label.
        is_grouped: Whether items of one source and day stand together. A static section keeps its
            order.
    """

    dates: Dates = "timestamp"
    provenance: bool = False
    verbatim: bool = False
    is_grouped: bool = True

    def bare_text(self, item: Item) -> str:
        """Return the text of an item that is shown without label and escapes, "" for any other.

        In a verbatim section these are the application's own texts, of role system or none.
        White space around it goes. A blank text keeps its label, so that each piece begins with a
        visible mark.
        """
        is_own = (
            item.trust >= Trust.APPLICATION and item.role in ("", "system") and not item.sources
        )
        return item.text.strip() if self.verbatim and is_own else ""

    def label(self, item: Item, *, continued: bool = False, note: str = "") -> str:
        """Return the text before an item's own.

        Args:
            continued: Whether the item stands below the first one of its group.
            note: One of `NOTES`.
        """
        trust = f"trust {item.trust.name.lower()}" if self.provenance else ""
        disputed = DISPUTED if DISPUTED in item.tags else ""
        outcomes = Outcomes.of(item)
        outcome = outcomes.note if outcomes else ""
        notes = ", ".join(filter(None, (note, disputed, outcome, self._verified(item), trust)))
        if self.has_speaker(item):
            noted = f" ({notes})" if notes else ""
            line = f"{_speaker(item.shown_role)}{noted}: "
            return line if continued else f"{self._header(item)}\n{line}"
        if continued:
            place = _place(item)
            place = place if place.startswith(":") else f":{place.lstrip()}"
            return f"[{', '.join(filter(None, (place, notes)))}] "
        return f"{self._header(item, notes)} "

    def has_speaker(self, item: Item) -> bool:
        """Return whether an item is shown as a speaker's line under a header."""
        return bool(item.shown_role and self._label_group(item))

    def group(self, item: Item, note: str | None = None) -> Group:
        """Return the group that an item stands in.

        Items with a note, even "", or an interval stand alone in order.
        """
        if note is not None or item.interval or not self.is_grouped:
            return ()
        return self._label_group(item)

    def _label_group(self, item: Item) -> Group:
        return item.memo(f"group {self.dates}", self._find_group)

    def _find_group(self, item: Item) -> Group:
        source = _source(item)
        day = self._day(item)
        if not source and not day:
            return ()
        return source, day, _place(item) if item.shown_role else None

    def _header(self, item: Item, notes: str = "") -> str:
        source = _source(item)
        day = self._day(item)
        if source:
            return _bracketed(source, day, notes, _place(item))
        return _bracketed("" if day else item.shown_role, day, notes)

    def _day(self, item: Item) -> str:
        if item.interval is not None:
            return self._interval(item.interval)
        when = None if self.dates == "none" else item.timestamp
        if when is None and self.dates == "created_at":
            when = item.created_at
        return day_text(when) if when else ""

    def _verified(self, item: Item) -> str:
        """Return the note of an old fact: `last verified 1 June 2024`."""
        if item.last_verified is None or item.interval is not None or self.dates == "none":
            return ""
        return f"last verified {day_text(item.last_verified)}"

    def _interval(self, interval: Interval) -> str:
        """Return the words for a version's interval: `until 1 June 2024`, `since 1 June 2024`."""
        if self.dates == "none" and interval.end:
            return "replaced"
        return "current" if self.dates == "none" else interval.text or "current"


def source_label(item: Item) -> str:
    """Return the source of an item with its place, such as `a.md:3-9`; "" if it has no source."""
    source = _source(item)
    return f"{source}{_place(item)}" if source else ""


def role_label(role: str) -> str:
    """Return the label of a role alone: `[user] `."""
    return f"{_bracketed(role, '', '')} "


@lru_cache(maxsize=4_096)
def _bracketed(name: str, day: str, notes: str, place: str = "") -> str:
    """Return a label of up to three parts.

    Only the label of a continued passage begins with a colon.
    """
    shown = _in_label(shown_role(name))[:_MAX_LABEL_CHARS]
    if shown.startswith(":") or plain_spelling(shown) in _NOTES or not (shown or day):
        shown = f"*{shown}"
    return f"[{', '.join(filter(None, (shown + place, day, notes)))}]"


@lru_cache(maxsize=4_096)
def _speaker(role: str) -> str:
    return name_without(speaker_name(role), ":#[]()")


def _in_label(text: str) -> str:
    """Return a text as a part of a label: without blanks and brackets, its delimiters escaped."""
    return escaped_in_history(name_without(text, "[]"))


register_memo(_bracketed.cache_clear)
register_memo(_speaker.cache_clear)


def _source(item: Item) -> str:
    source = item.metadata.get("source")
    if not isinstance(source, str):
        return ""
    is_a_role = shown_role(source) != source or source in PROVIDERS_ROLES
    return f"./{source}" if is_a_role else source  # a file is no role


def _place(item: Item) -> str:
    """Return the place of an item in its source, such as `:3-9`. Blanks of values are replaced."""
    shown = ""
    for name, form in _PLACES:
        value = item.metadata.get(name)
        if isinstance(value, str | int) and not isinstance(value, bool) and value != "":
            shown = form.format(_in_label(str(value))[:_MAX_PLACE_CHARS])
            break
    lines = item.metadata.get("lines")
    if isinstance(lines, list) and len(lines) == 2:
        return shown + _in_label(f":{lines[0]}-{lines[1]}")
    return shown


PLAIN = LabelStyle()

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


class GroupedItem(NamedTuple):
    """An item in its place.

    Attributes:
        note: One of `NOTES`.
        continued: Whether the item stands below the first one of its group.
    """

    item: Item
    note: str
    continued: bool


def grouped(
    items: Iterable[Item], style: LabelStyle, notes: Mapping[str, str] = _NO_NOTES
) -> list[GroupedItem]:
    """Return items of one section as they are shown: each group in its first item's place.

    Args:
        notes: The notes of items that stand alone, by their ids. "" leaves a label as it is.
    """
    groups: dict[object, list[GroupedItem]] = {}
    for item in items:
        note = notes.get(item.id)
        group = groups.setdefault(style.group(item, note) or item.id, [])
        group.append(GroupedItem(item, note or "", continued=len(group) > 0))
    return [each for group in groups.values() for each in group]


def item_pieces(items: Iterable[GroupedItem], style: LabelStyle) -> Iterator[str]:
    """Yield the pieces of items of one section, as `grouped` orders them."""
    for item, note, continued in items:
        yield item_piece(item, style, continued=continued, note=note)


def item_piece(
    item: Item, style: LabelStyle = PLAIN, *, continued: bool = False, note: str = ""
) -> str:
    """Return an item as it is shown in text, in the system message and in the block.

    Args:
        continued: Whether the item stands below the first one of its group, under a short label.
        note: One of `NOTES`.
    """
    text = style.bare_text(item)
    if text:
        return f"{text}\n"
    label = style.label(item, continued=continued, note=note)
    return _piece(label, item, spoken=style.has_speaker(item))


def piece_tokens(
    item: Item, labels: Sequence[str], counter: TokenCounter, style: LabelStyle = PLAIN
) -> list[int]:
    """Return the tokens of an item's piece behind each of some labels of a style.

    A text that a verbatim section shows has no label.
    """
    text = style.bare_text(item)
    if text:
        return [counter(f"{text}\n")] * len(labels)
    spoken = style.has_speaker(item)
    if _is_changed(item, spoken=spoken) or not isinstance(item.content, str):
        return [counter(_piece(label, item, spoken=spoken)) for label in labels]
    return _known_piece_tokens(labels, item.content, counter, item.tokens)


def entry_piece(entry: HistoryEntry) -> str:
    """Return an entry of a history as it is shown in text."""
    if isinstance(entry, Mark):
        return f"{mark_text(entry)}\n"
    return f"{role_label(entry.role)}{escaped_in_piece(entry.text)}\n"


def recalled_header(title: str) -> str:
    """Return the line over items that were evicted, or stand before the cut of a history."""
    return header_piece(f"{title}: earlier ones")


def _piece(label: str, item: Item, *, spoken: bool) -> str:
    text = item.text
    if _is_changed(item, spoken=spoken):
        text = escaped_in_piece(text, spoken=spoken)
    return f"{label}{text}\n"


def _known_piece_tokens(
    labels: Sequence[str], text: str, counter: TokenCounter, known: int
) -> list[int]:
    """Return the tokens of a text that is shown as it is, behind each of some labels.

    If counts add up, only the changed ends of the text are counted.

    Args:
        known: The tokens of the text alone.
    """
    if counter.additive:
        first = _GAP.search(text, 0, _END_CHARS)
        last = _last_gap(text)
        if first and first.start() < last:
            head = text[: first.start()]
            end = text[last:]
            rest = known - counter(head) + counter(end + "\n") - counter(end)
            return [rest + counter(label + head) for label in labels]
    return [counter(f"{label}{text}\n") for label in labels]


def _last_gap(text: str) -> int:
    """Return the place of the last gap near the end of a text, -1 if there is none."""
    start = max(0, len(text) - _END_CHARS)
    place = text.rfind(" ", start)
    while place > 0 and not "!" <= text[place - 1] <= "~":
        place = text.rfind(" ", start, place)
    return place


def _is_changed(item: Item, *, spoken: bool) -> bool:
    """Return whether an item's text is not shown as it is stored.

    It is looked for once in its life.
    """
    form = "changed of a speaker" if spoken else "changed"
    return item.memo(form, lambda item: escaped_in_piece(item.text, spoken=spoken) is not item.text)


class TextFormat:
    """One text, for completion models, logs and people."""

    name = "text"

    def entry_tokens(
        self, entry: HistoryEntry, counter: TokenCounter, *, known: int | None = None
    ) -> int:
        if isinstance(entry, Mark):
            return counter(entry_piece(entry))
        text = entry.text
        if known is None or escaped_in_piece(text) is not text:
            return counter(entry_piece(entry))
        (tokens,) = _known_piece_tokens([role_label(entry.role)], text, counter, known)
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
        pieces = [*layout.static]
        for part in layout.history:
            pieces.append(header_piece(part.title))
            pieces += map(entry_piece, part.entries)
        return Rendered(text="".join([*pieces, *layout.block]))

    def count(self, rendered: Rendered, counter: TokenCounter) -> int:
        return counter(rendered.text or "")

    def parse(self, message: object) -> ChatMessage:
        raise InvalidArgumentError("the format 'text' has no messages; use 'openai' or 'anthropic'")
