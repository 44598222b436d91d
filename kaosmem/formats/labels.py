"""Labels: source, day, speaker and trust of an item, shown beside its text.

A label names the item's source and its place there, the day of its timestamp, its speaker, and, on request, its trust:

    [minutes.md:3-9, 7 May 2024] The fee is due in May.      a passage: it has no speaker
    [:12-20] It is paid by transfer.                         a passage of the same source and day as the one before
    [msa.pdf p. 12] The term is two years.                   a passage of a page; the next one begins [:p. 13]
    [session_5, 8 May 2024]                                  a header over the lines of its speakers
    Emi: I moved to Oslo.
    Kate: When?
    [user] What is the fee?                                  neither source nor day is known
    [until 1 June 2024] The rent is 900 euros.               a replaced version, where a question asks about the past
    [since 1 June 2024] The rent is 950 euros.               the version that replaced it
    Emi (newer): My office is room 12.                       it corrects an item above, of the same speaker or source

Stored text cannot begin a line with a label: a backslash is put before it. In the text of a speaker, a line that begins
like the line of another speaker gets one too.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Literal, TypeAlias, get_args

from kaosmem.formats.delimiters import PROVIDERS_ROLES, escaped_in_history, name_without, shown_role, speaker_name
from kaosmem.formats.spelling import plain_spelling
from kaosmem.memos import register_memo
from kaosmem.types import Trust, day_text

if TYPE_CHECKING:
    from kaosmem.types import Interval, Item

Dates: TypeAlias = Literal["timestamp", "created_at", "none"]
"""The day that a label shows: of the item's `timestamp`, else of its `created_at` if that is chosen, or none."""
DATES: tuple[Dates, ...] = get_args(Dates)

Group: TypeAlias = tuple[str | None, ...]
"""The source, the day and, of items with a speaker, the place: items that have these in common share one label.

It is empty if neither source nor day is known.
"""

_NOTES = frozenset({"newer", "current", "replaced"})  # the notes of a label that a name without blanks could be
_MAX_LABEL_CHARS = 200

# The first of these in an item's metadata is its place in the source; its lines follow.
_PLACES = (("page", " p. {}"), ("slide", " slide {}"), ("sheet", " {}"), ("cell", " cell {}"), ("heading", " § {}"))
_MAX_PLACE_CHARS = 60


@dataclass(frozen=True, slots=True)
class LabelStyle:
    """The parts that the labels of a section show.

    dates: which day they show. provenance: whether they show how far the item is trusted.
    verbatim: the application's own texts have no label.
    """

    dates: Dates = "timestamp"
    provenance: bool = False
    verbatim: bool = False

    def bare_text(self, item: Item) -> str:
        """Return the text of an item that is shown without label and escapes, "" for any other.

        In a verbatim section these are the application's own texts, of role system or none.
        White space around it goes. A blank text keeps its label, so that each piece begins with a visible mark.
        """
        is_own = item.trust >= Trust.APPLICATION and item.role in ("", "system") and not item.sources
        return item.text.strip() if self.verbatim and is_own else ""

    def label(self, item: Item, *, continued: bool = False, newer: bool = False) -> str:
        """Return the text before an item's own.

        continued: the item right before it is of the same group. newer: it corrects an item that is shown.
        """
        trust = f"trust {item.trust.name.lower()}" if self.provenance else ""
        notes = ", ".join(filter(None, ("newer" if newer else "", trust)))
        if self.has_speaker(item):
            line = f"{_speaker(item.shown_role)} ({notes}): " if notes else f"{_speaker(item.shown_role)}: "
            return line if continued else f"{self._header(item)}\n{line}"
        if continued:
            place = _place(item)
            place = place if place.startswith(":") else f":{place.lstrip()}"
            return f"[{', '.join(filter(None, (place, notes)))}] "
        return f"{self._header(item, notes)} "

    def has_speaker(self, item: Item) -> bool:
        """Return whether an item is shown as a speaker's line under a header."""
        return bool(item.shown_role and self._group(item))

    def continues(self, item: Item, before: Item | None) -> bool:
        """Return whether an item is of the group of the one that is shown before it in its section."""
        if before is None or self.verbatim or item.interval:
            return False
        group = self._group(item)
        return group != () and group == self._group(before)

    def _group(self, item: Item) -> Group:
        return item.memo(f"group {self.dates}", self._find_group)

    def _find_group(self, item: Item) -> Group:
        source, day = _source(item), self._day(item)
        if not source and not day:
            return ()
        return source, day, _place(item) if item.shown_role else None

    def _header(self, item: Item, notes: str = "") -> str:
        source, day = _source(item), self._day(item)
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

    def _interval(self, interval: Interval) -> str:
        """Return the words for the interval of a version: `until 1 June 2024`, or `since 1 June 2024`."""
        if self.dates == "none" and interval.end:
            return "replaced"
        return "current" if self.dates == "none" else interval.text or "current"


def source_label(item: Item) -> str:
    """Return the source of an item with its place, such as `a.md:3-9` or `b.pdf p. 12`; "" if it has no source."""
    source = _source(item)
    return f"{source}{_place(item)}" if source else ""


def role_label(role: str) -> str:
    """Return the label of a role alone: `[user] `."""
    return f"{_bracketed(role, '', '')} "


@lru_cache(maxsize=4_096)
def _bracketed(name: str, day: str, notes: str, place: str = "") -> str:
    """Return a label of up to three parts. Only the label of a continued passage begins with a colon."""
    shown = _in_label(shown_role(name))[:_MAX_LABEL_CHARS]
    if shown.startswith(":") or plain_spelling(shown) in _NOTES or not (shown or day):
        shown = f"*{shown}"
    return f"[{', '.join(filter(None, (shown + place, day, notes)))}]"


@lru_cache(maxsize=4_096)
def _speaker(role: str) -> str:
    return name_without(speaker_name(role), ":#[]()")


def _in_label(text: str) -> str:
    """Return a text without blanks and brackets, which end a part of a label, and with its delimiters escaped."""
    return escaped_in_history(name_without(text, "[]"))


register_memo(_bracketed.cache_clear)
register_memo(_speaker.cache_clear)


def _source(item: Item) -> str:
    source = item.metadata.get("source")
    if not isinstance(source, str):
        return ""
    return f"./{source}" if shown_role(source) != source or source in PROVIDERS_ROLES else source  # a file is no role


def _place(item: Item) -> str:
    """Return the place of an item in its source, as ` p. 12` or `:3-9`. Blanks of its values are replaced."""
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
