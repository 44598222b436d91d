"""Filters on metadata.

A filter is a mapping. A field's name stands for a value that it must equal, or for conditions on it
that must all hold:

    {"source": "msa-2021.pdf"}
    {"source": {"$in": ["msa-2021.pdf", "sow-3.pdf"]}, "year": {"$gte": 2020, "$lt": 2024}}
    {"$or": [{"lang": "de"}, {"lang": {"$exists": False}}], "$not": {"draft": True}}
    {"tenant": "acme", "$if_present": {"source": "msa.pdf"}}

Conditions: $eq $ne $in $gt $gte $lt $lte $exists. A missing field meets only $ne and `$exists:
    False`.
A section or source shows nothing under a filter whose $ne or $not compares a field that none of its
items has, or that holds another type in all of them. $exists and $if_present name such a field on
purpose.
Numbers are compared with numbers, texts with texts (ISO 8601 dates order as texts); anything else
is not in order. A field that holds a list also meets $eq and $in by any of its members.
`$if_present` holds a filter for the items that have one of its fields. All other items pass it.
"""

from __future__ import annotations

import json
import operator
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Set
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple, TypeAlias

from kaosmem.arguments import is_number, json_text
from kaosmem.errors import InvalidArgumentError
from kaosmem.names import name_hint, nearest, shown, shown_name
from kaosmem.types import JSONDict, JSONObject, JSONValue

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


@dataclass(frozen=True)
class MetadataFilter:
    """A checked filter.

    Attributes:
        fields: The fields that decide.
        matches: Returns whether metadata pass.
        given: The original filter.
    """

    fields: frozenset[str]
    matches: Callable[[JSONObject], bool]
    given: Filter = field(default_factory=dict, repr=False, compare=False)

    def __call__(self, metadata: JSONObject) -> bool:
        return self.matches(metadata)

    @property
    def text(self) -> str:
        """Return the filter as a text: the same for the same filter, in any process."""
        return json.dumps(self.given, default=_set_text)

    def faults(self, metadata: JSONObject) -> str:
        """Return why metadata do not pass: names of fields and types of values.

        >>> parse_filter({"year": "2024", "tenant": "acme"}).faults({"year": 2024})
        "'year' is a number and the filter gives a text, the filter asks for 'tenant', which it lacks"
        """
        return ", ".join(dict.fromkeys(_faults(self.given, metadata)))

    def unanswered(self, entries: Iterable[JSONObject], known: Iterable[str] = ()) -> str:
        """Return why none of some entries can pass, "" if the filter fits some of them.

        Args:
            known: Names of fields that there are, to offer the nearest one.

        >>> parse_filter({"tennant": "acme"}).unanswered([{"tenant": "acme"}], ["tenant"])
        "none has the field 'tennant'; the nearest is 'tenant'"
        """
        given = _kinds_by_field(self._leaves)
        reasons = []
        for name, held in self._held(entries).items():
            if not held:
                close = nearest(name, sorted({*known} - self.fields))
                hint = "" if close is None else f"; the nearest is {shown(close)}"
                reasons.append(f"none has the field {shown(name)}{hint}")
            elif all(_is_other_kind(value, given[name]) for value in held):
                reasons.append(_other_kind(name, held[0], given[name]))
        return ", ".join(reasons)

    def _held(self, entries: Iterable[JSONObject]) -> dict[str, list[JSONValue]]:
        """Return the values that entries have in each field of the filter."""
        values: dict[str, list[JSONValue]] = {name: [] for name in sorted(self.fields)}
        for entry in entries:
            for name in values.keys() & entry.keys():
                values[name].append(entry[name])
        return values

    @cached_property
    def _leaves(self) -> list[_Leaf]:
        return list(_leaves(self.given))

    def narrowed(self, entries: Callable[[], Iterable[JSONObject]]) -> MetadataFilter:
        """Return the filter for some entries.

        Nothing passes it if a negation can't be compared with any of them.

        Args:
            entries: Returns the entries; it is called only if the filter negates something.

        >>> wanted = parse_filter({"tennant": {"$ne": "globex"}})
        >>> wanted({}), wanted.narrowed(lambda: [{"tenant": "globex"}])({})
        (True, False)
        """
        negated = [leaf for leaf in self._leaves if leaf.is_negated and leaf.kinds]
        if not negated:
            return self
        held = self._held(entries())
        on_purpose = {leaf.field for leaf in self._leaves if leaf.is_optional}
        for name, kinds in _kinds_by_field(negated).items():
            values = held[name]
            if not values and name not in on_purpose:
                return replace(self, matches=_refuse)
            if "null" in kinds:  # no value, whatever its kind would be
                continue
            if values and all(_is_other_kind(value, kinds) for value in values):
                return replace(self, matches=_refuse)
        return self

    @property
    def passes_nothing(self) -> bool:
        """Whether `narrowed` has found that a negation can't be compared with any entry."""
        return self.matches is _refuse


