"""Weak matches in a window: small talk does not fill it with documents."""

import pytest

from kaosmem import Reason, SessionMemory, Window
from kaosmem.assembly.confidence import are_weak
from kaosmem.sections.proposal import CandidatePool

SMALL_TALK = (
    "I went to the lake with my sister yesterday, the weather was great and we had a picnic.",
    "My garden is full of tomatoes this summer, and the neighbours love the great soup I cook.",
    "We painted the kitchen yellow last weekend, a great deal of work for such a little place.",
)
PASSAGES = [
    f"Passage {n}: in the year {1900 + n} the company reported a great deal of work on product {n} "
    f"for customers in region {n}, and the board approved the annual budget of plant {n}."
    for n in range(200)
]


async def used_window(padding=340):
    """Return a session whose window shows no document, and is by default just over half full."""
    memory = SessionMemory.test_mode()
    memory.add_many("documents", PASSAGES)
    window = Window("main", block=0)
    memory.add("messages", "Remember it: " + "so it goes, and on and on. " * padding)
    context = await memory.assemble_context(budget=5_000, format="openai", window=window)
    assert (0.5 < context.used / 5_000 < 0.8) == (padding > 1)
    memory.add("messages", "I will.", role="assistant")
    return memory


async def said(memory, text):
    """Return the context of a turn, and the texts of the documents that it appended."""
    memory.add("messages", text)
    window = Window("main", block=400)
    context = await memory.assemble_context(budget=5_000, format="openai", window=window)
    assert context.rebased is None
    memory.add("messages", "I see.", role="assistant")
    before = {item.id for item in context.before}
    new = [item for item in context.items if item.id not in before]
    return context, [item.text for item in new if item.section == "documents"]


@pytest.mark.parametrize("text", SMALL_TALK)
async def test_small_talk_appends_the_best_match_alone(text):
    """The other matches say why they are out. In the first half of a window they are appended."""
    memory = await used_window()
    context, documents = await said(memory, text)
    out = [each for each in context.decisions if each.reason is Reason.LOW_CONFIDENCE]
    assert len(documents) == 1
    assert out
    assert "too little of the query speaks for it" in str(context.why(out[0].item_id))
    fresh = await used_window(padding=1)
    _, documents = await said(fresh, text)
    assert len(documents) > 1


@pytest.mark.parametrize(
    "text", ["What did the company report on product 17?", "Show me the budget of plant 17."]
)
async def test_what_asks_for_documents_appends_its_block(text):
    """A question and a request whose words a document has get all that the block holds."""
    memory = await used_window()
    _, documents = await said(memory, text)
    assert len(documents) > 3
    assert any(" plant 17." in document for document in documents)


def test_weak_matches_have_few_of_the_words_of_a_query():
    """A question may name more beside them. Nothing is weak that words cannot tell."""
    items = [SessionMemory.test_mode().add("documents", "The lease of the garage ends in May.")]
    counted = CandidatePool(100, 1_000, {"leas": 1, "garag": 1})
    statement = "My sister, brother, cousin, niece and nephew rent a garage"
    assert are_weak(f"{statement}.", items, counted)
    assert not are_weak(f"{statement}, why?", items, counted)
    assert not are_weak("Show the lease of my garage.", items, counted)
    assert not are_weak(f"{statement}.", items, CandidatePool(100, 1_000))
    assert not are_weak(f"{statement}.", items, None)
    assert not are_weak("Please go on.", items, counted)


async def shown_of(question, *, earlier, reply="I see."):
    """Return how many tokens of documents and of earlier messages a new window shows."""
    memory = SessionMemory.test_mode()
    memory.add_many("documents", PASSAGES)
    for text in earlier:
        memory.add("messages", text)
        memory.add("messages", reply.format(text.replace("?", "")), role="assistant")
    memory.add("messages", "Now something else: " + "so it goes, and on and on. " * 120)
    memory.add("messages", "Yes.", role="assistant")
    memory.add("messages", question)
    window = Window("main", block=800)
    context = await memory.assemble_context(budget=4_000, format="openai", window=window)
    documents = sum(item.tokens for item in context.items if item.section == "documents")
    recalled = [each for each in context.decisions if each.reason is Reason.RECALLED]
    return documents, sum(each.tokens for each in recalled)


async def test_what_matches_best_gets_most_of_a_block():
    """A question about the conversation shows earlier messages, one about documents documents."""
    told = [
        f"Day {n}: I met Anna at the lake, we swam to the island and had soup with product {n}."
        for n in range(60)
    ]
    documents, messages = await shown_of(
        "Which product had Anna in the soup at the lake?", earlier=told
    )
    assert messages > documents
    documents, messages = await shown_of(
        "What work on product 17 did the company report for customers?", earlier=told
    )
    assert documents > 2 * messages


@pytest.mark.parametrize("reply", ["I see.", "You asked me: {} I do not know."])
async def test_earlier_questions_and_replies_take_no_room_of_documents(reply):
    """They have the words of a question that is asked again, and do not answer it."""
    question = "Dear assistant, what work on product {} did the company report?"
    asked = [f"{question.format(n)} Be brief." for n in range(60)]
    documents, messages = await shown_of(question.format(17), earlier=asked, reply=reply)
    assert documents > 2 * messages
