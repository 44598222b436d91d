"""Ids of calls that can't be mistaken."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import count

from kaosmem.conversation.action import Action
from kaosmem.conversation.event import Event
from kaosmem.conversation.observation import Observation


def with_distinct_calls(events: Iterable[Event]) -> Iterator[Event]:
    """Yield the events of a view, a call under another id where its own is taken, and its result too.

    An id is taken by a call of the same answer, and by one that still waits for its result: once the calls of an
    answer stand together, its results could not be told from another's.
    """
    events = list(events)
    known = {event.call.id for event in events if isinstance(event, Action) and event.call is not None}
    waiting: dict[str, list[str]] = {}
    answers: set[tuple[str, str]] = set()
    numbers: dict[str, Iterator[int]] = {}
    for event in events:
        if isinstance(event, Action) and event.call is not None:
            stored = given = event.call.id
            if stored in waiting or (event.response, stored) in answers:
                while given in known:
                    given = f"{stored}-{next(numbers.setdefault(stored, count(2)))}"
                known.add(given)
                event = event.changed(call=replace(event.call, id=given))
            if event.response:
                answers.add((event.response, stored))
            waiting.setdefault(stored, []).append(given)
        elif isinstance(event, Observation) and event.call_id:
            given = waiting[event.call_id].pop()
            if not waiting[event.call_id]:
                del waiting[event.call_id]
            if given != event.call_id:
                event = event.changed(call_id=given)
        yield event
