"""What a session holds, is asked or is opened with stays out of logs, errors and reprs."""

import asyncio
import json
import logging
import pickle
from contextlib import asynccontextmanager, suppress
from functools import partial

import pytest

from kaosmem import (
    ChatMessage,
    DocumentBlock,
    ImageBlock,
    Item,
    SectionSpec,
    SessionMemory,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
    Window,
    delete_session,
    list_sessions,
)
from kaosmem.arguments import json_text
from kaosmem.conversation import EventLog
from kaosmem.language.query import Query
from kaosmem.persistence.files.records import Change
from kaosmem.persistence.log import SessionLog
from kaosmem.persistence.storage.objects import IsolatedMemoryFileSystem
from kaosmem.sections.archive import Archived
from kaosmem.session.saving.hydration import hydrate
from kaosmem.stores import Entity, InMemoryLongTermMemory, Relationship
from kaosmem.tokens.counters import EstimateCounter
from kaosmem.types import OpaqueBlock
from tests.persistence.damage.forgery import encoded, seal
from tests.persistence.worlds import snapshot
from tests.places import in_memory
from tests.telling import CONTENT, SECRET, URLS, refusal, told

SPECS = (
    SectionSpec("role", placement="static", eviction="none"),
    SectionSpec("messages", 1_000, placement="history"),
    SectionSpec("findings", 60, eviction="priority"),
    SectionSpec("small", 5, eviction="refuse"),
)
COUNTER = EstimateCounter()
BLOCKS = (
    TextBlock(CONTENT),
    ThinkingBlock(CONTENT, CONTENT, CONTENT),
    ToolUseBlock("c", "f", CONTENT),
    ToolResultBlock("c", (TextBlock(CONTENT),)),
    ImageBlock(CONTENT),
    DocumentBlock(CONTENT, CONTENT),
    OpaqueBlock("openai", "file", json_text({"type": "file", "x": CONTENT}), CONTENT),
)


def filled():
    memory = SessionMemory.test_mode(sections=SPECS, counter=COUNTER)
    memory.add("role", CONTENT)
    for number in range(9):
        memory.add(
            "messages",
            f"{CONTENT} {number} " * 4,
            metadata={"source": CONTENT},
            key=CONTENT,
            tags=[CONTENT],
        )
    memory.add("messages", BLOCKS, role="assistant", id="blocks")
    memory.add("findings", CONTENT, id="live")
    return memory


async def with_graph():
    memory = SessionMemory.test_mode(counter=COUNTER)
    memory.graph.add(
        [Entity("a", CONTENT, description=CONTENT, aliases=(CONTENT,)), {"id": "b"}],
        [Relationship("a", "b", "knows", CONTENT)],
    )
    return memory


MEMORY = filled()
STORED = MEMORY["findings"].peek("live").to_dict()
DEEP = [CONTENT]
for _ in range(70):
    DEEP = [DEEP]

