"""Taking in the commits of other writers, and repeating the unsaved changes after them."""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence, Set
from contextlib import suppress
from datetime import datetime
from typing import NamedTuple

from kaosmem.display import comma_list
from kaosmem.errors import (
    ConflictError,
    DuplicateError,
    InvalidArgumentError,
    NotFoundError,
    SectionFullError,
)
from kaosmem.language.duplicates import FORMED
from kaosmem.names import shown
from kaosmem.persistence.commit import LogChanges
from kaosmem.persistence.recovery import Recovered
from kaosmem.sections.operations import (
    Add,
    Compact,
    Credit,
    Describe,
    Evict,
    Forget,
    Form,
    Operation,
    Remove,
    SectionOperation,
    Update,
    Use,
)
from kaosmem.sections.section import Section
from kaosmem.sections.substitution import ForgottenIds, derived_from
from kaosmem.session.saving.hydration import Hydrated
from kaosmem.session.saving.partial_replay import operation_of
from kaosmem.types import JSONObject
from kaosmem.types.content import ThinkingBlock
from kaosmem.types.items import Item

_SHOWN_CLASHES = 3


class UpstreamChanges(NamedTuple):
    """The changes that other writers have committed since a session was read.

    Attributes:
        operations: In order, none if the log no longer tells.
        touched: The ids of the items that they changed, None if the log no longer tells.
        stored: The session as the log has it now, if it was read.
    """

    operations: Sequence[Operation]
    touched: Set[str] | None
    stored: Hydrated | None

    @classmethod
    def read(
        cls, log_changes: LogChanges, rehydrate: Callable[[Recovered], Hydrated]
    ) -> UpstreamChanges:
        """Return the changes that a log told, and the session if the log was read as a whole."""
        stored = None
        if log_changes.is_whole:
            stored = rehydrate(log_changes.recovered)
        if log_changes.records is None:
            return cls((), None, stored)
        operations = list(map(operation_of, log_changes.records))
        touched: set[str] = set()
        for each in operations:
            if isinstance(each, SectionOperation):
                touched.update(each.touched)
        return cls(operations, touched, stored)

    @property
    def descriptions(self) -> list[JSONObject]:
        """The descriptions of the session, oldest first."""
        return [each.data for each in self.operations if isinstance(each, Describe)]

    @property
    def erased(self) -> set[str]:
        """The ids of the items that others forgot."""
        erased: set[str] = set()
        for each in self.operations:
            if isinstance(each, Forget):
                erased.update(each.ids)
        return erased

    @property
    def forgotten(self) -> ForgottenIds:
        """The ids of forgotten items, of all if the session was read."""
        if self.stored is not None:
            return self.stored.forgotten
        forgotten = ForgottenIds()
        forgotten.add(self.erased)
        return forgotten


def rebase(
    sections: dict[str, Section],
    ours: Sequence[SectionOperation],
    theirs: UpstreamChanges,
    stored: Mapping[str, Section],
) -> list[Operation]:
    """Bring sections to the state of the log, followed by unsaved changes.

    Return the changes that no journal has.

    Raises ConflictError if both rewrote an item, or a change no longer fits; then nothing has
    changed.

    Args:
        ours: All unsaved changes, in order.
        stored: The state in the log of all sections that both changed or that are unknown here.
    """
    forgotten = theirs.forgotten
    touched = theirs.touched
    ours = [change for change in ours if not isinstance(change, Forget)]
    unsaved = ours
    ours = _not_formed_twice(ours, stored, forgotten)
    _check_clashes(ours, touched)
    _check_sources(ours, forgotten)
    kept: list[Operation] = []
    for name in stored.keys() & sections.keys():
        stored[name].present = sections[name].present
    for change in ours:
        if change.section in stored:
            _repeat(stored[change.section], change, touched, forgotten)
        else:
            kept.append(change)
    _check_ids(ours, stored)
    for operation in theirs.operations:
        if isinstance(operation, SectionOperation) and operation.section not in stored:
            sections[operation.section].apply(operation)
    with_gaps = {each.section for each in theirs.operations if isinstance(each, Forget)}
    for name, section in stored.items():
        if name not in sections:
            sections[name] = section
        elif section.spec.persistence != "none":
            shared = 0
            if touched is not None and name not in with_gaps:
                shared = sections[name].held.taken
                for change in unsaved:
                    if isinstance(change, Add) and change.section == name:
                        shared -= 1
            sections[name].take_over(section, shared=shared)
    return kept


def forget_derived(sections: Mapping[str, Section], forgotten: Container[str]) -> None:
    """Erase items derived from forgotten ones, in sections that no file holds."""
    unstored = [section for section in sections.values() if section.spec.persistence == "none"]
    items: list[Item] = []
    for section in unstored:
        items += section
        items += [version.item for version in section.archive.in_memory()]
    gone = set()
    for item in items:
        for source in item.sources:
            if source in forgotten and not any(source in each for each in sections.values()):
                gone.add(source)
    if gone:
        derived = derived_from(gone, items)
        for section in unstored:
            section.forget(derived)


