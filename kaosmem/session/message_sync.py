"""A caller's whole list of messages, of which each message is stored once.

Frameworks hand over the whole conversation at each call, often rebuilt and without ids. Messages
are compared by their content. The newest live items of the section are looked for in the list, from
the end, so that a call costs what is new, not the length of the list.
"""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable, Sequence
from functools import cached_property
from hashlib import blake2b
from itertools import count
from typing import NamedTuple

from kaosmem.sections.section import Section
from kaosmem.types.content import ThinkingBlock, content_json
from kaosmem.types.items import ChatMessage, Item

_ID = re.compile(r"(?P<digest>[0-9a-f]{16})-(?P<place>\d+)-(?P<chain>[0-9a-f]{16})")
_MAX_COMPARED = 64
"""Number of messages before a known one that are compared, too."""


class SyncedMessage(NamedTuple):
    """A message of the list with the id of its item.

    An id holds the digest of the message, its place in the conversation from 0, and the digest of
    all messages up to it. So the message is known again after its item was shortened, summarised or
    evicted.
    """

    item_id: str
    message: ChatMessage


class SyncPlan(NamedTuple):
    """The changes that make a section hold a list of messages.

    Attributes:
        new: The messages to add.
        withdrawn: The ids of the items whose messages the list no longer has at its end.
    """

    new: list[SyncedMessage]
    withdrawn: list[str]


class _Known(NamedTuple):
    """A message of the section.

    Attributes:
        item: The item that is the message, or was made of it.
        digest: The digest of the message.
        place: The place of the message in the conversation, from 0. None: unknown.
        chain: The digest of all messages up to this one.
    """

    item: Item
    digest: str
    place: int | None
    chain: str


