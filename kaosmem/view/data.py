"""The data of the page: the session, its items, and each turn as its trace keeps it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from kaosmem.assembly.why import MEANINGS
from kaosmem.formats.labels import source_label
from kaosmem.session.open_session import OpenSession
from kaosmem.session.tracing import Replay
from kaosmem.trace.request import texts_of
from kaosmem.types import JSONDict, JSONObject
from kaosmem.types.items import Item


@dataclass(frozen=True)
class PageData:
    """The data of a page.

    Attributes:
        session: What holds for all turns, with a line for each.
        items: By id, and by id and digest for earlier texts of updated items.
        turns: The stored turns by number.
    """

    session: JSONObject
    items: Mapping[str, JSONObject]
    turns: Mapping[int, JSONObject]


def page_data(session: OpenSession, *, is_live: bool = False) -> PageData:
    """Return the data of a session's page. This reads the session's files.

    Raises:
        CorruptionError: If the archive is damaged.
    """
    replay = Replay(session)
    live = {item.id for _, section in session.roster.all_sections() for item in section}
    items = {}
    for (item_id, item_digest), item in replay.known.versions.items():
        is_newest = item is replay.known.by_id[item_id]
        name = item_id if is_newest else f"{item_id}\0{item_digest}"
        items[name] = _item_json(item, is_live=item_id in live)
    lines = []
    for turn in replay.turns:
        told = {"n": turn.number, "query": turn.query(replay.known), "erased": turn.is_erased}
        lines.append({**told, **turn.sums})
    about = {
        "id": session.session_id,
        "sections": [name for name, _ in session.roster.all_sections()],
        "reasons": dict(MEANINGS),
        "live": is_live,
        "turns": lines,
    }
    return PageData(about, items, {turn.number: turn.seen for turn in replay.turns})


def _item_json(item: Item, *, is_live: bool) -> JSONDict:
    """Return an item as the page shows it."""
    return {
        "section": item.section,
        "state": "live" if is_live else "archived",
        "text": item.text,
        "leaves": None if isinstance(item.content, str) else [*texts_of(item)],
        "tokens": item.tokens,
        "date": (item.timestamp or item.created_at).isoformat(),
        "from": item.valid_from.isoformat(),
        "trust": item.trust.name.lower(),
        "role": item.role,
        "source": source_label(item),
        "key": item.key,
        "tags": list(item.tags),
        "sources": list(item.sources),
        "metadata": dict(item.metadata),
    }
