"""Sessions on an S3 server: writers at once, versions of objects, and a network that stands still."""

import asyncio
from contextlib import suppress
from itertools import chain, count
from urllib.parse import urlsplit

import pytest
from fsspec.implementations.dirfs import DirFileSystem
from hypothesis import settings
from hypothesis.stateful import run_state_machine_as_test

from kaosmem import (
    ConflictError,
    DurabilityError,
    NotFoundError,
    SectionSpec,
    SessionMemory,
    SessionOptions,
)
from kaosmem.persistence.steps import Read, ReadParts, Write
from kaosmem.persistence.storage import objects
from kaosmem.persistence.storage.objects import ObjectStorage
from kaosmem.session import ErasureReceipt, delete_namespace, list_namespaces, stored_sessions
from kaosmem.session.directory import delete_session, list_sessions
from tests.faulty_network import network
from tests.many_writers import SECTIONS, SESSION, processes, said, talk
from tests.persistence.storage_machine import StorageMachine

_places = count(1)


@pytest.fixture(scope="module")
def s3(s3_of_all):
    s3_of_all.filesystem().mkdir("sessions")
    return s3_of_all


@pytest.fixture
def place(s3):
    """An empty place to keep sessions."""
    return a_place(s3)


def a_place(s3):
    return DirFileSystem(path=f"sessions/{next(_places)}", fs=s3.filesystem())


def a_copy(s3, place):
    """Return the same place as another process opens it."""
    return DirFileSystem(path=place.path, fs=s3.filesystem())


def test_a_bucket_does_what_a_session_asks_of_it(s3):
    """Files are stored, listed, read and deleted, and of several that create one file a single one wins."""

    class OnS3(StorageMachine):
        def place(self):
            return a_place(s3)

    few = settings(max_examples=1, stateful_step_count=6)
    run_state_machine_as_test(OnS3, settings=few)


def test_processes_that_write_at_once_lose_nothing(place):
    """Each of two processes adds its messages to one session; all of them are there, once, in each one's order."""
    turns = 3
    with processes(talk, *((place, name, turns) for name in "ab")) as heard:
        acknowledged = said(heard)
    assert acknowledged == [[f"{name}-{turn}" for turn in range(turns)] for name in "ab"]

    async def stored():
        async with SessionMemory.open(
            place, SESSION, sections=SECTIONS, counter="estimate", read_only=True
        ) as memory:
            return [item.id for item in memory["messages"]]

    found = asyncio.run(stored())
    assert len(found) == 2 * turns
    for one in acknowledged:
        assert [item_id for item_id in found if item_id in one] == one


def test_an_object_is_read_in_one_request(place, monkeypatch):
    """Nobody asks for the size of an object first.

    An empty object has no range, and is read all the same.
    """
    storage = ObjectStorage(place, "s")
    storage.perform(Write("log/full", [b"four"]))
    storage.perform(Write("log/empty", []))
    asked = []
    ask = type(place.fs)._call_s3

    async def noted(filesystem, method, *given, **named):
        asked.append(method)
        return await ask(filesystem, method, *given, **named)

    monkeypatch.setattr(type(place.fs), "_call_s3", noted)
    assert storage.perform(Read("log/full")) == b"four"
    assert asked == ["get_object"]
    assert storage.perform(ReadParts((("log/full", 1, 2),))) == [b"ou"]
    assert storage.perform(Read("log/empty")) == b""
    with pytest.raises(FileNotFoundError):
        storage.perform(Read("log/none"))


async def test_a_bucket_with_versioning_keeps_what_is_forgotten_and_the_receipt_says_so(
    s3,
):
    """Also if versioning was suspended since.

    `verify` names old versions until they are deleted.
    """
    filesystem = s3.filesystem()
    filesystem.mkdir("versions")
    filesystem.make_bucket_versioned("versions")
    place = DirFileSystem(path="versions/a", fs=filesystem)
    async with SessionMemory.open(
        place, "s", sections=(SectionSpec("findings", 10**6),), counter="estimate"
    ) as memory:
        memory.add("findings", "the code is 4711-0815", id="short")
        memory.add("findings", "the code is 4711-0815" + " filler" * 20_000, id="long")
        await memory.save()
        receipt = await memory.forget("short", "long")
        assert receipt.old_versions == "kept"
        assert ErasureReceipt.from_dict(receipt.to_dict()) == receipt
        for _ in range(3):  # what is stored after the erasure has old versions, too
            memory.add("findings", "stays")
            await memory.save()
        (reason,) = await memory.admin.verify(receipt)
        assert reason.startswith("the bucket keeps old versions of ")
        assert "'log/" in reason
        filesystem.make_bucket_versioned("versions", False)
        assert await memory.admin.verify(receipt) == (reason,)
        assert (await memory.forget(memory.add("findings", "later").id)).old_versions == "kept"
        _delete_old_versions(filesystem, "versions")
        assert await memory.admin.verify(receipt) == ()
        assert len(memory["findings"]) == 3


def _delete_old_versions(filesystem, bucket):
    listed = filesystem.call_s3("list_object_versions", Bucket=bucket)
    for version in listed["Versions"]:
        if not version["IsLatest"]:
            filesystem.call_s3(
                "delete_object", Bucket=bucket, Key=version["Key"], VersionId=version["VersionId"]
            )


_REMEDY = "allow s3:GetBucketVersioning and s3:ListBucketVersions"


