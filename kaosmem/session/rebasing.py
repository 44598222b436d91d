"""Taking in the commits of other writers, and repeating the unsaved changes after them."""

from __future__ import annotations

from collections.abc import Collection, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime

from kaosmem.errors import ConflictError, DuplicateError, InvalidArgumentError, NotFoundError, SectionFullError
from kaosmem.names import shown
from kaosmem.persistence import Change, Record
from kaosmem.sections import Section, Substitution, derived_from
from kaosmem.session.hydration import FORGET, OPEN, REPLACE
from kaosmem.session.windows import WINDOW
from kaosmem.tokens import TokenCounter
from kaosmem.types import Item, JSONValue

_SHOWN_CLASHES = 3
_SETTLING = ("compact", "evict", "expand")
"""What a turn does of itself, and can do again."""


def is_foreign(theirs: Iterable[Record], sections: Mapping[str, Section], counter: TokenCounter) -> bool:
    """Return whether others describe the session as it is not known here: with more sections, or counted otherwise."""
    descriptions = [record.data for record in theirs if record.op == OPEN]
    return any(each["counter"] != counter.name or each["sections"].keys() - sections.keys() for each in descriptions)


def rebase(
    sections: dict[str, Section],
    ours: Sequence[Change],
    theirs: Sequence[Record],
    stored: Mapping[str, Section],
    *,
    forgotten: Container[str],
    touched: Mapping[str, Item | None] | None,
) -> list[Change]:
    """Bring sections to the state of the log, followed by unsaved changes. Return the changes that no journal has.

    ours: all unsaved changes, in order. theirs: the commits of others, if known.
    stored: the state in the log of all sections that both changed or that are unknown here.
    forgotten: ids of items that others have forgotten.
    touched: the items that others changed, as `touched_by` returns them; None if the log does not tell.
    Raises ConflictError where both rewrote the same, or ours no longer fits; then nothing has changed.
    """
    ours = [change for change in ours if change.op not in (OPEN, FORGET)]
    _check_clashes(sections, ours, theirs, touched)
    _check_sources(ours, forgotten)
    kept = [change for change in ours if change.section not in stored or change.op == REPLACE]
    for change in ours:
        if change.section in stored and _settles(change):
            _settle(stored[change.section], change, touched, forgotten)
        elif change.section in stored and change.op != REPLACE:
            _repeat(stored[change.section], change)
    _check_ids(ours, stored)
    for record in theirs:
        if record.op not in (OPEN, WINDOW) and record.section not in stored:
            sections[record.section].apply(record.op, record.data)
    replaced = {change.section for change in kept if change.op == REPLACE}
    for name, section in stored.items():
        if name not in sections:
            sections[name] = section
        elif name not in replaced and section.spec.persistence != "none":
            added = sum(change.section == name and change.op == "add" for change in ours)
            is_forgotten = any(record.section == name and record.op == FORGET for record in theirs)
            shared = sections[name].taken - added if touched is not None and not is_forgotten else 0
            sections[name].take_over(section, shared=shared)
    return kept


def forget_derived(sections: Mapping[str, Section], forgotten: Container[str]) -> None:
    """Erase items derived from those that others have forgotten, in sections that no file holds."""
    unstored = [section for section in sections.values() if section.spec.persistence == "none"]
    items = [item for section in unstored for item in section]
    items += (version.item for section in unstored for version in section.archive.in_memory())
    gone = {
        source
        for item in items
        for source in item.sources
        if source in forgotten and not any(source in section for section in sections.values())
    }
    if gone:
        derived = derived_from(gone, items)
        for section in unstored:
            section.forget(derived)


def _repeat(section: Section, change: Change) -> None:
    """Apply a change once more, and decide anew which items it evicts and supersedes."""
    try:
        match change.op:
            case "add":
                section.add(Item.from_dict(change.data["item"], section.spec.name))
            case "update":
                section.update(Item.from_dict(change.data["item"], section.spec.name), at=_time_of(change))
            case "remove":
                section.remove(change.data["id"], at=_time_of(change))
            case "use":
                section.use(change.data["ids"])
    except (DuplicateError, InvalidArgumentError, SectionFullError, NotFoundError) as error:
        raise ConflictError(
            f"what is unsaved no longer fits what others have committed: {error}; open the session again and repeat it"
        ) from error


def _settles(change: Change) -> bool:
    """Return whether a change is one that a turn makes of itself: an expired item leaves for every writer."""
    return change.op in _SETTLING or (change.op == "remove" and "expired" in change.data)


def _time_of(change: Change) -> datetime | None:
    return datetime.fromisoformat(change.data["at"]) if "at" in change.data else None


