"""What each strategy leaves, to the message."""

import asyncio

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kaosmem import (
    ChatMessage,
    ImageBlock,
    InvalidArgumentError,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
    Trust,
    WindowTooSmallError,
    context_length,
)
from kaosmem.compaction import (
    SelectiveToolCallCompaction,
    SlidingWindowCompaction,
    TokenBudgetCompaction,
    ToolResultCompaction,
)
from kaosmem.compaction.outline import MessageSizes, Outline
from kaosmem.compaction.shortening import with_shorter_results
from kaosmem.formats import FORMATS, count_messages, render_messages
from kaosmem.testing.contracts.compaction import tokens_of
from tests.tool_conversations import conversations


def talk(turns):
    return [
        ChatMessage(role, f"{role} {turn}")
        for turn in range(turns)
        for role in ("user", "assistant")
    ]


def group(name, *, text="", thinking="", result="found"):
    blocks = [
        *([ThinkingBlock(thinking, "seal")] if thinking else []),
        *([TextBlock(text)] if text else []),
    ]
    return [
        ChatMessage("assistant", (*blocks, ToolUseBlock(name, "search"))),
        ChatMessage("tool", (ToolResultBlock(name, result),)),
    ]


def compacted(strategy, history):
    return asyncio.run(strategy.compact(history))


def kept_in(history, left):
    """Return the protected positions whose messages are left."""
    there = {id(message) for message in left}
    protected = Outline(history).protected
    return {place: why for place, why in protected.items() if id(history[place]) in there}


def is_tail(history, left):
    """Whether what is left is protected messages and a tail that begins where it may."""
    outline = Outline(history)
    if len(left) == len(history):
        return list(left) == list(history)
    kept = kept_in(history, left)
    cuts = outline.cuts_beside(kept)
    return any(outline.at(outline.shown_from(cut, kept)) == list(left) for cut in cuts)


def longer_tails(history, left):
    """Return the longer tails with the protected messages that are left."""
    outline = Outline(history)
    kept = kept_in(history, left)
    tails = [outline.at(outline.shown_from(cut, kept)) for cut in outline.cuts_beside(kept)]
    return [tail for tail in tails if len(tail) > len(left)]


# windows and truncation


def test_a_window_keeps_the_newest_and_the_first_question():
    history = [ChatMessage("system", "Be brief."), *talk(60)]
    left = compacted(SlidingWindowCompaction(10), history)
    assert left == [*history[:3], *history[-6:]]
    assert compacted(SlidingWindowCompaction(), history[:100]) == history[:100]
    assert len(compacted(SlidingWindowCompaction(), history)) == 99


def test_a_window_is_refused_where_pinned_messages_and_the_newest_unit_are_too_many():
    """The error names the limit and the sums."""
    pinned = [ChatMessage("assistant", str(number), pinned=True) for number in range(5)]
    with pytest.raises(
        WindowTooSmallError,
        match=r"max_messages is 3, .* 6 \(pinned messages 5, .* 1\); raise it by 3",
    ):
        compacted(SlidingWindowCompaction(3), [*pinned, *talk(5)])
    batch = [*talk(2), *(group("a")[:1]), *(group("a")[1:])]
    with pytest.raises(WindowTooSmallError, match="the newest messages 2"):
        compacted(SlidingWindowCompaction(1), batch)
    assert compacted(SlidingWindowCompaction(2), batch) == batch[-2:]


@pytest.mark.parametrize("most", range(1, 12))
def test_a_window_is_no_longer_than_it_may_be_and_has_the_newest(most):
    """Users' messages give way first, then system messages, so that a small window still has the newest message."""
    history = [ChatMessage("system", "Be brief."), ChatMessage("system", "Be kind."), *talk(5)]
    left = compacted(SlidingWindowCompaction(most), history)
    assert min(most, 4) <= len(left) <= most
    assert left[-1] is history[-1]
    assert left[: min(most - 1, 2)] == history[: min(most - 1, 2)]
    assert (history[2] in left) == (most >= 6)
    if most > 3:
        assert [message in left for message in history[2::2]] == [
            message in left for message in history[3::2]
        ]


def within(history, most, *, by_chars):
    """Return the tail of a history with so many characters, or so many messages."""

    def total(messages):
        return sum(len(message.text) if by_chars else 1 for message in messages)

    weights = [total([message]) for message in history]
    outline = Outline(history)
    try:
        return outline.at(outline.tail_within(weights, most, limit="most"))
    except WindowTooSmallError:
        kept = outline.at(outline.kept_within(weights, 0))
        shorter = with_shorter_results(kept, most, total)
        if shorter is None:
            raise
        return shorter


