"""The contract catches strategies that are wrong in a way that strategies are."""

from dataclasses import replace
from itertools import count

import pytest

from kaosmem import ChatMessage, TextBlock, ThinkingBlock, ToolResultBlock, ToolUseBlock, Trust
from kaosmem.compaction import SlidingWindowCompaction
from kaosmem.testing import CompactionContract
from kaosmem.testing.contracts.compaction import PROMISES
from kaosmem.testing.contracts.conversations import conversations


def calls(message):
    return {block.id for block in message.blocks if isinstance(block, ToolUseBlock)}


def results(message):
    return {block.tool_use_id for block in message.blocks if isinstance(block, ToolResultBlock)}


def answered(history):
    return set().union(*map(results, history))


def is_free(message):
    """Return whether a strategy may change or leave out the message of a critic."""
    return message.role == "critic" and not message.pinned


def cuts_by_number(history):
    return history[-5:]


def leaves_out_results(history):
    return [message for message in history if not results(message)]


def leaves_out_answered_calls(history):
    return [m for m in history if m.pinned or not calls(m) & answered(history)]


def leaves_out_signed_thinking(history):
    """Of calls that were answered and stay."""

    def told(message):
        if message.pinned or not calls(message) & answered(history):
            return message
        said = [block for block in message.blocks if not isinstance(block, ThinkingBlock)]
        return replace(message, content=tuple(said))

    return [told(message) for message in history]


def notes_what_it_did(history):
    return [*history, ChatMessage("summary", "Nothing was left out.")]


def summarizes_as_system(history):
    return [replace(m, role="system") if is_free(m) else m for m in history]


def trusts_what_it_changes(history):
    return [
        replace(m, content="long", trust=Trust.USER) if is_free(m) and len(m.text) > 100 else m
        for m in history
    ]


def puts_the_critic_first(history):
    return sorted(history, key=lambda message: message.role != "critic")


def forgets_pins(history):
    return [m for m in history if not (m.pinned and isinstance(m.content, str))]


def forgets_the_first_question(history):
    said = [m for m in history if m.role == "user" and isinstance(m.content, str)]
    return [m for m in history if m is not (said[0] if len(said) > 1 else None)]


def forgets_the_newest(history):
    return history[:-1] if any(map(is_free, history[-1:])) else history[:]


def eats_its_history(history):
    left = list(history)
    if isinstance(history, list):
        history.clear()
    return left


def returns_its_history(history):
    return history


_turns = count()


def changes_its_mind(history):
    """Name what it changes after how often it was asked."""
    return [
        replace(m, content=(TextBlock(str(next(_turns) % 10)),)) if is_free(m) else m
        for m in history
    ]


def never_ends(history):
    """Take something more each time."""
    place = next((place for place, m in enumerate(history) if is_free(m)), None)
    return [message for each, message in enumerate(history) if each != place]


FAULTS = {
    cuts_by_number: "it_keeps_what_is_protected",
    leaves_out_results: "it_opens_no_call",
    leaves_out_answered_calls: "it_orphans_no_result",
    leaves_out_signed_thinking: "it_leaves_answers_whole",
    notes_what_it_did: "it_takes_no_more_tokens",
    summarizes_as_system: "it_gives_nothing_authority",
    trusts_what_it_changes: "it_gives_nothing_authority",
    puts_the_critic_first: "it_keeps_the_order",
    forgets_pins: "it_keeps_what_is_protected",
    forgets_the_first_question: "it_keeps_what_is_protected",
    forgets_the_newest: "it_keeps_the_newest",
    eats_its_history: "the history was changed",
    returns_its_history: "the history itself was returned",
    changes_its_mind: "the same history gave something else",
    never_ends: "a second time left something else",
}


class Faulty:
    def __init__(self, compact):
        self._compact = compact

    async def compact(self, history):
        left = self._compact(history)
        return left if isinstance(left, list) else list(left)


def failures(strategy):
    class Tested(CompactionContract):
        def make(self):
            return strategy

    for history in conversations():
        try:
            Tested().check(list(history))
        except AssertionError as error:
            yield str(error)


@pytest.mark.parametrize(
    ("compact", "fault"), FAULTS.items(), ids=lambda value: getattr(value, "__name__", "")
)
def test_a_fault_is_caught_for_what_it_is(compact, fault):
    assert any(fault in failure for failure in failures(Faulty(compact)))


def test_every_promise_is_broken_by_some_fault():
    assert {promise.__name__ for promise in PROMISES} <= set(FAULTS.values())


def test_what_is_right_is_not_caught():
    """So that what fails above fails for its fault."""
    assert list(failures(SlidingWindowCompaction())) == []
