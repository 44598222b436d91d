"""The operations of a session's log.

Each is a frozen class with its effect, the items that it touches and its JSON.

A section enters each of its changes in its journal as an operation, and a commit stores the
journals. Whoever reads the log applies the operations again: at open, after the commits of other
writers, and to the remains of a damaged session.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self, TypeAlias

from kaosmem.errors import InvalidArgumentError, UnsupportedVersionError
from kaosmem.memos import clear_memos
from kaosmem.names import shown_name
from kaosmem.sections.archive import Archived, check_end, parse_time, stored_end
from kaosmem.sections.substitution import ReplacedCounts, Substitution
from kaosmem.types import JSONObject, JSONValue
from kaosmem.types.items import Item, digest
from kaosmem.types.outcomes import OUTCOMES, RETIRED, Outcomes

if TYPE_CHECKING:
    from kaosmem.sections.section import Section

Ends: TypeAlias = Mapping[str, tuple[datetime, datetime]]
"""When versions ceased to hold, and when a session was told so, by the ids of their items."""


@dataclass(frozen=True, slots=True)
class Operation:
    """One operation of a log.

    Attributes:
        op: The name of its class in the log.
        section: The name of its section, "" for the session itself.
        data: Its other fields as JSON values, from which `parse` makes it again.
    """

    op: ClassVar[str]
    section: str

    @property
    @abstractmethod
    def data(self) -> JSONObject: ...

    @classmethod
    @abstractmethod
    def parse(cls, section: str, data: JSONObject) -> Self: ...


@dataclass(frozen=True, slots=True)
class _SessionOperation(Operation):
    data: JSONObject

    @classmethod
    def parse(cls, section: str, data: JSONObject) -> Self:
        return cls(section, data)


@dataclass(frozen=True, slots=True)
class Describe(_SessionOperation):
    """The session has these sections and this counter.

    This operation comes before the operations that rely on it.
    """

    op = "open"


@dataclass(frozen=True, slots=True)
class WindowTurn(_SessionOperation):
    """A window goes on by a turn, or ends. data: the turn, as `WindowState.after` reads it."""

    op = "window"


@dataclass(frozen=True, slots=True)
class TraceTurn(_SessionOperation):
    """The session assembled a context. data: the turn, as its trace keeps it."""

    op = "trace"


class _Form(NamedTuple):
    """How a value of an operation is written as JSON, and read back for a section."""

    write: Callable[[Any], JSONValue]
    read: Callable[[Any, str], Any]


def _stored_ends(ends: Ends) -> JSONValue:
    return {item_id: stored_end(ended) for item_id, ended in ends.items()}


def _checked_ends(stored: JSONObject) -> Ends:
    return {item_id: check_end(ended) for item_id, ended in stored.items()}


_IDS = _Form(list, lambda stored, _: tuple(stored))
_FORMS = {
    "item": _Form(Item.to_dict, Item.from_dict),
    "at": _Form(datetime.isoformat, lambda stored, _: parse_time(stored)),
    "ended": _Form(stored_end, lambda stored, _: check_end(stored)),
    "ends": _Form(_stored_ends, lambda stored, _: _checked_ends(stored)),
    "credited": _IDS,
    "shown": _IDS,
    "verified": _IDS,
}
"""The forms of the fields whose values are not JSON themselves, by name."""


@dataclass(frozen=True, slots=True)
class SectionOperation(Operation):
    """A change of one section.

    Attributes:
        data: Its fields by name, without those that have their default value.
        touched: The items that the change leaves, by id; None for an item that it takes out.
    """

    @property
    def data(self) -> JSONObject:
        stored = {}
        for name, default, form in _FIELDS[self.op]:
            value = getattr(self, name)
            if value != default:
                stored[name] = form.write(value) if form else value
        return stored

    @classmethod
    def parse(cls, section: str, data: JSONObject) -> Self:
        values: list[Any] = []
        for name, default, form in _FIELDS[cls.op]:
            value = default
            if name in data or default is MISSING:
                value = data[name]
                if form:
                    value = form.read(value, section)
            values.append(value)
        return cls(section, *values)

    @abstractmethod
    def apply(self, section: Section) -> None:
        """Carry the change out in a section whose lock is held.

        Raises InvalidArgumentError and NotFoundError if it does not fit the section.
        """

    @property
    def touched(self) -> Mapping[str, Item | None]:
        return {}


@dataclass(frozen=True, slots=True)
class _AddingOperation(SectionOperation):
    """An item comes, after others left.

    Attributes:
        evicted: The ids of the items that it supersedes, with their units, and of those that it
            evicts.
        ends: When those that it supersedes ceased to hold, and when the session was told, by id.
    """

    item: Item
    evicted: Sequence[str]
    ends: Ends | None = None

    @property
    def touched(self) -> Mapping[str, Item | None]:
        return _touched(self.evicted, [self.item])


@dataclass(frozen=True, slots=True)
class Add(_AddingOperation):
    """A new item comes, after others left."""

    op = "add"

    def apply(self, section: Section) -> None:
        if self.item.id in section.held.ordinals:
            raise InvalidArgumentError("an item is added that is live already")
        section.removed.discard(self.item.id)
        if self.evicted != []:
            evict(section, self.evicted, self.ends)
        section.index.changed((section.held.put(self.item),))


@dataclass(frozen=True, slots=True)
class Update(_AddingOperation):
    """An item takes the place of the live item with its id, after others left.

    Attributes:
        at: When the session was told, None if that is not known.
        is_version: Whether the item before goes to the archive as an earlier version.
    """

    op = "update"
    at: datetime | None = None
    is_version: bool = True

    def apply(self, section: Section) -> None:
        evict(section, self.evicted, self.ends)
        held = section.held
        ordinal = held.ordinal(self.item.id)
        if self.is_version:
            section.archive.put(Archived(held[ordinal], ordinal, corrected=self.at))
        held.replace(ordinal, self.item)
        section.rewritten[self.item.id] = digest(self.item)
        section.index.changed((ordinal,))


@dataclass(frozen=True, slots=True)
class Remove(SectionOperation):
    """An item leaves and is not recalled.

    Attributes:
        ended: When it ceased to hold, and when the session was told. None if that is not known.
        expired: A rule says so: its time to live was over, a retention policy named it, or a
            formed quote ended it.
    """

    op = "remove"
    id: str
    ended: tuple[datetime, datetime] | None = None
    expired: bool = False

    def apply(self, section: Section) -> None:
        remove(section, self.id, self.ended)

    @property
    def touched(self) -> Mapping[str, Item | None]:
        return {self.id: None}


@dataclass(frozen=True, slots=True)
class Use(SectionOperation):
    """Items are used, all at one tick of the section's clock."""

    op = "use"
    ids: Sequence[str]

    def apply(self, section: Section) -> None:
        section.held.use(map(section.held.ordinal, self.ids))


