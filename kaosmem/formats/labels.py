"""The labels of items: source and place, day, speaker and, on request, trust.

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
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

from kaosmem.formats.delimiters import (
    PROVIDERS_ROLES,
    escaped_in_history,
    name_without,
    plain_spelling,
    shown_role,
    speaker_name,
)
from kaosmem.language.duplicates import FORMED, PROPOSAL
from kaosmem.memos import memoized
from kaosmem.types.content import Trust
from kaosmem.types.items import Item
from kaosmem.types.outcomes import OUTCOMES, Outcomes
from kaosmem.types.versions import Interval, day_text

Dates: TypeAlias = Literal["timestamp", "created_at", "none"]
"""The day that a label shows.

It is that of the item's `timestamp`, else of its `created_at` if that is chosen, or none.
"""
DATES: tuple[Dates, ...] = get_args(Dates)

Group: TypeAlias = tuple[str, str, str | None] | tuple[()]
"""The source, the day and, of items with a speaker, the place.

Items of one group stand together under one label. Items of the group () stand alone.
"""

NEWER = "newer"
"""The note of an item that corrects one that is shown."""
DISPUTED = "disputed"
"""The note of a formed item that contradicts another one. It is an open proposal."""
POSSIBLY_REPLACED = "possibly replaced"
"""The note of an item that a later one may correct which did not fit."""
NOTES = ("", NEWER, POSSIBLY_REPLACED)

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

        In a verbatim section these are the application's own texts, of role system or none. A
        version whose interval is shown keeps its label.
        White space around it goes. A blank text keeps its label, so that each piece begins with a
        visible mark.
        """
        is_own = (
            item.trust >= Trust.APPLICATION and item.role in ("", "system") and not item.sources
        )
        if self.verbatim and is_own and item.interval is None:
            return item.text.strip()
        return ""

    def group(self, item: Item) -> Group:
        """Return the source, the day and the place that the label of an item says."""
        source = _source(item)
        if item.interval is None:
            day = self.day(item)
        else:
            day = self._interval(item.interval)
        if not source and not day:
            return ()
        place = _place(item) if item.shown_role else None
        return source, day, place

    def labels(self, item: Item, group: Group, note: str = "") -> tuple[str, str]:
        """Return the text before an item's own: as the first of its group, and below that one.

        Args:
            note: One of `NOTES`.
        """
        trust = f"trust {item.trust.name.lower()}" if self.provenance else ""
        is_open = PROPOSAL in item.metadata and FORMED in item.tags
        disputed = DISPUTED if is_open else ""
        outcomes = Outcomes.of(item) if OUTCOMES in item.metadata else None
        outcome = outcomes.note if outcomes else ""
        verified = ""
        if item.last_verified is not None and item.interval is None and self.dates != "none":
            verified = f"last verified {day_text(item.last_verified)}"
        notes = ", ".join(filter(None, (note, disputed, outcome, verified, trust)))
        if group and item.shown_role:
            noted = f" ({notes})" if notes else ""
            line = f"{_speaker(item.shown_role)}{noted}: "
            return f"{_header(item, group)}\n{line}", line
        place = _place(item)
        if not place.startswith(":"):
            place = f":{place.lstrip()}"
        below = ", ".join(filter(None, (place, notes)))
        return f"{_header(item, group, notes)} ", f"[{below}] "

    def day(self, item: Item) -> str:
        """Return the day on which something happened or was said, "" if none is shown."""
        return item.memo(f"day {self.dates}", self._find_day)

    def _find_day(self, item: Item) -> str:
        if self.dates == "none":
            return ""
        date = item.date
        if not date and self.dates == "created_at":
            return day_text(item.created_at)
        return date

    def _interval(self, interval: Interval) -> str:
        """Return the words for a version's interval: `until 1 June 2024`, `since 1 June 2024`."""
        if self.dates == "none" and not interval.is_announced:
            return "replaced" if interval.end else "current"
        return interval.text or "current"


def _header(item: Item, group: Group, notes: str = "") -> str:
    """Return the label of an item that stands alone, or as the first of its group."""
    if not group:
        return _bracketed(item.shown_role, "", notes)
    source, day, _ = group
    if source:
        return _bracketed(source, day, notes, _place(item))
    return _bracketed(source, day, notes)


def source_label(item: Item) -> str:
    """Return the source of an item with its place, such as `a.md:3-9`; "" if it has no source."""
    source = _source(item)
    if source:
        return source + _place(item)
    return ""


def role_label(role: str) -> str:
    """Return the label of a role alone: `[user] `."""
    return f"{_bracketed(role, '', '')} "


@memoized(4_096)
def _bracketed(
    name: str,
    day: str,
    notes: str,
    place: str = "",
) -> str:
    """Return a label of up to three parts.

    Only the label of a continued passage begins with a colon.
    """
    shown = _in_label(shown_role(name))[:_MAX_LABEL_CHARS]
    if shown.startswith(":") or plain_spelling(shown) in _NOTES or not (shown or day):
        shown = f"*{shown}"
    parts = ", ".join(filter(None, (shown + place, day, notes)))
    return f"[{parts}]"


@memoized(4_096)
def _speaker(role: str) -> str:
    return escaped_in_history(name_without(speaker_name(role), ":#[]()"))


def _in_label(text: str) -> str:
    """Return a text as a part of a label: without blanks and brackets, its delimiters escaped."""
    return escaped_in_history(name_without(text, "[]"))


def _source(item: Item) -> str:
    """Return the source of an item as its label shows it, "" without one."""
    source = item.metadata.get("source")
    if not isinstance(source, str):
        return ""
    if shown_role(source) != source or source in PROVIDERS_ROLES:
        return f"./{source}"  # a file is no role
    return source


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