class MessageSync:
    """Compares a list of messages with a section.

    Args:
        section: The section that holds the conversation.
        messages: All messages of the conversation, or the newest ones.
        parse: Returns a message of the list as a ChatMessage.
    """

    def __init__(
        self, section: Section, messages: Sequence[object], parse: Callable[[object], ChatMessage]
    ) -> None:
        self._section = section
        self._given = messages
        self._parse = parse
        self._items = reversed(section)
        self._seen: list[_Known] = []  # the newest messages of the section, newest first
        self._parsed: dict[int, ChatMessage] = {}
        self._digests: dict[int, str] = {}

    async def plan(self, is_stored: Callable[[str], Awaitable[bool]]) -> SyncPlan:
        """Return the changes.

        Args:
            is_stored: Says whether the archive has an item. It is asked only if the section holds
                no message of the list.
        """
        found = self._last_known()
        if found is None:
            synced = self._ids_from(self._start, 0, self._section.spec.name)
            return SyncPlan(synced[await _count_stored(synced, is_stored) :], [])
        number, end = found
        later = [each.item for each in self._seen[:number]]
        withdrawn = [item.id for item in later if not item.pinned]
        place = self._place(number)
        chain = self._seen[number].chain
        return SyncPlan(self._ids_from(end, end if place is None else place + 1, chain), withdrawn)

    def _last_known(self) -> tuple[int, int] | None:
        """Return the number of the newest message that both have, and its end in the list."""
        for number in range(_MAX_COMPARED):
            if self._known(number) is None:
                break
            end = self._end_in_whole_list(number)
            if end:
                return number, end
        for number in count():
            if self._known(number) is None:
                return None
            end = self._end_in_cut_list(number)
            if end:
                return number, end
        return None

    def _known(self, number: int) -> _Known | None:
        """Return a message of the section, the newest being number 0, or None if it has fewer."""
        while len(self._seen) <= number:
            item = next(self._items, None)
            if item is None:
                return None
            synced = _synced_id(item)
            if synced is not None:
                place = int(synced["place"])
                self._seen.append(_Known(item, synced["digest"], place, synced["chain"]))
            elif item.role != "system" and not item.sources:
                self._seen.append(_Known(item, message_digest(item.message), None, item.id))
        return self._seen[number]

    def _place(self, number: int) -> int | None:
        """Return the place of a known message: its own, or by a message before it."""
        for back in range(_MAX_COMPARED):
            known = self._known(number + back)
            if known is None:
                return None
            if known.place is not None:
                return known.place + back
        return None

    def _end_in_whole_list(self, number: int) -> int:
        """Return the number of messages up to and with a known one, if it is at its own place."""
        place = self._place(number)
        if place is None:
            return 0
        end = self._start + place + 1
        _, is_all = self._equal_up_to(end, number)
        return end if is_all else 0

    def _end_in_cut_list(self, number: int) -> int:
        """Return the number of messages up to and with a known one, 0 if the list lacks it.

        The last place is taken where all messages before it are equal, too, or else the place with
        the most equal ones.
        """
        best = most = 0
        for end in range(len(self._given), self._start, -1):
            equal, is_all = self._equal_up_to(end, number)
            if is_all:
                return end
            if equal > most:
                best = end
                most = equal
        return best

    def _equal_up_to(self, end: int, number: int) -> tuple[int, bool]:
        """Compare the messages up to a place with a known one and those before it.

        Returns:
            The number of equal messages, and whether these are all that can be compared.
        """
        for equal in range(_MAX_COMPARED):
            at = end - 1 - equal
            known = self._known(number + equal)
            if known is None or at < self._start:
                return equal, equal > 0
            if at >= len(self._given) or self._digest(at) != known.digest:
                return equal, False
        return _MAX_COMPARED, True

    def _digest(self, at: int) -> str:
        found = self._digests.get(at)
        if found is None:
            found = self._digests[at] = message_digest(self._message(at))
        return found

    def _message(self, at: int) -> ChatMessage:
        found = self._parsed.get(at)
        if found is None:
            found = self._parsed[at] = self._parse(self._given[at])
        return found

    @cached_property
    def _start(self) -> int:
        """The number of leading system messages, which are no part of the conversation."""
        for at in range(len(self._given)):
            if self._message(at).role != "system":
                return at
        return len(self._given)

    def _ids_from(self, start: int, place: int, chain: str) -> list[SyncedMessage]:
        """Return the messages of the list from `start` on with their ids.

        place: of the first of them in the conversation. chain: of the message before it.
        """
        synced = []
        for at in range(start, len(self._given)):
            digest = self._digest(at)
            chain = _digest(chain + digest)
            item_id = f"{digest}-{place + at - start}-{chain}"
            synced.append(SyncedMessage(item_id, self._message(at)))
        return synced


async def _count_stored(
    synced: Sequence[SyncedMessage], is_stored: Callable[[str], Awaitable[bool]]
) -> int:
    """Return the number of leading messages that are stored, by bisection."""
    low = 0
    high = len(synced)
    while low < high:
        middle = (low + high) // 2
        if await is_stored(synced[middle].item_id):
            low = middle + 1
        else:
            high = middle
    return low


def message_digest(message: ChatMessage) -> str:
    """Return a digest of the role and the content of a message.

    Thinking and the seals of calls do not count: many frameworks drop them.

    >>> message_digest(ChatMessage("user", "Hi")) == message_digest(ChatMessage("user", "Ho"))
    False
    """
    blocks = tuple(each for each in message.blocks if not isinstance(each, ThinkingBlock))
    content = content_json(blocks)
    for block in content if isinstance(content, list) else []:
        if isinstance(block, dict):
            block.pop("extra", None)
    return _digest(json.dumps([message.role, content], sort_keys=True))


def _digest(text: str) -> str:
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()


def _synced_id(item: Item) -> re.Match[str] | None:
    """Return the id of the newest synced message that an item is, or was made of."""
    for item_id in (item.id, *reversed(item.sources)):
        match = _ID.fullmatch(item_id)
        if match:
            return match
    return None
