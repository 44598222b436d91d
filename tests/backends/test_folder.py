"""Blobs in a folder: what a killed upload leaves, URLs, media types, expired bytes."""

from urllib.request import urlopen

import pytest

from kaosmem import CorruptionError, DurabilityError, InvalidArgumentError
from kaosmem.backends import FolderFileStore
from kaosmem.errors import MissingFileError
from kaosmem.persistence.storage.objects import IsolatedMemoryFileSystem
from kaosmem.testing.contracts.store import Clock


def files_in(folder):
    """The files with bytes, and foreign ones; those that hold the keys stand beside them, one for each key."""
    files = [path for path in folder.rglob("*") if path.is_file()]
    keys = {path.parent.parent for path in files if path.parent.name == "key"}
    assert keys == {path.parent.parent for path in files if path.name[:1].isdigit()}
    return sorted(path for path in files if path.parent.name != "key")


async def test_what_a_killed_upload_leaves_is_neither_read_nor_kept(tmp_path):
    """Older bytes that were not deleted, and newer ones that are not whole, are passed over and deleted next time."""
    store = FolderFileStore(tmp_path)
    await store.upload("a", b"old", content_type="text/plain")
    (old,) = files_in(tmp_path)
    kept = old.read_bytes()
    await store.upload("a", b"new", content_type="text/plain")
    (new,) = files_in(tmp_path)
    old.write_bytes(kept)
    torn = new.with_name(new.name.replace("000000000002-", "000000000003-", 1))
    torn.write_bytes(b"n")
    (new.parent / "notes of somebody else").write_bytes(b"?")
    assert await store.download("a") == b"new"
    await store.upload("a", b"newest", content_type="text/plain")
    assert await store.download("a") == b"newest"
    assert len(files_in(tmp_path)) == 2  # and the notes
    await store.delete("a")
    assert [path.name for path in files_in(tmp_path)] == ["notes of somebody else"]


async def test_bytes_that_have_changed_fail_their_checksum(tmp_path):
    """One bit is enough, and so is a lost end where no older bytes are whole."""
    store = FolderFileStore(tmp_path)
    await store.upload("a", b"rent,900", content_type="text/csv")
    (file,) = files_in(tmp_path)
    for changed in (b"rent,901", b"rent,9"):
        file.write_bytes(changed)
        with pytest.raises(CorruptionError, match="have changed"):
            await store.download("a")
    await store.upload("a", b"rent,950", content_type="text/csv")
    assert await store.download("a") == b"rent,950"


async def test_a_url_gives_the_bytes(tmp_path):
    """On a local disk without a server; the store also tells the media type."""
    store = FolderFileStore(tmp_path)
    await store.upload("reports/a b#1.csv", b"a,b", content_type="text/csv; charset=utf-8")
    with urlopen(await store.presign_url("reports/a b#1.csv")) as response:
        assert response.read() == b"a,b"
    assert (await store.describe("reports/a b#1.csv")).content_type == "text/csv; charset=utf-8"
    with pytest.raises(MissingFileError):
        await store.describe("none")
    with pytest.raises(InvalidArgumentError, match="give a media type such as text/csv"):
        await store.upload("a", b"", content_type="x" * 129)
    assert (await FolderFileStore(IsolatedMemoryFileSystem()).connect()) is None


@pytest.mark.parametrize("local", [True, False])
async def test_expired_bytes_are_deleted_on_request(local, tmp_path):
    """Those of every key; bytes that live on stay."""
    clock = Clock()
    place = tmp_path if local else IsolatedMemoryFileSystem()
    store = FolderFileStore(place, clock=clock)
    for number in range(5):
        await store.upload(f"brief {number}", b"1", content_type="text/plain", ttl=60)
    await store.upload("lasting", b"1", content_type="text/plain")
    assert await store.delete_expired() == 0
    clock.advance(60)
    assert await store.delete_expired() == 5
    assert await store.delete_expired() == 0
    assert await store.download("lasting") == b"1"
    assert not local or len(files_in(tmp_path)) == 1


async def test_a_place_that_cannot_hold_blobs_is_named(tmp_path):
    """A file where a folder has to be is a typed error, and nothing is stored."""
    (tmp_path / "blobs").mkdir()
    for number in range(256):
        (tmp_path / "blobs" / f"{number:02x}").write_bytes(b"")
    with pytest.raises((DurabilityError, ValueError), match="place"):
        await FolderFileStore(tmp_path / "blobs").upload("a", b"1", content_type="text/plain")
