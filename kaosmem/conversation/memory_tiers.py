"""Notes beyond a conversation (a user's, a project's), in tiers that share a limit."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from kaosmem.errors import InvalidArgumentError


@dataclass(frozen=True, slots=True)
class MemoryTier:
    """Notes under a header, the oldest first."""

    header: str
    text: str = field(repr=False)

    @property
    def lines(self) -> list[str]:
        """Return the notes, a line each."""
        return self.text.strip("\n").split("\n") if self.text.strip() else []

    def cut(self, max_chars: int | None = None) -> str:
        """Return the tier with its newest lines; of older ones that are beyond `max_chars`, a notice.

        max_chars: of the lines, their ends and the notice, the header apart.
        """
        lines = self.lines
        if max_chars is None or _length(lines) <= max_chars:
            return "\n".join([self.header, *lines])
        room = max_chars - len(self.notice) - 1
        start = len(lines)
        while start and len(lines[start - 1]) < room:
            start -= 1
            room -= len(lines[start]) + 1
        return "\n".join([self.header, _notice(start), *lines[start:]])

    @property
    def notice(self) -> str:
        """Return the notice of all lines left out: no other is longer."""
        return _notice(len(self.lines))


def fitted_tiers(tiers: Iterable[MemoryTier], max_chars: int = 6_000) -> str:
    """Return tiers with a blank line between them, in at most `max_chars` characters.

    A tier above its share loses whole lines from its top, and says so. Room that a short tier leaves goes to the
    others. Headers stay.
    Raises InvalidArgumentError if headers and notices alone are longer.

    >>> print(fitted_tiers([MemoryTier("# User", "prefers calls"), MemoryTier("# Project", "uses Python")]))
    # User
    prefers calls
    <BLANKLINE>
    # Project
    uses Python
    """
    tiers = list(tiers)
    needs = [_length(tier.lines) for tier in tiers]
    least = [min(need, len(tier.notice) + 1) for tier, need in zip(tiers, needs, strict=True)]
    fixed = sum(len(tier.header) for tier in tiers) + 2 * max(0, len(tiers) - 1) + sum(least)
    if fixed > max_chars:
        raise InvalidArgumentError(f"{max_chars} characters do not hold headers and notices; give {fixed} or more")
    more = _shares([need - low for need, low in zip(needs, least, strict=True)], max_chars - fixed)
    shares = [low + share for low, share in zip(least, more, strict=True)]
    return "\n\n".join(tier.cut(share) for tier, share in zip(tiers, shares, strict=True))


def _length(lines: Sequence[str]) -> int:
    return sum(len(line) + 1 for line in lines)


def _notice(lines: int) -> str:
    return f"[{lines} older lines left out]"


def _shares(needs: Sequence[int], room: int) -> list[int]:
    """Return each tier's share of the room: equal shares, but no more than it needs."""
    shares, left = [0] * len(needs), room
    for rank, index in enumerate(sorted(range(len(needs)), key=needs.__getitem__)):
        shares[index] = min(needs[index], left // (len(needs) - rank))
        left -= shares[index]
    return shares
