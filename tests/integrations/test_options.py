"""A wrong or unknown option of an adapter is refused where the adapter is made."""

import re

import pytest
from langchain_core.messages import AIMessage, HumanMessage

from kaosmem import InvalidArgumentError, SectionSpec
from kaosmem.integrations.agent_framework import (
    KaosmemCompaction,
    KaosmemHistoryProvider,
    KaosmemMiddleware,
)
from kaosmem.integrations.langchain import KaosmemMiddleware as LangChainMiddleware
from kaosmem.integrations.langchain import KaosmemStore
from kaosmem.integrations.openai_agents import KaosmemFilter, KaosmemSession
from kaosmem.integrations.pydantic_ai import KaosmemCapability

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")


def named_filter(place, **options):
    return KaosmemFilter(place, conversation="deal-42", **options)


def named_session(place, **options):
    return KaosmemSession(place, conversation="deal-42", **options)


PACKING = [KaosmemMiddleware, LangChainMiddleware, KaosmemCapability, named_filter]
KEEPING = [KaosmemHistoryProvider, KaosmemStore, named_session]
WRONG = [
    ({"budgt": 2_500}, "no argument 'budgt'; did you mean 'budget'?"),
    ({}, "budget is None; give a whole number"),
    ({"budget": "2500"}, "budget is '2500'; give a whole number"),
    ({"budget": 2_500, "windw": None}, "did you mean 'window'?"),
    ({"budget": 2_500, "window": 5}, "give a Window"),
    ({"budget": 2_500, "window": "a b"}, "window 'a b' is not valid"),
    ({"budget": 2_500, "format": "opnai"}, "did you mean 'openai'?"),
    ({"budget": 2_500, "format": "text"}, "give format='openai'"),
    ({"budget": 2_500, "rankr": None}, "did you mean 'ranker'?"),
    ({"budget": 2_500, "read": None}, "no argument 'read'; use one of budget, window"),
    ({"budget": 2_500, "ranker": "bm25"}, "give a Ranker"),
    ({"budget": 2_500, "read_only": True}, "no argument 'read_only': a turn waits"),
]


@pytest.mark.parametrize(("options", "words"), WRONG)
@pytest.mark.parametrize("adapter", PACKING)
def test_a_wrong_option_is_refused_at_once(adapter, options, words, tmp_path):
    """Not at the first call of the model, inside the run of the framework."""
    with pytest.raises(InvalidArgumentError, match=re.escape(words)):
        adapter(tmp_path, **options)


@pytest.mark.parametrize("adapter", [*PACKING, *KEEPING])
def test_a_place_that_cannot_be_opened_is_refused_at_once(adapter):
    options = {"budget": 2_500} if adapter in PACKING else {}
    with pytest.raises(InvalidArgumentError, match="no session can be kept in 'nosuch://x'"):
        adapter("nosuch://x", **options)


@pytest.mark.parametrize("adapter", KEEPING)
def test_a_history_and_a_store_refuse_what_they_do_not_know(adapter, tmp_path):
    with pytest.raises(InvalidArgumentError, match="did you mean 'namespace'"):
        adapter(tmp_path, namespac="acme")
    with pytest.raises(InvalidArgumentError, match="give a Ranker"):
        adapter(tmp_path, ranker="bm25")


@pytest.mark.parametrize("conversation", ["", "  ", None])
def test_a_conversation_without_a_name_is_refused_at_once(conversation, tmp_path):
    """As of a variable that is not set: all users would share it."""
    with pytest.raises(InvalidArgumentError, match="made an id"):
        KaosmemSession(tmp_path, conversation=conversation)
    with pytest.raises(InvalidArgumentError, match="made an id"):
        KaosmemFilter(tmp_path, conversation=conversation, budget=2_500)


def test_a_store_has_its_section_beside_those_of_the_program(tmp_path):
    """A section of the same name, and a value that is no list, are refused at once."""
    store = KaosmemStore(tmp_path, sections=[SectionSpec("notes")])
    store.put(("users",), "ann", {"drink": "tea"})
    assert store.get(("users",), "ann").value == {"drink": "tea"}
    with pytest.raises(InvalidArgumentError, match="two sections are named 'store'"):
        KaosmemStore(tmp_path, sections=[SectionSpec("store")])
    with pytest.raises(InvalidArgumentError, match="sections is a int; give a list"):
        KaosmemStore(tmp_path, sections=3)


def test_a_compaction_needs_a_strategy():
    with pytest.raises(InvalidArgumentError, match="strategy is a str; give a CompactionStrategy"):
        KaosmemCompaction("sliding")


FORMATS = ["openai", "openai-responses", "anthropic", "gemini", "bedrock", "blocks"]


@pytest.mark.parametrize("counted", FORMATS)
async def test_the_messages_of_a_framework_are_counted_in_any_format(counted, tmp_path):
    """The format is that of the model that the framework calls; the messages stay its own."""
    calls = LangChainMiddleware(tmp_path, budget=2_500, format=counted).calls
    said = [HumanMessage("Who owns the deal?"), AIMessage("Ann."), HumanMessage("Since when?")]
    await calls.request(said[:1], conversation="talk")
    await calls.keep(said[1:2], conversation="talk")
    packed = await calls.request(said, conversation="talk", system="Be brief.")
    assert [message.text for message in packed.messages] == [message.text for message in said]
    assert packed.system.strip() == "Be brief."
