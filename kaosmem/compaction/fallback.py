"""The summary that is made without a model: an outline in which users' own words come first."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from kaosmem.compaction.kept_facts import SUMMARY_ROLE, is_summary, prose_of
from kaosmem.formats.delimiters import shown_role
from kaosmem.language.credentials import without_credentials
from kaosmem.language.sentences import cut_at_sentence
from kaosmem.types import ContentBlock
from kaosmem.types.content import ThinkingBlock, ToolResultBlock, block_text
from kaosmem.types.items import ChatMessage

NO_MODEL = "no model"
"""The reason of outlines by a Summarizer that has no model."""

_HEADING = re.compile(r"\AShortened without a model \(([^()\n]{1,80})\):(?:\n|\Z)")
_LINE = re.compile(r"([\w@.+-]{1,40}): (.+)")
_NOT_IN_ROLE = re.compile(r"[^\w@.+-]+")
_NOT_IN_REASON = re.compile(r"[()\s]+")
_MAX_CHARS = 4_000  # of a message that are looked at
_LEAST_TOKENS = 6  # a shorter line says nothing
_LINE_TOKENS = 24  # any line may take so many


class _Line(NamedTuple):
    role: str
    text: str


_SHARES = {SUMMARY_ROLE: 0.35, "user": 0.75, "assistant": 0.75, "": 1.0}
"""By role, in the order in which lines get room: the share of the room that is left. "" is any other."""
_LINE_SHARE = 4
"""A line takes one in so many tokens of the room that is left."""


def fallback_reason(text: str) -> str | None:
    r"""Return why a summary was made without a model, or None if a model made it.

    >>> fallback_reason("Shortened without a model (ConnectionError):\nuser: Fix the login.")
    'ConnectionError'
    >>> fallback_reason("They fixed the login.") is None
    True
    """
    heading = _HEADING.match(text)
    return heading[1] if heading else None


def model_failure(messages: Iterable[ChatMessage]) -> str:
    """Return why the newest summary had no model, or an empty text.

    A `Summarizer` without a model has no failure to tell.
    """
    summaries = [message for message in messages if is_summary(message)]
    reason = None
    if summaries:
        reason = fallback_reason(summaries[-1].text)
    if reason in (None, NO_MODEL):
        return ""
    return str(reason)


def without_fallback_heading(text: str) -> str:
    """Return a model's text without the line that would make it pass for an outline."""
    return _HEADING.sub("", text)


def fallback_text(
    messages: Iterable[ChatMessage],
    most: int,
    *,
    reason: str,
    count: Callable[[str], int],
) -> str:
    """Return an outline of messages that takes at most `most` tokens, "" if its heading does not fit.

    Each line is one message, cut at a sentence, without credentials. Earlier summaries come first,
    then users' words, then the assistant's, then all others, and of each the newest first. The
    lines stand in the order of the messages. The same messages give the same text.

    Args:
        reason: Says why no model made it, in at most 80 characters.
    """
    shown_reason = _NOT_IN_REASON.sub(" ", reason)[:80].strip()
    heading = f"Shortened without a model ({shown_reason or 'no reason'}):"
    if count(heading) > most:
        return ""
    lines = [line for message in messages for line in _lines_of(message)]
    chosen = _chosen(lines, most - count(f"{heading}\n"), count)
    while chosen:
        text = "\n".join([heading, *(chosen[place] for place in sorted(chosen))])
        if count(text) <= most:
            return text
        chosen.popitem()  # the least wanted one
    return heading


def _chosen(
    lines: Sequence[_Line],
    room: int,
    count: Callable[[str], int],
) -> dict[int, str]:
    """Return lines by their places, as far as there is room for them, the most wanted first."""
    chosen: dict[int, str] = {}
    for wanted, share in _SHARES.items():
        left = int(room * share)
        longest = max(room // _LINE_SHARE, _LINE_TOKENS)
        for place in range(len(lines) - 1, -1, -1):
            role, text = lines[place]
            if wanted != (role if role in _SHARES else ""):
                continue
            if left < _LEAST_TOKENS:
                break
            line = cut_at_sentence(f"{role}: {text}", min(left, longest), count)
            if len(line) > len(role) + 2:
                tokens = count(f"{line}\n")
                chosen[place] = line
                left -= tokens
                room -= tokens
    return chosen


def _lines_of(message: ChatMessage) -> Iterator[_Line]:
    """Yield a message as one line, or the lines of a summary that was made here.

    Yield nothing for a message without text.
    """
    if is_summary(message):
        prose = prose_of(message.text)
        heading = _HEADING.match(prose)
        if heading is not None:
            lines = map(_LINE.fullmatch, prose[heading.end() :].split("\n"))
            yield from (_Line(line[1], line[2]) for line in lines if line)
            return
        shown = prose
    else:
        shown = said_text(message, max_chars=_MAX_CHARS)
    if text := " ".join(shown[:_MAX_CHARS].split()):
        role = _NOT_IN_ROLE.sub("_", shown_role(message.role))[:40] or "_"
        yield _Line(role, without_credentials(text))


def said_text(message: ChatMessage, *, max_chars: int | None = None) -> str:
    """Return what a message says, a block a paragraph. Thinking is not said.

    Args:
        max_chars: Of each block, None for all.
    """
    said = (block for block in message.blocks if not isinstance(block, ThinkingBlock))
    return "\n".join(_shown_block(block)[:max_chars] for block in said)


def _shown_block(block: ContentBlock) -> str:
    """Return a block as text, the result of a failed call with the word error before it."""
    is_error = isinstance(block, ToolResultBlock) and block.is_error
    if is_error:
        return f"error: {block_text(block)}"
    return block_text(block)
