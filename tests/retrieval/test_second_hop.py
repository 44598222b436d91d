"""The second hop: what the best match leads to is found, and stays below it."""

import gc
import weakref
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.corpus import seeded_texts, text_item
from kaosmem import DenseRanker, LinearRanker, SessionMemory
from kaosmem.retrieval.embedders import WordVectorEmbedder
from kaosmem.retrieval.linear_index import LinearIndex
from kaosmem.retrieval.second_hop import SecondHop
from kaosmem.retrieval.text_index import NO_ECHOES
from tests.retrieval.changes import document, items, words

TALK = seeded_texts(600, words=20)
HOPS = [
    (
        "Where does my sister's flatmate work?",
        "My sister moved in with a flatmate called Ines.",
        "Ines started at the harbour office in June.",
    ),
    (
        "What does the error of the nightly export mean?",
        "The nightly export failed again with KX-4417.",
        "KX-4417 tells that the certificate has expired.",
    ),
    (
        "Who has to be asked about ticket 8841?",
        "Ticket 8841 is a copy of 77120.",
        "Tove keeps an eye on 77120 and all of its children.",
    ),
    (
        "How long before a trip must the carrier be told?",
        "'Carrier' means Nordlinie GmbH.",
        "Nordlinie wants three days of notice.",
    ),
]


def session(lines, ranker=None):
    """Return a session of a long talk with two lines far apart in it."""
    memory = SessionMemory.test_mode(ranker=ranker or LinearRanker())
    for place, text in enumerate(TALK):
        memory.add("messages", text, role=("user", "assistant")[place % 2])
        if place in (150, 450):
            memory.add("messages", lines[place == 450], role="user")
    return memory


@pytest.mark.parametrize(("question", "bridge", "target"), HOPS)
@pytest.mark.parametrize("is_later", [True, False])
async def test_a_name_an_id_or_a_definition_leads_on(question, bridge, target, is_later):
    """The answer is shown, though it has no word of the question, before or after what leads to it."""
    lines = (bridge, target) if is_later else (target, bridge)
    memory = session(lines)
    memory.add("messages", question)
    context = await memory.assemble_context(budget=400)
    assert bridge in context.text
    assert target in context.text
    (shown,) = [each for each in context.items if each.text == target]
    assert context.decision(shown.id).signals["second_hop"] > 0


def test_no_question_keeps_an_index():
    """An index that was asked goes with its session, not when the collector finds a cycle."""
    index = LinearRanker().index()
    index.add(enumerate(map(text_item, TALK)))
    assert index.rank(TALK[3], 1)
    kept = weakref.ref(index)
    gc.disable()
    try:
        del index
        assert kept() is None
    finally:
        gc.enable()


async def test_a_source_whose_text_is_named_is_found():
    """The same holds for documents, and with embeddings."""
    question, bridge, target = HOPS[0]
    for ranker in (LinearRanker(), DenseRanker(embedder=WordVectorEmbedder())):
        memory = SessionMemory.test_mode(ranker=ranker)
        for place, text in enumerate(TALK):
            memory.add("documents", text, metadata={"source": f"page {place // 20}"})
        memory.add("documents", bridge, metadata={"source": "family"})
        memory.add("documents", target, metadata={"source": "port"})
        context = await memory.assemble_context(question, budget=400)
        assert bridge in context.text
        assert target in context.text


def test_what_has_the_missing_words_comes_before_what_has_none():
    """Of two texts on Ines, the one with the rest of the question is the better answer."""
    _, bridge, _ = HOPS[0]
    texts = [*TALK, bridge, "Ines likes to ski in winter.", "The work of Ines is at the harbour."]
    index = LinearRanker().index()
    index.add((place, text_item(text)) for place, text in enumerate(texts))
    found = [ordinal for ordinal, _ in index.rank("Where does my sister's flatmate work?", 20)]
    at = len(TALK)
    assert found.index(at) < found.index(at + 2) < found.index(at + 1)


def test_a_long_text_is_lifted_less():
    """A rare word in a long text is there by chance."""
    _, bridge, target = HOPS[0]
    texts = [*TALK, bridge, target, f"{' '.join(TALK[:20])} {target}"]
    index = LinearRanker().index()
    for place, text in enumerate(texts):
        index.add([(place, replace(text_item(text), tokens=len(text) // 4))])
    ranking = index.ranking("Where does my sister's flatmate work?", 100)
    at = len(TALK)
    assert ranking.signals(at + 1)["second_hop"] > 4 * ranking.signals(at + 2)["second_hop"]


def test_a_word_of_many_texts_leads_nowhere():
    """In a small section no word is rare, and a filter lets in nothing that it excludes."""
    _, bridge, target = HOPS[0]
    question = "my sister's flatmate"
    index = LinearRanker().index()
    index.add((place, text_item(text)) for place, text in enumerate([bridge, target]))
    assert [ordinal for ordinal, _ in index.rank(question, 5)] == [0]
    texts = [*TALK, bridge, target]
    index = LinearRanker().index()
    index.add((place, text_item(text)) for place, text in enumerate(texts))
    target_at = len(TALK) + 1
    assert target_at in dict(index.rank(question, 5))
    among = [*range(target_at)]
    assert target_at not in dict(index.rank(question, 5, among=among))


def test_a_common_word_of_many_entries_leads_nowhere(monkeypatch):
    """Its frequency has more than 16 bits, so that its square has more than 32."""
    index = LinearRanker().index()
    index.add((place, text_item(text)) for place, text in enumerate(["crane one", "crane two"]))
    number = index.vocabulary.number("crane")
    hop = SecondHop(index, [], NO_ECHOES)
    monkeypatch.setattr(LinearIndex, "__len__", lambda _: 1_000_000)
    bridge, score = np.array([0]), np.array([1 << 20])
    assert hop.reached(bridge, score)[1] > 0
    index.vocabulary.frequencies.values[number] = 92_682
    hop = SecondHop(index, [], NO_ECHOES)
    assert not hop.reached(bridge, score)[1]


@given(entries=st.lists(items, min_size=8, max_size=80), query=words)
@settings(max_examples=60)
def test_the_best_stays_the_best(entries, query):
    """Nothing passes the match that leads to it: a near copy of the best shares its rare terms."""
    index = LinearRanker().index()
    index.add(enumerate(entries))
    found = index.candidates(query)
    if found is None:
        return
    added = index.weighted(found)
    lifts = added.pop("second_hop")
    before = np.sum([*added.values()], axis=0)
    after = before + lifts
    assert (lifts >= 0).all()
    best = int(np.argmax(before))
    assert after[best] == after.max() == before[best]


def test_look_alikes_do_not_hide_a_record():
    """Of 300 records of one template with rare words, the one that is asked for is first."""
    texts = [
        document(f"Room {n} was painted by firm w{n} and w{n + 1}.", f"room {n}")
        for n in range(300)
    ]
    index = LinearRanker().index()
    index.add(enumerate(texts))
    for number in range(0, 300, 29):
        ((first, _),) = index.rank(f"Who painted room {number}?", 1)
        assert first == number
