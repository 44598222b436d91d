"""A model of CrewAI with a memory is the given model in all but its requests."""

from types import SimpleNamespace

import pytest
from crewai import Agent, BaseLLM
from crewai.tools import tool
from pydantic import BaseModel, PrivateAttr

from kaosmem import SyncSessionMemory
from kaosmem.formats import count_messages
from kaosmem.integrations.crewai import kaosmem_llm

pytestmark = [pytest.mark.frameworks, pytest.mark.filterwarnings("ignore")]

BUDGET = 2_000
CALL = SimpleNamespace(name="read_page", arguments='{"page": 1}')


class Code(BaseModel):
    code: int


@tool("read_page")
def read_page(page: int) -> str:
    """Read a page."""
    return f"Page {page}. " + "This clause says nothing of interest. " * 1_000


class ScriptedLLM(BaseLLM):
    _requests: list = PrivateAttr(default_factory=list)
    _stops: list = PrivateAttr(default_factory=list)

    def call(self, messages, tools=None, response_model=None, **_):
        self._requests.append([dict(message) for message in messages])
        self._stops.append(self.stop_sequences)
        self._token_usage["successful_requests"] += 1
        if response_model is not None:
            return '{"code": 7}'
        if tools and messages[-1]["role"] == "user" and "page" in messages[-1]["content"]:
            return [SimpleNamespace(id=f"c{len(self._requests)}", type="function", function=CALL)]
        return f"Answer {len(self._requests)}."

    async def acall(self, messages, tools=None, **options):
        return self.call(messages, tools, **options)

    def supports_function_calling(self):
        return True

    def get_context_window_size(self):
        return 100_000


@pytest.fixture
def model(tmp_path, monkeypatch):
    monkeypatch.setenv("CREWAI_STORAGE_DIR", str(tmp_path / "crewai"))
    return ScriptedLLM(model="scripted")


@pytest.fixture
def agent(model, tmp_path):
    llm = kaosmem_llm(model, tmp_path, conversation="talk", budget=BUDGET)
    return Agent(role="Analyst", goal="Answer.", backstory="Careful.", llm=llm, tools=[read_page])


def said(root):
    with SyncSessionMemory.open(root, "talk") as memory:
        return [item.text for item in memory["messages"]]


def test_a_large_result_is_whole_in_the_session(agent, model, tmp_path):
    """CrewAI writes results aside that are large for the window that a model states."""
    agent.kickoff("Read the page.")
    agent.kickoff("Thanks.")
    assert read_page.run(page=1) in said(tmp_path)
    for request in model._requests:
        assert count_messages(request, "openai") <= BUDGET


def test_crewai_never_summarises_the_list_of_an_agent(agent, model):
    """A list that exceeds the model's window is packed, and costs no calls for its summary."""
    agent.kickoff("Read the page, and the page, and the page.")
    list_of_the_agent = [{"role": "user", "content": "word " * 200_000}]
    assert not agent.llm.is_context_window_overflowing_threshold(list_of_the_agent)
    assert model.is_context_window_overflowing_threshold(list_of_the_agent)


def test_requests_grow_from_task_to_task(agent, model, monkeypatch):
    """A message that the agent has forgotten is written as the agent wrote it, to the byte."""
    monkeypatch.setattr(read_page, "func", lambda page: f"Page {page}.")
    for question in ("Read the page.", "And?", "Read the page again.", "Thanks."):
        agent.kickoff(question)
    sent = []
    for request in model._requests:
        for message in request:
            message.pop("cache_breakpoint", None)  # a mark of CrewAI, which no provider gets
        assert request[: len(sent)] == sent
        sent = request
    assert len(model._requests) == 6


def test_the_conversion_of_an_answer_is_no_part_of_the_conversation(agent, model, tmp_path):
    """A call that names no agent passes unchanged, and leaves nothing behind."""
    output = agent.kickoff("What is the code?", response_format=Code)
    assert output.pydantic == Code(code=7)
    assert [message["content"] for message in model._requests[-1]][1:] == ["Answer 1."]
    assert said(tmp_path) == ["\nCurrent Task: What is the code?", "Answer 1."]


def test_a_forced_answer_is_packed_and_kept(agent, model, tmp_path):
    """The last call of a loop that is out of iterations names no agent, but is of the loop."""
    agent.max_iter = 1
    agent.kickoff("Read the page.")
    assert len(model._requests) == 2
    assert count_messages(model._requests[-1], "openai") <= BUDGET
    assert said(tmp_path)[-1] == "Answer 2."


def test_the_model_counts_usage_and_gets_stop_words(agent, model):
    """Usage is counted on the given model, and stop words of a call reach it."""
    agent.llm.stop = ["Observation:"]
    agent.kickoff("Who owns the deal?")
    assert agent.llm.get_token_usage_summary().successful_requests == 1
    assert "Observation:" in model._stops[0]


async def test_an_asynchronous_call_is_packed_and_kept(agent, model, tmp_path):
    """`acall` does what `call` does."""
    asked = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Who?"}]
    assert await agent.llm.acall(asked, from_agent=agent) == "Answer 1."
    assert await agent.llm.acall([asked[0], {"role": "user", "content": "Why?"}], from_agent=agent)
    assert [message["content"] for message in model._requests[-1]] == [
        "Be brief.",
        "Who?",
        "Answer 1.",
        "Why?",
    ]
    assert said(tmp_path) == ["Who?", "Answer 1.", "Why?", "Answer 2."]