ADDED = {
    "a surrogate after text": {"content": CONTENT + "\ud800"},
    "a surrogate in a block": {"content": [TextBlock(CONTENT + "\ud800")]},
    "content of no kind": {"content": {CONTENT: CONTENT}},
    "bytes": {"content": CONTENT.encode()},
    "a block of no kind": {"content": [{"type": "text", "text": [CONTENT]}]},
    "a block with an unknown field": {"content": [{"type": "text", "text": "x", CONTENT: CONTENT}]},
    "a block of the wrong type": {"content": [TextBlock({CONTENT})]},
    "a block of an unknown type": {"content": [{"type": CONTENT}]},
    "keys in a text block": {"content": [{"type": "text", "text": {CONTENT: 1}}]},
    "arguments that are no JSON": {
        "content": [{"type": "tool_use", "id": "1", "name": "f", "arguments": {CONTENT: {1}}}]
    },
    "metadata that is text": {"metadata": CONTENT},
    "metadata with a set": {"metadata": {"a": {CONTENT}}},
    "metadata with a surrogate": {"metadata": {"a": [CONTENT + "\udc00"]}},
    "metadata under a key": {"metadata": {CONTENT: {1}}},
    "metadata under a deep key": {"metadata": {"a": [{CONTENT: {CONTENT: {1}}}]}},
    "metadata under a key that is no text": {"metadata": {(CONTENT,): 1}},
    "deep metadata": {"metadata": {"a": DEEP}},
    "a key that is no text": {"key": [CONTENT]},
    "a tag that is no text": {"tags": [{CONTENT}]},
    "a priority that is a set": {"priority": {CONTENT}},
    "a priority that is a word": {"priority": CONTENT},
    "trust that is a number": {"content": CONTENT, "trust": 9},
    "trust that is a word": {"trust": CONTENT},
    "a time to live that is text": {"ttl_s": CONTENT},
    "a pin that is a word": {"pinned": CONTENT},
    "what is too large": {"content": CONTENT * 5_000},
    "an id that is taken": {"content": CONTENT, "id": "live"},
    "an unknown section": {"section": "nowhere", "content": CONTENT},
    "content as a section": {"section": f"{CONTENT} is", "content": "messages"},
}
ASSEMBLED = {
    "a window that is too small": {"query": CONTENT, "budget": 3},
    "a budget that is none": {"query": CONTENT, "budget": -1},
    "a budget that is text": {"budget": CONTENT},
    "a reserve that is text": {"reserve": CONTENT},
    "a confidence that is text": {"min_confidence": CONTENT},
    "a filter that is text": {"filter": CONTENT},
    "a filter with a list": {"filter": {"$or": CONTENT}},
    "a filter in no order": {"filter": {"a": {"$gt": [CONTENT]}}},
    "a filter that exists": {"filter": {"a": {"$exists": CONTENT}}},
    "a filter by a value as condition": {"filter": {f"{CONTENT} is": {f"${CONTENT} is": 1}}},
}
CALLED = {"type": "tool_use", "id": "1", "name": "f"}
MESSAGES = {
    ("openai", "text"): CONTENT,
    ("openai", "content"): {"role": "user", "content": {CONTENT: CONTENT}},
    ("openai", "part"): {"role": "user", "content": [CONTENT]},
    ("openai", "role"): {"role": [CONTENT], "content": CONTENT},
    ("openai", "call"): {"role": "assistant", "tool_calls": [{"id": CONTENT}]},
    ("openai", "call with other fields"): {
        "role": "assistant",
        "tool_calls": [{"id": "1", CONTENT: 1}],
    },
    ("openai", "arguments"): {
        "role": "assistant",
        "tool_calls": [{"id": "1", "function": {"name": "f", "arguments": [CONTENT]}}],
    },
    ("openai", "result"): {"role": "tool", "tool_call_id": [CONTENT], "content": CONTENT},
    ("openai", "audio"): {"role": "assistant", "audio": {"transcript": [CONTENT]}},
    ("anthropic", "text"): CONTENT,
    ("anthropic", "block"): {"role": "user", "content": [{"type": [CONTENT], "text": CONTENT}]},
    ("anthropic", "input"): {"role": "assistant", "content": [{**CALLED, "input": {CONTENT}}]},
    ("anthropic", "keys"): {"role": "assistant", "content": [{**CALLED, "input": {CONTENT: {1}}}]},
    ("anthropic", "source"): {"role": "user", "content": [{"type": "image", "source": CONTENT}]},
}
ENTITIES = {
    "of another type": [CONTENT],
    "without an id": {"name": CONTENT},
    "with an unknown field": {"id": "a", "name": CONTENT, CONTENT: CONTENT},
    "with aliases that are text": {"id": "a", "aliases": CONTENT},
    "with a name that is no text": {"id": "a", "name": [CONTENT]},
    "with properties under a key": {"id": "a", "properties": {CONTENT: {1}}},
}
CHANGES = {"no JSON": [CONTENT, {CONTENT}], "a surrogate": CONTENT + "\ud800"}
STORED_ITEMS = {
    "time": {"created_at": CONTENT},
    "trust": {"trust": CONTENT},
    "content": {"content": [{"type": CONTENT}]},
}


def added(*, section="messages", content="x", **given):
    return MEMORY.add(section, content, **given)


def assembled(*, query=None, **given):
    return MEMORY.assemble_context(query, **{"budget": 9, **given})


def committed(data):
    log, _ = SessionLog.open(IsolatedMemoryFileSystem(), "s")
    return log.commit([Change("", "open", {"version": 1, "a": data})])


