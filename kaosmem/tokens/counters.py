"""Token counters: exact ones by tiktoken and toktok, an estimate, and any function."""

from __future__ import annotations

import operator
import re
import unicodedata
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cache, cached_property
from typing import TYPE_CHECKING, Protocol, TypeAlias, runtime_checkable

from kaosmem.arguments import MAX_INTEGER
from kaosmem.errors import InvalidArgumentError, MissingExtraError
from kaosmem.names import shown_number
from kaosmem.tokens.encodings import (
    DEFAULT_ENCODING,
    ESTIMATE,
    check_encoding,
    load_encoding,
)

if TYPE_CHECKING:
    import tiktoken


@runtime_checkable
class TokenCounter(Protocol):
    """Counts the tokens of a text.

    Attributes:
        name: Stored in the session's log. A session that is opened with another name is counted
            again.
        additive: Whether the counts of parts add up to the count of the whole, if a text is cut
            before a line that begins with neither white space nor `/`, or before a space after a
            visible ASCII character. If it is False, a context is counted as a whole.

    >>> from kaosmem import SessionMemory
    >>> memory = SessionMemory.test_mode(counter=len)  # any function from str to int
    >>> memory.add("findings", "four").tokens
    4
    """

    @property
    def name(self) -> str: ...

    @property
    def additive(self) -> bool: ...

    def __call__(self, text: str) -> int: ...


AnyCounter: TypeAlias = TokenCounter | Callable[[str], int] | str | None
"""A counter, or what `get_counter` makes one of."""


class CallableCounter:
    """Counts with any function from str to int.

    Nothing is assumed of it, so contexts are counted as a whole.

    Raises InvalidArgumentError if its result is no number of tokens.
    """

    additive = False

    def __init__(self, count: Callable[[str], int]) -> None:
        self._count = count
        module = getattr(count, "__module__", "?")
        name = getattr(count, "__qualname__", type(count).__name__)
        self.name = f"{module}.{name}"

    def __repr__(self) -> str:
        return f"CallableCounter({self.name})"

    def __call__(self, text: str) -> int:
        return check_tokens(self._count(text), self.name)


def check_tokens(count: object, counter: str) -> int:
    """Return a counter's answer as a plain int from 0 to 2^63 - 1, as a log can hold.

    Raises InvalidArgumentError.
    """
    if type(count) is not int and not isinstance(count, bool):
        with suppress(TypeError):
            count = int(operator.index(count))  # type: ignore[arg-type]
    if type(count) is int and 0 <= count <= MAX_INTEGER:
        return count
    raise InvalidArgumentError(
        f"counter {counter} gives a count of {shown_number(count)}; have it return a whole number "
        "of tokens from 0 up"
    )


