"""Excerpts: of an earlier message that is too long to be recalled, the lines that a question speaks of are shown."""

import json

import pytest

from kaosmem import Reason, SessionMemory
from kaosmem.assembly.windows import VisibleItem, stored_items

LOG = "".join(
    f"step {number}: compiled module {number} without a warning\n" for number in range(400)
)
RESULT = f"{LOG}error: undefined reference to frobnicate\n  called from reactor.c line 88\n{LOG}make stopped\n"


def call(memory, command, result, *, format="openai"):
    """Add a round: a call of a tool and its result."""
    identity = f"call-{len(memory['messages'])}"
    if format == "openai":
        function = {"name": "bash", "arguments": json.dumps({"command": command})}
        asked = {"id": identity, "type": "function", "function": function}
        memory.add_message({"role": "assistant", "tool_calls": [asked]}, format="openai")
        answer = {"role": "tool", "tool_call_id": identity, "content": result}
        return memory.add_message(answer, format="openai")
    used = {"type": "tool_use", "id": identity, "name": "bash", "input": {"command": command}}
    memory.add_message({"role": "assistant", "content": [used]}, format="anthropic")
    told = {"type": "tool_result", "tool_use_id": identity, "content": result}
    return memory.add_message({"role": "user", "content": [told]}, format="anthropic")


def after_a_build(*, result=RESULT, format="openai"):
    """Return a session with a long result, and more turns after it than a small window holds."""
    memory = SessionMemory.test_mode()
    memory.add("messages", "Build the program.")
    built = call(memory, "make", result, format=format)
    for number in range(60):
        memory.add("messages", f"Please go on with chapter {number} of the novel. " * 3)
        memory.add(
            "messages", f"Chapter {number} is written now, as you wanted. " * 3, role="assistant"
        )
    return memory, built


async def block_of(memory, question, *, format="openai", budget=4_000, **options):
    """Ask a question, and return the last message as JSON."""
    memory.add("messages", question)
    context = await memory.assemble_context(budget=budget, format=format, **options)
    assert context.used <= budget
    return context, json.dumps(context.messages[-1], ensure_ascii=False)


@pytest.mark.parametrize("format", ["openai", "anthropic"])
async def test_the_matching_lines_of_a_result_that_is_larger_than_the_window_are_shown(format):
    """They come with the lines after them and the last line, under the label of a tool."""
    memory, built = after_a_build(format=format)
    context, block = await block_of(memory, "Which undefined reference broke it?", format=format)
    assert built.tokens > 4_000
    for part in ("undefined reference to frobnicate", "reactor.c line 88", "make stopped"):
        assert part in block
    assert "tool: … " in block
    assert "characters left out" in block
    assert context.decision(built.id).reason is Reason.SHORTENED
    assert context.decision(built.id).tokens < 1_000
    assert (await memory.fetch(built.id)).text == RESULT


async def test_a_long_message_of_the_user_is_shown_in_part_too():
    """A log that a user pasted is as long as that of a tool."""
    memory, _ = after_a_build(result="ok")
    memory.add("messages", RESULT)
    for number in range(60):
        memory.add("messages", f"Let us go on with verse {number} of the poem. " * 3)
    _, block = await block_of(memory, "Which undefined reference broke it?")
    assert "undefined reference to frobnicate" in block


async def test_of_parallel_results_the_matching_one_is_shown():
    """Together they would have more tokens than any share."""
    memory = SessionMemory.test_mode()
    memory.add("messages", "Read both.")
    functions = []
    for name in ("one", "two"):
        function = {"name": "read", "arguments": json.dumps({"path": name})}
        functions.append({"id": name, "type": "function", "function": function})
    memory.add_message({"role": "assistant", "tool_calls": functions}, format="openai")
    for name, content in (("one", LOG), ("two", RESULT)):
        answer = {"role": "tool", "tool_call_id": name, "content": content}
        memory.add_message(answer, format="openai")
    for number in range(60):
        memory.add("messages", f"Please go on with chapter {number} of the novel. " * 3)
    _, block = await block_of(memory, "Which undefined reference broke it?")
    assert "undefined reference to frobnicate" in block


async def test_a_result_without_a_matching_line_is_no_excerpt():
    """An excerpt without anything of the question would take room from others."""
    memory, built = after_a_build()
    context, _ = await block_of(memory, "Who walked the elephants?")
    assert not context.decision(built.id).included


async def test_a_long_message_in_the_tail_is_whole():
    """Only messages before the tail are shown in part."""
    memory = SessionMemory.test_mode()
    memory.add("messages", "Build the program.")
    built = call(memory, "make", RESULT)
    context, _ = await block_of(memory, "Which undefined reference broke it?", budget=20_000)
    assert context.decision(built.id).reason is Reason.TAIL
    assert RESULT in [message.get("content") for message in context.messages]


