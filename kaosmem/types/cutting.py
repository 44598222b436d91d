"""Cutting of long texts in the middle."""

from __future__ import annotations

from dataclasses import replace

from kaosmem.types.content import TextBlock, ToolResultBlock, block_text

_LEAST_GAIN = 16
"""A text is cut if that saves more characters. A text that was cut has a note with fewer digits."""


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
    return result if cut is content else replace(result, content=cut)


def cut_text(
    text: str,
    most: int,
    whole: str,
) -> str:
    """Return the beginning and the end of a text with a note between them, or the note alone.

    Args:
        most: Characters of the text that stay.
        whole: The name of the whole, for the note; "" for none.
    """
    note = left_out_note(len(text) - most, f"; {whole} is the whole" if whole else "")
    if len(text) <= most + len(note) + _LEAST_GAIN:
        return text
    if not most:
        return note
    end = most // 3
    return f"{text[: most - end]}\n{note}\n{text[len(text) - end :]}"


def left_out_note(chars: int, more: str = "") -> str:
    """Return the note that stands in place of so many characters of a text."""
    return f"… {chars:,} characters left out{more} …"
