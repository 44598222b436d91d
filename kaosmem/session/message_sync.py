"""A caller's whole list of messages, of which each message is stored once.

Frameworks hand over the whole conversation at each call, often rebuilt and without ids. Messages
are compared by their content. The newest live items of the section are looked for in the list, from
the end, so that a call costs what is new, not the length of the list.

There is no chain of hashes. Its first rewritten or shortened message would change the digests of all
later ones, and a stored digest outlives the message that was forgotten.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import count
from typing import NamedTuple

from kaosmem.errors import NotFoundError, SourceError
from kaosmem.language.duplicates import FORMED
from kaosmem.sections.section import Section
from kaosmem.types.content import TextBlock, ThinkingBlock, ToolResultBlock, ToolUseBlock
from kaosmem.types.items import ChatMessage, Item

_ID = re.compile(r"(\d+)-[0-9a-f]{16}")
"""The id of a synced message: its place in the conversation from 0, and a random part.

It has no digest of the message: receipts name ids, and a short text can be guessed by its digest.
"""
_MAX_COMPARED = 64
"""Number of messages before a known one that are compared, too."""


def was_synced(item: Item) -> bool:
    """Return whether a list of messages brought an item."""
    return _ID.fullmatch(item.id) is not None


def facts_taken_back(
    section: Section,
    withdrawn: Collection[str],
    said: Sequence[Item],
) -> list[str]:
    """Return the ids of facts that were formed from withdrawn messages alone.

    A fact whose words one of the messages in their place says, too, stays.
    """
    from kaosmem.formation.quotes import is_quoted_in  # few lists withdraw messages

    gone = {*withdrawn}
    found = []
    for item in section:
        is_fact = FORMED in item.tags and item.metadata.get("kind") != "episodic"
        if is_fact and gone.issuperset(item.sources) and not is_quoted_in(item, said):
            found.append(item.id)
    return found


class SyncPlan(NamedTuple):
    """The changes that make a section hold a list of messages.

    Attributes:
        new: The messages to add, each with its place in the conversation from 0.
        withdrawn: The ids of the items whose messages the list no longer has at its end.
    """

    new: list[tuple[int, ChatMessage]]
    withdrawn: list[str]


class _Known(NamedTuple):
    """A message of the section.

    Attributes:
        item: The item that is the message, or was made of it.
        said: The message, in the form in which messages are compared.
        place: The place of the message in the conversation, from 0. None: unknown.
        prompts: The system messages of the list between this message and the next one.
    """

    item: Item
    said: tuple[str, list[object]]
    place: int | None
    prompts: list[Item]


class MessageSync:
    """Compares a list of messages with a section.

    Args:
        section: The section that holds the conversation.
        messages: All messages of the conversation, or the newest ones.
        parse: Returns a message of the list as a ChatMessage.
        fetch: Returns an archived item by its id. It is asked for the whole of a shortened message,
            and for the newest message that a summary replaced.
    """

    def __init__(
        self,
        section: Section,
        messages: Sequence[object],
        *,
        parse: Callable[[object], ChatMessage],
        fetch: Callable[[str], Awaitable[Item]],
    ) -> None:
        self._items = reversed(section)
        self._given = messages
        self._parse = parse
        self._fetch = fetch
        self._parsed: dict[int, ChatMessage] = {}
        self._seen: list[_Known] = []  # the newest messages of the section, newest first
        self._prompts: list[Item] = []  # system messages of the list, older than the last one seen
        # The number of leading system messages, which are no part of the conversation.
        self._start = 0
        while self._start < len(messages) and self._message(self._start).role == "system":
            self._start += 1

    async def plan(self) -> SyncPlan:
        """Return the changes."""
        found = await self._last_known()
        if found is None:
            return SyncPlan(self._messages_from(self._start, 0), [])
        number, end = found
        prompts = self._seen[number].prompts[::-1]
        told = 0
        while told < len(prompts) and self._is_at(end + told, prompts[told]):
            told += 1
        later = prompts[told:]
        for known in self._seen[:number]:
            later += [known.item, *known.prompts]
        withdrawn = [item.id for item in later if not item.pinned]
        following = end
        place = await self._place(number)
        if place is not None:
            following = place + 1
        return SyncPlan(self._messages_from(end + told, following + told), withdrawn)

    def _is_at(self, at: int, item: Item) -> bool:
        """Return whether a message of the list is an item."""
        if at >= len(self._given):
            return False
        return _comparable(self._message(at)) == _comparable(item.message)

    def _messages_from(self, start: int, place: int) -> list[tuple[int, ChatMessage]]:
        """Return the messages of the list from `start` on. place: of the first one."""
        ends = range(start, len(self._given))
        return [(place + at - start, self._message(at)) for at in ends]

    def _message(self, at: int) -> ChatMessage:
        found = self._parsed.get(at)
        if found is None:
            found = self._parsed[at] = self._parse(self._given[at])
        return found

    async def _last_known(self) -> tuple[int, int] | None:
        """Return the number of the newest message that both have, and its end in the list.

        Short turns may stand at several places. If the list may go on after the newest message of
        all, no message is withdrawn, though the list may begin as the conversation does, too.
        """
        end = await self._end_in_whole_list(0) or await self._end_in_cut_list(0, is_certain=True)
        if end:
            return 0, end
        for number in range(_MAX_COMPARED):
            end = await self._end_in_whole_list(number)
            if end:
                return number, end
        for number in count():
            if await self._known(number) is None:
                return None
            end = await self._end_in_cut_list(number)
            if end:
                return number, end
        return None

    async def _known(self, number: int) -> _Known | None:
        """Return a message of the section, the newest being number 0, or None if it has fewer."""
        while len(self._seen) <= number:
            item = next(self._items, None)
            if item is None:
                return None
            if item.role == "system":
                if was_synced(item):
                    self._prompts.append(item)
                continue
            original = await self._original(item)
            match = _ID.fullmatch(original.id)
            place = int(match[1]) if match else None
            said = _comparable(original.message)
            self._seen.append(_Known(item, said, place, self._prompts))
            self._prompts = []
        return self._seen[number]

    async def _original(self, item: Item) -> Item:
        """Return the newest message that an item was made of, or the item itself."""
        if item.sources:
            with suppress(NotFoundError, SourceError):
                return await self._fetch(item.sources[-1])
        return item

    async def _place(self, number: int) -> int | None:
        """Return the place of a known message: its own, or by a message before it."""
        distance = 0
        for back in range(_MAX_COMPARED):
            known = await self._known(number + back)
            if known is None:
                return None
            if back:
                distance += 1 + len(known.prompts)
            if known.place is not None:
                return known.place + distance
        return None

    async def _end_in_whole_list(self, number: int) -> int:
        """Return the number of messages up to and with a known one, if it is at its own place."""
        place = await self._place(number)
        if place is None:
            return 0
        end = self._start + place + 1
        _, is_all = await self._equal_up_to(end, number)
        if is_all:
            return end
        return 0

    async def _end_in_cut_list(self, number: int, *, is_certain: bool = False) -> int:
        """Return the number of messages up to and with a known one, 0 if the list lacks it.

        The last place is taken where all messages before it are equal, too, or else the place with
        the most equal ones.

        Args:
            is_certain: Take no place where only some of the messages before it are equal.
        """
        best = most = 0
        for end in range(len(self._given), self._start, -1):
            equal, is_all = await self._equal_up_to(end, number)
            if is_all:
                return end
            if equal > most and not is_certain:
                best = end
                most = equal
        return best

    async def _equal_up_to(self, end: int, number: int) -> tuple[int, bool]:
        """Compare the messages up to a place with a known one and those before it.

        System messages between them are passed over: a framework may tell them at one call alone.

        Returns:
            The number of equal messages, and whether these are all that can be compared.
        """
        equal = passed = 0
        while equal < _MAX_COMPARED:
            at = end - 1 - equal - passed
            if at < self._start:
                return equal, equal > 0
            if equal and self._message(at).role == "system":
                passed += 1
                continue
            known = await self._known(number)
            if known is None:
                # The list has earlier messages, so that the section must lack some.
                has_first = equal > 0 and await self._place(number - 1) == 0
                return equal, equal > 0 and not has_first
            number += 1
            if at < len(self._given) and self._is_same(at, known):
                equal += 1
            elif not equal or at >= len(self._given) or not self._is_left_out(at, known):
                return equal, False
        return _MAX_COMPARED, True

    def _is_same(self, at: int, known: _Known) -> bool:
        """Return whether a message of the list is a known one, with its calls or without them."""
        return _comparable(self._message(at)) in (known.said, _words(known.said))

    def _is_left_out(self, at: int, known: _Known) -> bool:
        """Return whether the list may leave a known message out: a call or its results.

        Web pages keep the words of a conversation alone.
        """
        said = _comparable(self._message(at))
        return said == _words(said) and known.said != _words(known.said)


def _comparable(message: ChatMessage) -> tuple[str, list[object]]:
    """Return what two equal messages share: the role and the content.

    Thinking, the seals of texts, calls and results, the names of results and the space around a
    text do not count: many frameworks drop them.
    """
    blocks: list[object] = []
    for block in message.blocks:
        if isinstance(block, ToolResultBlock):
            blocks.append(replace(block, extra="", name=""))
        elif isinstance(block, ToolUseBlock):
            blocks.append(replace(block, extra=""))
        elif isinstance(block, TextBlock):
            blocks.append(TextBlock(block.text.strip()))
        elif not isinstance(block, ThinkingBlock):
            blocks.append(block)
    return message.role, blocks


def _words(said: tuple[str, list[object]]) -> tuple[str, list[object]]:
    """Return a comparable message without calls and results."""
    role, blocks = said
    return role, [each for each in blocks if not isinstance(each, ToolUseBlock | ToolResultBlock)]
