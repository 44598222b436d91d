"""All sections and sources that a session may show."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from itertools import chain, count
from types import MappingProxyType

from kaosmem.arguments import Clock, check_count, check_instance, check_several
from kaosmem.assembly import Decision, Reason, SourceReport
from kaosmem.assembly.allocation import cap_of
from kaosmem.errors import InvalidArgumentError, NotFoundError, SourceError
from kaosmem.filters import MetadataFilter
from kaosmem.names import check_name, shown, shown_name
from kaosmem.retrieval import Query
from kaosmem.sections import (
    Candidate,
    EvictedItem,
    Hit,
    NamedSource,
    Proposal,
    Section,
    SectionSpec,
    Source,
    read_evicted,
    renamed,
)
from kaosmem.sections.proposer import LABEL_TOKENS
from kaosmem.session.attachment import AttachedSection, Attachment
from kaosmem.tokens import TokenCounter, count_content
from kaosmem.types import Item, ToolResultBlock, content_text


class Roster:
    """The sections of a session, in order of declaration, then its sources, in order of attachment, by name."""

    def __init__(self, sections: Mapping[str, Section], *, counter: TokenCounter) -> None:
        self.sections = sections
        self._counter = counter
        self._attached: dict[str, Attachment] = {}
        self._specs = {name: section.spec for name, section in sections.items()}
        self._now: Roster | None = None  # if these are sections as they were

    def over(self, sections: Mapping[str, Section]) -> Roster:
        """Return a roster of these sections as they were at other times, with the same sources."""
        other = Roster(sections, counter=self._counter)
        other._attached = self._attached
        other._specs = self._specs
        other._now = self
        return other

    @property
    def sources(self) -> Mapping[str, Source]:
        """Return the attached sources by the names that they are shown under."""
        return MappingProxyType(
            {name: attached.source for name, attached in self._attached.items()}
        )

    def attach(
        self,
        source: Source,
        name: str | None,
        *,
        timeout_s: float | None = None,
        required: bool = False,
    ) -> str:
        """Show a source from now on, and return under which name.

        name: None is the source's own, numbered where that is taken.
        Raises InvalidNameError and InvalidArgumentError.
        """
        check_instance(source, Source, "source")
        if name is None:
            own = source.spec.name
            numbered = chain([own], (f"{own}-{number}" for number in count(2)))
            name = next(free for free in numbered if free not in self._specs)
        elif check_name(name, "source") in self._specs:
            raise InvalidArgumentError(
                f"{shown(name)} is the name of a section or source already; give another"
            )
        if name != source.spec.name and isinstance(source, NamedSource):
            source = source.named(name)
        self._attached[name] = Attachment(source, name, timeout_s, required)
        self._specs[name] = renamed(source.spec, name)
        return name

    def spec(self, name: str) -> SectionSpec:
        """Return the spec that a section or source is shown by. Raises NotFoundError."""
        if name not in self._specs:
            raise NotFoundError(
                f"no section or source {shown_name(name)}; there are {', '.join(self._specs)}"
            )
        return self._specs[name]

    def shown(self, names: Iterable[str] | None) -> dict[str, SectionSpec]:
        """Return the specs of the sections and sources that may be shown, by these names or all.

        Raises NotFoundError, and InvalidArgumentError for one name alone.
        """
        given = self._specs if names is None else check_several(names, "sections")
        wanted = {self.spec(name).name for name in given}
        return {
            name: spec for name, spec in self._specs.items() if spec.in_context and name in wanted
        }

    def newest_question(self) -> str:
        """Return the text of the newest user message in all histories, without tool results; "" if there is none."""
        newest = [
            item for section in self.sections.values() if (item := section.proposer.newest_question)
        ]
        if not newest:
            return ""
        blocks = max(newest, key=lambda item: item.created_at).message.blocks
        return content_text(
            tuple(block for block in blocks if not isinstance(block, ToolResultBlock))
        )

    async def question(self, names: Collection[str]) -> str:
        """Return the text of the newest user message in all histories of the session.

        Without one, return that of the first source among these names that has one.
        """
        found = self.newest_question()
        for name, attached in self._attached.items():
            if not found and name in names:
                found = await attached.newest_question()
        return found

    async def propose(
        self,
        specs: Mapping[str, SectionSpec],
        query: Query,
        *,
        window: int,
        wanted: MetadataFilter | None,
        clock: Clock,
        block: int | None = None,
    ) -> tuple[dict[str, Proposal], dict[str, SourceReport]]:
        """Return the proposals of these sections and sources, and the reports of the sources.

        All are awaited together.

        clock: says which items are expired; their units are left out.
        block: the most that the sections outside the histories may take together; None is the
            window.
        Drop a candidate of a source whose id a section has live or an earlier source proposes, if
        the contents are equal. If they differ, prefix its id with the name of its source.
        Raises SourceError for the first that is required and failed, or is late.
        """
        block = window if block is None else min(window, block)
        caps = {
            name: cap_of(spec, block if spec.placement == "query" else window)
            for name, spec in specs.items()
        }
        asked = {name: attached for name, attached in self._attached.items() if name in specs}
        answers = await asyncio.gather(
            *(
                attached.propose(query, cap=caps[name], wanted=wanted)
                for name, attached in asked.items()
            ),
            # so that none is left running, and the error is the same whoever was first
            return_exceptions=True,
        )
        sections = {name: section for name, section in self.sections.items() if name in specs}
        is_crowded = bool(asked) or _may_be_crowded(sections, block)
        own: dict[str, Proposal] = {}
        while True:
            unread = {name: proposal.unread for name, proposal in own.items() if proposal.unread}
            if len(own) == len(sections) and not unread:
                break
            await _caught_up(sections, caps, unread, is_crowded=is_crowded)
            for name, section in sections.items():  # all at one moment
                own[name] = section.proposer.propose(
                    query, cap=caps[name], wanted=wanted, is_crowded=is_crowded
                )
        for name, section in sections.items():
            section.proposer.keep_texts(own[name])
        known = _KnownItems(sections.values())
        proposals: dict[str, Proposal] = {}
        for name, proposal in own.items():
            proposals[name] = _unexpired(_without_reused(proposal, sections[name], known), clock)
        reports: dict[str, SourceReport] = {}
        for name, answer in zip(asked, answers, strict=True):
            if isinstance(answer, BaseException):
                raise answer
            offered, reports[name] = answer
            if offered is not None:
                offered = _passed(_admitted(offered, query), specs[name], wanted)
                proposals[name] = self._taken_in(name, _unexpired(offered, clock), known)
        return proposals, reports

    def use(self, items: Iterable[Item]) -> None:
        """Mark a use of each of these items. Items of sources are not marked."""
        ids: dict[str, list[str]] = {}
        for item in items:
            ids.setdefault(item.section, []).append(item.id)
        for name, item_ids in ids.items():
            if name in self.sections:
                self.sections[name].use(item_ids)

    def decide(
        self,
        item_id: str,
        *,
        query: Query,
        shown_names: Collection[str],
        wanted: MetadataFilter | None,
        now: datetime,
    ) -> Decision:
        """Return the decision on an item that was not proposed. Raises NotFoundError."""
        for name, section in self._all_sections():
            if item_id in section:
                reason = Reason.OUTRANKED if name in shown_names else Reason.NOT_SHOWN
                item = section.peek(item_id)
                fault = ""
                if reason is Reason.OUTRANKED and not section.proposer.is_passed(item_id, wanted):
                    reason = Reason.FILTERED
                    if wanted is not None:
                        fault = wanted.faults(item.metadata) or section.held.unanswered(wanted)
                rank = None
                score = None
                placement = section.spec.placement
                if reason is Reason.OUTRANKED and placement != "static":
                    rank, score = section.proposer.place(query, item_id)
                    is_unrelated = score is None and query.has_topic and placement == "query"
                    reason = Reason.UNRELATED if is_unrelated else reason
                return Decision(
                    item_id, name, False, reason, rank, score, item.tokens, item=item, fault=fault
                )
        for name, section in self.sections.items():
            if archived := section.archive.get(item_id):
                newest = None if archived.key is None else section.keyed(archived.key)
                same_as = newest.id if newest else None
                ended = archived.expires_at
                fault = (
                    f"it expired on {ended.isoformat()}"
                    if ended and newest is None and ended <= now
                    else ""
                )
                left = Decision(
                    item_id, name, False, Reason.ARCHIVED, None, None, archived.tokens, same_as
                )
                return replace(left, item=archived, fault=fault)
        if self._now is not None:
            decision = self._now.decide(
                item_id, query=query, shown_names=shown_names, wanted=wanted, now=now
            )
            fault = decision.fault or _not_then(query)
            return replace(
                decision, reason=Reason.FILTERED, same_as=None, rank=None, score=None, fault=fault
            )
        raise NotFoundError(
            f"no item {shown(item_id)} in memory; fetch() looks in the stored archive too"
        )

    def search(
        self,
        query: Query,
        section: str | None,
        limit: int,
        *,
        wanted: MetadataFilter | None,
        archived: bool,
    ) -> list[Hit]:
        """Return the items most relevant to a query, of one section or of all that may be shown."""
        check_count(limit, "limit")
        names = {self.spec(section).name} if section else self.shown(None).keys()
        found: list[Hit] = []
        for name, each in self._all_sections():
            if name in names:
                hits = each.proposer.search(query, limit, wanted=wanted, archived=archived)
                found += [replace(hit, section=name) for hit in hits]
        found.sort(key=lambda hit: (-hit.score, -hit.item.created_at.timestamp(), hit.item.id))
        return found[:limit]

    @property
    def unread(self) -> dict[str, int]:
        """Return how many archived items a search has left out, by section, since their texts are not at hand."""
        searched = {name: each for name, each in self._all_sections() if each.proposer.is_searched}
        counts = {
            name: each.held.past.unloaded + len(each.held.past.without_text)
            for name, each in searched.items()
        }
        return {name: count for name, count in counts.items() if count}

    async def get(self, item_id: str) -> Item | None:
        """Return an item of a source, or None.

        Raises SourceError where no source has it and one that may have it failed, or is late.
        """
        missed: SourceError | None = None
        for name, attached in self._attached.items():
            try:
                for own_id in dict.fromkeys((item_id, _own_id(name, item_id))):
                    item = await attached.get(own_id)
                    if item is not None:
                        return self._counted_item(
                            item if own_id == item_id else replace(item, id=item_id)
                        )
            except SourceError as error:
                missed = missed or error
        if missed:
            raise missed
        return None

    async def forget(self, item_ids: Iterable[str]) -> tuple[dict[str, tuple[str, ...]], list[str]]:
        """Have the sources forget what they hold of these items.

        Returns the ids that each source has erased, by its name, and the names of sources that
        can't erase or failed.
        """
        wanted = list(item_ids)
        unable = list[str]()
        erased: dict[str, tuple[str, ...]] = {}
        for name, attached in self._attached.items():
            ids = dict.fromkeys(
                each for item_id in wanted for each in (item_id, _own_id(name, item_id))
            )
            try:
                held = await attached.forget(ids)
            except SourceError:
                held = None
            if held is None:
                unable.append(name)
            elif held:
                erased[name] = tuple(held)
        return erased, unable

    async def unerased(self, erased: Mapping[str, Sequence[str]]) -> list[str]:
        """Return a sentence for each source that holds an erased item, or can't be asked for it."""
        reasons = []
        for name, item_ids in erased.items():
            attached = self._attached.get(name)
            if attached is None:
                reasons.append(f"source {shown(name)} is not attached; attach it to have it asked")
                continue
            for item_id in item_ids:
                try:
                    is_there = await attached.get(item_id) is not None
                except SourceError as error:
                    reasons.append(str(error))
                    break
                if is_there:
                    reasons.append(f"source {shown(name)} holds item {shown(item_id)}")
        return reasons

    @property
    def attached_sections(self) -> dict[str, Section]:
        """Return the attached sections of other sessions, by name."""
        sources = ((name, attached.source) for name, attached in self._attached.items())
        return {
            name: source.section for name, source in sources if isinstance(source, AttachedSection)
        }

    def _all_sections(self) -> Iterator[tuple[str, Section]]:
        yield from self.sections.items()
        yield from self.attached_sections.items()

    def _taken_in(self, name: str, proposal: Proposal, known: _KnownItems) -> Proposal:
        """Return a source's proposal without known items, counted by the session's counter."""

        def taken_in(units: Iterable[Candidate]) -> Iterator[Candidate]:
            for unit in units:
                clashes = [
                    (item, other)
                    for item in unit.items
                    if (other := known.get(item.id)) is not None
                ]
                if not clashes:
                    yield self._counted(unit)
                elif any(item.content != other.content for item, other in clashes):
                    items = tuple(
                        replace(item, id=_qualified(name, item.id)) for item in unit.items
                    )
                    yield self._counted(unit._replace(items=items))

        candidates = tuple(taken_in(proposal.candidates))
        earlier = tuple(taken_in(proposal.earlier))
        known.enter(item for unit in (*candidates, *earlier) for item in unit.items)
        return replace(proposal, candidates=candidates, earlier=earlier)

    def _counted(self, unit: Candidate) -> Candidate:
        items = tuple(map(self._counted_item, unit.items))
        if items == unit.items:
            return unit
        return unit._replace(items=items, tokens=sum(item.tokens for item in items))

    def _counted_item(self, item: Item) -> Item:
        """Return an item as the session counts it: of the same item always the same, which keeps its sizes."""
        return item.memo(f"counted {self._counter.name}", self._recounted)

    def _recounted(self, item: Item) -> Item:
        tokens = count_content(item.content, self._counter)
        return item if item.tokens == tokens else replace(item, tokens=tokens)