@dataclass(frozen=True, slots=True)
class Credit(SectionOperation):
    """Replies used items, facts were verified, or procedures were tried.

    It touches no item in the sense of clashes: the counts of two writers add up.

    Attributes:
        at: When.
        credited: The ids of the used items.
        shown: The ids of those that the turn showed.
        verified: The ids of facts that were said again, or confirmed.
        tried: The id of the procedure that a run was one of, "" for none.
        run: The name of the run, which counts once.
        worked: Whether the run succeeded.
    """

    op = "credit"
    at: datetime
    credited: Sequence[str] = ()
    shown: Sequence[str] = ()
    verified: Sequence[str] = ()
    tried: str = ""
    run: str = ""
    worked: bool = True

    def without(self, forgotten: Container[str]) -> Credit:
        """Return the same credit without the items that were forgotten."""
        lists: dict[str, Any] = {}
        for name in ("credited", "shown", "verified"):
            lists[name] = [each for each in getattr(self, name) if each not in forgotten]
        return replace(self, **lists)

    def apply(self, section: Section) -> None:
        section.ledger.note(self.credited, self.shown, self.verified, self.at)
        if self.tried in section.held.ordinals:
            section.ledger.note_run(self.tried, self.run, worked=self.worked)
            _show_outcomes(section, self.tried, self.at)


@dataclass(frozen=True, slots=True)
class _RemovingOperation(SectionOperation):
    """Items leave."""

    ids: Sequence[str]

    @property
    def touched(self) -> Mapping[str, Item | None]:
        return _touched(self.ids)


