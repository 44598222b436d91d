"""Filters on metadata.

A filter is a mapping. A field's name stands for a value that it must equal, or for conditions on it that must all hold:

    {"source": "msa-2021.pdf"}
    {"source": {"$in": ["msa-2021.pdf", "sow-3.pdf"]}, "year": {"$gte": 2020, "$lt": 2024}}
    {"$or": [{"lang": "de"}, {"lang": {"$exists": False}}], "$not": {"draft": True}}

Conditions: $eq $ne $in $gt $gte $lt $lte $exists. A missing field meets only $ne and `$exists: False`.
Numbers are compared with numbers, texts with texts (ISO 8601 dates order as texts); anything else is not in order.
A field that holds a list also meets $eq and $in by any of its members.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from kaosmem.errors import InvalidArgumentError
from kaosmem.names import shown, shown_name
from kaosmem.types import JSONValue, json_text

Filter: TypeAlias = Mapping[str, Any]

_MISSING = object()
_ORDERS: dict[str, Callable[[Any, Any], bool]] = {
    "$gt": operator.gt,
    "$gte": operator.ge,
    "$lt": operator.lt,
    "$lte": operator.le,
}
CONDITIONS = ("$eq", "$ne", "$in", *_ORDERS, "$exists")
_MAX_DEPTH = 32


@dataclass(frozen=True, slots=True)
class MetadataFilter:
    """A checked filter.

    fields: the fields that decide. matches: returns whether metadata pass. given: the original filter.
    """

    fields: frozenset[str]
    matches: Callable[[Mapping[str, JSONValue]], bool]
    given: Filter = field(default_factory=dict, repr=False, compare=False)

    def __call__(self, metadata: Mapping[str, JSONValue]) -> bool:
        return self.matches(metadata)


def parse_filter(given: Filter) -> MetadataFilter:
    """Return a filter that is checked and ready to use. Raises InvalidArgumentError, which names the fault.

    >>> recent = parse_filter({"year": {"$gte": 2020}})
    >>> recent.matches({"year": 2024}), recent.matches({"year": 2016})
    (True, False)
    """
    fields: set[str] = set()
    return MetadataFilter(matches=_all_of(given, fields, 0), fields=frozenset(fields), given=given)


_Test: TypeAlias = Callable[[Mapping[str, JSONValue]], bool]


def _all_of(given: object, fields: set[str], depth: int) -> _Test:
    if not isinstance(given, Mapping):
        raise InvalidArgumentError(f"a filter is a mapping such as {{'source': 'a.md'}}, not a {type(given).__name__}")
    if depth > _MAX_DEPTH:
        raise InvalidArgumentError(f"a filter is nested deeper than {_MAX_DEPTH} levels; flatten it")
    tests = [_test(name, wanted, fields, depth) for name, wanted in given.items()]
    return lambda metadata: all(test(metadata) for test in tests)


def _test(name: object, wanted: object, fields: set[str], depth: int) -> _Test:
    match name:
        case "$and" | "$or":
            parts = [_all_of(part, fields, depth + 1) for part in _listed(name, wanted)]
            combine = all if name == "$and" else any
            return lambda metadata: combine(part(metadata) for part in parts)
        case "$not":
            negated = _all_of(wanted, fields, depth + 1)
            return lambda metadata: not negated(metadata)
        case str() if not name.startswith("$"):
            fields.add(name)
            conditions = [_condition(name, key, value) for key, value in _conditions(wanted)]
            return lambda metadata: all(holds(metadata.get(name, _MISSING)) for holds in conditions)
    raise InvalidArgumentError(f"a filter has the key {shown_name(name)}; use a field's name, or $and, $or, $not")


def _conditions(wanted: object) -> Iterable[tuple[str, object]]:
    """Return the conditions on a field: a mapping of conditions, or one value that it must equal."""
    if isinstance(wanted, Mapping) and any(isinstance(key, str) and key.startswith("$") for key in wanted):
        return wanted.items()
    return (("$eq", wanted),)


def _condition(field: str, name: str, wanted: Any) -> Callable[[Any], bool]:
    match name:
        case "$eq":
            return lambda value: _equals(value, wanted)
        case "$ne":
            return lambda value: not _equals(value, wanted)
        case "$in":
            options = list(_listed(name, wanted))
            return lambda value: any(_equals(value, option) for option in options)
        case "$exists" if isinstance(wanted, bool):
            return lambda value: (value is not _MISSING) == wanted
        case "$gt" | "$gte" | "$lt" | "$lte" if _kind(wanted) is not None:
            in_order = _ORDERS[name]
            return lambda value: _kind(value) == _kind(wanted) and in_order(value, wanted)
        case "$exists":
            raise InvalidArgumentError(f"$exists of {shown(field)} is a {type(wanted).__name__}; give True or False")
        case "$gt" | "$gte" | "$lt" | "$lte":
            raise InvalidArgumentError(
                f"{name} of {shown(field)} is a {type(wanted).__name__}; give a number or a text"
            )
    raise InvalidArgumentError(
        f"{shown(field)} has the condition {shown_name(name)}; use one of {', '.join(CONDITIONS)}"
    )


def _listed(name: str, wanted: object) -> Iterable[object]:
    if isinstance(wanted, str | Mapping) or not isinstance(wanted, Iterable):
        raise InvalidArgumentError(f"{name} takes a list, not a {type(wanted).__name__}")
    return wanted


def _equals(value: Any, wanted: Any) -> bool:
    if value is _MISSING:
        return False
    if isinstance(value, list) and not isinstance(wanted, list):
        return any(_equals(member, wanted) for member in value)
    # True is 1 to Python, and not to those who wrote the metadata.
    return isinstance(value, bool) == isinstance(wanted, bool) and bool(value == wanted)


def _kind(value: object) -> str | None:
    if isinstance(value, str):
        return "text"
    return "number" if isinstance(value, int | float) and not isinstance(value, bool) else None


class Grouping:
    """Ordinals of entries, grouped by the values of some fields: a filter is asked once a group, not once an entry.

    fields: the fields that the filters name.
    """

    def __init__(self, fields: Iterable[str]) -> None:
        self._fields = sorted(fields)
        self._members: dict[str, set[int]] = {}  # JSON text of the fields that an entry has -> ordinals
        self._values: dict[str, dict[str, JSONValue]] = {}
        self._group_of: dict[int, str] = {}

    def put(self, ordinal: int, metadata: Mapping[str, JSONValue]) -> None:
        """Enter an entry, or give it other metadata."""
        self.remove(ordinal)
        values = {field: metadata[field] for field in self._fields if field in metadata}
        group = json_text(values)
        self._values[group] = values
        self._members.setdefault(group, set()).add(ordinal)
        self._group_of[ordinal] = group

    def remove(self, ordinal: int) -> None:
        """Take an entry out, if it is there."""
        if (group := self._group_of.pop(ordinal, None)) is None:
            return
        self._members[group].discard(ordinal)
        if not self._members[group]:
            del self._members[group], self._values[group]

    @property
    def is_complete(self) -> bool:
        """Return whether each of the fields is one of some entry."""
        return set().union(*self._values.values()).issuperset(self._fields)

    def passing(self, wanted: MetadataFilter) -> set[int] | None:
        """Return the ordinals of the entries that pass a filter; None where no entry has any of the fields."""
        if not any(self._values.values()):
            return None
        found = (members for group, members in self._members.items() if wanted(self._values[group]))
        return set().union(*found)
