"""Mistakes that a newcomer makes, and the error that tells the way out of each."""

import contextlib
import inspect

import pytest

from kaosmem import (
    BM25Ranker,
    ChatMessage,
    InvalidArgumentError,
    NotFoundError,
    SectionSpec,
    SessionMemory,
    SyncSessionMemory,
    TextBlock,
    render_messages,
)
from kaosmem.compaction import SlidingWindowCompaction, SummarizationCompaction
from kaosmem.context import AgentContext, ContextConfig
from kaosmem.conversation import EventLog
from kaosmem.errors import InvalidNameError, NotOpenedError
from kaosmem.formats import count_messages
from kaosmem.sources import ConversationSource, FactSource, VectorSource
from kaosmem.stores import (
    Entity,
    InMemoryGraphStore,
    InMemoryHistoryProvider,
    InMemoryVectorStore,
    VectorDocument,
)

HI = ChatMessage("user", "hi")
AS_DICT = {"role": "user", "content": "hi"}


def opened(*args, **kwargs):
    """Return what opens a session with these arguments and closes it again."""

    async def run():
        async with SessionMemory.open(*args, **kwargs):
            pass

    return run()


def agent():
    return AgentContext(ContextConfig(InMemoryHistoryProvider()), "reader")


def memory():
    made = SessionMemory.test_mode()
    made.add("messages", "hi", id="hi")
    return made


def shown(**kwargs):
    return memory().assemble_context(budget=100, **kwargs)


async def why(words):
    return (await shown()).why(words)


MISTAKES = [
    # one where several are asked for
    (
        lambda: agent().append(HI, "s"),
        InvalidArgumentError,
        "messages is a ChatMessage; give a list",
    ),
    (lambda: agent().append([AS_DICT], "s"), InvalidArgumentError, "a dict; give a ChatMessage"),
    (
        lambda: InMemoryHistoryProvider().append_many("reader", HI, session_id="s"),
        InvalidArgumentError,
        "messages is a ChatMessage; give a list",
    ),
    (
        lambda: SlidingWindowCompaction(3).compact(HI),
        InvalidArgumentError,
        "messages is a ChatMessage; give a list",
    ),
    (
        lambda: SlidingWindowCompaction(3).compact([AS_DICT]),
        InvalidArgumentError,
        "messages hold a dict; give a list",
    ),
    (
        lambda: count_messages(AS_DICT, "openai"),
        InvalidArgumentError,
        "messages is a dict; give a list",
    ),
    (
        lambda: count_messages([AS_DICT], "text"),
        InvalidArgumentError,
        "messages is a list; give a str",
    ),
    (
        lambda: render_messages(HI, "openai"),
        InvalidArgumentError,
        "messages is a ChatMessage; give a list",
    ),
    (
        lambda: memory().add_many("messages", "hi"),
        InvalidArgumentError,
        "contents is a str; give a list",
    ),
    (
        lambda: memory().add("findings", "x", tags="legal"),
        InvalidArgumentError,
        "tags is a str; give a list",
    ),
    (lambda: shown(sections="messages"), InvalidArgumentError, "sections is a str; give a list"),
    (
        lambda: InMemoryVectorStore().add(VectorDocument([TextBlock("x")], "1")),
        InvalidArgumentError,
        "documents is a VectorDocument",
    ),
    (
        lambda: InMemoryGraphStore().add_entities(Entity("x")),
        InvalidArgumentError,
        "entities is a Entity; give a list",
    ),
    # something of another kind
    (
        lambda: opened(sections=["messages"]),
        InvalidArgumentError,
        "hold a str; give a list of SectionSpec",
    ),
    (lambda: opened(ranker="bm25"), InvalidArgumentError, "ranker is a str; give a Ranker"),
    (
        lambda: opened(ranker=BM25Ranker),
        InvalidArgumentError,
        "the class BM25Ranker; give an instance",
    ),
    (lambda: opened(3), InvalidNameError, "<int>; give a folder, a URL"),
    (
        lambda: SectionSpec("x", ranker=5),
        InvalidArgumentError,
        "give a Ranker with all its members",
    ),
    (
        lambda: AgentContext(InMemoryHistoryProvider(), "a"),
        InvalidArgumentError,
        "give a ContextConfig",
    ),
    (
        lambda: ContextConfig(InMemoryHistoryProvider),
        InvalidArgumentError,
        "the class InMemoryHistoryProvider",
    ),
    (lambda: SummarizationCompaction(str, 10, 10), InvalidArgumentError, "the class str"),
    (
        lambda: SummarizationCompaction(lambda _: HI, 10, 10),
        InvalidArgumentError,
        "a function; give a LLMClient",
    ),
    (
        lambda: ConversationSource(EventLog(), "x"),
        InvalidArgumentError,
        "condenser is a str; give a Condenser",
    ),
    (lambda: FactSource(InMemoryVectorStore(), "a"), InvalidArgumentError, "give a LongTermMemory"),
    (lambda: memory().attach(InMemoryVectorStore()), InvalidArgumentError, "give a Source"),
    (
        lambda: memory().attach(VectorSource),
        InvalidArgumentError,
        "the class VectorSource; give an instance",
    ),
    (lambda: memory().ingest(["a.md", "b.md"]), InvalidArgumentError, "give a path, one at a time"),
    (
        lambda: memory().add("findings", "x", trust="user"),
        InvalidArgumentError,
        "give a Trust, such as Trust.USER",
    ),
    (
        lambda: memory().add("findings", "x", pinned="yes"),
        InvalidArgumentError,
        "give True or False",
    ),
    # an id that is none
    (lambda: memory().remove(memory()["messages"].get("hi")), InvalidNameError, "give its .id"),
    (lambda: memory().forget(["hi"]), InvalidNameError, "<list> is not valid"),
    (lambda: memory()[["messages"]], NotFoundError, "use one of role"),
    # a name with a slip
    (lambda: memory().add("finding", "x"), NotFoundError, "; did you mean 'findings'? use one of"),
    (
        lambda: shown(sections=["message"]),
        NotFoundError,
        "no section or source 'message'; did you mean 'messages'?",
    ),
    (lambda: shown(format="OpenAi"), InvalidArgumentError, "did you mean 'openai'?"),
    (
        lambda: SectionSpec("x", eviction="lruu"),
        InvalidArgumentError,
        "section 'x' has eviction 'lruu'; did you mean 'lru'?",
    ),
    (
        lambda: SectionSpec("x", placement="sttic"),
        InvalidArgumentError,
        "section 'x' has placement 'sttic'; did you mean 'static'?",
    ),
    (
        lambda: memory().admin.verify({"items": ["hi"]}),
        InvalidArgumentError,
        "receipt is a dict; give an ErasureReceipt, such as ErasureReceipt.from_dict(stored)",
    ),
    (lambda: memory().forget("nope"), NotFoundError, "no item 'nope', live or archived; the items"),
    # words and numbers that mean nothing
    (lambda: why(" "), InvalidArgumentError, "words are blank; give an item's id, or words"),
    (lambda: shown(window=3), InvalidNameError, "window 3 is not valid: use 1 to 128 letters"),
    (
        lambda: memory().assemble_context(budget="2000"),
        InvalidArgumentError,
        "budget is '2000'; give a whole number of tokens",
    ),
    (
        lambda: memory().add("findings", "x", metadata={"Ann's wish\n" * 9: {1, 2}}),
        InvalidArgumentError,
        "metadata is nothing that JSON can hold: a set; convert it first",
    ),
    (
        lambda: memory().add("findings", "x", metadata={"timestamp": "yesterday"}),
        InvalidArgumentError,
        "timestamp is <str>; give a time in ISO 8601",
    ),
    (
        lambda: memory().add_message(AS_DICT | {"role": "usr"}, format="openai"),
        InvalidArgumentError,
        "has the role 'usr'; did you mean 'user'? use one of",
    ),
    (lambda: shown(overflow="truncate"), InvalidArgumentError, "use 'raise' or 'cut'"),
    (lambda: memory().search("hi", limit=-1), InvalidArgumentError, "a whole number from 0 up"),
    # a session that was not opened
    (lambda: SessionMemory.open().add("messages", "hi"), NotOpenedError, "async with"),
    (
        lambda: contextlib.ExitStack().enter_context(SessionMemory.open()),
        NotOpenedError,
        "or by `with SyncSessionMemory.open(...) as memory:`",
    ),
    (
        lambda: SyncSessionMemory.open().add("messages", "hi"),
        NotOpenedError,
        "`with SyncSessionMemory.open(...) as memory:`",
    ),
]


