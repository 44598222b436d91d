"""The parts of frameworks' messages are read, and written as the framework itself has them."""

import json
from importlib import import_module

import pytest
from agent_framework import Content, Message
from langchain_core.messages import AIMessage, HumanMessage
from pydantic_ai import Agent
from pydantic_ai.messages import (
    BinaryContent,
    ModelRequest,
    ModelResponse,
    TextPart,
    ThinkingPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models.function import FunctionModel

from kaosmem.types.content import (
    ImageBlock,
    OpaqueBlock,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
    block_text,
)
from kaosmem.types.items import ChatMessage

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")

DATA = "data:image/png;base64,iVBORw0KGgo="
WITH_MESSAGES = ["agent_framework", "pydantic_ai", "langchain"]
WITH_EXTRA = ["llama_index", "haystack"]
MESSAGES = {
    "question": ChatMessage("user", "Who owns the deal?"),
    "texts": ChatMessage("user", (TextBlock("Who owns it?"), TextBlock("And since when?"))),
    "image": ChatMessage("user", (TextBlock("What is this?"), ImageBlock(DATA, "image/png"))),
    "calls": ChatMessage(
        "assistant",
        (
            TextBlock("I look."),
            ToolUseBlock("c1", "read", {"page": 1}),
            ToolUseBlock("c2", "read", {"page": 2}),
        ),
    ),
    "thinking": ChatMessage(
        "assistant", (ThinkingBlock("The user may mean Ann.", "seal"), TextBlock("Ann."))
    ),
    "hidden": ChatMessage("assistant", (ThinkingBlock("", data="sealed"), TextBlock("Ann."))),
    "result": ChatMessage("tool", (ToolResultBlock("c1", "Page 1.", name="read"),)),
    "error": ChatMessage("tool", (ToolResultBlock("c1", "No page.", is_error=True, name="read"),)),
}
JOINED = ChatMessage("user", "Who owns it?\n\nAnd since when?")
LESS = {
    ("langchain", "texts"): JOINED,
    ("haystack", "texts"): JOINED,
    ("haystack", "thinking"): ChatMessage("assistant", "Ann."),
    ("haystack", "hidden"): ChatMessage("assistant", "Ann."),
    ("llama_index", "hidden"): ChatMessage("assistant", "Ann."),
    ("llama_index", "error"): ChatMessage("tool", (ToolResultBlock("c1", "No page."),)),
}
"""Messages as they come back from frameworks that have no place for all of one."""


def module(name):
    if name in WITH_MESSAGES:
        return import_module(f"kaosmem.integrations.{name}")
    return pytest.importorskip(f"kaosmem.integrations.{name}", exc_type=ImportError)


def said(message):
    """Return blocks without the names of results, which many frameworks leave to the call."""
    blocks = []
    for block in message.blocks:
        match block:
            case ToolResultBlock():
                blocks.append((block.tool_use_id, block.content, block.is_error))
            case ToolUseBlock():
                blocks.append((block.id, block.name, json.loads(block.arguments)))
            case _:
                blocks.append(block)
    return blocks


frameworks = [
    *WITH_MESSAGES,
    *(pytest.param(name, marks=pytest.mark.frameworks) for name in WITH_EXTRA),
]


@pytest.mark.parametrize("kind", MESSAGES)
@pytest.mark.parametrize("framework", frameworks)
def test_a_message_goes_out_and_in(framework, kind):
    """A message of the framework holds all blocks of a message, and is read as the same."""
    messages = module(framework)
    (read,) = messages.read_message(messages.write_message(MESSAGES[kind]))
    expected = LESS.get((framework, kind), MESSAGES[kind])
    assert (read.role, said(read)) == (expected.role, said(expected))


@pytest.mark.parametrize("framework", frameworks)
def test_delimiters_of_a_context_stay_as_they_are(framework):
    """The texts of a packed request are escaped already: a second time would disarm its own lines."""
    messages = module(framework)
    packed = (
        TextBlock("<context>\n[*] x\n</context>\n"),
        TextBlock("[3 earlier messages left out]"),
    )
    for content in (packed, packed[:1], packed[1:]):
        given = ChatMessage("user", content)
        (read,) = messages.read_message(messages.write_message(given))
        assert "\\" not in read.text
        assert "\n</context>" in read.text or "left out" in read.text


def test_a_part_that_only_its_framework_knows_is_a_note():
    """Two files are told apart, and no data of them is stored."""
    messages = module("agent_framework")
    files = [Content.from_uri(f"data:application/pdf;base64,{data}") for data in ("JVBE", "JVBF")]
    (read,) = messages.read_message(Message("user", files))
    first, second = read.blocks
    assert isinstance(first, OpaqueBlock)
    assert first != second
    assert block_text(first) == "[data, for framework alone]"
    assert "JVBE" not in first.data


def test_the_thinking_of_anthropic_goes_through_langchain():
    """A rebuilt message has the sealed thinking as LangChain's package for Anthropic sends it."""
    messages = module("langchain")
    sealed = {"type": "thinking", "thinking": "Ann?", "signature": "seal"}
    hidden = {"type": "redacted_thinking", "data": "sealed"}
    called = {"type": "tool_use", "id": "c", "name": "read", "input": {}}
    given = AIMessage(
        [sealed, hidden, {"type": "text", "text": "I look."}, called],
        tool_calls=[{"id": "c", "name": "read", "args": {}}],
        response_metadata={"model_provider": "anthropic"},
    )
    (read,) = messages.read_message(given)
    assert said(read) == [
        ThinkingBlock("Ann?", "seal"),
        ThinkingBlock("", data="sealed"),
        TextBlock("I look."),
        ("c", "read", {}),
    ]
    rebuilt = messages.write_message(read)
    assert rebuilt.content_blocks == given.content_blocks
    assert rebuilt.tool_calls == given.tool_calls
    assert rebuilt.response_metadata["output_version"] == "v1"


def test_the_reasoning_of_pydantic_ai_keeps_its_id():
    """The model of OpenAI's Responses shows reasoning without an id as a text."""
    module = import_module("kaosmem.integrations.pydantic_ai")
    thought = module.ai.ThinkingPart("Ann?", id="rs_1", signature="seal", provider_name="openai")
    (read,) = module.read_message(module.ai.ModelResponse([thought]))
    assert module.write_message(read).parts == [thought]


async def test_thinking_of_another_provider_does_not_reach_a_model_of_pydantic_ai(tmp_path):
    """Most models would show it as a text."""
    module = import_module("kaosmem.integrations.pydantic_ai")
    thoughts = []

    def answer(messages, info):
        parts = [part for message in messages for part in message.parts]
        thoughts.extend(part.content for part in parts if part.part_kind == "thinking")
        said = ThinkingPart("Mine.", signature="seal", provider_name="function")
        return ModelResponse([said, TextPart("Ann.")])

    other = ThinkingPart("Foreign.", signature="seal", provider_name="anthropic")
    asked = [ModelRequest([UserPromptPart("Who?")]), ModelResponse([other, TextPart("Ann.")])]
    kept = module.KaosmemCapability(tmp_path, budget=2_500)
    agent = Agent(FunctionModel(answer), capabilities=[kept])
    for number in range(2):
        history = None if number else asked
        await agent.run("Since when?", conversation_id="talk", message_history=history)
    assert thoughts == ["Mine."]


def test_a_call_in_the_content_of_langchain_is_read_once():
    """OpenAI's Responses have each call in the content, too: it is no part that nobody knows."""
    messages = module("langchain")
    called = {"type": "function_call", "call_id": "c", "name": "read", "arguments": "{}"}
    calls = [{"id": "c", "name": "read", "args": {}}]
    (read,) = messages.read_message(AIMessage([called], tool_calls=calls))
    assert said(read) == [("c", "read", {})]


def test_the_reasoning_of_agent_framework_keeps_its_id():
    """The client for OpenAI's Responses refuses a call whose reasoning has no id."""
    messages = module("agent_framework")
    thought = Content.from_text_reasoning(id="rs_1", text="Ann?", protected_data="seal")
    (read,) = messages.read_message(Message("assistant", [thought]))
    (written,) = messages.write_message(read).contents
    assert (written.id, written.text, written.protected_data) == ("rs_1", "Ann?", "seal")


@pytest.mark.frameworks
def test_a_call_of_haystack_keeps_both_ids():
    """OpenAI's Responses refuse a call whose `call_id` is not that of its result."""
    messages = module("haystack")
    dataclasses = import_module("haystack.dataclasses")
    call = dataclasses.ToolCall("read", {}, "fc_3", {"call_id": "call_1"})
    given = messages.ChatMessage
    replies = [given.from_assistant(tool_calls=[call]), given.from_tool("Page 1.", call)]
    for reply in replies:
        (read,) = messages.read_message(reply)
        written = messages.write_message(read)
        results = [result.origin for result in written.tool_call_results]
        (kept,) = [*written.tool_calls, *results]
        assert kept.extra == {"call_id": "call_1"}


@pytest.mark.frameworks
def test_a_call_of_strands_keeps_its_signature_and_a_result_has_a_status():
    """Gemini refuses a call without its signature; the model of Anthropic reads the status."""
    messages = module("strands").StrandsFormat()
    call = {"toolUseId": "c", "name": "read", "input": {}, "reasoningSignature": "seal"}
    result = {"toolUseId": "c", "content": [{"text": "Page 1."}]}
    assert messages.write(messages.read({"toolUse": call})) == {"toolUse": call}
    written = messages.write(messages.read({"toolResult": result}))
    assert written == {"toolResult": {**result, "status": "success"}}


async def test_the_same_words_said_twice_are_two_messages(tmp_path):
    """Each reply is its own object: a provider refuses an id that comes twice."""
    messages = module("langchain")
    middleware = messages.KaosmemMiddleware(tmp_path, budget=2_500)
    talk = []
    for number in range(3):
        talk += [HumanMessage("Go on."), AIMessage("Done.", id=f"reply-{number}")]
    talk.append(HumanMessage("Go on."))
    packed = await middleware.calls.request(talk, conversation="talk")
    assert [id(message) for message in packed.messages] == [id(message) for message in talk]


@pytest.mark.parametrize("framework", frameworks)
def test_thinking_without_a_seal_is_left_out(framework):
    """A framework would show it as a text, or its provider would refuse it."""
    messages = module(framework)
    unsealed = ThinkingBlock("The user may mean Ann.")
    (read,) = messages.read_message(
        messages.write_message(ChatMessage("assistant", (unsealed, TextBlock("Ann."))))
    )
    assert said(read) == [TextBlock("Ann.")]


def test_a_question_of_pydantic_ai_is_written_as_a_text():
    """A list of one text would be sent otherwise, so that prompt caches end at the question."""
    module = import_module("kaosmem.integrations.pydantic_ai")
    asked = module.ai.ModelRequest([module.ai.UserPromptPart("Who owns the deal?")])
    (said,) = module.read_message(asked)
    (part,) = module.write_message(said).parts
    assert part.content == "Who owns the deal?"


IMAGE = ImageBlock(DATA, "image/png")


def test_a_result_of_agent_framework_has_its_image():
    """It is counted as an image, and a rebuilt result says that there was one."""
    messages = module("agent_framework")
    items = [Content.from_text("A chart."), Content.from_uri(DATA)]
    result = Message("tool", [Content.from_function_result("c", result=items)])
    (read,) = messages.read_message(result)
    assert said(read) == [("c", (TextBlock("A chart."), IMAGE), False)]
    (written,) = messages.write_message(read).contents
    assert written.result == "A chart.\n[image image/png]"


def test_a_result_of_pydantic_ai_has_its_image():
    """Its data is no text of many thousand tokens. Values beside it are texts as ever."""
    messages = module("pydantic_ai")
    image = BinaryContent(b"\x89PNG\r\n\x1a\n", media_type="image/png")
    pdf = BinaryContent(b"%PDF", media_type="application/pdf")
    (read,) = messages.read_message(ModelRequest([ToolReturnPart("draw", image, "c")]))
    assert said(read) == [("c", (IMAGE,), False)]
    mixed = ["A chart.", image, {"page": 1}, pdf]
    (read,) = messages.read_message(ModelRequest([ToolReturnPart("draw", mixed, "c")]))
    expected = 'A chart.\n[image image/png]\n{"page":1}\n[binary, for framework alone]'
    assert read.text == expected
    (written,) = messages.write_message(read).parts
    assert written.content == expected


def test_an_error_of_agent_framework_without_a_text_says_what_failed():
    messages = module("agent_framework")
    # The framework keeps the message of an exception out of what it stores.
    failed = Content.from_function_result("c", exception="No such page.")
    (read,) = messages.read_message(Message("tool", [failed]))
    assert said(read) == [("c", "FunctionInvocationError", True)]


REASONED = [
    {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "sealed"},
    {"type": "text", "text": "Ann."},
]


async def test_the_reasoning_of_other_providers_goes_back_under_changed_instructions(tmp_path):
    """Only Anthropic's is bound to them. A model of OpenAI or DeepSeek asks for its reasoning."""
    messages = module("langchain")
    calls = messages.KaosmemMiddleware(tmp_path, budget=2_500).calls
    openai = {"model_provider": "openai"}
    replies = [
        AIMessage(REASONED, response_metadata=openai),
        AIMessage("Ann.", additional_kwargs={"reasoning_content": "Who may it be?"}),
    ]
    talk = []
    for number, reply in enumerate(replies):
        talk.append(HumanMessage(f"Question {number}?"))
        packed = await calls.request(talk, conversation="talk", system=f"It is {number} o'clock.")
        assert [id(message) for message in packed.messages] == [id(message) for message in talk]
        await calls.keep([reply], conversation="talk")
        talk.append(reply)


@pytest.mark.frameworks
async def test_calls_of_haystack_need_no_ids(tmp_path):
    """A generator of Ollama gives none. Each result is that of its call, also the second time."""
    messages = module("haystack")
    dataclasses = import_module("haystack.dataclasses")
    kept = messages.KaosmemChatGenerator(None, tmp_path, budget=2_500, conversation="talk")
    calls = [dataclasses.ToolCall("read", {"page": page}) for page in (1, 2)]
    made = messages.ChatMessage
    talk = []
    for _ in range(2):
        talk += [made.from_user("Read both."), made.from_assistant(tool_calls=calls)]
        talk += [made.from_tool(f"Page {number}.", call) for number, call in enumerate(calls, 1)]
        talk.append(made.from_assistant("Read."))
    for end in (1, 4, 6, 9):
        packed = await kept.calls.request(talk[:end])
        expected = [id(message) for message in talk[:end]]
        assert [id(message) for message in packed.messages] == expected
        await kept.calls.keep([talk[end]])


@pytest.mark.frameworks
def test_a_result_of_haystack_has_its_image():
    messages = module("haystack")
    dataclasses = import_module("haystack.dataclasses")
    image = dataclasses.ImageContent("iVBORw0KGgo=", "image/png", validation=False)
    parts = [dataclasses.TextContent("A chart."), image]
    call = dataclasses.ToolCall("draw", {}, "c")
    (read,) = messages.read_message(messages.ChatMessage.from_tool(parts, call))
    assert said(read) == [("c", (TextBlock("A chart."), IMAGE), False)]
    (written,) = messages.write_message(read).tool_call_results
    assert written.result == "A chart.\n[image image/png]"


@pytest.mark.frameworks
@pytest.mark.parametrize("framework", [*WITH_MESSAGES, *WITH_EXTRA])
def test_an_empty_text_goes_out_and_in(framework):
    messages = module(framework)
    (read,) = messages.read_message(messages.write_message(ChatMessage("user", "")))
    assert (read.role, read.text) == ("user", "")


@pytest.mark.frameworks
def test_a_result_of_llama_index_has_its_image():
    messages = module("llama_index")
    blocks = [
        messages.llama.TextBlock(text="A chart."),
        messages.llama.ImageBlock(image=b"iVBORw0KGgo=", image_mimetype="image/png"),
    ]
    named = {"tool_call_id": "c"}
    result = messages.llama.ChatMessage(role="tool", blocks=blocks, additional_kwargs=named)
    (read,) = messages.read_message(result)
    assert said(read) == [("c", (TextBlock("A chart."), IMAGE), False)]
    assert messages.write_message(read).content == "A chart.\n[image image/png]"
