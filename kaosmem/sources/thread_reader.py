"""A thread of messages, read back from its end in pages."""

from __future__ import annotations

from dataclasses import dataclass

from kaosmem.compaction.transcript import is_record
from kaosmem.sources.excerpt import Excerpt, Placed, weight
from kaosmem.stores import HistoryProvider
from kaosmem.types.items import ChatMessage
from kaosmem.units import Link

_TYPICAL_TOKENS = 100
_FEWEST_READ = 16
_PAGE = 256
_LARGE_PAGE = 1_024


@dataclass(frozen=True, slots=True)
class _Known:
    """The end of a thread when it had `taken` messages.

    question: the newest user message and those before it, back to the calls whose results it holds,
        newest first.
    """

    taken: int
    last: ChatMessage
    question: tuple[Placed, ...]


class ThreadReader:
    """Reads one thread of a provider, from its end."""

    def __init__(self, provider: HistoryProvider, agent_id: str, session_id: str) -> None:
        self._provider = provider
        self._agent_id = agent_id
        self._session_id = session_id
        self._known: _Known | None = None

    async def newest(self, room: int) -> Excerpt:
        """Return the newest messages, worth `room` tokens, and the newest user message, however long the thread is.

        The position of the user message is remembered.
        """
        while True:
            taken = await self._provider.count_messages(self._agent_id, session_id=self._session_id)
            read = await self._read_back(taken, room)
            if read is not None:
                return Excerpt.within(read, room=room, taken=taken)
            # Somebody has cleared the thread, or a run of it, meanwhile.

    async def newest_question(self) -> ChatMessage | None:
        """Return the newest user message, or None."""
        read = await self.newest(0)
        for each in reversed(read.placed):
            link = Link.of(each.message)
            if link.role == "user" and not link.is_results:
                return each.message
        return None

    async def at(self, position: int) -> ChatMessage | None:
        """Return the message at a position, or None."""
        read = await self._page(position, position + 1)
        return read[0] if read else None

    async def page(self, begin: int) -> list[ChatMessage]:
        """Return the messages from a position on, at most a page of them."""
        return await self._page(begin, begin + _LARGE_PAGE)

    async def find(self, message_id: str) -> ChatMessage | None:
        """Return the newest message of that id, or None."""
        end = await self._provider.count_messages(self._agent_id, session_id=self._session_id)
        while end > 0:
            begin = max(0, end - _PAGE)
            for message in reversed(await self._page(begin, end)):
                if message.id == message_id:
                    return message
            end = begin
        return None

    async def _read_back(self, taken: int, room: int) -> list[Placed] | None:
        """Return the messages read, oldest first, None if the thread is shorter by now."""
        newest = _Newest(room)
        end = taken
        page = max(_FEWEST_READ, room // _TYPICAL_TOKENS)
        while end and (newest.weight < room or not newest.has_question):
            if (
                newest.weight >= room
                and self._known
                and end <= self._known.taken
                and await self._is_as_known()
            ):
                newest.question = [*self._known.question]
                break
            begin = max(0, end - page)
            read = await self._page(begin, end)
            if len(read) < end - begin:
                return None
            for position, message in zip(
                range(end - 1, begin - 1, -1), reversed(read), strict=True
            ):
                newest.take(Placed(position, message, message), is_near=end == taken)
            lacking = (
                (room - newest.weight) * len(newest.placed) // max(1, newest.weight)
            )  # messages of their mean weight
            end = begin
            page = 2 * page if lacking <= 0 else max(page, lacking + lacking // 4)
        if newest.placed:
            self._known = _Known(taken, newest.placed[0].message, tuple(newest.question))
        return newest.oldest_first()

    async def _is_as_known(self) -> bool:
        """Return whether the thread begins with the messages known of it: it has only grown since."""
        known = self._known
        if known is None or await self.at(known.taken - 1) != known.last:
            return False
        return (
            not known.question
            or await self.at(known.question[0].position) == known.question[0].message
        )

    async def _page(self, begin: int, end: int) -> list[ChatMessage]:
        return await self._provider.get_messages(
            self._agent_id, session_id=self._session_id, limit=end - begin, offset=begin
        )


class _Newest:
    """The newest messages of a thread while they are read, newest first, and the newest user message.

    They weigh `room`. Reading goes on to the calls of the results among them, if these are near.
    question: the newest user message and those before it, back to the calls whose results it holds.
    """

    def __init__(self, room: int) -> None:
        self.placed: list[Placed] = []
        self.weight = 0
        self.question: list[Placed] = []
        self._unasked: set[str] = set()  # calls whose results the question holds, not read so far
        self._room = room
        self._is_done = False
        self._uncalled: set[str] = set()

    def take(self, placed: Placed, *, is_near: bool) -> None:
        """Take the message before the taken ones; a summary of taken messages does not count as one."""
        if is_record(placed.message):
            return
        link = Link.of(placed.message)
        if self._unasked:
            self.question.append(placed)
            self._unasked.difference_update(link.calls)
        elif not self.question and link.role == "user" and not link.is_results:
            self.question.append(placed)
            self._unasked.update(link.answers)
        if self._is_done:
            return
        self.placed.append(placed)
        self.weight += weight(placed.message)
        self._uncalled = self._uncalled.union(link.answers).difference(link.calls)
        self._is_done = self.weight >= self._room and not (is_near and self._uncalled)

    @property
    def has_question(self) -> bool:
        """Return whether the newest user message was read, with the calls whose results it holds."""
        return bool(self.question) and not self._unasked

    def oldest_first(self) -> list[Placed]:
        """Return the messages that were taken."""
        first = self.placed[-1].position if self.placed else 0
        return [
            *(each for each in reversed(self.question) if each.position < first),
            *reversed(self.placed),
        ]
