"""Blobs in a bucket of a real S3 server."""

from contextlib import asynccontextmanager
from itertools import count
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest
from obstore.store import S3Store

from kaosmem import CorruptionError, DurabilityError
from kaosmem.backends import S3FileStore
from kaosmem.errors import InvalidArgumentError, InvalidNameError, MissingFileError
from kaosmem.testing.contracts.store import Clock
from tests.backends.hostile_values import HostileValues
from tests.servers import check_example
from tests.stores.compared import ComparedBlob

_TEXT = "text/plain"
_tenants = count(1)


@pytest.fixture(scope="module")
def s3(s3_of_all):
    s3_of_all.filesystem().mkdir("blobs")
    return s3_of_all


def files(s3, clock, tenant="", **options):
    """Return the store of a tenant, by default of a new one."""
    settings = {
        "endpoint": s3.url,
        "access_key_id": s3.key,
        "secret_access_key": s3.secret,
        "region": "us-east-1",
    }
    return S3FileStore(f"s3://blobs/{tenant or next(_tenants)}", clock=clock, **settings | options)


class TestFilesOnS3(ComparedBlob):
    examples, steps = 5, 15

    @pytest.fixture(autouse=True)
    def _server(self, s3):
        self.s3 = s3

    async def make(self):
        self.tenant = str(next(_tenants))
        return files(self.s3, self.clock, self.tenant)

    async def reopen(self, store):
        return files(self.s3, self.clock, self.tenant)


class TestHostileValuesOnS3(HostileValues):
    @pytest.fixture(autouse=True)
    def _server(self, s3):
        self.s3 = s3

    @asynccontextmanager
    async def given(self):
        yield {"files": files(self.s3, Clock())}


async def test_large_bytes_are_stored_in_parts(s3):
    """More than two parts come back unchanged."""
    store = files(s3, Clock())
    data = bytes(range(256)) * 4_096 * 12
    await store.upload("big", data, content_type="application/zip")
    assert await store.download("big") == data


async def test_a_signed_url_gives_the_bytes_with_their_media_type(s3):
    """Anybody who has the URL can read the bytes; nobody can read them by the plain URL."""
    store = files(s3, Clock())
    await store.upload("größe/☃ 50%.csv", b"a,b", content_type="text/csv")
    url = await store.presign_url("größe/☃ 50%.csv", expires_s=60)
    with urlopen(url) as answer:
        assert answer.read() == b"a,b"
        assert answer.headers["Content-Type"] == "text/csv"
    with pytest.raises(HTTPError) as refused:
        urlopen(url.replace("X-Amz-Signature=", "X-Amz-Signature=0"))
    refused.value.close()


async def test_expired_objects_are_deleted_on_request(s3):
    """Their number is returned, and the others stay."""
    clock = Clock()
    tenant = str(next(_tenants))
    store = files(s3, clock, tenant)
    for number in range(3):
        await store.upload(f"short-{number}", b"1", content_type=_TEXT, ttl=60)
    await store.upload("long", b"1", content_type=_TEXT, ttl=600)
    await store.upload("forever", b"1", content_type=_TEXT)
    clock.advance(60)
    assert await store.delete_expired() == 3
    assert len(s3.filesystem().find(f"blobs/{tenant}")) == 2
    assert await store.delete_expired() == 0


async def test_a_tenant_sees_nothing_of_another(s3):
    """Neither by the same key, nor by a key that climbs out of its prefix."""
    one = files(s3, Clock(), "one")
    other = files(s3, Clock(), "other")
    await one.upload("a", b"secret", content_type=_TEXT)
    for key in ("a", "../one/a", "../one/k-a", "/one/k-a"):
        with pytest.raises(MissingFileError):
            await other.download(key)
    assert await other.delete_expired() == 0
    await other.delete("../one/k-a")
    assert await one.download("a") == b"secret"


