"""The result of a pipeline over a thread, from which the next context continues."""

from __future__ import annotations

from dataclasses import dataclass

from kaosmem.adapters.excerpt import Excerpt, weight
from kaosmem.compaction.thread import is_record


@dataclass(frozen=True, slots=True)
class Compacted:
    """What was read of a thread, and what a pipeline left of that."""

    read: Excerpt
    left: Excerpt

    def grown(self, read: Excerpt, *, room: int) -> Excerpt | None:
        """Return what was left with what has been appended since, None to begin anew.

        That is so if it holds no summary, if the thread has not only grown, as what a summary stands for may be gone
        then, and if it is worth more than `room` tokens. Whether it has only grown is told by what was read of it both
        times: where all of that says the same and has no ids, it is not seen that something before it was cleared.
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
