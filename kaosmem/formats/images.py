"""The image addresses that providers accept: web addresses, and `data:` URLs of four common kinds."""

from __future__ import annotations

import re
from binascii import a2b_base64
from functools import lru_cache

from kaosmem.memos import register_memo

MEDIA_TYPES = ("image/jpeg", "image/png", "image/gif", "image/webp")
"""Source: Anthropic, "Vision", and OpenAI, "Images and vision": the same four."""

_ADDRESS = re.compile(r"https?://\S+", re.IGNORECASE)
_DATA_URL = re.compile(r"data:([^;,]+);base64,", re.IGNORECASE)


@lru_cache(maxsize=32)
def sendable_url(url: str) -> str | None:
    """Return an image's URL as a provider takes it: the URL itself if possible, None if no provider takes it."""
    match = _DATA_URL.match(url)
    if match is None:
        return url if _ADDRESS.fullmatch(url) else None
    media_type = match[1].lower().replace("image/jpg", "image/jpeg")
    data = "".join(url[match.end() :].split())
    if media_type not in MEDIA_TYPES or not _is_base64(data):
        return None
    sendable = f"data:{media_type};base64,{data}"
    return url if sendable == url else sendable


register_memo(sendable_url.cache_clear)


def media_type_of(url: str) -> str:
    """Return the media type that a `data:` URL names, "" for any other."""
    match = _DATA_URL.match(url)
    return match[1] if match else ""


def split_data_url(url: str) -> tuple[str, str] | None:
    """Return a `data:` URL's media type and base64 text; None for any other URL."""
    match = _DATA_URL.match(url)
    return (match[1], url[match.end() :]) if match else None


def _is_base64(data: str) -> bool:
    try:
        return bool(a2b_base64(data, strict_mode=True))
    except ValueError:
        return False
