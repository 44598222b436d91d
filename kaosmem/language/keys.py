"""The words of a key: what the item is about, said in its key alone."""

from __future__ import annotations

import re

_PART = re.compile(r"[^\W_]+")
_PATH = re.compile(r"#|[/\\].*\.\w{1,5}$")
_LETTER, _DIGIT = re.compile(r"[^\W\d_]"), re.compile(r"\d")
_MIXED_CHARS = 6
"""A part of letters and digits that is as long is taken for a hash, and the key for one that a machine made."""
_NUMBER_DIGITS = 3
"""A shorter number counts items, as in `note-7`. It would match any 7 of a question."""
_PARTS = 8


def key_words(key: str) -> str:
    """Return the words of a key, "" for a key that a machine made: a path, a hash, a UUID.

    >>> key_words("home_address"), key_words("order-4711"), key_words("note-7")
    ('home address', 'order 4711', 'note')
    >>> key_words("docs/a.py#12"), key_words("550e8400-e29b-41d4-a716-446655440000")
    ('', '')
    """
    parts = _PART.findall(key)
    if _PATH.search(key) or len(parts) > _PARTS:
        return ""
    words = []
    for part in parts:
        is_mixed = _LETTER.search(part) and _DIGIT.search(part)
        if is_mixed and len(part) >= _MIXED_CHARS:
            return ""
        if not part.isdigit() or len(part) >= _NUMBER_DIGITS:
            words.append(part)
    return " ".join(words)
