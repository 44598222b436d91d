"""The amount of a view before each of its entries."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, islice

from kaosmem.conversation.event import Event
from kaosmem.conversation.view import View
from kaosmem.tokens import TokenCounter, count_content


class Offsets:
    """The tokens of content before each entry of a view, kept while the view goes on.

    counter: counts each entry once.
    """

    def __init__(self, counter: TokenCounter) -> None:
        self._counter = counter
        self._counted: dict[int, tuple[Event, int]] = {}
        self._view: View | None = None
        self._revisions = 0
        self._offsets = [0]

    def of(self, view: View) -> Sequence[int]:
        """Return the offset of each entry, and the tokens of all: valid until the next call.

        For the view of the last call, it takes time in proportion to the entries from the first change on.
        """
        same = 0
        if view is self._view:
            same = min(view.revisions[self._revisions :], default=len(self._offsets))
        self._view, self._revisions = view, len(view.revisions)
        del self._offsets[same + 1 :]
        new = map(self.tokens, view[len(self._offsets) - 1 :])
        self._offsets.extend(islice(accumulate(new, initial=self._offsets[-1]), 1, None))
        return self._offsets

    def tokens(self, event: Event) -> int:
        """Return an event's tokens."""
        counted = self._counted.get(event.id)
        if counted is None or counted[0] is not event:
            counted = self._counted[event.id] = event, count_content(event.message.content, self._counter)
        return counted[1]
