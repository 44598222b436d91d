"""The contract of every CompactionStrategy."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any, ClassVar

from kaosmem.compaction import CompactionStrategy
from kaosmem.formats import HistoryPart, Layout, count_messages, get_format
from kaosmem.testing.contracts.conversations import conversations
from kaosmem.types import ContentBlock
from kaosmem.types.content import ThinkingBlock, ToolResultBlock, ToolUseBlock
from kaosmem.types.items import ChatMessage
from kaosmem.units import repair

Tie = tuple[str, str]
"""A call, a result or a seal of thinking, and its id."""


def tokens_of(messages: Sequence[ChatMessage]) -> int:
    """Return the tokens of messages, rendered for OpenAI."""
    rendered = get_format("openai").render(
        Layout((), (HistoryPart("", tuple(repair(messages))),), ())
    )
    return count_messages(rendered.messages, "openai")


def it_takes_no_more_tokens(history: Sequence[ChatMessage], left: Sequence[ChatMessage]) -> bool:
    """Say whether the shorter history takes at most the tokens of the history."""
    return tokens_of(left) <= tokens_of(history)


def it_keeps_the_order(history: Sequence[ChatMessage], left: Sequence[ChatMessage]) -> bool:
    """Say whether the messages that stay as they were keep their order, and none comes twice."""
    places = {id(message): place for place, message in enumerate(history)}
    kept = [places[id(message)] for message in left if id(message) in places]
    return kept == sorted(set(kept))


def it_keeps_what_is_protected(history: Sequence[ChatMessage], left: Sequence[ChatMessage]) -> bool:
    """Say whether system and pinned messages, the newest user message, and awaited calls stay.

    They stay as they are, except for the contents of results in messages that are not pinned.
    """
    said = [
        place
        for place, message in enumerate(history)
        if message.role == "user" and not _is_results(message)
    ]
    protected = {
        place for place, message in enumerate(history) if message.role == "system" or message.pinned
    }
    protected |= {*said[-1:], *_awaited(history)}
    rest = map(_without_results, left)
    return all(
        any(message == each for message in rest)
        for each in (_without_results(history[p]) for p in sorted(protected))
    )


def it_keeps_the_newest(history: Sequence[ChatMessage], left: Sequence[ChatMessage]) -> bool:
    """Say whether the newest message stays, system messages and results without a call aside."""
    orphans = {place for place, _ in _matched(history)[1]}
    said = [
        message
        for place, message in enumerate(history)
        if message.role != "system" and place not in orphans
    ]
    return not said or any(
        _without_results(message) == _without_results(said[-1]) for message in left
    )


def it_opens_no_call(history: Sequence[ChatMessage], left: Sequence[ChatMessage]) -> bool:
    """Return whether each call without a result had none before."""
    return _ids(_matched(left)[0]) <= _ids(_matched(history)[0])


def it_orphans_no_result(history: Sequence[ChatMessage], left: Sequence[ChatMessage]) -> bool:
    """Say whether no result is without its call that was not before."""
    return _ids(_matched(left)[1]) <= _ids(_matched(history)[1])


def it_leaves_answers_whole(history: Sequence[ChatMessage], left: Sequence[ChatMessage]) -> bool:
    """Say whether all calls, results and signed thinking of an answer stay, or none of them."""
    stayed = _all_ties(left)
    # `answer <= stayed` would look at all that stayed, for each answer.
    return all(answer & stayed in (answer, Counter()) for answer in _answers(history))


def it_gives_nothing_authority(history: Sequence[ChatMessage], left: Sequence[ChatMessage]) -> bool:
    """Say whether no new message is a system message, or more trusted than its sources."""
    old = {*history}
    trust: dict[str, int] = {}
    for message in history:
        trust[message.id] = min(message.authority, trust.get(message.id, message.authority))
    new = [message for message in left if message not in old]
    return all(
        message.role != "system"
        and all(
            message.authority <= trust[each]
            for each in (message.id, *message.sources)
            if each and each in trust
        )
        for message in new
    )


PROMISES: tuple[Callable[[Sequence[ChatMessage], Sequence[ChatMessage]], bool], ...] = (
    it_takes_no_more_tokens,
    it_keeps_the_order,
    it_keeps_what_is_protected,
    it_keeps_the_newest,
    it_opens_no_call,
    it_orphans_no_result,
    it_leaves_answers_whole,
    it_gives_nothing_authority,
)


class CompactionContract:
    """Every CompactionStrategy passes this: subclass it and provide `make`.

    class TestMyStrategy(CompactionContract):
        def make(self):
            return MyStrategy()

    Do not override a test.

    Attributes:
        refusals: Errors that the strategy raises where it cannot keep its promises.
        settles: Whether the strategy leaves its own result unchanged.
        gives_way: Whether system messages and the newest user message may go where there is no room
            for them.
    """

    refusals: ClassVar[tuple[type[Exception], ...]] = ()
    settles: ClassVar[bool] = True
    gives_way: ClassVar[bool] = False

    def make(self) -> CompactionStrategy:
        """Return the strategy, new."""
        raise NotImplementedError(
            f"{type(self).__name__} needs a method `make` that returns a strategy"
        )

    def compacted(self, history: Sequence[ChatMessage]) -> list[ChatMessage] | None:
        """Return the history that a new strategy leaves, None where it refuses."""
        try:
            return asyncio.run(_compact(self.make(), history))
        except self.refusals:
            return None

    def test_it_is_a_strategy(self):
        """It has the method of its kind."""
        assert isinstance(self.make(), CompactionStrategy)

    def test_nothing_is_left_of_nothing(self):
        """An empty history stays empty."""
        assert self.compacted([]) == []

    def test_what_is_promised_of_every_strategy_holds(self):
        """Each of `PROMISES` holds. The history is as it was, and the same comes of the same."""
        for history in conversations():
            self.check(history)

    def test_many_calls_without_a_result_do_not_stay_for_ever(self):
        """Of three thousand abandoned calls each may go, and the promises hold."""
        calls = [
            ChatMessage("assistant", (ToolUseBlock(f"c{each}", "f"),)) for each in range(3_000)
        ]
        history = [ChatMessage("user", "go"), *calls]
        self.keeps_promises(history, self.compacted(history))

    def test_many_signed_answers_are_as_many_units(self):
        """Of three thousand signed answers in one loop each may go, and the promises hold."""
        begun = [ChatMessage("user", "go"), *_loop_of(3_000)]
        history = [*begun, ChatMessage("user", "go on"), *_loop_of(2)]
        self.keeps_promises(history, self.compacted(history))

    def check(self, history: list[ChatMessage]) -> None:
        """Assert all promises of a strategy on the history that it leaves."""
        given = list(history)
        left = self.compacted(history)
        assert history == given, "the history was changed"
        assert all(one is other for one, other in zip(history, given, strict=True)), (
            "the history was changed"
        )
        assert self.compacted(tuple(history)) == left, "the same history gave something else"
        if left is None:
            return
        assert left is not history, "the history itself was returned"
        self.keeps_promises(history, left)
        if self.settles:
            assert self.compacted(left) == left, "a second time left something else"

    def keeps_promises(
        self, history: Sequence[ChatMessage], left: Sequence[ChatMessage] | None
    ) -> None:
        """Assert each of `PROMISES` on the history that the strategy leaves, if it does."""
        if left is None:
            return
        for promise in PROMISES:
            if self.gives_way and promise is it_keeps_what_is_protected:
                continue
            assert promise(history, left), promise.__name__


async def _compact(
    strategy: CompactionStrategy, history: Sequence[ChatMessage]
) -> list[ChatMessage]:
    return await strategy.compact(history)


def _loop_of(rounds: int) -> Iterator[ChatMessage]:
    for each in range(rounds):
        name = f"c{rounds}.{each}"
        yield ChatMessage(
            "assistant", (ThinkingBlock("hm", f"seal {name}"), ToolUseBlock(name, "f"))
        )
        yield ChatMessage("tool", (ToolResultBlock(name, "found"),))


def _ties(message: ChatMessage) -> Iterator[Tie]:
    for block in message.blocks:
        match block:
            case ToolUseBlock():
                yield "call", block.id
            case ToolResultBlock():
                yield "result", block.tool_use_id
            case ThinkingBlock() if block.is_sealed:
                yield "seal", block.signature or block.data


def _all_ties(messages: Iterable[ChatMessage]) -> Counter[Tie]:
    return Counter(chain.from_iterable(map(_ties, messages)))


def _without_results(message: ChatMessage) -> ChatMessage:
    """Return a message without the texts of its results. A pinned message is returned as it is."""
    if message.pinned or isinstance(message.content, str):
        return message
    blocks: list[ContentBlock] = []
    for block in message.content:
        if isinstance(block, ToolResultBlock):
            block = replace(block, content="")
        blocks.append(block)
    return replace(message, content=tuple(blocks))


def _is_results(message: ChatMessage) -> bool:
    return isinstance(message.content, tuple) and {type(block) for block in message.content} == {
        ToolResultBlock
    }


def _matched(
    messages: Iterable[ChatMessage],
) -> tuple[list[tuple[int, str]], list[tuple[int, str]]]:
    """Return the calls without a result and the results without a call, each with its place.

    A result is that of the newest call before it with its id that has none.
    """
    waiting: dict[str, list[int]] = {}
    orphans: list[tuple[int, str]] = []
    for place, message in enumerate(messages):
        ties = dict.fromkeys(_ties(message))
        for kind, call in ties:
            if kind == "call":
                waiting.setdefault(call, []).append(place)
        for kind, call in ties:
            if kind == "result" and waiting.get(call):
                waiting[call].pop()
            elif kind == "result":
                orphans.append((place, call))
    return [(place, call) for call, places in waiting.items() for place in places], orphans


def _ids(placed: Iterable[tuple[Any, str]]) -> Counter[str]:
    return Counter(each for _, each in placed)


def _awaited(history: Sequence[ChatMessage]) -> list[int]:
    """Return the places of calls without a result.

    Only results and system messages follow them.
    """
    speaking = [
        place
        for place, message in enumerate(history)
        if any(kind == "call" for kind, _ in _ties(message))
        or (message.role not in ("system", "tool", "summary") and not _is_results(message))
    ]
    return [place for place, _ in _matched(history)[0] if place == speaking[-1]]


def _answers(history: Sequence[ChatMessage]) -> Iterator[Counter[Tie]]:
    """Yield the calls, the results and the signed thinking of each message that calls.

    Messages whose ids come elsewhere are left out.
    """
    everywhere = _all_ties(history)
    answered = {call for kind, call in everywhere if kind == "result"}
    for message in history:
        answer = Counter(_ties(message))
        calls = [call for kind, call in answer if kind == "call"]
        answer.update(("result", call) for call in calls if call in answered)
        if calls and all(everywhere[tie] == 1 for tie in answer):
            yield answer
