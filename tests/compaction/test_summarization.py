"""Summarisation passes the contract of strategies, keeps the newest and leaves one summary for the rest."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kaosmem import (
    ChatMessage,
    InvalidArgumentError,
    WindowTooSmallError,
)
from kaosmem.compaction import (
    CompactionPipeline,
    SummarizationCompaction,
    Summarizer,
)
from kaosmem.compaction.outline import MessageSizes, Outline
from kaosmem.errors import SummaryError
from kaosmem.testing import ScriptedLLM
from tests.compaction.any_conversation import AnyConversation
from tests.compaction.pipelines import AnyStrategy, strategies
from tests.gist import gist
from tests.tool_conversations import conversations

WORDS = "and so on and on " * 10


class TestSummarization(AnyConversation):
    refusals = (SummaryError,)
    examples = 30

    def make(self):
        return SummarizationCompaction(ScriptedLLM(gist), 60, 30, max_summary_tokens=80)


class AnyPipeline(AnyStrategy):
    refusals = (WindowTooSmallError, SummaryError)
    settles = False  # what a later strategy leaves out may make room for another summary


@given(st.lists(strategies, max_size=1), st.lists(strategies, max_size=1), conversations())
def test_it_keeps_its_promises_among_other_strategies(before, after, history):
    summarization = SummarizationCompaction(ScriptedLLM(gist), 60, 30, max_summary_tokens=80)
    AnyPipeline(CompactionPipeline([*before, summarization, *after])).check(history)


def said(name, role="user"):
    return ChatMessage(role, f"{name} {WORDS}", id=name)


def summing_up(llm=None, **options):
    options = {"max_summary_tokens": 40, **options}
    return SummarizationCompaction(llm or ScriptedLLM(gist), 150, 100, **options)


TALK = [said(f"m{number}", "user" if number % 2 else "assistant") for number in range(1, 21)]


async def test_what_is_old_becomes_one_message_in_its_place():
    """Before the longest tail that the budget has room for, after the first user message, which is protected."""
    left = await summing_up().compact(TALK)
    assert left[0] == TALK[0] and left[2:] == TALK[-len(left) + 2 :]
    assert (left[1].role, left[1].sources) == (
        "summary",
        tuple(m.id for m in TALK[1 : len(TALK) - len(left) + 2]),
    )
    sizes = MessageSizes()
    assert sizes(left[1]) <= 40 < sizes((await summing_up(max_summary_tokens=200).compact(TALK))[1])
    tail = sum(map(sizes, left[2:]))
    assert tail <= 150 < tail + sizes(TALK[0])


async def test_a_later_summary_takes_the_earlier_one_in():
    """It names it, and there is never a second."""
    strategy = summing_up()
    left = await strategy.compact(TALK)
    earlier = left[1]
    left = await strategy.compact([*left, *(said(f"n{number}") for number in range(20))])
    assert [message.role for message in left].count("summary") == 1
    assert left[1].sources[0] == earlier.id


async def test_little_is_left_alone():
    """Until what is old, earlier summaries aside, is worth a request."""
    llm = ScriptedLLM(gist)
    strategy = summing_up(llm)
    history = await strategy.compact(TALK)
    for number in range(20):
        asked = len(llm.requests)
        history = await strategy.compact([*history, said(f"n{number}")])
        old = Outline(history)
        assert sum(old.sizes) < 150 + 100 + 100 + 4 * old.sizes[0]
    assert 1 < asked <= 10


async def test_a_summarizer_of_ones_own_is_asked():
    """It has its template.

    Without a fallback, the failure of its model is an error, and the history stays.
    """
    llm = ScriptedLLM(["Short: m2.", "", "", ""])
    strategy = SummarizationCompaction(
        Summarizer(llm, template="Be short.", fallback=False), 150, 100
    )
    left = await strategy.compact(TALK)
    assert left[1].text.startswith("Short: m2.")
    assert llm.requests[0][0].text == "Be short."
    with pytest.raises(SummaryError):
        await strategy.compact(TALK)
    assert repr(strategy) == "SummarizationCompaction(<llm>, 150, 100)"
    with pytest.raises(InvalidArgumentError):
        SummarizationCompaction(llm, -1, 0)
    with pytest.raises(InvalidArgumentError, match="max_summary_tokens is 0"):
        SummarizationCompaction(llm, 1, 0, max_summary_tokens=0)


@pytest.mark.parametrize("recent", [0, 1, 40, 400])
async def test_a_small_tail_does_not_make_summaries_small(recent):
    """What a model says in a sentence is taken, and what it dropped listed, however little stays beside it."""
    facts = [f"/srv/{number}/app.toml" for number in range(20)]
    history = [*TALK[:10], *(ChatMessage("user", f"See {fact}.") for fact in facts), *TALK[10:]]
    sentence = (
        "They named m2, m4 and m6, then went on to see /srv/0/app.toml and other files under /srv."
    )
    left = await SummarizationCompaction(ScriptedLLM([sentence]), recent, 0).compact(history)
    (summary,) = (message for message in left if message.role == "summary")
    assert summary.text.startswith(sentence)
    assert all(fact in summary.text for fact in facts)


async def test_little_that_is_new_does_not_make_a_summary_smaller():
    """Nor does it lose what an earlier one has listed."""
    facts = [f"/srv/{number}/app.toml" for number in range(40)]
    strategy = SummarizationCompaction(ScriptedLLM(gist), 100, 50)
    plain = [ChatMessage("user", WORDS), ChatMessage("assistant", WORDS)]
    history = await strategy.compact(
        [*(ChatMessage("user", f"See {fact}. {WORDS}") for fact in facts), *plain]
    )
    for _ in range(8):
        earlier = history[1]
        history = await strategy.compact([*history, *plain])
        assert history[1] is not earlier
        assert all(fact in history[1].text for fact in facts[1:])


@pytest.mark.parametrize("recent", [0, 20])
async def test_words_that_are_shorter_than_any_summary_wait_for_more(recent):
    """However little is worth a request; then one takes their place."""
    strategy = SummarizationCompaction(ScriptedLLM(lambda _: "ok."), recent, 0)
    history = [said("first")]
    for number in range(20):
        history = await strategy.compact(
            [*history, ChatMessage("user" if number % 2 else "assistant", "ok")]
        )
        assert len(history) < 12
    assert history[2].text == "ok."


async def test_questions_without_an_answer_are_not_summarised_while_they_are_few():
    """As the newest is not; many are summarised, so that a chat in which only users speak goes on."""
    pending = [ChatMessage("user", f"Pending {number}: do it") for number in range(6)]
    talk = [said("q", "user"), said("a", "assistant")] * 3
    strategy = SummarizationCompaction(ScriptedLLM(gist), 20, 20)
    left = await strategy.compact([*talk, *pending])
    assert left[0] is talk[0] and left[1].role == "summary"
    assert left[2:] == pending
    users = [said(f"u{number}") for number in range(60)]
    left = await SummarizationCompaction(ScriptedLLM(gist), 200, 100).compact(users)
    assert [message.role for message in left] == ["user", "summary", *["user"] * (len(left) - 2)]
    assert len(left) < 8 and left[2:] == users[2 - len(left) :]


async def test_a_short_first_exchange_stays_whole_beside_a_summary():
    """A tail that begins with an answer has its question before it."""
    talk = []
    for number in range(11):
        talk.append(ChatMessage("user", f"Delete branch {number}. " + "x " * 10))
        talk.append(ChatMessage("assistant", f"Done {number}. " + "y " * 10))
    for recent in range(20, 100, 5):
        strategy = SummarizationCompaction(ScriptedLLM(gist), recent, 20)
        left = await strategy.compact(talk)
        assert left[:2] == talk[:2] and left[2].role == "summary"
        assert left[3:] == talk[3 - len(left) :]
        assert left[3].role == "user"