BAD_INPUTS = {
    **{name: partial(added, **given) for name, given in ADDED.items()},
    **{name: partial(assembled, **given) for name, given in ASSEMBLED.items()},
    **{
        f"{provider} {name}": partial(MEMORY.add_message, message, format=provider)
        for (provider, name), message in MESSAGES.items()
    },
    **{f"an entity {name}": partial(Entity.of, given) for name, given in ENTITIES.items()},
    **{f"a change with {name}": partial(committed, data) for name, data in CHANGES.items()},
    **{
        f"a stored {name} that is none": partial(Item.from_dict, {**STORED, **given}, "messages")
        for name, given in STORED_ITEMS.items()
    },
    "an update": lambda: MEMORY.update("live", [CONTENT]),
    "what has no room": lambda: (MEMORY.add("small", CONTENT[:9]), MEMORY.add("small", CONTENT)),
    "a query with a surrogate": lambda: MEMORY.search(CONTENT + "\ud800"),
    "a query of another type": lambda: MEMORY.search([CONTENT]),
    "a limit that is text": lambda: MEMORY.search("x", limit=CONTENT),
    "a relationship without an end": lambda: Relationship.of(
        {"source": "a", "description": CONTENT}
    ),
    "a block that is text": lambda: Window("w", block=CONTENT),
    "a rebase that is text": lambda: Window("w", rebase=CONTENT),
    "a session made a pickle": lambda: pickle.dumps(MEMORY),
    "a time that is none": lambda: MEMORY.at(as_of=CONTENT).assemble_context(budget=9),
    "a fact of a time that is none": lambda: InMemoryLongTermMemory().save(
        "a", "x", metadata={"timestamp": CONTENT}
    ),
    "a fact with a time to live of text": lambda: InMemoryLongTermMemory().save(
        "a", "x", ttl=CONTENT
    ),
    "an event with an unknown field": lambda: EventLog.from_lines(
        [json.dumps({"type": "action", CONTENT: 1})]
    ),
    "a stored version that is none": lambda: Archived.from_dict(
        {**STORED, "tokens": CONTENT}, "messages"
    ),
}


@pytest.mark.parametrize("act", BAD_INPUTS.values(), ids=BAD_INPUTS)
async def test_bad_input_is_refused_without_being_shown(act):
    """An error that bad input raises says what is wrong with it and not what it says."""
    shown = told(await refusal(act))
    assert CONTENT not in shown
    assert CONTENT[1:-1] not in shown


async def test_a_relationship_that_is_not_there_is_not_described():
    """The error for an unknown relationship names its ends, not what is said of it."""
    memory = await with_graph()
    shown = told(
        await refusal(
            lambda: memory.graph.remove(relationships=[Relationship("a", "c", "knows", CONTENT).id])
        )
    )
    assert "knows" in shown
    assert CONTENT not in shown


async def stored_lines():
    """A session's log, with an item of every kind of field."""
    memory = SessionMemory.test_mode(session_id="s", sections=SPECS, counter=COUNTER)
    memory.add(
        "messages",
        CONTENT,
        metadata={"a": CONTENT},
        key=CONTENT,
        tags=[CONTENT],
        id="i",
        sources=["z"],
    )
    memory.add("messages", BLOCKS[:1], role="assistant", id="j")
    await memory.save()
    ((path, file),) = (
        (path, file) for path, file in memory.admin.fs.store.items() if "/log/" in path
    )
    return {path.removeprefix("/default/s/"): file.getvalue().split(b"\n")[:-1]}


async def test_damage_is_described_without_what_is_damaged():
    """Errors and notices of damaged files, and of files whose checksums fit and whose values don't, show no value."""
    lines = await stored_lines()
    (path,) = lines
    broken = []
    whole = seal(lines)
    for at in range(0, len(whole[path]), 41):
        broken += [
            {path: whole[path][:at] + byte + whole[path][at + 1 :]}
            for byte in (b"\0", b"\xff", b"x")
        ]
    for at, line in enumerate(lines[path][1:], 1):
        fields = json.loads(line)
        for name in fields["d"]["item"]:
            for value in (
                CONTENT,
                [CONTENT],
                {CONTENT: [CONTENT]},
                [{"type": CONTENT, "text": CONTENT}],
            ):
                item = fields["d"]["item"] | {name: value}
                forged = encoded(fields | {"d": fields["d"] | {"item": item}})
                broken.append(seal({path: [*lines[path][:at], forged, *lines[path][at + 1 :]]}))
        for raw in (b"NaN", b"1e999", b'"\\ud800"', b'{"a":1,"a":2}', b"[" * 100, b'"\xff"'):
            forged = line.replace(b'"created_at":', b'"x":' + raw + b',"created_at":')
            broken.append(seal({path: [*lines[path][:at], forged, *lines[path][at + 1 :]]}))
    refused = 0
    for files in broken:
        for read_only in (False, True):
            try:
                async with SessionMemory.open(
                    in_memory(files), "s", sections=SPECS, counter=COUNTER, read_only=read_only
                ) as memory:
                    assert CONTENT not in "\n".join(memory.notices)
            except Exception as error:
                refused += 1
                assert CONTENT[1:-1] not in told(error)
    assert refused > len(broken) / 4


