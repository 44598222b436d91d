"""The line of writers of one session on an object store."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Collection

TRIES_BEFORE_LINE = 2
"""A writer joins the line after others have outrun it this many times in a row."""

COMMITS_BEFORE_LOOK = 8
"""A writer that meets no other looks for the line before every eighth commit."""

SERVED_AT_ONCE = 3
"""The first writers in line race, so that they read the commits of each other at the same time."""

PAUSE_S = 0.05
"""The pause between two looks, for each writer that stands before those."""

MAX_STILL_S = 5.0
"""If nobody before a writer leaves the line for this long, their processes are taken for dead."""

MAX_WAIT_S = 60.0
"""A writer that has waited this long goes on out of its turn."""

_PREFIX = ".line-"


class WriterLine:
    """The line of writers that others outran.

    A commit on an object store is the first object under its name. The writer that committed last
    knows the log's end without a look, so it would win again and again. A writer that lost twice
    therefore stores a ticket, an empty object beside the log. A writer that sees a ticket takes
    one, too, and each lets those before it commit first. Tickets are ordered by the record that
    their writers first wanted to store, so no clocks are compared.

    The line keeps no writer out. A ticket that is lost or left behind costs time, never a commit.

    Args:
        names: Returns the names in the log's folder. It tells `notice` of every listing.
        store: Stores an empty object of a name in the log's folder.
        remove: Deletes such an object.
    """

    def __init__(
        self,
        names: Callable[[], Collection[str]],
        store: Callable[[str], None],
        remove: Callable[[str], None],
    ) -> None:
        self._names = names
        self._store = store
        self._remove = remove
        self._tickets: list[str] = []  # as in the last listing
        self._segments: Collection[str] = ()  # as in the last look
        self._ticket = ""
        self._is_served = False
        self._lost_tries = 0
        self._commits_since_look = 0

    def notice(self, names: Collection[str]) -> None:
        """Note the tickets of a listing of the log's folder."""
        self._tickets = sorted(name for name in names if name.startswith(_PREFIX))
        self._commits_since_look = 0

    def wait(self, segment: str) -> bool:
        """Wait until at most two stand before, and return whether the segment's name was taken.

        Args:
            segment: The name of the file that the writer wants to store.
        """
        if self._is_served or not self._is_look_due():
            return False
        ahead = self._ahead(segment)
        waited_s = 0.0
        still_s = 0.0
        while len(ahead) >= SERVED_AT_ONCE and waited_s < MAX_WAIT_S:
            pause_s = PAUSE_S * (1 + len(ahead) - SERVED_AT_ONCE)
            time.sleep(pause_s)
            before = ahead
            ahead = self._ahead(segment)
            waited_s += pause_s
            still_s += pause_s
            if ahead != before:
                still_s = 0.0
            elif still_s >= MAX_STILL_S:
                for ticket in ahead:
                    self._remove(ticket)
        self._is_served = bool(self._ticket)
        return segment in self._segments

    def lose(self) -> None:
        """Note that another writer was first."""
        self._lost_tries += 1

    def leave(self) -> None:
        """Let the next writer in line go on, after a commit or at the end of all commits."""
        if self._ticket:
            self._remove(self._ticket)
            self._tickets = [each for each in self._tickets if each != self._ticket]
        self._ticket = ""
        self._is_served = False
        self._lost_tries = 0
        self._commits_since_look += 1

    def _is_look_due(self) -> bool:
        return (
            bool(self._tickets)
            or self._lost_tries >= TRIES_BEFORE_LINE
            or self._commits_since_look >= COMMITS_BEFORE_LOOK
        )

    def _ahead(self, segment: str) -> list[str]:
        """Look at the line, join it if there is need, and return the tickets before the own one."""
        self._segments = self._names()
        if not self._segments:  # the session was deleted
            self.leave()
            return []
        if not self._ticket and (self._tickets or self._lost_tries >= TRIES_BEFORE_LINE):
            self._ticket = f"{_PREFIX}{segment}-{secrets.token_hex(4)}"
        if self._ticket and self._ticket not in self._tickets:
            self._store(self._ticket)
        return [each for each in self._tickets if each < self._ticket]