async def _caught_up(
    sections: Mapping[str, Section],
    caps: Mapping[str, int],
    unread: Mapping[str, Sequence[EvictedItem]],
    *,
    is_crowded: bool,
) -> None:
    """Read evicted items, and index the sections that are to be ranked, in other threads."""
    for name, evicted in unread.items():
        sections[name].ledger.take_in(await asyncio.to_thread(read_evicted, evicted))
    while True:
        lagging = [
            each
            for name, each in sections.items()
            if each.proposer.lag(cap=caps[name], is_crowded=is_crowded)
        ]
        if not lagging:
            return
        await asyncio.gather(*(asyncio.to_thread(each.index.catch_up) for each in lagging))


def _may_be_crowded(sections: Mapping[str, Section], window: int) -> bool:
    """Return whether sections may not fit a window as a whole; a layout adds labels and headers to their tokens."""
    items = sum(map(len, sections.values()))
    return 2 * sum(section.used for section in sections.values()) + LABEL_TOKENS * items > window


def _admitted(proposal: Proposal, query: Query) -> Proposal:
    """Return a source's proposal without units that are newer than the times that the query asks for."""
    if query.as_of is None and query.known_at is None:
        return proposal
    return proposal.filtered(lambda unit: all(map(query.admits, unit.items)))


