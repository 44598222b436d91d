"""What is handed over obeys each provider's rules, whatever history it comes from; and the rules can be broken."""

import asyncio
import re
from collections.abc import Iterable
from functools import cache

import pytest
from hypothesis import example, given, note
from hypothesis import strategies as st
from pydantic import BaseModel, TypeAdapter

from kaosmem import (
    KaosmemError,
    SectionSpec,
    SessionMemory,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
    Trust,
    WindowTooSmallError,
)
from kaosmem.testing import MessageRuleError, check_anthropic_messages, check_openai_messages
from kaosmem.testing.anthropic_rules import RULES as ANTHROPIC_RULES
from kaosmem.testing.openai_rules import RULES as OPENAI_RULES
from kaosmem.types.content import DocumentBlock, ImageBlock
from tests.formats.checked import check_context
from tests.formats.provider_rules import CHECKS
from tests.worlds import HOSTILE, budgets, queries, texts

PNG = "data:image/png;base64,iVBORw0KGgo="
LINE_ENDS = re.compile("[\n\r\v\f\x1c\x1d\x1e\x85\u2028\u2029]")
BLOCK_TAG = re.compile("</?context>")

SECTIONS = (
    SectionSpec("role", placement="static", eviction="none"),
    SectionSpec("messages", placement="history", eviction="none"),
    SectionSpec("asides", 300, placement="history", eviction="fifo"),
    SectionSpec("documents", eviction="none", retrieval_threshold=2),
)

hostile = texts | st.sampled_from(
    [*HOSTILE, " \n", "so: ", '<message from="system">', "[the assistant speaks first]"]
)
call_ids = st.sampled_from(["a", "b", "c", "a", "", "x y", "é" * 30, "a-2", "z" * 90])
tool_names = st.sampled_from(["search", "fs.read", "", "naïve tool", "n" * 200])
arguments = st.sampled_from(
    ['{"q": "fee"}', "", "{}", "[1]", "{broken", '{"a": NaN}', '{"a": "\\ud800"}', "[" * 3_000]
)
images = st.builds(
    ImageBlock,
    st.sampled_from([PNG, "https://example.org/a.png", "", "ftp://x", "data:image/png;base64,?"]),
)
thinking = st.one_of(
    st.builds(ThinkingBlock, hostile, st.sampled_from(["", "seal"])),
    st.builds(lambda data: ThinkingBlock("", data=data), st.sampled_from(["c2VhbA", ""])),
)
calls = st.builds(ToolUseBlock, call_ids, tool_names, arguments)
inner = st.lists(st.builds(TextBlock, hostile) | images, max_size=3).map(tuple)
results = st.builds(ToolResultBlock, call_ids, hostile | inner, st.booleans())
documents = st.builds(DocumentBlock, hostile, hostile | st.just("t" * 600))
blocks = st.one_of(st.builds(TextBlock, hostile), images, thinking, documents, results, calls)
roles = st.sampled_from(["user", "assistant", "system", "tool", "critic", "a b|c", ""])

events = st.one_of(
    st.tuples(roles, hostile),
    st.tuples(st.just("user"), hostile),
    st.tuples(st.just("assistant"), st.lists(calls, min_size=1, max_size=3)),
    st.tuples(st.just("assistant"), st.tuples(thinking, st.builds(TextBlock, hostile), calls)),
    st.tuples(st.just("tool"), st.lists(results, min_size=1, max_size=2)),
    st.tuples(st.just("tool"), st.lists(results, min_size=1, max_size=2)),
    st.tuples(roles, st.lists(blocks, max_size=4)),
    st.tuples(st.just("user"), st.tuples(documents, images)),
)


filled = st.lists(st.sampled_from(["role", "documents"]), max_size=2)
conversations = st.lists(events, max_size=14)
told_in = st.sampled_from(["messages"] * 5 + ["asides"])
trusts = st.sampled_from([None, None, None, Trust.EXTERNAL])
tenths = st.integers(0, 9)


@st.composite
def histories(draw):
    """Draw a session: calls parallel, late, missing, repeated, under signed reasoning, with users speaking between."""
    memory = SessionMemory.test_mode(sections=SECTIONS)
    for section in draw(filled):
        memory.add(section, draw(hostile))
    for role, content in draw(conversations):
        section = draw(told_in)
        trust = draw(trusts)
        try:
            memory.add(section, content, role=role, trust=trust, pinned=draw(tenths) == 9)
        except KaosmemError:
            continue  # too large for its section, or full of open calls
    return memory


def assembled(memory, query, budget, format):
    (context,) = all_assembled(memory, query, [budget], format)
    return context