async def test_other_programs_find_the_objects_by_their_keys(s3):
    """An object is named as its key.

    Objects of others are listed and read, and stay when the store is emptied.
    """
    tenant = str(next(_tenants))
    bucket = s3.filesystem()
    store = files(s3, Clock(), tenant)
    await store.upload("dir/report.csv", b"rent,900", content_type="text/csv")
    assert bucket.cat_file(f"blobs/{tenant}/dir/report.csv") == b"rent,900"
    bucket.pipe_file(f"blobs/{tenant}/theirs/notes.txt", b"from another program")
    assert await store.list_keys() == ["dir/report.csv", "theirs/notes.txt"]
    assert await store.download("theirs/notes.txt") == b"from another program"
    await store.delete_all()
    assert await store.list_keys() == ["theirs/notes.txt"]


@pytest.mark.parametrize(
    "key",
    [
        "/a",
        "a/",
        "a//b",
        "./a",
        "a/../b",
        "..",
        "a\\b",
        ".kaosmem/keys/k-a",
        "ü/" * 128,
    ],
)
async def test_a_key_that_no_object_can_have_as_its_name_is_stored_all_the_same(s3, key):
    """Beside the key that it looks like, under a name that no key has."""
    store = files(s3, Clock())
    alike = ("a", "a/b", "b", "k-a")
    for each in (*alike, key):
        await store.upload(each, each.encode(), content_type=_TEXT)
    assert await store.list_keys() == sorted((*alike, key))
    await store.delete(key)
    assert await store.list_keys() == sorted(alike)
    for each in alike:
        assert await store.download(each) == each.encode()


async def test_bytes_that_have_changed_fail_their_checksum(s3):
    """A download compares the bytes with the checksum of their upload."""
    tenant = str(next(_tenants))
    store = files(s3, Clock(), tenant)
    await store.upload("whole", b"rent,900", content_type=_TEXT)
    change_bytes(s3, f"{tenant}/whole")
    with pytest.raises(CorruptionError, match="have changed"):
        await store.download("whole")


def change_bytes(s3, path):
    """Change the last byte of an object, and leave its metadata."""
    options = {
        "endpoint": s3.url,
        "access_key_id": s3.key,
        "secret_access_key": s3.secret,
        "region": "us-east-1",
    }
    store = S3Store.from_url("s3://blobs", client_options={"allow_http": True}, **options)
    found = store.get(path)
    data = bytes(found.bytes())
    store.put(path, data[:-1] + bytes([data[-1] ^ 1]), attributes=found.attributes)


async def test_a_server_that_fails_raises_a_typed_error_without_credentials(s3):
    """A missing bucket, a wrong key and a server that is away are told apart from missing bytes."""
    away = {"endpoint": "http://127.0.0.1:9", "timeout_s": 1}
    for store in (files(s3, Clock(), **away), files(s3, Clock(), secret_access_key="wrong")):
        with pytest.raises(DurabilityError) as caught:
            await store.upload("a", b"1", content_type=_TEXT)
        assert s3.secret not in str(caught.value)
        with pytest.raises(DurabilityError):
            await store.download("a")


def test_settings_that_cannot_be_used_are_refused():
    """A URL of another kind is an InvalidNameError, and its message shows no credentials."""
    for url in ("http://user:hidden@host/x", "bucket", ""):
        with pytest.raises(InvalidNameError) as caught:
            S3FileStore(url)
        assert "hidden" not in str(caught.value)


async def test_a_media_type_that_no_header_can_hold_is_refused(s3):
    """Nothing is stored."""
    store = files(s3, Clock())
    with pytest.raises(InvalidArgumentError, match="text/csv"):
        await store.upload("a", b"1", content_type="text/größe\n")
    with pytest.raises(MissingFileError):
        await store.download("a")


def test_the_example_of_the_docs_runs(s3, monkeypatch):
    """With keys and endpoint in the environment it prints the text below it."""
    settings = {
        "ENDPOINT": s3.url,
        "ACCESS_KEY_ID": s3.key,
        "SECRET_ACCESS_KEY": s3.secret,
        "REGION": "us-east-1",
    }
    for name, value in settings.items():
        monkeypatch.setenv(f"AWS_{name}", value)
    check_example("s3", "agent-files", "blobs")
