"""Cutting of long texts in the middle."""

from __future__ import annotations

import re
from dataclasses import replace

from kaosmem.types.content import TextBlock, ToolResultBlock, block_text

_LEAST_GAIN = 16
"""A text is cut if that saves more characters. A text that was cut has a note with fewer digits."""

_TELLING = re.compile(
    r"^.{0,200}\b(?:errors?|fail(?:ed|ures?)|exception|fatal|panic(?:ked)?|[a-z]{1,40}(?:error|exception))\b.{0,200}$",
    re.IGNORECASE | re.MULTILINE,
)
"""A line that tells of a failure, as compilers, tests and interpreters write it."""
_MOST_TELLING = 8
"""Lines tell of a failure if at most one in so many does."""
_GAP = "\n…\n"


def cut_result(
    result: ToolResultBlock,
    most: int,
    whole: str,
) -> ToolResultBlock:
    """Return a result whose text is cut, as `cut_text` does; as it is if it is not all text."""
    content = result.content
    if not isinstance(content, str):
        if not all(isinstance(block, TextBlock) for block in content):
            return result
        content = block_text(result)
    cut = cut_text(content, most, whole)
    if cut is content:
        return result
    return replace(result, content=cut)


def cut_text(
    text: str,
    most: int,
    whole: str,
) -> str:
    """Return the beginning and the end of a text with a note between them, or the note alone.

    Lines between them that tell of a failure stay, in up to a third of the room.

    Args:
        most: Characters of the text that stay.
        whole: The name of the whole, for the note; "" for none.
    """
    note = left_out_note(len(text) - most, f"; {whole} is the whole" if whole else "")
    if len(text) <= most + len(note) + _LEAST_GAIN:
        return text
    if not most:
        return note
    third = most // 3
    end = len(text) - third
    telling = _telling_lines(text, third, end)
    begin = most - third
    for line in telling.values():
        begin -= len(line) + len(_GAP)
    shown = [text[:begin], f"\n{note}\n"]
    shown += [f"{line}{_GAP}" for start, line in telling.items() if start >= begin]
    return "".join([*shown, text[end:]])


def _telling_lines(text: str, begin: int, end: int) -> dict[int, str]:
    """Return the first lines between two places that tell of a failure, by their places.

    They have at most `begin` characters. If many lines have such words, as in source code, none
    tells.
    """
    found = {match.start(): match[0] for match in _TELLING.finditer(text, begin, end)}
    if _MOST_TELLING * len(found) > text.count("\n", begin, end):
        return {}
    chosen = {}
    left = begin
    for start, line in found.items():
        left -= len(line) + len(_GAP)
        if left < 0:
            break
        chosen[start] = line
    return chosen


def left_out_note(chars: int, more: str = "") -> str:
    """Return the note that stands in place of so many characters of a text."""
    return f"… {chars:,} characters left out{more} …"
