"""Parts: the stretches of a file that are cut by themselves, such as a page, a sheet or a message."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

from kaosmem.ingest.pieces import Piece, Syntax, cut
from kaosmem.types import JSONValue


@dataclass(frozen=True, slots=True)
class Part:
    """A stretch of a file, cut into pieces of storable text.

    place: names the part in the ids of its passages, after `#`, such as `p12`; "" if lines are enough.
    numbered: the pieces' numbers are lines, or rows, of the file, and are kept as such.
    metadata: of each of its passages, such as `{"page": 12}`.
    headed: its passages are best found by the heading that they are under, which their labels then show.
    """

    pieces: Iterable[Piece]
    place: str = ""
    numbered: bool = False
    metadata: Mapping[str, JSONValue] = field(default_factory=dict)
    role: str = ""
    headed: bool = False


class Lost(NamedTuple):
    """A place in a file that can't be read, such as `L12`, and why."""

    place: str
    reason: str
    detail: str = ""


Reader: TypeAlias = Callable[[bytes], Iterable[Part | Lost]]
"""Reads a file of some kind. Raises UnreadableError; any other error means that the file is damaged."""


def renumbered(pieces: Iterable[Piece], lines: Sequence[tuple[int, int]]) -> list[Piece]:
    """Return the pieces of a text that was made of a file, with the numbers of the file's lines.

    lines: of each line of the text, the first and last line of the file that it was made of.
    """
    moved = [piece._replace(first=lines[piece.first - 1][0], last=lines[piece.last - 1][1]) for piece in pieces]
    spans = Counter((piece.first, piece.last) for piece in moved)
    parts = Counter[tuple[int, int]]()
    for at, piece in enumerate(moved):
        span = piece.first, piece.last
        if spans[span] > 1:
            parts[span] += 1
            moved[at] = piece._replace(part=parts[span])
    return moved


def text_part(text: str, syntax: Syntax) -> Part:
    """Return a text as the only part of its file."""
    return Part(cut(text, syntax), numbered=True)