def _settle(section: Section, change: Change, touched: Container[str] | None, forgotten: Container[str]) -> None:
    """Repeat compactions and evictions of items that nobody has touched. The next turn decides the rest anew.

    touched: ids, None where the log does not tell.
    """
    if change.op == "remove":
        section.expire((change.data["id"],))
        return
    if touched is None:
        return
    with suppress(InvalidArgumentError, NotFoundError):  # then nothing has changed
        if change.op == "evict":
            section.evict(change.data["ids"])
        elif change.op == "compact":
            substitution = Substitution.from_dict(change.data, section.spec.name)
            told = {source for _, item in substitution.items for source in item.sources}.union(substitution.replaced)
            if not any(item_id in touched or item_id in forgotten for item_id in told):
                section.compact(substitution)


def is_reply(change: Change) -> bool:
    """Return whether a change adds a message with thinking, which is bound to the request that it replies to."""
    if change.op != "add":
        return False
    content = change.data["item"].get("content")
    return not isinstance(content, str) and any(block["type"] == "thinking" for block in content)


def touched_by(records: Iterable[Record]) -> dict[str, Item | None]:
    """Return the items that records changed, as the last of them left each; None for an item that they took out."""
    touched: dict[str, Item | None] = {}
    for record in records:
        touched |= _touched(record)
    return touched


def _check_clashes(
    sections: Mapping[str, Section],
    ours: Sequence[Change],
    theirs: Sequence[Record],
    touched: Mapping[str, Item | None] | None,
) -> None:
    """Raise ConflictError where both rewrote the same item or section."""
    rewritten = {change.data["id"]: change.section for change in ours if change.op == "remove" and not _settles(change)}
    rewritten |= {change.data["item"]["id"]: change.section for change in ours if change.op == "update"}
    added = {change.data["item"]["id"]: change.section for change in ours if change.op == "add"}
    added |= {
        entry["id"]: change.section for change in ours if change.op == REPLACE for entry in change.data["entries"]
    }
    replaced = {change.section for change in ours if change.op == REPLACE}
    if touched is None and (rewritten or replaced):
        raise ConflictError(
            "others have committed so much since the session was read that the log no longer tells what; "
            "open it again and repeat the change"
        )
    if names := replaced & {record.section for record in theirs if record.op != OPEN}:
        raise ConflictError(
            f"section {min(names)!r} is kept as a whole, and another writer has changed it too; "
            "open the session again and repeat the change"
        )
    touched = touched or {}
    clashing = [item_id for item_id in (*rewritten, *added) if item_id in touched]
    if clashing:
        raise _clash({**added, **rewritten}, clashing, touched, sections)


def _check_ids(ours: Sequence[Change], stored: Mapping[str, Section]) -> None:
    """Raise ConflictError if others gave the id of an added item to an item of another section."""
    for change in ours:
        if change.op == "add" and change.section in stored:
            item_id = change.data["item"]["id"]
            if any(item_id in section for name, section in stored.items() if name != change.section):
                raise ConflictError(
                    f"another writer has added an item {shown(item_id)} too, so nothing was written; "
                    "open the session again and choose another id"
                )


def _check_sources(ours: Sequence[Change], forgotten: Container[str]) -> None:
    """Raise ConflictError if one of our items is derived from an item that others have forgotten."""
    for change in ours:
        if change.op in ("add", "update") and any(
            source in forgotten for source in change.data["item"].get("sources", ())
        ):
            raise ConflictError(
                f"item {shown(change.data['item']['id'])} is derived from what another writer has forgotten; "
                "open the session again and go on without it"
            )


def _clash(
    ours: Mapping[str, str],
    clashing: Sequence[str],
    theirs: Mapping[str, Item | None],
    sections: Mapping[str, Section],
) -> ConflictError:
    versions = []
    for item_id in clashing:
        section = sections[ours[item_id]]
        versions.append((section.peek(item_id) if item_id in section else None, theirs[item_id]))
    more = f" and {len(clashing) - _SHOWN_CLASHES} more" if len(clashing) > _SHOWN_CLASHES else ""
    return ConflictError(
        f"another writer has changed {', '.join(map(shown, clashing[:_SHOWN_CLASHES]))}{more} too, so nothing was "
        "written; the error's versions holds ours and theirs; open the session again and repeat the change",
        versions=versions,
    )


def _touched(record: Record) -> dict[str, Item | None]:
    """Return the items that a record changed, None for those that it took out."""
    data = record.data
    gone: Collection[str] = ()
    found: Iterator[Mapping[str, JSONValue]] = iter(())
    match record.op:
        case "add" | "update":
            gone, found = data["evicted"], iter((data["item"],))
        case "remove":
            gone = (data["id"],)
        case "forget":
            gone = data["ids"]
        case "replace":
            found = iter(data["entries"])
        case "compact":
            gone, found = data["replaced"], iter(data["items"])
        case "evict":
            gone = data["ids"]
        case "expand":
            gone, found = data["ids"], iter(data["versions"])
    return dict.fromkeys(gone) | {item["id"]: Item.from_dict(item, record.section) for item in found}