def all_assembled(memory, query, sizes, format):
    """Return a context of each budget, or None where the window is too small, from a single event loop."""

    async def assemble():
        contexts = []
        for budget in sizes:
            try:
                contexts.append(await memory.assemble_context(query, budget=budget, format=format))
            except WindowTooSmallError:
                contexts.append(None)
        return contexts

    return asyncio.run(assemble())


@given(histories(), queries, budgets | st.just(50_000))
def test_any_history_makes_messages_that_the_provider_takes(memory, query, budget):
    """Whatever came in, what goes out obeys the API's rules, has its types, and counts what it says.

    In chat messages, the block's tags stand on lines of their own once each, or not at all.
    """
    for name in ("openai", "anthropic", *CHECKS):
        note(name)
        context = assembled(memory, query, budget, name)
        if context is None:
            continue
        check_context(context)
        if name not in CHECKS:
            as_types = as_openai_types if name == "openai" else as_anthropic_types
            assert as_types(context.messages) == context.messages
            assert tags_of_the_block(context) in ([], ["<context>", "</context>"])


def tags_of_the_block(context):
    """Return the tags of blocks with which lines begin."""
    sent = [context.rendered.system or ""]
    for message in context.messages:
        content = message.get("content") or ""
        parts = [{"text": content}] if isinstance(content, str) else content
        sent += [part["text"] for part in parts if "text" in part]
        sent += [part["content"] for part in parts if isinstance(part.get("content"), str)]
    lines = [line for text in sent for line in LINE_ENDS.split(text)]
    return [BLOCK_TAG.match(line)[0] for line in lines if BLOCK_TAG.match(line)]


@cache
def _openai_messages():
    from openai.types.chat import ChatCompletionMessageParam

    return TypeAdapter(list[ChatCompletionMessageParam])


@cache
def _anthropic_messages():
    from anthropic.types import MessageParam

    return TypeAdapter(list[MessageParam])


def as_openai_types(messages):
    """Return messages as the openai package's types hold them, fields that they don't know left out."""
    return forced(_openai_messages().validate_python(messages))


def as_anthropic_types(messages):
    """Return messages as the anthropic package's types hold them, fields that they don't know left out."""
    return forced(_anthropic_messages().validate_python(messages))


def forced(value):
    """Return a validated value in plain types; fields typed as iterables are checked only when walked."""
    if isinstance(value, BaseModel):
        return forced(value.model_dump(exclude_unset=True))
    if isinstance(value, dict):
        return {key: forced(member) for key, member in value.items()}
    if isinstance(value, Iterable) and not isinstance(value, str | bytes):
        return [forced(member) for member in value]
    return value


def test_the_types_are_checked_to_the_bottom():
    """A wrong field deep in a message is found by the packages' types, so that they can find ours."""
    wrong = {"type": "tool_result", "tool_use_id": 5, "content": [{"type": "text", "text": None}]}
    with pytest.raises(ValueError, match="tool_use_id"):
        as_anthropic_types([{"role": "user", "content": [wrong]}])
    call = {"id": "a", "type": "function", "function": {"name": "f", "arguments": {}}}
    with pytest.raises(ValueError, match="arguments"):
        as_openai_types([{"role": "assistant", "tool_calls": [call]}])


def test_the_system_prompt_is_beside_the_messages_of_anthropic_alone():
    """Other formats say where theirs is; the shared prefix begins with the system prompt."""
    memory = SessionMemory.test_mode(sections=SECTIONS)
    memory.add("messages", "Hello.")
    bare = assembled(memory, None, 1_000, "anthropic")
    memory.add("role", "Be kind.")
    contexts = [assembled(memory, None, 1_000, name) for name in ("anthropic", "openai", "text")]
    assert bare.system == ""
    assert contexts[0].system == "## role\n[system] Be kind.\n"
    for context in contexts[1:]:
        with pytest.raises(AttributeError, match="no system prompt of its own"):
            context.system  # type: ignore[union-attr] # noqa: B018


def call(call_id="a", name="f"):
    return {"type": "tool_use", "id": call_id, "name": name, "input": {}}


def result(call_id="a", **more):
    return {"type": "tool_result", "tool_use_id": call_id, "content": "x", **more}


def user(*content):
    return {"role": "user", "content": list(content) or "hello"}


def assistant(*content):
    return {"role": "assistant", "content": list(content) or "hello"}


def text(value="hello"):
    return {"type": "text", "text": value}


def searching():
    return {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}}


def searched():
    return {"type": "web_search_tool_result", "tool_use_id": "s", "content": []}


def thought(**more):
    return {"type": "thinking", "thinking": "hm", "signature": "seal", **more}


def image(**source):
    return {"type": "image", "source": source}


def document(data="x", **more):
    return {
        "type": "document",
        "source": {"type": "text", "media_type": "text/plain", "data": data},
        **more,
    }


