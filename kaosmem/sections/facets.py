"""Items by the values of the metadata fields that filters ask for."""

from __future__ import annotations

from collections.abc import Iterable

from kaosmem.filters import MetadataFilter
from kaosmem.types import Item, JSONValue, json_text


class Facets:
    """Groups items by their values of some fields: a filter is asked once a group, not once an item.

    A grouping is made when a filter first asks for its fields, then told of every change.
    """

    def __init__(self) -> None:
        self._groupings: dict[frozenset[str], _Grouping] = {}

    def passing(self, wanted: MetadataFilter, items: Iterable[tuple[int, Item]]) -> set[int] | None:
        """Return the ordinals of the items that pass a filter; None where no item has any of its fields.

        items: all of them, by ordinal.
        """
        grouping = self._groupings.get(wanted.fields)
        if grouping is None:
            grouping = self._groupings[wanted.fields] = _Grouping(wanted.fields)
            for ordinal, item in items:
                grouping.add(ordinal, item.metadata)
        return grouping.passing(wanted)

    def put(self, ordinal: int, item: Item) -> None:
        """Note an item that is new or takes the place of another."""
        for grouping in self._groupings.values():
            grouping.remove(ordinal)
            grouping.add(ordinal, item.metadata)

    def remove(self, ordinal: int) -> None:
        """Note that an item is gone."""
        for grouping in self._groupings.values():
            grouping.remove(ordinal)

    def purge(self) -> None:
        """Drop the groupings by a field that no item has any more."""
        self._groupings = {fields: each for fields, each in self._groupings.items() if each.fields_of_items >= fields}


class _Grouping:
    def __init__(self, fields: frozenset[str]) -> None:
        self._fields = sorted(fields)
        self._members: dict[str, set[int]] = {}  # JSON text of the fields that an item has -> ordinals
        self._values: dict[str, dict[str, JSONValue]] = {}
        self._group_of: dict[int, str] = {}

    def add(self, ordinal: int, metadata: JSONValue) -> None:
        values = {field: metadata[field] for field in self._fields if field in metadata}
        group = json_text(values)
        self._values[group] = values
        self._members.setdefault(group, set()).add(ordinal)
        self._group_of[ordinal] = group

    def remove(self, ordinal: int) -> None:
        if (group := self._group_of.pop(ordinal, None)) is None:
            return
        self._members[group].discard(ordinal)
        if not self._members[group]:
            del self._members[group], self._values[group]

    @property
    def fields_of_items(self) -> set[str]:
        return set().union(*self._values.values())

    def passing(self, wanted: MetadataFilter) -> set[int] | None:
        if not any(self._values.values()):
            return None
        found = (members for group, members in self._members.items() if wanted(self._values[group]))
        return set().union(*found)
