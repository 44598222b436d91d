"""Segments: the parts of a text between which it may be cut, and how natural it is to cut before each.

What a kind of text knows about itself (headings, definitions, fences) is nothing but the strength of segments:
`pieces` cuts before the strongest first, whatever the kind.
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

MAX_CHARS = 2_000
"""A text of this size is not cut, and no piece is larger."""

HEADING = 600
"""A heading, less its level."""
PARAGRAPH = 400
"""The strength after a blank line, less twice the indentation; one less where the segment before announces it."""
LINE = 200
"""Any other line, less twice its indentation."""
GLUED = 0
"""The strength of a line that belongs to the segment before."""

_DEEPEST = 90

Path: TypeAlias = tuple[str, ...]
"""Headings, or definitions, from the outermost in."""


class Segment(NamedTuple):
    """One line or several, the first and the last of them not blank.

    first, last: lines, from 1. start, end: where it is in the text, without the last newline.
    path: the headings or definitions that it is under.
    """

    first: int
    last: int
    start: int
    end: int
    strength: int
    path: Path


def shared_path(one: Path, other: Path) -> Path:
    """Return the common beginning of two paths."""
    differing = (depth for depth, (name, other_name) in enumerate(zip(one, other, strict=False)) if name != other_name)
    return one[: next(differing, min(len(one), len(other)))]


def indented(strength: int, indent: int) -> int:
    """Return the strength of a line indented by so many characters."""
    return strength - 2 * min(indent, _DEEPEST)