class EstimateCounter:
    """Estimates tokens from runs of like characters: no vocabulary, no load time.

    A run of ASCII letters costs one token for every nine begun, of digits or other letters two for
    three, of ASCII punctuation one for every two begun; line ends and wide gaps cost one, any other
    character two. On prose, code and JSON within about a tenth of o200k_base. No run crosses a line
    end, so pieces add up.
    """

    name = ESTIMATE
    additive = True

    _RUN = re.compile(
        r"([A-Za-z]+)|([!-/:-@\[-`{-~]+)|(\s*\n\s*|[^\S\n]{2,})|([0-9]+|[^\W_]+)|[^\s]"
    )

    def __repr__(self) -> str:
        return "EstimateCounter()"

    def __call__(self, text: str) -> int:
        tokens = 0
        for run in self._RUN.finditer(text):
            length = run.end() - run.start()
            match run.lastindex:
                case 1:
                    tokens += -(-length // 9)
                case 2:
                    tokens += -(-length // 2)
                case 3:
                    tokens += 1
                case 4:
                    tokens += -(-2 * length // 3)
                case _:
                    tokens += 2
        return tokens


_LONG = 100_000
_PART_CHARS = 1 << 17
# Where the counts of parts add up to that of the whole (see `TokenCounter.additive`).
_GAP = re.compile(r"(?<=[!-~]) ")
# A run is tried from its start alone, or a text of many shorter runs would take time in the square
# of their length.
_LONG_BLANK = re.compile(rf"(?<!\s)\s{{{_LONG},}}")


class TiktokenCounter:
    """Counts exactly as OpenAI's tokenizer of that name does.

    Text that looks like a special token counts as text.

    >>> TiktokenCounter("cl100k_base")("Who owns the deal?")
    5
    """

    additive = True

    def __init__(self, name: str = DEFAULT_ENCODING) -> None:
        check_encoding(name)
        self.name = name

    def __repr__(self) -> str:
        return f"TiktokenCounter({self.name!r})"

    @cached_property
    def _encoding(self) -> tiktoken.Encoding:
        return load_encoding(self.name)

    def __call__(self, text: str) -> int:
        encoding = self._encoding
        if len(text) < _LONG:
            return len(encoding.encode_ordinary(text))
        if _LONG_BLANK.search(text):
            # On such a run the pattern overflows the stack of tiktoken's own engine. The one of
            # the package regex cuts the text at the same places.
            return len(encoding._encode_only_native_bpe(text))
        return sum(len(encoding.encode_ordinary(part)) for part in additive_parts(text))


def additive_parts(text: str) -> Iterator[str]:
    """Yield parts of a long text whose counts add up.

    All its tokens at once would take 20 times its size.
    """
    start = 0
    while len(text) - start > 2 * _PART_CHARS:
        gap = _GAP.search(text, start + _PART_CHARS)
        if gap is None:
            break
        yield text[start : gap.start()]
        start = gap.start()
    yield text[start:]


_ALL = 1 << 40


class ToktokCounter:
    """Counts exactly as `TiktokenCounter` does, and under the same name.

    So a session may change between them. The packages know different versions of Unicode: 4,699
    characters that came with Unicode 17 are letters, marks or digits to toktok 0.3 but not to
    tiktoken 0.14. Most are Han (U+323B0 to U+33479), Tangut, Beria Erfe, Sidetic, Tai Yo and Tolong
    Siki. So tiktoken counts a text with a character that came with Unicode 17, or may come later.

    Raises:
        InvalidArgumentError: If the encoding is not known.
        MissingExtraError: If the extra `fast` is not installed.
    """

    additive = True

    def __init__(self, name: str = DEFAULT_ENCODING) -> None:
        check_encoding(name)
        if not has_toktok():
            raise MissingExtraError(
                "counting with toktok needs the extra 'fast': pip install 'kaosmem[fast]', or use "
                "TiktokenCounter"
            )
        from toktok import truncate

        self.name = name
        self._truncate = truncate
        self._reference = TiktokenCounter(name)

    def __repr__(self) -> str:
        return f"ToktokCounter({self.name!r})"

    def __call__(self, text: str) -> int:
        if not text.isascii() and _unsettled().search(text):
            return self._reference(text)
        # Ten times as fast for one text as `batch_count`.
        if len(text) <= _PART_CHARS:
            tokens: int = self._truncate(text, _ALL, self.name)[1]
            return tokens
        return sum(self._truncate(part, _ALL, self.name)[1] for part in additive_parts(text))


@cache
def has_toktok() -> bool:
    """Return whether toktok is installed, in a version that counts single texts."""
    try:
        from toktok import truncate  # noqa: F401
    except ImportError:
        return False
    return True


# Letters, marks and digits below U+10000 that Unicode 17 brought.
_UNICODE_17 = "\u088f\u0c5c\u0cdc\u1acf-\u1add\u1ae0-\u1aeb\ua7ce-\ua7d4\ua7f1"
# Beyond, emoji and the first block of Han are complete, and all that is common.
_RARE = "\U00010000-\U0001efff\U0002a6de-\U0010ffff"


@cache
def _unsettled() -> re.Pattern[str]:
    """Return a pattern of unsettled characters, and of lone surrogates, which toktok refuses."""
    unassigned = (
        char for char in map(chr, range(0x10000)) if unicodedata.category(char) in ("Cn", "Cs")
    )
    return re.compile(f"[{re.escape(''.join(unassigned))}{_UNICODE_17}{_RARE}]")
