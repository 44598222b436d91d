"""Checks of arguments: numbers, times, instances, lists, texts, and values that JSON holds."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, date, datetime, timezone
from hashlib import blake2b
from typing import Any, NoReturn, TypeAlias, TypeVar

from kaosmem.errors import InvalidArgumentError
from kaosmem.names import shown_number

T = TypeVar("T")

Clock: TypeAlias = Callable[[], datetime]
"""Gives the time, as a datetime with a zone."""


def is_number(value: object) -> bool:
    """Return whether a value is an int or a float. True and False are none."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def check_flag(given: object, name: str) -> bool:
    """Return True or False. Raises InvalidArgumentError for anything else."""
    if isinstance(given, bool):
        return given
    raise InvalidArgumentError(f"{name} is {shown_number(given)}; give True or False")


def check_count(
    given: object,
    name: str,
    *,
    least: int = 0,
) -> int:
    """Return a whole number from `least` up. Raises InvalidArgumentError."""
    if type(given) is int and given >= least:
        return given
    raise InvalidArgumentError(
        f"{name} is {shown_number(given)}; give a whole number from {least} up"
    )


def check_share(given: Any, name: str) -> float:
    """Return a number from 0 to 1. Raises InvalidArgumentError."""
    if is_number(given) and 0 <= given <= 1:
        return float(given)
    raise InvalidArgumentError(f"{name} is {shown_number(given)}; give a number from 0 to 1")


def check_ttl(given: Any, name: str = "ttl") -> float:
    """Return a time in seconds.

    Raises InvalidArgumentError for one that is not above 0 and finite.
    """
    if is_number(given) and 0 < given < math.inf:
        return float(given)
    raise InvalidArgumentError(f"{name} is {shown_number(given)}; give seconds, a number above 0")


def utc_now() -> datetime:
    """Return the computer's time, in UTC."""
    return datetime.now(UTC)


def check_clock(clock: Clock | None) -> Clock:
    """Return a clock that raises InvalidArgumentError for a time without a zone.

    The given clock is read once at once. None is the computer's clock.

    Each time is a plain datetime with a fixed offset, as a log can hold it, whatever class the
    given clock returns.

    >>> from zoneinfo import ZoneInfo
    >>> check_clock(lambda: datetime(2024, 6, 1, tzinfo=ZoneInfo("Europe/Berlin")))().isoformat()
    '2024-06-01T00:00:00+02:00'
    >>> check_clock(datetime.now)
    Traceback (most recent call last):
    kaosmem.errors.InvalidArgumentError: clock gives a time without a zone; use lambda: ...
    """
    if clock is None:
        return utc_now
    if not callable(clock):
        raise InvalidArgumentError(
            f"clock is a {type(clock).__name__}; use lambda: datetime.now(UTC)"
        )

    def checked() -> datetime:
        time = clock()
        if not isinstance(time, datetime):
            raise InvalidArgumentError(
                f"clock gives a {type(time).__name__}; use lambda: datetime.now(UTC)"
            )
        offset = time.utcoffset()
        if offset is None:
            raise InvalidArgumentError(
                "clock gives a time without a zone; use lambda: datetime.now(UTC)"
            )
        fixed = timezone(offset)
        if type(time) is datetime and (time.tzinfo is UTC or time.tzinfo == fixed):
            return time
        return datetime.combine(date(time.year, time.month, time.day), datetime.time(time), fixed)

    checked()
    return checked


def check_time(given: object, name: str) -> datetime:
    """Return a time with a zone, from a datetime, a date or a text in ISO 8601.

    Raises InvalidArgumentError.

    A time without a zone is in UTC; a day means its first moment.

    >>> check_time("2024-06-01", "as_of").isoformat()
    '2024-06-01T00:00:00+00:00'
    """
    if isinstance(given, date) and not isinstance(given, datetime):
        given = given.isoformat()
    try:
        time = datetime.fromisoformat(given) if isinstance(given, str) else given
    except ValueError:
        time = None
    if not isinstance(time, datetime):
        raise InvalidArgumentError(
            f"{name} is {shown_number(given)}; give a datetime, or a text in ISO 8601"
        )
    if time.utcoffset() is not None:
        return time
    return time.replace(tzinfo=UTC)


def check_instance(
    given: T,
    kind: type,
    name: str,
) -> T:
    """Return an instance of a class or of a runtime-checkable Protocol.

    Raises InvalidArgumentError otherwise.
    """
    if isinstance(given, type):  # a class has the methods of its instances
        raise InvalidArgumentError(f"{name} is the class {given.__name__}; give an instance of it")
    if not isinstance(given, kind):
        raise InvalidArgumentError(
            f"{name} is a {type(given).__name__}; give a {kind.__name__} with all its members"
        )
    return given


def check_collection(given: Iterable[T], name: str) -> Iterable[T]:
    """Return several things, not one: a text or a mapping, though iterable, is one.

    Raises InvalidArgumentError.
    """
    if isinstance(given, list | tuple):  # an abstract class takes ten times as long to ask
        return given
    if isinstance(given, Iterable) and not isinstance(given, str | bytes | Mapping):
        return given
    raise InvalidArgumentError(f"{name} is a {type(given).__name__}; give a list, such as [value]")


def check_list_of(
    given: Iterable[T],
    kind: type[T],
    name: str,
) -> list[T]:
    """Return several things, all of one class, as a list. Raises InvalidArgumentError."""
    listed = list(check_collection(given, name))
    for each in listed:
        if not isinstance(each, kind):
            raise InvalidArgumentError(
                f"{name} hold a {type(each).__name__}; give a list of {kind.__name__}"
            )
    return listed


