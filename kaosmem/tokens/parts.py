"""The estimated tokens of parts of messages that only their provider can read."""

from __future__ import annotations

import re
from binascii import a2b_base64
from collections.abc import Mapping

from kaosmem.arguments import JSONObject, JSONValue, json_text
from kaosmem.memos import memoized
from kaosmem.tokens.counters import TokenCounter, check_tokens

IMAGE_TOKENS = 765
"""The estimated tokens of an image: the real size is the provider's secret until it is sent.

Source: OpenAI's pricing of a 1024 x 1024 image at high detail, 85 + 4 tiles of 170.
"""
PAGE_TOKENS = 3_000
"""The estimated tokens of a page of a PDF.

Source: Anthropic, "PDF support": 1,500 to 3,000 tokens a page.
"""
_REMOTE_PAGES = 10  # of a file that stands elsewhere; its size is not known
_PAGE_BYTES = 50_000  # of a PDF whose pages are compressed, so that they cannot be counted
_AUDIO_BYTES_A_TOKEN = 1_600  # 100 ms of MP3 with 128 kbit/s
_SEALED_CHARS_PER_TOKEN = 4

_DATA = re.compile(r"(?:data:[^;,]*;base64,)?([A-Za-z0-9+/_=-]{400,})")
# How their base64 begins:
_PDF = "JVBERi"
_IMAGES = ("iVBOR", "/9j/", "R0lGOD")
_PAGE = re.compile(rb"/Type\s*/Page\b")


def sealed_tokens(data: str) -> int:
    """Return the estimated tokens of data that only its provider can read: encrypted thinking."""
    return -(-len(data) // _SEALED_CHARS_PER_TOKEN)


def part_tokens(part: JSONObject, counter: TokenCounter) -> int:
    """Return the estimated tokens of a part of a message that kaosmem keeps as it is.

    Text in it counts as the counter counts it, a PDF by its pages, audio by its length, other data
    by its size. A file that stands elsewhere counts as ten pages.

    >>> from kaosmem.tokens import get_counter
    >>> part_tokens({"type": "file", "file": {"file_id": "f1"}}, get_counter()) > 10 * PAGE_TOKENS
    True
    """
    if part.get("type") == "image":
        return IMAGE_TOKENS
    data: list[str] = []
    text = json_text(_without_data(part, data))
    tokens = check_tokens(counter(text), counter.name)
    if part.get("type") == "input_audio":
        return tokens + sum(len(each) * 3 // 4 // _AUDIO_BYTES_A_TOKEN for each in data)
    if _is_elsewhere(part):
        return tokens + _REMOTE_PAGES * PAGE_TOKENS
    return tokens + sum(map(_data_tokens, data))


def _without_data(value: JSONValue, found: list[str]) -> JSONValue:
    """Return a value with "" in place of base64 texts, which are added to those found."""
    if isinstance(value, str):
        match = _DATA.fullmatch(value)
        if match is None:
            return value
        found.append(match[1])
        return ""
    if isinstance(value, Mapping):
        return {name: _without_data(member, found) for name, member in value.items()}
    if isinstance(value, list | tuple):
        return [_without_data(member, found) for member in value]
    return value


def _is_elsewhere(part: JSONObject) -> bool:
    """Return whether a document or a file is named by an address or an id alone."""
    for name in ("fileData", "s3Location"):
        if name in part:
            return True
    kind = part.get("type")
    if kind == "input_file":
        return "file_data" not in part
    named = part.get("document") or part.get("video") or part.get("audio")
    if isinstance(named, Mapping):
        inner = named.get("source")
        return isinstance(inner, Mapping) and "s3Location" in inner
    if kind not in ("document", "file"):
        return False
    inner = part.get("source") or part.get("file")
    return isinstance(inner, Mapping) and not {"data", "content", "file_data"} & inner.keys()


def _data_tokens(data: str) -> int:
    if data.startswith(_PDF):
        return _pages(data) * PAGE_TOKENS
    if data.startswith(_IMAGES):
        return IMAGE_TOKENS
    return sealed_tokens(data)


@memoized(32)
def _pages(data: str) -> int:
    """Return how many pages a PDF in base64 has, or may have."""
    try:
        pdf = a2b_base64(data)
    except ValueError:
        return 1 + len(data) // _PAGE_BYTES
    return len(_PAGE.findall(pdf)) or 1 + len(pdf) // _PAGE_BYTES
