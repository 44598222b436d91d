"""Questions as people ask them in a long chat: once more, misspelt, or in words that nobody used."""

import pytest

from benchmarks.corpus import seeded_texts
from kaosmem import LinearRanker, SessionMemory

TALK = list(seeded_texts(400, words=12))

AGAIN = {
    "What's the wifi password at the cabin?": (
        "It's otter-lake-77, all lower case.",
        "What was the cabin's wifi password again?",
    ),
    "When does the ferry to Bornholm leave?": (
        "At 6:40, pier 2.",
        "When does the Bornholm ferry leave?",
    ),
    "Wie lautet der Code für das Tor?": ("4471.", "Welchen Code hat das Tor?"),
    "小屋的无线密码是什么？": ("水獭七十七。", "小屋无线网的密码是多少？"),
}
OTHER_WORDS = {
    "We paid 412 euros for the dentist.": "How expensive was the dental work?",
    "Our flight leaves from terminal 2.": "Where does the plane depart?",
    "My therapist says I should sleep before eleven.": "What did the psychologist advise?",
}


def chat(*messages, turns=120, about=""):
    """Return a session of talk about something, with some messages (role, text) in its first half."""
    memory = SessionMemory.test_mode()
    for turn in range(turns):
        memory.add("messages", about + TALK[turn], role=("user", "assistant")[turn % 2])
        if turn == turns // 3:
            for role, said in messages:
                memory.add("messages", said, role=role)
    return memory


async def shown_to(memory, question, budget=400):
    memory.add("messages", question)
    return (await memory.assemble_context(budget=budget)).text


@pytest.mark.parametrize("is_same", [False, True])
@pytest.mark.parametrize("asked", AGAIN)
async def test_a_question_that_is_asked_again_finds_its_answer(asked, is_same):
    """The answer has no word of the question, whether it is asked again in the same words or not."""
    answer, again = AGAIN[asked]
    for roles in (("user", "assistant"), ("assistant", "user")):
        memory = chat(*zip(roles, (asked, answer), strict=True))
        assert answer in await shown_to(memory, asked if is_same else again)


async def test_an_answer_is_worth_more_than_what_else_was_said_of_the_matter():
    asked = "What's the wifi password at the cabin?"
    answer, again = AGAIN[asked]
    memory = chat(("user", asked), ("assistant", answer), about="The cabin has wifi. ")
    assert answer in await shown_to(memory, again)


async def test_a_reply_to_no_question_is_no_answer():
    """A reply to a statement is shown for its own words alone, and so is a second message of the same role."""
    asked = "What's the wifi password at the cabin?"
    others = [("user", asked.replace("?", ".")), ("assistant", "Splendid.")]
    same = [("user", asked), ("user", "Splendid.")]
    for messages in (others, same):
        assert "Splendid." not in await shown_to(chat(*messages), asked)


async def test_a_long_reply_gives_way_to_the_text_with_the_words():
    """A long reply that names nothing that was asked does not take the room of one that does."""
    asked = "What's the wifi password at the cabin?"
    fact = "The wifi password at the cabin is otter."
    memory = chat(("user", asked), ("assistant", " ".join(TALK[300:316])), ("user", fact))
    assert fact in await shown_to(memory, asked, budget=300)


@pytest.mark.parametrize("said", OTHER_WORDS)
async def test_a_word_that_nobody_said_finds_one_that_means_as_much(said):
    assert said in await shown_to(chat(("user", said)), OTHER_WORDS[said])


async def test_the_word_itself_comes_before_words_that_mean_as_much():
    """Where a message has the word, a short question finds others with words near in meaning after it."""
    exact = "The dental bill is in the drawer."
    near = "We paid 412 euros for the dentist."
    index = LinearRanker().index()
    memory = chat(("user", near), ("assistant", "Fine."), ("user", exact))
    items = [*memory["messages"]]
    index.add(enumerate(items))
    assert [items[at].text for at, _ in index.rank("dental", 50)] == [exact, near]
    long = "Could you please find a recent word about something dental? Thank you."
    assert near not in [items[at].text for at, _ in index.rank(long, 50)]


async def test_the_question_itself_does_not_make_its_words_known():
    """A misspelt word is in the question alone, which is a message of the session like any other."""
    fact = "We moved, the address is Elm Street 5."
    assert fact in await shown_to(chat(("user", fact)), "What is the adress?")


def test_the_question_itself_changes_no_other_order():
    """The other messages are in the same order, whether the question is among them or not."""
    memory = chat(("user", "The address is Elm Street 5."), ("user", "The street is wet."))
    items = [*memory["messages"]]
    for question in ("Which street is the address in?", "Is the street wet?", "Who is adam?"):
        orders = []
        for is_stored in (False, True):
            index = LinearRanker().index()
            index.add(enumerate(items))
            if is_stored:
                memory.add("messages", question)
                index.add([(len(items), [*memory["messages"]][-1])])
            ranked = [ordinal for ordinal, _ in index.rank(question, 400)]
            orders.append([ordinal for ordinal in ranked if ordinal < len(items)])
        assert orders[0] == orders[1]
