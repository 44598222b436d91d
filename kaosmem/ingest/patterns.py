"""Patterns of paths, in the language of .gitignore."""

from __future__ import annotations

import re
from collections.abc import Iterable
from fnmatch import fnmatchcase
from typing import NamedTuple

from kaosmem.arguments import check_list_of
from kaosmem.errors import InvalidArgumentError
from kaosmem.names import shown_name

_ESCAPED = re.compile(r"\\(.)")


class Pattern(NamedTuple):
    """One line of a .gitignore.

    Attributes:
        segments: Segments of the path below the folder of the line. `**` stands for any number of
            them.
        is_negated: Whether the line takes back earlier lines.
        for_folders: Whether it is about folders alone.
    """

    segments: tuple[str, ...]
    is_negated: bool
    for_folders: bool

    def matches(self, path: str, *, is_folder: bool) -> bool:
        """Return whether a path below the folder of the line is meant.

        The time is in proportion to the segments of the path and of the pattern, whatever they
        hold.
        """
        if self.for_folders and not is_folder:
            return False
        names = path.split("/")
        ends = range(len(names) + 1)
        places = {0}  # after so many names, the segments so far match
        for number, segment in enumerate(self.segments, 1):
            if segment == "**":
                begin = min(places, default=len(ends))
                if number == len(self.segments):  # the last one needs some names
                    begin += 1
                places = set(ends[begin:])
            else:
                here = [at for at in places if at < len(names)]
                places = {at + 1 for at in here if fnmatchcase(names[at], segment)}
        return len(names) in places


class Patterns:
    """Lines of a .gitignore. The last line that matches a path decides.

    >>> patterns = Patterns(["*.log", "!keep.log", "build/", "/notes.md"])
    >>> [patterns.decide(path) for path in ("a/b.log", "keep.log", "build", "a/notes.md")]
    [True, False, None, None]
    >>> patterns.decide("a/build", is_folder=True)
    True
    """

    def __init__(self, lines: Iterable[str]) -> None:
        self._patterns = [pattern for pattern in map(_parsed, lines) if pattern is not None]

    def __bool__(self) -> bool:
        return bool(self._patterns)

    def decide(self, path: str, *, is_folder: bool = False) -> bool | None:
        """Return whether a path is meant, None if no line says so or not."""
        for pattern in reversed(self._patterns):
            if pattern.matches(path, is_folder=is_folder):
                return not pattern.is_negated
        return None

    def decide_within(self, path: str) -> bool:
        """Return whether a file, or one of the folders that it is in, is meant."""
        decided = self.decide(path)
        while not decided and "/" in path:
            path = path.rpartition("/")[0]
            decided = self.decide(path, is_folder=True)
        return bool(decided)


def check_patterns(given: Iterable[str], name: str) -> Patterns:
    """Return patterns that a caller gave.

    Raises InvalidArgumentError for a single text, or a blank one.
    """
    lines = check_list_of(given, str, name)
    for line in lines:
        if _parsed(line) is None:
            raise InvalidArgumentError(
                f"{name} has {shown_name(line)}; give patterns such as '*.md' or 'drafts/'"
            )
    return Patterns(lines)


def _parsed(line: str) -> Pattern | None:
    """Return the pattern of a line, None for a blank line or a comment."""
    bare = line.rstrip(" \t\r")
    text = line[: len(bare) + bare.endswith("\\")]  # an escaped blank at the end stays
    if not text or text.startswith("#"):
        return None
    is_negated = text.startswith("!")
    text = text.removeprefix("!")
    for_folders = text.endswith("/")
    path = text.strip("/")
    if not path:
        return None
    is_anchored = "/" in text.rstrip("/")
    segments = [_segment(name) for name in path.split("/") if name]
    if not is_anchored:
        segments.insert(0, "**")
    return Pattern(tuple(segments), is_negated, for_folders)


def _segment(name: str) -> str:
    """Return a segment as `fnmatch` reads it.

    An escaped character becomes a class, and `^` in a class becomes `!`.
    """
    if name == "**":
        return name
    return _ESCAPED.sub(r"[\1]", name).replace("[^", "[!")


NO_PATTERNS = Patterns(())