def _passed(proposal: Proposal, spec: SectionSpec, wanted: MetadataFilter | None) -> Proposal:
    """Return a source's proposal without units that do not pass a filter, whatever the source makes of it.

    The newest messages of a history need not pass.
    """
    if wanted is None or spec.placement == "static":
        return proposal
    passed = proposal.filtered(lambda unit: any(wanted(item.metadata) for item in unit.items))
    return (
        replace(passed, candidates=proposal.candidates) if spec.placement == "history" else passed
    )


def _unexpired(proposal: Proposal, clock: Clock) -> Proposal:
    """Return a proposal without units that hold an item whose time to live is over."""
    units = (*proposal.candidates, *proposal.earlier)
    if all(item.expires_at is None for unit in units for item in unit.items):
        return proposal
    now = clock()
    return proposal.filtered(lambda unit: not any(item.is_expired(now) for item in unit.items))


def _not_then(query: Query) -> str:
    """Return why an item is left out of a look at an earlier time."""
    times = (("as_of", query.as_of), ("known_at", query.known_at))
    given = " and ".join(f"{name}={time.isoformat()}" for name, time in times if time is not None)
    return f"it did not hold, or was not known, at {given}"


class _KnownItems:
    """Items that a context may already hold, by id: the live items of sections, and the entered ones."""

    def __init__(self, sections: Iterable[Section]) -> None:
        self._sections = [section for section in sections if len(section)]
        self._entered: dict[str, Item] = {}

    def get(self, item_id: str) -> Item | None:
        live = (section.peek(item_id) for section in self._sections if item_id in section)
        return next(live, self._entered.get(item_id))

    def enter(self, items: Iterable[Item]) -> None:
        self._entered |= {item.id: item for item in items}


def _without_reused(proposal: Proposal, section: Section, known: _KnownItems) -> Proposal:
    """Return a section's proposal without evicted items whose id another item has by now.

    Evicted items that are proposed become known.
    """
    if not proposal.evicted:
        return proposal

    def is_new(unit: Candidate) -> bool:
        evicted = [item for item in unit.items if item.id not in section] if unit.recalled else []
        if any(known.get(item.id) is not None for item in evicted):
            return False
        known.enter(evicted)
        return True

    return proposal.filtered(is_new)


def _qualified(name: str, item_id: str) -> str:
    return f"{name}/{item_id}"


def _own_id(name: str, item_id: str) -> str:
    return item_id.removeprefix(_qualified(name, ""))
