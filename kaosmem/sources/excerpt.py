"""The newest messages of a thread, read back from its end."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import accumulate

from kaosmem.compaction.outline import Outline, places_in
from kaosmem.compaction.transcript import Transcript, is_record
from kaosmem.types.content import unshown_chars
from kaosmem.types.items import ChatMessage

FRAMING_TOKENS = 4
"""The estimated tokens of a message beside its text."""
_BYTES_A_TOKEN = 4


@dataclass(frozen=True, slots=True)
class Placed:
    """A message at its position in a thread, and the one that it stands for: itself, one that it shortens, or None."""

    position: int
    message: ChatMessage
    original: ChatMessage | None


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
        named = []
        for each, local in zip(self.placed, local_ids(self.placed), strict=True):
            message = each.message
            if message.id != local:
                message = replace(message, id=local)
            named.append(Placed(each.position, message, message))
        return replace(self, placed=tuple(named))


class CompactedThread:
    """The messages read of a thread as a transcript, with the summaries that a pipeline made of them.

    transcript: the messages, each under an id of its own.
    """

    def __init__(self, read: Excerpt) -> None:
        self.transcript = Transcript()
        self._read = read
        self._start = read.start
        self._placed: dict[str, Placed] = {}
        self._take(read.shown().named().placed)

    def grow(self, read: Excerpt, *, room: int) -> bool:
        """Take in the messages appended since, and say whether to go on with the transcript.

        It is begun anew if it holds no summary, if its view takes more than `room` tokens, or if
        the thread has not only grown: messages that a summary stands for may be gone then. The
        messages read both times tell whether it has only grown. If they are all equal and have no
        ids, a clearing before them is not noticed.
        """
        before = self._read.placed
        if not before or not any(map(is_record, self.transcript.view)):
            return False
        now = {each.position: each.message for each in read.placed}
        last = before[-1].position
        known = [each for each in before if each.position in now]
        if last not in now or any(now[each.position] != each.message for each in known):
            return False
        new = [each for each in read.named().placed if each.position > last]
        if any(each.message.id in self._placed for each in new):
            return False
        self._read = read
        self._take(new)
        return sum(map(weight, self.transcript.view)) <= room

    def left(self, messages: Iterable[ChatMessage]) -> Excerpt:
        """Return the history that a pipeline left of the view, each message at a position.

        The records of its summaries are taken in. A message under the id of a read one stands at
        its position, a summary at that of its first message. Any other message follows the message
        before it.
        """
        window = list(messages)
        position = min((each.position for each in self._placed.values()), default=0) - 1
        placed = []
        for message in window:
            if is_record(message) and message.id not in self.transcript:
                message = self._recorded(message, window)
            own = self._placed.get(message.id)
            first = own or self._first_of(message)
            position += 1
            if first is not None:
                position = max(position, first.position)
            placed.append(Placed(position, message, None if own is None else own.original))
        return Excerpt.of(placed, start=self._start, taken=self._read.taken)

    def _take(self, placed: Iterable[Placed]) -> None:
        for each in placed:
            self.transcript.append(each.message)
            self._placed[each.message.id] = each

    def _recorded(self, summary: ChatMessage, window: list[ChatMessage]) -> ChatMessage:
        """Take in the record of a summary, and return it; the summary itself if it has none."""
        record = self.transcript.record_of(summary, window) if summary.id else None
        if record is None:
            return summary
        self.transcript.append(record)
        return record

    def _first_of(self, message: ChatMessage) -> Placed | None:
        """Return the first message that a summary stands for, if it is known."""
        for name in (message.id, *message.sources):
            if name in self.transcript:
                return self._placed[self.transcript.originals(name)[0].id]
        return None


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