async def test_a_long_line_is_shown_in_part():
    """JSON often comes in one line."""
    records = [{"name": f"service-{number}", "port": 4_000 + number} for number in range(900)]
    records[500] = {"name": "billing gateway", "port": 48_213}
    memory, _ = after_a_build(result=json.dumps(records))
    _, block = await block_of(memory, "On which port is the billing gateway?")
    assert "48213" in block


async def test_a_window_shows_other_lines_of_the_same_message_for_another_question():
    """The lines are no new version of the message, and the same lines are not appended again."""
    memory, built = after_a_build(result=f"{RESULT}{LOG}hint: install libfoo from the attic\n{LOG}")
    window = {"budget": 16_000, "window": "main"}
    await block_of(memory, "Hello.", **window)
    memory.add("messages", "Good day.", role="assistant")
    _, first = await block_of(memory, "Which undefined reference broke it?", **window)
    memory.add("messages", "One of two.", role="assistant")
    context, second = await block_of(memory, "What did the hint say on libfoo?", **window)
    memory.add("messages", "To install it.", role="assistant")
    _, third = await block_of(memory, "And what did the hint say on libfoo?", **window)
    assert "undefined reference to frobnicate" in first
    assert "libfoo from the attic" in second
    assert "libfoo from the attic" not in third
    assert ", newer]" not in second
    assert context.rebased is None
    assert context.decision(built.id).reason is Reason.SHORTENED


async def test_a_window_appends_lines_once_also_if_others_came_between():
    """It knows all excerpts of a message that it shows, also after it was stored."""
    memory, built = after_a_build(result=f"{RESULT}{LOG}hint: install libfoo from the attic\n{LOG}")
    window = {"budget": 16_000, "window": "main"}
    blocks = []
    for question in (
        "Hello.",
        "Which undefined reference broke it?",
        "What did the hint say on libfoo?",
        "Which undefined reference broke it?",
        "What did the hint say on libfoo?",
    ):
        context, block = await block_of(memory, question, **window)
        blocks.append(block)
        memory.add("messages", "As the lines say.", role="assistant")
        assert context.rebased in ("new", None)
    assert "undefined reference to frobnicate" in blocks[1]
    assert "libfoo from the attic" in blocks[2]
    assert "undefined reference to frobnicate" not in blocks[3]
    assert "libfoo from the attic" not in blocks[4]
    excerpts = tuple(str(number) for number in range(2))
    shown = VisibleItem("messages", "d", None, excerpts)
    assert VisibleItem.read(*stored_items({built.id: shown})[built.id]) == shown


def after_a_long_reply():
    """Return a session whose tail is short, as a long message stands before it."""
    memory = SessionMemory.test_mode()
    for number in range(60):
        memory.add("messages", f"The harbour crane {number} lifts {number} tons. " * 4)
    memory.add("messages", "It is noted. " * 1_200, role="assistant")
    memory.add("messages", "Thank you.", role="user")
    memory.add("messages", "You are welcome.", role="assistant")
    return memory


async def test_earlier_messages_take_the_room_that_nothing_else_needs():
    """If a long message ends the tail early, they take twice their share of the window."""
    memory = after_a_long_reply()
    context, _ = await block_of(memory, "How many tons does each harbour crane lift?")
    assert context.used > 2_000


@pytest.mark.parametrize(("budget", "least"), [(2_000, 1_620), (4_000, 3_300)])
async def test_documents_that_match_as_well_take_that_room_first(budget, least):
    """Earlier messages take what is left after them: of 90 documents some are left out."""
    memory = after_a_long_reply()
    memory.add_many(
        "documents",
        [f"Crane {number} of the harbour can lift {number} tons. " * 4 for number in range(90)],
    )
    question = "How many tons does each harbour crane lift?"
    context, _ = await block_of(memory, question, budget=budget)
    assert context.by_section["documents"].used >= least


async def test_an_excerpt_fits_the_share_of_earlier_messages_in_the_block_of_a_window():
    """Documents that match as well take the rest of the block."""
    errors = "".join(f"undefined reference to frobnicate_{number}\n" for number in range(200))
    memory, _ = after_a_build(result=f"{LOG}{errors}{LOG}")
    texts = [
        f"An undefined reference {number} broke the build of the day. " * 9 for number in range(90)
    ]
    memory.add_many("documents", texts)
    question = "Which undefined reference broke the build?"
    context, block = await block_of(memory, question, budget=32_000, window="main")
    assert "frobnicate_" in block
    assert context.by_section["documents"].items
