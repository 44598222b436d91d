"""A context's layout before it takes a format, and the Format protocol."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol, TypeAlias, runtime_checkable

from kaosmem.tokens.counters import TokenCounter
from kaosmem.types import JSONDict, JSONObject
from kaosmem.types.items import ChatMessage


@dataclass(frozen=True, slots=True)
class Mark:
    """A line of kaosmem's own between the messages of a history.

    Attributes:
        left_out: Number of messages that it stands for.
        days: The days of the messages before it and after it, if it stands between two days.
    """

    left_out: int = 0
    days: tuple[str, str] | None = None


HistoryEntry: TypeAlias = ChatMessage | Mark


@dataclass(frozen=True, slots=True)
class HistoryPart:
    """The tail of one history section."""

    title: str
    entries: tuple[HistoryEntry, ...]


class BlockPlace(StrEnum):
    """Where the block that depends on the query stands."""

    IN_MESSAGE = "in_message"
    OWN_MESSAGE = "own_message"


@dataclass(frozen=True, slots=True)
class Layout:
    """The parts of a context, in order: system message, histories, the query's block."""

    static: tuple[str, ...] = field(repr=False)
    history: tuple[HistoryPart, ...]
    block: tuple[str, ...] = field(repr=False)
    block_place: BlockPlace | None = None


@dataclass(frozen=True, slots=True)
class Rendered:
    """A layout in a format, ready for a model.

    Attributes:
        system: The system prompt of a format that has it beside its messages, "" where nothing is
            static.
    """

    text: str | None = field(default=None, repr=False)
    messages: list[JSONDict] | None = field(default=None, repr=False)
    system: str | None = field(default=None, repr=False)


@runtime_checkable
class Format(Protocol):
    """Lays out a context as one provider takes it, and counts it exactly.

    Give one in place of a name: `assemble_context(format=MyFormat())`.
    `kaosmem.testing.FormatContract` checks it. Stored texts are escaped with `escaped_in_history`,
    in text with `entry_piece`.

    A context's tokens are: its frame, the pieces of the system message and of the block, a header
    for each history, and each entry of the histories.
    """

    @property
    def name(self) -> str:
        """Return the name, by which windows and contexts know the format."""

    def entry_tokens(
        self,
        entry: HistoryEntry,
        counter: TokenCounter,
        *,
        known: int | None = None,
    ) -> int:
        """Return the tokens of one entry of a history.

        Args:
            known: The tokens of its text alone, where they are known and it holds nothing else.
        """

    def history_header_tokens(self, title: str, counter: TokenCounter) -> int:
        """Return the tokens of a history section's header."""

    def frame_tokens(
        self,
        *,
        static: bool,
        first: HistoryEntry | None,
        block: BlockPlace | None,
        counter: TokenCounter,
    ) -> int:
        """Return the tokens of no section: reply priming, framing of the system message and block.

        Args:
            first: The first entry of the histories, None where there is none. An entry of the
                assistant costs the most in every format.
        """

    def takes_block(self, entry: HistoryEntry) -> bool:
        """Say whether the block goes into this entry when it is the last of the history."""

    def render(self, layout: Layout, *, after: Sequence[JSONObject] = ()) -> Rendered:
        """Return a layout as it is handed over.

        Args:
            after: Messages of the same request that stand before the layout. They are not returned.
        """

    def count(self, rendered: Rendered, counter: TokenCounter) -> int:
        """Count a rendered context again from scratch, framing included."""

    def parse(self, message: object) -> ChatMessage:
        """Return a provider's message, a dict or an object of its SDK, as a ChatMessage.

        Raises:
            InvalidArgumentError: If the value is no message, or the format has no messages.
        """
