"""The contract catches strategies that are wrong in a way that strategies are."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import count

import pytest

from kaosmem import ChatMessage, TextBlock, ThinkingBlock, ToolResultBlock, ToolUseBlock, Trust
from kaosmem.compaction import CompactionStrategy, SlidingWindowCompaction
from kaosmem.testing import CompactionContract
from kaosmem.testing.contracts.compaction import PROMISES
from kaosmem.testing.contracts.conversations import conversations


class Newest:
    """Cuts by number, wherever that is."""

    async def compact(self, history: Sequence[ChatMessage]) -> list[ChatMessage]:
        return list(history)[-5:]


class NoOrphans:
    """Leaves out every result, and the calls stay."""

    async def compact(self, history: Sequence[ChatMessage]) -> list[ChatMessage]:
        return [
            message
            for message in history
            if not any(isinstance(b, ToolResultBlock) for b in message.blocks)
        ]


class NoCalls:
    """Leaves out calls that were answered, and their results stay."""

    async def compact(self, history: Sequence[ChatMessage]) -> list[ChatMessage]:
        answered = {
            b.tool_use_id
            for message in history
            for b in message.blocks
            if isinstance(b, ToolResultBlock)
        }
        return [
            message
            for message in history
            if message.pinned
            or not any(isinstance(b, ToolUseBlock) and b.id in answered for b in message.blocks)
        ]


class NoThinking:
    """Takes signed thinking from calls that were answered and stay."""

    async def compact(self, history: Sequence[ChatMessage]) -> list[ChatMessage]:
        answered = {
            b.tool_use_id
            for message in history
            for b in message.blocks
            if isinstance(b, ToolResultBlock)
        }
        return [
            replace(
                message,
                content=tuple(b for b in message.content if not isinstance(b, ThinkingBlock)),
            )
            if isinstance(message.content, tuple)
            and not message.pinned
            and {b.id for b in message.content if isinstance(b, ToolUseBlock)} & answered
            else message
            for message in history
        ]


class NotesWhatItDid:
    async def compact(self, history: Sequence[ChatMessage]) -> list[ChatMessage]:
        return [*history, ChatMessage("summary", "Nothing was left out.")]


class SummaryAsSystem:
    async def compact(self, history: Sequence[ChatMessage]) -> list[ChatMessage]:
        return [
            replace(message, role="system")
            if message.role == "critic" and not message.pinned
            else message
            for message in history
        ]


class TrustsWhatItChanges:
    async def compact(self, history: Sequence[ChatMessage]) -> list[ChatMessage]:
        return [
            replace(message, content="long", trust=Trust.USER)
            if message.role == "critic" and len(message.text) > 100 and not message.pinned
            else message
            for message in history
        ]


class NewestFirst:
    async def compact(self, history: Sequence[ChatMessage]) -> list[ChatMessage]:
        return [
            *(m for m in history if m.role == "critic"),
            *(m for m in history if m.role != "critic"),
        ]


class ForgetsPins:
    async def compact(self, history: Sequence[ChatMessage]) -> list[ChatMessage]:
        return [
            message
            for message in history
            if not (message.pinned and isinstance(message.content, str))
        ]


class ForgetsTheFirstQuestion:
    async def compact(self, history: Sequence[ChatMessage]) -> list[ChatMessage]:
        said = [
            message
            for message in history
            if message.role == "user" and isinstance(message.content, str)
        ]
        return [
            message for message in history if message is not (said[0] if len(said) > 1 else None)
        ]


class ForgetsTheNewest:
    async def compact(self, history: Sequence[ChatMessage]) -> list[ChatMessage]:
        kept = [message.role == "critic" and not message.pinned for message in history[-1:]]
        return list(history)[:-1] if any(kept) else list(history)


class EatsItsHistory:
    async def compact(self, history: Sequence[ChatMessage]) -> list[ChatMessage]:
        left = list(history)
        if isinstance(history, list):
            history.clear()
        return left


class ReturnsItsHistory:
    async def compact(self, history: Sequence[ChatMessage]) -> list[ChatMessage]:
        return history if isinstance(history, list) else list(history)


_turns = count()


class Changes:
    """Names what it changes after how often it was asked."""

    async def compact(self, history: Sequence[ChatMessage]) -> list[ChatMessage]:
        return [
            replace(m, content=(TextBlock(str(next(_turns) % 10)),))
            if m.role == "critic" and not m.pinned
            else m
            for m in history
        ]


class EndsNever:
    """Takes something more each time."""

    async def compact(self, history: Sequence[ChatMessage]) -> list[ChatMessage]:
        place = next(
            (p for p, m in enumerate(history) if m.role == "critic" and not m.pinned), None
        )
        return [message for each, message in enumerate(history) if each != place]


FAULTS = {
    Newest: "it_keeps_what_is_protected",
    NoOrphans: "it_opens_no_call",
    NoCalls: "it_orphans_no_result",
    NoThinking: "it_leaves_answers_whole",
    NotesWhatItDid: "it_takes_no_more_tokens",
    SummaryAsSystem: "it_gives_nothing_authority",
    TrustsWhatItChanges: "it_gives_nothing_authority",
    NewestFirst: "it_keeps_the_order",
    ForgetsPins: "it_keeps_what_is_protected",
    ForgetsTheFirstQuestion: "it_keeps_what_is_protected",
    ForgetsTheNewest: "it_keeps_the_newest",
    EatsItsHistory: "the history was changed",
    ReturnsItsHistory: "the history itself was returned",
    Changes: "the same history gave something else",
    EndsNever: "a second time left something else",
}


def failures(strategy: type[CompactionStrategy]) -> Iterator[str]:
    class Tested(CompactionContract):
        def make(self) -> CompactionStrategy:
            return strategy()

    for history in conversations():
        try:
            Tested().check(list(history))
        except AssertionError as error:
            yield str(error)


@pytest.mark.parametrize(
    ("strategy", "fault"), FAULTS.items(), ids=lambda value: getattr(value, "__name__", "")
)
def test_a_fault_is_caught_for_what_it_is(strategy, fault):
    assert any(fault in failure for failure in failures(strategy))


def test_every_promise_is_broken_by_some_fault():
    assert {promise.__name__ for promise in PROMISES} <= set(FAULTS.values())


def test_what_is_right_is_not_caught():
    """So that what fails above fails for its fault."""
    assert list(failures(SlidingWindowCompaction)) == []
