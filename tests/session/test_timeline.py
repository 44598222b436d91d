"""Two clocks: what held at a time, and what a session had been told by a time, exact against a plain model."""

import asyncio
from datetime import UTC, datetime

import pytest
from hypothesis import example, given, settings

from kaosmem import (
    CorruptionError,
    InvalidArgumentError,
    NotFoundError,
    Reason,
    SessionMemory,
    SessionOptions,
)
from kaosmem.persistence import log as session_log
from tests.told import COMPACTED, NAMES, WHOLE, World, hour, moments, ops


@given(ops, moments, moments)
@example([("add", 1, "a", None, 0), ("add", 1, "a", 30, 0), ("remove", 0, None, None, 1)], 35, None)
@example([("add", 1, "a", None, 0), ("add", 1, "a", 30, 0), ("forget", 0, None, None, 1)], 35, None)
@example([("add", 1, "a", None, 0), ("add", 1, "a", 30, 0), ("save", 0, None, None, 1)], None, 3)
def test_what_held_and_was_known_is_exact(steps, as_of, known_at):
    """Whatever was added, replaced, updated, removed, evicted, compacted, forgotten and reopened."""
    asyncio.run(_is_exact(steps, as_of, known_at))


async def _is_exact(steps, as_of, known_at):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(session_log, "MIN_LOG_BYTES", 500)
        world = World()
        memory = await world.run(steps)
    times = {
        name: hour(at) for name, at in (("as_of", as_of), ("known_at", known_at)) if at is not None
    }
    sections = await memory._session.version_history.sections_at(
        as_of=times.get("as_of"), known_at=times.get("known_at")
    )
    found = sorted(
        (name, item.id, item.text) for name, section in sections.items() for item in section
    )
    assert found == world.model.shown(as_of, known_at)
    if times:
        context = await memory.at(**times).assemble_context(
            "", budget=10_000, sections=[spec.name for spec in WHOLE]
        )
        shown = sorted((item.section, item.id, item.text) for item in context.items)
        assert shown == [each for each in found if each[0] != COMPACTED.name]
        assert all(context.decision(item.id).included for item in context.items)


@given(ops)
@settings(max_examples=10)
def test_versions_are_all_that_had_a_key(steps):
    """Live, superseded, evicted, compacted and removed ones, in any process, each until its successor began."""
    asyncio.run(_are_versions(steps))


async def _are_versions(steps):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(session_log, "MIN_LOG_BYTES", 500)
        world = World()
        memory = await world.run(steps)
    for key in "ab":
        for name in NAMES:
            fact = [each for each in world.model.told if (each.section, each.key) == (name, key)]
            expected = []
            for at, each in enumerate(fact):
                if each.is_taken_back():
                    begin, ends = each.began, [end for end, _ in each.ends]
                else:
                    begin, ends = world.model.interval(each, fact)
                    ends += [max(begin, end) for end, _ in each.ends]
                text = each.contents[-1][1]
                expected.append((begin, at, each.id, text, min(ends, default=None), each.told_at))
            versions = await memory.versions(key, name)
            assert [
                (
                    version.item.id,
                    version.item.text,
                    version.valid_from,
                    version.valid_until,
                    version.known_from,
                )
                for version in versions
            ] == [
                (item_id, text, hour(begin), None if end is None else hour(end), hour(told))
                for begin, _, item_id, text, end, told in sorted(expected)
            ]
        everywhere = await memory.versions(key)
        assert len(everywhere) == sum(each.key == key for each in world.model.told)
        assert [each.valid_from for each in everywhere] == sorted(
            each.valid_from for each in everywhere
        )


