"""A stored conversation with summaries among its messages, and the view of it."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Container, Iterable, Sequence
from dataclasses import replace

from kaosmem.arguments import json_text
from kaosmem.compaction.fallback import fallback_reason
from kaosmem.compaction.kept_facts import SUMMARY_ROLE
from kaosmem.compaction.outline import Outline
from kaosmem.errors import NotFoundError
from kaosmem.names import shown
from kaosmem.types import JSONValue
from kaosmem.types.items import ChatMessage


def is_record(message: ChatMessage) -> bool:
    """Return whether a message stands for others: a summary that names its sources."""
    return message.role == SUMMARY_ROLE and bool(message.sources)


class _Entry:
    """A message that was stored.

    place: among all, of a record that of the first message that it stands for.
    """

    __slots__ = ("message", "place", "replaced")

    def __init__(self, message: ChatMessage, place: int, replaced: Sequence[_Entry] = ()) -> None:
        self.message = message
        self.replaced = replaced
        self.place: int = min(map(_place, replaced)) if replaced else place

    def said(self) -> JSONValue:
        """Return a key of the record's content, as its id has it.

        Records with equal keys are equal.
        """
        message = self.message
        return message.id if self.replaced else [message.id, message.role, _plain(message.content)]


def _plain(value: object) -> JSONValue:
    """Return content as lists of its fields."""
    if isinstance(value, tuple):
        return [[_plain(getattr(block, name)) for name in block.__slots__] for block in value]
    return value


def _place(entry: _Entry) -> int:
    return entry.place


class Thread:
    """A stored conversation and its view, which is computed from it alone, in linear time.

    A record counts if all messages that it stands for are there, unchanged since the record was
    made; its id tells. Of two records for one message the first stored counts. A record that was
    made without a model counts until a later record stands for messages of it. A message without an
    id, or with the id of an earlier one, gets an id made of its content.

    with_fallbacks: False leaves records out that were made without a model, so that their messages
        are in view.
    void: the records that do not count: their messages were cleared, or another record came first.
    """

    def __init__(self, stored: Iterable[ChatMessage], *, with_fallbacks: bool = True) -> None:
        self.stored = tuple(stored)
        self.with_fallbacks = with_fallbacks
        self.void: list[ChatMessage] = []
        self._entries: dict[str, _Entry] = {}
        self._in_view: dict[str, _Entry] = {}
        self._unnamed: Counter[str] = Counter()
        for number, message in enumerate(self.stored):
            self._take(message, number)
        if not with_fallbacks:
            self._dissolve_fallbacks()

    def _take(self, message: ChatMessage, place: int) -> None:
        """Take the next stored message."""
        if not is_record(message):
            self._add(_Entry(self._named(message), place))
            return
        replaced = self._valid(message)
        if replaced:
            for entry in replaced:
                del self._in_view[entry.message.id]
            self._add(_Entry(message, place, replaced))
        elif message.id not in self._entries:
            # The same record again says nothing new, and goes with the first.
            self.void.append(message)

    def __contains__(self, message_id: str) -> bool:
        return message_id in self._entries

    @property
    def view(self) -> list[ChatMessage]:
        """Return the messages that no record stands for, and the records, oldest first."""
        return [entry.message for entry in sorted(self._in_view.values(), key=_place)]

    @property
    def has_fallbacks(self) -> bool:
        """Return whether a record in view was made without a model."""
        return any(map(_is_fallback, self._in_view.values()))

    def _dissolve_fallbacks(self, message_ids: Container[str] | None = None) -> None:
        """Put the messages back in view that records made without a model stand for.

        message_ids: only the records that stand for one of these at least; None is all.
        """
        while found := self._fallbacks_of(message_ids):
            for entry in found:
                del self._in_view[entry.message.id], self._entries[entry.message.id]
                self._in_view |= {each.message.id: each for each in entry.replaced}
                self.void.append(entry.message)

    def record_of(self, summary: ChatMessage, window: Iterable[ChatMessage]) -> ChatMessage | None:
        """Return the record to store for a summary of messages in view, None if one of these has left the view.

        window: the view with the summary in it. A record stands for whole units: for all messages of its sources'
        units that are not in the window. It is trusted no more than the least trusted of these.
        """
        if self._replaced(summary) is None:
            return None
        outline = Outline(self.view)
        left = {message.id for message in window}
        sources = set(summary.sources)
        for unit in outline.units:
            ids = {outline.messages[place].id for place in unit}
            if len(ids) > 1 and not ids.isdisjoint(sources):
                sources |= ids - left
        ordered = tuple(message.id for message in outline.messages if message.id in sources)
        replaced = [self._in_view[each] for each in ordered]
        trust = min(each.authority for each in (summary, *(entry.message for entry in replaced)))
        return replace(summary, id=_record_id(replaced, summary.text), sources=ordered, trust=trust)

    def originals(self, message_id: str) -> list[ChatMessage]:
        """Return the messages that a record stands for in the end, oldest first; of any other message itself.

        Raises NotFoundError.
        """
        if message_id not in self._entries:
            raise NotFoundError(
                f"no message {shown(message_id)} is in the thread; it may have been cleared"
            )
        return [entry.message for entry in sorted(_leaves(self._entries[message_id]), key=_place)]

    def _fallbacks_of(self, message_ids: Container[str] | None) -> list[_Entry]:
        fallbacks = filter(_is_fallback, self._in_view.values())
        if message_ids is None:
            return list(fallbacks)
        return [
            entry
            for entry in fallbacks
            if any(each.message.id in message_ids for each in _leaves(entry))
        ]

    def _add(self, entry: _Entry) -> None:
        self._entries[entry.message.id] = self._in_view[entry.message.id] = entry

    def _replaced(self, summary: ChatMessage) -> list[_Entry] | None:
        """Return the positions of a summary's sources in view, None if one is missing."""
        found = [self._in_view.get(source) for source in dict.fromkeys(summary.sources)]
        return None if None in found else [entry for entry in found if entry]

    def _valid(self, record: ChatMessage) -> list[_Entry] | None:
        """Return the messages that a valid record stands for, having dissolved the fallbacks in its way; else None."""
        replaced = self._replaced(record)
        if replaced is None and self.has_fallbacks and self._entries.keys() >= {*record.sources}:
            in_view = dict(self._in_view)
            entries = dict(self._entries)
            void = len(self.void)
            self._dissolve_fallbacks({*record.sources})
            replaced = self._replaced(record)
            if replaced is None or record.id != _record_id(replaced, record.text):
                self._in_view = in_view
                self._entries = entries
                del self.void[void:]
                return None
        return replaced if replaced and record.id == _record_id(replaced, record.text) else None

    def _named(self, message: ChatMessage) -> ChatMessage:
        if message.id and message.id not in self._entries:
            return message
        digest = _digest(_Entry(message, 0).said())
        self._unnamed[digest] += 1
        return replace(message, id=f"message-{digest}-{self._unnamed[digest]}")


def _is_fallback(entry: _Entry) -> bool:
    return bool(entry.replaced) and fallback_reason(entry.message.text) is not None


def _leaves(entry: _Entry) -> list[_Entry]:
    """Return the messages that an entry stands for in the end, in any order."""
    found = []
    left = [entry]
    while left:
        entry = left.pop()
        left += entry.replaced
        if not entry.replaced:
            found.append(entry)
    return found


def _record_id(replaced: Iterable[_Entry], text: str) -> str:
    return f"summary-{_digest([[entry.said() for entry in replaced], text])}"


def _digest(value: JSONValue) -> str:
    return hashlib.sha256(json_text(value).encode()).hexdigest()[:32]
