"""Questions of every kind: in other words, in several parts, about yesterday, without an answer, in any language."""

import random
from datetime import UTC, datetime, timedelta
from functools import cache
from itertools import cycle

import pytest

from benchmarks.corpus import seeded_queries, seeded_texts
from kaosmem import (
    DEFAULT_SECTIONS,
    BM25Ranker,
    ImageBlock,
    Query,
    Reason,
    SectionSpec,
    SessionMemory,
    SessionOptions,
    TextBlock,
)
from kaosmem.language.query import MAX_QUERY_CHARS

NOW = datetime(2026, 11, 25, 9, 30, tzinfo=UTC)
QUESTIONS = {
    "in words of the texts": "In which month does the zebrafish licence expire?",
    "in several parts": "When does the zebrafish licence expire, and who repairs the harbour crane?",
    "about yesterday": "What did we say yesterday?",
    "without an answer": "Which licence has the harbour for parrots?",
    "without a known word": "zzyzx qwrtp?",
    "of stop words alone": "What is it, and who?",
    "of signs alone": "?!… — ☃",
    "empty": "",
    "in Chinese": "斑马鱼的许可证什么时候到期？",
    "in German": "Wann läuft die Zebrafischlizenz aus?",
}


def question(kind):
    """Return a question; the words of the longest are made when it is asked."""
    return QUESTIONS[kind] if kind in QUESTIONS else " ".join(seeded_queries(40))


@pytest.mark.parametrize(
    ("kind", "format_name"),
    [*zip([*QUESTIONS, "very long"], cycle(["text", "openai", "anthropic"]), strict=False)],
)
async def test_no_question_starves_what_must_be_shown_or_is_newest(kind, format_name):
    """What is pinned, the system prompt, the newest messages and each section's `recent` newest are in."""
    memory, must = harbour()
    context = await memory.assemble_context(question(kind), budget=2_000, format=format_name)
    assert must <= {item.id for item in context.items}
    assert context.used <= 2_000
    assert context.used > 1_500
    repeated = await memory.assemble_context(question(kind), budget=2_000, format=format_name)
    assert repeated.rendered == context.rendered


@cache
def harbour():
    """Return a session of much noise, and the ids of the items that every context must show."""
    specs = (
        *DEFAULT_SECTIONS[:4],
        SectionSpec("notes", recent=3, floor=0.2),
        SectionSpec("findings", 16_000, floor=0.1),
    )
    memory = SessionMemory.test_mode(sections=specs, options=SessionOptions(clock=lambda: NOW))
    must = [
        memory.add("role", "You are a clerk."),
        memory.add("findings", "The harbour is closed.", pinned=True),
    ]
    memory.add("notes", "The zebrafish licence QX-7741 expires in March.")
    memory.add("notes", "Jansen repairs the harbour crane.", metadata={"timestamp": "2026-11-24"})
    for number, text in enumerate(seeded_texts(400, words=30)):
        section = ("messages", "notes", "findings", "notes")[number % 4]
        memory.add(section, text, role="user" if section == "messages" else "")
    must += [*memory["messages"]][-1:] + [*memory["notes"]][-3:]
    return memory, {item.id for item in must}


async def test_what_says_it_in_other_words_comes_before_what_says_something_else():
    """Texts on a subject that have none of the question's words on it are in before others: by the company of words.

    Seeded: 30 subjects of 12 words, 10 reports of 6 of them each. A question is of 4 words of one subject; of the
    reports on it that have none of these, most are in, and far more than by BM25.
    """
    rng = random.Random(11)
    words = list(dict.fromkeys(word for query in seeded_queries(60) for word in query.split()))
    subjects = [words[12 * n : 12 * n + 12] for n in range(30)]
    texts = [(n, rng.sample(subject, 6)) for n, subject in enumerate(subjects) for _ in range(10)]
    rng.shuffle(texts)
    shares = {}
    for name, ranker in (("linear", None), ("bm25", BM25Ranker())):
        memory = SessionMemory.test_mode(
            sections=(SectionSpec("notes", eviction="none", ranker=ranker),)
        )
        items = [(n, own, memory.add("notes", " ".join(["report", *own]))) for n, own in texts]
        hits = total = 0
        for n, subject in enumerate(subjects):
            asked = subject[:4]
            context = await memory.assemble_context(f"report on {' '.join(asked)}", budget=400)
            shown = {item.id for item in context.items}
            others = {
                item.id
                for subject_of, own, item in items
                if subject_of == n and {*asked}.isdisjoint(own)
            }
            hits += len(shown & others)
            total += len(others)
        shares[name] = hits / total
    assert shares["linear"] > 0.5 > 3 * shares["bm25"], shares


