"""Valid names and ids, and their form on disk."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterable
from contextlib import suppress
from difflib import get_close_matches

from kaosmem.errors import InvalidNameError

MAX_NAME_CHARS = 128
MAX_ID_CHARS = 256

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@:+-]*", re.ASCII)
_MADE = re.compile(r".*\+[0-9a-f]{16}", re.DOTALL)
_NOT_IN_NAME = re.compile(r"[^A-Za-z0-9._@:+-]+", re.ASCII)
_NOT_IN_ID = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff]")
_SHORT_NUMBER = re.compile(r"[+-]?[0-9][0-9.,_]{0,11}", re.ASCII)
_QUERY = re.compile(r"[?#]")
_MARKED = re.compile("%([0-9a-f]{1,32})%")
_WINDOWS_DEVICE = re.compile(r"(con|prn|aux|nul|com[0-9]|lpt[0-9])(\.|$)", re.IGNORECASE)


def check_name(name: object, kind: str) -> str:
    """Return `name` if it may name a session, namespace or section.

    Raises InvalidNameError for anything but 1 to 128 of `A-Z a-z 0-9 . _ - @ : +`, beginning with a
    letter or digit, without `..`.

    Args:
        kind: Kind of the named object, for the message.
    """
    if (
        isinstance(name, str)
        and len(name) <= MAX_NAME_CHARS
        and _NAME.fullmatch(name)
        and ".." not in name
    ):
        return name
    raise InvalidNameError(
        f"{kind} {shown(name)} is not valid: use 1 to {MAX_NAME_CHARS} letters, digits and . _ - @ "
        ": +, "
        "beginning with a letter or digit, without '..'; safe_id() makes a valid one of any text"
    )


def check_id(given: object, kind: str) -> str:
    """Return `given` if it may be an id: 1 to 256 characters, none a control or lone surrogate.

    Raises InvalidNameError.

    Args:
        kind: Kind of the object with this id, for the message.
    """
    if isinstance(given, str) and 1 <= len(given) <= MAX_ID_CHARS and not _NOT_IN_ID.search(given):
        return given
    raise InvalidNameError(
        f"{kind} {shown_name(given)} is not valid: use 1 to {MAX_ID_CHARS} characters "
        "without control characters or lone surrogates"
    )


def check_item_id(item_id: object) -> str:
    """Return `item_id` if it may name an item. Raises as `check_id`."""
    if isinstance(getattr(item_id, "id", None), str):
        raise InvalidNameError(f"a {type(item_id).__name__} stands for an item's id; give its .id")
    return check_id(item_id, "item id")


def safe_id(text: str) -> str:
    """Return a valid name made of `text`; different texts give different names.

    A valid text is returned as it is; any other keeps its valid characters and ends in `+` and 16
    hexadecimal digits of its SHA-256. A text with such an end gets another one, so that nobody can
    choose the name of somebody else: give this function no name that it made. Raises
    InvalidNameError for a value that is no text, and for a blank one: it would give everybody
    without a name the same sessions.

    >>> safe_id("deal-42")
    'deal-42'
    >>> safe_id("Ann's room / 7")
    'Ann-s-room-7+2c1429f84a1a431c'
    """
    if not isinstance(text, str):
        raise InvalidNameError(f"a {type(text).__name__} can't be made an id; give a str")
    if not text.strip():
        raise InvalidNameError(
            "a blank text can't be made an id: all who have no name would share it; refuse the "
            "request, or give each of them an id of its own"
        )
    if not _MADE.fullmatch(text):
        with suppress(InvalidNameError):
            return check_name(text, "id")
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]
    kept = re.sub(r"\.{2,}", ".", _NOT_IN_NAME.sub("-", text)).strip("._-@:+")[
        : MAX_NAME_CHARS - 18
    ]
    return f"{kept or 'id'}+{digest}"


def nearest(name: object, names: Iterable[str]) -> str | None:
    """Return the name that a misspelt one is most like, None if it is like none."""
    if not isinstance(name, str) or len(name) > MAX_NAME_CHARS:
        return None
    close = get_close_matches(name.lower(), names, n=1)
    if close:
        return close[0]
    return None


def name_hint(name: object, names: Iterable[str]) -> str:
    """Return the remedy for a name that is not among the valid ones.

    >>> name_hint("finding", ["role", "findings"])
    "did you mean 'findings'? use one of role, findings"
    >>> name_hint("deals", ["role", "findings"])
    'use one of role, findings'
    """
    valid = list(names)
    listed = f"use one of {', '.join(valid)}"
    close = nearest(name, valid)
    if close is None:
        return listed
    return f"did you mean '{close}'? {listed}"


def path_of(name: str) -> str:
    """Return the path segment of a valid name: no two names share one, on any filesystem.

    Lower case with `:` as `=` and a final `.` as `~`; where letters were upper case, or Windows
    reserves the name, `%<mask of upper-case positions, hexadecimal>%` stands before it.
    """
    mask = 0
    for position, char in enumerate(name):
        if char.isupper():
            mask += 1 << position
    segment = name.lower().replace(":", "=")
    if segment.endswith("."):
        segment = segment[:-1] + "~"
    if mask or _WINDOWS_DEVICE.match(name):
        return f"%{mask:x}%{segment}"
    return segment


def name_of(segment: str) -> str | None:
    """Return the name whose `path_of` is this path segment, or None for a foreign one."""
    marked = _MARKED.match(segment)
    mask = int(marked[1], 16) if marked else 0
    lower = segment[marked.end() :] if marked else segment
    chars = list(re.sub(r"~$", ".", lower).replace("=", ":"))
    for position, char in enumerate(chars):
        if mask >> position & 1:
            chars[position] = char.upper()
    name = "".join(chars)
    try:
        if path_of(check_name(name, "name")) == segment:
            return name
        return None
    except InvalidNameError:
        return None


def shown_name(name: object) -> str:
    """Return a name for messages.

    Of a text that can be no name, return its length. Other values are as `shown_number` has them.
    """
    if not isinstance(name, str):
        return shown_number(name)
    if not name or _NAME.fullmatch(name.removeprefix("$")):
        return shown(name)
    return f"<str of {len(name):,} characters>"


def shown_number(number: object) -> str:
    """Return a number, True, False, None, or the text of a short number for messages.

    Of any other value, return its type: it may hold content.

    >>> shown_number("2000"), shown_number("Ann owns it.")
    ("'2000'", '<str>')
    """
    is_number = number is None or isinstance(number, int | float)
    if is_number or (isinstance(number, str) and _SHORT_NUMBER.fullmatch(number)):
        return shown(number)
    return f"<{type(number).__name__}>"


def shown_location(location: object) -> str:
    """Return a location in 80 characters: a URL without credentials, or a filesystem's type.

    A longer location keeps its beginning and its end, which names it.
    """
    if not isinstance(location, str | os.PathLike):
        return f"<{type(location).__name__}>"
    path = str(location)
    scheme, separator, rest = path.rpartition("://")
    if not separator:
        return _ends(path)
    rest = rest.rpartition("@")[2]
    return _ends(f"{scheme.rpartition('@')[2]}://{_QUERY.split(rest)[0]}")


def _ends(path: str) -> str:
    text = repr(path)
    if len(text) <= 80:
        return text
    return f"{text[:30]}...{text[-47:]}"


def shown(value: object) -> str:
    """Return `repr(value)` cut to 80 characters, for messages: of names, never of content."""
    if isinstance(value, str):
        value = value[:100]
    text = repr(value)
    if len(text) <= 80:
        return text
    return text[:77] + "..."
