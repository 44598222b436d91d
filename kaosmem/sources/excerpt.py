"""The newest messages of a thread, read back from its end."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import accumulate

from kaosmem.compaction.outline import Outline, places_in
from kaosmem.compaction.thread import is_record
from kaosmem.types.content import unshown_chars
from kaosmem.types.items import ChatMessage
from kaosmem.units import Link

FRAMING_TOKENS = 4
"""The estimated tokens of a message beside its text."""
_BYTES_A_TOKEN = 4


@dataclass(frozen=True, slots=True)
class Placed:
    """A message at its position in a thread, and the one that it stands for: itself, one that it shortens, or None."""

    position: int
    message: ChatMessage
    original: ChatMessage | None

    def under(self, message_id: str) -> Placed:
        """Return the message as it is, under an id."""
        message = replace(self.message, id=message_id)
        return Placed(self.position, message, message)


@dataclass(frozen=True)
class Excerpt:
    """The messages read of a thread, by position.

    Shown are those from one position on, and the newest user message.

    taken: messages in the thread. outline: the units of the messages read.
    """

    placed: tuple[Placed, ...]
    start: int
    taken: int
    outline: Outline

    @classmethod
    def of(cls, placed: Iterable[Placed], *, start: int, taken: int) -> Excerpt:
        """Return an excerpt that is shown from a position on."""
        placed = tuple(placed)
        return cls(placed, start, taken, Outline(each.message for each in placed))

    @classmethod
    def within(cls, placed: Sequence[Placed], *, room: int, taken: int) -> Excerpt:
        """Return the shortest excerpt of messages that is worth `room` tokens, or all of them; it begins at a cut."""
        whole = cls.of(placed, start=0, taken=taken)
        after = [*accumulate((weight(each.message) for each in reversed(placed)), initial=0)][::-1]
        cut = max((cut for cut in whole.outline.cuts_beside(()) if after[cut] >= room), default=0)
        return replace(whole, start=placed[cut].position if cut < len(placed) else taken)

    @cached_property
    def must(self) -> frozenset[int]:
        """The places in `placed` of the units that must be shown: the newest user message and unit, and pinned ones."""
        outline = self.outline
        wanted = {*outline.questions[-1:]}
        wanted |= {
            at
            for at, each in enumerate(self.placed)
            if each.message.pinned and each.position >= self.start
        }
        units = [unit for unit in outline.units if unit[0] not in outline.orphans]
        newest = max((unit[-1] for unit in units), default=-1)
        wanted.add(newest)
        return frozenset(places_in(unit for unit in units if not wanted.isdisjoint(unit)))

    def shown(self) -> Excerpt:
        """Return the excerpt without the messages read beyond it."""
        placed = (
            each
            for at, each in enumerate(self.placed)
            if each.position >= self.start or at in self.must
        )
        return Excerpt.of(placed, start=self.start, taken=self.taken)

    def named(self) -> Excerpt:
        """Return the excerpt with each message of the thread under an id of its own."""
        named = (
            each
            if each.original is not each.message or each.message.id == local
            else each.under(local)
            for each, local in zip(self.placed, local_ids(self.placed), strict=True)
        )
        return replace(self, placed=tuple(named))

    def replaced(self, left: Iterable[ChatMessage]) -> Excerpt:
        """Return the history that a strategy left, each message at the position of the one that it is or stands for.

        One that is new, or a summary of several, has the first position that is free after the message before it.
        """
        return Excerpt.of(_placed(self.placed, list(left)), start=self.start, taken=self.taken)


@dataclass(frozen=True, slots=True)
class Compacted:
    """The messages read of a thread, and the history that a pipeline left of them."""

    read: Excerpt
    left: Excerpt

    def grown(self, read: Excerpt, *, room: int) -> Excerpt | None:
        """Return the shortened history with the messages appended since, None to begin anew.

        It begins anew if the history holds no summary, if it takes more than `room` tokens, or if
        the thread has not only grown: messages that a summary stands for may be gone then. The
        messages read both times tell whether it has only grown. If they are all equal and have no
        ids, a clearing before them is not noticed.
        """
        if not self.read.placed or not any(is_record(each.message) for each in self.left.placed):
            return None
        now = {each.position: each.message for each in read.placed}
        last = self.read.placed[-1].position
        known = [each for each in self.read.placed if each.position in now]
        if last not in now or any(now[each.position] != each.message for each in known):
            return None
        new = (each for each in read.placed if each.position > last)
        grown = Excerpt.of((*self.left.placed, *new), start=self.left.start, taken=read.taken)
        return grown if sum(weight(each.message) for each in grown.placed) <= room else None


def local_ids(placed: Sequence[Placed]) -> list[str]:
    """Return an id for each message: its own, unless it has none or a later one has the same, else its position."""
    seen: set[str] = set()
    ids: list[str] = []
    for each in reversed(placed):
        own = (each.original or each.message).id
        local = f"#{each.position}" if own in seen or own[:1] in ("", "#", "~") else own
        seen.add(own)
        ids.append(local if each.original is each.message else f"~{local}")
    return ids[::-1]


def weight(message: ChatMessage) -> int:
    """Return about how many tokens a message costs: which counter the session has is not known here."""
    chars = len(message.text.encode()) + unshown_chars(message.content)
    return chars // _BYTES_A_TOKEN + FRAMING_TOKENS


def _placed(placed: Sequence[Placed], left: Sequence[ChatMessage]) -> Iterator[Placed]:
    """Yield messages in their order at ascending positions; `placed` are the messages that they were made of."""
    ranks: dict[int, list[int]] = {}
    for rank in range(len(placed) - 1, -1, -1):
        ranks.setdefault(id(placed[rank].message), []).append(rank)
    kept = [ranks[id(message)].pop() if ranks.get(id(message)) else None for message in left]
    ends = [len(placed)]  # of each message left, the rank of the next one kept
    for same in reversed(kept):
        ends.append(ends[-1] if same is None else same)
    position = -1
    rank = 0
    for message, same, end in zip(left, kept, ends[-2::-1], strict=True):
        gap = range(rank, end) if same is None else range(same, same + 1)
        found = next(
            (each for each in gap if same is not None or _shortens(message, placed[each].message)),
            None,
        )
        if gap:
            rank = gap[0] if found is None else found
            position = max(position + 1, placed[rank].position)
            rank += 1
        else:
            position += 1
        yield Placed(position, message, None if found is None else placed[found].original)


def _shortens(message: ChatMessage, original: ChatMessage) -> bool:
    if message.id or original.id:
        return message.id == original.id
    return message.role == original.role and Link.of(message) == Link.of(original)
