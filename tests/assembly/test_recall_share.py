"""A history that is cut keeps a share for recall, and fills its room: old facts are found before and after a cut."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.corpus import seeded_texts
from kaosmem import BM25Ranker, Reason, SectionSpec, SessionMemory
from kaosmem.compaction import ToolResultCompaction
from tests.talk import talk

FACT = "The zebrafish licence QX-7741 expires in March."
QUESTION = "When does licence QX-7741 expire?"


def session(*, ranker=None, priority=0, **fields):
    """Return a session with a history, a role and, with a priority, notes that would fill any window."""
    history = SectionSpec(
        "messages", placement="history", ranker=ranker, **{"recall": 0.25} | fields
    )
    notes = SectionSpec("notes", priority=priority, eviction="none")
    memory = SessionMemory.test_mode(
        sections=(SectionSpec("role", placement="static"), history, notes)
    )
    memory.add("role", "You are a clerk of the harbour.")
    if priority:
        memory.add_many(
            "notes", [f"On the licence, {text}" for text in seeded_texts(60, seed=5, words=20)]
        )
    return memory


def shortened(texts, rng, least, most):
    """Return the first words of each text, so many as are drawn."""
    return [" ".join(text.split()[: rng.randrange(least, most)]) for text in texts]


async def cut_and_found(memory, fact, *, budget, format):
    """Return whether the history is cut, and whether the fact is shown."""
    context = await memory.assemble_context(QUESTION, budget=budget, format=format)
    assert context.used <= budget
    reasons = {decision.reason for decision in context.decisions if decision.section == "messages"}
    return bool(reasons & {Reason.RECALLED, Reason.BEFORE_TAIL}), context.decision(fact).included


@settings(max_examples=6)
@given(
    seed=st.integers(0, 1 << 32),
    budget=st.integers(900, 2_500),
    format=st.sampled_from(["text", "openai", "anthropic"]),
    ranker=st.sampled_from([None, BM25Ranker()]),
    priority=st.sampled_from([0, 99]),
    cap=st.sampled_from([None, 700]),
    eviction=st.sampled_from(["none", "fifo"]),
)
async def test_an_old_fact_is_found_on_every_turn(
    seed,
    budget,
    format,
    ranker,
    priority,
    cap,
    eviction,
):
    """It is, from the first cut on over several cuts, beside any sections, evicted or not."""
    rng = random.Random(seed)
    memory = session(
        ranker=ranker, priority=priority, budget=cap, eviction=eviction if cap else "none"
    )
    texts = iter(seeded_texts(400, seed=seed % 1_000, words=40))
    for _ in range(rng.randrange(4)):
        memory.add("messages", next(texts), role="user")
    fact = memory.add("messages", FACT, role=rng.choice(("user", "assistant")))
    cuts = 0
    for _ in range(40):
        question, reply = (" ".join(next(texts).split()[: rng.randrange(2, 40)]) for _ in range(2))
        memory.add("messages", question, role="user")
        is_cut, is_found = await cut_and_found(memory, fact.id, budget=budget, format=format)
        assert is_found
        cuts += is_cut
        memory.add("messages", reply, role="assistant")
    assert cuts > 5


@settings(max_examples=20)
@given(
    seed=st.integers(0, 1 << 32),
    share=st.sampled_from([0.1, 0.25, 0.5, 1.0]),
    budget=st.integers(300, 1_500),
)
async def test_the_best_scored_earlier_message_is_never_left_out_for_a_worse_one(
    seed, share, budget
):
    """If it fits the share for recall alone, it is shown, however short the others are."""
    rng = random.Random(seed)
    memory = session(ranker=BM25Ranker(), recall=share)
    words = "zebrafish licence expires QX-7741 March crane harbour rent".split()
    for number in range(rng.randrange(10, 60)):
        length = rng.choice((2, 5, 20, 60))
        text = " ".join([*rng.choices(words, k=length), str(number)])
        memory.add("messages", text, role=("user", "assistant")[number % 2])
    memory.add("messages", "Hello.", role="user")
    context = await memory.assemble_context(QUESTION, budget=budget)
    earlier = [
        each for each in context.decisions if each.reason in (Reason.RECALLED, Reason.BEFORE_TAIL)
    ]
    scored = [each for each in earlier if each.score]
    if scored and any(each.included for each in earlier):
        best = max(each.score for each in scored)
        bests = [each for each in scored if each.score == best]
        room = (
            int(share * budget) // 2 - 60
        )  # the static section, header and label are not the message's
        assert any(each.included for each in bests) or min(each.tokens for each in bests) > room


@settings(max_examples=20)
@given(
    seed=st.integers(0, 900),
    budget=st.integers(1_200, 3_000),
    question=st.sampled_from([QUESTION, "zzyzx", "", None]),
    format=st.sampled_from(["text", "openai", "anthropic"]),
    cap=st.sampled_from([None, 1_100]),
    ranker=st.sampled_from([None, BM25Ranker()]),
)
async def test_a_history_with_more_turns_than_fit_fills_its_room(
    seed,
    budget,
    question,
    format,
    cap,
    ranker,
):
    """The tail takes the part of the share for recall that no earlier message needs, whatever is asked."""
    rng = random.Random(seed)
    memory = session(ranker=ranker, budget=cap, eviction="fifo" if cap else "none")
    fact = memory.add("messages", FACT)
    talk(memory, shortened(seeded_texts(400, seed=seed, words=12), rng, 6, 13))
    memory.add("messages", "Xylophones of quartz?")
    context = await memory.assemble_context(question, budget=budget, format=format)
    assert context.by_section["messages"].used >= 0.95 * min(cap or budget, budget - 40)
    assert question != QUESTION or context.decision(fact.id).included


@pytest.mark.parametrize("budget", [600, 1_000, 1_500, 2_000])
async def test_earlier_messages_take_the_room_of_a_reply_that_is_too_long_for_the_tail(budget):
    """The reply before the question would fill the window: it leaves more than the share for recall."""
    memory = session()
    talk(memory, (f"On the licence, {text}" for text in seeded_texts(200, seed=7, words=20)))
    (reply,) = seeded_texts(1, seed=8, words=2_000)
    memory.add("messages", reply, role="assistant")
    memory.add("messages", "And now?")
    context = await memory.assemble_context("What of the licence?", budget=budget)
    assert context.used >= 0.9 * budget


@pytest.mark.parametrize("seed", range(3))
async def test_a_larger_budget_does_not_lose_an_old_fact(seed):
    """Once a fact fits the share for recall, it is shown in every larger window."""
    rng = random.Random(seed)
    memory = session()
    fact = memory.add("messages", FACT)
    talk(memory, shortened(seeded_texts(100, seed=seed, words=40), rng, 2, 40))
    memory.add("messages", "Hello.", role="user")
    contexts = [
        await memory.assemble_context(QUESTION, budget=budget) for budget in range(150, 4_000, 77)
    ]
    found = [context.decision(fact.id).included for context in contexts]
    assert found == sorted(found)
    assert found[-1]


async def test_a_history_that_fits_whole_leaves_room_for_what_was_evicted():
    """All live messages would fit the section's budget, and an evicted fact that matches is recalled beside them."""
    memory = SessionMemory.test_mode(
        sections=(SectionSpec("messages", 200, placement="history", recall=0.25),)
    )
    fact = memory.add("messages", FACT)
    talk(memory, seeded_texts(60, seed=5, words=12))
    memory.add("messages", QUESTION)
    context = await memory.assemble_context(QUESTION, budget=2_000, format="openai")
    assert context.decision(fact.id).reason is Reason.RECALLED
    assert context.by_section["messages"].used <= 200