async def test_reprs_hold_no_content():
    """Items and all that holds them tell what they are and how large, not what they say."""
    memory, graph = filled(), await with_graph()
    context = await memory.assemble_context(CONTENT, budget=400)
    chat = await memory.assemble_context(CONTENT, budget=400, format="openai")
    await memory.save()
    log, recovered = SessionLog.open(memory.admin.fs, "test")
    items = [item for spec in SPECS for item in memory[spec.name]]
    held = [
        *items, *BLOCKS, *(item.message for item in items), *map(Archived, items), ChatMessage("user", CONTENT),
        memory, *(memory[spec.name] for spec in SPECS), graph.graph, *graph.graph, graph.graph.neighbors("a"),
        context, context.rendered, chat, chat.rendered, *context.decisions, context.by_section, context.items,
        log, recovered, *recovered.records, hydrate(recovered, SPECS, COUNTER, None),
        memory["findings"].proposer.propose(Query(CONTENT), cap=100), memory.search(CONTENT), vars(memory),
        Change("", "add", {"a": CONTENT}),
    ]  # fmt: skip
    for each in held:
        assert CONTENT not in repr(each)
        assert CONTENT not in str(each)
        assert CONTENT not in f"{each}"


@pytest.fixture
def records():
    """All that any logger is told, from DEBUG up."""
    seen = []

    class Handler(logging.Handler):
        def emit(self, record):
            seen.append(record)

    root = logging.getLogger()
    handler = Handler(0)
    named = [
        each
        for each in logging.root.manager.loggerDict.values()
        if isinstance(each, logging.Logger)
    ]
    before = [
        (logger, logger.level, logger.disabled, logger.propagate) for logger in (root, *named)
    ]
    for logger in (root, *named):
        logger.setLevel(1)
        logger.disabled = False
        logger.propagate = True
    root.addHandler(handler)
    yield seen
    root.removeHandler(handler)
    for logger, level, disabled, propagate in before:
        logger.setLevel(level)
        logger.disabled = disabled
        logger.propagate = propagate


@asynccontextmanager
async def debugged():
    loop = asyncio.get_running_loop()
    loop.set_debug(True)
    yield
    loop.set_debug(False)


async def test_nothing_is_logged_of_what_a_session_holds(tmp_path, records):
    """With every logger at its lowest level, a session's life, errors included, logs neither content nor secret."""
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "a.md").write_text(f"# {CONTENT}\n\n{CONTENT}\n")
    (tmp_path / "docs" / "b.jsonl").write_text('{"text": "' + CONTENT)
    logging.getLogger("tests").debug("heard")
    secretive = IsolatedMemoryFileSystem(secret=SECRET)
    async with debugged():
        for place in (tmp_path / "root", secretive):
            async with SessionMemory.open(place, "s", counter=COUNTER) as memory:
                report = await memory.ingest(tmp_path / "docs")
                assert CONTENT not in repr(report)
                for number in range(9):
                    memory.add("messages", f"{CONTENT} {number}", metadata={"a": CONTENT})
                await memory.save()
                await memory.assemble_context(CONTENT, budget=900, format="anthropic")
                memory.search(CONTENT)
                for act in BAD_INPUTS.values():
                    await refusal(act)
                log, _ = SessionLog.open(place, "s")
                snapshot(log, ["a"], archived=["b"])
            with suppress(Exception):
                async with SessionMemory.open(
                    place, "s", counter=COUNTER, read_only=True
                ) as memory:
                    await memory.assemble_context(CONTENT, budget=900)
            await delete_session(place, "s")
        for url in URLS:
            await refusal(lambda url=url: list_sessions(url.format(SECRET, SECRET)))
    assert "heard" in [record.getMessage() for record in records]
    for record in records:
        shown = f"{record.getMessage()} {record.args!r} {record.exc_text} {vars(record)!r}"
        assert CONTENT not in shown
        assert SECRET not in shown
