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

# Not seen, and dropped from shown text: tag characters and variation selectors that can spell a hidden text, and
# controls that show the letters around them in another order.
HIDDEN = "\U000e0000-\U000e007f\U000e0100-\U000e01ef\u202a-\u202e\u2066-\u2069"
_HIDDEN = re.compile(f"[{HIDDEN}]")

# Not seen either, and kept: some scripts and emoji need them. A delimiter with some of them inside is one all the same.
_UNSEEN = (
    r"\x00-\x08\x0e-\x1b\x7f-\x84\x86-\x9f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f"
    r"\u2060-\u2064\u206a-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\U0001d173-\U0001d17a"
)
# The end of a line is all that Unicode, and so a model, may read as one; stored text keeps them as they are.
_LINE_ENDS = r"\n\r\v\f\x1c\x1d\x1e\x85\u2028\u2029"
_GAP = rf"[\s{_UNSEEN}]"


# Within the words of a delimiter, all that is neither a letter, a digit nor printable ASCII counts as not seen, and the
# letters of Hangul that are blank. The exact set, which has many ranges, would take 0.1 s to compile once per letter.
_FILLERS = r"\u115f\u1160\u3164\uffa0"
_JOIN, _BLANK = rf"(?:[^\w\s!-~]|[{_FILLERS}])*+", rf"(?:[^\w!-~]|[{_FILLERS}])"


def _spelt(text: str) -> str:
    """Return the pattern of a text in any case, with characters between its letters that are not seen."""
    words = (_JOIN.join(f"[{char.lower()}{char.upper()}]" for char in word) for word in text.split())
    return f"{_BLANK}++".join(words)


# No delimiter is without its first character, so that most of any text is passed over at once. No part of a pattern can
# match what the part before it has left, so that the time is linear.
_TAGS = (
    rf"[<\uff1c\ufe64]{_BLANK}*+(?:/{_BLANK}*+)?(?:{_spelt('context')}(?![\w-])|{_spelt('message from')}{_BLANK}*+=)"
)
_NOTES = rf"\[{_BLANK}*+(?:\d+{_BLANK}++{_spelt('earlier messages left out')}|{_spelt(OPENING[1:-1])}){_BLANK}*+\]"
_ANYWHERE = re.compile(rf"{_TAGS}|{_NOTES}")

# At the beginning of a line, after blanks, signs of a quotation and what is not seen.
_BEFORE = rf"([{_LINE_ENDS}](?:[^\S{_LINE_ENDS}]|[>{_UNSEEN}])*+)(?=\\*"
_OF_PIECES = rf"#[{_UNSEEN}]*#{_GAP}|(?!{_NOTES})\[[^\]{_LINE_ENDS}]*\]{_GAP}"
_LINE_IN_PIECE = re.compile(rf"{_BEFORE}(?:{_OF_PIECES}))")
_OF_SPEAKERS = rf"[^\s:<>|\\/\"]{{1,{_MAX_NAME_CHARS}}}(?: \([^(){_LINE_ENDS}]*\))?:{_GAP}"
_LINE_IN_SPEECH = re.compile(rf"{_BEFORE}(?:{_OF_PIECES}|{_OF_SPEAKERS}))")

_NOT_IN_NAME = re.compile(rf"[\s<|\\/>\"{HIDDEN}]+")
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


def is_changed_in_piece(text: str, *, spoken: bool = False) -> bool:
    """Return whether a text is shown otherwise in a piece, as `escaped_in_piece` gives it."""
    return escaped_in_piece(text, spoken=spoken) is not text


def escaped_in_piece(text: str, *, spoken: bool = False) -> str:
    """Return a text as it is shown in a piece: without hidden characters, its false delimiters escaped.

    It is the text itself where nothing changes.
    spoken: the text is a speaker's, so that a line such as `Emi: ` would be taken for another speaker's.
    """
    shown = without_hidden(text)
    shown = _escaped(_ANYWHERE, r"\\\g<0>", shown)
    lines = f"\n{shown}\n"
    changed = _escaped(_LINE_IN_SPEECH if spoken else _LINE_IN_PIECE, r"\1\\", lines)
    return shown if changed is lines else changed[1:-1]


def escaped_in_history(text: str) -> str:
    """Return a text as it is shown in a history: without hidden characters, false delimiters of histories escaped.

    It is the text itself where nothing changes.
    """
    return _escaped(_ANYWHERE, r"\\\g<0>", without_hidden(text))


def without_hidden(text: str) -> str:
    """Return a text without characters that hide a text or its order; the text itself where there are none."""
    return text if text.isascii() else _escaped(_HIDDEN, "", text)


def _escaped(pattern: re.Pattern[str], form: str, text: str) -> str:
    return text if pattern.search(text) is None else pattern.sub(form, text)
