"""Follow-up questions: "Who leads it?" is about the thing that the user has just spoken of."""

from dataclasses import replace
from datetime import UTC, datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kaosmem import (
    BM25Ranker,
    LinearRanker,
    Query,
    SessionMemory,
    ToolResultBlock,
    ToolUseBlock,
)

CITIES = "Oslo Rome Paris Berlin Madrid Lisbon Vienna Prague Athens Dublin Cairo Delhi".split()
OFFICES = {
    "English": (
        ["Ben leads the office in {}.", "The office in {} opened in 1999.", "{}: 40 desks."],
        "Tell me about the office in {}.",
        {"Who leads it?": "leads", "When did it open?": "opened", "How many desks?": "desks"},
    ),
    "German": (
        ["Das Büro in {} leitet Ben.", "Die Miete des Büros in {} beträgt 900 Euro."],
        "Erzähl mir vom Büro in {}.",
        {"Wer leitet es?": "leitet", "Wie hoch ist die Miete?": "Miete"},
    ),
    "Spanish": (
        ["Ben dirige la oficina de {}.", "El alquiler de la oficina de {} es de 900 euros."],
        "Háblame de la oficina de {}.",
        {"¿Quién la dirige?": "dirige", "¿Cuánto es el alquiler?": "alquiler"},
    ),
    "Chinese": (
        ["{}办公室由本领导。", "{}办公室的租金是每月九千元。"],
        "请介绍一下{}办公室。",
        {"谁领导它？": "领导", "租金多少？": "租金"},
    ),
}
FOLLOW_UPS = [(language, asked) for language, (*_, each) in OFFICES.items() for asked in each]


def office_memory(language, ranker=None):
    memory = SessionMemory.test_mode(ranker=ranker)
    texts, *_ = OFFICES[language]
    memory.add_many("documents", [text.format(city) for text in texts for city in CITIES])
    return memory


@pytest.mark.parametrize("ranker", [LinearRanker(), BM25Ranker()], ids=["default", "BM25"])
@pytest.mark.parametrize(("language", "question"), FOLLOW_UPS)
async def test_a_follow_up_is_about_what_was_spoken_of(language, question, ranker):
    """Its words match texts of twelve cities alike: that of the asked city is shown first of them."""
    _, introduction, questions = OFFICES[language]
    for city in CITIES[::4]:
        memory = office_memory(language, ranker)
        for message in (introduction.format(city), question):
            memory.add("messages", message)
        context = await memory.assemble_context(budget=1_000)
        answers = [
            (each.score, each.item.text)
            for each in context.decisions
            if each.section == "documents" and questions[question] in each.item.text
        ]
        assert city in max(answers)[1]


async def test_the_subject_holds_over_several_follow_ups():
    """The third question finds the city of the first message, past two others."""
    memory = office_memory("English")
    for message in ("Tell me about the office in Cairo.", "Who leads it?", "When did it open?"):
        memory.add("messages", message)
        memory.add("messages", "Let me look.", role="assistant")
    memory.add("messages", "How many desks?")
    context = await memory.assemble_context(budget=260)
    shown = [item.text for item in context.items if item.section == "documents"]
    assert "Cairo: 40 desks." in shown


@pytest.mark.parametrize("question", ["Who leads the office in Rome?", "Rome: desks?"])
async def test_a_question_that_names_its_subject_is_ranked_alone(question):
    """After talk of another city, too, its scores are those that it has without any talk."""
    found = []
    for before in ([], ["Tell me about the office in Cairo."]):
        memory = office_memory("English")
        for message in (*before, question):
            memory.add("messages", message)
        context = await memory.assemble_context(budget=1_000)
        decisions = [each for each in context.decisions if each.section == "documents"]
        found.append([(each.item.text, each.score) for each in decisions])
        assert "Rome" in found[-1][0][0]
    assert found[0] == found[1]


async def test_results_of_tools_are_no_messages_of_the_user():
    """Five rounds of calls after each question change nothing, though results have the role user."""
    memory = office_memory("English")
    for question in ("Tell me about the office in Cairo.", "Who leads it?"):
        memory.add("messages", question)
        for number in range(5):
            call_id = f"{question} {number}"
            memory.add("messages", [ToolUseBlock(call_id, "look", {})], role="assistant")
            memory.add("messages", [ToolResultBlock(call_id, "Rome")], role="user")
    context = await memory.assemble_context(budget=2_000)
    offered = [each for each in context.decisions if each.section == "documents"]
    best = max(offered, key=lambda each: each.score or 0)
    assert best.item.text == "Ben leads the office in Cairo."


@pytest.mark.parametrize("score", [0.0, -1.0, 1e-12])
async def test_unusual_scores_of_a_ranker_keep_their_order(score, monkeypatch):
    """Scores that are not above 0, as the contract asks, or tiny."""
    memory = office_memory("English", BM25Ranker())
    for message in ("Tell me about the office in Cairo.", "Who leads it?"):
        memory.add("messages", message)
    index = memory["documents"].index.synced().index
    monkeypatch.setattr(index, "rank", lambda *_, **__: [(3, score), (1, score)])
    context = await memory.assemble_context(budget=1_000)
    scores = [each.score for each in context.decisions if each.section == "documents"]
    assert scores.count(score) >= 2


async def test_a_query_of_the_caller_is_ranked_alone():
    """It is no part of the conversation, unless it is the newest message."""
    memory = office_memory("English")
    memory.add("messages", "Tell me about the office in Cairo.")
    memory.add("messages", "Who leads it?")
    own = await memory.assemble_context("Who leads it?", budget=260)
    assert any("earlier" in (each.signals or {}) for each in own.decisions)
    other = await memory.assemble_context("Who leads?", budget=260)
    assert not any("earlier" in (each.signals or {}) for each in other.decisions)


WORDS = st.lists(st.sampled_from("crane gate rent notice deposit lessor".split()), max_size=5)


@settings(max_examples=60)
@given(st.lists(WORDS, min_size=1, max_size=12), WORDS, WORDS)
def test_earlier_messages_decide_among_equals_alone(texts, asked, said):
    """No text passes one whose score for the question is more than a fifth of the best one better."""
    memory = SessionMemory.test_mode()
    memory.add_many("documents", [" ".join(("a", *words)) for words in texts])
    index = memory["documents"].index.synced()
    query = Query.read(" ".join(asked), lambda: datetime(2026, 1, 1, tzinfo=UTC))
    alone = dict(index.find(query, 100, None).ranked.matches)
    leaning = index.find(replace(query, earlier=" ".join(said)), 100, None).ranked.matches
    assert {*alone} <= {ordinal for ordinal, _ in leaning}
    order = [alone.get(ordinal, 0.0) for ordinal, _ in leaning]
    most = max(alone.values(), default=1.0)
    for place, score in enumerate(order):
        assert all(later <= score + 0.2001 * most for later in order[place + 1 :])