JSONValue: TypeAlias = Any
"""None, bool, int within 64 bits, finite float, str, or a list or str-keyed mapping of these."""
JSONObject: TypeAlias = Mapping[str, JSONValue]
"""A JSON object that is read."""
JSONDict: TypeAlias = dict[str, JSONValue]
"""A JSON object that is made."""

MAX_JSON_DEPTH = 64
_SCALARS = str, bytes, bytearray
MAX_INTEGER = 2**63 - 1
MAX_JSON_VALUES = 2**22
MAX_JSON_CONTAINERS = 400_000


def check_text(text: str, what: str) -> str:
    """Return `text` if UTF-8 can hold it.

    Raises InvalidArgumentError that names the first lone surrogate.
    """
    if not isinstance(text, str):
        raise InvalidArgumentError(f"{what} is a {type(text).__name__}; give a str")
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise InvalidArgumentError(
                f"{what} has a lone surrogate {text[error.start]!a} at position {error.start}, "
                "which UTF-8 cannot "
                "hold; decode the text with errors='replace', or repair it with "
                "text.encode('utf-16', 'surrogatepass').decode('utf-16', 'replace')"
            ) from None
    return text


def is_integer(value: object) -> bool:
    """Return whether a value is an int that a log can hold."""
    return type(value) is int and -MAX_INTEGER - 1 <= value <= MAX_INTEGER


def check_metadata(metadata: JSONObject | None, what: str = "metadata") -> JSONDict:
    """Return a copy of metadata that JSON holds exactly. Raises InvalidArgumentError."""
    if metadata is None:
        return {}
    if not isinstance(metadata, Mapping):
        raise InvalidArgumentError(
            f"{what} is a {type(metadata).__name__}; give a mapping with str keys"
        )
    copy: JSONDict = check_json(metadata, what)
    return copy


def check_json(value: JSONValue, what: str) -> JSONValue:
    """Return a copy of a value that JSON holds exactly, as plain values.

    Raises InvalidArgumentError, which shows no content. A list or mapping that stands in several
    places counts, and is copied, once for each.
    """
    text = checked_json_text(value, what)
    try:
        return STRICT_JSON.decode(text)
    except ValueError as error:
        raise InvalidArgumentError(f"{what}: {error}; store it as text") from None


def checked_json_text(value: JSONValue, what: str) -> str:
    """Return the JSON text of a value. Raises InvalidArgumentError, which shows no content."""
    _check_shape(value, what)
    try:
        text = _any_encoder.encode(value)
        text.encode()
    except (TypeError, ValueError) as error:
        raise InvalidArgumentError(
            f"{what} is nothing that JSON can hold: {error}; convert it first"
        ) from None
    return text


def _check_shape(value: JSONValue, what: str) -> None:
    """Raise InvalidArgumentError for more than can be stored, before it is copied.

    Shared parts count each time.
    """
    containers = values = depth = 0
    level = _containers((value,))
    while level:
        depth += 1
        containers += len(level)
        values += sum(map(len, level))
        if depth > MAX_JSON_DEPTH:
            raise InvalidArgumentError(
                f"{what} is nested deeper than {MAX_JSON_DEPTH} levels; flatten it"
            )
        if containers > MAX_JSON_CONTAINERS or values > MAX_JSON_VALUES:
            raise InvalidArgumentError(
                f"{what} has more than {MAX_JSON_CONTAINERS:,} objects and lists or "
                f"{MAX_JSON_VALUES:,} values, shared ones counted each time; split it"
            )
        members: list[JSONValue] = []
        for each in level:
            if isinstance(each, Mapping):
                for key in each:
                    if not isinstance(key, str):
                        raise InvalidArgumentError(f"{what} has a key that is no str; convert it")
                members += each.values()
            else:
                members += each
        level = _containers(members)


def _containers(values: Iterable[JSONValue]) -> list[JSONValue]:
    return [
        each
        for each in values
        if isinstance(each, Mapping | Sequence) and not isinstance(each, _SCALARS)
    ]


def json_text(value: JSONValue) -> str:
    """Return strict, compact JSON text: no NaN, characters as they are."""
    return _encoder.encode(value)


def text_digest(text: str) -> str:
    """Return a short digest of a text."""
    return blake2b(text.encode(), digest_size=8).hexdigest()


def _plain(value: object) -> object:
    """Return a mapping or a sequence of another class as one that JSON knows."""
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, Sequence) and not isinstance(value, _SCALARS):
        return list(value)
    raise TypeError(f"a {type(value).__name__}")


_encoder = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"))
_any_encoder = json.JSONEncoder(
    ensure_ascii=False, allow_nan=False, check_circular=False, separators=(",", ":"), default=_plain
)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) != len(pairs):
        raise ValueError("an object has a key twice")
    return value


def _integer(digits: str) -> int:
    if len(digits) < 19 or (len(digits) <= 20 and -(2**63) <= int(digits) < 2**63):
        return int(digits)
    raise ValueError("an integer is beyond 64 bits")


def _float(digits: str) -> float:
    value = float(digits)
    if math.isfinite(value):
        return value
    raise ValueError("a number is too large")


def _constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a number")


STRICT_JSON = json.JSONDecoder(
    object_pairs_hook=_object, parse_int=_integer, parse_float=_float, parse_constant=_constant
)
"""Reads stored JSON.

It raises ValueError for a key that an object has twice, and for numbers that no log holds.
"""