@pytest.mark.parametrize(
    ("mistake", "error", "remedy"), MISTAKES, ids=[remedy for *_, remedy in MISTAKES]
)
async def test_a_mistake_is_told_with_its_remedy(
    mistake,
    error,
    remedy,
    tmp_path,
    monkeypatch,
):
    """What was meant is in the message of a typed error, raised where the mistake is."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises(error) as raised:
        result = mistake()
        if inspect.isawaitable(result):
            await result
    assert remedy in str(raised.value)
    assert list(tmp_path.iterdir()) == []


async def test_a_session_that_is_awaited_says_how_it_is_opened():
    """`await` is as near as one can come."""
    with pytest.raises(NotOpenedError, match="async with"):
        await SessionMemory.open()


async def test_what_cannot_be_asked_for_is_absent(tmp_path):
    """To `hasattr`, which is how frameworks look at things, what is not opened has nothing."""
    assert not hasattr(SessionMemory.open(tmp_path), "assemble_context")


@pytest.mark.parametrize(
    ("stated", "begins", "shown"),
    [
        (None, None, ""),
        ("", None, ""),
        ("2024", "2024-01-01", "2024"),
        ("2024-05", "2024-05-01", "May 2024"),
        ("2024-05-07T13:56:00", "2024-05-07", "7 May 2024"),
    ],
)
def test_a_timestamp_may_be_a_year_or_a_month(stated, begins, shown):
    """Records of companies have no day. What is stated is kept, and counts from its first moment."""
    item = memory().add("findings", "x", metadata={"timestamp": stated})
    assert item.metadata == {"timestamp": stated}
    assert (item.stated_from and item.stated_from.date().isoformat()) == begins
    assert item.date == shown


def test_a_version_of_an_earlier_year_is_not_current():
    """It counts as of its year, not as of the day on which it was added."""
    session = memory()
    for text, stated in (("John is the CEO.", "2021"), ("Wei is the CEO.", "2023-11-15")):
        session.add("findings", text, key="ceo", metadata={"timestamp": stated})
    assert [item.text for item in session["findings"]] == ["Wei is the CEO."]


@pytest.mark.parametrize("messages", [(HI, HI), iter([HI, HI])])
async def test_several_need_not_be_a_list(messages):
    """Whatever can be gone through is as good."""
    assert len(await agent().append(messages, "s")) == 2
