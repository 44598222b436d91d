"""The newest messages of a thread, read back from its end."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate

from kaosmem.compaction import Outline
from kaosmem.stores import HistoryProvider
from kaosmem.types import ChatMessage
from kaosmem.units import Link, roundness

FRAMING_TOKENS = 4
"""What a message is taken to cost beside its text."""
_BYTES_A_TOKEN = 4
_TYPICAL_TOKENS = 100
_FEWEST_READ = 16
# An excerpt is between so much of what may be read and all of it, so that it rarely begins elsewhere.
_LEAST_SHARE = 0.75


@dataclass(frozen=True, slots=True)
class Placed:
    """A message at its position in a thread, and the one that it stands for: itself, one that it shortens, or None."""

    position: int
    message: ChatMessage
    original: ChatMessage | None


@dataclass(frozen=True, slots=True)
class Excerpt:
    """What was read of a thread: all from position `start` on, and the newest user message if it is before that.

    taken: messages in the thread.
    """

    placed: tuple[Placed, ...]
    start: int
    taken: int

    @classmethod
    def of(cls, messages: Sequence[ChatMessage], *, offset: int, room: int) -> Excerpt:
        """Return an excerpt of the last messages of a thread, from position `offset` on, worth `room` tokens at most.

        It begins where it may be cut, at the roundest position that leaves at least three quarters of that. Units that
        are larger are not parted.
        """
        outline = Outline(messages)
        start = 0 if offset == 0 and sum(map(weight, messages)) <= room else _start(outline, offset=offset, room=room)
        question = next((unit for unit in outline.units if not {*outline.questions[-1:]}.isdisjoint(unit)), ())
        shown = [*(place for place in question if place < start), *range(start, len(messages))]
        placed = tuple(Placed(offset + place, messages[place], messages[place]) for place in shown)
        return cls(placed, offset + start, offset + len(messages))

    @property
    def messages(self) -> list[ChatMessage]:
        """Return the messages, oldest first."""
        return [each.message for each in self.placed]

    def replaced(self, left: Iterable[ChatMessage]) -> Excerpt:
        """Return what a strategy left, each message at the position of the one that it is or stands for.

        One that is new, or a summary of several, has the first position that is free after the message before it.
        """
        return Excerpt(tuple(_placed(self.placed, list(left))), self.start, self.taken)


async def read_back(provider: HistoryProvider, agent_id: str, *, session_id: str, room: int) -> Excerpt:
    """Return an excerpt of a thread of about `room` tokens, read in pages from its end, however long it is."""
    while True:
        offset = taken = await provider.count_messages(agent_id, session_id=session_id)
        messages: list[ChatMessage] = []
        weighed, has_question, page = 0, False, max(_FEWEST_READ, room // _TYPICAL_TOKENS)
        while offset and not (weighed >= room and has_question):
            begin = max(0, offset - page)
            read = await provider.get_messages(agent_id, session_id=session_id, limit=offset - begin, offset=begin)
            if len(read) < offset - begin:
                break
            messages = read + messages
            weighed += sum(map(weight, read))
            has_question = has_question or any(map(_is_question, read))
            offset, page = begin, 2 * page
        if len(messages) == taken - offset and (not offset or weighed >= room):
            return Excerpt.of(messages, offset=offset, room=room)
        # Somebody has cleared the thread, or a run of it, meanwhile.


def weight(message: ChatMessage) -> int:
    """Return about how many tokens a message costs: which counter the session has is not known here."""
    return len(message.text.encode()) // _BYTES_A_TOKEN + FRAMING_TOKENS


def _is_question(message: ChatMessage) -> bool:
    return message.role == "user" and not Link.of(message).is_results


def _start(outline: Outline, *, offset: int, room: int) -> int:
    after = [*accumulate(map(weight, reversed(outline.messages)), initial=0)][::-1]
    enough = [cut for cut in outline.cuts_beside(()) if after[cut] >= _LEAST_SHARE * room]
    near = [cut for cut in enough if after[cut] <= room]
    return max(near, key=lambda cut: (roundness(offset + cut), -cut)) if near else max(enough, default=0)


def _placed(placed: Sequence[Placed], left: Sequence[ChatMessage]) -> Iterator[Placed]:
    """Yield messages in their order at ascending positions; `placed` are those that they were made of."""
    ranks: dict[int, list[int]] = {}
    for rank in range(len(placed) - 1, -1, -1):
        ranks.setdefault(id(placed[rank].message), []).append(rank)
    kept = [ranks[id(message)].pop() if ranks.get(id(message)) else None for message in left]
    ends = [len(placed)]  # of each message left, the rank of the next one kept
    for same in reversed(kept):
        ends.append(ends[-1] if same is None else same)
    position, rank = -1, 0
    for message, same, end in zip(left, kept, ends[-2::-1], strict=True):
        gap = range(rank, end) if same is None else range(same, same + 1)
        found = next((each for each in gap if same is not None or _shortens(message, placed[each].message)), None)
        if gap:
            rank = gap[0] if found is None else found
            position = max(position + 1, placed[rank].position)
            rank += 1
        else:
            position += 1
        yield Placed(position, message, None if found is None else placed[found].message)


def _shortens(message: ChatMessage, original: ChatMessage) -> bool:
    if message.id or original.id:
        return message.id == original.id
    return message.role == original.role and Link.of(message) == Link.of(original)
