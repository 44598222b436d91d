"""Counting tokens: exact by default, offline, each text once."""

from __future__ import annotations

import json
from collections.abc import Iterable

from kaosmem.arguments import check_text
from kaosmem.errors import InvalidArgumentError
from kaosmem.tokens.counters import (
    AnyCounter,
    CallableCounter,
    EstimateCounter,
    TiktokenCounter,
    TokenCounter,
    ToktokCounter,
    check_tokens,
    has_toktok,
)
from kaosmem.tokens.encodings import DEFAULT_ENCODING, ESTIMATE, RECIPES
from kaosmem.tokens.models import encoding_of
from kaosmem.tokens.parts import IMAGE_TOKENS, part_tokens, sealed_tokens
from kaosmem.types import Content, ContentBlock, OpaqueBlock
from kaosmem.types.content import (
    ImageBlock,
    ThinkingBlock,
    ToolResultBlock,
    block_text,
    content_text,
)


def get_counter(counter: AnyCounter = None) -> TokenCounter:
    """Return a counter of tokens.

    An encoding is counted by toktok if the extra `fast` is installed, else by tiktoken, to the same
    numbers. Give a `TiktokenCounter` or a `ToktokCounter` to choose.

    Args:
        counter: The name of an encoding or of an OpenAI model, "estimate", a counter, or a callable
            from a text to its tokens. None is o200k_base.

    Raises:
        InvalidArgumentError: If it is none of these, or the name of the counter is no text.

    >>> count = get_counter()
    >>> count("Who owns the deal?")
    5
    >>> get_counter(len)("four")
    4
    """
    if counter is None:
        counter = DEFAULT_ENCODING
    if isinstance(counter, str):
        if counter == ESTIMATE:
            return EstimateCounter()
        if counter in RECIPES:
            encoding = counter
        else:
            encoding = encoding_of(counter) or counter
        if has_toktok():
            return ToktokCounter(encoding)
        return TiktokenCounter(encoding)
    if isinstance(counter, TokenCounter):
        check_text(counter.name, "name of a counter")
        return counter
    if callable(counter):
        return CallableCounter(counter)
    raise InvalidArgumentError(
        f"counter is a {type(counter).__name__}; give the name of an encoding, {ESTIMATE!r} or a "
        "callable"
    )


def count_content(content: Content, counter: TokenCounter) -> int:
    """Return the tokens of content alone: its text, its thinking, and the rest as estimates."""
    tokens = check_tokens(counter(content_text(content)), counter.name)
    if isinstance(content, str):
        return tokens
    return tokens + _tokens_beside_text(content, counter)


def _tokens_beside_text(blocks: Iterable[ContentBlock], counter: TokenCounter) -> int:
    tokens = 0
    for block in blocks:
        match block:
            case ImageBlock():
                tokens += IMAGE_TOKENS
            case ThinkingBlock():
                tokens += check_tokens(counter(block.thinking), counter.name) + sealed_tokens(
                    block.data
                )
            case OpaqueBlock():
                part = part_tokens(json.loads(block.data), counter)
                tokens += max(0, part - counter(block_text(block)))  # its text is counted
            case ToolResultBlock() if not isinstance(block.content, str):
                tokens += _tokens_beside_text(block.content, counter)
    return tokens