def parse_filter(given: Filter) -> MetadataFilter:
    """Return a filter that is checked and ready to use.

    Raises InvalidArgumentError, which names the fault.

    >>> recent = parse_filter({"year": {"$gte": 2020}})
    >>> recent.matches({"year": 2024}), recent.matches({"year": 2016})
    (True, False)
    """
    fields: set[str] = set()
    return MetadataFilter(matches=_all_of(given, fields, 0), fields=frozenset(fields), given=given)


_Test: TypeAlias = Callable[[JSONObject], bool]


def _all_of(
    given: object,
    fields: set[str],
    depth: int,
) -> _Test:
    if not isinstance(given, Mapping):
        raise InvalidArgumentError(
            f"a filter is a mapping such as {{'source': 'a.md'}}, not a {type(given).__name__}"
        )
    if depth > _MAX_DEPTH:
        raise InvalidArgumentError(
            f"a filter is nested deeper than {_MAX_DEPTH} levels; flatten it"
        )
    tests = [_test(name, wanted, fields, depth) for name, wanted in given.items()]
    return lambda metadata: all(test(metadata) for test in tests)


def _test(
    name: object,
    wanted: object,
    fields: set[str],
    depth: int,
) -> _Test:
    match name:
        case "$and" | "$or":
            parts = [_all_of(part, fields, depth + 1) for part in _listed(name, wanted)]
            combine = all if name == "$and" else any
            return lambda metadata: combine(part(metadata) for part in parts)
        case "$not":
            negated = _all_of(wanted, fields, depth + 1)
            return lambda metadata: not negated(metadata)
        case "$if_present":
            own: set[str] = set()
            narrowed = _all_of(wanted, own, depth + 1)
            fields |= own
            return lambda metadata: own.isdisjoint(metadata) or narrowed(metadata)
        case str() if not name.startswith("$"):
            fields.add(name)
            conditions = [_condition(name, key, value) for key, value in _conditions(wanted)]
            return lambda metadata: all(holds(metadata.get(name, _MISSING)) for holds in conditions)
    raise InvalidArgumentError(
        f"a filter has the key {shown_name(name)}; use a field's name, or $and, $or, $not, "
        "$if_present"
    )


def _conditions(wanted: object) -> Iterable[tuple[str, object]]:
    """Return the conditions on a field, given as a mapping or as the value that it must equal."""
    if not isinstance(wanted, Mapping):
        return (("$eq", wanted),)
    for key in wanted:
        if isinstance(key, str) and key.startswith("$"):
            return wanted.items()
    slips = [f"${key}" for key in wanted]
    if slips and set(slips) <= {*CONDITIONS}:
        raise InvalidArgumentError(
            f"a filter has the condition {slips[0][1:]!r}; did you mean {slips[0]!r}? An object with "
            "this key is given as {'$eq': ...}"
        )
    return (("$eq", wanted),)


