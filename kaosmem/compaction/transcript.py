"""A transcript: messages, the records of summaries among them, and the view that they make."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace

from kaosmem.arguments import json_text
from kaosmem.compaction.kept_facts import SUMMARY_ID, SUMMARY_ROLE
from kaosmem.compaction.outline import Outline
from kaosmem.errors import NotFoundError
from kaosmem.names import shown
from kaosmem.types import JSONValue
from kaosmem.types.content import content_json
from kaosmem.types.items import ChatMessage


def is_record(message: ChatMessage) -> bool:
    """Return whether a message stands for others: a summary that names its sources."""
    return message.role == SUMMARY_ROLE and bool(message.sources)


class Transcript:
    """Messages in order, with records of summaries, and the view of them.

    A record counts if all messages that it stands for are in view, unchanged since the record was
    made; its id tells. So of two records for one message the first counts. A message without an id,
    or with the id of an earlier one, gets an id made of its content.

    Attributes:
        stored: All messages.
        void: The records that do not count: their messages were cleared, or another record came
            first.

    >>> said = [ChatMessage("user", f"Line {number}", id=f"m{number}") for number in range(3)]
    >>> transcript = Transcript(said)
    >>> summary = ChatMessage("summary", "Two lines.", sources=("m0", "m1"))
    >>> record = transcript.record_of(summary, [summary, said[2]])
    >>> transcript.append(record)
    >>> [message.text for message in transcript.view]
    ['Two lines.', 'Line 2']
    """

    def __init__(self, stored: Iterable[ChatMessage] = ()) -> None:
        self.stored: list[ChatMessage] = []
        self.void: list[ChatMessage] = []
        self._known: dict[str, ChatMessage] = {}
        self._in_view: dict[str, ChatMessage] = {}
        # By id, a place among all messages. A record has that of the first one it stands for.
        self._places: dict[str, int] = {}
        self._unnamed: Counter[str] = Counter()
        for message in stored:
            self.append(message)

    def append(self, message: ChatMessage) -> None:
        """Take in the next message, or a record."""
        place = len(self.stored)
        self.stored.append(message)
        if not is_record(message):
            self._add(self._named(message), place)
            return
        replaced = self._in_view_of(message)
        if replaced and message.id == _record_id(replaced, message.text):
            for each in replaced:
                del self._in_view[each.id]
            self._add(message, min(map(self._place, replaced)))
        elif message.id not in self._known:
            # The same record again says nothing new, and goes with the first.
            self.void.append(message)

    def __contains__(self, message_id: str) -> bool:
        return message_id in self._known

    @property
    def view(self) -> list[ChatMessage]:
        """Return the messages that no record stands for, and the records, oldest first."""
        return sorted(self._in_view.values(), key=self._place)

    def record_of(self, summary: ChatMessage, window: Iterable[ChatMessage]) -> ChatMessage | None:
        """Return the record of a summary of messages in view.

        A record stands for whole units: for all messages of its sources' units that are not in the
        window. It is trusted no more than the least trusted of these.

        Args:
            summary: A summary that names its sources.
            window: The view with the summary in it.

        Returns:
            None if one of the sources is not in view.
        """
        if not self._in_view_of(summary):
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
        trust = min(each.authority for each in (summary, *replaced))
        return replace(summary, id=_record_id(replaced, summary.text), sources=ordered, trust=trust)

    def originals(self, message_id: str) -> list[ChatMessage]:
        """Return the messages that a record stands for in the end, oldest first.

        Any other message is returned itself.

        Raises NotFoundError.
        """
        if message_id not in self._known:
            raise NotFoundError(
                f"no message {shown(message_id)} is in the thread; it may have been cleared"
            )
        found = []
        left = [message_id]
        while left:
            message = self._known[left.pop()]
            if is_record(message):
                left += dict.fromkeys(message.sources)
            else:
                found.append(message)
        return sorted(found, key=self._place)

    def _place(self, message: ChatMessage) -> int:
        return self._places[message.id]

    def _add(self, message: ChatMessage, place: int) -> None:
        self._known[message.id] = message
        self._in_view[message.id] = message
        self._places[message.id] = place

    def _in_view_of(self, summary: ChatMessage) -> list[ChatMessage]:
        """Return the messages that a summary names, [] if one of them is not in view."""
        sources = dict.fromkeys(summary.sources)
        if not sources.keys() <= self._in_view.keys():
            return []
        return [self._in_view[source] for source in sources]

    def _named(self, message: ChatMessage) -> ChatMessage:
        if message.id and message.id not in self._known:
            return message
        digest = _digest(_said(message))
        self._unnamed[digest] += 1
        return replace(message, id=f"message-{digest}-{self._unnamed[digest]}")


def _said(message: ChatMessage) -> JSONValue:
    """Return a key of a message's content. Records with equal ids are equal."""
    if is_record(message):
        return message.id
    return [message.id, message.role, content_json(message.content)]


def _record_id(replaced: Iterable[ChatMessage], text: str) -> str:
    return f"{SUMMARY_ID}{_digest([list(map(_said, replaced)), text])}"


def _digest(value: JSONValue) -> str:
    return hashlib.sha256(json_text(value).encode()).hexdigest()[:32]
