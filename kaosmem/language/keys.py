"""The words of a key: what the item is about, said in its key alone."""

from __future__ import annotations

import re

_PART = re.compile(r"[^\W_]+")
_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)
_SUFFIXES = (
    "adoc c cc cfg conf cpp cs css csv docx eml epub go h hpp htm html ini ipynb java js json jsonl jsx kt log md mjs "
    "odt org pdf php pl png pptx ps1 py r rb rs rst scala sh sql svg swift tex toml ts tsx txt xlsx xml yaml yml"
)
_FILE = re.compile(rf"\.(?:{'|'.join(_SUFFIXES.split())})$", re.IGNORECASE)
_PASSAGE = re.compile(r"#\d+$")
"""The number of a passage within its file, as `ingest` gives it."""
_LETTER, _DIGIT = re.compile(r"[^\W\d_]"), re.compile(r"\d")
_HEX = re.compile(r"[0-9a-f]{8,}", re.IGNORECASE)
_WORD_AND_NUMBER = re.compile(r"[^\W\d_]+\d+")
_MIXED_CHARS = 10
"""A part as long in which letters and digits alternate is taken for a hash."""
_NUMBER_DIGITS = 3
"""A shorter number counts items, as in `note-7`. It would match any 7 of a question."""
_PARTS = 8


def key_words(key: str) -> str:
    """Return the words of the first eight parts of a key.

    Hashes, UUIDs and short numbers are left out, and a path or the number of a passage has no words
    at all: they would match by accident.

    >>> key_words("home_address"), key_words("order-4711"), key_words("note-7")
    ('home address', 'order 4711', 'note')
    >>> key_words("user:a1b2c3d4:address"), key_words("docs/a.py#12"), key_words("iphone15")
    ('user address', '', 'iphone15')
    """
    if _PASSAGE.search(key) or _FILE.search(key):
        return ""
    parts = _PART.findall(_UUID.sub(" ", key))[:_PARTS]
    return " ".join(part for part in parts if _is_word(part))


def _is_word(part: str) -> bool:
    """Return whether a part of a key has a meaning: a word, with a number, or a long number."""
    if part.isdigit():
        return len(part) >= _NUMBER_DIGITS
    if not (_LETTER.search(part) and _DIGIT.search(part)):
        return True
    if _HEX.fullmatch(part):
        return False
    return len(part) < _MIXED_CHARS or _WORD_AND_NUMBER.fullmatch(part) is not None
