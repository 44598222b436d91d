"""An account of what a session must hold, kept beside it from what its callers were told alone."""

from __future__ import annotations

from dataclasses import dataclass, field

Value = tuple[str, bool | None] | None
"""The text of an item and whether it is live, None where eviction decides that; None for an item that is nowhere."""


class ViolationError(AssertionError):
    """Something that was promised is not so.

    acts: how many acts of processes there were until it showed.
    """

    acts = 0


@dataclass(eq=False)
class Attempt:
    """A value that a process gave an item: when it began to save it, when that ended, and whether it was told so."""

    value: Value
    began: int | None = None
    ended: int | None = None
    is_acknowledged: bool = False


@dataclass(eq=False)
class Held:
    """An item: the values that it may have.

    erasing: how far its forgetting got: "" not asked for, "tried" may have happened, "done".
    is_clean: whether no file may hold its texts any more.
    is_placed: whether its place among others is known: not after a repair, as a lost record may
        have held it.
    """

    id: str
    section: str
    key: str | None = None
    sources: frozenset[str] = frozenset()
    attempts: list[Attempt] = field(default_factory=list)
    marks: list[str] = field(default_factory=list)
    texts: set[str] = field(default_factory=set)
    erasing: str = ""
    is_clean: bool = False
    is_placed: bool = True
    born: int | None = None
    settled: int | None = None

    def possible(self):
        """Return the values that the item may have now."""
        if self.erasing == "done":
            return {None}
        known = [each for each in self.attempts if each.is_acknowledged]
        values = {
            each.value
            for each in self.attempts
            if each.began is not None
            and not any(
                each.ended is not None and each.ended < (later.began or 0) for later in known
            )
        }
        if not known or self.erasing:
            values.add(None)
        return values


class Account:
    """All items that any process ever tried to save."""

    def __init__(self):
        self.items = {}
        self.ticks = 0

    def tick(self):
        """Return the next moment."""
        self.ticks += 1
        return self.ticks

    def began(self, unsaved):
        """Note that a process begins to save."""
        now = self.tick()
        for held, attempt in unsaved:
            if attempt.began is None:
                attempt.began = now
                held.attempts.append(attempt)
            held.born = held.born or now

    def acknowledged(self, unsaved):
        """Note that a process was told that all is saved.

        Of several values of one item the last counts.
        """
        now = self.tick()
        last = {id(held): attempt for held, attempt in unsaved}
        for held, attempt in unsaved:
            attempt.ended = now
            attempt.is_acknowledged = last[id(held)] is attempt
            held.settled = held.settled or now
        for held, attempt in unsaved:
            if not attempt.is_acknowledged:
                held.attempts.remove(attempt)
        unsaved.clear()

    def dropped(self, unsaved):
        """Note that a process gives up what it has not saved: it may be there or not."""
        now = self.tick()
        for _, attempt in unsaved:
            attempt.ended = now
        unsaved.clear()

    def erased_with(self, item_id):
        """Yield an item and all that was derived from it."""
        found = {item_id}
        while True:
            more = {each.id for each in self.items.values() if each.sources & found} - found
            if not more:
                break
            found |= more
        yield from (self.items[each] for each in found if each in self.items)

    def settle(self, seen):
        """Note the only value that each item can have, as nobody is at work."""
        now = self.tick()
        for item_id, value in seen.items():
            held = self.items[item_id]
            if value is None and held.erasing and held.settled:
                held.erasing = "done"
            elif value is None:
                del self.items[
                    item_id
                ]  # never acknowledged, so that no erasure of it may ever have begun
                continue
            elif held.erasing == "tried":
                held.erasing = ""
            held.attempts = (
                [] if value is None else [Attempt(value, now, now, is_acknowledged=True)]
            )
            held.settled = held.settled or now

    def check(self, held, seen, allowed=frozenset()):
        """Raise ViolationError for a value that an item cannot have. allowed: other values."""
        possible = held.possible() | allowed
        if any(seen == value or _same(seen, value) for value in possible):
            return
        if held.erasing == "done":
            raise ViolationError(f"forgotten item {held.id} is found")
        lost = "is lost" if seen is None else f"is {_shown(seen)}"
        raise ViolationError(
            f"item {held.id} {lost}, and can only be {' or '.join(map(_shown, possible))}"
        )

    def check_order(self, ids):
        """Raise ViolationError if an item stands before one that was acknowledged before it was begun."""
        latest = 0
        before = ""
        for each in ids:
            held = self.items.get(each)
            if held is None or held.born is None or not held.is_placed:
                continue
            if held.settled is not None and held.settled < latest:
                raise ViolationError(f"{held.id} stands after {before}, and was saved before")
            if held.born > latest:
                latest = held.born
                before = each


def _same(seen, value):
    return seen is not None and value is not None and seen[0] == value[0] and value[1] is None


def _shown(value):
    if value is None:
        return "nowhere"
    return f"{value[0][:14]!r}" + {None: "", True: ", live", False: ", removed"}[value[1]]
