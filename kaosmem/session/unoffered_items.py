"""The decisions on items that no section offered to a turn: filtered, outranked, archived."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from kaosmem.arguments import Clock
from kaosmem.assembly.context import Decision, Reason
from kaosmem.assembly.why import why_not_held
from kaosmem.display import comma_list
from kaosmem.errors import NotFoundError
from kaosmem.filters import MetadataFilter
from kaosmem.language.query import Query
from kaosmem.names import shown
from kaosmem.sections.archive import Archived
from kaosmem.sections.keyed_versions import is_older
from kaosmem.sections.section import Section
from kaosmem.sections.spec import SectionSpec
from kaosmem.session.source_registry import SourceRegistry
from kaosmem.types.items import Item

EVICTED = "it was evicted"
"""The fault of an evicted item begins so. No section knows when it was evicted."""


@dataclass(frozen=True)
class UnofferedItems:
    """The items that no section offered to a turn.

    Args:
        registry: The sections and sources that were asked.
        specs: The specs of those that could be shown, by name.
        query: The query of the turn.
        wanted: The filter, or None.
        clock: The clock of the session.
        stored: Yields the archived versions of the session's files.
    """

    registry: SourceRegistry
    specs: Mapping[str, SectionSpec]
    query: Query
    wanted: MetadataFilter | None
    clock: Clock
    stored: Callable[[], Iterable[Archived]]

    def decide(self, item_id: str) -> Decision:
        """Return the decision on an item that was not proposed. Raises NotFoundError."""
        decision = self._decided(self.registry, item_id)
        if decision is not None:
            return decision
        present = self.registry.present
        if present is None:
            return self._decided_in_files(item_id)
        decision = self._decided(present, item_id) or self._decided_in_files(item_id)
        fault = decision.fault or self._not_then()
        return replace(
            decision, reason=Reason.FILTERED, same_as=None, rank=None, score=None, fault=fault
        )

    def known_items(self, with_files: bool = False) -> Iterator[Item]:
        """Yield the items at hand: archived ones, then live ones of all sections.

        Args:
            with_files: Read the archived items of the session's files, too.
        """
        if with_files:
            for version in self.stored():
                yield version.item
        for section in self.registry.sections.values():
            for version in section.archive.in_memory():
                yield version.item
        for _, section in self.registry.all_sections():
            yield from section

    def _decided(self, registry: SourceRegistry, item_id: str) -> Decision | None:
        for name, section in registry.all_sections():
            if item_id in section:
                return self._decided_live(name, section, item_id)
        for name, section in registry.sections.items():
            version = section.archive.newest(item_id)
            if version is not None:
                return self._decided_archived(name, section, version)
        return None

    def _decided_live(
        self,
        name: str,
        section: Section,
        item_id: str,
    ) -> Decision:
        """Return the decision on a live item that its section did not propose."""
        item = section.peek(item_id)
        out = Decision(item_id, name, False, Reason.NOT_SHOWN, None, None, item.tokens, item=item)
        if name not in self.specs:
            return replace(out, fault=f"the turn asked for {comma_list([*self.specs], 4)} alone")
        wanted = self.wanted
        if not section.proposer.is_passed(item_id, wanted):
            fault = "" if wanted is None else wanted.faults(item.metadata)
            if wanted is not None and not fault:
                fault = section.held.unanswered(wanted)
            return replace(out, reason=Reason.FILTERED, fault=fault)
        placement = section.spec.placement
        if placement == "static":
            return replace(out, reason=Reason.OUTRANKED)
        rank, score = section.proposer.place(self.query, item_id)
        is_unrelated = score is None and self.query.has_topic and placement == "query"
        reason = Reason.UNRELATED if is_unrelated else Reason.OUTRANKED
        return replace(out, reason=reason, rank=rank, score=score)

    def _decided_in_files(self, item_id: str) -> Decision:
        """Return the decision on an item of the archive's files. Raises NotFoundError."""
        found = None
        for version in self.stored():
            if version.item.id == item_id:
                found = version
        section = None if found is None else self.registry.sections.get(found.item.section)
        if found is None or section is None:
            raise NotFoundError(f"no item {shown(item_id)} in the session")
        return self._decided_archived(section.spec.name, section, found)

    def _decided_archived(
        self,
        name: str,
        section: Section,
        version: Archived,
    ) -> Decision:
        item = version.item
        live = [] if item.key is None else section.live_versions(item.key)
        newest = None
        for each in live:
            if not is_older(each, item):
                newest = each
                break
        fault = ""
        if newest is not None and newest.created_at > self.clock():
            newest = None  # a stored turn is asked, which came before the newer version
        if newest is None:
            ended = None if version.ended is None else version.ended[1]
            fault = why_not_held(item, self.known_items(with_files=True), self.clock(), ended)
        if newest is None and not fault and version.position is not None:
            fault = f"{EVICTED} from its section, which keeps {_limit(section)}, and the query did "
            fault += "not recall it"
        same_as = None if newest is None else newest.id
        out = Decision(item.id, name, False, Reason.ARCHIVED, None, None, item.tokens, same_as)
        return replace(out, item=item, fault=fault)

    def _not_then(self) -> str:
        """Return why an item is left out of a look at another time."""
        given = []
        for name, time in (
            ("as_of", self.query.as_of),
            ("known_at", self.query.known_at),
        ):
            if time is not None:
                given.append(f"{name}={time.isoformat()}")
        return f"it did not hold, or was not known, at {' and '.join(given)}"


def _limit(section: Section) -> str:
    """Return how much a section keeps, in words."""
    limits = []
    if section.budget is not None:
        limits.append(f"at most {section.budget:,} tokens")
    if section.spec.max_items is not None:
        limits.append(f"at most {section.spec.max_items:,} items")
    return " and ".join(limits) or "no limit"
