"""New items: checked, counted, with an id, a time, a role and a trust."""

from __future__ import annotations

import random
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta

from kaosmem.arguments import (
    Clock,
    check_collection,
    check_flag,
    check_metadata,
    check_text,
    check_ttl,
    is_integer,
)
from kaosmem.assembly.shortening import shortened
from kaosmem.errors import DuplicateError, InvalidArgumentError, NotFoundError
from kaosmem.names import check_item_id, shown, shown_number
from kaosmem.sections.section import Section
from kaosmem.sections.spec import SectionSpec
from kaosmem.tokens import count_content
from kaosmem.tokens.counters import TokenCounter
from kaosmem.types import Content, ContentBlock, JSONObject
from kaosmem.types.content import Trust, check_content, trust_of
from kaosmem.types.items import Item
from kaosmem.units import Link

_SHOWN_SHARES = (8, 64, 512)
"""A result that its section has no room for is shown in one of these fractions of the section's
budget, at three characters a token.
"""
_CHARS_A_TOKEN = 3


class ItemFactory:
    """Makes the items of one session.

    Args:
        sections: All of the session's, by name.
        clock: Gives aware times.
        rng: Where ids come from.
        forgotten: Ids that no new item may name as a source.
    """

    def __init__(
        self,
        sections: Mapping[str, Section],
        *,
        counter: TokenCounter,
        clock: Clock,
        rng: random.Random,
        forgotten: Container[str],
    ) -> None:
        self._sections = sections
        self._counter = counter
        self._clock = clock
        self._rng = rng
        self._forgotten = forgotten

    def make(
        self,
        spec: SectionSpec,
        content: str | Iterable[ContentBlock | JSONObject],
        *,
        role: str | None = None,
        id: str | None = None,
        key: str | None = None,
        priority: int = 0,
        pinned: bool = False,
        tags: Iterable[str] = (),
        metadata: JSONObject | None = None,
        sources: Iterable[str] = (),
        trust: Trust | None = None,
        ttl_s: float | None = None,
    ) -> Item:
        """Return an item for a section. The arguments are those of `SessionMemory.add`.

        Raises:
            DuplicateError: If an item with the id is live.
            NotFoundError: If a source was forgotten.
            InvalidNameError: If an id is not valid.
            InvalidArgumentError: If another argument is not valid.
        """
        checked = check_content(content)
        if role is None:
            role = _usual_role(spec)
        check_text(role, "role")
        known_sources = self._sources(sources)
        if id is not None and self.section_of(check_item_id(id)):
            raise DuplicateError(
                f"an item {shown(id)} is live; update() it, or leave the id out to have one made"
            )
        _check_numbers(priority, pinned)
        created_at = self._clock()
        given_trust = None if trust is None else _known_trust(trust)
        return Item(
            id=id or self.free_id(),
            section=spec.name,
            role=role,
            content=checked,
            tokens=count_content(checked, self._counter),
            created_at=created_at,
            priority=priority,
            pinned=pinned,
            tags=tuple(check_text(tag, "a tag") for tag in check_collection(tags, "tags")),
            metadata=check_metadata(metadata),
            key=_checked_key(key),
            sources=known_sources,
            trust=self._trust(spec, role, checked, known_sources, given_trust),
            expires_at=self._end(created_at, ttl_s, known_sources),
        )

    def _sources(self, given: Iterable[str]) -> tuple[str, ...]:
        """Return the checked ids of sources. Raises NotFoundError if one was forgotten."""
        sources = tuple(map(check_item_id, check_collection(given, "sources")))
        for source in sources:
            if source in self._forgotten and self.section_of(source) is None:
                raise NotFoundError(
                    f"item {shown(source)} was forgotten; nothing derived from it may be kept"
                )
        return sources

    def shortened(self, spec: SectionSpec, item: Item) -> Iterator[Item]:
        """Yield ever shorter copies of a result that its section has no room for, with a note."""
        if not spec.is_history or spec.budget is None or not Link.of(item).is_results:
            return
        for share in _SHOWN_SHARES:
            copy = shortened(item, _CHARS_A_TOKEN * spec.budget // share, self._counter)
            if copy.tokens < item.tokens:
                yield copy

    def section_of(self, item_id: str) -> Section | None:
        """Return the section that has a live item.

        Raises InvalidNameError for what can't be an id.
        """
        if not isinstance(item_id, str):
            check_item_id(item_id)
        for section in self._sections.values():
            if item_id in section:
                return section
        return None

    def free_id(self, wanted: str = "") -> str:
        """Return an id that no live item has: the wanted one, if that is free."""
        if wanted and self.section_of(check_item_id(wanted)) is None:
            return wanted
        while True:
            item_id = f"{self._rng.getrandbits(64):016x}"
            if self.section_of(item_id) is None:
                return item_id

    def _live(self, item_ids: Iterable[str]) -> list[Item]:
        """Return the live items among some ids."""
        found = []
        for item_id in item_ids:
            section = self.section_of(item_id)
            if section is not None:
                found.append(section.peek(item_id))
        return found

    def _end(
        self,
        created_at: datetime,
        ttl_s: float | None,
        sources: Sequence[str],
    ) -> datetime | None:
        """Return when an item ends: no later than the first of its live sources."""
        live = self._live(sources)
        ends = [item.expires_at for item in live if item.expires_at is not None]
        if ttl_s is not None:
            try:
                ends.append(created_at + timedelta(seconds=check_ttl(ttl_s, "ttl_s")))
            except OverflowError:
                raise InvalidArgumentError(
                    f"ttl_s is {ttl_s:g}, beyond the year 9999; leave it out for ever"
                ) from None
        return min(ends, default=None)

    def _trust(
        self,
        spec: SectionSpec,
        role: str,
        content: Content,
        sources: Sequence[str],
        given: Trust | None,
    ) -> Trust:
        if not sources:
            usual = Trust.APPLICATION if spec.placement == "static" else trust_of(role, content)
            if given is None:
                return usual
            return given
        if spec.placement == "static":
            raise InvalidArgumentError(
                f"section {spec.name!r} is static: a derived item may not stand in the system "
                "message; add it to another section, or without sources"
            )
        known = self._live(sources)
        lowest = min((item.trust for item in known), default=Trust.EXTERNAL)
        if len(known) < len(sources):
            lowest = Trust.EXTERNAL
        if given is not None and given > lowest:
            raise InvalidArgumentError(
                f"trust {given.name} is higher than {lowest.name}, the lowest of the sources; "
                "leave trust out"
            )
        if given is None:
            return lowest
        return given


def _usual_role(spec: SectionSpec) -> str:
    """Return the role of an item that is added without one."""
    if spec.name == "role":
        return "system"
    if spec.is_history:
        return "user"
    return ""


def _checked_key(key: str | None) -> str | None:
    """Return a key. Raises InvalidArgumentError for an empty one: unrelated items would share it."""
    if key is None or check_text(key, "key"):
        return key
    raise InvalidArgumentError("key is empty; leave it out, or name the thing that the item is of")


def _check_numbers(priority: object, pinned: object) -> None:
    if not is_integer(priority):
        raise InvalidArgumentError(
            f"priority is {shown_number(priority)}; give a whole number within 64 bits, higher "
            "for more important"
        )
    check_flag(pinned, "pinned")


def _known_trust(given: int) -> Trust:
    try:
        return Trust(given)  # a number of one too
    except ValueError:
        raise InvalidArgumentError(
            f"trust is {shown_number(given)}; give a Trust, such as Trust.USER"
        ) from None