def _not_formed_twice(
    ours: Sequence[SectionOperation],
    stored: Mapping[str, Section],
    forgotten: Container[str],
) -> list[SectionOperation]:
    """Return the unsaved changes without formations that no longer fit.

    Left out are a formation whose messages another writer has formed too, and items that were
    formed from forgotten ones.
    """
    given_up: set[str] = set()
    kept: list[SectionOperation] = []
    for change in ours:
        theirs = stored.get(change.section)
        if not isinstance(change, Form) or theirs is None:
            kept.append(change)
        elif theirs.ledger.marks[change.mark] > change.since:
            given_up.update(change.items)
        else:
            kept.append(change)
    return [change for change in kept if not _is_given_up(change, given_up, forgotten)]


def _is_given_up(
    change: SectionOperation,
    given_up: Container[str],
    forgotten: Container[str],
) -> bool:
    """Return whether a change belongs to a formation that is left out, or to a forgotten source."""
    match change:
        case Add(item=item):
            is_gone = any(source in forgotten for source in item.sources)
            return item.id in given_up or (FORMED in item.tags and is_gone)
        case Remove():
            return change.id in given_up
    return False


def _repeat(
    section: Section,
    change: SectionOperation,
    touched: Container[str] | None,
    forgotten: Container[str],
) -> None:
    """Apply a change once more, and decide anew which items it evicts and supersedes.

    A turn makes compactions, evictions and removals by a rule of itself. They are repeated for items
    that no writer has touched, and the next turn decides the rest anew.

    Args:
        touched: Ids, None where the log does not tell.
    """
    try:
        match change:
            case Add():
                section.add(change.item)
            case Update():
                section.update(change.item, at=change.at, is_version=change.is_version)
            case Remove(expired=True):
                if touched is not None and change.id not in touched:
                    section.retire((change.id,), at=_removal_known_at(change))
            case Remove():
                section.remove(change.id, at=_removal_known_at(change))
            case Use():
                section.use(change.ids)
            case Form():
                section.form(change.without(forgotten))
            case Credit():
                section.credit(change.without(forgotten))
            case Evict() | Compact() if touched is not None:
                with suppress(InvalidArgumentError, NotFoundError):  # then nothing has changed
                    _repeat_settling(section, change, touched, forgotten)
    except (DuplicateError, InvalidArgumentError, SectionFullError, NotFoundError) as error:
        raise ConflictError(
            f"what is unsaved no longer fits what others have committed: {error}; open the session "
            "again and repeat it"
        ) from error


def _removal_known_at(change: Remove) -> datetime | None:
    """Return when the session was told of a removal, None if the change does not say."""
    if change.ended is None:
        return None
    return change.ended[1]


def _repeat_settling(
    section: Section,
    change: Evict | Compact,
    touched: Container[str],
    forgotten: Container[str],
) -> None:
    if isinstance(change, Evict):
        if change.ends:
            section.begin_versions()
        else:
            section.evict(change.ids)
        return
    source_ids = {*change.change.replaced}
    for _, item in change.change.items:
        source_ids.update(item.sources)
    for item_id in source_ids:
        if item_id in touched or item_id in forgotten:
            return
    section.compact(change.change)


def is_reply(change: Operation) -> bool:
    """Return whether a change adds a message with thinking.

    Thinking is bound to the request that it replies to.
    """
    if not isinstance(change, Add):
        return False
    return any(isinstance(each, ThinkingBlock) for each in change.item.message.blocks)


def _check_clashes(ours: Sequence[SectionOperation], touched: Container[str] | None) -> None:
    """Raise ConflictError where both rewrote the same item."""
    rewritten = []
    added = []
    for each in ours:
        if isinstance(each, Update):
            rewritten.append(each.item.id)
        elif isinstance(each, Remove) and not each.expired:
            rewritten.append(each.id)
        elif isinstance(each, Add):
            added.append(each.item.id)
    if touched is None and rewritten:
        raise ConflictError(
            "others have committed so much since the session was read that the log no longer tells "
            "what; open it again and repeat the change"
        )
    clashing = [item_id for item_id in rewritten + added if item_id in (touched or ())]
    if clashing:
        raise ConflictError(
            f"another writer has changed {comma_list(list(map(shown, clashing)), _SHOWN_CLASHES)} "
            "too, so nothing was written; open the session again and repeat the change"
        )


def _check_ids(ours: Sequence[SectionOperation], stored: Mapping[str, Section]) -> None:
    """Raise ConflictError if others gave the id of an added item to an item of another section."""
    for change in ours:
        if isinstance(change, Add) and change.section in stored:
            item_id = change.item.id
            for name, section in stored.items():
                if name != change.section and item_id in section:
                    raise ConflictError(
                        f"another writer has added an item {shown(item_id)} too, so nothing was "
                        "written; open the session again and choose another id"
                    )


def _check_sources(ours: Sequence[SectionOperation], forgotten: Container[str]) -> None:
    """Raise ConflictError if an own item is derived from one that others have forgotten."""
    for change in ours:
        if not isinstance(change, Add | Update):
            continue
        for source in change.item.sources:
            if source in forgotten:
                raise ConflictError(
                    f"item {shown(change.item.id)} is derived from what another writer has "
                    "forgotten; open the session again and go on without it"
                )