@pytest.mark.parametrize(
    "question", ["What did we say about the crane yesterday?", "What happened yesterday?"]
)
async def test_a_question_about_yesterday_finds_what_was_said_then(question):
    """Of sixty days of talk of the same things that of the day before the session's clock is in first."""
    memory = SessionMemory.test_mode(
        sections=(SectionSpec("log", eviction="none"),), options=SessionOptions(clock=lambda: NOW)
    )
    days = [NOW - timedelta(days=n) for n in range(60)]
    random.Random(3).shuffle(days)
    for day in days:
        for text in (
            "The crane was repaired by a man from Delft.",
            "The gate of the harbour stood open.",
        ):
            memory.add(
                "log",
                f"{text} ({seeded_texts(1, seed=day.day, words=8)[0]})",
                metadata={"timestamp": day.isoformat()},
            )
    context = await memory.assemble_context(question, budget=120)
    of_yesterday = [
        item for item in memory["log"] if item.metadata["timestamp"].startswith("2026-11-24")
    ]
    assert {item.id for item in of_yesterday[:1]} <= {item.id for item in context.items}
    assert context.decision(of_yesterday[0].id).rank <= 2
    if "crane" in question:
        assert "period" in context.decision(of_yesterday[0].id).signals


async def test_a_passage_of_a_file_is_not_of_the_day_on_which_the_file_was_read(tmp_path):
    """A note of yesterday is of yesterday. A passage of a file that was ingested then is not."""
    times = [NOW - timedelta(days=1)]
    memory = SessionMemory.test_mode(
        sections=(SectionSpec("documents", retrieval_threshold=0, recent=0),),
        options=SessionOptions(clock=lambda: times[-1]),
    )
    (tmp_path / "manual.md").write_text("Clients reach the server over a socket.")
    await memory.ingest(tmp_path)
    note = memory.add("documents", "The ferry leaves at noon.")
    times.append(NOW)
    context = await memory.assemble_context("How was the ferry or server yesterday?", budget=300)
    passage = next(item for item in memory["documents"] if item.id != note.id)
    assert "period" in context.decision(note.id).signals
    assert "period" not in context.decision(passage.id).signals


async def test_a_question_without_an_answer_gets_what_is_nearest_and_newest():
    """Nothing is made up and nothing is empty: what has its words, then the newest."""
    memory = SessionMemory.test_mode(sections=(SectionSpec("notes", eviction="none", recent=2),))
    near = memory.add("notes", "The licence for zebrafish expires in March.")
    for text in seeded_texts(100, words=15):
        memory.add("notes", text)
    context = await memory.assemble_context("Which licence do parrots need?", budget=300)
    assert context.decision(near.id).reason is Reason.RELEVANT
    newest = [*memory["notes"]][-2:]
    assert all(context.decision(item.id).included for item in newest)


@pytest.mark.parametrize(
    "noise",
    ["error 3f2a at line 7\n", "2024-01-01 12:00 ", "[", "สวัสดีครับ", "主题", "?! ", "last week "],
)
async def test_a_pasted_log_ranks_by_an_excerpt(noise):
    """Of a query of 1 MB, a bounded excerpt ranks; it has the rarest words, the last question and both ends."""
    log = noise * (1_000_000 // len(noise))
    parts = [
        "Look at this.",
        log,
        "the Zebrafish licence of TASK-17",
        log,
        "\nWho repairs cranes?\n",
        log,
        "Well",
    ]
    query = " ".join(parts)
    text = Query.read(query, lambda: NOW).text
    assert len(text) <= MAX_QUERY_CHARS
    assert text.startswith("Look at this.")
    assert text.endswith("Well")
    assert "Who repairs cranes?" in text or "?" in noise
    assert {"Zebrafish", "licence", "TASK-17"} <= {*text.split()}
    memory = SessionMemory.test_mode()
    memory.add_many("findings", [f"finding {number}" for number in range(50)])
    zebrafish = memory.add("findings", "Zebrafish are kept in room 4.")
    memory.add_many("findings", [f"finding {number}" for number in range(50)])
    context = await memory.assemble_context(query, budget=300)
    assert context.query == query
    assert zebrafish in context.items


@pytest.mark.parametrize("shown", [(), (ImageBlock("image/png", b"x"),)])
async def test_the_answer_to_an_earlier_question_with_an_image_is_found(shown):
    """The tokens of the image do not make it a long text that only ends with a question."""
    asked = "When does the ferry leave?"
    memory = SessionMemory.test_mode()
    memory.add("messages", [TextBlock(asked), *shown])
    memory.add("messages", "At 6:40.", role="assistant")
    for number in range(60):
        memory.add("messages", f"ok {number} " + "word " * 60)
        memory.add("messages", "sure " * 60, role="assistant")
    memory.add("messages", asked)
    context = await memory.assemble_context(budget=2_000, format="openai")
    assert "At 6:40." in str(context.messages)