@dataclass(frozen=True, slots=True)
class Evict(_RemovingOperation):
    """Whole units leave, for room or since a version of a key has ended, and may be recalled.

    Attributes:
        ends: When versions ceased to hold, and when the session was told, by id.
    """

    op = "evict"
    ends: Ends | None = None

    def apply(self, section: Section) -> None:
        evict(section, self.ids, self.ends)


@dataclass(frozen=True, slots=True)
class Compact(SectionOperation):
    """Derived items take the places of others.

    Attributes:
        change: The items that leave, and the derived ones.
    """

    op = "compact"
    change: Substitution

    @property
    def data(self) -> JSONObject:
        return self.change.to_dict()

    @classmethod
    def parse(cls, section: str, data: JSONObject) -> Self:
        return cls(section, Substitution.from_dict(data, section))

    def apply(self, section: Section) -> None:
        held = section.held
        replaced = {at: held[at] for at in map(held.ordinal, self.change.replaced)}
        taken_over = {held.ordinal(place): item for place, item in self.change.items}
        new_ids = {item.id for item in taken_over.values() if item.id not in held.ordinals}
        if len(new_ids) < len(self.change.items) or not taken_over.keys() <= replaced.keys():
            raise InvalidArgumentError(
                "an item takes a place that is not free, or has the id of another one"
            )
        leaving = replaced.keys() - taken_over
        # Whole units may be recalled, but no summary beside the items that it stands for.
        original = {
            at for at in leaving if section.spec.recalls and not ReplacedCounts.by(replaced[at])
        }
        recallable: set[int] = set()
        for unit in held.units.of(sorted(original)):
            if original.issuperset(unit):
                recallable.update(unit)
        for ordinal, item in replaced.items():
            if ordinal not in recallable:
                section.archive.put(Archived(item, ordinal))
        evict(section, [replaced[ordinal].id for ordinal in sorted(recallable)])
        rest = sorted(leaving - recallable)
        held.take(rest)
        section.index.changed(rest)
        for ordinal, item in taken_over.items():
            held.replace(ordinal, item)
            section.index.changed((ordinal,))

    @property
    def touched(self) -> Mapping[str, Item | None]:
        return _touched(self.change.replaced, [item for _, item in self.change.items])


@dataclass(frozen=True, slots=True)
class Forget(_RemovingOperation):
    """All versions of items are erased.

    Attributes:
        archived: How many of these versions were archived.
        evicted: How many of the archived ones might be recalled.
    """

    op = "forget"
    archived: int
    evicted: int

    def apply(self, section: Section) -> None:
        erased = {*self.ids}
        held = section.held
        live = [held.ordinal(item_id) for item_id in erased if item_id in section.held.ordinals]
        evicted = held.evicted_among(erased)
        held.take(live)
        held.forget_evicted(evicted, self.evicted)
        held.keyed.forget(erased)
        held.purge()
        section.index.changed((*live, *evicted))
        section.archive.forget(erased, self.archived)
        section.removed -= erased
        for item_id in erased:
            section.rewritten.pop(item_id, None)
        section.ledger.forget(erased)
        for item_id in [*section.ledger.outcomes]:
            _show_outcomes(section, item_id)
        clear_memos()


@dataclass(frozen=True, slots=True)
class Form(SectionOperation):
    """Items of another section were formed into this one.

    The commit of this operation also adds and removes the formed items.

    Attributes:
        mark: The name of the mark that moves, "" for none.
        since, until: From where to where it moves.
        items: The ids of the items that come and leave by the formation, also of those that wait
            for a person in a section of their own.
        refused: The reason of each refused proposal.
        shelved: The items that a shelf got, with the numbers of their last updates. None: the item
            has left the section.
    """

    op = "form"
    mark: str = ""
    since: int = 0
    until: int = 0
    items: Sequence[str] = ()
    refused: Sequence[str] = ()
    shelved: Sequence[tuple[str, int | None]] = ()

    def without(self, forgotten: Container[str]) -> Form:
        """Return the same formation without the state of items that were forgotten."""
        return replace(self, shelved=[each for each in self.shelved if each[0] not in forgotten])

    def apply(self, section: Section) -> None:
        ledger = section.ledger
        if self.mark:
            ledger.marks[self.mark] = max(self.until, ledger.marks[self.mark])
        ledger.refused.update(self.refused)
        for item_id, updated in self.shelved:
            if updated is None:
                ledger.shelved.pop(item_id, None)
            else:
                ledger.shelved[item_id] = updated


