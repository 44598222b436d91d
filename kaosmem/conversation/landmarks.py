"""Positions of a view's landmarks: system prompt, first message, newest task list and the like."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections import defaultdict
from collections.abc import Collection, Iterator

from kaosmem.conversation.action import ActionEvent
from kaosmem.conversation.event import ConversationEvent, EventSource

STANDING_LISTS = frozenset({"task_list", "task_tracker", "todo_write", "workspace"})
"""Kinds of events, and names of tools, that say how things stand: of each the newest is kept."""


class Landmarks:
    """The ordinals of entries of a growing view by their role, so that no other entry need be looked at."""

    def __init__(self) -> None:
        self._found: defaultdict[str, list[int]] = defaultdict(list)  # ascending

    def add(self, ordinal: int, event: ConversationEvent) -> None:
        """Note an entry, as it is shown."""
        for name in _names(event):
            insort(self._found[name], ordinal)

    def remove(self, ordinals: Collection[int]) -> None:
        """Leave out some."""
        first, last = min(ordinals), max(ordinals)
        for found in self._found.values():
            start, stop = bisect_left(found, first), bisect_right(found, last)
            found[start:stop] = [each for each in found[start:stop] if each not in ordinals]

    def cut(self, ordinal: int) -> None:
        """Leave out all from an ordinal on."""
        for ordinals in self._found.values():
            del ordinals[bisect_left(ordinals, ordinal) :]

    def kept(self) -> set[int]:
        """Return the ordinals that no condenser forgets.

        These are pinned events, system messages, the first and the newest user message, what users said since the agent
        last spoke to them, with what it said, and the newest list of tasks.
        """
        users, spoken, asked = (self._found[name] for name in ("user", "spoken", "asked"))
        kept = {*self._found["pinned"], *self._found["system"], *users[:1], *users[-1:]}
        unanswered = asked[bisect_left(asked, spoken[-1]) if spoken else 0 :]
        if unanswered:
            kept.update(spoken[-1:], unanswered)
        return kept.union(*(self._found[name][-1:] for name in STANDING_LISTS))


def _names(event: ConversationEvent) -> Iterator[str]:
    """Yield the names under which an entry is found."""
    call = None
    if event.pinned:
        yield "pinned"
    if isinstance(event, ActionEvent):
        call = event.call
        if event.source is EventSource.USER:
            yield "asked"
        if call is None and event.role in ("system", "user"):
            yield event.role
        elif call is None and event.role == "assistant" and event.kind == "message":
            yield "spoken"
    for name in {getattr(event, "kind", ""), call.name if call else ""}:
        if name in STANDING_LISTS:
            yield name
