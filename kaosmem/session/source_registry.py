"""All sections and sources that a session may show, by name."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from itertools import islice
from operator import attrgetter
from types import MappingProxyType

from kaosmem.arguments import Clock, check_collection, check_count, check_instance, check_text
from kaosmem.errors import InvalidArgumentError, NotFoundError, SourceError
from kaosmem.filters import Filter, parse_filter
from kaosmem.formation.shelf import FactShelf
from kaosmem.language.query import Query
from kaosmem.names import check_name, name_hint, shown, shown_name
from kaosmem.sections import NamedSource
from kaosmem.sections.proposal import Hit, Source
from kaosmem.sections.section import Section
from kaosmem.sections.spec import SectionSpec, renamed
from kaosmem.session.attachment import AttachedSection, Attachment
from kaosmem.tokens import count_content
from kaosmem.tokens.counters import TokenCounter
from kaosmem.types.content import said_text
from kaosmem.types.items import Item

_MESSAGES_BEFORE = 3
"""So many messages before a question may tell what it is about."""
_CHARS_BEFORE = 1_000


class SourceRegistry:
    """The sections of a session in order of declaration, then its sources in order of attachment.

    Args:
        sections: The sections, now or as they were at another time.
        counter: The counter of the session.

    Attributes:
        attached: The attached sources by name.
        present: For sections as they were, the registry of the sections as they are.
    """

    def __init__(self, sections: Mapping[str, Section], *, counter: TokenCounter) -> None:
        self.sections = sections
        self.attached: dict[str, Attachment] = {}
        self.present: SourceRegistry | None = None
        self._counter = counter
        self._specs = {name: section.spec for name, section in sections.items()}

    def with_sections(self, sections: Mapping[str, Section]) -> SourceRegistry:
        """Return a registry of these sections as they were at a time, with the same sources."""
        other = SourceRegistry(sections, counter=self._counter)
        other.attached = self.attached
        other.present = self
        other._specs = self._specs
        return other

    # Names.

    @property
    def sources(self) -> Mapping[str, Source]:
        """The attached sources by the names that they are shown under."""
        return MappingProxyType({name: each.source for name, each in self.attached.items()})

    @property
    def attached_sections(self) -> dict[str, Section]:
        """The attached sections of other sessions, by name."""
        found = {}
        for name, attached in self.attached.items():
            if isinstance(attached.source, AttachedSection):
                found[name] = attached.source.section
        return found

    def all_sections(self) -> Iterator[tuple[str, Section]]:
        """Yield the sections of the session, then the attached ones, with their names."""
        yield from self.sections.items()
        yield from self.attached_sections.items()

    def attach(
        self,
        source: Source,
        name: str | None,
        *,
        timeout_s: float | None = None,
        required: bool = False,
    ) -> str:
        """Show a source from now on, and return the name that it is shown under.

        Args:
            name: The default is the source's own name, with a number if it is taken.

        Raises:
            InvalidNameError: If the name is not valid.
            InvalidArgumentError: If the name is taken, or another argument is not valid.
        """
        check_instance(source, Source, "source")
        if name is None:
            own = source.spec.name
            name = own
            number = 2
            while name in self._specs:
                name = f"{own}-{number}"
                number += 1
        elif check_name(name, "source") in self._specs:
            raise InvalidArgumentError(
                f"{shown(name)} is the name of a section or source already; give another"
            )
        if name != source.spec.name and isinstance(source, NamedSource):
            source = source.named(name)
        self.attached[name] = Attachment(source, name, timeout_s, required)
        self._specs[name] = renamed(source.spec, name)
        return name

    def detach_all(self) -> None:
        """Show no attached source any more, in views at another time either."""
        for name in self.attached:
            del self._specs[name]
        self.attached.clear()

    def spec(self, name: str) -> SectionSpec:
        """Return the spec that a section or source is shown by. Raises NotFoundError."""
        if name not in self._specs:
            raise NotFoundError(
                f"no section or source {shown_name(name)}; {name_hint(name, self._specs)}"
            )
        return self._specs[name]

    def shown(self, names: Iterable[str] | None) -> dict[str, SectionSpec]:
        """Return the specs of the sections and sources that may be shown.

        Args:
            names: Their names. None stands for all.

        Raises:
            NotFoundError: If a name is unknown.
            InvalidArgumentError: If the names are a single text.
        """
        wanted = self._specs
        if names is not None:
            wanted = {name: self.spec(name) for name in check_collection(names, "sections")}
        in_order = self._specs.items()
        return {name: spec for name, spec in in_order if name in wanted and spec.in_context}

    async def question(self, given: str | None, names: Container[str]) -> tuple[str, str]:
        """Return the question of a call, and what the user said just before it.

        Without a given one, it is the newest question in the histories among these names, without
        tool results. If these have no message, all histories of the session count. If none has
        one, it is the question of the first source among these names that has one.

        The messages before are those of the same history, the oldest first. There are none before
        a question that is not its newest one.
        """
        newest = self._newest_message(names)
        if newest is None:
            if given is not None:
                return given, ""
            return await self._asked_of_sources(names), ""
        section = self.sections[newest.section]
        newest_question = section.question
        question = newest_question if given is None else given
        if question == newest_question:
            asked = len(section.held.newest_questions())
        elif question == said_text(newest.content):
            asked = 1
        else:
            return question, ""
        before = islice(section.held.questions(), asked, asked + _MESSAGES_BEFORE)
        said = [said_text(section.held[at].content) for at in before]
        return question, "\n".join(reversed(said))[-_CHARS_BEFORE:]

    async def _asked_of_sources(self, names: Container[str]) -> str:
        """Return the question of the first source among some names that has one, "" for none."""
        for name, attached in self.attached.items():
            found = await attached.newest_question() if name in names else ""
            if found:
                return found
        return ""

    def _newest_message(self, names: Container[str]) -> Item | None:
        """Return the newest user message in the histories among some names.

        Without any, return that of all histories: a context may show documents alone.
        """
        asked: list[Item] = []
        others: list[Item] = []
        for name, section in self.sections.items():
            question = section.newest_question
            if question is not None:
                found = asked if name in names else others
                found.append(question)
        return max(asked or others, key=attrgetter("created_at"), default=None)

    # Items of the sections.

    def search(
        self,
        text: str,
        section: str | None,
        limit: int,
        *,
        filter: Filter | None,
        archived: bool,
        clock: Clock,
        as_of: datetime | None = None,
        known_at: datetime | None = None,
    ) -> list[Hit]:
        """Return the best items for a query, of one section or of all that may be shown.

        Args:
            as_of: The time at which an item must have held.
            known_at: The time at which the session must have known an item.

        Raises:
            InvalidArgumentError: If an argument is not valid.
            NotFoundError: If the section is unknown.
        """
        wanted = None if filter is None else parse_filter(filter)
        query = Query.read(check_text(text, "query"), clock, as_of=as_of, known_at=known_at)
        check_count(limit, "limit")
        names = {self.spec(section).name} if section else self.shown(None).keys()
        found: list[Hit] = []
        for name, each in self.all_sections():
            if name in names:
                hits = each.proposer.search(query, limit, wanted=wanted, archived=archived)
                found += [replace(hit, section=name) for hit in hits]
        found.sort(key=lambda hit: (-hit.score, -hit.item.created_at.timestamp(), hit.item.id))
        admitted = [hit for hit in found[:limit] if query.admits(hit.item)]
        if not any(hit.item.expires_at for hit in admitted):
            return admitted
        now = clock()
        return [hit for hit in admitted if not hit.item.is_expired(now)]

    @property
    def unread(self) -> dict[str, int]:
        """The number of archived items that a search has left out, by section.

        They are in files that nobody has read.
        """
        found = {}
        for name, section in self.all_sections():
            if section.proposer.is_searched and section.held.unloaded:
                found[name] = section.held.unloaded
        return found

    # Items of the sources.

    async def get(self, item_id: str) -> Item | None:
        """Return an item of a source, or None.

        Raises:
            SourceError: If no source has the item, and one that may have it fails or is late.
        """
        missed: SourceError | None = None
        for name, attached in self.attached.items():
            try:
                for own_id in _own_ids(name, item_id):
                    item = await attached.get(own_id)
                    if item is not None:
                        found = item if own_id == item_id else replace(item, id=item_id)
                        return self.counted(found)
            except SourceError as error:
                missed = missed or error
        if missed is not None:
            raise missed
        return None

    async def forget(self, item_ids: Iterable[str]) -> tuple[dict[str, tuple[str, ...]], list[str]]:
        """Erase items from the sources that hold them.

        Returns:
            The ids that each source has erased, by its name, and the names of the sources that
            cannot erase or failed.
        """
        wanted = list(item_ids)
        unable: list[str] = []
        erased: dict[str, tuple[str, ...]] = {}
        for name, attached in self.attached.items():
            own_ids: dict[str, None] = {}
            for item_id in wanted:
                own_ids |= _own_ids(name, item_id)
            try:
                held = await attached.forget(own_ids)
            except SourceError:
                held = None
            if held is None:
                unable.append(name)
            elif held:
                erased[name] = tuple(held)
        return erased, unable

    async def unerased(
        self, erased: Mapping[str, Sequence[str]], shelves: Mapping[str, FactShelf]
    ) -> list[str]:
        """Return a sentence for each source that holds an erased item, or cannot be asked.

        Args:
            shelves: The long-term memories that got formed facts. They are asked as sources are.
        """
        reasons = []
        for name, item_ids in erased.items():
            attached = self.attached.get(name) or shelves.get(name)
            if attached is None:
                reasons.append(
                    f"source {shown(name)} is not attached; attach it, or give its FactShelf to a "
                    "plan, to have it asked"
                )
                continue
            for item_id in item_ids:
                try:
                    item = await attached.get(item_id)
                except SourceError as error:
                    reasons.append(str(error))
                    break
                if item is not None:
                    reasons.append(f"source {shown(name)} holds item {shown(item_id)}")
        return reasons

    def counted(self, item: Item) -> Item:
        """Return an item of a source as the session counts it.

        The same item gives the same object, which keeps its sizes.
        """
        return item.memo(f"counted {self._counter.name}", self._recounted)

    def _recounted(self, item: Item) -> Item:
        tokens = count_content(item.content, self._counter)
        if item.tokens == tokens:
            return item
        return replace(item, tokens=tokens)


def qualified(name: str, item_id: str) -> str:
    """Return the id of a source's item whose own id another item has."""
    return f"{name}/{item_id}"


def _own_ids(name: str, item_id: str) -> dict[str, None]:
    """Return the ids that a source may have an item under: as given, and without its name."""
    return dict.fromkeys((item_id, item_id.removeprefix(qualified(name, ""))))