@pytest.mark.parametrize("window", [60, 100, 500, 4_000])
@pytest.mark.parametrize(("recent", "pinned"), [(0, False), (3, False), (3, True)])
async def test_a_small_section_recalls_its_best_evicted_match(window, recent, pinned):
    """The match may take more than the share for recall, if that could not hold it.

    Beside what must be shown, only the newest of the recent items comes before it.
    """
    memory = SessionMemory.test_mode(sections=(SectionSpec("notes", 60, recent=recent),))
    memory.add("notes", "Always be polite to guests.", id="rule", pinned=pinned)
    memory.add("notes", "The launch code is SWORDFISH.", id="code")
    for number in range(200):
        memory.add("notes", f"Note {number} says that the weather is fine today.", id=str(number))
    context = await memory.assemble_context("What is the launch code?", budget=window)
    assert context.decision("code").reason is Reason.RECALLED
    assert context.by_section["notes"].used <= 60
    assert context.decision("199").included == (recent > 0)
    assert context.decision("rule").included == pinned
    out = {each.reason for each in context.decisions if not each.included}
    assert recent or out == {Reason.UNRELATED}


@pytest.mark.parametrize("answer", ["", "Noted."])
async def test_a_chat_of_users_keeps_its_share_for_recall(answer):
    """Nobody waits for an answer where users talk among themselves, also after one that was answered once."""
    spec = SectionSpec("messages", placement="history", recall=0.25)
    memory = SessionMemory.test_mode(sections=(spec,))
    fact = memory.add("messages", FACT)
    if answer:
        memory.add("messages", answer, role="assistant")
    memory.add_many("messages", seeded_texts(60, seed=5, words=12))
    context = await memory.assemble_context(QUESTION, budget=900)
    assert context.decision(fact.id).reason is Reason.RECALLED


@pytest.mark.parametrize("budget", [52, 60, 68, 100])
async def test_recall_without_a_match_leaves_its_room_to_the_newest_messages(budget):
    """An empty question matches no earlier message, so that no room is kept for one."""
    memory = SessionMemory.test_mode()
    messages = [
        memory.add("messages", f"Pending {number}: please pack crate {number}.")
        for number in range(12)
    ]
    context = await memory.assemble_context("", budget=budget)
    assert budget - context.used < 2 * messages[0].tokens
    shown = len(context.items)
    assert [item.id for item in context.items] == [item.id for item in messages[-shown:]]


@pytest.mark.parametrize("budget", [700, 4_000])
async def test_a_strategy_that_makes_no_summary_leaves_the_share_for_recall(budget):
    """What a full section has evicted is found in a small window, and in one that shows the section whole."""
    strategy = ToolResultCompaction(100)
    memory = session(budget=900, compaction=strategy)
    fact = memory.add("messages", FACT)
    for number, text in enumerate(seeded_texts(160, seed=3, words=6)):
        memory.add("messages", text, role=("user", "assistant")[number % 2])
        await memory.assemble_context(budget=4_000)
    assert fact.id not in memory["messages"]
    context = await memory.assemble_context(QUESTION, budget=budget)
    assert context.decision(fact.id).included