def _show_outcomes(
    section: Section,
    item_id: str,
    at: datetime | None = None,
) -> None:
    """Note the counts of a procedure in its metadata. Retire it if it failed too often."""
    ordinal = section.held.ordinals.get(item_id)
    if ordinal is None:
        return
    item = section.held[ordinal]
    outcomes = Outcomes.of_runs(section.ledger.outcomes[item_id].values())
    metadata = {**item.metadata, OUTCOMES: list(outcomes)}
    is_retired = outcomes.is_worn_out and not item.pinned
    if is_retired:
        metadata[RETIRED] = outcomes.note
    section.held.replace(ordinal, replace(item, metadata=metadata))
    section.index.changed((ordinal,))
    if is_retired:
        del section.ledger.outcomes[item_id]
        remove(section, item_id, (at, at) if at else None)


def evicted_by(operation: SectionOperation) -> int:
    """Return the number of items that an operation moves to the archive for room."""
    if isinstance(operation, Evict):
        return len(operation.ids) - len(operation.ends or ())
    if isinstance(operation, Add | Update):
        return len(operation.evicted) - len(operation.ends or ())
    return 0


def evict(section: Section, item_ids: Sequence[str], ends: Ends | None = None) -> None:
    """Move whole units to the archive; they may be recalled.

    Raises NotFoundError, InvalidArgumentError.

    Args:
        ends: When the superseded items among them ceased to hold, and when that was told.
    """
    held = section.held
    ends = ends or {}
    ordinals = [held.ordinal(item_id) for item_id in item_ids]
    units: list[int] | list[None] = held.units.firsts(ordinals)
    if section.spec.recalls:
        ended = {held.ordinal(item_id): ends[item_id][0] for item_id in item_ids if item_id in ends}
        items = held.evict(ordinals, ended)
    else:
        units = [None] * len(ordinals)
        items = held.take(ordinals)
        section.index.changed(ordinals)
    for ordinal, unit, item in zip(ordinals, units, items, strict=True):
        updated = held.updated.get(ordinal, 0)
        section.archive.put(Archived(item, ordinal, unit, updated, ends.get(item.id)))


def remove(
    section: Section,
    item_id: str,
    ended: tuple[datetime, datetime] | None = None,
) -> None:
    """Move one item to the archive.

    Args:
        ended: When it ceased to hold, and when that was decided. None if that is not known.
    """
    section.removed.add(item_id)
    ordinal = section.held.ordinal(item_id)
    (item,) = section.held.take((ordinal,))
    section.held.keyed.note_removal(item, ended and ended[0])
    section.archive.put(Archived(item, ordinal, ended=ended))
    section.index.changed((ordinal,))


_OPERATIONS = {
    each.op: each
    for each in (
        Describe,
        WindowTurn,
        TraceTurn,
        Add,
        Update,
        Remove,
        Use,
        Credit,
        Evict,
        Compact,
        Forget,
        Form,
    )
}


def _fields_of(operation: type[Operation]) -> list[tuple[str, Any, Any]]:
    return [(each.name, each.default, _FORMS.get(each.name)) for each in fields(operation)[1:]]


_FIELDS = {op: _fields_of(operation) for op, operation in _OPERATIONS.items()}
"""The name, the default and the form of each field but the section, by operation.

To look them up for each record would take as long as to read it.
"""


def parse_operation(
    section: str,
    op: str,
    data: JSONObject,
) -> Operation:
    """Return the operation of a record.

    Raises UnsupportedVersionError for an unknown name; InvalidArgumentError, LookupError, TypeError
    and ValueError for data that no operation has.

    >>> parse_operation("findings", "evict", {"ids": ["a", "b"]})
    Evict(section='findings', ids=['a', 'b'], ends=None)
    """
    known = _OPERATIONS.get(op)
    if known is None:
        raise UnsupportedVersionError(
            f"section {section!r} cannot repeat the change {shown_name(op)}; open it with a newer "
            "kaosmem"
        )
    return known.parse(section, data)


def _touched(gone: Iterable[str], left: Iterable[Item] = ()) -> dict[str, Item | None]:
    return {**dict.fromkeys(gone), **{item.id: item for item in left}}