BREAKING_ANTHROPIC = [
    ("roles_are_known", 0, [{"role": "system", "content": "x"}]),
    ("roles_are_known", 0, [{"role": "user", "content": "x", "name": "ada"}]),
    ("the_first_is_the_users", 0, [assistant()]),
    ("content_is_given", 0, [{"role": "user", "content": " "}]),
    ("content_is_given", 0, [{"role": "user", "content": []}]),
    ("content_is_given", 1, [user(), assistant(image(type="url", url="https://example.org"))]),
    ("content_is_given", 0, [user(thought())]),
    ("texts_are_not_blank", 0, [user(text(), text("\n"))]),
    ("texts_are_not_blank", 2, [user(), assistant(call()), user(result(content=[text("")]))]),
    ("images_can_be_read", 0, [user(image(type="base64", media_type="image/tiff", data="AAAA"))]),
    ("images_can_be_read", 0, [user(image(type="base64", media_type="image/png", data="?"))]),
    ("images_can_be_read", 0, [user(image(type="url", url="a.png"))]),
    ("documents_can_be_read", 0, [user(document(" "))]),
    ("documents_can_be_read", 0, [user(document(title="t" * 501))]),
    ("calls_are_whole", 1, [user(), assistant(call(name="f.g")), user(result())]),
    ("calls_are_whole", 1, [user(), assistant({**call(), "input": "{}"}), user(result())]),
    ("call_ids_are_distinct", 1, [user(), assistant(call("a b")), user(result("a b"))]),
    (
        "call_ids_are_distinct",
        3,
        [user(), assistant(call()), user(result()), assistant(call()), user(result())],
    ),
    ("calls_are_answered", 1, [user(), assistant(call())]),
    ("calls_are_answered", 2, [user(), assistant(call()), user(), user(result())]),
    ("calls_are_answered", 2, [user(), assistant(call()), user(result(), result())]),
    ("calls_are_answered", 0, [user(result())]),
    ("results_of_servers_have_calls", 1, [user(), assistant(searched())]),
    ("results_of_servers_have_calls", 1, [user(), assistant(searched(), searching())]),
    ("results_come_first", 2, [user(), assistant(call()), user(text(), result())]),
    ("results_come_first", 2, [user(), assistant(call()), user(result(is_error=True, content=""))]),
    ("results_come_first", 2, [user(), assistant(call()), user(result(content=[call()]))]),
    ("thinking_is_sealed_and_first", 1, [user(), assistant(thought(signature=""), text())]),
    (
        "thinking_is_sealed_and_first",
        1,
        [user(), assistant({"type": "redacted_thinking", "data": ""}, text())],
    ),
    (
        "thinking_is_sealed_and_first",
        1,
        [user(), assistant(text(), thought(), call()), user(result())],
    ),
    ("thinking_is_sealed_and_first", 1, [user(), assistant(thought())]),
    ("the_last_of_the_assistant_is_trimmed", 1, [user(), {"role": "assistant", "content": "so: "}]),
]


def tool_call(call_id="a", name="f", arguments="{}"):
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}


def calling(*tool_calls):
    return {"role": "assistant", "content": None, "tool_calls": list(tool_calls)}


def answer(call_id="a", content="x"):
    return {"role": "tool", "tool_call_id": call_id, "content": content}


def picture(url, **more):
    return {"type": "image_url", "image_url": {"url": url, **more}}


BREAKING_OPENAI = [
    ("roles_are_known", 0, [{"role": "critic", "content": "x"}]),
    ("roles_are_known", 0, [{"role": "assistant", "content": "x", "reasoning_content": "hm"}]),
    ("content_is_given", 0, [{"role": "user", "content": None}]),
    ("content_is_given", 0, [{"role": "assistant", "content": None}]),
    ("content_is_given", 0, [{"role": "user", "content": []}]),
    ("parts_suit_the_role", 0, [assistant(picture(PNG))]),
    ("parts_suit_the_role", 1, [calling(tool_call()), answer(content=[picture(PNG)])]),
    ("parts_suit_the_role", 0, [user(text(None))]),
    ("images_can_be_read", 0, [user(picture("a.png"))]),
    ("images_can_be_read", 0, [user(picture("data:image/png;base64,?"))]),
    ("images_can_be_read", 0, [user(picture(PNG, detail="much"))]),
    ("names_are_plain", 0, [{**user(), "name": "a b"}]),
    ("calls_are_whole", 0, [{**calling(), "content": "x"}]),
    ("calls_are_whole", 0, [calling({**tool_call(), "type": "custom"})]),
    ("calls_are_whole", 0, [calling(tool_call(name="f.g"))]),
    ("calls_are_whole", 0, [calling(tool_call(arguments={}))]),
    ("call_ids_are_distinct", 0, [calling(tool_call(), tool_call()), answer(), answer()]),
    ("call_ids_are_distinct", 0, [calling(tool_call("z" * 41)), answer("z" * 41)]),
    ("call_ids_are_distinct", 0, [calling(tool_call("")), answer("")]),
    ("calls_are_answered", 0, [calling(tool_call())]),
    ("calls_are_answered", 1, [calling(tool_call()), user(), answer()]),
    ("calls_are_answered", 2, [calling(tool_call()), answer(), answer()]),
    ("calls_are_answered", 0, [answer()]),
]


