"""The data of the page: the session, its items, and each turn as its trace keeps it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kaosmem.assembly.context import SourceReport
from kaosmem.assembly.why import IN, MEANINGS
from kaosmem.assembly.windows import digest
from kaosmem.entities import Entity, part_of
from kaosmem.formats.text import source_label
from kaosmem.session.open_session import OpenSession
from kaosmem.session.tracing import Replay
from kaosmem.trace.request import texts_of
from kaosmem.trace.turn import Turn
from kaosmem.types import JSONValue
from kaosmem.types.items import Item

_QUERY_CHARS = 300


@dataclass(frozen=True)
class PageData:
    """The data of a page.

    session: what holds for all turns, with a line for each. items: by id, and by id and digest for
        earlier texts of updated items. turns: the stored turns by number.
    """

    session: Mapping[str, JSONValue]
    items: Mapping[str, Mapping[str, JSONValue]]
    turns: Mapping[int, Mapping[str, JSONValue]]


def page_data(session: OpenSession, *, is_live: bool = False) -> PageData:
    """Return the data of a session's page. This reads the session's files.

    Raises:
        CorruptionError: If the archive is damaged.
    """
    replay = Replay(session)
    live = {item.id for _, section in session.roster.all_sections() for item in section}
    items = {}
    for item in replay.items.values():
        items[item.id] = _item_json(item, is_live=item.id in live)
    for turn in replay.turns:
        for item_id, item_digest in turn.data.get("shown", ()):
            current = replay.items.get(item_id)
            shown = replay.version(item_id, item_digest)
            if shown is not None and current is not None and digest(current) != item_digest:
                items[f"{item_id}\0{item_digest}"] = _item_json(shown, is_live=item_id in live)
    lines = [_line(turn, turn.query(replay.items)) for turn in replay.turns]
    about = {
        "id": session.session_id,
        "sections": [name for name, _ in session.roster.all_sections()],
        "reasons": dict(MEANINGS),
        "including": sorted(IN),
        "live": is_live,
        "turns": lines,
    }
    turns = {}
    for turn in replay.turns:
        turns[turn.number] = _turn_json(turn)
    return PageData(about, items, turns)


_SHOWN = "sections", "shown", "signals", "decisions", "request", "notices"
_LINE = (
    "at",
    "seconds",
    "budget",
    "used",
    "frame",
    "prefix_tokens",
    "window",
    "epoch",
    "rebased",
    "appended",
)


def _turn_json(turn: Turn) -> dict[str, JSONValue]:
    """Return a turn as the page reads it when it is looked at."""
    found = {name: turn.data[name] for name in _SHOWN if name in turn.data}
    reports = turn.data.get("reports", {})
    found["reports"] = {name: str(SourceReport(*each)) for name, each in reports.items()}
    return found


def _line(turn: Turn, query: str) -> dict[str, JSONValue]:
    """Return the line of a turn in the list of all turns."""
    shown = {*turn.shown}
    out = 0
    for rows in turn.data.get("decisions", {}).values():
        shown |= {row[0] for row in rows if row[1] in IN}
        out += sum(row[1] not in IN for row in rows)
    sections = {name: use[0] for name, use in turn.data["sections"].items() if use[0]}
    return {
        **{name: turn.data[name] for name in _LINE},
        "n": turn.number,
        "query": query[:_QUERY_CHARS],
        "sections": sections,
        "shown": len(shown),
        "out": out,
        "erased": turn.is_erased,
    }


def _item_json(item: Item, *, is_live: bool) -> dict[str, JSONValue]:
    """Return an item as the page shows it."""
    found: dict[str, Any] = {
        "section": item.section,
        "state": "live" if is_live else "archived",
        "text": item.text,
        "tokens": item.tokens,
        "date": (item.timestamp or item.created_at).isoformat(),
        "from": item.valid_from.isoformat(),
        "trust": item.trust.name.lower(),
    }
    if not isinstance(item.content, str):
        found["leaves"] = texts_of(item)
    optional = {
        "role": item.role,
        "source": source_label(item),
        "key": item.key,
        "tags": list(item.tags),
        "sources": list(item.sources),
        "quotes": quotes_of(item),
        "edge": _edge(item),
    }
    return found | {name: value for name, value in optional.items() if value}


def quotes_of(item: Item) -> list[JSONValue]:
    """Return the quotes that a formed memory rests on."""
    given: Any = item.metadata.get("quotes", item.metadata.get("quote"))
    if isinstance(given, str):
        return [given]
    if isinstance(given, list):
        return [each for each in given if isinstance(each, str)]
    return []


def _edge(item: Item) -> dict[str, JSONValue] | None:
    """Return the relationship that an item of a graph is, None for any other item."""
    part = part_of(item.metadata)
    if part is None or isinstance(part, Entity):
        return None
    return {"from": part.source, "type": part.type, "to": part.target}
