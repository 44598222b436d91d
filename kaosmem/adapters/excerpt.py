"""The newest messages of a thread, read back from its end."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
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


@dataclass(frozen=True)
class Excerpt:
    """What was read of a thread, by position, and from where on it is shown; before that, the newest user message is.

    taken: messages in the thread.
    """

    placed: tuple[Placed, ...]
    start: int
    taken: int

    @classmethod
    def of(cls, placed: Sequence[Placed], *, taken: int, room: int) -> Excerpt:
        """Return an excerpt of messages that is worth `room` tokens at most.

        It is shown from where it may be cut, from the roundest position that leaves at least three quarters of that.
        Units that are larger are not parted.
        """
        whole = cls(tuple(placed), placed[0].position if placed else 0, taken)
        after = [*accumulate((weight(each.message) for each in reversed(placed)), initial=0)][::-1]
        if len(placed) == taken and after[0] <= room:
            return whole
        enough = [cut for cut in whole.outline.cuts_beside(()) if after[cut] >= _LEAST_SHARE * room]
        near = [cut for cut in enough if after[cut] <= room]
        cut = max(near, key=lambda cut: (roundness(placed[cut].position), -cut)) if near else max(enough, default=0)
        return cls(whole.placed, placed[cut].position if cut < len(placed) else taken, taken)

    @cached_property
    def outline(self) -> Outline:
        """The units of what was read."""
        return Outline(each.message for each in self.placed)

    @cached_property
    def must(self) -> frozenset[int]:
        """The places in `placed` of the units that must be shown: the newest user message and unit, and pinned ones."""
        outline = self.outline
        wanted = {*outline.questions[-1:]}
        wanted |= {at for at, each in enumerate(self.placed) if each.message.pinned and each.position >= self.start}
        units = [unit for unit in outline.units if unit[0] not in outline.orphans]
        newest = max((unit[-1] for unit in units), default=-1)
        return frozenset(at for unit in units if newest in unit or not wanted.isdisjoint(unit) for at in unit)

    def shown(self) -> Excerpt:
        """Return the excerpt without what was read beyond it."""
        placed = (each for at, each in enumerate(self.placed) if each.position >= self.start or at in self.must)
        return Excerpt(tuple(placed), self.start, self.taken)

    def replaced(self, left: Iterable[ChatMessage]) -> Excerpt:
        """Return what a strategy left, each message at the position of the one that it is or stands for.

        One that is new, or a summary of several, has the first position that is free after the message before it.
        """
        return Excerpt(tuple(_placed(self.placed, list(left))), self.start, self.taken)


async def read_back(provider: HistoryProvider, agent_id: str, *, session_id: str, room: int) -> Excerpt:
    """Return an excerpt of a thread of about `room` tokens, read in pages from its end, however long it is."""
    while True:
        end = taken = await provider.count_messages(agent_id, session_id=session_id)
        newest_first: list[Placed] = []
        question: Placed | None = None
        weighed, page = 0, max(_FEWEST_READ, room // _TYPICAL_TOKENS)
        while end and (weighed < room or question is None):
            begin = max(0, end - page)
            read = await provider.get_messages(agent_id, session_id=session_id, limit=end - begin, offset=begin)
            if len(read) < end - begin:
                break
            for position, message in zip(range(end - 1, begin - 1, -1), reversed(read), strict=True):
                if question is None and message.role == "user" and not Link.of(message).is_results:
                    question = Placed(position, message, message)
                if weighed < room:
                    newest_first.append(Placed(position, message, message))
                    weighed += weight(message)
            end, mean = begin, max(1, weighed // len(newest_first))
            page = max(_FEWEST_READ, 2 * (room - weighed) // mean if weighed < room else 2 * page)
        else:
            before = [question] if question and question.position < taken - len(newest_first) else []
            return Excerpt.of([*before, *reversed(newest_first)], taken=taken, room=room)
        # Somebody has cleared the thread, or a run of it, meanwhile.


def weight(message: ChatMessage) -> int:
    """Return about how many tokens a message costs: which counter the session has is not known here."""
    return len(message.text.encode()) // _BYTES_A_TOKEN + FRAMING_TOKENS


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