def _condition(
    field: str,
    name: str,
    wanted: Any,
) -> Callable[[Any], bool]:
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
            raise InvalidArgumentError(
                f"$exists of {shown_name(field)} is a {type(wanted).__name__}; give True or False"
            )
        case "$gt" | "$gte" | "$lt" | "$lte":
            raise InvalidArgumentError(
                f"{name} of {shown_name(field)} is a {type(wanted).__name__}; give a number or a "
                "text"
            )
    raise InvalidArgumentError(
        f"{shown_name(field)} has the condition {shown_name(name)}; {name_hint(name, CONDITIONS)}"
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


def _set_text(value: object) -> object:
    """Return a value that JSON does not have as one that it has."""
    if isinstance(value, Set):
        return sorted(map(repr, value))
    return repr(value)


def _kind(value: object) -> str | None:
    if isinstance(value, str):
        return "text"
    if is_number(value):
        return "number"
    return None


def _faults(given: Filter, metadata: JSONObject) -> Iterator[str]:
    for name, wanted in given.items():
        fields: set[str] = set()
        if _test(name, wanted, fields, 0)(metadata):
            continue
        if name == "$and":
            for part in wanted:
                yield from _faults(part, metadata)
        elif name == "$if_present":
            yield from _faults(wanted, metadata)
        elif name in ("$or", "$not"):
            named = ", ".join(map(shown, sorted(fields)))
            yield f"the filter's {name} of {named or 'nothing'} refuses it"
        elif name not in metadata:
            yield f"the filter asks for {shown(name)}, which it lacks"
        else:
            kinds = _kinds_by_field(_leaves({name: wanted}))[name]
            is_other = _is_other_kind(metadata[name], kinds)
            if is_other:
                yield _other_kind(name, metadata[name], kinds)
            else:
                yield f"the filter asks for another value of {shown(name)}"


def _kinds_by_field(leaves: Iterable[_Leaf]) -> dict[str, set[str]]:
    """Return the kinds of the values that conditions compare with each field."""
    kinds: dict[str, set[str]] = {}
    for leaf in leaves:
        kinds.setdefault(leaf.field, set()).update(leaf.kinds)
    return kinds


class _Leaf(NamedTuple):
    """One condition of a filter.

    Attributes:
        kinds: The kinds of the values that the field is compared with.
        is_negated: It is `$ne`, or stands in a `$not`.
        is_optional: The field need not be there: the condition is `$exists` or in `$if_present`.
    """

    field: str
    kinds: Collection[str]
    is_negated: bool
    is_optional: bool


def _leaves(
    given: Filter,
    *,
    is_negated: bool = False,
    is_optional: bool = False,
) -> Iterator[_Leaf]:
    """Yield the conditions of a checked filter."""
    for name, wanted in given.items():
        if name in ("$and", "$or"):
            for part in wanted:
                yield from _leaves(part, is_negated=is_negated, is_optional=is_optional)
        elif name == "$not":
            yield from _leaves(wanted, is_negated=True, is_optional=is_optional)
        elif name == "$if_present":
            yield from _leaves(wanted, is_negated=is_negated, is_optional=True)
        else:
            for condition, value in _conditions(wanted):
                yield _Leaf(
                    name,
                    _kinds_in(condition, value),
                    is_negated or condition == "$ne",
                    is_optional or condition == "$exists",
                )


def _kinds_in(condition: str, value: Any) -> set[str]:
    """Return the kinds of the values that a condition compares with a field."""
    if condition == "$exists":
        return set()
    if condition == "$in":
        return set(map(_json_kind, value))
    return {_json_kind(value)}


def _refuse(_: JSONObject) -> bool:
    return False


def _json_kind(value: object) -> str:
    """Return the kind of a JSON value with its article."""
    if isinstance(value, bool):
        return "a boolean"
    if isinstance(value, list | tuple):
        return "a list"
    if value is None:
        return "null"
    kind = _kind(value)
    if kind is None:
        return "an object"
    return f"a {kind}"


def _is_other_kind(value: JSONValue, kinds: Collection[str]) -> bool:
    """Return whether neither a value nor a member of it is of a kind that a filter gives."""
    own = {_json_kind(value)}
    if isinstance(value, list):
        own.update(map(_json_kind, value))
    return bool(kinds) and own.isdisjoint(kinds)


def _other_kind(
    name: str,
    value: JSONValue,
    kinds: Collection[str],
) -> str:
    return f"{shown(name)} is {_json_kind(value)} and the filter gives {' or '.join(sorted(kinds))}"


class Grouping:
    """Ordinals of entries, grouped by the values of some fields.

    A filter is asked once for a group, not once for an entry.

    Args:
        fields: The fields that the filters name.
    """

    def __init__(self, fields: Iterable[str]) -> None:
        self._fields = sorted(fields)
        # Ordinals by the JSON text of the fields that an entry has.
        self._members: dict[str, set[int]] = {}
        self._values: dict[str, JSONDict] = {}
        self._group_of: dict[int, str] = {}

    def put(self, ordinal: int, metadata: JSONObject) -> None:
        """Enter an entry, or give it other metadata."""
        self.remove(ordinal)
        values = {field: metadata[field] for field in self._fields if field in metadata}
        group = json_text(values)
        self._values[group] = values
        self._members.setdefault(group, set()).add(ordinal)
        self._group_of[ordinal] = group

    def remove(self, ordinal: int) -> None:
        """Take an entry out, if it is there."""
        group = self._group_of.pop(ordinal, None)
        if group is None:
            return
        self._members[group].discard(ordinal)
        if not self._members[group]:
            del self._members[group], self._values[group]

    @property
    def is_complete(self) -> bool:
        """Return whether each of the fields is one of some entry."""
        return set().union(*self._values.values()).issuperset(self._fields)

    @property
    def values(self) -> Collection[JSONObject]:
        """Return the values of the fields, once for each group."""
        return self._values.values()

    def passing(self, wanted: MetadataFilter) -> set[int]:
        """Return the ordinals of the entries that pass a filter."""
        found = (members for group, members in self._members.items() if wanted(self._values[group]))
        return set().union(*found)
