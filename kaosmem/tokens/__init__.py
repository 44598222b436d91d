"""Counting tokens: exact by default, offline, each text once."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from kaosmem.errors import InvalidArgumentError
from kaosmem.tokens.counters import (
    CallableCounter,
    EstimateCounter,
    TiktokenCounter,
    TokenCounter,
    ToktokCounter,
    check_tokens,
    has_toktok,
)
from kaosmem.tokens.encodings import DEFAULT_ENCODING, ESTIMATE, RECIPES
from kaosmem.tokens.models import context_length, encoding_of, preserves_thinking
from kaosmem.types import Content, ContentBlock, ImageBlock, ToolResultBlock, check_text, content_text

__all__ = [
    "DEFAULT_ENCODING",
    "ESTIMATE",
    "IMAGE_TOKENS",
    "CallableCounter",
    "EstimateCounter",
    "TiktokenCounter",
    "TokenCounter",
    "ToktokCounter",
    "context_length",
    "count_content",
    "get_counter",
    "preserves_thinking",
]

IMAGE_TOKENS = 765
"""The estimated tokens of an image: the real size is the provider's secret until it is sent.

Source: OpenAI's pricing of a 1024 x 1024 image at high detail, 85 + 4 tiles of 170.
"""


def get_counter(counter: TokenCounter | Callable[[str], int] | str | None = None) -> TokenCounter:
    """Return a counter: None is o200k_base, a str is an encoding, an OpenAI model or "estimate", a callable is wrapped.

    An encoding is counted by toktok where the extra `fast` is installed, else by tiktoken, to the same numbers;
    give a `TiktokenCounter` or a `ToktokCounter` to choose. Raises InvalidArgumentError
    for a counter whose name is no text.

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
        encoding = counter if counter in RECIPES else encoding_of(counter) or counter
        return ToktokCounter(encoding) if has_toktok() else TiktokenCounter(encoding)
    if isinstance(counter, TokenCounter):
        check_text(counter.name, "name of a counter")
        return counter
    if callable(counter):
        return CallableCounter(counter)
    raise InvalidArgumentError(
        f"counter is a {type(counter).__name__}; give the name of an encoding, {ESTIMATE!r} or a callable"
    )


def count_content(content: Content, counter: TokenCounter) -> int:
    """Return the tokens of content alone, an image at its estimate."""
    tokens = check_tokens(counter(content_text(content)), counter.name)
    return tokens if isinstance(content, str) else tokens + _images(content) * IMAGE_TOKENS


def _images(blocks: Iterable[ContentBlock]) -> int:
    """Return how many images there are, those inside results included."""
    return sum(
        _images(block.content)
        if isinstance(block, ToolResultBlock) and not isinstance(block.content, str)
        else isinstance(block, ImageBlock)
        for block in blocks
    )