async def test_times_are_datetimes_or_texts():
    """A day is its first moment, and a time without a zone is in UTC."""
    memory = SessionMemory.test_mode()
    for day, name in (("2023-05-08", "Ann"), ("2024-06-01", "Bob")):
        memory.add(
            "findings", f"{name} owns the deal.", key="owner", metadata={"timestamp": day}, id=name
        )
    for as_of in (
        "2024-05-31",
        "2023-05-08",
        datetime(2024, 5, 31, 23),
        datetime(2024, 5, 31, tzinfo=UTC).date(),
    ):
        context = await memory.at(as_of=as_of).assemble_context("owner", budget=100)
        assert [item.id for item in context.items] == ["Ann"]
        assert context.decision("Bob").reason is Reason.FILTERED
    assert [
        item.id
        for item in (await memory.at(as_of="2024-06-01").assemble_context("", budget=100)).items
    ] == ["Bob"]
    for before in ("2023-05-07", "2023-05", "2023"):
        assert (await memory.at(as_of=before).assemble_context("", budget=100)).items == ()
    for wrong in ("yesterday", 7, 2024.5):
        with pytest.raises(
            InvalidArgumentError, match=r"known_at is .*; give a datetime, or a text in ISO 8601"
        ):
            await memory.at(known_at=wrong).assemble_context("", budget=100)


async def test_another_sessions_section_leaves_newer_items_out():
    """An attached section shows items that had begun and were known at the times that are asked for."""
    theirs = SessionMemory.test_mode()
    memory = SessionMemory.test_mode()
    for day in ("2023-01-01", "2024-01-01"):
        theirs.add("findings", f"said on {day}", metadata={"timestamp": day})
    await memory.attach(theirs["findings"])
    context = await memory.at(as_of="2023-06-01").assemble_context("", budget=100)
    assert [item.text for item in context.items] == ["said on 2023-01-01"]
    assert (await memory.at(known_at="2023-06-01").assemble_context("", budget=100)).items == ()


async def test_versions_of_an_unknown_key_are_none():
    memory = SessionMemory.test_mode()
    assert await memory.versions("owner") == []
    with pytest.raises(NotFoundError):
        await memory.versions("owner", "nowhere")


@pytest.mark.parametrize("read_only", [False, True])
async def test_a_damaged_version_is_named(tmp_path, monkeypatch, read_only):
    """A session for writing raises with the file; a read-only one has the other versions and says what is damaged."""
    monkeypatch.setattr(session_log, "MIN_LOG_BYTES", 100)
    async with SessionMemory.open(tmp_path, sections=WHOLE) as memory:
        for number in range(4):
            memory.add("kept", f"value {number} " * 20, key="k")
    (path,) = tmp_path.rglob("archive/*.jsonl")
    path.write_bytes(path.read_bytes().replace(b"value 1 value 1", b"value 1 value 7"))
    async with SessionMemory.open(tmp_path, sections=WHOLE, read_only=read_only) as memory:
        if not read_only:
            with pytest.raises(CorruptionError, match=r"archive.*is damaged at byte"):
                await memory.versions("k")
            return
        assert [version.item.text.split()[1] for version in await memory.versions("k")] == [
            "0",
            "2",
            "3",
        ]
        assert memory.damage


async def test_a_question_about_the_past_is_asked_as_the_session_knew_it():
    """With known_at, the current version is the one of that time, and the replaced ones are those known then."""
    memory = SessionMemory.test_mode(
        options=SessionOptions(clock=(times := iter(map(hour, range(99)))).__next__)
    )
    made = [
        memory.add("findings", f"{name} owns the deal.", key="owner")
        for name in ("Ann", "Bob", "Eve")
    ]
    at = made[1].created_at
    now = await memory.at(known_at=at).assemble_context("Who owns the deal?", budget=200)
    assert [item.text for item in now.items] == ["Bob owns the deal."]
    before = await memory.at(known_at=at).assemble_context("Who owned the deal before?", budget=200)
    assert before.text == (
        "## findings\n[until 1 January 2024] Ann owns the deal.\n[since 1 January 2024] Bob owns "
        "the deal.\n"
    )
    assert next(times)