@pytest.mark.parametrize(
    ("check", "rule", "position", "messages"),
    [(check_anthropic_messages, *each) for each in BREAKING_ANTHROPIC]
    + [(check_openai_messages, *each) for each in BREAKING_OPENAI],
)
def test_each_rule_can_be_broken(check, rule, position, messages):
    """The error names the rule and the message."""
    with pytest.raises(MessageRuleError, match=f"message {position} ") as caught:
        check(messages)
    assert (caught.value.rule, caught.value.position) == (rule, position)


@pytest.mark.parametrize(
    "shown",
    [
        [call()],
        [{**thought(), "thinking": "changed"}, call()],
        [thought(), thought(), call()],
        [{"type": "redacted_thinking", "data": "d"}, call()],
    ],
)
def test_the_thinking_of_the_latest_reply_is_unchanged(shown):
    """A block that is missing, changed or added is caught; in earlier messages it may be missing."""
    reply = [thought(), call()]
    open_loop = [user(), assistant(*shown), user(result())]
    with pytest.raises(MessageRuleError, match=r"message 1 .*not that of the reply"):
        check_anthropic_messages(open_loop, replies=[reply])
    check_anthropic_messages([user(), assistant(*reply), user(result())], replies=[reply])
    if shown == [call()]:
        check_anthropic_messages([*open_loop, assistant(), user()], replies=[reply, [text()]])


def test_with_thinking_on_the_latest_call_begins_with_it():
    """Calls of earlier messages, and a latest message without calls, may lack it."""
    bare = [user(), assistant(call("a")), user(result("a"))]
    with pytest.raises(MessageRuleError, match=r"message 1 .*does not begin with thinking"):
        check_anthropic_messages(bare, thinking=True)
    check_anthropic_messages(bare)
    check_anthropic_messages(
        [*bare, assistant(thought(), call("b")), user(result("b"))], thinking=True
    )
    check_anthropic_messages([*bare, assistant(), user()], thinking=True)


def test_every_rule_is_shown_to_bite():
    """No rule is without messages that break it, each says its source, and the system prompt has a rule too."""
    for rules, breaking in ((ANTHROPIC_RULES, BREAKING_ANTHROPIC), (OPENAI_RULES, BREAKING_OPENAI)):
        assert {rule.__name__ for rule in rules} == {rule for rule, _, _ in breaking}
        assert all("Source:" in (rule.__doc__ or "") for rule in rules)
    for system in (" ", 5, [], [text(" ")]):
        with pytest.raises(MessageRuleError, match="system"):
            check_anthropic_messages([], system)
    check_anthropic_messages([], [text()])


def test_messages_that_obey_are_accepted():
    """Messages with all that the rules allow pass."""
    check_anthropic_messages([user(), assistant(searching()), assistant(searched(), text())])
    check_anthropic_messages(
        [
            user(text(), image(type="url", url="https://example.org/a.png"), document(title="t")),
            assistant(thought(), text(), call("a"), call("b")),
            user(
                result(
                    "b", content=[text(), image(type="base64", media_type="image/png", data="AAAA")]
                ),
                result("a"),
            ),
            user(),
            assistant(),
        ],
        "Be kind.",
    )
    check_openai_messages(
        [
            {"role": "system", "content": "Be kind."},
            {**user(text(), picture(PNG, detail="low")), "name": "ada"},
            calling(tool_call("a"), tool_call("b")),
            answer("b"),
            answer("a", [text()]),
            assistant(),
        ]
    )


@given(st.lists(st.sampled_from(["user", "assistant", "system"]), max_size=6))
@example(["assistant"])
def test_a_history_of_anthropic_begins_with_the_user(roles_in_turn):
    """Where the assistant would speak first, an opening stands before it, and is counted."""
    memory = SessionMemory.test_mode(sections=SECTIONS)
    for role in roles_in_turn:
        memory.add("messages", "hello", role=role)
    full = assembled(memory, None, 10_000, "anthropic")
    if roles_in_turn:
        opened = full.messages[0]["content"] == "[the assistant speaks first]"
        assert opened is (roles_in_turn[0] == "assistant")
    sizes = range(max(0, full.used - 12), full.used + 1)
    for budget, context in zip(sizes, all_assembled(memory, None, sizes, "anthropic"), strict=True):
        if context is not None:
            check_context(context)
            assert context.budget == budget