@given(conversations(), st.integers(0, 20), st.integers(0, 5_000), st.booleans())
def test_the_tail_is_the_longest_that_there_is_room_for(history, max_messages, max_chars, by_chars):
    """No legal cut before it would do; and it refuses only where messages that never give way are too much."""
    most = max_chars if by_chars else max_messages

    def weight(message):
        return len(message.text) if by_chars else 1

    def fits(messages):
        return sum(map(weight, messages)) <= most

    outline = Outline(history)
    try:
        left = within(history, most, by_chars=by_chars)
    except WindowTooSmallError:
        weights = [weight(message) for message in history]
        assert not fits(outline.at(outline.kept_within(weights, 0)))
        return
    assert fits(left)
    assert is_tail(history, left)
    assert left == history or not fits(history)
    assert not any(map(fits, longer_tails(history, left)))


# exchanges


STRATEGIES_WITH_LIMITS = [
    SlidingWindowCompaction(6),
    SlidingWindowCompaction(7),
    TokenBudgetCompaction([SlidingWindowCompaction(8)], 120),
    TokenBudgetCompaction([], 120),
]


@pytest.mark.parametrize("strategy", STRATEGIES_WITH_LIMITS, ids=repr)
def test_a_request_and_its_answer_leave_together(strategy):
    """An agent that sees a request without its answer does the work again."""
    history = []
    for number in range(11):
        history.append(ChatMessage("user", f"Delete branch {number}"))
        history += group(f"c{number}") if number % 3 == 2 else []
        history.append(ChatMessage("assistant", f"Done {number}"))
    left = [message.text for message in compacted(strategy, history)]
    for number in range(11):
        assert (f"Delete branch {number}" in left) == (f"Done {number}" in left)
    assert 4 <= len(left) < len(history)


def test_a_long_loop_of_one_request_is_cut_inside():
    """The request stays before the end of the work on it, also when a newer one follows."""
    work = [message for number in range(40) for message in group(f"c{number}")]
    done = ChatMessage("assistant", "Done.")
    history = [*talk(2), ChatMessage("user", "Do it all."), *work, done, *talk(1)]
    left = compacted(SlidingWindowCompaction(20), history)
    assert left[:3] == [*history[:2], history[4]]
    assert left[3:] == history[-17:]


@pytest.mark.parametrize(
    "strategy",
    [
        SlidingWindowCompaction(4),
        TokenBudgetCompaction([SlidingWindowCompaction(4)], 100),
    ],
    ids=repr,
)
def test_the_first_exchange_gives_way_to_questions_without_an_answer(
    strategy,
):
    pending = [ChatMessage("user", f"Pending {number}: do it") for number in range(6)]
    left = compacted(strategy, [*talk(3), *pending])
    assert len(left) >= 4
    assert left == pending[-len(left) :]


def test_questions_without_an_answer_stay_beside_the_work_on_them():
    """They take at most half of the room, so that a chat of users alone does not starve the work."""
    asked = [ChatMessage("user", f"Question {number}") for number in range(3)]
    work = [message for number in range(20) for message in group(f"c{number}")]
    left = compacted(SlidingWindowCompaction(12), [*talk(5), *asked, *work])
    assert left == [*talk(1), *asked, *work[-6:]]
    many = [ChatMessage("user", f"Question {number}") for number in range(30)]
    left = compacted(SlidingWindowCompaction(12), [*talk(5), *many, *work])
    assert left == [*many[-7:], *work[-4:]]


# tool results


@pytest.mark.parametrize("max_chars", [1, 20, 60, 500])
@pytest.mark.parametrize("text", ["x" * 900, "word " * 400, "日本語" * 300, "a\n" * 2_000])
def test_a_long_result_is_cut_to_its_beginning_and_its_end(text, max_chars):
    """The note between them says how much is gone."""
    history = [*talk(1), *group("c", result=text)]
    (_, _, _, cut) = compacted(ToolResultCompaction(max_chars), history)
    assert isinstance(cut.content, tuple)
    (result,) = cut.content
    assert isinstance(result, ToolResultBlock)
    assert result.tool_use_id == "c"
    assert isinstance(result.content, str)
    begin, note, end = result.content.partition(
        f"\n… {len(text) - max_chars:,} characters left out …\n"
    )
    assert note
    assert text.startswith(begin) and text.endswith(end)
    assert len(begin) + len(end) == max_chars


