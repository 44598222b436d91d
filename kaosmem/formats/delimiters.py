"""The delimiters that layouts put around stored text, and the escapes that keep stored text from forging one.

A line of stored text that begins like a delimiter gets a backslash before it. In the system message, the block and the
format "text" that is any section header or label too; in a message of a history, which is handed over unchanged but for
this, only the lines of a history itself: the block's tags, a mark, an opening, and the line that names a speaker.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING

from kaosmem.memos import register_memo

if TYPE_CHECKING:
    from kaosmem.formats.layout import Mark

BLOCK_BEGIN, BLOCK_END = "<context>\n", "</context>\n"

OPENING = "[the assistant speaks first]"
"""Stands for the user's turn before a history that begins with the assistant, where a provider asks for one."""

_MAX_NAME_CHARS = 64

# The end of a line is all that Unicode, and so a model, may read as one; stored text keeps them as they are.
_LINE_END = r"([\n\r\v\f\x1c\x1d\x1e\x85\u2028\u2029])"
_OF_HISTORIES = rf"</?context>|<message from=|\[\d+ earlier messages left out\]|{re.escape(OPENING)}"
_IN_HISTORY = re.compile(rf"{_LINE_END}(?=\\*(?:{_OF_HISTORIES}))")
_OF_PIECES = rf"##\s|\[[^\]\n]*\]\s|{_OF_HISTORIES}"
_IN_PIECE = re.compile(rf"{_LINE_END}(?=\\*(?:{_OF_PIECES}))")
_OF_SPEAKERS = rf"[^\s:]{{1,{_MAX_NAME_CHARS}}}(?: \([^()\n]*\))?:\s"
_IN_SPEECH = re.compile(rf"{_LINE_END}(?=\\*(?:{_OF_PIECES}|{_OF_SPEAKERS}))")
# No delimiter of a history is without one of these, and looking for them is many times faster than for line ends.
_HINTS = ("context>", "<message from=", "earlier messages left out]", OPENING)

_NOT_IN_NAME = re.compile(r"[\s<|\\/>\"]+")
_SPEAKER = re.compile(r'<message from="([^"\s]+)">\n')

PROVIDERS_ROLES = frozenset({"system", "developer", "user", "assistant", "tool", "function"})
"""Roles that mean something to a provider, so that no name of a user may pass for one."""


def mark_text(mark: Mark) -> str:
    """Return the line that replaces the messages of a history that are not shown."""
    return f"[{mark.left_out} earlier messages left out]"


@lru_cache(maxsize=4_096)
def speaker_name(role: str) -> str:
    r"""Return a role as the name of a user: 1 to 64 characters, none of them blank or one of `< > | \ / "`.

    Source: OpenAI, API reference, chat completions: the pattern of `name`.
    """
    return _NOT_IN_NAME.sub("_", role)[:_MAX_NAME_CHARS] or "_"


register_memo(speaker_name.cache_clear)


def speaker_line(role: str) -> str:
    """Return the line that says whose message follows, for providers without names."""
    return f'<message from="{speaker_name(role)}">\n'


def named_speaker(line: str) -> str | None:
    """Return the name on a speaker's line, None if it is not one or names a provider's role."""
    match = _SPEAKER.fullmatch(line)
    return match[1] if match and match[1] not in PROVIDERS_ROLES else None


def false_delimiters(text: str, *, spoken: bool = False) -> int:
    """Return how many lines of a text would be taken for a delimiter in a piece.

    spoken: the text is a speaker's, so that a line such as `Emi: ` would be taken for another speaker's.
    """
    return len((_IN_SPEECH if spoken else _IN_PIECE).findall(f"\n{text}\n"))


def escaped_in_piece(text: str, *, spoken: bool = False) -> str:
    """Return the text with its false delimiters escaped; the text itself where there are none."""
    pattern, lines = _IN_SPEECH if spoken else _IN_PIECE, f"\n{text}\n"
    return text if pattern.search(lines) is None else pattern.sub(r"\1\\", lines)[1:-1]


def escaped_in_history(text: str) -> str:
    """Return the text with false delimiters of histories escaped; the text itself where there are none."""
    if not any(hint in text for hint in _HINTS):
        return text
    lines = f"\n{text}"
    return text if _IN_HISTORY.search(lines) is None else _IN_HISTORY.sub(r"\1\\", lines)[1:]
