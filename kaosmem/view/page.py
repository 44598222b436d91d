"""The page of a session's turns: its data, and its one file.

The file asks no network, holds hostile texts as escaped JSON, and binds its scripts by their hashes.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from hashlib import sha256
from html import escape
from importlib import resources

from kaosmem.arguments import json_text
from kaosmem.assembly.why import REASON_MEANINGS
from kaosmem.formats.labels import source_label
from kaosmem.session.open_session import OpenSession
from kaosmem.session.tracing import Replay
from kaosmem.trace.request import texts_of
from kaosmem.types import JSONDict, JSONObject, JSONValue
from kaosmem.types.items import Item

_ESCAPES = {ord(char): f"\\u{ord(char):04x}" for char in "<>&\u2028\u2029"}


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
    live = {item.id for _, section in session.registry.all_sections() for item in section}
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
        "sections": [name for name, _ in session.registry.all_sections()],
        "reasons": dict(REASON_MEANINGS),
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


def html_page(data: PageData) -> Iterator[str]:
    """Yield the parts of the page.

    The policy allows the script and the style of this package by their hashes, and nothing else. A
    page that is served live may ask its own server.
    """
    script = _asset("page.js")
    style = _asset("page.css")
    policy = [
        "default-src 'none'",
        f"script-src {_hash_of(script)}",
        f"style-src {_hash_of(style)}",
        "connect-src 'self'" if data.session["live"] else "connect-src 'none'",
        "base-uri 'none'",
        "form-action 'none'",
    ]
    title = escape(f"{data.session['id']} – kaosmem")
    yield (
        '<!doctype html>\n<html lang="en" data-theme="auto">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{"; ".join(policy)}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="referrer" content="no-referrer">\n'
        f"<title>{title}</title>\n<style>{style}</style>\n</head>\n<body>\n"
        '<div id="app"></div>\n<noscript>This page needs JavaScript.</noscript>\n'
    )
    yield _block("session", dict(data.session))
    yield _block("items", dict(data.items))
    for number, turn in data.turns.items():
        yield _block(f"turn-{number}", dict(turn))
    yield f"<script>{script}</script>\n</body>\n</html>\n"


def escaped_json(value: JSONValue) -> str:
    """Return JSON text that no HTML parser takes for markup."""
    return json_text(value).translate(_ESCAPES)


def _block(name: str, value: JSONValue) -> str:
    return f'<script type="application/json" id="{name}">{escaped_json(value)}</script>\n'


def _asset(name: str) -> str:
    return resources.files("kaosmem.view").joinpath("assets", name).read_text("utf-8")


def _hash_of(text: str) -> str:
    return f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'"