async def test_a_bucket_without_versioning_is_told_from_one_that_refuses_to_tell(s3, monkeypatch):
    """A refusal makes the receipt say "unknown" and is a reason; the erasure itself goes on."""
    async with SessionMemory.open(a_place(s3), "s", counter="estimate") as memory:
        receipt = await memory.forget(memory.add("findings", "one").id)
        assert receipt.old_versions == "none"
        assert await memory.admin.verify(receipt) == ()
    for refused, reasons in (
        (("get_bucket_versioning",), ()),  # the versions can be listed, and there are none
        (("get_bucket_versioning", "list_object_versions"), (_REMEDY,)),
    ):
        place = a_place(s3)
        ask = place.fs.call_s3

        def told(method, *given, **named):
            if method in refused:  # noqa: B023
                raise PermissionError("access denied")
            return ask(method, *given, **named)  # noqa: B023

        monkeypatch.setattr(place.fs, "call_s3", told)
        async with SessionMemory.open(place, "s", counter="estimate") as memory:
            memory.add("findings", "one", id="one")
            await memory.save()
            receipt = await memory.forget("one")
            assert receipt.old_versions == "unknown"
            found = await memory.admin.verify(receipt)
        assert len(found) == len(reasons)
        for reason, remedy in zip(found, reasons, strict=True):
            assert remedy in reason


async def test_saving_over_a_network_that_stands_still_ends(s3, monkeypatch):
    """With a typed error; once the network works again, the same session stores the same items."""
    impatient = {"retries": {"total_max_attempts": 1}, "connect_timeout": 2, "read_timeout": 2}
    with network(urlsplit(s3.url).netloc) as way:
        filesystem = s3.filesystem(
            endpoint_url=f"http://127.0.0.1:{way.port}", config_kwargs=impatient
        )
        filesystem.retries = 1
        place = DirFileSystem(path=f"sessions/{next(_places)}", fs=filesystem)
        async with SessionMemory.open(place, "s", counter="estimate") as memory:
            memory.add("findings", "before")
            await memory.save()
            memory.add("findings", "after")
            way.hold()
            with monkeypatch.context() as patch, pytest.raises(DurabilityError, match="try again"):
                patch.setattr(objects, "_PUT_LIMIT_S", 0.5)
                await memory.save()
            way.release()
            await memory.save()
        async with SessionMemory.open(
            a_copy(s3, place), "s", counter="estimate", read_only=True
        ) as stored:
            assert [item.text for item in stored["findings"]] == ["before", "after"]


def test_a_listing_shows_what_other_workers_stored(s3, place):
    """A filesystem that keeps listings is asked anew each time."""
    mine = ObjectStorage(place, "s")
    others = ObjectStorage(a_copy(s3, place), "s")
    for number in range(1, 4):
        others.perform(Write(f"log/{number}", [b"1"]))
        assert sorted(mine.sizes("log")) == [str(each) for each in range(1, number + 1)]


async def test_deleted_sessions_are_listed_no_more(place):
    """The server keeps the folders of deleted objects for minutes.

    They are neither sessions nor namespaces.
    """
    for namespace in ("acme", "globex"):
        async with SessionMemory.open(place, "deal-42", namespace=namespace) as memory:
            memory.add("findings", "Ann owns the deal.")
    assert await list_namespaces(place) == ["acme", "globex"]
    assert await delete_namespace(place, "acme") == ["deal-42"]
    assert await list_sessions(place, "acme") == []
    assert await stored_sessions(place, "acme") == []
    assert await list_namespaces(place) == ["globex"]


async def test_a_session_that_is_deleted_while_it_is_written_says_so(place):
    """The deleted session is unknown at once, its writer gets a typed error, and a new session can take the name."""
    async with SessionMemory.open(place, "s", counter="estimate") as memory:
        memory.add("findings", "before")
        await memory.save()
        await delete_session(place, "s")
        with pytest.raises(NotFoundError):
            await SessionMemory.open(place, "s", counter="estimate", read_only=True).__aenter__()
        memory.add("findings", "after")
        with pytest.raises((ConflictError, DurabilityError)):
            await memory.save()
    async with SessionMemory.open(place, "s", counter="estimate") as memory:
        memory.add("findings", "new")
    async with SessionMemory.open(place, "s", counter="estimate", read_only=True) as memory:
        assert [item.text for item in memory["findings"]] == ["new"]


async def test_a_save_that_is_cancelled_stores_all_or_nothing(s3):
    """Whenever its caller gives up; the next save stores the rest."""
    with network(urlsplit(s3.url).netloc) as way:
        filesystem = s3.filesystem(endpoint_url=f"http://127.0.0.1:{way.port}")
        place = DirFileSystem(path=f"sessions/{next(_places)}", fs=filesystem)
        pairs = [[f"{number} one", f"{number} two"] for number in range(6)]
        async with SessionMemory.open(place, "s", counter="estimate") as memory:
            way.delay_s = 0.02
            for number, pair in enumerate(pairs):
                memory.add_many("findings", pair)
                saving = asyncio.create_task(memory.save())
                await asyncio.sleep(0.01 * number)
                saving.cancel()
                with suppress(asyncio.CancelledError):
                    await saving
            way.delay_s = 0
            async with SessionMemory.open(
                a_copy(s3, place),
                "s",
                counter="estimate",
                read_only=True,
                options=SessionOptions(missing_ok=True),
            ) as stored:
                found = [item.text for item in stored["findings"]]
            assert found == list(chain.from_iterable(pairs))[: len(found)]
            assert len(found) % 2 == 0
            await memory.save()
        async with SessionMemory.open(
            a_copy(s3, place), "s", counter="estimate", read_only=True
        ) as stored:
            assert [item.text for item in stored["findings"]] == list(chain.from_iterable(pairs))
