"""The memory service and the plugin of Google ADK: found by a later runner, stored once, erased."""

import pytest

pytestmark = [
    pytest.mark.frameworks,
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning"),
]


@pytest.fixture(autouse=True)
def _adk():
    pytest.importorskip("google.adk", reason="install the extra 'google-adk'")


ANN = {"app_name": "app", "user_id": "ann"}


async def told(*texts, user="ann"):
    """Return a session of ADK with an event for each text."""
    from google.adk.events import Event
    from google.adk.sessions import InMemorySessionService
    from google.genai import types

    sessions = InMemorySessionService()
    session = await sessions.create_session(app_name="app", user_id=user, session_id="talk")
    for text in texts:
        content = types.Content(role="user", parts=[types.Part(text=text)])
        await sessions.append_event(session, Event(author="user", content=content))
    return session


async def found(service, query, user="ann"):
    response = await service.search_memory(app_name="app", user_id=user, query=query)
    return [entry.content.parts[0].text for entry in response.memories]


async def test_a_runner_preloads_memories_of_an_earlier_process(tmp_path):
    """The request of another session has the best memory of the user, and no other user's."""
    from google.adk.agents import LlmAgent
    from google.adk.models import BaseLlm, LlmResponse
    from google.adk.runners import Runner
    from google.adk.sessions import InMemorySessionService
    from google.adk.tools.preload_memory_tool import PreloadMemoryTool
    from google.genai import types

    from kaosmem.integrations.google_adk import KaosmemMemoryService

    requests = []

    class Model(BaseLlm):
        async def generate_content_async(self, llm_request, stream=False):
            requests.append(str(llm_request.contents))
            yield LlmResponse(content=types.Content(role="model", parts=[types.Part(text="Ok.")]))

    service = KaosmemMemoryService(tmp_path)
    await service.add_session_to_memory(await told("I drink green tea.", "I have a dog."))
    await service.add_session_to_memory(await told("I drink black tea.", user="bob"))
    sessions = InMemorySessionService()
    runner = Runner(
        app_name="app",
        agent=LlmAgent(name="a", model=Model(model="scripted"), tools=[PreloadMemoryTool()]),
        session_service=sessions,
        memory_service=KaosmemMemoryService(tmp_path),
    )
    await sessions.create_session(app_name="app", user_id="ann", session_id="new")
    asked = types.Content(role="user", parts=[types.Part(text="Which tea do I drink?")])
    async for _ in runner.run_async(user_id="ann", session_id="new", new_message=asked):
        pass
    assert "green tea" in requests[0]
    assert "black tea" not in requests[0]


async def test_events_are_stored_once(tmp_path):
    """A session is added as often as it grows; its event keeps its id, author and time."""
    from kaosmem.integrations.google_adk import KaosmemMemoryService

    service = KaosmemMemoryService(tmp_path)
    session = await told("The tea is green.", "The tea is hot.", " ")
    await service.add_events_to_memory(**ANN, events=session.events[:1], session_id="talk")
    await service.add_session_to_memory(session)
    await KaosmemMemoryService(tmp_path).add_session_to_memory(session)
    response = await service.search_memory(**ANN, query="green tea")
    assert sorted(entry.id for entry in response.memories) == sorted(
        event.id for event in session.events[:2]
    )
    best = response.memories[0]
    assert best.content.parts[0].text == "The tea is green."
    assert (best.author, best.custom_metadata) == ("user", {"session_id": "talk"})
    assert best.timestamp.startswith("20")


async def test_a_deleted_memory_is_erased_and_stays_away(tmp_path):
    """No file has its text, and its session does not bring it back; other memories stay."""
    from kaosmem.integrations.google_adk import KaosmemMemoryService

    service = KaosmemMemoryService(tmp_path)
    session = await told("The tea code is zebra-7781.", "The tea is hot.")
    await service.add_session_to_memory(session)
    await service.delete_memory(**ANN, memory_id=session.events[0].id)
    await service.delete_memory(**ANN, memory_id="unknown")
    files = [path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()]
    assert files
    assert not any(b"zebra-7781" in each for each in files)
    await service.add_session_to_memory(session)
    assert await found(service, "tea code") == ["The tea is hot."]


async def test_memories_may_be_written_directly(tmp_path):
    """An entry needs no id, author or time, and keeps its metadata."""
    from google.adk.memory.memory_entry import MemoryEntry
    from google.genai import types

    from kaosmem.integrations.google_adk import KaosmemMemoryService

    service = KaosmemMemoryService(tmp_path)
    content = types.Content(parts=[types.Part(text="Ann prefers tea.")])
    entry = MemoryEntry(content=content, custom_metadata={"kind": "like"})
    await service.add_memory(**ANN, memories=[entry], custom_metadata={"by": "form"})
    (memory,) = (await service.search_memory(**ANN, query="tea")).memories
    assert memory.custom_metadata == {"kind": "like", "by": "form"}
    await service.delete_memory(**ANN, memory_id=memory.id)
    assert await found(service, "tea") == []


async def test_users_never_share_memories(tmp_path):
    """Names that are equal when joined, such as a:b of c and a of b:c, are told apart."""
    from kaosmem.integrations.google_adk import KaosmemMemoryService

    service = KaosmemMemoryService(tmp_path)
    events = (await told("The tea is green.")).events
    await service.add_events_to_memory(app_name="a:b", user_id="c", events=events)
    for app, user in (("a", "b:c"), ("a:b:c", ""), ("a%3Ab", "c")):
        response = await service.search_memory(app_name=app, user_id=user, query="tea")
        assert response.memories == []
    response = await service.search_memory(app_name="a:b", user_id="c", query="tea")
    assert len(response.memories) == 1
    for query in ("", "?"):
        assert (await service.search_memory(app_name="a:b", user_id="c", query=query)) is not None


async def test_a_reply_without_parts_ends_no_run(tmp_path):
    """Gemini gives none where a reply stopped before its first word. The next question is asked."""
    from google.adk.agents import LlmAgent
    from google.adk.models import BaseLlm, LlmResponse
    from google.adk.runners import InMemoryRunner
    from google.genai import types

    from kaosmem.integrations.google_adk import KaosmemPlugin

    requests = []

    class Model(BaseLlm):
        async def generate_content_async(self, llm_request, stream=False):
            requests.append(str(llm_request.contents))
            yield LlmResponse(content=types.Content(role="model"), finish_reason="STOP")

    kept = KaosmemPlugin(tmp_path, budget=2_500)
    agent = LlmAgent(name="a", model=Model(model="scripted"))
    runner = InMemoryRunner(agent, app_name="app", plugins=[kept])
    for question in ("Who owns the deal?", "Since when?"):
        await runner.run_debug(question, session_id="talk", quiet=True)
    assert "Since when?" in requests[-1]
    assert "Who owns the deal?" in requests[-1]


def test_a_limit_is_a_whole_number(tmp_path):
    from kaosmem import InvalidArgumentError
    from kaosmem.integrations.google_adk import KaosmemMemoryService

    with pytest.raises(InvalidArgumentError, match="limit is '10'"):
        KaosmemMemoryService(tmp_path, limit="10")


async def test_memories_stand_beside_the_sections_of_the_program(tmp_path):
    from kaosmem import SectionSpec
    from kaosmem.integrations.google_adk import KaosmemMemoryService

    service = KaosmemMemoryService(tmp_path, sections=[SectionSpec("notes")])
    await service.add_session_to_memory(await told("I drink green tea."))
    assert await found(service, "tea") == ["I drink green tea."]
