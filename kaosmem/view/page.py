"""The page as one file: no network, hostile texts as escaped JSON, scripts bound by their hashes."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterator
from hashlib import sha256
from html import escape
from importlib import resources

from kaosmem.arguments import json_text
from kaosmem.types import JSONValue
from kaosmem.view.data import PageData

_ESCAPES = {ord(char): f"\\u{ord(char):04x}" for char in "<>&\u2028\u2029"}


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