@pytest.mark.parametrize("char", [" ", "=", "x", "\n", "é"])
def test_a_result_that_is_a_little_too_long_takes_no_more_tokens_when_it_is_cut(char):
    """The note has tokens too: where what is cut away has fewer, nothing is."""
    history = [*talk(1), *group("c", result=char * 505)]
    left = compacted(ToolResultCompaction(), history)
    assert tokens_of(left) <= tokens_of(history)
    assert left == history


def test_what_is_no_long_result_stays_as_it_is():
    """Short results, pinned ones, results with other parts than texts, long texts of others."""
    long = "word " * 400
    image = ImageBlock("https://example.com/a.png")
    history = [
        ChatMessage("user", long),
        ChatMessage(
            "assistant", (ToolUseBlock("a", "f"), ToolUseBlock("b", "f"), ToolUseBlock("c", "f"))
        ),
        ChatMessage("tool", (ToolResultBlock("a", (TextBlock(long), image)),)),
        ChatMessage("tool", (ToolResultBlock("b", "x" * 500),)),
        ChatMessage("tool", (ToolResultBlock("c", long),), pinned=True),
        ChatMessage("assistant", long),
    ]
    assert compacted(ToolResultCompaction(), history) == history


def test_a_result_as_a_plain_text_is_cut_too():
    (cut,) = compacted(ToolResultCompaction(60), [ChatMessage("tool", "word " * 400)])
    assert cut.text.startswith("word word") and "characters left out" in cut.text


# tool calls


def test_old_groups_go_and_what_was_said_beside_them_stays():
    """The newest groups stay whole; of the others the texts of the assistant stay, calls, results and thinking go."""
    history = [
        *talk(1),
        *group("a", text="First I look.", thinking="hm"),
        ChatMessage("user", "and?"),
        *group("b"),
        ChatMessage("user", "and?"),
        *group("c", text="Again."),
        ChatMessage("user", "thanks"),
    ]
    left = compacted(SelectiveToolCallCompaction(1), history)
    assert [message.text for message in left] == [
        *("user 0", "assistant 0", "First I look.", "and?", "and?"),
        *("Again.\nsearch({})", "found", "thanks"),
    ]
    assert left[2] == ChatMessage("assistant", (TextBlock("First I look."),), trust=Trust.MODEL)
    assert compacted(SelectiveToolCallCompaction(3), history) == history
    assert compacted(SelectiveToolCallCompaction(), history) == history
    assert not any(
        link.calls for link in Outline(compacted(SelectiveToolCallCompaction(0), history)).links
    )


def test_pinned_awaited_and_newest_groups_stay():
    """A call that lost its result goes like any other once somebody has spoken."""
    open_call = ChatMessage("assistant", (ToolUseBlock("open", "f"), ToolUseBlock("done", "f")))
    half = ChatMessage("tool", (ToolResultBlock("done", "found"),))
    pinned = ChatMessage("tool", (ToolResultBlock("p", "found"),), pinned=True)
    history = [
        *talk(1),
        ChatMessage("assistant", (ToolUseBlock("p", "f"),)),
        pinned,
        *talk(2),
        open_call,
        half,
    ]
    assert compacted(SelectiveToolCallCompaction(0), history) == history
    assert compacted(SelectiveToolCallCompaction(0), [*history, *talk(1)]) == [
        *history[:-2],
        *talk(1),
    ]
    assert compacted(SelectiveToolCallCompaction(0), [*talk(1), *group("a")]) == [
        *talk(1),
        *group("a"),
    ]


def test_what_a_user_says_beside_a_result_is_trusted_no_more_without_it():
    mixed = ChatMessage("user", (ToolResultBlock("a", "found"), TextBlock("Now this.")))
    history = [*talk(1), group("a")[0], mixed, *talk(1)]
    left = compacted(SelectiveToolCallCompaction(0), history)
    assert left[2].content == (TextBlock("Now this."),)
    assert left[2].authority == mixed.authority == Trust.TOOL


# token budgets


class Spy:
    """A strategy that notes what it was given, and drops the oldest message."""

    def __init__(self):
        self.given = []

    async def compact(self, history):
        self.given.append(len(history))
        return list(history)[1:]


