"""The sections of a damaged session: each intact change is repeated as far as the items that it names are there."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from kaosmem.errors import CorruptionError, InvalidArgumentError, UnsupportedVersionError
from kaosmem.names import shown_name
from kaosmem.persistence import FORMAT_VERSION, Record, Recovered, decoded_entries
from kaosmem.persistence.files.items import Stored
from kaosmem.persistence.salvage import LOST
from kaosmem.retrieval import Ranker
from kaosmem.sections import DEFAULT_SECTIONS, Archived, Section, SectionSpec, Substitution
from kaosmem.sections.archive import parse_time
from kaosmem.sections.operations import (
    Add,
    Compact,
    Describe,
    Evict,
    Expand,
    Operation,
    Remove,
    SectionOperation,
    Turn,
    Update,
    Use,
)
from kaosmem.session.saving.hydration import DORMANT, Hydrated, hydrate, operation_of
from kaosmem.tokens import TokenCounter, get_counter
from kaosmem.types import Item, JSONValue

_COUNTS = ("updates", "clock", "archived", "evicted")


def salvage_sections(
    recovered: Recovered, specs: Sequence[SectionSpec], counter: TokenCounter, ranker: Ranker | None
) -> Hydrated:
    """Return the sections that remain of a damaged session. Enter changes that cannot be repeated in its damage.

    An update of a lost item adds it. An update whose text is lost archives the item. A removal or use of a lost item is
    passed over. A section without a stored description is under the spec given or dormant.
    Raises CorruptionError, and UnsupportedVersionError for changes that are not known.
    """

    def repeat(sections: Mapping[str, Section], record: Record) -> Operation | None:
        try:
            if LOST in record.data and record.op == Update.op:
                _take_out(sections[record.section], record.data[LOST], record.data["at"])
                return None
            operation = operation_of(record)
            if isinstance(operation, SectionOperation):
                _repeat(sections[record.section], operation)
        except UnsupportedVersionError:
            raise
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError):
            where = f"record {record.seq} of section {shown_name(record.section)}"
            what = f"{where} cannot be repeated without the records that are lost"
            recovered.damage.append(CorruptionError(what, seq=record.seq))
            return None
        return None if isinstance(operation, Turn) else operation  # a window that is not there is packed anew

    entries: dict[str, list[dict[str, JSONValue]]] = {}
    for name, entry in decoded_entries(recovered.items):
        entries.setdefault(name, []).append(entry)
    stored = recovered.header or {}
    states = {name: _state(stored.get("states", {}).get(name), entries.get(name, [])) for name in entries}
    header = {
        "version": FORMAT_VERSION,
        "counter": next((each["counter"] for each in _descriptions(recovered)), "another counter"),
        **stored,
        "sections": {spec.name: spec.to_dict() for spec in stored_specs(recovered)},
        "states": {**stored.get("states", {}), **states},
        "windows": (),
    }
    items: list[tuple[str, Stored]] = [(name, entry) for name, each in entries.items() for entry in each]
    rest = replace(recovered, header=header, items=items)
    return hydrate(rest, specs, counter, ranker, repeat=repeat)


def stored_specs(recovered: Recovered, names: Iterable[str] = ()) -> list[SectionSpec]:
    """Return the specs that a session was stored with. Where they are lost, return the usual ones of their names.

    names: further sections of the session.
    """
    described = {name: spec for each in _descriptions(recovered) for name, spec in each["sections"].items()}
    found = {name for name, _ in recovered.items} | {record.section for record in recovered.records} | {*names}
    usual = {spec.name: spec for spec in DEFAULT_SECTIONS}
    rankers = {spec.name: spec.ranker for spec in DEFAULT_SECTIONS}
    specs = [SectionSpec.from_dict(spec, ranker=rankers.get(name)) for name, spec in described.items()]
    others = sorted(found - described.keys() - {""})
    return specs + [
        usual.get(name) or SectionSpec.from_dict({**DORMANT, "eviction": "none", "name": name}) for name in others
    ]


def stored_counter(recovered: Recovered) -> TokenCounter:
    """Return the counter that a session is counted with, or else the default one."""
    names = [each["counter"] for each in _descriptions(recovered)]
    with suppress(InvalidArgumentError):
        return get_counter(names[-1] if names else None)
    return _Named(names[-1]) if len({*names}) == 1 else get_counter()


@dataclass(frozen=True)
class _Named:
    """A counter that is not here, where nothing has to be counted."""

    name: str
    additive = False

    def __call__(self, text: str) -> int:
        raise InvalidArgumentError(f"{shown_name(self.name)} is not here to count; open the session with it")

    def count_many(self, texts: Sequence[str]) -> list[int]:
        """Return the count of each text."""
        return list(map(self, texts))


def _descriptions(recovered: Recovered) -> Iterator[Mapping[str, Any]]:
    """Yield the stored descriptions of the session, oldest first."""
    if recovered.header:
        yield recovered.header
    yield from (record.data for record in recovered.records if record.op == Describe.op)


def _state(state: Mapping[str, Any] | None, entries: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the state of a section that may have lost items, and put the units of its entries in order.

    state: None if it is lost.
    """
    known = state or dict.fromkeys(_COUNTS, 0)
    firsts = {entry["position"]: entry["position"] for entry in entries if "unit" not in entry}
    for entry in entries:
        if "unit" in entry:  # where the first item of a unit is lost, the next one begins it
            entry["unit"] = firsts.setdefault(entry["unit"], entry["position"])
    positions = {entry["position"] for entry in entries}
    asking = known.get("asking")
    return {
        **known,
        "taken": max(known.get("taken", 0), *(position + 1 for position in positions)),
        "clock": max(known["clock"], *(entry.get("last_use", 0) for entry in entries)),
        "asking": asking if asking in positions else None,
    }


