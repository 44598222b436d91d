"""The result of a pipeline over a thread, from which the next context continues."""

from __future__ import annotations

from dataclasses import dataclass

from kaosmem.compaction.thread import is_record
from kaosmem.sources.excerpt import Excerpt, weight


@dataclass(frozen=True, slots=True)
class Compacted:
    """The messages read of a thread, and the history that a pipeline left of them."""

    read: Excerpt
    left: Excerpt

    def grown(self, read: Excerpt, *, room: int) -> Excerpt | None:
        """Return the shortened history with the messages appended since, None to begin anew.

        It begins anew if the history holds no summary, if it takes more than `room` tokens, or if the thread has not
        only grown: messages that a summary stands for may be gone then. The messages read both times tell whether it
        has only grown. If they are all equal and have no ids, a clearing before them is not noticed.
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