def test_strategies_run_until_it_fits():
    """None where it fits already, and none after the one that brought it within the budget."""
    history = talk(10)
    first = Spy()
    second = Spy()
    assert compacted(TokenBudgetCompaction([first, second], tokens_of(history)), history) == history
    assert (
        compacted(TokenBudgetCompaction([first, second], tokens_of(history[1:])), history)
        == history[1:]
    )
    assert (first.given, second.given) == ([20], [])


@given(conversations(), st.integers(0, 2_000))
def test_a_budget_is_kept_or_refused_with_the_sums(history, budget):
    """It is within the budget by a tail, or the protected messages alone are beyond it, and the error says so."""
    outline = Outline(history)
    protected = outline.at(outline.kept_within(outline.sizes, 0))
    try:
        left = compacted(TokenBudgetCompaction([], budget), history)
    except WindowTooSmallError as error:
        assert sum(error.need.values()) == tokens_of(protected) > budget
        least = tokens_of(protected)
        assert f"is {budget}, and the protected messages alone take {least}" in str(error)
        assert f"raise it by {least - budget}," in str(error)
        assert compacted(TokenBudgetCompaction([], least), history)
        return
    assert tokens_of(left) <= budget
    assert is_tail(history, left)


@pytest.mark.parametrize("name", FORMATS)
def test_a_budget_holds_in_each_format(name):
    """The tokens of a history are those of its request; leading system messages, which become one prompt, take less."""

    @settings(max_examples=15)
    @given(conversations(), st.integers(0, 2_000))
    def check(history, budget):
        total = MessageSizes(format=name).total(history)
        frame = MessageSizes(format=name).frame
        counted = requested(history, name)
        assert counted <= total or not history
        if history and history[0].role == "assistant":
            assert counted == total
        elif not any(message.role == "system" for message in history):
            assert total - frame <= counted
        try:
            left = compacted(TokenBudgetCompaction([], budget, format=name), history)
        except WindowTooSmallError as error:
            assert sum(error.need.values()) > budget
            return
        assert requested(left, name) <= budget or not left

    check()


def requested(history, name):
    """Return the tokens of a request with this history."""
    rendered = render_messages(history, name)
    handed_over = rendered.messages if rendered.text is None else rendered.text
    return count_messages(handed_over, name, system=rendered.system or "")


def test_a_counter_of_ones_own_counts():
    history = talk(50)
    left = compacted(TokenBudgetCompaction([], 60, counter=lambda text: 1), history)
    assert len(left) == 10  # each is 3 + 1 for its role + 1 for its text, and the reply 3


@pytest.mark.parametrize(
    "make",
    [
        lambda: SlidingWindowCompaction(0),
        lambda: SlidingWindowCompaction(1.5),
        lambda: ToolResultCompaction(0),
        lambda: SelectiveToolCallCompaction(-1),
        lambda: TokenBudgetCompaction([], -1),
    ],
)
def test_a_limit_that_limits_nothing_is_refused(make):
    with pytest.raises(InvalidArgumentError):
        make()


# models


@pytest.mark.parametrize(
    ("name", "tokens"),
    [
        ("gpt-4o", 128_000),
        ("GPT-4.1", 1_047_576),
        ("gpt-4-0613", 8_192),
        ("azure/gpt-5-mini", 400_000),
        ("o3", 200_000),
        ("claude-opus-4-6", 1_000_000),
        ("claude-opus-4.5", 200_000),
        ("anthropic/claude-3.5-sonnet", 200_000),
        ("claude-sonnet-5-5-20260901", 1_000_000),
        ("gpt-5.5", 1_050_000),
        ("claude-mythos-preview", 200_000),
        ("gpt-4-1106-preview", 128_000),
        ("us.anthropic.claude-sonnet-4-20250514-v1:0", 200_000),
        ("claude-3-5-sonnet@20240620", 200_000),
        ("mistral-large-2411", 128_000),
        ("deepseek/deepseek-chat", 128_000),
        ("meta-llama/Llama-3.3-70B-Instruct", 131_072),
    ],
)
def test_a_model_is_known_by_its_name_with_or_without_maker_size_and_date(name, tokens):
    assert context_length(name) == tokens


@pytest.mark.parametrize(
    "name", ["gpt-4-32k", "gpt-4o-audio-preview", "claude-opus-4.99", "gpt-5.9", "", "x"]
)
def test_another_model_is_not_taken_for_one_that_is_known(name):
    """The error names those that are close, and the way out."""
    with pytest.raises(ValueError, match="is not known") as raised:
        context_length(name)
    assert ("closest" in str(raised.value)) == (len(name) > 1)
