"""Real servers that a test starts itself, from wheels that the extra `test` installs.

A URL in the environment takes the place of a server that is started here: `KAOSMEM_TEST_S3_URL`,
`KAOSMEM_TEST_POSTGRES_URL`, `KAOSMEM_TEST_REDIS_URL`.
"""

from __future__ import annotations

import io
import os
import re
import time
from contextlib import ExitStack, contextmanager, redirect_stdout
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from unittest.mock import patch

import pytest

from tests.console import Console
from tests.local_servers import (
    PASSWORD,
    NotInstalledError,
    PostgresServer,
    RedisServer,
    S3Server,
)

_CLUSTER_BUS = 10_000
"""A cluster of Valkey takes a second port, this much above its port."""


def check_example(server, written, real):
    """Run the example of docs/stores-that-last.md that needs a server, and check what it prints.

    written: the address on the page, in whose place the real one is used.
    """
    page = (Path(__file__).parent.parent / "docs" / "stores-that-last.md").read_text()
    marked = rf"<!-- example with a server: {server} -->\n```python\n(.*?)```\n\n```\n(.*?)```"
    ((text, printed),) = re.findall(marked, page, re.DOTALL)
    assert written in text
    with (
        patch("sys.displayhook", lambda _: None),
        redirect_stdout(io.StringIO()) as output,
        Console() as console,
    ):
        console.run(text.replace(written, real))
    assert output.getvalue() == printed


@dataclass(frozen=True)
class S3:
    """An S3 server.

    `filesystem()` is a new connection to it, with caches of its own; `opened` closes them all.
    """

    url: str
    key: str
    secret: str
    opened: ExitStack = field(default_factory=ExitStack, repr=False, compare=False)

    def filesystem(self, **options):
        import s3fs

        filesystem = s3fs.S3FileSystem(**(self.options() | options))
        self.opened.callback(_disconnect, filesystem)
        return filesystem

    def options(self):
        """Return the options that fsspec takes beside an `s3://` URL."""
        return {
            "key": self.key,
            "secret": self.secret,
            "endpoint_url": self.url,
            "client_kwargs": {"region_name": "us-east-1"},
            "skip_instance_cache": True,
        }


@contextmanager
def s3_server():
    """Run an S3 server with a folder of its own, or use the one that `KAOSMEM_TEST_S3_URL` names.

    Credentials of a named server are in `AWS_ACCESS_KEY_ID` and `AWS_SECRET_ACCESS_KEY`.
    """
    if url := os.environ.get("KAOSMEM_TEST_S3_URL"):
        s3 = S3(url, os.environ["AWS_ACCESS_KEY_ID"], os.environ["AWS_SECRET_ACCESS_KEY"])
        with s3.opened:
            yield s3
        return
    with running(S3Server) as local:
        s3 = S3(local.url, S3Server.key, PASSWORD)
        with s3.opened:
            yield s3


def _disconnect(filesystem):
    """Close the sockets of a filesystem on its own event loop.

    Left to itself s3fs closes them when the filesystem is collected: on the loop of the test that
    runs just then, which may end too early, or within 0.1 s.
    """
    from fsspec.asyn import sync

    if filesystem._s3 is not None:
        sync(filesystem.loop, filesystem._s3creator.__aexit__, None, None, None)


@contextmanager
def postgres_server():
    """Run PostgreSQL with the extensions `vector` and `age`, or use `KAOSMEM_TEST_POSTGRES_URL`; yield a URL.

    The URL is that of a role without special rights, which owns its database. A given URL should be like that.
    """
    if url := os.environ.get("KAOSMEM_TEST_POSTGRES_URL"):
        yield url
        return
    with own_postgres_server() as local:
        yield local.url


@contextmanager
def own_postgres_server():
    """Run PostgreSQL; yield a server that a test may stop and start again."""
    import psycopg

    with running(PostgresServer) as local:
        owner = local.url.replace("//app:", "//postgres:")
        with psycopg.connect(owner, autocommit=True) as connection:
            # 4,096 take 8 ms of CPU for each connection.
            connection.execute("SET scram_iterations = 1")
            connection.execute(f"ALTER ROLE app PASSWORD '{PASSWORD}'")
        yield local


@contextmanager
def redis_server():
    """Run Valkey, or use the server that `KAOSMEM_TEST_REDIS_URL` names; yield its URL."""
    if url := os.environ.get("KAOSMEM_TEST_REDIS_URL"):
        yield url
        return
    with own_redis_server() as local:
        yield local.url


@contextmanager
def own_redis_server(*, cluster=False, durable=False):
    """Run Valkey; yield a server that a test may stop and start again.

    cluster: as a cluster of one node. durable: whether acknowledged changes survive.
    """
    settings = {"appendonly": "yes" if durable else "no"}
    if cluster:
        settings["cluster-enabled"] = "yes"
    with running(partial(RedisServer, settings=settings, twin=_CLUSTER_BUS)) as local:
        if cluster:
            _serve_all_slots(local.url)
        yield local


def _serve_all_slots(url):
    import redis

    with redis.Redis.from_url(url) as client:
        client.execute_command("CLUSTER", "ADDSLOTSRANGE", 0, 16383)
        until = time.monotonic() + 60
        while "cluster_state:ok" not in str(client.execute_command("CLUSTER", "INFO")):
            assert time.monotonic() < until
            time.sleep(0.05)


@contextmanager
def running(make):
    """Run a server in a temporary folder.

    Skip the test where there is no wheel of it.
    """
    with TemporaryDirectory(prefix="kaosmem-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        folder.chmod(0o711)  # another user may have to enter
        local = make(folder)
        try:
            local.start()
            yield local
        except NotInstalledError as error:
            pytest.skip(str(error))
        finally:
            local.stop()