def _repeat(section: Section, operation: SectionOperation) -> None:
    """Apply an operation as far as the items that it names are live. Raises as `Section.apply`."""

    def live(item_ids: Iterable[str]) -> list[str]:
        return [item_id for item_id in item_ids if item_id in section]

    match operation:
        case Add() | Update():
            _add(section, operation.item, live(operation.evicted), getattr(operation, "at", None))
        case Remove() if operation.id not in section:
            pass
        case Evict():
            _evict(section, live(operation.ids))
        case Use():
            section.apply(replace(operation, ids=live(operation.ids)))
        case Compact():
            _compact(section, operation.change, live(operation.change.replaced))
        case Expand():
            _expand(section, operation.versions, live(operation.ids))
        case _:
            section.apply(operation)


def _add(section: Section, item: Item, evicted: Sequence[str] = (), at: datetime | None = None) -> None:
    """Add an item, or update the live one with its id, after the items that it evicted have left."""
    name = section.spec.name
    evicted = [item_id for item_id in evicted if item_id != item.id]
    older = section.keyed(item.key) if item.key is not None else None
    if older and older.id not in (item.id, *evicted) and older.valid_from <= item.valid_from:
        section.apply(Remove(name, older.id, item.valid_from))  # the record in which it was superseded is lost
    try:
        section.apply(Update(name, item, evicted, at) if item.id in section else Add(name, item, evicted))
    except InvalidArgumentError:  # the evicted items are not whole units any more
        if not evicted:
            raise
        _evict(section, evicted)
        _add(section, item, at=at)


def _evict(section: Section, item_ids: Sequence[str]) -> None:
    """Evict items; remove them if they are no longer whole units."""
    try:
        section.apply(Evict(section.spec.name, item_ids))
    except InvalidArgumentError:
        _remove(section, item_ids)


def _take_out(section: Section, item_id: str, at: JSONValue) -> None:
    """Archive an item as one that an update replaced at a time. The text of that update is lost."""
    if item_id in section:
        section.ledger.remove(item_id, corrected=parse_time(at))


def _remove(section: Section, item_ids: Iterable[str]) -> None:
    for item_id in item_ids:
        section.apply(Remove(section.spec.name, item_id))


def _compact(section: Section, change: Substitution, live: Sequence[str]) -> None:
    """Put derived items in the places of others, or in those of the next ones that are live, or at the end."""
    taken = {place for place, _ in change.items if place in live}
    free = [item_id for item_id in live if item_id not in taken]
    placed, unplaced = [], []
    for place, item in change.items:
        if place in taken:
            placed.append((place, item))
        elif free:
            placed.append((free.pop(0), item))
        else:
            unplaced.append(item)
    if live:
        section.apply(Compact(section.spec.name, Substitution(tuple(live), tuple(placed))))
    for item in unplaced:
        _add(section, item)


def _expand(section: Section, versions: Iterable[Archived], live: Sequence[str]) -> None:
    """Bring versions back to their places, or to the end if one of these is taken."""
    lost = [version for version in versions if version.item.id not in section]
    try:
        section.apply(Expand(section.spec.name, live, lost))
    except InvalidArgumentError:
        _remove(section, live)
        for version in lost:
            _add(section, version.item)
